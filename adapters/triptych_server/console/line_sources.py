"""The sources of a proposal at the lines that repeat them word by word, without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from triptych.access.proposals import Proposal
from triptych.answers import Citation, ClaimPlace, Piece, prove
from triptych.errors import TriptychError
from triptych.question_log import unlogged
from triptych.records import Hit
from triptych.service import KnowledgeBase
from triptych.text import visible

_LOOKED_UP: Final = 1_000  # code points of a line
_LETTER: Final = re.compile(r"[^\W\d_]")
_MARKS: Final = '#*->+ .“”"'
_PASSAGES: Final = 3  # of different sources, for a line


class LineSource(NamedTuple):
    """What of a line a source says too, and where it says the first of it."""

    said: Sequence[str]
    place: ClaimPlace


def line_sources(
    service: KnowledgeBase, proposal: Proposal, added: Iterable[str], most: int
) -> dict[str, list[LineSource]]:
    """The sources of the first ``most`` lines of text that a proposal adds, by line."""
    named = sorted({*proposal.sources} - {proposal.name})
    if proposal.document is None or not named or most <= 0:
        return {}
    text = {visible(line) for line in proposal.document.content.split("\n")}
    lines = [line for line in dict.fromkeys(added) if line.strip() and line in text][:most]
    queries = [line[:_LOOKED_UP] for line in lines]
    options: Any = {"mode": "bm25", "top_k": _PASSAGES, "per_document": 1}
    where = {"$name": {"$in": named}}
    found: dict[str, list[LineSource]] = {}
    with suppress(TriptychError), unlogged():  # the dataset may be new
        results = service.search_many(
            queries, dataset_id=proposal.dataset_id, where=where, **options
        )
        for line, query, result in zip(lines, queries, results, strict=True):
            if sources := list(_sources(query, result.hits)):
                found[line] = sources
    return found


def _sources(line: str, hits: Sequence[Hit]) -> Iterator[LineSource]:
    for hit in hits:
        cited = Citation(
            dataset_id=hit.dataset_id,
            doc_name=hit.doc_name,
            version=hit.version,
            start=hit.start,
            end=hit.end,
            heading_path=hit.heading_path,
            text=hit.content,
        )
        # Each alone: a claim is looked up in the best passage only, and two may say it. As a
        # quotation, the whole line is a claim.
        said: dict[str, ClaimPlace] = {}
        for text in (f"“{line.strip(_MARKS)}”", line):
            for claim in prove(text, [Piece(number=1, citation=cited)]):
                place = claim.found
                if claim.status != "supported" or place is None:
                    continue
                own = hit.content[place.start - hit.start : place.end - hit.start]
                # A number without its unit, as in a table, may be of anything.
                if _LETTER.search(own) or not _LETTER.search(claim.text):
                    said.setdefault(claim.text.strip("“”"), place)
            if said:
                break
        if said:
            yield LineSource(tuple(said), next(iter(said.values())))
