"""Services over existing tables or collections, for `open_tables` and pipelines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from triptych._internal.close_on_exit import close_model
from triptych.chunking import default_chunkers
from triptych.contracts import LLM, Embedder, Ranker
from triptych.errors import NotAvailableError, TriptychError, ValidationError
from triptych.records import DoctorReport, Finding
from triptych.service import Service, ServiceOptions
from triptych_factory.backends import driver_needed, store_exists
from triptych_factory.embedders import build_embedder, settings_embedder
from triptych_factory.locations import parse_location
from triptych_factory.settings import Settings

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from triptych_inplace.source import InPlaceSource
    from triptych_inplace.table import OpenTable

TABLE_KEYS = ("tables", "url", "embedder", "language")
"""The additional keys of a pipeline over tables."""


BREAKING = frozenset({"tables.columns", "tables.database"})
"""The checks for failing searches; other checks are for slow ones."""


def open_tables(
    url: str | QdrantClient,
    tables: Sequence[Mapping[str, Any]],
    *,
    embedder: Embedder | str | None = None,
    language: str = "english",
    ranker: Ranker | None = None,
    llm: LLM | None = None,
) -> Service:
    """Return a Service that searches existing tables of PostgreSQL or collections of Qdrant.

    Each table or collection is a dataset, each row or point a document. Nothing is written: read
    access is enough. It connects at first use. Close the Service; this also closes an embedder that
    was created here.

    Args:
        url: ``postgresql://user@host/database``; options are libpq's, ``statement_timeout`` (30
            seconds) and ``pool_size`` (8 connections). For Qdrant ``qdrant://host:6333`` with the
            options ``api_key``, ``tls``, ``grpc``, ``grpc_port`` and ``timeout``; or a
            `QdrantClient`, which is not closed.
        tables: the tables: see `triptych_inplace.TableSpec`.
        embedder: the model that made the vectors, or its name; None for tables without vectors, and
            for collections that are searched only by keyword.
        language: the language in which queries and texts are analysed.
        ranker: fuses the lanes; None for the default.
        llm: the model that answers.

    Raises:
        ValidationError: the URL, a table or a name is invalid.
        NotAvailableError: psycopg or qdrant-client is not installed, or there are vectors and no
            embedder.
    """
    from triptych.answers.retrieval import ContextParameters
    from triptych_inplace import DistinctRows, InPlaceStore, TableSpec

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
        context=ContextParameters(rescored=False),  # rows are no parts of long texts
        llm=llm,
    )
    source = _source(url)
    store = InPlaceStore(
        source(specs, chunker_sig=chunkers.signature, embedder=made, language=language)
    )

    def close() -> None:
        if isinstance(embedder, str):
            close_model(made)

    return Service(store, options=options, on_close=close)


def _source(url: str | QdrantClient) -> Callable[..., InPlaceSource[OpenTable]]:
    """Return what makes the source of an `InPlaceStore`."""
    if is_qdrant(url):
        with driver_needed("collections of Qdrant need"):
            from triptych_inplace.qdrant import CollectionSource, reader_of
        return partial(CollectionSource, reader_of(url))
    if not isinstance(url, str):
        raise ValidationError(f"url is {url!r:.60}: give a URL, or a QdrantClient")
    with driver_needed("tables of PostgreSQL need"):
        from triptych_inplace.postgres import ForeignDatabase, TableSource
    return partial(TableSource, ForeignDatabase(url))


def is_qdrant(url: object) -> bool:
    """Whether tables are collections of Qdrant: by the URL's scheme, or a client that is given."""
    if isinstance(url, str):
        return url.lower().startswith("qdrant:")
    client = sys.modules.get("qdrant_client")
    return client is not None and isinstance(url, client.QdrantClient)


def service_over(
    table: Mapping[str, Any], embedder: Callable[[str | None], Embedder | None], llm: LLM | None
) -> Service | None:
    """The Service over the tables that a pipeline's ``table`` names; None where it names none.

    ``embedder`` makes the embedder of a name.

    Raises:
        ValidationError: a key or a value is wrong.
        NotAvailableError: as `open_tables`.
    """
    given = [key for key in TABLE_KEYS if key in table]
    if "tables" not in given:
        if given:
            raise ValidationError(f"{given[0]} is only for a pipeline over tables: give tables")
        return None
    url, language = table.get("url"), table.get("language", "english")
    if not isinstance(url, str) or not url:
        raise ValidationError(
            "a pipeline over tables needs the database: url = 'postgresql://user@host/database' "
            "or 'qdrant://host:6333'"
        )
    name = table.get("embedder")
    if name is not None and not isinstance(name, str):
        raise ValidationError(f"embedder is {name!r:.60}: give the name of a model")
    tables = table["tables"]
    has_vectors = isinstance(tables, list) and any(
        isinstance(each, Mapping) and ("vector" in each or "columns" in each) for each in tables
    )
    collections = is_qdrant(url)
    made = embedder(name) if has_vectors or collections else None
    if collections and made is None and name != "none":
        raise NotAvailableError(
            "a pipeline over collections of Qdrant needs the model that made their vectors, such "
            "as embedder = 'openai:text-embedding-3-small'; with embedder = 'none' they are "
            "searched by keyword only"
        )
    return open_tables(url, tables, embedder=made, language=language, llm=llm)


def table_findings(service: Service) -> Sequence[Finding]:
    """What is wrong with the tables that a Service of `open_tables` searches."""
    check = getattr(service.store, "check", None)
    return check() if callable(check) else ()


def examined_tables(report: DoctorReport, settings: Settings) -> DoctorReport:
    """``report`` with what is wrong with the tables of the settings' pipelines."""
    findings: list[Finding] = []
    checked = 0
    for name, table in settings.pipelines.items():
        if "tables" not in table:
            continue
        try:
            count, found = _examined(table, settings)
            checked += count
            findings += found
        except TriptychError as error:
            findings.append(
                Finding(
                    check="tables.pipeline",
                    place=f"pipeline {name}",
                    detail=str(error),
                    why="the pipeline cannot be used",
                    remedy="correct it in triptych.toml",
                )
            )
    if not checked and not findings:
        return report
    return attrs.evolve(
        report,
        findings=(*report.findings, *findings),
        checked={**report.checked, "tables": checked},
    )


def for_pipeline(settings: Settings, table: Mapping[str, Any]) -> Settings:
    """The settings for one pipeline alone: over tables it needs no store that is there."""
    if "tables" not in table or store_exists(parse_location(settings.url)):
        return settings
    return attrs.evolve(settings, url="memory://")


def named_embedder(settings: Settings, name: str | None) -> Embedder | None:
    """The embedder of a pipeline over tables. "auto" is that of a store: tables name theirs."""
    chosen = name or settings.embedder
    if chosen == "auto":
        return None
    return settings_embedder(settings, chosen)


def _examined(table: Mapping[str, Any], settings: Settings) -> tuple[int, Sequence[Finding]]:
    """How many tables a pipeline has, and what is wrong with them."""
    made: list[Embedder | None] = []

    def embedder(name: str | None) -> Embedder | None:
        made.append(named_embedder(settings, name))
        return made[-1]

    try:
        service = service_over(table, embedder, None)
        assert service is not None
        with service:
            return len(service.list_datasets()), table_findings(service)
    finally:
        for each in made:
            close_model(each)
