"""Runs the lanes of a query in parallel and fuses them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from operator import itemgetter
from typing import Literal, TypeVar

import attrs

from triptych.contracts import LocalRetriever, Ranker, Retriever
from triptych.errors import CancelledError, NotAvailableError, ValidationError
from triptych.records import Candidate, Candidates, Mode, ResolvedQuery
from triptych.search.fusion import RRFRanker, in_order

__all__ = ["FusedRanking", "SearchEngine", "Target"]

Target = Literal["chunk", "layer", "document"]
T = TypeVar("T")
_Call = Callable[[], Sequence[Candidate]]


@attrs.frozen(kw_only=True)
class FusedRanking:
    """The fused candidates, best first; what the lanes had to say; whether none is missing."""

    candidates: Sequence[Candidate]
    warnings: tuple[str, ...] = ()
    exhausted: bool = False


class SearchEngine:
    """Routes a query to the retrievers of its tier, then to the ranker.

    In hybrid mode every lane runs, at the same time but for those in this process, and the
    ranker fuses them in the order of the retrievers: the answer never depends on which finished
    first. A lane that fails is
    named in the warnings; when all fail, the first error is raised. In a single mode only
    the lane of that name runs, its scores are the result's, and its error is the caller's.
    """

    def __init__(
        self,
        chunk: Sequence[Retriever],
        layer: Sequence[Retriever] = (),
        document: Sequence[Retriever] = (),
        ranker: Ranker | None = None,
    ) -> None:
        """Wire the lanes of each tier; ``ranker`` None is `RRFRanker`.

        Raises:
            ValidationError: two retrievers of one tier have the same name.
        """
        self._tiers: Mapping[Target, Sequence[Retriever]] = {
            "chunk": tuple(chunk),
            "layer": tuple(layer),
            "document": tuple(document),
        }
        for tier, lanes in self._tiers.items():
            for name, count in Counter(lane.name for lane in lanes).items():
                if count > 1:
                    raise ValidationError(
                        f"{count} {tier} retrievers are called {name!r}: give each a name of its "
                        "own, under which the ranker and a hit's scores know it"
                    )
        # Found once: asking a Protocol costs more than many a lane's own work.
        self._local = {
            id(lane): lane
            for lanes in self._tiers.values()
            for lane in lanes
            if isinstance(lane, LocalRetriever) and lane.in_process
        }
        self.ranker: Ranker = RRFRanker() if ranker is None else ranker
        self._pool: ThreadPoolExecutor | None = None
        self._pool_pid = 0

    def recall(self, tier: Target, query: ResolvedQuery) -> FusedRanking:
        """Everything the lanes find, fused."""
        retrievers = self._tiers[tier]
        if query.mode is not Mode.HYBRID:
            retrievers = [r for r in retrievers if r.name == query.mode]
            if not retrievers:
                raise NotAvailableError(
                    f"no {query.mode} lane is wired for {tier} search: give the SearchEngine "
                    "a retriever of that name"
                )
            name = retrievers[0].name
            lane = _floor(name, retrievers[0].recall(query), query)
            return FusedRanking(candidates=in_order(lane, name), exhausted=len(lane) < query.limit)
        lanes, warnings = self._run(retrievers, query)
        fused = self.ranker.rank(lanes)
        return FusedRanking(
            candidates=fused,
            warnings=tuple(warnings),
            exhausted=all(len(lane) < query.limit for lane in lanes.values()),
        )

    def close(self) -> None:
        """Let the worker threads end."""
        pool, self._pool = self._pool, None
        if pool is not None and self._pool_pid == os.getpid():
            pool.shutdown(wait=True)

    def _run(
        self, retrievers: Sequence[Retriever], query: ResolvedQuery
    ) -> tuple[dict[str, Sequence[Candidate]], list[str]]:
        begun = [self._begun(lane, query, at) for at, lane in enumerate(retrievers)]
        answers: dict[int, Sequence[Candidate] | Exception] = {}
        for _, at, call in sorted(begun, key=itemgetter(0, 1)):
            answers[at] = _attempt(call)
        lanes: dict[str, Sequence[Candidate]] = {}
        warnings: list[str] = []
        errors: list[Exception] = []
        for at, retriever in enumerate(retrievers):
            answer = answers[at]
            if isinstance(answer, Exception):
                if isinstance(answer, CancelledError | ValidationError):
                    raise answer
                errors.append(answer)
                warnings.append(f"the {retriever.name} lane did not run: {answer}")
            else:
                lanes[retriever.name] = _floor(retriever.name, answer, query)
        if not lanes:
            raise errors[0]
        return lanes, warnings

    def _begun(self, lane: Retriever, query: ResolvedQuery, at: int) -> tuple[int, int, _Call]:
        """How early this thread should ask for a lane's answer, the lane's place, and how.

        What runs elsewhere is under way when this returns.
        """
        local = self._local.get(id(lane))
        if local is None:
            if at == 0 and not self._local:
                return 0, at, partial(lane.recall, query)
            return 2, at, self._beside(partial(lane.recall, query)).result
        preparation = local.preparation(query)
        if preparation is None:
            return 0, at, partial(lane.recall, query)
        prepared = self._beside(preparation)
        return 1, at, lambda: lane.recall(prepared.result())

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
