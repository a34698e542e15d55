"""From settings to a Service."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import attrs

from triptych.chunking import ChunkConfig, ChunkerSet, MarkdownChunker, default_chunkers
from triptych.contracts import (
    LLM,
    Closeable,
    Embedder,
    Postprocessor,
    QueryRewriter,
    Ranker,
    Reranker,
    Retriever,
    Store,
)
from triptych.errors import ValidationError
from triptych.parsing import FileParsers
from triptych.records import DocumentInfo
from triptych.repositories import capabilities_of
from triptych.search.postprocessing import Rerank
from triptych.service import Service, ServiceOptions
from triptych_factory.access import Access
from triptych_factory.backends import open_store
from triptych_factory.embedders import build_embedder
from triptych_factory.llms import build_llm
from triptych_factory.locations import Location, base_of, parse_location
from triptych_factory.rankers import build_ranker, build_reranker
from triptych_factory.settings import Settings
from triptych_factory.stored_model import recall_embedder, stored_signature

__all__ = ["every_format", "open_service", "wire"]


def every_format() -> FileParsers:
    """A parser of every format that is installed."""
    from triptych_backends.parsing import default_parser

    return default_parser()


def open_service(
    url: str | os.PathLike[str] | None = None,
    *,
    embedder: Embedder | str | None = "auto",
    llm: LLM | str | None = "auto",
    language: str | None = None,
    chunk_size: int | None = None,
    chunk_overlap: int | None = None,
    chunkers: ChunkerSet | None = None,
    embed_concurrency: int | None = None,
    ranker: Ranker | str | None = None,
    retrievers: Sequence[Retriever] = (),
    rewriter: QueryRewriter | None = None,
    postprocessors: Sequence[Postprocessor] = (),
    reranker: Reranker | str | None = None,
    lock_timeout: float | None = None,
    read_only: bool | None = None,
    history: int | None = None,
    create: bool = True,
) -> Service:
    """What `triptych.open` does; the arguments and errors are described there."""
    if chunkers is not None and (chunk_size, chunk_overlap) != (None, None):
        raise ValidationError(
            "chunkers have their own sizes: give chunkers, or chunk_size and chunk_overlap"
        )
    settings = Settings.resolve(
        {
            "url": _text_of(url),
            "embedder": _name_of(embedder),
            "llm": _name_of(llm),
            "language": language,
            "chunk_size": chunk_size,
            "chunk_overlap": chunk_overlap,
            "embed_concurrency": embed_concurrency,
            "ranker": ranker if isinstance(ranker, str) else None,
            "reranker": reranker if isinstance(reranker, str) else None,
            "lock_timeout": lock_timeout,
            "read_only": read_only,
            "history": history,
        }
    )
    return wire(
        settings,
        embedder=None if isinstance(embedder, str) else embedder,
        llm=None if isinstance(llm, str) else llm,
        chunkers=chunkers,
        ranker=None if isinstance(ranker, str) else ranker,
        retrievers=retrievers,
        rewriter=rewriter,
        postprocessors=postprocessors,
        reranker=None if isinstance(reranker, str) else reranker,
        create=create,
    )


def wire(
    settings: Settings,
    *,
    embedder: Embedder | None = None,
    llm: LLM | None = None,
    chunkers: ChunkerSet | None = None,
    ranker: Ranker | None = None,
    retrievers: Sequence[Retriever] = (),
    rewriter: QueryRewriter | None = None,
    postprocessors: Sequence[Postprocessor] = (),
    reranker: Reranker | None = None,
    create: bool = True,
    dataset_id: str = "",
    fill: bool = False,
) -> Service:
    """A Service over the store and with the models that ``settings`` name.

    The embedder "auto" is the one that the store was filled with, or ``dataset_id`` where it is
    given; one that was filled without any is searched by keyword. A store without documents gets
    "local" where it is installed, and so does one without vectors if ``fill`` asks for them.

    ``embedder``, ``llm``, ``chunkers``, ``ranker`` and ``reranker`` take the place of those they
    name. ``create`` says whether a store that does not exist yet is made. The Service closes the
    store, and the models that were made here.
    """
    location = parse_location(settings.url)
    # The models come first: a misspelt one must not leave an empty store behind.
    by_store = embedder is None and settings.embedder == "auto"
    chosen = embedder if by_store or embedder is not None else _embedder(settings)
    writer = _llm(settings) if llm is None else llm
    judge = build_reranker(settings.reranker) if reranker is None else reranker
    options = ServiceOptions(
        chunkers=_chunkers(settings) if chunkers is None else chunkers,
        embedder=chosen,
        language=settings.language,
        ranker=build_ranker(settings.ranker if ranker is None else ranker),
        retrievers=retrievers,
        rewriter=rewriter,
        postprocessors=(*([] if judge is None else [Rerank(judge)]), *postprocessors),
        llm=writer,
        embed_concurrency=settings.embed_concurrency,
        outliner=_outline,
    )
    store = open_store(location, settings, create=create)
    if by_store:
        try:
            chosen = _of_store(store, settings, dataset_id, fill)
            options = attrs.evolve(options, embedder=chosen)
        except BaseException:
            store.close()
            raise
    options = attrs.evolve(options, locate=_locator_of(store, location))

    models: list[tuple[object, object]] = [
        (chosen, embedder),
        (writer, llm),
        (judge, reranker),
    ]
    made_here = [made for made, given in models if given is None]

    def close_models() -> None:
        for made in made_here:
            if isinstance(made, Closeable):
                made.close()

    return Service(store, options=options, on_close=close_models)


_WITHOUT_OUTLINE = frozenset(("", ".md", ".markdown", ".txt"))


def _outline(name: str, content: str) -> str | None:
    if PurePosixPath(name).suffix.lower() in _WITHOUT_OUTLINE:
        return None  # most documents: they need not load the parsers
    from triptych_backends.parsing.outliner import outline_of

    return outline_of(name, content)


_ROOTS = "sync.roots"
"""The setting of `triptych.sync.remembered`."""


def _no_file(document: DocumentInfo) -> None:
    return None


def _locator_of(
    store: Store, location: Location
) -> Callable[[], Callable[[DocumentInfo], Path | None]] | None:
    """What finds the files of the folders that the store remembers, if it keeps settings."""
    settings = capabilities_of(store).settings
    if settings is None:
        return None

    known: dict[str, Callable[[DocumentInfo], Path | None]] = {}

    def locate() -> Callable[[DocumentInfo], Path | None]:
        text = settings.get_setting(_ROOTS)
        if text is None:
            return _no_file  # most stores; what follows would import all of the sync
        found = known.get(text)
        if found is None:
            from triptych.sync.remembered import RememberedRoots

            found = RememberedRoots(settings, base_of(location)).locator()
            known.clear()
            known[text] = found
        return found

    return locate


def _of_store(store: Store, settings: Settings, dataset_id: str, fill: bool) -> Embedder | None:
    """The embedder that a store was filled with; the default for one that is empty."""
    signature = stored_signature(store, dataset_id)
    if signature is None or (fill and not signature):
        return _embedder(settings)
    if not signature:
        return None
    return recall_embedder(signature, concurrency=settings.embed_concurrency)


def _embedder(settings: Settings) -> Embedder | None:
    return build_embedder(settings.embedder, concurrency=settings.embed_concurrency)


def _llm(settings: Settings) -> LLM | None:
    provider = settings.llm.partition(":")[0]
    given = Access(
        api_key=settings.llm_api_key,
        base_url=settings.llm_base_url,
        api_key_origin=settings.origin("llm_api_key"),
        base_url_origin=settings.origin("llm_base_url"),
        base_url_source=f"llm_base_url ({settings.sources.get('llm_base_url', 'argument')})",
    )
    return build_llm(
        settings.llm,
        access={provider: given},
        context=settings.llm_context,
        concurrency=settings.llm_concurrency,
    )


def _name_of(model: object) -> str | None:
    """What an argument says to the settings: a name, "none" for None; None: nothing."""
    if model is None:
        return "none"
    return model if isinstance(model, str) and model != "auto" else None


def _chunkers(settings: Settings) -> ChunkerSet:
    """The set that ships, with the sizes that ``settings`` give for every chunker of it."""
    given = {
        key: value
        for key, value in (("size", settings.chunk_size), ("overlap", settings.chunk_overlap))
        if value is not None
    }
    return default_chunkers(ChunkConfig(**given), MarkdownChunker(**given))


def _text_of(url: str | os.PathLike[str] | None) -> str | None:
    if url is None or isinstance(url, str):
        return url
    path = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(path, str):
        raise ValidationError(f"a store is named by a URL or a path in text, not {path!r}")
    # Absolute, so that no name of a file can be taken for a URL.
    return str(Path(path).absolute())
