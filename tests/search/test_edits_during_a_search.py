"""What a search says where documents are replaced between its lanes and its reading of the hits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import triptych
from triptych.records import Candidate, RankedList, ResolvedQuery
from triptych.search.fusion import ZScoreRanker


class Edits:
    """A ranker that edits the document after the lanes have found it, so many times."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.kb: triptych.Service | None = None

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Sequence[Candidate]:
        ranking = ZScoreRanker().rank(query, ranked_lists)
        if self.kb is not None and self.left:
            self.left -= 1
            self.kb.put_document("d", "note.md", f"A unicorn, seen {self.left} times.")
        return ranking


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("others", [0, 12])
def test_a_document_that_is_edited_meanwhile_is_found(
    tmp_path: Path, times: int, others: int
) -> None:
    ranker = Edits(times)
    with triptych.open(str(tmp_path / "kb.db"), embedder="hash", ranker=ranker) as kb:
        kb.put_documents("d", {f"{at}.md": f"Horse {at}, no unicorn." for at in range(others)})
        kb.put_document("d", "note.md", "A unicorn.")
        ranker.kb = kb
        found = kb.search("unicorn seen", dataset_id="d", top_k=5)
    assert "note.md" in [hit.doc_name for hit in found]
    assert found.warnings == ()
    assert ranker.left == 0


def test_what_is_edited_without_a_pause_is_said_to_be_missing(tmp_path: Path) -> None:
    ranker = Edits(1_000)
    with triptych.open(str(tmp_path / "kb.db"), embedder="hash", ranker=ranker) as kb:
        kb.put_document("d", "note.md", "A unicorn.")
        ranker.kb = kb
        found = kb.search("unicorn", dataset_id="d")
    assert not found.hits
    assert not found.exhausted
    assert any("replaced again and again" in each for each in found.warnings)
    assert ranker.left > 990
