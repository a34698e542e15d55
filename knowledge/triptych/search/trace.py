"""The ranking after each stage of a search, which `traced` collects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal

import attrs

from triptych.records import Candidate, Hit, Mode, ResolvedQuery

if TYPE_CHECKING:
    from triptych.search.engine import FusedRanking

Kind = Literal["fusion", "threshold", "reading", "step", "per_document", "shown"]

_stages: ContextVar[list[Stage] | None] = ContextVar("triptych_stages", default=None)


@attrs.frozen
class Stage:
    """A stage of a search.

    Attributes:
        kind: "fusion", "threshold", "reading", "step", "per_document" or "shown".
        name: what a person calls it; of a step its class.
        ranking: what it let through, best first.
        leaves_out: why it leaves out the others, in words.
    """

    kind: Kind
    name: str
    ranking: Sequence[Candidate | Hit]
    leaves_out: str = ""


@contextmanager
def traced() -> Iterator[list[Stage]]:
    """Collect the stages of the last search that this thread makes in the block.

    There are none of a search that ranks nothing, and of one that a server makes. No answer is
    taken from a cache.
    """
    stages: list[Stage] = []
    token = _stages.set(stages)
    try:
        yield stages
    finally:
        _stages.reset(token)


def is_traced() -> bool:
    """Whether this thread is within `traced`."""
    return _stages.get() is not None


def note(kind: Kind, name: str, ranking: Sequence[Candidate | Hit], leaves_out: str = "") -> None:
    """Add a stage to the trace, if the search is traced."""
    stages = _stages.get()
    if stages is not None:
        stages.append(Stage(kind, name, ranking, leaves_out))


def note_retrieval(
    query: ResolvedQuery,
    ranking: FusedRanking,
    above: Sequence[Candidate],
    hits: Sequence[Hit],
) -> None:
    """Replace the trace by the stages before the steps, if the search is traced."""
    stages = _stages.get()
    if stages is None:
        return
    stages.clear()
    note("fusion", "fusion" if query.mode == Mode.HYBRID else str(query.mode), ranking.candidates)
    if query.threshold is not None:
        note("threshold", "threshold", above, f"its score is below {query.threshold:g}")
    note("reading", "read", hits, "beyond the depth of the steps, or stale")
