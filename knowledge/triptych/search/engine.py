"""The search engine: runs the retrievers of a query concurrently and fuses their results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, Literal, TypeVar

import attrs

from triptych import telemetry
from triptych._internal.turns import SEARCHES
from triptych._internal.wording import FailureWarning
from triptych.contracts import Ranker, Retriever
from triptych.contracts.lane_warnings import COLLECTED
from triptych.errors import CancelledError, NotAvailableError, ValidationError
from triptych.records import Candidate, Candidates, ChunkPlace, Mode, RankedList, ResolvedQuery
from triptych.search.fusion import ZScoreRanker, best_of, depth_of, in_order

Target = Literal["chunk", "layer", "document"]
T = TypeVar("T")
_Call = Callable[[], Sequence[Candidate]]
_Prepares = Callable[[ResolvedQuery], Callable[[], ResolvedQuery] | None]
Keep = Callable[[Sequence[Candidate]], Collection[int]]
"""Takes candidates; returns the indices of those to keep."""

_DEEPER = 4  # each further look into a lane goes this many times as deep


@attrs.frozen(kw_only=True)
class FusedRanking:
    """The fused candidates, best first; what the lanes had to say; whether none is missing.

    ``lists`` are those of the lanes that ran, each with the variant that it was found for.
    """

    candidates: Sequence[Candidate]
    warnings: tuple[str, ...] = ()
    exhausted: bool = False
    lists: Sequence[tuple[ResolvedQuery, RankedList]] = ()

    def above(self, threshold: float) -> Sequence[Candidate]:
        """Return the candidates whose score is ``threshold`` or more."""
        return [each for each in self.candidates if each.score >= threshold]

    def below(self, threshold: float) -> Sequence[Candidate]:
        """Return the other candidates: those that `above` leaves out."""
        return [each for each in self.candidates if each.score < threshold]


class SearchEngine:
    """Runs the retrievers for a query, then the ranker.

    In hybrid mode every retriever runs for every variant of the query, concurrently except for
    those with ``in_process``. The ranker fuses their lists in the order of the retrievers, so that
    the result never depends on timing. A retriever that fails is named in the warnings; if all
    fail, the first error is raised. In the mode of a single lane only that retriever runs, and its
    error is raised; with one variant, the result has its scores.

    Each group of variants gets its own ranking. A candidate then has its best score of all rankings
    (`fusion.best_of`).
    """

    def __init__(
        self,
        chunk: Sequence[Retriever],
        layer: Sequence[Retriever] = (),
        document: Sequence[Retriever] = (),
        ranker: Ranker | None = None,
    ) -> None:
        """Set the retrievers of each target; ``ranker`` None is `ZScoreRanker`.

        Raises:
            ValidationError: two retrievers of one target have the same name.
        """
        self._targets: Mapping[Target, Sequence[Retriever]] = {
            "chunk": tuple(chunk),
            "layer": tuple(layer),
            "document": tuple(document),
        }
        for target, lanes in self._targets.items():
            for name, count in Counter(lane.name for lane in lanes).items():
                if count > 1:
                    raise ValidationError(
                        f"{count} {target} retrievers are called {name!r}: give each a unique "
                        "name, for the ranker and the scores of hits"
                    )
        self._local = {
            id(lane)
            for lanes in self._targets.values()
            for lane in lanes
            if getattr(lane, "in_process", False)
        }
        self.ranker: Ranker = ZScoreRanker() if ranker is None else ranker
        self._pool: ThreadPoolExecutor | None = None
        self._pool_pid = 0

    @property
    def lanes(self) -> tuple[str, ...]:
        """The distinct names of all lanes, in the order of the retrievers."""
        return tuple(
            dict.fromkeys(each.name for several in self._targets.values() for each in several)
        )

    @property
    def retrievers(self) -> tuple[Retriever, ...]:
        """All lanes, in the order of each target."""
        return tuple(each for several in self._targets.values() for each in several)

    def retrieve(
        self,
        target: Target,
        variants: Sequence[ResolvedQuery],
        depth: int = 0,
        keep: Keep | None = None,
    ) -> FusedRanking:
        """Return the fused candidates of all lanes for ``variants`` of one query.

        Each lane returns as many candidates as the variant's ``limit`` or ``depth``, whichever is
        greater, and at least as many as the ranker needs if lists are fused. With ``keep``, a lane
        continues until that many candidates pass or none is left; the depth of the ranker is then
        ignored, because the text of each candidate is read.
        """
        warnings: list[str] = []
        token = COLLECTED.set(warnings)
        try:
            ranking = self._retrieved(target, variants, depth, keep)
        finally:
            COLLECTED.reset(token)
        if not warnings:
            return ranking
        return attrs.evolve(ranking, warnings=(*ranking.warnings, *sorted(warnings)))

    def _retrieved(
        self, target: Target, variants: Sequence[ResolvedQuery], depth: int, keep: Keep | None
    ) -> FusedRanking:
        query = variants[0]
        if depth > query.limit:
            variants = [attrs.evolve(each, limit=depth) for each in variants]
            query = variants[0]
        retrievers = self._targets[target]
        if query.mode != Mode.HYBRID:
            retrievers = [each for each in retrievers if each.name == query.mode]
            if not retrievers:
                raise NotAvailableError(
                    f"no {query.mode} lane is wired for {target} search: give the SearchEngine "
                    "a retriever of that name"
                )
            if len(variants) == 1:
                lane = retrievers[0]
                (found,) = _keyed([self._recall(lane, query, keep)])
                if query.min_scores:
                    found = _floor(lane.name, found, query)
                ranked = in_order(found, lane.name)
                return FusedRanking(
                    candidates=ranked,
                    exhausted=len(ranked.rows) < query.limit,
                    lists=[(query, RankedList(lane=lane.name, candidates=found))],
                )
        elif query.lanes is not None:
            retrievers = [each for each in retrievers if each.name in query.lanes]
        if not retrievers:
            named = "" if query.lanes is None else f" of {', '.join(sorted(query.lanes))}"
            raise NotAvailableError(
                f"no lane{named} is wired for {target} search: use a search for which this store "
                "has lanes, or give the SearchEngine a retriever"
            )
        wanted = depth_of(self.ranker, query.top_k)
        if keep is None and wanted > query.limit:
            variants = [attrs.evolve(each, limit=wanted) for each in variants]
            query = variants[0]
        calls = [(retriever, variant) for retriever in retrievers for variant in variants]
        lists, warnings = self._run(calls, keep)
        rankings = []
        for group in dict.fromkeys([variant.group for variant in variants]):
            several = [variant for variant in variants if variant.group == group]
            of_group = [ranked for variant, ranked in lists if variant.group == group]
            if of_group:
                rankings.append(_ranked(several, of_group, self.ranker))
        return FusedRanking(
            candidates=rankings[0] if len(rankings) == 1 else best_of(rankings),
            warnings=tuple(warnings),
            exhausted=all(len(each.candidates) < query.limit for _, each in lists),
            lists=lists,
        )

    def best_score(self, target: Target, lane: str, query: ResolvedQuery) -> float | None:
        """Return the score of the best candidate of one lane, None if it finds none.

        Raises:
            NotAvailableError: there is no such lane, or it cannot serve the query.
        """
        for retriever in self._targets[target]:
            if retriever.name == lane:
                found = retriever.recall(attrs.evolve(query, limit=1))
                return max((each.score for each in found), default=None)
        raise NotAvailableError(f"no {lane} lane is wired for {target} search")

    def close(self) -> None:
        """End the worker threads."""
        pool, self._pool = self._pool, None
        if pool is not None and self._pool_pid == os.getpid():
            pool.shutdown(wait=True)

    def _run(
        self, calls: Sequence[tuple[Retriever, ResolvedQuery]], keep: Keep | None
    ) -> tuple[list[tuple[ResolvedQuery, RankedList]], list[str]]:
        """The list of each call that did not fail, with its variant, and the warnings."""
        here: list[tuple[int, _Call]] = []  # what this thread does while others prepare and run
        prepared: list[tuple[int, _Call]] = []
        elsewhere: list[tuple[int, _Call]] = []
        for at, (lane, query) in enumerate(calls):
            recall = partial(self._recall, lane, query, keep)
            if id(lane) in self._local:
                prepares: _Prepares | None = getattr(lane, "preparation", None)
                preparation = None if prepares is None else prepares(query)
                if preparation is None:
                    here.append((at, recall))
                else:
                    ready = self._beside(preparation)
                    prepared.append((at, partial(self._recall, lane, ready, keep)))
            elif at == 0 and not self._local:
                here.append((at, recall))
            else:
                elsewhere.append((at, partial(_waited, self._beside(recall))))
        answers = {at: _attempt(call) for at, call in [*here, *prepared, *elsewhere]}
        came = [at for at, answer in answers.items() if not isinstance(answer, Exception)]
        answers |= dict(zip(came, _keyed([answers[at] for at in came]), strict=True))
        lists: list[tuple[ResolvedQuery, RankedList]] = []
        warnings: list[str] = []
        errors: list[Exception] = []
        for at, (retriever, query) in enumerate(calls):
            answer, name = answers[at], retriever.name
            if isinstance(answer, Exception):
                if isinstance(answer, CancelledError | ValidationError):
                    raise answer
                errors.append(answer)
                warnings.append(FailureWarning(f"the {name} lane did not run", answer))
            else:
                found = _floor(name, answer, query) if query.min_scores else answer
                told = getattr(retriever, "cosine_range", None)
                cosines = None if told is None else told(query)
                ranked = RankedList(
                    lane=name, candidates=found, weight=query.weight, cosine_range=cosines
                )
                lists.append((query, ranked))
        if not lists:
            raise errors[0]
        return lists, list(dict.fromkeys(warnings))

    def _recall(
        self, lane: Retriever, query: ResolvedQuery | Future[ResolvedQuery], keep: Keep | None
    ) -> Sequence[Candidate]:
        """The lane's best ``query.limit`` candidates that may stay."""
        if isinstance(query, Future):
            query = _waited(query)
        SEARCHES.pass_on("the search")
        recall = lane.recall if keep is None else partial(_kept, lane, keep=keep)
        waits = id(lane) not in self._local
        if not waits and not telemetry.is_observed():
            return recall(query)
        turn = SEARCHES.given_up() if waits else nullcontext()
        with telemetry.operation("lane", lane=lane.name), turn:
            found = recall(query)
            telemetry.note(candidates=len(found))
            return found

    def _beside(self, call: Callable[[], T]) -> Future[T]:
        """Run in another thread. The caller's context goes along, so that its deadline holds."""
        context = copy_context()
        return self._workers().submit(lambda: context.run(call))

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None or self._pool_pid != os.getpid():
            # Threads do not survive a fork: a child makes its own.
            self._pool = ThreadPoolExecutor(4, thread_name_prefix="triptych-lane")
            self._pool_pid = os.getpid()
        return self._pool


