"""`open`: from a URL and a few settings to a wired Service, in one import."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

from triptych.contracts import LLM, Embedder
from triptych.service.options import OpenOptions

if TYPE_CHECKING:
    from triptych.parsing import FileParsers
    from triptych.service import Service


def every_format() -> FileParsers:
    """The parser of files that serves where none is given: every format that is installed."""
    from triptych_factory import every_format as made

    return made()


def open(
    url: str | os.PathLike[str] | None = None,
    *,
    embedder: Embedder | str | None = "auto",
    llm: LLM | str | None = "auto",
    create: bool = True,
    **options: Unpack[OpenOptions],
) -> Service:
    """Open the knowledge base at ``url``; use it in a ``with`` block, or call its ``close``.

    What is not given here comes from ``TRIPTYCH_*`` environment variables, then from the
    nearest ``triptych.toml`` in the current directory or above it, then from the user's own file,
    then from the defaults.

    Args:
        url: a file path or ``sqlite:///`` URL for a SQLite store, ``files:///`` and a folder for
            plain files, ``memory://`` for one that ends with the process, or the address of
            ``triptych serve`` (``http://host:8400``), where the server's settings hold. By
            default the nearest store in the current directory or above it (``.triptych/kb.db`` or
            ``kb.db``), else the user's own.
        embedder: a name (``"local"``, ``"local-multilingual"``, ``"hash"``, or a provider and its
            model, ``"ollama:nomic-embed-text"``), an `Embedder`, or None for keyword search
            alone. ``"auto"`` takes what the settings name, else the one that the store was
            filled with, which may be none; for a store without documents ``"local"`` where the
            extra ``local`` is installed, else none.
        llm: what answers questions and writes layers: a provider and its model
            (``"ollama:llama3.2"``, ``"openai:gpt-4o-mini"``, ``"anthropic:claude-haiku-4-5"``),
            an `LLM`, or None. ``"auto"`` takes what the settings name, else none.
        create: whether a store that does not exist yet is made.
        options: how it chunks, embeds, searches and stores: see `OpenOptions`.

    Raises:
        ValidationError: the URL or a setting is invalid; the message names its source.
        NotFoundError: there is no store at ``url``, and ``create`` is False.
        NotAvailableError: this installation lacks what the URL or a model needs.
        StoreError: the store cannot be opened.
    """
    # The one import that points upwards: a user needs no second package to start.
    from triptych_factory import open_service

    return open_service(url, embedder=embedder, llm=llm, create=create, **options)
