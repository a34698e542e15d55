"""Results that are kept and served again, and only while they hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

import triptych
from support.rows import each_row
from support.trusted import write_trusted
from triptych import (
    Hit,
    Message,
    NotAvailableError,
    ProviderError,
    Result,
    Service,
    ServiceOptions,
    ValidationError,
)
from triptych.contracts import HitReader
from triptych.contracts.defaults import Repositories
from triptych.records import CacheStats, Candidate, EmbedKind, ResolvedQuery
from triptych.search import FragmentRewriter, HyDE, SemanticCache
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing.fakes import FakeLLM, ScriptedLLM

PAGES = {
    "kettle.md": "# Kettle\n\nThe lid of the kettle whistles when the water boils.\n",
    "teapot.md": "# Teapot\n\nA pot of porcelain keeps the tea warm.\n",
}


class Meaning:
    """An embedder of few words: questions with the same of them are the same."""

    signature = "meaning/1"
    dimension = 8
    words = ("kettle", "tea", "lid", "warm", "water", "pot", "boil")
    fails = False

    def __init__(self) -> None:
        self.calls = 0

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        self.calls += 1
        if self.fails:
            raise ProviderError("the model is away")
        rows = np.array(
            [[0.2, *(float(word in text.casefold()) for word in self.words)] for text in texts],
            dtype=np.float32,
        )
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        return rows


@pytest.fixture(params=["memory", "sqlite", "files"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {
        "memory": "memory://",
        "sqlite": str(tmp_path / "kb.db"),
        "files": f"files://{tmp_path / 'kb'}",
    }[request.param]


class Opener:
    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, url: str = "memory://", **options: Any) -> Service:
        chosen = {"embedder": Meaning(), "semantic_cache": True, **options}
        return self._stack.enter_context(triptych.open(url, **chosen))


@pytest.fixture
def opened() -> Iterator[Opener]:
    with ExitStack() as stack:
        yield Opener(stack)


def settled(kb: Service) -> CacheStats:
    """What the cache did, once all that was answered is kept."""
    return kb.cache_stats()


def names(result: Result) -> list[str]:
    return [hit.doc_name for hit in result.hits]


def same(one: Result, other: Result) -> bool:
    return attrs.evolve(one, cache_similarity=None) == attrs.evolve(other, cache_similarity=None)


def test_a_question_is_answered_once(url: str, opened: Opener) -> None:
    kb = opened(url)
    kb.put_documents("d", PAGES)
    first = kb.search("is the kettle's lid warm", dataset_id="d")
    assert first.cache_similarity is None
    assert settled(kb) == CacheStats(entries=1, misses=1)
    again = kb.search("is the kettle's lid warm", dataset_id="d")
    assert again.cache_similarity == pytest.approx(1.0, abs=1e-6)
    assert same(first, again)
    assert [hit.terms for hit in again] == [hit.terms for hit in first]
    near = kb.search("warm lid of a kettle?", dataset_id="d")
    assert near.cache_similarity == pytest.approx(1.0, abs=1e-6)
    assert names(near) == names(first)
    assert near.hits[0].terms != first.hits[0].terms  # those of this question
    far = kb.search("water for tea", dataset_id="d")
    assert far.cache_similarity is None
    assert settled(kb) == CacheStats(entries=2, hits=2, misses=2)


def test_it_is_off_by_default(opened: Opener) -> None:
    kb = opened(semantic_cache=None)
    kb.put_documents("d", PAGES)
    for _ in range(2):
        assert kb.search("kettle", dataset_id="d").cache_similarity is None
    assert settled(kb) == CacheStats()


def test_the_threshold_decides(opened: Opener) -> None:
    embedder = Meaning()
    one, two = embedder.embed(["kettle lid warm tea", "kettle lid warm"], kind="query")
    cosine = float(one @ two)
    for threshold, hit in ((cosine - 1e-4, True), (cosine + 1e-4, False)):
        kb = opened(semantic_cache=SemanticCache(threshold=threshold))
        kb.put_documents("d", PAGES)
        kb.search("kettle lid warm tea", dataset_id="d")
        settled(kb)
        found = kb.search("kettle lid warm", dataset_id="d")
        assert (found.cache_similarity is not None) == hit
        if hit:
            assert found.cache_similarity == pytest.approx(cosine, abs=1e-6)


def test_a_hit_asks_the_embedder_once_and_no_model(opened: Opener) -> None:
    embedder, llm = Meaning(), FakeLLM(lambda *_: "A pot keeps tea warm.")
    kb = opened(embedder=embedder, rewriter=HyDE(llm))
    kb.put_documents("d", PAGES)
    embedder.calls = 0
    first = kb.search("warm tea", dataset_id="d")
    assert embedder.calls == 2  # the question, for the cache; the document
    assert first.usage[0].calls == 1
    settled(kb)
    found = kb.search("warm tea", dataset_id="d")
    assert found.cache_similarity is not None
    assert embedder.calls == 3
    assert len(llm.requests) == 1
    assert found.usage == ()


WRITES = {
    "a document": lambda kb: kb.put_document("d", "new.md", "# New\n\nThe kettle is new.\n"),
    "content": lambda kb: kb.put_document("d", "kettle.md", "# Kettle\n\nNo kettle at all.\n"),
    "metadata": lambda kb: kb.put_document("d", "kettle.md", PAGES["kettle.md"], {"lang": "en"}),
    "a delete": lambda kb: kb.delete_document("d", "kettle.md"),
    "a layer": lambda kb: kb.put_document_layer(
        "d", "kettle.md", "L0", "About a kettle.", prompt_sig="p", source_version=1
    ),
    "expiry": lambda kb: kb.put_document(
        "d", "kettle.md", PAGES["kettle.md"], expires_at=datetime(2999, 1, 1, tzinfo=UTC)
    ),
    "a purge": lambda kb: kb.purge("d", "kettle.md"),
    "a purge of what is not there": lambda kb: kb.purge("d", "nothing.md"),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_ends_every_result(url: str, opened: Opener, write: str) -> None:
    kb = opened(url)
    for dataset_id in ("d", "e"):
        kb.put_documents(dataset_id, PAGES)
    asks: list[dict[str, Any]] = [{"dataset_id": "d"}, {"scope": "all"}, {"dataset_id": "e"}]
    for ask in asks:
        kb.search("kettle", **ask)
    assert settled(kb).entries == 3
    WRITES[write](kb)
    found = [kb.search("kettle", **ask) for ask in asks]
    assert [each.cache_similarity for each in found] == [None] * 3
    if url != "memory://":
        plain = opened(url, semantic_cache=None)
        for ask, result in zip(asks, found, strict=True):
            assert same(plain.search("kettle", **ask), result)


def test_a_document_that_expires_ends_them(opened: Opener) -> None:
    kb = opened()
    kb.put_documents("d", PAGES)
    soon = datetime.now(UTC) + timedelta(seconds=0.4)
    kb.put_document("d", "soon.md", "# Soon\n\nThe kettle goes.\n", expires_at=soon)
    assert "soon.md" in names(kb.search("kettle", dataset_id="d"))
    settled(kb)
    while datetime.now(UTC) <= soon:
        found = kb.search("kettle", dataset_id="d")
        assert "soon.md" in names(found) or datetime.now(UTC) > soon
    kept = settled(kb)
    for _ in range(2):
        found = kb.search("kettle", dataset_id="d")
        assert "soon.md" not in names(found)
        assert found.cache_similarity is None
        assert settled(kb) == kept  # it is not even asked
    kb.remove_expired("d")
    kb.search("kettle", dataset_id="d")
    settled(kb)
    found = kb.search("kettle", dataset_id="d")
    assert found.cache_similarity is not None
    assert "soon.md" not in names(found)


def test_an_answer_has_its_time(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": datetime.now(UTC)}

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return clock["now"]

    monkeypatch.setattr("triptych.search.semantic_cache.datetime", Clock)
    for hours, later, served in (
        (24, timedelta(hours=23, minutes=59), True),
        (24, timedelta(hours=24, seconds=1), False),
        (0, timedelta(days=4000), True),
        (24, timedelta(seconds=-1), False),
    ):
        clock["now"] = datetime.now(UTC)
        kb = opened(semantic_cache=SemanticCache(hours=hours))
        kb.put_documents("d", PAGES)
        kb.search("kettle", dataset_id="d")
        settled(kb)
        clock["now"] += later
        assert (kb.search("kettle", dataset_id="d").cache_similarity is not None) == served


OPTIONS: list[dict[str, Any]] = [
    {"top_k": 1},
    {"offset": 1},
    {"mode": "vector"},
    {"layer": "L0"},
    {"threshold": 0.01},
    {"min_scores": {"bm25": 0.01}},
    {"where": {"lang": "en"}},
    {"where": {"doc_name": "teapot.md"}},
    {"fresh_only": True},
    {"keyword_boost": 0.5},
    {"per_document": 1},
    {"conversation": [Message("user", "hello")]},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_another_request_has_another_answer(opened: Opener, options: dict[str, Any]) -> None:
    kb = opened()
    kb.put_documents("d", PAGES)
    kb.search("kettle", dataset_id="d")
    settled(kb)
    assert kb.search("kettle", dataset_id="d", **options).cache_similarity is None
    settled(kb)
    assert kb.search("kettle", dataset_id="d").cache_similarity is not None
    assert kb.search("kettle", dataset_id="d", **options).cache_similarity is not None


def test_documents_and_chunks_are_answered_apart(opened: Opener) -> None:
    kb = opened()
    kb.put_documents("d", PAGES)
    chunks = kb.search("kettle", dataset_id="d")
    settled(kb)
    documents = kb.search_documents("kettle", dataset_id="d")
    assert documents.cache_similarity is None
    settled(kb)
    again = kb.search_documents("kettle", dataset_id="d")
    assert again.cache_similarity is not None
    assert again.hits[0].layer is None
    assert same(again, documents)
    assert same(kb.search("kettle", dataset_id="d"), chunks)


def test_numbers_and_codes_are_never_near(opened: Opener) -> None:
    kb = opened()
    kb.put_documents("d", PAGES)
    kb.search("kettle error 404", dataset_id="d")
    settled(kb)
    assert kb.search("kettle error 405", dataset_id="d").cache_similarity is None
    assert kb.search("Error 404 of the kettle", dataset_id="d").cache_similarity is not None
    assert kb.search("kettle: error '404'?", dataset_id="d").cache_similarity is not None


@pytest.mark.parametrize(
    ("asked", "other"),
    [
        ("RFC-12", "ISO-12"),
        ("AX/100", "BX/100"),
        ("below -5", "below 5"),
        ("of $5", "of €5"),
        (">5 bar", "<5 bar"),
        ("<5 bar", "5 bar"),
        ("5%", "5"),
        (".5 litres", "5 litres"),
        ("½ litre", "¼ litre"),
        ("m²", "m³"),
        ("from 3 to 5", "from 5 to 3"),
    ],
)
def test_a_number_is_all_of_its_word(opened: Opener, asked: str, other: str) -> None:
    kb = opened()
    kb.put_documents("d", PAGES)
    kb.search(f"kettle {asked}", dataset_id="d")
    settled(kb)
    assert kb.search(f"kettle {other}", dataset_id="d").cache_similarity is None
    assert kb.search(f"kettle, {asked}?", dataset_id="d").cache_similarity is not None


def test_conditions_in_the_question_are_part_of_the_request(opened: Opener) -> None:
    kb = opened()
    kb.put_documents("d", PAGES)
    kb.search("kettle lid", dataset_id="d", syntax=True)
    settled(kb)
    for other in ('"kettle lid"', "kettle lid -water", "kettle lid*", "kettle lid lang:en"):
        assert kb.search(other, dataset_id="d", syntax=True).cache_similarity is None


def test_by_keyword_nothing_is_cached(opened: Opener) -> None:
    kb = opened()
    kb.put_documents("d", PAGES)
    for _ in range(2):
        assert kb.search("kettle", dataset_id="d", mode="bm25").cache_similarity is None
        assert kb.search("", dataset_id="d", where={"doc_name": "a"}).cache_similarity is None
        assert settled(kb) == CacheStats()


def test_many_questions_share_a_run(opened: Opener) -> None:
    kb = opened()
    kb.put_documents("d", PAGES)
    kb.search("kettle", dataset_id="d")
    settled(kb)
    found = kb.search_many(["water", "kettle", "tea pot"], dataset_id="d")
    assert [each.cache_similarity is None for each in found] == [True, False, True]
    settled(kb)
    again = kb.search_many(["water", "kettle", "tea pot"], dataset_id="d")
    assert all(each.cache_similarity is not None for each in again)
    assert all(map(same, found, again))


def test_many_questions_are_embedded_in_one_call(opened: Opener) -> None:
    embedder = Meaning()
    kb = opened(embedder=embedder)
    kb.put_documents("d", PAGES)
    embedder.calls = 0
    kb.search_many(["water", "kettle", "tea pot", "water"], dataset_id="d")
    assert embedder.calls == 1
    settled(kb)
    embedder.fails, embedder.calls = True, 0
    failed = kb.search_many(["water", "lid"], dataset_id="d")
    assert all(each.warnings for each in failed)


def test_an_answer_with_a_warning_is_not_kept(opened: Opener) -> None:
    llm = ScriptedLLM(ProviderError("away"), "A pot of tea.")
    kb = opened(rewriter=HyDE(llm))
    kb.put_documents("d", PAGES)
    assert kb.search("tea", dataset_id="d").warnings
    assert settled(kb).entries == 0
    assert not kb.search("tea", dataset_id="d").warnings
    assert settled(kb).entries == 1


def test_the_configuration_is_part_of_the_request(tmp_path: Path, opened: Opener) -> None:
    url = str(tmp_path / "kb.db")
    opened(url).put_documents("d", PAGES)

    class Mine:
        def depth(self, query: ResolvedQuery) -> int:
            return query.top_k

        def __call__(
            self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
        ) -> Sequence[Hit]:
            return hits

    class Signed(Mine):
        def __init__(self, signature: str) -> None:
            self.signature = signature

    configurations: list[dict[str, Any]] = [
        {},
        {"ranker": "rrf"},
        {"ranker": triptych.RRFRanker(k=10)},
        {"rewriter": HyDE(FakeLLM(lambda *_: "tea"))},
        {"rewriter": HyDE(FakeLLM(lambda *_: "tea"), documents=2)},
        {"rewriter": HyDE(FakeLLM(lambda *_: "tea", signature="other"))},
        {"rewriter": FragmentRewriter()},
        {"postprocessors": [Signed("one")]},
        {"postprocessors": [Signed("two")]},
        {"postprocessors": [Mine()]},
        {"postprocessors": [Mine()]},
    ]
    for options in configurations:
        kb = opened(url, **options)
        assert kb.search("kettle lid", dataset_id="d").cache_similarity is None
        settled(kb)
        assert kb.search("kettle lid", dataset_id="d").cache_similarity is not None
    for options in configurations[:-2]:
        assert opened(url, **options).search("kettle lid", dataset_id="d").cache_similarity
    for options in configurations[-2:]:  # what these do is not known of another time
        found = opened(url, **options).search("kettle lid", dataset_id="d")
        assert found.cache_similarity is None


@attrs.define
class Outside:
    """A lane over something that no store knows of."""

    signature: Any = None
    name: str = "outside"

    def recall(self, query: ResolvedQuery) -> list[Candidate]:
        return [Candidate(dataset_id="d", doc_name="teapot.md", index=0, score=1.0)]


def test_a_lane_of_ones_own_says_when_it_changes(opened: Opener) -> None:
    with pytest.raises(ValidationError, match="the lane 'outside' has no signature"):
        opened(retrievers=[Outside()])
    lane = Outside(signature="monday")
    kb = opened(retrievers=[lane])
    kb.put_documents("d", PAGES)
    kb.search("kettle", dataset_id="d")
    settled(kb)
    assert kb.search("kettle", dataset_id="d").cache_similarity is not None
    lane.signature = "tuesday"
    assert kb.search("kettle", dataset_id="d").cache_similarity is None


def test_two_services_share_answers(tmp_path: Path, opened: Opener) -> None:
    one, two = opened(str(tmp_path / "kb.db")), opened(str(tmp_path / "kb.db"))
    one.put_documents("d", PAGES)
    first = one.search("kettle", dataset_id="d")
    settled(one)
    found = two.search("kettle", dataset_id="d")
    assert found.cache_similarity is not None
    assert same(found, first)
    two.put_document("d", "kettle.md", "# Kettle\n\nGone.\n")
    assert one.search("kettle", dataset_id="d").cache_similarity is None
    settled(two)
    assert settled(one) == CacheStats(entries=1, hits=1, misses=2)


def test_what_was_found_before_a_write_is_not_kept_after_it(opened: Opener) -> None:
    class Writes:
        """A step that changes the dataset while it is being searched."""

        once = True

        def depth(self, query: ResolvedQuery) -> int:
            return query.top_k

        def __call__(
            self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
        ) -> Sequence[Hit]:
            if self.once:
                self.once = False
                kb.put_document("d", "late.md", "# Late\n\nA kettle, late.\n")
            return hits

    kb = opened(postprocessors=[Writes()])
    kb.put_documents("d", PAGES)
    assert "late.md" not in names(kb.search("kettle", dataset_id="d"))
    assert settled(kb).entries == 0
    found = kb.search("kettle", dataset_id="d")
    assert "late.md" in names(found)
    assert found.cache_similarity is None


def test_a_cache_that_fails_is_a_warning(
    tmp_path: Path, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triptych.search.result_cache._WAIT", 0.1)
    file = tmp_path / "kb.db.results"
    file.write_bytes(b"no database")
    kb = opened(str(tmp_path / "kb.db"))
    kb.put_documents("d", PAGES)
    found = kb.search("kettle", dataset_id="d")
    assert names(found)[0] == "kettle.md"
    (warning,) = found.warnings
    assert warning.startswith(f"the semantic cache was not asked (StoreError: {file}: ")
    assert kb.search("kettle", dataset_id="d").warnings == ()  # what was damaged is gone
    settled(kb)
    assert kb.search("kettle", dataset_id="d").cache_similarity is not None
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert kb.search("tea", dataset_id="d").warnings == ()
        settled(kb)
        (warning,) = kb.search("tea", dataset_id="d").warnings
        assert warning.startswith("the semantic cache could not keep a result (StoreError: ")
        assert "locked" in warning


def test_the_file_of_results_is_as_private_as_the_store(tmp_path: Path, opened: Opener) -> None:
    kb = opened(str(tmp_path / "kb.db"))
    (tmp_path / "kb.db").chmod(0o640)
    kb.put_documents("d", PAGES)
    kb.search("kettle", dataset_id="d")
    settled(kb)
    assert (tmp_path / "kb.db.results").stat().st_mode & 0o777 == 0o640


def test_a_store_that_is_only_read_keeps_results_in_memory(tmp_path: Path, opened: Opener) -> None:
    path = tmp_path / "kb.db"
    opened(str(path), semantic_cache=None).put_documents("d", PAGES)
    options = ServiceOptions(embedder=Meaning(), semantic_cache=True)
    with Service(SqliteStore.open(path, read_only=True), options=options) as kb:
        kb.search("kettle", dataset_id="d")
        settled(kb)
        assert kb.search("kettle", dataset_id="d").cache_similarity is not None
    assert not path.with_name("kb.db.results").exists()


def test_an_embedder_that_fails_is_the_searchs_affair(opened: Opener) -> None:
    embedder = Meaning()
    kb = opened(embedder=embedder)
    kb.put_documents("d", PAGES)
    embedder.fails = True
    found = kb.search("kettle", dataset_id="d")
    assert names(found) == ["kettle.md"]
    assert found.warnings == ("the vector lane did not run: the model is away",)


def test_a_store_without_a_change_log_says_so() -> None:
    inner = MemoryStore()
    parts = Repositories(documents=inner.documents, chunks=inner.chunks, layers=inner.layers)
    options = ServiceOptions(embedder=Meaning(), semantic_cache=True)
    with pytest.raises(NotAvailableError, match="has no change log"):
        Service(parts, options=options)


@each_row(
    "bad",
    [
        {"threshold": 0},
        {"threshold": 1.1},
        {"threshold": "high"},
        {"hours": -1},
        {"hours": float("inf")},
        {"entries": 0},
        {"entries": 1.5},
    ],
)
def test_bad_options_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SemanticCache(**bad)
    with pytest.raises(ValidationError):
        ServiceOptions(semantic_cache=bad)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="no option 'ttl'"):
        ServiceOptions(semantic_cache={"ttl": 3})  # type: ignore[arg-type]


def test_the_oldest_answers_go(opened: Opener) -> None:
    kb = opened(semantic_cache=SemanticCache(entries=2))
    kb.put_documents("d", PAGES)
    for question in ("kettle", "tea", "water"):
        kb.search(question, dataset_id="d")
        settled(kb)
    assert settled(kb).entries == 2
    assert kb.search("water", dataset_id="d").cache_similarity is not None
    assert kb.search("kettle", dataset_id="d").cache_similarity is None


def test_a_setting_turns_it_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Opener
) -> None:
    monkeypatch.chdir(tmp_path)
    with triptych.open("memory://") as kb:
        assert kb.options.semantic_cache is None
    write_trusted(tmp_path, "semantic_cache = true\n")
    with triptych.open("memory://") as kb:
        assert kb.options.semantic_cache == SemanticCache()
    write_trusted(tmp_path, "[semantic_cache]\nthreshold = 0.95\nhours = 1\n")
    with triptych.open("memory://") as kb:
        assert kb.options.semantic_cache == SemanticCache(threshold=0.95, hours=1)
    with triptych.open("memory://", semantic_cache=False) as kb:
        assert kb.options.semantic_cache is None
    (tmp_path / "triptych.toml").write_text("[semantic_cache]\nthreshold = 3\n")
    with pytest.raises(ValidationError, match="cosine"):
        triptych.open("memory://")
    monkeypatch.setenv("TRIPTYCH_SEMANTIC_CACHE", "yes")
    (tmp_path / "triptych.toml").unlink()
    with triptych.open("memory://") as kb:
        assert kb.options.semantic_cache == SemanticCache()


@pytest.mark.parametrize("kind", ["sqlite", "files"])
@pytest.mark.parametrize("cached", [True, False])
def test_purge_erases_the_text_of_results(
    tmp_path: Path, opened: Opener, kind: str, cached: bool
) -> None:
    path = tmp_path / "kb.db"
    url = str(path) if kind == "sqlite" else f"files://{path}"
    kb = opened(url)
    secret = "xylophonist"
    kb.put_document("d", "kettle.md", f"# Kettle\n\nThe kettle of a {secret}.\n")
    kb.put_documents("d", PAGES | {"kettle.md": f"# Kettle\n\nThe kettle of a {secret}.\n"})
    kb.search("kettle", dataset_id="d")
    assert settled(kb).entries == 1
    if not cached:  # whoever purges need not use the cache
        kb.close()
        kb = opened(url, semantic_cache=None)
    assert kb.purge("d", "kettle.md").answers == 1
    assert settled(kb).entries == 0
    kb.close()
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_a_hit_leads_to_its_file_as_of_now(tmp_path: Path, opened: Opener) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    file = folder / "kettle.md"
    file.write_text(PAGES["kettle.md"])
    kb = opened(str(tmp_path / "kb.db"))
    root = triptych.SyncRoot(path=folder, dataset_id="d")
    assert triptych.DirectorySync(kb, [root]).sync().added
    assert kb.search("kettle", dataset_id="d").hits[0].path == file
    settled(kb)
    found = kb.search("kettle", dataset_id="d")
    assert found.cache_similarity is not None
    assert found.hits[0].path == file
    file.unlink()
    found = kb.search("kettle", dataset_id="d")
    assert found.cache_similarity is not None
    assert found.hits[0].path is None


def test_a_lookup_looks_at_no_files_of_the_store(tmp_path: Path, opened: Opener) -> None:
    kb = opened(f"files://{tmp_path / 'kb'}")
    kb.put_documents("d", PAGES)
    kb.search("kettle", dataset_id="d")
    settled(kb)
    (tmp_path / "kb" / "d" / "new.md").write_text("# Kettle\n\nA kettle.\n")
    assert kb.search("kettle", dataset_id="d").cache_similarity is not None
    kb.list_documents("d")  # which takes the file over
    assert kb.search("kettle", dataset_id="d").cache_similarity is None
