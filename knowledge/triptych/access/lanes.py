"""The lanes of a restricted caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from triptych import deadlines
from triptych.access.view import AccessView
from triptych.contracts import Retriever, Store
from triptych.records import Candidate, ResolvedQuery

_DEEPER = 4
_DEEPEST = 100_000


@attrs.frozen(eq=False)
class AccessLane:
    """A lane over something else than the store, without what is not the caller's.

    The lane is given the access's filter with the query's; what it finds all the same is left out.
    """

    lane: Retriever
    view: AccessView

    @property
    def name(self) -> str:
        return self.lane.name

    @property
    def signature(self) -> str | None:
        """That of the lane, for a semantic cache."""
        found = getattr(self.lane, "signature", None)
        return found if isinstance(found, str) else None

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """See `Retriever.recall`. It is asked deeper until enough of what it finds is shown."""
        view = self.view
        asked = attrs.evolve(query, filter=view.filter(query.filter))
        limit = query.limit
        while True:
            deadlines.check("the search")
            found = self.lane.recall(attrs.evolve(asked, limit=limit))
            shown = self._shown(found, query)
            if len(shown) >= query.limit or len(found) < limit or limit >= _DEEPEST:
                return shown[: query.limit]
            limit *= _DEEPER

    def _shown(self, found: Sequence[Candidate], query: ResolvedQuery) -> list[Candidate]:
        view = self.view
        names: dict[str, list[str]] = {}
        for each in found:
            if each.dataset_id in query.dataset_ids:
                names.setdefault(each.dataset_id, []).append(each.doc_name)
        there = {
            (dataset_id, name)
            for dataset_id, several in names.items()
            for name in view.infos(dataset_id, several)
        }
        return [each for each in found if (each.dataset_id, each.doc_name) in there]


def lane_over(lane: Retriever, store: Store, view: AccessView) -> Retriever:
    """The lane over ``store``, which shows ``view``; a lane that has no other store, narrowed."""
    over: Callable[[Store], Retriever] | None = getattr(lane, "over", None)
    return AccessLane(lane, view) if over is None else over(store)
