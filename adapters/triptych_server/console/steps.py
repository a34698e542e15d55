"""What a search is made of, and what each stage of it did to its passages, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from triptych.errors import NotAvailableError
from triptych.records import Candidate, Hit
from triptych.search import Stage
from triptych.service import KnowledgeBase, service_of

_ROWS: Final = 50

Place = tuple[str, str, int]


class Way(NamedTuple):
    """A pipeline, or "" for none: its purpose, datasets and parts, unknown of another server's."""

    name: str
    description: str
    dataset_ids: Sequence[str]
    parts: Mapping[str, str]


def ways(service: KnowledgeBase) -> list[Way]:
    """How a caller may search: without a pipeline, and with each."""
    found = [Way("", "", (), _parts(service, None))]
    for name, each in sorted(service.pipelines.items()):
        parts = _parts(service.pipeline(name), each.search.get("mode"))
        found.append(Way(name, each.description, each.datasets, parts))
    return found


def _parts(view: KnowledgeBase, mode: str | None) -> Mapping[str, str]:
    """What a search in this mode is made of; nothing where another server makes it."""
    try:
        searches = service_of(view, "showing its steps").searches
    except NotAvailableError:
        return {}
    lanes = searches.resolver.lanes_of(mode)
    fuses_none = {} if len(lanes) > 1 else {"ranker": "", "weights": ""}
    return {**searches.configuration, **fuses_none, "lanes": " ".join(lanes)}


class Row(NamedTuple):
    """A passage, and what each stage did to it."""

    dataset_id: str
    doc_name: str
    chunk_index: int
    cells: Sequence[str]


class Table(NamedTuple):
    """The names of the stages, the passages that came furthest, and how many others there are."""

    stages: Sequence[str]
    rows: Sequence[Row]
    others: int


def table_of(stages: Sequence[Stage]) -> Table:
    """The passages of a search: those that came furthest first, then by their rank there."""
    rankings = [_ranked(each) for each in stages]
    furthest: dict[Place, tuple[int, int]] = {}
    for at, ranking in enumerate(rankings):
        furthest |= {place: (-at, rank) for place, (rank, _) in ranking.items()}
    first = sorted(furthest, key=lambda place: (furthest[place], place))
    rows = []
    for place in first[:_ROWS]:
        cells = [str(rankings[0][place][0]) if place in rankings[0] else ""]
        for before, after, stage in zip(rankings, rankings[1:], stages[1:], strict=False):
            cells.append(_cell(before.get(place), after.get(place), stage))
        rows.append(Row(*place, cells))
    return Table([each.name for each in stages], rows, len(first) - len(rows))


_Ranked = tuple[int, Candidate | Hit]


def _ranked(stage: Stage) -> dict[Place, _Ranked]:
    found: dict[Place, _Ranked] = {}
    for rank, each in enumerate(stage.ranking, start=1):
        index = each.chunk_index if isinstance(each, Hit) else each.index
        found.setdefault((each.dataset_id, each.doc_name, index), (rank, each))
    return found


def _cell(before: _Ranked | None, after: _Ranked | None, stage: Stage) -> str:
    """A rank and how it came about, or why there is none."""
    if after is None:
        return "" if before is None else f"dropped: {_reason(before[1], stage)}"
    rank = after[0]
    if before is None:
        return f"{rank}, added"
    if rank == before[0]:
        return str(rank)
    return f"{rank}, {'up' if rank < before[0] else 'down'} {abs(rank - before[0])}"


def _reason(left_out: Candidate | Hit, stage: Stage) -> str:
    """Why a stage leaves out a passage; a step that widens passages may have merged it."""
    if stage.kind == "step" and isinstance(left_out, Hit):
        for rank, each in enumerate(stage.ranking, start=1):
            same = (each.dataset_id, each.doc_name) == (left_out.dataset_id, left_out.doc_name)
            if same and isinstance(each, Hit) and each.start <= left_out.start < each.end:
                return f"its text is a part of {rank}"
    return stage.leaves_out
