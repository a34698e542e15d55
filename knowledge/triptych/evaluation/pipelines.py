"""Comparing pipelines on the same questions: each is a mode of the evaluation."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from triptych._internal.progress import ProgressCallback
from triptych.contracts import Postprocessor
from triptych.errors import ValidationError
from triptych.evaluation.collections import Collection
from triptych.evaluation.results import Evaluation, Granularity, ModeResult
from triptych.evaluation.run import EvaluationRun, check_over, described, tuned_choice
from triptych.evaluation.significance import few_queries_warning
from triptych.evaluation.targets import find_targets
from triptych.records import Mode, Result
from triptych.search.pipeline_record import Pipeline, one_rewriter, rewriters_of
from triptych.search.question_log import unlogged
from triptych.service.views import PipelineView
from triptych.text.tokens import estimate_tokens

if TYPE_CHECKING:
    from triptych.service import Service


def service_pipeline(service: Service) -> Pipeline:
    """Return the pipeline of the Service's default search."""
    options = service.options
    return Pipeline(
        name="default",
        rewriter=options.rewriter,
        postprocessors=options.postprocessors,
        llm=options.llm,
    )


def ablation_stages(service: Service, pipeline: Pipeline) -> Mapping[str, Pipeline]:
    """Return the stages of a pipeline: each lane alone, all lanes, then one more step at a time.

    Their names are the lanes, "hybrid", and "+ " with the class of each added rewriter and
    postprocessor.
    """
    lanes = tuple(pipeline.lanes or service.lanes)
    if not service.options.has_embedder:
        lanes = tuple(lane for lane in lanes if lane != Mode.VECTOR)
    bare = attrs.evolve(pipeline, rewriter=None, postprocessors=())
    search = {key: value for key, value in pipeline.search.items() if key != "mode"}
    stages = {lane: attrs.evolve(bare, search={**search, "mode": lane}) for lane in lanes}
    whole = str(pipeline.search.get("mode") or "hybrid")
    if whole not in stages:
        if len(lanes) > 1:
            stages["hybrid"] = attrs.evolve(bare, search=search)
    else:
        stages = {whole: stages[whole]}
    last = attrs.evolve(bare, search=next(reversed(stages.values())).search)
    rewriters: list[Any] = []
    for rewriter in rewriters_of(pipeline.rewriter):
        rewriters.append(rewriter)
        last = attrs.evolve(last, rewriter=tuple(rewriters))
        stages[_named(stages, rewriter)] = last
    steps: list[Postprocessor] = []
    for step in pipeline.postprocessors:
        steps.append(step)
        last = attrs.evolve(last, postprocessors=tuple(steps))
        stages[_named(stages, step)] = last
    return stages


def _named(stages: Mapping[str, Pipeline], step: object) -> str:
    name = f"+ {type(step).__name__}"
    same = sum(each == name or each.startswith(f"{name} ") for each in stages)
    return f"{name} {same + 1}" if same else name


