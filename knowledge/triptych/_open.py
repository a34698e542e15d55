"""`open`: create a Service from a URL and a few settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

from triptych.contracts import LLM, Embedder
from triptych.service.options import OpenOptions

if TYPE_CHECKING:
    from triptych.parsing import FileParsers
    from triptych.service import KnowledgeBase


def every_format(ocr: bool | None = None) -> FileParsers:
    """Return the default parser of files: every format whose library is installed.

    ``ocr`` says whether scans are read; None is as the settings say.
    """
    from triptych_factory import every_format as made

    return made(ocr)


def open(
    url: str | os.PathLike[str] | None = None,
    *,
    embedder: Embedder | str | None = "auto",
    llm: LLM | str | None = "auto",
    create: bool = True,
    **options: Unpack[OpenOptions],
) -> KnowledgeBase:
    """Open the knowledge base at ``url``; use it in a ``with`` block, or call its ``close``.

    Settings that are not given come from ``TRIPTYCH_*`` environment variables, then from the
    nearest ``triptych.toml`` in the current directory or its parents, then from the user's settings
    file, then from the defaults.

    Args:
        url: a file path or ``sqlite:///`` URL for a SQLite store, ``files:///`` and a folder for
            plain files, ``memory://`` for a store that ends with the process, or the address of
            ``triptych serve`` (``http://host:8400``), whose settings then apply. By default the
            nearest store in the current directory or its parents (``.triptych/kb.db`` or
            ``kb.db``), else the user's store.
        embedder: a name (``"local"``, ``"local-multilingual"``, ``"hash"``, or a provider and model
            such as ``"ollama:nomic-embed-text"``), an `Embedder`, or None for keyword search only.
            ``"auto"`` is the embedder in the settings, else the one that made the store's vectors,
            if any. For a store without documents it is ``"local"`` if the extra ``local`` is
            installed, else none.
        llm: the model that answers questions and writes layers: a provider and model
            (``"ollama:llama3.2"``, ``"openai:gpt-4o-mini"``, ``"anthropic:claude-haiku-4-5"``), an
            `LLM`, or None. ``"auto"`` is the model in the settings, else none.
        create: whether to create a missing store.
        options: how to chunk, embed, search and store: see `OpenOptions`.

    Raises:
        ValidationError: the URL or a setting is invalid; the message names its source.
        NotFoundError: there is no store at ``url``, and ``create`` is False.
        NotAvailableError: a library that the URL or a model needs is not installed.
        StoreError: the store cannot be opened.
    """
    # The only import of a higher package, so that users need no second import.
    from triptych_factory import open_service

    return open_service(url, embedder=embedder, llm=llm, create=create, **options)
