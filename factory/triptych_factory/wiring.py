"""Creating a Service from settings."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import attrs

from triptych._internal.close_on_exit import close_model
from triptych._internal.wording import did_you_mean
from triptych.chunking import (
    ChunkConfig,
    ChunkerSet,
    DefaultChunker,
    FixedWindowChunker,
    MarkdownChunker,
    SentenceWindowChunker,
    default_chunkers,
)
from triptych.contracts import LLM, Embedder, Reranker, SettingsStore, SparseEncoder, Store
from triptych.copies.notes import UnfinishedStoreWarning, unfinished_copy
from triptych.errors import ValidationError
from triptych.search.file_location import file_locator
from triptych.search.fusion import build_ranker
from triptych.search.pipeline_record import Pipeline
from triptych.service import KnowledgeBase, Service
from triptych.service.options import OpenOptions, ServiceOptions
from triptych_factory.backends import connect, open_store
from triptych_factory.embedders import (
    build_sparse_encoder,
    likely_signature,
    recall_embedder,
    setting_of,
    settings_embedder,
    stored_signature,
    untrusted_embedder,
)
from triptych_factory.locations import (
    Location,
    is_server,
    parse_location,
    state_folder,
    store_paths,
)
from triptych_factory.provider_access import with_ca_file
from triptych_factory.settings import Settings
from triptych_factory.trust import Trust, UntrustedSettingsWarning, remember

if TYPE_CHECKING:
    from triptych.parsing import FileParsers
    from triptych_factory.pipelines import Models

_M = TypeVar("_M")
_OBJECTS = {"reranker"} | {
    field.name for field in attrs.fields(ServiceOptions) if not isinstance(field.default, str | int)
}
"""Options of `open_service` that are objects; of a model's name, or a switch, they are settings."""
_NAMED = _OBJECTS & set(attrs.fields_dict(Settings))
_NAMES = (str, bool)


def every_format(ocr: bool | None = None) -> FileParsers:
    """Return a parser of every format whose library is installed.

    ``ocr`` says whether scans are read; None is as the settings say.
    """
    from triptych_parsers import default_parser

    return default_parser(ocr=Settings.resolve().ocr if ocr is None else ocr)


def open_service(
    url: str | os.PathLike[str] | None = None,
    *,
    embedder: Embedder | str | None = "auto",
    llm: LLM | str | None = "auto",
    create: bool = True,
    **options: Unpack[OpenOptions],
) -> KnowledgeBase:
    """Implement `triptych.open`, which documents arguments and errors."""
    _check_names(options)
    given: dict[str, Any] = {name: each for name, each in options.items() if each is not None}
    sizes = given.keys() & {"chunker", "chunk_size", "chunk_overlap"}
    if "chunkers" in given and sizes:
        raise ValidationError(
            f"chunkers have their own sizes: give chunkers, or {', '.join(sorted(sizes))}"
        )
    models = {"embedder": embedder, "llm": llm}
    objects = {
        name: each
        for name, each in {**given, **models}.items()
        if name in _OBJECTS and each is not None and not (name in _NAMED and type(each) in _NAMES)
    }
    resolved = Settings.resolve(
        {
            **{name: each for name, each in given.items() if name not in objects},
            **{name: _name_of(each) for name, each in models.items()},
            "url": _text_of(url),
        }
    )
    if resolved.notice:
        warnings.warn(resolved.notice, UntrustedSettingsWarning, stacklevel=3)
    if is_server(resolved.url):
        return connect(resolved, [name for name, each in objects.items() if each != ()])
    reranker = objects.pop("reranker", None)
    objects.setdefault("chunkers", settings_chunkers(resolved))
    own = ServiceOptions(**objects)
    return wire(resolved, own, reranker=reranker, create=create, named=None)


def _check_names(options: Iterable[str]) -> None:
    known = ("embedder", "llm", "create", *OpenOptions.__annotations__)
    for name in options:
        if name not in known:
            meant = did_you_mean(name, known, f"it takes {', '.join(known)}")
            raise ValidationError(f"triptych.open has no option {name!r}: {meant}")


def _forget(
    folder: Path | None,
    kept: SettingsStore,
    dataset_id: str,
    name: str | None,
    others: Sequence[str],
) -> None:
    from triptych.sync.state import forget_files  # only a purge needs it

    if folder is not None:
        forget_files(folder, kept, dataset_id, name, others)


def _preload(model: object) -> None:
    preload = getattr(model, "preload", None)
    if preload is not None:
        preload()