def _ranked(
    variants: Sequence[ResolvedQuery], lists: Sequence[RankedList], ranker: Ranker
) -> Sequence[Candidate]:
    """The ranking of one group: of one variant in one lane, it is the lane's own."""
    SEARCHES.pass_on("the search")
    if variants[0].mode != Mode.HYBRID and len(variants) == 1:
        return in_order(lists[0].candidates, lists[0].lane)
    lap = telemetry.laps()
    ranking = ranker.rank(variants[0], lists)
    if lap is not None:
        lap("fuse")
    return ranking


def _waited(answer: Future[T]) -> T:
    """What another thread answers; meanwhile others may search."""
    with SEARCHES.given_up():
        return answer.result()


def _kept(lane: Retriever, query: ResolvedQuery, keep: Keep) -> Sequence[Candidate]:
    limit, before = query.limit, -1
    while True:
        SEARCHES.pass_on("the search")
        found = lane.recall(attrs.evolve(query, limit=limit))
        kept = keep(found)
        # A lane that gives no more than before has no more to give.
        if len(kept) >= query.limit or len(found) < limit or len(found) == before:
            places = sorted(kept)[: query.limit]
            if isinstance(found, Candidates):
                return found.at(places)
            return [found[at] for at in places]
        limit, before = limit * _DEEPER, len(found)


def _keyed(lists: Sequence[Any]) -> Sequence[Sequence[Candidate]]:
    """The lists, each candidate without a key with that of another list, or else its place."""
    # Repositories answer with `Candidates`, which have their keys.
    if set(map(type, lists)) == {Candidates}:
        return lists
    places = {
        ChunkPlace(each.dataset_id, each.doc_name, each.index): each.key
        for found in lists
        for each in found
        if each.key is not None
    }

    def keyed(each: Candidate) -> Candidate:
        if each.key is not None:
            return each
        place = ChunkPlace(each.dataset_id, each.doc_name, each.index)
        return attrs.evolve(each, key=places.get(place, place))

    return [
        found if isinstance(found, Candidates) else [keyed(each) for each in found]
        for found in lists
    ]


def _attempt(call: Callable[[], Sequence[Candidate]]) -> Sequence[Candidate] | Exception:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - a lane may fail in any way; it is reported
        return error


def _floor(lane: str, candidates: Sequence[Candidate], query: ResolvedQuery) -> Sequence[Candidate]:
    least = query.min_scores.get(lane)
    if least is None:
        return candidates
    return Candidates.of(candidates).where(lambda row: -row[0] >= least)
