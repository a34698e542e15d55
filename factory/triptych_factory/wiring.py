"""From settings to a Service."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from triptych._internal.close_on_exit import close_model
from triptych.chunking import ChunkerSet
from triptych.contracts import (
    LLM,
    Embedder,
    Postprocessor,
    QueryRewriter,
    Ranker,
    Reranker,
    Retriever,
    SparseEncoder,
    Store,
)
from triptych.copies.unfinished import UnfinishedStoreWarning, unfinished_copy
from triptych.errors import ValidationError
from triptych.search.cache_options import SemanticCache, to_cache
from triptych.search.file_location import file_locator
from triptych.search.pipeline_record import Pipeline
from triptych.search.reranking import Rerank
from triptych.service import Service, ServiceOptions
from triptych_factory.access import Access
from triptych_factory.backends import open_store
from triptych_factory.chunkers import build_chunkers
from triptych_factory.embedders import build_embedder
from triptych_factory.llms import build_llm
from triptych_factory.locations import Location, parse_location, store_paths
from triptych_factory.pipelines import Models, build_pipelines
from triptych_factory.rankers import build_ranker, build_reranker
from triptych_factory.remote import connect, is_server
from triptych_factory.settings import Settings
from triptych_factory.sparse_encoders import build_sparse_encoder
from triptych_factory.stored_model import likely_signature, recall_embedder, stored_signature
from triptych_factory.tables import named_embedder

if TYPE_CHECKING:
    from triptych.parsing import FileParsers

__all__ = ["every_format", "open_service", "settings_llm", "wire"]


_CHUNKING = ("chunker", "chunk_size", "chunk_overlap")


def every_format() -> FileParsers:
    """A parser of every format that is installed."""
    from triptych_backends.parsing import default_parser

    return default_parser()


def open_service(
    url: str | os.PathLike[str] | None = None,
    *,
    embedder: Embedder | str | None = "auto",
    next_embedder: Embedder | str | None = None,
    llm: LLM | str | None = "auto",
    chunkers: ChunkerSet | None = None,
    executor: Executor | None = None,
    ranker: Ranker | str | None = None,
    retrievers: Sequence[Retriever] = (),
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None = None,
    postprocessors: Sequence[Postprocessor] = (),
    reranker: Reranker | str | None = None,
    pipelines: Sequence[Pipeline] = (),
    sparse_encoder: SparseEncoder | str | None = None,
    semantic_cache: SemanticCache | bool | None = None,
    create: bool = True,
    **settings: str | float | bool | None,
) -> Service:
    """What `triptych.open` does; the arguments and errors are described there.

    ``settings`` are those of its arguments that are settings under the same name.
    """
    if chunkers is not None and any(settings.get(name) is not None for name in _CHUNKING):
        raise ValidationError(
            f"chunkers have their own sizes: give chunkers, or {', '.join(_CHUNKING)}"
        )
    resolved = Settings.resolve(
        {
            **settings,
            "url": _text_of(url),
            "embedder": _name_of(embedder),
            "next_embedder": next_embedder if isinstance(next_embedder, str) else None,
            "llm": _name_of(llm),
            "ranker": ranker if isinstance(ranker, str) else None,
            "semantic_cache": semantic_cache if isinstance(semantic_cache, bool) else None,
            "reranker": reranker if isinstance(reranker, str) else None,
            "sparse_encoder": sparse_encoder if isinstance(sparse_encoder, str) else None,
        }
    )
    if is_server(resolved.url):
        objects = {
            "embedder": embedder,
            "next_embedder": next_embedder,
            "llm": llm,
            "chunkers": chunkers,
            "executor": executor,
            "ranker": ranker,
            "retrievers": retrievers,
            "rewriter": rewriter,
            "postprocessors": postprocessors,
            "reranker": reranker,
            "pipelines": pipelines,
            "sparse_encoder": sparse_encoder,
            "semantic_cache": semantic_cache,
        }
        return connect(
            resolved, [name for name, it in objects.items() if it not in (None, (), "auto")]
        )
    return wire(
        resolved,
        embedder=None if isinstance(embedder, str) else embedder,
        next_embedder=None if isinstance(next_embedder, str) else next_embedder,
        llm=None if isinstance(llm, str) else llm,
        chunkers=chunkers,
        executor=executor,
        ranker=None if isinstance(ranker, str) else ranker,
        retrievers=retrievers,
        rewriter=rewriter,
        postprocessors=postprocessors,
        reranker=None if isinstance(reranker, str) else reranker,
        pipelines=pipelines,
        named=None,
        sparse_encoder=None if isinstance(sparse_encoder, str) else sparse_encoder,
        semantic_cache=None if isinstance(semantic_cache, bool) else semantic_cache,
        create=create,
    )


def _preload(model: object) -> None:
    preload = getattr(model, "preload", None)
    if preload is not None:
        preload()


def wire(
    settings: Settings,
    *,
    embedder: Embedder | None = None,
    next_embedder: Embedder | None = None,
    llm: LLM | None = None,
    chunkers: ChunkerSet | None = None,
    executor: Executor | None = None,
    ranker: Ranker | None = None,
    retrievers: Sequence[Retriever] = (),
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None = None,
    postprocessors: Sequence[Postprocessor] = (),
    reranker: Reranker | None = None,
    pipelines: Sequence[Pipeline] = (),
    named: Collection[str] | None = (),
    sparse_encoder: SparseEncoder | None = None,
    semantic_cache: SemanticCache | None = None,
    create: bool = True,
    preload: bool = False,
    dataset_id: str = "",
    fill: bool = False,
) -> Service:
    """A Service over the store and with the models that ``settings`` name.

    The embedder "auto" is the one that the store was filled with, or ``dataset_id`` where it is
    given; one that was filled without any is searched by keyword. A store without documents gets
    "local" where it is installed, and so does one without vectors if ``fill`` asks for them.

    ``embedder``, ``next_embedder``, ``llm``, ``chunkers``, ``ranker``, ``reranker`` and
    ``sparse_encoder`` take the place of those they name, and so does ``semantic_cache``. A store
    that is opened ``read_only`` keeps no answers. ``pipelines`` come beside those of the settings
    that ``named`` names, none by default, None for all. ``executor`` is that of
    `ServiceOptions`. ``create`` says whether a store that does not exist yet is made. ``preload``
    loads a local model while the store is being opened, for a caller that is about to embed. The
    Service closes the store, and the models that were made here.
    """
    if is_server(settings.url):
        return connect(settings)
    location = parse_location(settings.url)
    # The models come first: a misspelt one must not leave an empty store behind.
    by_store = embedder is None and settings.embedder == "auto"
    chosen = embedder if by_store or embedder is not None else _embedder(settings)
    following = _next_embedder(settings) if next_embedder is None else next_embedder
    likely = _likely(location, settings, dataset_id) if by_store and preload else None
    if preload:
        _preload(likely if by_store else chosen)
    writer = settings_llm(settings, settings.llm) if llm is None else llm
    reranks = _reranker(settings, settings.reranker, writer) if reranker is None else reranker
    models = Models(
        writer,
        lambda name: settings_llm(settings, name),
        lambda name, own: _reranker(settings, name, own, "pipelines"),
        lambda name: named_embedder(settings, name),
    )
    own = {each.name for each in pipelines if isinstance(each, Pipeline)}
    described = {name: each for name, each in settings.pipelines.items() if name not in own}
    source = settings.sources.get("pipelines", "the settings")
    encoder = _sparse_encoder(settings) if sparse_encoder is None else sparse_encoder
    options = ServiceOptions(
        chunkers=chunkers or build_chunkers(*_chunking(settings)),
        embedder=chosen,
        next_embedder=following,
        sparse_encoder=encoder,
        language=settings.language,
        ranker=build_ranker(settings.ranker if ranker is None else ranker),
        retrievers=retrievers,
        rewriter=rewriter,
        postprocessors=(*([] if reranks is None else [Rerank(reranks)]), *postprocessors),
        pipelines=(
            *build_pipelines(described, models, source=source, names=named),
            *pipelines,
        ),
        semantic_cache=_answers(settings, semantic_cache),
        llm=writer,
        embed_concurrency=settings.embed_concurrency,
        executor=executor,
        question_log=settings.question_log,
        outliner=_outline,
        own_paths=store_paths(location),
        scratch=_scratch,
    )
    store = open_store(location, settings, create=create)
    if by_store:
        try:
            chosen = _of_store(store, settings, dataset_id, fill)
            if likely is not None and chosen is not None and likely.signature == chosen.signature:
                chosen = likely  # which loads already
            elif preload:
                close_model(likely)
                _preload(chosen)
            options = attrs.evolve(options, embedder=chosen)
        except BaseException:
            store.close()
            close_model(likely)
            raise
    kept = store.capabilities.settings
    if kept is not None:
        options = attrs.evolve(options, locate=file_locator(kept))

    given_models: list[tuple[object, object]] = [
        (chosen, embedder),
        (following, next_embedder),
        (writer, llm),
        (reranks, reranker),
        (encoder, sparse_encoder),
    ]
    made_here = [*(made for made, given in given_models if given is None), *models.made]

    def close_models() -> None:
        for made in made_here:
            close_model(made)

    service = Service(store, options=options, on_close=close_models)
    unfinished = unfinished_copy(kept)
    if unfinished is not None:
        try:
            text = f"{unfinished}: {unfinished.hint}"
            warnings.warn(text, UnfinishedStoreWarning, stacklevel=4)
        except UnfinishedStoreWarning:  # where warnings are errors
            service.close()
            raise
    return service


def _scratch() -> Store:
    """An empty store in memory, which keeps no versions."""
    from triptych_backends.memory import MemoryStore

    return MemoryStore(history=0)


_WITHOUT_OUTLINE = frozenset(("", "md", "markdown", "txt"))


def _outline(name: str, content: str) -> str | None:
    stem, dot, ending = name.rpartition("/")[2].rpartition(".")
    if not (stem and dot) or ending.lower() in _WITHOUT_OUTLINE:
        return None  # most documents: they need not load the parsers
    from triptych_backends.parsing.outliner import outline_of

    return outline_of(name, content)


def _likely(location: Location, settings: Settings, dataset_id: str) -> Embedder | None:
    """The local embedder that the store will most likely name, to be loaded while it opens."""
    if location.scheme != "sqlite" or location.path is None or not location.path.is_file():
        return None
    signature = likely_signature(location.path, dataset_id)
    if not signature:
        return None
    embedder = recall_embedder(signature, concurrency=settings.embed_concurrency)
    return embedder if hasattr(embedder, "preload") else None


def _of_store(store: Store, settings: Settings, dataset_id: str, fill: bool) -> Embedder | None:
    """The embedder that a store was filled with; the default for one that is empty."""
    signature = stored_signature(store, dataset_id)
    if signature is None or (fill and not signature):
        return _embedder(settings)
    if not signature:
        return None
    return recall_embedder(signature, concurrency=settings.embed_concurrency)


def _answers(settings: Settings, given: SemanticCache | None) -> SemanticCache | None:
    """How answers are kept: those of a store that is only read are not."""
    if settings.read_only:
        return None
    return to_cache(settings.semantic_cache) if given is None else given


def _next_embedder(settings: Settings) -> Embedder | None:
    if settings.next_embedder == "auto":
        raise ValidationError(
            "next_embedder names the embedder to change to, such as local: it cannot be auto"
        )
    return build_embedder(settings.next_embedder, concurrency=settings.embed_concurrency)


def _embedder(settings: Settings) -> Embedder | None:
    return build_embedder(settings.embedder, concurrency=settings.embed_concurrency)


def _sparse_encoder(settings: Settings) -> SparseEncoder | None:
    return build_sparse_encoder(
        settings.sparse_encoder,
        origin=settings.origin("sparse_encoder"),
        source=f"sparse_encoder ({settings.sources.get('sparse_encoder', 'argument')})",
        concurrency=settings.embed_concurrency,
    )


def settings_llm(settings: Settings, name: str) -> LLM | None:
    """The language model of this name, reached as the settings say where they know its provider.

    Raises:
        ValidationError: no model has this name, or its provider's key is missing.
        NotAvailableError: the extra ``http`` is not installed.
    """
    provider = settings.llm.partition(":")[0]
    given = Access(
        api_key=settings.llm_api_key,
        base_url=settings.llm_base_url,
        api_key_origin=settings.origin("llm_api_key"),
        base_url_origin=settings.origin("llm_base_url"),
        base_url_source=f"llm_base_url ({settings.sources.get('llm_base_url', 'argument')})",
    )
    return build_llm(
        name,
        access={provider: given},
        context=settings.llm_context,
        concurrency=settings.llm_concurrency,
    )


def _chunking(settings: Settings) -> tuple[str, int | None, int | None]:
    return settings.chunker, settings.chunk_size, settings.chunk_overlap


def _reranker(
    settings: Settings, name: str, llm: LLM | None, setting: str = "reranker"
) -> Reranker | None:
    return build_reranker(
        name,
        llm=llm,
        origin=settings.origin(setting),
        source=f"{setting} ({settings.sources.get(setting, 'argument')})",
    )


def _name_of(model: object) -> str | None:
    """What an argument says to the settings: a name, "none" for None; None: nothing."""
    if model is None:
        return "none"
    return model if isinstance(model, str) and model != "auto" else None


def _text_of(url: str | os.PathLike[str] | None) -> str | None:
    if url is None or isinstance(url, str):
        return url
    path = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(path, str):
        raise ValidationError(f"a store is named by a URL or a path in text, not {path!r}")
    # Absolute, so that no name of a file can be taken for a URL.
    return str(Path(path).absolute())
