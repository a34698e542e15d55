"""A search reads one state of the store, whatever others write between any two of its steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import triptych
from triptych import Hit, Service
from triptych.chunking import ChunkerSet, SentenceWindowChunker
from triptych.contracts import HitReader
from triptych.errors import StoreLockedError
from triptych.records import Candidate, EmbedKind, RankedList, ResolvedQuery
from triptych.search import Neighbours
from triptych.search.fusion import ZScoreRanker
from triptych_models import HashEmbedder

CHUNKERS = ChunkerSet(by_kind={}, default=SentenceWindowChunker(window=1))
TEXT = "A horse eats. The unicorn sleeps. It rains."


class Others:
    """Somebody else, who writes once, in a thread of their own, when a search comes to a place."""

    def __init__(self) -> None:
        self.where = ""
        self.write: Callable[[], object] = lambda: None

    def come(self, where: str) -> None:
        if where == self.where:
            self.where = ""
            with ThreadPoolExecutor(1) as thread:
                thread.submit(self.write).result()


class Embedder(HashEmbedder):
    """Embeds a query while others write."""

    def __init__(self, others: Others) -> None:
        super().__init__()
        self.others = others

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        if kind == "query":
            self.others.come("lanes")
        return super().embed(texts, kind=kind)


class Ranker:
    """Fuses while others write."""

    def __init__(self, others: Others) -> None:
        self.others = others

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Sequence[Candidate]:
        self.others.come("fusion")
        return ZScoreRanker().rank(query, ranked_lists)


class Step:
    """Judges while others write."""

    def __init__(self, others: Others) -> None:
        self.others = others

    def depth(self, query: ResolvedQuery) -> int:
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        self.others.come("steps")
        return hits


@pytest.fixture(params=["memory", "sqlite", "files", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")
        found: str = request.getfixturevalue("postgres_url")
        return found
    places = {"memory": "memory://", "sqlite": str(tmp_path / "kb.db")}
    return places.get(request.param, f"files://{tmp_path}/files")


@pytest.fixture
def others() -> Others:
    return Others()


@pytest.fixture
def kb(url: str, others: Others) -> Iterator[Service]:
    with triptych.open(
        url,
        embedder=Embedder(others),
        ranker=Ranker(others),
        postprocessors=[Step(others), Neighbours(1, 0)],
        chunkers=CHUNKERS,
    ) as service:
        service.put_documents("d", {f"{at}.md": f"Horse {at}. No unicorn." for at in range(12)})
        service.put_document("d", "note.md", TEXT)
        yield service


def found(kb: Service, **options: Any) -> Sequence[tuple[object, ...]]:
    result = kb.search("unicorn sleeps", dataset_id="d", top_k=5, **options)
    assert result.warnings == ()
    return [
        (hit.doc_name, hit.version, hit.content, hit.window, hit.score, hit.stale)
        for hit in result.hits
    ]


def edit(kb: Service) -> None:
    kb.put_document("d", "note.md", "Nothing of that. A unicorn wakes.")
    kb.put_document("d", "new.md", "The unicorn sleeps, says another.")


def retitle(kb: Service) -> None:
    kb.put_document("d", "note.md", TEXT, {"title": "Unicorn"})


def delete(kb: Service) -> None:
    kb.delete_document("d", "note.md")


def delete_all(kb: Service) -> None:
    kb.delete_dataset("d")


@pytest.mark.parametrize("where", ["lanes", "fusion", "steps"])
@pytest.mark.parametrize("write", [edit, retitle, delete, delete_all])
def test_what_others_write_between_two_steps_changes_nothing(
    kb: Service, others: Others, where: str, write: Callable[[Service], None]
) -> None:
    before = found(kb)
    assert before[0][:4] == ("note.md", 1, "A horse eats. The unicorn sleeps.", TEXT)
    others.where, others.write = where, lambda: write(kb)
    assert found(kb) == before
    assert others.where == ""
    assert write is delete_all or found(kb) != before, "the next search finds what was written"


def test_a_search_that_goes_on_keeps_its_state_while_others_search(
    kb: Service, others: Others
) -> None:
    """The index that they share has moved on to a newer one."""

    def write() -> None:
        edit(kb)
        assert "new.md" in [hit[0] for hit in found(kb)]

    before = found(kb)
    others.where, others.write = "lanes", write
    assert found(kb) == before
    before = found(kb)
    others.where, others.write = "fusion", lambda: (delete(kb), found(kb))
    assert found(kb) == before


def test_who_writes_in_a_search_gets_no_hit_of_two_states(tmp_path: Path) -> None:
    """What it reads next is of a newer state: a hit that is gone is left out."""

    class Writes:
        kb: Service | None = None
        times = 0

        def rank(self, query: ResolvedQuery, ranked_lists: Any) -> Sequence[Candidate]:
            if self.kb is not None:
                self.times += 1
                self.kb.put_document("d", "note.md", f"A unicorn wakes: {self.times}.")
            return ZScoreRanker().rank(query, ranked_lists)

    ranker = Writes()
    with triptych.open(str(tmp_path / "kb.db"), embedder="hash", ranker=ranker) as kb:
        kb.put_documents("d", {"horse.md": "A horse, no unicorn.", "note.md": "A unicorn."})
        ranker.kb = kb
        result = kb.search("unicorn", dataset_id="d")
    assert [hit.doc_name for hit in result] == ["horse.md"]
    assert result.warnings == ()


def test_a_purge_and_a_search_of_files_do_not_wait_for_each_other(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def purge() -> None:
        try:
            kb.purge("d", "a.md")
        except StoreLockedError as error:
            errors.append(error)

    purging = threading.Thread(target=purge)

    class Lane:
        name = "own"

        def recall(self, query: ResolvedQuery) -> list[Candidate]:
            purging.start()
            purging.join(0.5)  # it has the writers' lock, and waits for whoever reads
            return []

    with triptych.open(
        f"files://{tmp_path}/s", embedder=None, retrievers=[Lane()], lock_timeout=5
    ) as kb:
        kb.put_documents("d", {"a.md": "The kettle.", "b.md": "Tea."})
        kb.search("kettle", dataset_id="d", mode="hybrid", where={"$name": {"$exists": True}})
        purging.join()
        assert errors == []
        assert kb.count_documents("d") == 1
