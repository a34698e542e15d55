"""The engine runs lanes at the same time, and its answer depends on none of their timing."""

import threading
import time
from collections.abc import Callable, Sequence

import attrs
import pytest

from triptych import CancelledError, NotAvailableError, ValidationError, deadline
from triptych.records import Candidate, Layer, Mode, ResolvedQuery
from triptych.search import SearchEngine


def candidate(name: str, score: float) -> Candidate:
    return Candidate(dataset_id="d", doc_name=name, index=0, key=name, score=score)


@attrs.frozen
class Lane:
    name: str
    answer: Callable[[ResolvedQuery], Sequence[Candidate]]

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        return self.answer(query)


def query(mode: Mode, **fields: object) -> ResolvedQuery:
    base = ResolvedQuery(
        text="q", dataset_ids=("d",), mode=mode, layer=Layer.DETAIL, top_k=5, limit=5
    )
    return attrs.evolve(base, **fields)


def fails(error: Exception) -> Callable[[ResolvedQuery], Sequence[Candidate]]:
    def answer(_: ResolvedQuery) -> Sequence[Candidate]:
        raise error

    return answer


def test_hybrid_lanes_run_at_the_same_time() -> None:
    meet = threading.Barrier(2, timeout=20)

    def wait(_: ResolvedQuery) -> Sequence[Candidate]:
        meet.wait()  # breaks unless both lanes are here at once
        return [candidate("a", 1.0)]

    engine = SearchEngine([Lane("bm25", wait), Lane("vector", wait)])
    recall = engine.retrieve("chunk", [query(Mode.HYBRID)])
    engine.close()
    assert recall.candidates[0].scores == {"bm25": 1.0, "vector": 1.0}
    assert recall.warnings == ()


@pytest.mark.parametrize("slow", ["bm25", "vector"])
def test_the_slower_lane_changes_nothing(slow: str) -> None:
    def lane(name: str, *found: Candidate) -> Lane:
        def answer(_: ResolvedQuery) -> Sequence[Candidate]:
            if name == slow:
                time.sleep(0.02)
            return found

        return Lane(name, answer)

    engine = SearchEngine(
        [
            lane("bm25", candidate("a", 2.0), candidate("b", 1.0)),
            lane("vector", candidate("b", 0.9), candidate("a", 0.8)),
        ]
    )
    recall = engine.retrieve("chunk", [query(Mode.HYBRID)])
    engine.close()
    assert [c.doc_name for c in recall.candidates] == ["a", "b"]
    assert list(recall.candidates[0].scores) == ["bm25", "vector"]


@pytest.mark.parametrize("lanes", [None, ("sparse",)])
def test_a_hybrid_search_without_a_lane_says_so(lanes: tuple[str, ...] | None) -> None:
    engine = SearchEngine([Lane("bm25", lambda _: [candidate("a", 1.0)])])
    target = "document" if lanes is None else "chunk"
    with pytest.raises(NotAvailableError, match=f"wired for {target} search"):
        engine.retrieve(target, [query(Mode.HYBRID, lanes=lanes)])


def test_a_failed_lane_is_named_in_hybrid_and_raises_alone() -> None:
    engine = SearchEngine(
        [
            Lane("bm25", lambda _: [candidate("a", 1.0)]),
            Lane("vector", fails(NotAvailableError("no embedder"))),
        ]
    )
    recall = engine.retrieve("chunk", [query(Mode.HYBRID)])
    assert [c.doc_name for c in recall.candidates] == ["a"]
    assert recall.warnings == ("the vector lane did not run: no embedder",)
    with pytest.raises(NotAvailableError, match="no embedder"):
        engine.retrieve("chunk", [query(Mode.VECTOR)])
    engine.close()


def test_when_all_lanes_fail_the_first_error_is_raised() -> None:
    engine = SearchEngine(
        [Lane("bm25", fails(OSError("disk"))), Lane("vector", fails(OSError("net")))]
    )
    with pytest.raises(OSError, match="disk"):
        engine.retrieve("chunk", [query(Mode.HYBRID)])
    engine.close()


@pytest.mark.parametrize("error", [CancelledError("late"), ValidationError("bad")])
def test_cancellation_and_bad_input_are_never_a_warning(error: Exception) -> None:
    engine = SearchEngine([Lane("bm25", lambda _: []), Lane("vector", fails(error))])
    with pytest.raises(type(error)):
        engine.retrieve("chunk", [query(Mode.HYBRID)])
    engine.close()