@attrs.define
class _Made:
    """The models that are made for a Service, which closes them."""

    models: list[object] = attrs.field(factory=list)

    def unless(self, given: _M | None, name: str, build: Callable[[str], _M | None]) -> _M | None:
        """``given``, or else the model of this name; None for "none"."""
        if given is not None or name == "none":
            return given
        made = build(name)
        self.models.append(made)
        return made


def wire(
    settings: Settings,
    given: ServiceOptions | None = None,
    *,
    reranker: Reranker | None = None,
    named: Collection[str] | None = (),
    create: bool = True,
    preload: bool = False,
    dataset_id: str = "",
) -> KnowledgeBase:
    """Create a Service with the store and the models of ``settings``.

    The embedder "auto" is the one that made the vectors of the store, or of ``dataset_id`` if
    given; without vectors there is none. For a store without documents it is "local" if installed.

    The models and other objects of ``given``, its chunkers too, and ``reranker`` override those of
    the settings. A store that is opened ``read_only`` caches no answers. ``given.pipelines`` are
    added to the pipelines of the settings in ``named`` (default none, None for all). ``create``
    tells whether to create a missing store. ``preload`` loads a local model while the store is
    opened, for callers that will embed. Closing the Service closes the store and the models that
    were created here.
    """
    if is_server(settings.url):
        return connect(settings)
    location, made = parse_location(settings.url), _Made()
    given = given or ServiceOptions(chunkers=settings_chunkers(settings))
    # The models come first: a misspelt one must not leave an empty store behind.
    by_store = given.embedder is None and settings.embedder == "auto"
    embedders = partial(settings_embedder, settings)
    chosen = None if by_store else made.unless(given.embedder, settings.embedder, embedders)
    likely = _likely(location, settings, dataset_id) if by_store and preload else None
    if preload:
        _preload(likely if by_store else chosen)
    given = attrs.evolve(given, embedder=chosen, own_paths=store_paths(location))
    options, of_pipelines = _options(settings, given, reranker, made, named)
    store = open_store(location, settings, create=create)
    name = None if chosen is None else setting_of(chosen.signature)
    if name is not None:
        remember(Trust().add_embedder, location, name)
    if by_store:
        try:
            chosen = _of_store(store, location, settings, dataset_id)
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
        made.models.insert(0, chosen)
    return _service(settings, store, options, location, [made.models, of_pipelines])


def _options(
    settings: Settings,
    given: ServiceOptions,
    reranker: Reranker | None,
    made: _Made,
    named: Collection[str] | None,
) -> tuple[ServiceOptions, Sequence[object]]:
    """The options of a Service with the models of ``settings`` where none is ``given``; and the
    models that were made for pipelines."""
    llms, encoder = _llms, settings.sparse_encoder
    writer = made.unless(given.llm, settings.llm, lambda name: llms().settings_llm(settings, name))
    reranker = made.unless(
        reranker, settings.reranker, lambda name: llms().settings_reranker(settings, name, writer)
    )
    pipelines, models = _pipelines(settings, writer, given.pipelines, named)
    steps = given.postprocessors
    if reranker is not None:
        from triptych.search.reranking import Rerank

        steps = (Rerank(reranker), *steps)
    options = attrs.evolve(
        given,
        sparse_encoder=made.unless(
            given.sparse_encoder, encoder, lambda name: _sparse_encoder(settings, name)
        ),
        language=settings.language,
        ranker=given.ranker or build_ranker(settings.ranker),
        postprocessors=tuple(steps),
        code_ranking=settings.code_ranking,
        pipelines=pipelines,
        semantic_cache=None
        if settings.read_only
        else given.semantic_cache or settings.semantic_cache,
        llm=writer,
        embed_concurrency=settings.embed_concurrency,
        outliner=_outline,
        scratch=_scratch,
    )
    return options, () if models is None else models.made


def _service(
    settings: Settings,
    store: Store,
    options: ServiceOptions,
    location: Location,
    models: Sequence[Sequence[object]],
) -> Service:
    """The Service over an open store; closing it closes ``models``."""
    kept = store.capabilities.settings
    if settings.question_log:
        from triptych.question_log import QuestionLog

        options = attrs.evolve(options, observer=QuestionLog(kept))
    if kept is not None:
        forget = partial(_forget, state_folder(location), kept)
        options = attrs.evolve(options, locate=file_locator(kept), forget_files=forget)

    def close_models() -> None:
        for each in (model for several in models for model in several):
            close_model(each)

    service = Service(store, options=options, on_close=close_models)
    unfinished = unfinished_copy(kept)
    if unfinished is not None:
        try:
            text = f"{unfinished}: {unfinished.hint}"
            warnings.warn(text, UnfinishedStoreWarning, stacklevel=5)
        except UnfinishedStoreWarning:  # where warnings are errors
            service.close()
            raise
    return service


