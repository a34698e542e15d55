"""A Service over tables that are not ours: what `open_tables` does, and ``tables`` of pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from triptych.chunking import default_chunkers
from triptych.contracts import LLM, Embedder, Ranker
from triptych.errors import NotAvailableError, ValidationError
from triptych.service import Service, ServiceOptions

__all__ = ["TABLE_KEYS", "open_tables"]

TABLE_KEYS = ("tables", "url", "embedder", "language")
"""The keys of a pipeline over tables, beside those of every pipeline."""


def open_tables(
    url: str,
    tables: Sequence[Mapping[str, Any]],
    *,
    embedder: Embedder | str | None = None,
    language: str = "english",
    ranker: Ranker | None = None,
    llm: LLM | None = None,
) -> Service:
    """A Service that searches tables of a PostgreSQL database where they are.

    Each table is a dataset, each of its rows a document. Nothing is written: a role that may
    SELECT is enough. The database is asked when the Service is first used. Close the Service, which
    closes an embedder that was made here.

    Args:
        url: ``postgresql://user@host/database``; options are libpq's, ``statement_timeout`` (30
            seconds) and ``pool_size`` (8 connections).
        tables: what to search: see `triptych_backends.tables.TableSpec`.
        embedder: the model that filled the vector columns, or its name; None for tables without
            vectors.
        language: what queries and texts are analyzed as.
        ranker: fuses the lanes; None for the default.
        llm: the model that answers.

    Raises:
        ValidationError: the URL, a table or a name is invalid.
        NotAvailableError: psycopg is not installed, or there are vectors and no embedder.
    """
    from triptych_factory.embedders import build_embedder

    try:
        from triptych_backends.tables import DistinctRows, TableSpec, TableStore
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        raise NotAvailableError(
            "tables of PostgreSQL need psycopg: pip install 'triptych[postgres]'"
        ) from error
    if isinstance(tables, str | Mapping) or not isinstance(tables, Sequence):
        raise ValidationError(f"tables is {tables!r:.60}: give a list of tables")
    specs = [TableSpec.of(each) for each in tables]
    chunkers = default_chunkers()
    made = build_embedder(embedder) if isinstance(embedder, str) else embedder
    options = ServiceOptions(
        chunkers=chunkers,
        embedder=made,
        language=language,
        ranker=ranker,
        postprocessors=[DistinctRows({spec.name: str(spec.path) for spec in specs})],
        llm=llm,
    )
    store = TableStore(url, specs, chunker_sig=chunkers.signature, embedder=made, language=language)

    def close() -> None:
        close_made = getattr(made, "close", None)
        if isinstance(embedder, str) and callable(close_made):
            close_made()

    return Service(store, options=options, on_close=close)