def test_the_deadline_reaches_lanes_in_other_threads() -> None:
    from triptych import deadlines

    seen: list[float | None] = []

    def look(_: ResolvedQuery) -> Sequence[Candidate]:
        seen.append(deadlines.remaining())
        return []

    engine = SearchEngine([Lane("bm25", look), Lane("vector", look)])
    with deadline(60):
        engine.retrieve("chunk", [query(Mode.HYBRID)])
    engine.close()
    assert len(seen) == 2
    assert all(left is not None and 0 < left <= 60 for left in seen)


def test_a_single_mode_keeps_the_lanes_own_scores_and_floor() -> None:
    engine = SearchEngine(
        [Lane("bm25", lambda _: [candidate("a", 3.5), candidate("b", 0.5)])],
    )
    recall = engine.retrieve("chunk", [query(Mode.BM25, min_scores={"bm25": 1.0})])
    assert [(c.doc_name, c.score, dict(c.scores)) for c in recall.candidates] == [
        ("a", 3.5, {"bm25": 3.5})
    ]


def test_a_mode_without_a_lane_says_so() -> None:
    with pytest.raises(NotAvailableError, match="no vector lane"):
        SearchEngine([Lane("bm25", lambda _: [])]).retrieve("chunk", [query(Mode.VECTOR)])


@attrs.frozen
class LocalLane(Lane):
    """A lane in this process, with work that another thread does beforehand."""

    before: Callable[[ResolvedQuery], ResolvedQuery] | None = None
    in_process: bool = True

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        before = self.before
        return None if before is None else lambda: before(query)


def test_lanes_in_this_process_run_in_turn_and_a_remote_one_beside_them() -> None:
    meet = threading.Barrier(2, timeout=20)
    here = threading.current_thread()
    threads: dict[str, threading.Thread] = {}

    def answer(name: str, *, meets: bool = False) -> Callable[[ResolvedQuery], list[Candidate]]:
        def run(_: ResolvedQuery) -> list[Candidate]:
            threads[name] = threading.current_thread()
            if meets:
                meet.wait()  # breaks unless the remote lane is under way meanwhile
            return [candidate(name, 1.0)]

        return run

    engine = SearchEngine(
        [
            Lane("web", answer("web", meets=True)),
            LocalLane("bm25", answer("bm25")),
            LocalLane("vector", answer("vector", meets=True)),
        ]
    )
    recall = engine.retrieve("chunk", [query(Mode.HYBRID)])
    engine.close()
    assert threads["bm25"] is here
    assert threads["vector"] is here
    assert threads["web"] is not here
    assert {c.doc_name for c in recall.candidates} == {"bm25", "vector", "web"}
    assert recall.warnings == ()


def test_a_preparation_runs_beside_the_lane_before_it() -> None:
    meet = threading.Barrier(2, timeout=20)

    def wait(_: ResolvedQuery) -> Sequence[Candidate]:
        meet.wait()  # breaks unless the preparation is under way at the same time
        return []

    def embed(asked: ResolvedQuery) -> ResolvedQuery:
        meet.wait()
        return attrs.evolve(asked, embed_sig="prepared")

    def search(asked: ResolvedQuery) -> Sequence[Candidate]:
        return [candidate(asked.embed_sig, 1.0)]

    engine = SearchEngine([LocalLane("bm25", wait), LocalLane("vector", search, embed)])
    recall = engine.retrieve("chunk", [query(Mode.HYBRID)])
    engine.close()
    assert [c.doc_name for c in recall.candidates] == ["prepared"]


def test_a_preparation_that_fails_is_its_lanes_failure() -> None:
    def embed(_: ResolvedQuery) -> ResolvedQuery:
        raise NotAvailableError("the model is away")

    engine = SearchEngine(
        [
            LocalLane("bm25", lambda _: [candidate("a", 1.0)]),
            LocalLane("vector", lambda _: [], embed),
        ]
    )
    recall = engine.retrieve("chunk", [query(Mode.HYBRID)])
    engine.close()
    assert [c.doc_name for c in recall.candidates] == ["a"]
    assert recall.warnings == ("the vector lane did not run: the model is away",)


def test_two_retrievers_of_one_name_in_a_tier_are_refused() -> None:
    one, other = Lane("bm25", lambda _: []), Lane("vector", lambda _: [])
    with pytest.raises(ValidationError, match=r"2 chunk retrievers are called 'bm25'"):
        SearchEngine([one, other, Lane("bm25", lambda _: [])])
    with pytest.raises(ValidationError, match="document retrievers"):
        SearchEngine([one], document=[other, other])
    SearchEngine([one, other], [one, other], [one, other]).close()