@unlogged()
def evaluate_pipelines(
    service: Service,
    collection: Collection,
    pipelines: Mapping[str, Pipeline],
    *,
    dataset_id: str,
    granularity: Granularity = Granularity.BEST_CHUNK,
    cutoffs: Sequence[int] = (1, 5, 10),
    least_grade: int = 1,
    progress: ProgressCallback | None = None,
) -> Evaluation:
    """Run every question in every pipeline, one search at a time; each is a mode of the result.

    Depending on ``granularity``, a document is ranked by its best chunk among the pipeline's
    ``top_k`` hits; or, without the pipeline's postprocessors, as in `evaluate`. Questions without
    an answer are left out. ``configuration`` has ``model_calls``: the mean number of model calls
    for a question by pipeline.

    Raises:
        ValidationError: there are no pipelines, or no questions with an answer.
        NotFoundError: the dataset does not exist.
        NotAvailableError: a pipeline cannot run.
    """
    queries = [query for query in collection.queries if not query.unanswerable]
    if not pipelines or not queries:
        raise ValidationError("give at least one pipeline, and a question that has an answer")
    targets = find_targets(service, dataset_id, collection, passages=False)
    modes: dict[str, ModeResult] = {}
    calls: dict[str, float] = {}
    for name, pipeline in pipelines.items():
        counter = _Counter()
        steps = [counted(step, counter) for step in pipeline.postprocessors]
        check_over(pipeline, dataset_id).check(service.lanes)
        with service.searches.derived(
            lanes=pipeline.lanes,
            ranker=pipeline.ranker,
            rewriter=one_rewriter(pipeline.rewriter),
            postprocessors=steps,
        ) as searches:
            view = PipelineView(service, pipeline, searches)
            run = _PipelineRun(
                service=service,
                dataset_id=dataset_id,
                granularity=granularity,
                depth=max(cutoffs),
                cutoffs=tuple(cutoffs),
                budgets=(),
                count_tokens=estimate_tokens,
                least_grade=least_grade,
                view=view,
                counter=counter,
            )
            modes[name] = run.run(name, queries, targets, progress)
        calls[name] = counter.calls / len(queries)
    missing = [f"{key}: {name}" for key, wanted in targets.items() for name in wanted.missing]
    lacks = f"the dataset lacks {len(missing)} relevant documents, the first {missing[:1]}"
    return Evaluation(
        collection=collection.name,
        granularity=granularity,
        query_ids=tuple(query.query_id for query in queries),
        modes=modes,
        configuration={
            "dataset": dataset_id,
            "depth": max(cutoffs),
            "cutoffs": list(cutoffs),
            "least_grade": least_grade,
            "ranker": repr(service.ranker),
            "tuned": tuned_choice(service, dataset_id),
            "pipelines": {name: described(each) for name, each in pipelines.items()},
            "model_calls": calls,
        },
        warnings=(*few_queries_warning(len(queries)), *([lacks] if missing else [])),
        questions={query.query_id: query.text for query in queries},
    )


@attrs.frozen(kw_only=True)
class _PipelineRun(EvaluationRun):
    """The run of one pipeline; ``counter`` counts the calls of models, but for those of the first
    search, which is the one that loads."""

    view: PipelineView
    counter: _Counter

    def ask(self, mode: Mode | str, text: str, top_k: int) -> Result:
        self.counter.searches += 1
        if self.counter.searches == 2:
            self.counter.calls = 0
        if self.granularity is Granularity.DOCUMENT:
            found = super().ask(mode, text, top_k)
        else:
            found = self.view.search(text, dataset_id=self.dataset_id)
        self.counter.add(sum(usage.calls for usage in found.usage))
        return found


class _Counter:
    """How often models were called, by any thread."""

    def __init__(self) -> None:
        self.calls: int = 0
        self.searches: int = 0
        self._lock = threading.Lock()

    def add(self, calls: int) -> None:
        with self._lock:
            self.calls += calls


class _CountedModel:
    """A model whose calls are counted; all else is its own."""

    def __init__(self, model: Any, counter: _Counter) -> None:
        self._model = model
        self._counter = counter

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if name not in ("generate", "stream", "scores"):
            return found

        def called(*arguments: Any, **options: Any) -> Any:
            self._counter.add(1)
            return found(*arguments, **options)

        return called


def counted(step: Any, counter: _Counter) -> Any:
    """Return a copy of ``step`` that counts the calls of models in its fields."""
    if not attrs.has(type(step)):
        return step
    changed: dict[str, Any] = {}
    for field in attrs.fields(type(step)):
        value = getattr(step, field.name)
        if not field.init or isinstance(value, type):
            continue
        if attrs.has(type(value)) and field.name == "reranker":
            inner = counted(value, counter)
            if inner is not value:
                changed[field.alias] = inner
                continue
        if field.name in ("llm", "reranker"):
            changed[field.alias] = _CountedModel(value, counter)
    return attrs.evolve(step, **changed) if changed else step
