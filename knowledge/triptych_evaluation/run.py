"""`evaluate`: search for every judged question, and score and check the results."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

import triptych
from triptych import Progress, ProgressCallback, deadlines
from triptych.answers import estimate_tokens
from triptych.errors import NotAvailableError, ValidationError
from triptych.question_log import unlogged
from triptych.records import Hit, Mode, Result, check_whole, counted, is_valid_mode, to_mode
from triptych.search import Pipeline, rewriters_of
from triptych.service import KnowledgeBase, Service, ServiceOptions, service_of
from triptych_evaluation.collections import Collection, JudgedQuery
from triptych_evaluation.metrics import (
    DEFAULT_BUDGETS,
    DEFAULT_CUTOFFS,
    evidence_within,
    recall_at,
    score_ranking,
)
from triptych_evaluation.results import Evaluation, Granularity, ModeResult
from triptych_evaluation.significance import Estimate, bootstrap, few_queries_warning
from triptych_evaluation.targets import Place, Targets, chunk_places, document_places, find_targets

if TYPE_CHECKING:
    from triptych.records import SearchOptions

TOP_K = 10
CHECKS = ("keywords@1", f"keywords@{TOP_K}", "abstention_precision", "abstention_recall")
"""The names of the values of `check_answers`."""


def keyword_coverage(keywords: Sequence[str], hits: Sequence[Hit]) -> float:
    """Return the share of the keywords that occur in the hits' texts together.

    Case is ignored, and white space counts as one space. A window is part of its hit's text.
    """
    text = "\n".join(_folded(hit.window or hit.content) for hit in hits)
    return sum(_folded(keyword) in text for keyword in keywords) / len(keywords)


def check_answers(
    run: EvaluationRun, mode: Mode | str, queries: Sequence[JudgedQuery]
) -> Mapping[str, Estimate]:
    """Search the chunks for each question, and check keywords and abstention, if there are any.

    ``keywords@1`` and ``keywords@10``: `keyword_coverage` of the first hit and of ten hits, over
    the questions with keywords. ``abstention_precision``: of the results whose
    evidence is "none" (`Result.evidence`), the share whose question has no answer;
    ``abstention_recall``: the share of questions without an answer whose evidence is "none".
    """
    negative = any(query.unanswerable for query in queries)
    asked = [query for query in queries if query.keywords or negative]
    run = attrs.evolve(run, granularity=Granularity.CHUNK)
    values: dict[str, list[float]] = {name: [] for name in CHECKS}
    for query in asked:
        deadlines.check("the evaluation")
        try:
            result = run.ask(mode, query.text, TOP_K)
        except (NotAvailableError, ValidationError):
            continue  # a query that the mode cannot serve is counted with the ranking
        if query.keywords:
            values["keywords@1"].append(keyword_coverage(query.keywords, result.hits[:1]))
            values[f"keywords@{TOP_K}"].append(keyword_coverage(query.keywords, result.hits))
        none = result.evidence is not None and result.evidence.level == "none"
        if negative and none:
            values["abstention_precision"].append(float(query.unanswerable))
        if query.unanswerable:
            values["abstention_recall"].append(float(none))
    return {name: bootstrap({name: row})[name] for name, row in values.items() if row}


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


_STEP = 20  # queries between two calls of the progress callback
_SHOWN = 5


@unlogged()
def evaluate(
    service: KnowledgeBase,
    collection: Collection,
    *,
    dataset_id: str,
    modes: Sequence[Mode | str] | None = None,
    pipelines: Sequence[str] = (),
    granularity: Granularity | str = Granularity.DOCUMENT,
    cutoffs: Sequence[int] = DEFAULT_CUTOFFS,
    budgets: Sequence[int] = DEFAULT_BUDGETS,
    count_tokens: Callable[[str], int] = estimate_tokens,
    least_grade: int = 1,
    progress: ProgressCallback | None = None,
) -> Evaluation:
    """Run every question of the collection in every mode, one search at a time, and score it.

    A pipeline of the Service is one more mode of the result, under its name.

    Each search requests as many hits as the greatest of ``cutoffs``, over which MRR and MAP are
    computed. At chunk granularity chunks are ranked, and the share of evidence within ``budgets``
    of tokens is measured too (metrics ``evidence@500`` and so on, in tokens).

    Questions without an answer are in no ranking metric. `ModeResult.checks` has the quality of
    abstention and the expected keywords in hits.

    A query that fails in a mode scores 0, and so does a relevant document that the dataset lacks;
    warnings report both. Latency is for one search at a time, without the first.

    Args:
        dataset_id: the dataset with the collection's documents; nothing is stored.
        modes: the modes; a mode that cannot serve any query raises. None runs all modes, and drops
            those that cannot with a warning; an empty list runs none beside ``pipelines``.
        pipelines: names of pipelines; whole documents are ranked without their postprocessors,
            with a warning.
        granularity: "document" ranks by `search_documents`, "chunk" by `search`.
        cutoffs: the depths of metrics.
        budgets: tokens of returned text; only for chunks.
        count_tokens: returns the number of tokens of a text.
        least_grade: the minimum grade of a relevant document or passage.

    Raises:
        ValidationError: an argument is invalid, or a golden set names a file by a suffix that
            several documents have.
        NotFoundError: the dataset or a pipeline does not exist.
        NotAvailableError: a named mode or a pipeline could not serve any query, or ``service`` is a
            client.
    """
    if granularity not in (Granularity.DOCUMENT, Granularity.CHUNK):
        raise ValidationError(f"{granularity!r} is not a granularity: choose 'document' or 'chunk'")
    granularity, service = Granularity(granularity), service_of(service, "an evaluation")
    chosen = _modes(service, modes, pipelines)
    every = collection.queries
    answerable = tuple(query for query in every if not query.unanswerable)
    collection = attrs.evolve(collection, queries=answerable)
    _check_numbers(collection, cutoffs, budgets)
    in_chunks = granularity is Granularity.CHUNK
    run = EvaluationRun(
        service=service,
        dataset_id=dataset_id,
        granularity=granularity,
        depth=max(cutoffs),
        cutoffs=tuple(cutoffs),
        budgets=tuple(budgets) if in_chunks else (),
        count_tokens=count_tokens,
        least_grade=check_whole(least_grade, "least_grade", least=1),
    )
    targets = find_targets(service, dataset_id, collection, passages=in_chunks)
    stats = service.stats(dataset_id)[0]
    views = {name: service.pipeline(name) for name in pipelines}
    results: dict[str, ModeResult] = {}
    warnings = [
        *_warnings(collection, targets, stats.stale, run.least_grade),
        *_pipeline_warnings(run, [service.pipelines[name] for name in views]),
    ]
    for mode in (*chosen, *views):
        in_mode = attrs.evolve(run, view=views.get(mode))
        try:
            ran = in_mode.run(mode, collection.queries, targets, progress)
            results[str(mode)] = attrs.evolve(ran, checks=check_answers(in_mode, mode, every))
        except NotAvailableError as error:
            if modes is not None or mode is Mode.BM25 or mode in views:
                raise
            told = f"mode {str(mode)!r} is left out, because it could serve no query: {error}"
            warnings.append(told)
    return Evaluation(
        collection=collection.name,
        granularity=granularity,
        query_ids=tuple(query.query_id for query in collection.queries),
        modes=results,
        configuration=_configuration(run, stats, {name: service.pipelines[name] for name in views}),
        warnings=tuple(warnings),
        questions={query.query_id: query.text for query in collection.queries},
    )


@attrs.frozen(kw_only=True)
class EvaluationRun:
    """One evaluation's settings, and the run of one mode, or of a pipeline's ``view``."""

    service: Service
    dataset_id: str
    granularity: Granularity
    depth: int
    cutoffs: tuple[int, ...]
    budgets: tuple[int, ...]
    count_tokens: Callable[[str], int]
    least_grade: int
    view: Service | None = None

    def run(
        self,
        mode: Mode | str,
        queries: Sequence[JudgedQuery],
        targets: Mapping[str, Targets],
        progress: ProgressCallback | None,
    ) -> ModeResult:
        rows: list[dict[str, float]] = []
        curves = np.zeros((len(queries), self.depth))
        latencies: list[float] = []
        rankings: dict[str, list[tuple[str, float]]] = {}
        refused: dict[str, Exception] = {}
        warned: list[str] = []
        # The index may have to be built first: that is not the time a search takes.
        with suppress(NotAvailableError, ValidationError):
            self._search(mode, queries[0], targets[queries[0].query_id])
        for number, query in enumerate(queries, start=1):
            deadlines.check("the evaluation")
            wanted = targets[query.query_id]
            places: list[Place] = []
            took = 0.0
            try:
                places, took, said = self._search(mode, query, wanted)
                warned.extend(said[:1])
            except (NotAvailableError, ValidationError) as error:
                refused[query.query_id] = error
            latencies.append(took)
            rows.append(self._score(places, wanted))
            curves[number - 1] = self._curve(places, wanted)
            rankings[query.query_id] = list({p.name: (p.name, p.score) for p in places}.values())
            if progress is not None and (number % _STEP == 0 or number == len(queries)):
                progress(Progress(phase=str(mode), done=number, total=len(queries)))
        if len(refused) == len(queries):
            raise next(iter(refused.values()))
        values = {name: tuple(row[name] for row in rows) for name in rows[0]}
        return ModeResult(
            values=values,
            estimates=bootstrap(values),
            latencies=tuple(latencies),
            recall_at_depth=tuple(curves.mean(axis=0).tolist()),
            warnings=tuple(_run_warnings(refused, warned)),
            rankings=rankings,
        )

    def _search(
        self, mode: Mode | str, query: JudgedQuery, targets: Targets
    ) -> tuple[list[Place], float, Sequence[str]]:
        """The places of the answer, the milliseconds it took, and its warnings."""
        began = time.perf_counter()
        result = self.ask(mode, query.text, self.depth + targets.spare)
        took = (time.perf_counter() - began) * 1_000
        hits = [hit for hit in result.hits if hit.doc_name not in targets.excluded]
        hits = hits[: self.depth]
        if self.granularity is not Granularity.CHUNK:
            return document_places(hits), took, result.warnings
        tokens = [self.count_tokens(hit.content) for hit in hits]
        return chunk_places(hits, tokens, targets), took, result.warnings

    def ask(self, mode: Mode | str, text: str, top_k: int) -> Result:
        """One search of what is ranked."""
        options: SearchOptions = {"dataset_id": self.dataset_id, "top_k": top_k}
        if self.view is None:
            options["mode"] = mode
        runs = self.service if self.view is None else self.view
        whole = self.granularity is Granularity.DOCUMENT
        return (runs.search_documents if whole else runs.search)(text, **options)

    def _score(self, places: Sequence[Place], targets: Targets) -> dict[str, float]:
        scores = score_ranking(
            [place.unit for place in places],
            targets.grades,
            cutoffs=self.cutoffs,
            least_grade=self.least_grade,
        )
        found = [(place.unit, place.tokens) for place in places]
        for budget in self.budgets:
            scores[f"evidence@{budget}"] = evidence_within(
                budget, found, targets.grades, least_grade=self.least_grade
            )
        return scores

    def _curve(self, places: Sequence[Place], targets: Targets) -> list[float]:
        units = [place.unit for place in places]
        curve: list[float] = []
        for depth in range(1, self.depth + 1):
            unchanged = depth > 1 and (
                depth > len(units) or targets.grades.get(units[depth - 1], 0) < self.least_grade
            )
            curve.append(
                curve[-1]
                if unchanged
                else recall_at(depth, units, targets.grades, least_grade=self.least_grade)
            )
        return curve


def _modes(
    service: Service, modes: Sequence[Mode | str] | None, pipelines: Sequence[str]
) -> list[Mode | str]:
    """The modes to run beside ``pipelines``."""
    if modes is None:
        chosen = _modes_of(service.options)
    else:
        chosen = [
            mode if mode in service.lanes and not is_valid_mode(mode) else to_mode(mode)
            for mode in ([modes] if isinstance(modes, str) else modes)
        ]
    names = [*map(str, chosen), *pipelines]
    if not names or len(set(names)) < len(names):
        raise ValidationError(
            "name at least one mode or pipeline, and each once; a pipeline that is called as a "
            "mode cannot run beside it"
        )
    return chosen


def _modes_of(options: ServiceOptions) -> list[Mode | str]:
    names = [lane.name for lane in options.models.lanes if lane.sig]
    there = {Mode.BM25, *names, *([Mode.HYBRID] if names else [])}
    further: list[Mode | str] = [name for name in names if not is_valid_mode(name)]
    return [*(mode for mode in Mode if mode in there), *further]


def _check_numbers(collection: Collection, cutoffs: Sequence[int], budgets: Sequence[int]) -> None:
    if not cutoffs or not collection.queries:
        raise ValidationError("an evaluation needs at least one query and one cutoff")
    for what, numbers in (("a cutoff", cutoffs), ("a budget", budgets)):
        for number in numbers:
            check_whole(number, what, least=1)


def _configuration(
    run: EvaluationRun, stats: triptych.DatasetStats, pipelines: Mapping[str, Pipeline]
) -> dict[str, Any]:
    config = stats.config
    counter = run.count_tokens
    return {
        "triptych": triptych.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "dataset": run.dataset_id,
        "documents": stats.documents,
        "chunks": stats.chunks,
        **{
            lane.option: None if config is None else config.sigs[lane.kind] or None
            for lane in run.service.options.models.kept
        },
        "chunker": None if config is None else config.chunker_sig,
        "language": None if config is None else config.language,
        "ranker": repr(run.service.ranker),
        "postprocessors": list(map(repr, run.service.options.postprocessors)),
        "depth": run.depth,
        "cutoffs": list(run.cutoffs),
        "budgets": list(run.budgets),
        "token_counter": getattr(counter, "__qualname__", type(counter).__qualname__),
        "least_grade": run.least_grade,
        "pipelines": {name: described(each) for name, each in pipelines.items()},
    }


def described(pipeline: Pipeline) -> dict[str, Any]:
    """Return what a pipeline does, for the configuration of an evaluation."""
    return {
        "search": {key: str(value) for key, value in pipeline.search.items()},
        "rewriters": [type(each).__name__ for each in rewriters_of(pipeline.rewriter)],
        "lanes": list(pipeline.lanes),
        "ranker": None if pipeline.ranker is None else repr(pipeline.ranker),
        "postprocessors": [type(each).__name__ for each in pipeline.postprocessors],
    }


def check_over(pipeline: Pipeline, dataset_id: str) -> Pipeline:
    """Return ``pipeline``, unless it searches existing tables, which is refused."""
    if pipeline.over is not None:
        raise ValidationError(
            f"the pipeline {pipeline.name!r} searches other tables than the dataset "
            f"{dataset_id!r}: evaluate it over the Service that it names"
        )
    return pipeline


def _warnings(
    collection: Collection, targets: Mapping[str, Targets], stale: int, least_grade: int
) -> Iterator[str]:
    yield from few_queries_warning(len(collection.queries))
    empty = [
        query
        for query, wanted in targets.items()
        if not any(grade >= least_grade for grade in wanted.grades.values())
    ]
    if empty:
        yield (
            f"no relevant judgement for {counted(len(empty), 'query', 'queries')}, which score 0 "
            f"in every metric, as in trec_eval: {_list(empty)}"
        )
    missing = [f"{query}: {name}" for query, wanted in targets.items() for name in wanted.missing]
    if missing:
        yield (
            "the dataset lacks "
            + counted(
                len(missing), "relevant document or passage", "relevant documents or passages"
            )
            + f", counted as not found: {_list(missing)}"
        )
    if stale:
        yield f"the dataset has {counted(stale, 'stale document')}: rebuild it, and evaluate again"


def _pipeline_warnings(run: EvaluationRun, pipelines: Sequence[Pipeline]) -> Iterator[str]:
    for pipeline in pipelines:
        check_over(pipeline, run.dataset_id)
        if pipeline.postprocessors and run.granularity is Granularity.DOCUMENT:
            yield (
                "whole documents are ranked without the postprocessors of the pipeline "
                f"{pipeline.name!r}: rank chunks to measure them"
            )


def _run_warnings(refused: Mapping[str, Exception], warned: Sequence[str]) -> Iterator[str]:
    if refused:
        failed = counted(len(refused), "query", "queries")
        first = next(iter(refused.values()))
        yield f"{failed} could not be served, with score 0: {_list([*refused])}; the first: {first}"
    if warned:
        yield f"{counted(len(warned), 'search', 'searches')} warned; the first: {warned[0]}"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
