"""Searches of the past through the Service: beside writers, by every way to ask, and refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

import triptych
from support.bare_store import BareStore
from support.rows import each_row
from triptych import (
    NotAvailableError,
    NotFoundError,
    Query,
    Service,
    ServiceOptions,
    StoreError,
    ValidationError,
)
from triptych.deadlines import deadline
from triptych.errors import CancelledError, ProviderError
from triptych.records import Candidate, ResolvedQuery, Result, SourceDocument
from triptych.records.serialization import to_json
from triptych.search import Pipeline
from triptych_adapters.wire import OPERATIONS
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import FakeEmbedder, ScriptedLLM, kept_open

OLD = "# Ferry\n\nThe ferry is late.\n"
NEW = "# Ferry\n\nThe ferry is early.\n"


class CountedStores:
    """Makes scratch stores, and knows which are open."""

    def __init__(self) -> None:
        self.made: list[MemoryStore] = []

    def __call__(self) -> MemoryStore:
        self.made.append(MemoryStore(history=0))
        return self.made[-1]

    @property
    def open(self) -> int:
        return sum(not store._truth._closed for store in self.made)


@pytest.fixture
def stores() -> CountedStores:
    return CountedStores()


@pytest.fixture
def kb(stores: CountedStores) -> Iterator[Service]:
    options = ServiceOptions(embedder=FakeEmbedder(), scratch=stores)
    with Service(MemoryStore(), options=options) as kb:
        yield kb


@pytest.fixture(params=["memory", "sqlite", "files"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    urls = {"memory": "memory://", "files": f"files://{tmp_path}/kb"}
    url = urls.get(request.param, str(tmp_path / "kb.db"))
    with triptych.open(url, embedder=FakeEmbedder()) as kb:
        yield kb


def edited(kb: Service) -> datetime:
    """Two documents, the moment, then an edit of the first."""
    kb.put_document("d", "a.md", OLD)
    kb.put_document("d", "b.md", "A ferry that stays.\n")
    moment = tick()
    kb.put_document("d", "a.md", NEW)
    return moment


def tick() -> datetime:
    """The time now; what is written afterwards has a later one."""
    moment = datetime.now(UTC)
    while datetime.now(UTC) <= moment:
        time.sleep(1e-5)
    return moment


def found(result: Result) -> list[tuple[str, int]]:
    return [(hit.doc_name, hit.version) for hit in result]


# Moments


@each_row(
    ("given", "moment"),
    [
        (3, 3),
        ("3", 3),
        (" 12 ", 12),
        (datetime(2026, 1, 2, 3), datetime(2026, 1, 2, 3, tzinfo=UTC)),
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:00+02:00", datetime(2026, 1, 2, 1, tzinfo=UTC)),
    ],
)
def test_moments_are_read(kb: Service, given: Any, moment: Any) -> None:
    kb.put_document("d", "a.md", OLD)
    read = kb.search("ferry", dataset_id="d", as_of=given).as_of
    assert read == moment
    assert type(read) is type(moment)


@pytest.mark.parametrize(
    "given",
    [0, -1, True, 1.5, "", "yesterday", "٣", [3], datetime.max, datetime(2999, 1, 1), "2999-01-01"],
)
def test_what_is_no_moment_is_refused(kb: Service, given: Any) -> None:
    kb.put_document("d", "a.md", OLD)
    with pytest.raises(ValidationError, match="as_of"):
        kb.search("ferry", dataset_id="d", as_of=given)


def test_a_clock_that_goes_back_takes_the_newest_version_of_that_time(kb: Service) -> None:
    kb.put_document("d", "a.md", OLD)
    kb.put_document("d", "a.md", NEW)
    first, second = (kb.get_document("d", "a.md", version) for version in (1, 2))
    early, noon = (datetime(2026, 1, 2, hour, tzinfo=UTC) for hour in (11, 12))
    with Service(MemoryStore(), options=kb.options) as other:
        other.documents.load(attrs.evolve(first, updated_at=noon + timedelta(seconds=9)))
        other.documents.load(attrs.evolve(second, updated_at=noon))
        other.rebuild()
        for moment in (noon, noon + timedelta(seconds=9)):
            assert found(other.search("ferry", dataset_id="d", as_of=moment)) == [("a.md", 2)]
        assert found(other.search("ferry", dataset_id="d", as_of=early)) == []


def test_a_version_that_is_not_kept_is_lost_or_came_later(kb: Service) -> None:
    kb.put_document("d", "a.md", OLD)
    kb.put_document("d", "a.md", NEW)
    first, second = (kb.get_document("d", "a.md", version) for version in (1, 2))
    early = datetime(2026, 1, 2, tzinfo=UTC)

    def warned(document: SourceDocument, *, deleted: bool) -> str:
        with Service(MemoryStore(), options=kb.options) as other:
            if deleted:
                other.put_document("d", "b.md", NEW)
                other.delete_document("d", "b.md")
            other.documents.load(document)
            return "\n".join(other.search("ferry", dataset_id="d", as_of=early).warnings)

    assert "of then left out" in warned(second, deleted=False)  # its first version was 1
    assert "that came later, or" in warned(second, deleted=True)  # it may have begun after that
    assert "left out" not in warned(first, deleted=False)


# Beside writers

Write = Callable[[Service], object]
WRITES: dict[str, Write] = {
    "edit": lambda kb: kb.put_document("d", "b.md", "Another ferry, later.\n"),
    "edit again": lambda kb: kb.put_document("d", "a.md", "A third ferry.\n"),
    "metadata": lambda kb: kb.update_metadata("d", {"lang": "en"}, names=["a.md", "b.md"]),
    "new": lambda kb: kb.put_document("d", "c.md", "A new ferry.\n"),
    "delete": lambda kb: kb.delete_document("d", "b.md"),
    "rebuild": lambda kb: kb.rebuild(dataset_id="d"),
}


class Interrupted:
    """Runs ``write`` just before the read of this number that the build makes."""

    def __init__(self, kb: Service, at: int, write: Write) -> None:
        self.reads = 0
        self._writing = False
        for repository, names in (
            (kb.documents, "list get versions get_version deleted_version"),
            (kb.chunks, "config get_doc_sigs iter_chunks known_vectors"),
        ):
            for name in names.split():
                setattr(repository, name, self._around(getattr(repository, name), kb, at, write))

    def _around(self, read: Any, kb: Service, at: int, write: Write) -> Any:
        def wrapped(*given: Any, **named: Any) -> Any:
            if not self._writing:
                self.reads += 1
                if self.reads == at:
                    self._writing = True
                    write(kb)
                    self._writing = False
            return read(*given, **named)

        return wrapped


@each_row("write", WRITES)
def test_a_writer_between_any_two_reads_changes_nothing_of_the_past(write: str) -> None:
    at, reads = 0, 1
    while at < reads:
        at += 1
        options = ServiceOptions(embedder=FakeEmbedder(), scratch=MemoryStore)
        with Service(MemoryStore(), options=options) as kb:
            moment = edited(kb)
            before = kb.search("ferry late", dataset_id="d", as_of=moment).hits
        with Service(MemoryStore(), options=options) as kb:
            moment = edited(kb)
            calls = Interrupted(kb, at, WRITES[write])
            got = kb.search("ferry late", dataset_id="d", as_of=moment).hits
            reads = calls.reads
            again = kb.search("ferry late", dataset_id="d", as_of=moment).hits
            assert found(again) in ([("a.md", 1), ("b.md", 1)], [("a.md", 1)])
            if write == "delete":  # it was there when the documents were listed, or not
                assert [hit.doc_name for hit in again] == ["a.md"]
                assert got in (before, again)
            else:
                assert got == again == before
    assert reads > 8


def test_a_writer_beside_searches_of_the_past(stored: Service) -> None:
    moment = edited(stored)
    wanted = stored.search("ferry", dataset_id="d", as_of=moment).hits
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set() and number < 8:  # as many versions as are kept, and no more
            number += 1
            stored.put_document("d", "a.md", f"The ferry, edition {number}.\n")
            stored.put_document("d", f"new{number}.md", "Another ferry.\n")

    def read(_: int) -> Sequence[Any]:
        return [stored.search("ferry", dataset_id="d", as_of=moment).hits for _ in range(6)]

    with ThreadPoolExecutor(4) as pool:
        writing = pool.submit(write)
        answers = [hits for each in pool.map(read, range(3)) for hits in each]
        stop.set()
        writing.result()
    assert all(hits == wanted for hits in answers)


def test_several_moments_at_once(kb: Service, stores: CountedStores) -> None:
    moments = []
    for number in range(6):
        kb.put_document("d", "a.md", f"The ferry, edition {number}.\n")
        moments.append(tick())

    def ask(at: int) -> int:
        return kb.search("ferry", dataset_id="d", as_of=moments[at % 6])[0].version - 1

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(48))) == [at % 6 for at in range(48)]
    assert stores.open == 2  # those of the last two moments


def test_a_put_that_was_under_way_is_found_by_the_next_search(kb: Service) -> None:
    kb.put_document("d", "a.md", OLD)
    moment = tick()
    assert found(kb.search("ferry", dataset_id="d", as_of=moment)) == [("a.md", 1)]
    early = kb.get_document("d", "a.md")
    late = triptych.records.SourceDocument(
        dataset_id="d",
        name="late.md",
        content="A late ferry.\n",
        metadata={},
        version=1,
        updated_at=early.updated_at,
    )
    kb.documents.load(late)
    kb.rebuild(dataset_id="d")
    again = kb.search("ferry", dataset_id="d", as_of=moment)
    assert {name for name, _ in found(again)} == {"a.md", "late.md"}


def test_what_is_deleted_and_put_under_a_lower_version_is_found(kb: Service) -> None:
    for text in (OLD, NEW, OLD):
        kb.put_document("d", "a.md", text)
    assert found(kb.search("ferry", dataset_id="d", as_of=9)) == [("a.md", 3)]
    kb.update_metadata("d", {"lang": "en"}, names=["a.md"])
    soon = datetime.now(UTC) + timedelta(seconds=0.05)
    kb.put_document("d", "a.md", OLD, expires_at=soon)
    while datetime.now(UTC) <= soon:
        pass
    assert found(kb.search("ferry", dataset_id="d", as_of=9)) == []
    kb.put_document("d", "b.md", "A ferry of version one.\n")
    assert found(kb.search("ferry", dataset_id="d", as_of=9)) == [("b.md", 1)]


# What is kept, and closed


def test_the_store_of_a_moment_is_filled_once(kb: Service, stores: CountedStores) -> None:
    moment = edited(kb)
    calls = Interrupted(kb, 0, lambda _: None)
    kb.search("ferry", dataset_id="d", as_of=moment)
    filled = calls.reads
    kb.search("late", dataset_id="d", as_of=moment)
    assert calls.reads - filled == 3  # the configuration, what was deleted, the list
    assert len(stores.made) == 1
    kb.close()
    assert stores.open == 0
    with pytest.raises(StoreError, match="closed"):
        kb.search("ferry", dataset_id="d", as_of=moment)


def test_a_search_waits_for_the_filling_of_another_until_its_deadline(kb: Service) -> None:
    moment = edited(kb)
    begun, go_on = threading.Event(), threading.Event()

    def wait(_: Service) -> None:
        begun.set()
        assert go_on.wait(10)

    Interrupted(kb, 3, wait)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(kb.search, "ferry", dataset_id="d", as_of=moment)
        assert begun.wait(10)
        with deadline(0.1), pytest.raises(CancelledError):
            kb.search("ferry", dataset_id="d", as_of=moment)
        go_on.set()
        assert len(first.result()) == 2


def test_an_embedder_that_is_out_leaves_the_keyword_lane() -> None:
    embedder = FakeEmbedder()
    options = ServiceOptions(embedder=embedder, scratch=MemoryStore)
    with Service(MemoryStore(), options=options) as kb:
        moment = edited(kb)
        out = {number: ProviderError("out of order") for number in range(embedder.calls + 1, 999)}
        embedder.failures.update(out)
        result = kb.search("late", dataset_id="d", as_of=moment)
        assert found(result) == [("a.md", 1)]
        assert any("could not be embedded" in each for each in result.warnings)
        assert any("1 document lacks vectors" in each for each in result.warnings)
        embedder.failures.clear()
        result = kb.search("late", dataset_id="d", as_of=moment)
        assert set(result[0].scores) == {"bm25", "vector"}


def test_a_chunker_that_fails_leaves_out_its_document() -> None:
    class Fussy:
        signature = "fussy/1"

        def chunk(self, content: str) -> Sequence[Any]:
            if "late" in content:
                raise RuntimeError("too late")
            return triptych.chunking.default_chunkers().default.chunk(content)

    chunkers = triptych.chunking.ChunkerSet(default=Fussy())
    options = ServiceOptions(chunkers=chunkers, scratch=MemoryStore)
    with Service(MemoryStore(), options=options) as kb:
        kb.put_document("d", "b.md", "A ferry that stays.\n")
        with pytest.raises(triptych.DerivationError):
            kb.put_document("d", "a.md", OLD)
        moment = tick()
        kb.put_document("d", "a.md", NEW)
        result = kb.search("ferry", dataset_id="d", as_of=moment)
        assert found(result) == [("b.md", 1)]
        assert (
            "1 document of then could not be chunked, such as 'a.md': RuntimeError"
            in (result.warnings[0])
        )


# Ways to ask


def test_many_queries_of_many_moments(kb: Service) -> None:
    moment = edited(kb)
    queries = [
        Query(text="ferry", dataset_id="d"),
        Query(text="ferry", dataset_id="d", as_of=moment),
        Query(text="late", dataset_id="d", as_of=1, mode="bm25"),
        Query(text="early", scope="all", as_of=moment.isoformat()),
    ]
    results = kb.search_many(queries)
    assert [result.as_of for result in results] == [None, moment, 1, moment]
    assert [result.hits for result in results] == [kb.search(query).hits for query in queries]


def test_datasets_that_are_not_there_now_are_an_error(kb: Service) -> None:
    kb.put_document("d", "a.md", OLD)
    for fields in ({"dataset_id": "e"}, {"dataset_ids": ["d", "e"]}):
        with pytest.raises(NotFoundError, match="there is no dataset 'e'"):
            kb.search("ferry", as_of=1, **fields)  # type: ignore[arg-type]


def test_several_datasets_are_searched_as_one(kb: Service) -> None:
    for dataset_id in ("d", "e"):
        kb.put_document(dataset_id, "a.md", OLD)
    before = {ids: kb.search("ferry late", dataset_ids=ids) for ids in (("d", "e"), ("e",))}
    moment = tick()
    for dataset_id in ("d", "e", "f"):
        kb.put_document(dataset_id, "a.md", NEW)
    for ids, result in before.items():
        assert kb.search("ferry late", dataset_ids=ids, as_of=moment).hits == result.hits
    everywhere = kb.search("ferry late", scope="all", as_of=moment)
    assert everywhere.hits == before["d", "e"].hits
    assert everywhere.warnings == ("no document of 'f' of then is kept",)


def test_fresh_hits_and_the_query_language_are_of_then(kb: Service) -> None:
    moment = edited(kb)
    asked: dict[str, Any] = {"dataset_id": "d", "as_of": moment}
    for mode in ("bm25", "hybrid"):  # by keyword first: nothing is embedded then
        assert len(kb.search("ferry", fresh_only=True, mode=mode, **asked)) == 2
    assert found(kb.search('"is late"', syntax=True, **asked)) == [("a.md", 1)]
    assert found(kb.search('"is early"', syntax=True, **asked)) == []
    assert found(kb.search("ferry lat*", syntax=True, mode="bm25", **asked))[0] == ("a.md", 1)


def test_a_pipeline_searches_the_past() -> None:
    pipeline = Pipeline(name="words", datasets=["d"], lanes=["bm25"])
    options = ServiceOptions(embedder=FakeEmbedder(), scratch=MemoryStore, pipelines=[pipeline])
    with Service(MemoryStore(), options=options) as kb:
        moment = edited(kb)
        words = kb.pipeline("words")
        result = words.search("late ferry", as_of=moment)
        assert found(result) == [("a.md", 1), ("b.md", 1)]
        assert {lane for hit in result for lane in hit.scores} == {"bm25"}
        pack = words.context("late ferry", as_of=moment)
        assert {piece.citation.version for piece in pack.pieces} == {1}


class Elsewhere:
    """A lane over something that knows no past."""

    name = "elsewhere"

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        return [Candidate(dataset_id="d", doc_name="b.md", index=0, score=1.0)]


def test_a_lane_without_a_past_is_left_out_and_named() -> None:
    options = ServiceOptions(embedder=FakeEmbedder(), scratch=MemoryStore, retrievers=[Elsewhere()])
    with Service(MemoryStore(), options=options) as kb:
        moment = edited(kb)
        result = kb.search("late ferry", dataset_id="d", as_of=moment)
        assert "searched without 'elsewhere': a lane that cannot search the past" in (
            result.warnings
        )
        assert all("elsewhere" not in hit.scores for hit in result)
        with pytest.raises(NotAvailableError, match="leave as_of out"):
            kb.search("late", dataset_id="d", mode="elsewhere", as_of=moment)


def test_a_store_without_versions_or_a_service_without_a_scratch_store_says_so() -> None:
    with Service(BareStore(MemoryStore()), options=ServiceOptions(scratch=MemoryStore)) as kb:
        kb.put_document("d", "a.md", OLD)
        with pytest.raises(NotAvailableError, match="keeps no old versions to search"):
            kb.search("ferry", dataset_id="d", as_of=1)
    with Service(MemoryStore()) as kb:
        kb.put_document("d", "a.md", OLD)
        with pytest.raises(NotAvailableError, match=r"ServiceOptions\(scratch=…\)"):
            kb.search("ferry", dataset_id="d", as_of=1)


def test_a_dataset_without_vectors_or_of_another_model_is_searched_by_keyword() -> None:
    with Service(MemoryStore(), options=ServiceOptions(scratch=MemoryStore)) as kb:
        moment = edited(kb)
        assert found(kb.search("late ferry", dataset_id="d", as_of=moment))[0] == ("a.md", 1)
    store = MemoryStore()
    for signature in ("", "other/1"):
        dataset_id = f"d{signature[:1]}"
        embedder = FakeEmbedder(signature) if signature else None
        options = ServiceOptions(embedder=embedder, scratch=MemoryStore)
        kb = Service(kept_open(store), options=options)
        kb.put_document(dataset_id, "a.md", OLD)
        kb.close()
    mine = FakeEmbedder()
    with Service(store, options=ServiceOptions(embedder=mine, scratch=MemoryStore)) as kb:
        for dataset_id in ("d", "do"):
            now = kb.search("late", dataset_id=dataset_id)
            then = kb.search("late", dataset_id=dataset_id, as_of=1)
            assert (then.hits[0].content, then.warnings) == (now.hits[0].content, now.warnings)
    assert set(mine.texts) <= {"late"}


# As JSON


def test_json_has_the_moment(kb: Service) -> None:
    moment = edited(kb)
    call = OPERATIONS["search"].call
    answer = call(kb, {"query": "late", "dataset_id": "d", "as_of": moment.isoformat()})
    assert (answer["as_of"], answer["hits"][0]["version"]) == (moment.isoformat(), 1)
    assert call(kb, {"query": "late", "dataset_id": "d", "as_of": 1})["as_of"] == 1
    assert call(kb, {"query": "late", "dataset_id": "d"})["as_of"] is None
    pack = kb.context("late", 100, dataset_id="d", as_of=moment)
    assert to_json(pack)["as_of"] == moment.isoformat()


def test_an_answer_is_from_the_past_too() -> None:
    llm = ScriptedLLM("It is late [1].")
    options = ServiceOptions(embedder=FakeEmbedder(), scratch=MemoryStore, llm=llm)
    with Service(MemoryStore(), options=options) as kb:
        kb.put_document("d", "a.md", OLD)
        moment = tick()
        kb.put_document("d", "a.md", NEW)
        answer = kb.ask("Is the ferry late?", dataset_id="d", as_of=moment)
        (cited,) = answer.citations
        assert (answer.pack.as_of, cited.citation.version) == (moment, 1)
        assert "The ferry is late." in cited.citation.text
        receipt = answer.receipt
        assert receipt.context.query.as_of == moment.isoformat()
        assert kb.replay(receipt).identical