def _pipelines(
    settings: Settings, llm: LLM | None, given: Sequence[Pipeline], named: Collection[str] | None
) -> tuple[Sequence[Pipeline], Models | None]:
    """Those of the settings that ``named`` names, and those that are ``given``, which take the
    place of others of their names; and the models that were made for them."""
    own = {each.name for each in given if isinstance(each, Pipeline)}
    tables = {
        name: table
        for name, table in settings.pipelines.items()
        if name not in own and (named is None or name in named)
    }
    if not tables:
        return given, None
    from triptych_factory.pipelines import Models, build_pipelines

    models = Models(settings, llm)
    return (*build_pipelines(tables, models), *given), models


def _scratch() -> Store:
    """An empty store in memory, which keeps no versions."""
    from triptych_backends.memory import MemoryStore

    return MemoryStore(history=0)


_WITHOUT_OUTLINE = frozenset(("", "md", "markdown", "txt"))


def _outline(name: str, content: str) -> str | None:
    stem, dot, ending = name.rpartition("/")[2].rpartition(".")
    if not (stem and dot) or ending.lower() in _WITHOUT_OUTLINE:
        return None  # most documents: they need not load the parsers
    from triptych_parsers.code import outline_of

    return outline_of(name, content)


def _likely(location: Location, settings: Settings, dataset_id: str) -> Embedder | None:
    """The local embedder that the store will most likely name, to be loaded while it opens."""
    if location.scheme != "sqlite" or location.path is None or not location.path.is_file():
        return None
    signature = likely_signature(location.path, dataset_id)
    if not signature:
        return None
    embedder = recall_embedder(signature, settings)
    return embedder if hasattr(embedder, "preload") else None


def _of_store(
    store: Store, location: Location, settings: Settings, dataset_id: str
) -> Embedder | None:
    """The embedder that a store was filled with; the default for one that is empty."""
    signature = stored_signature(store, dataset_id)
    if signature is None:
        return settings_embedder(settings, settings.embedder)
    name = setting_of(signature)
    if name and settings.store_came_along and not Trust().has_embedder(location, name):
        return untrusted_embedder(signature, name)
    return recall_embedder(signature, settings) if signature else None


def _sparse_encoder(settings: Settings, name: str) -> SparseEncoder | None:
    return build_sparse_encoder(
        name,
        origin=settings.origin("sparse_encoder"),
        source=settings.place("sparse_encoder"),
        environ=with_ca_file(settings.ca_file),
        concurrency=settings.embed_concurrency,
    )


def _llms() -> Any:
    from triptych_factory import llms  # most programs search only

    return llms


def _sentences(size: int | None = None, overlap: int | None = None) -> ChunkerSet:
    if overlap:
        raise ValidationError(
            f"chunk_overlap is {overlap}, and the chunker 'sentence-window' has none: its windows "
            "hold the sentences around each; leave chunk_overlap out"
        )
    chunker = SentenceWindowChunker() if size is None else SentenceWindowChunker(size=size)
    return ChunkerSet(default=chunker)


def _markdown(*, joins: bool = True, **sizes: int) -> ChunkerSet:
    return default_chunkers(ChunkConfig(**sizes), MarkdownChunker(joins=joins, **sizes))


CHUNKERS: Mapping[str, Callable[..., ChunkerSet]] = {
    "markdown": _markdown,
    "markdown-sections": partial(_markdown, joins=False),
    "window": lambda **sizes: ChunkerSet(default=DefaultChunker(config=ChunkConfig(**sizes))),
    "fixed-window": lambda **sizes: ChunkerSet(default=FixedWindowChunker(**sizes)),
    "sentence-window": _sentences,
}
"""The values of the setting ``chunker``: each takes ``size`` and ``overlap``, in code points."""


def settings_chunkers(settings: Settings) -> ChunkerSet:
    """Return the chunkers that the settings name."""
    return build_chunkers(settings.chunker, settings.chunk_size, settings.chunk_overlap)


def build_chunkers(name: str, size: int | None = None, overlap: int | None = None) -> ChunkerSet:
    """Return the chunkers of this name, with the sizes that are given; None leaves the default.

    Raises:
        ValidationError: no chunker has this name, or the sizes do not fit.
    """
    if name not in CHUNKERS:
        raise ValidationError(f"no chunker is called {name!r}: use one of {', '.join(CHUNKERS)}")
    given = {"size": size, "overlap": overlap}
    return CHUNKERS[name](**{key: value for key, value in given.items() if value is not None})


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
