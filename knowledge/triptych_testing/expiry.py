"""Tests of documents with a time to live: searches do not find expired ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from triptych.contracts import Store
from triptych.contracts.defaults import Repositories
from triptych.errors import ConflictError, NotFoundError, ValidationError
from triptych.records import Mode, NewDocument, SystemData
from triptych.service import Service, ServiceOptions
from triptych_testing.fakes import Before, FakeEmbedder
from triptych_testing.harness import HarnessTests, there

PAST = datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
FUTURE = datetime(2999, 12, 31, 23, 0, tzinfo=UTC)


def _service(store: Store) -> Service:
    return Service(Repositories.over(store), options=ServiceOptions(embedder=FakeEmbedder()))


def _names(found: Any) -> list[str]:
    return sorted({each.name for each in found})


def _hits(result: Any) -> list[str]:
    return sorted({hit.doc_name for hit in result.hits})


def _note(name: str, expires_at: Any = None, **fields: Any) -> NewDocument:
    fields = {"metadata": {"kind": "markdown"}, **fields}
    content = f"# Note\n\nThe kettle of {name}."
    return NewDocument(name=name, content=content, expires_at=expires_at, **fields)


class ExpiryTests(HarnessTests):
    """Tests of `SystemData.expires_at`."""

    def test_the_moment_is_kept_in_utc(self, store: Store) -> None:
        documents = store.documents
        east = timezone(timedelta(hours=2))
        for given, kept in (
            (datetime(2999, 1, 1, 12, 0, 0, 1), datetime(2999, 1, 1, 12, 0, 0, 1, UTC)),
            (datetime(2999, 1, 1, 12, tzinfo=east), datetime(2999, 1, 1, 10, tzinfo=UTC)),
            (PAST, PAST),
        ):
            stored = documents.put("d", _note("a", given))
            assert stored.system == SystemData(expires_at=kept)
            assert documents.get("d", "a") == stored
            assert there(documents.get_info("d", "a")).system.expires_at == kept
            assert [each.system.expires_at for each in documents.list("d")] == [kept]

    def test_a_put_without_a_moment_keeps_the_one_that_is_to_come(self, store: Store) -> None:
        documents = store.documents
        first = documents.put("d", _note("a", FUTURE))
        assert documents.put("d", _note("a")) == first
        second = documents.put("d", NewDocument(name="a", content="other", metadata={"k": "v"}))
        assert second.system.expires_at == FUTURE
        third = documents.put("d", _note("a", FUTURE + timedelta(microseconds=1)))
        assert third.version > second.version
        last = documents.put("d", _note("a", "never"))
        assert (last.version > third.version, last.system.expires_at) == (True, None)
        assert documents.put("d", _note("a", "never")) == last
        if (versions := store.capabilities.versions) is not None:
            kept = [info.system.expires_at for info in versions.versions("d", "a")]
            assert kept == [None, FUTURE + timedelta(microseconds=1), FUTURE, FUTURE]

    def test_another_moment_embeds_nothing_and_leaves_the_chunks_fresh(self, store: Store) -> None:
        kb = _service(store)
        kb.put_document("d", "a", "The kettle.", expires_at=FUTURE)
        embedder = kb.options.embedder
        assert isinstance(embedder, FakeEmbedder)
        calls = embedder.calls
        for moment in (FUTURE + timedelta(days=1), "never"):
            kb.put_document("d", "a", "The kettle.", expires_at=moment)
        assert embedder.calls == calls
        assert kb.search("kettle", dataset_id="d", fresh_only=True, mode="bm25").hits

    @pytest.mark.parametrize("many", [False, True])
    def test_nothing_finds_what_has_expired(self, store: Store, many: bool) -> None:
        kb = _service(store)
        kb.put_documents("d", [_note("live"), _note("late", FUTURE), _note("dead")])
        kb.put_documents("other", [_note("there")])
        for layer in ("L0", "L1"):
            kb.put_document_layer("d", "dead", layer, "The kettle in short.")
            kb.put_document_layer("d", "late", layer, "The kettle in short.")
        kb.put_documents("d", [_note("dead", PAST)])
        if many:  # more than a page, and than the lanes ask for
            kb.put_documents("d", [_note(f"gone{at:03}", PAST) for at in range(300)])
        there = ["late", "live"]
        for mode in (Mode.BM25, Mode.VECTOR, Mode.HYBRID):
            found = kb.search("kettle", dataset_id="d", mode=mode, top_k=2)
            assert (_hits(found), len(found.hits)) == (there, 2)
            filtered = {"$prefix": ["l", "dead"]}
            found = kb.search("kettle", dataset_id="d", mode=mode, top_k=2, where=filtered)
            assert _hits(found) == there
            for layer in ("L0", "L1"):
                found = kb.search("kettle", dataset_id="d", mode=mode, layer=layer)
                assert _hits(found) == ["late"]
        assert _hits(kb.search("kettle", scope="all", top_k=9)) == ["late", "live", "there"]
        assert [_hits(each) for each in kb.search_many(["kettle"], dataset_id="d")] == [there]
        everything = {"$name": {"$exists": True}}
        headed = {"$heading": "Note"}
        for where in (everything, headed):
            assert _hits(kb.search("", dataset_id="d", where=where)) == there
            assert _hits(kb.search("kettle", dataset_id="d", where=where)) == there
            assert _names(kb.list_documents("d", where=where)) == there
            assert kb.count_documents("d", where=where) == 2
        for layer in ("L0", "L1"):
            assert _hits(kb.search("", dataset_id="d", where=everything, layer=layer)) == ["late"]
            assert kb.layer("d", "dead", layer) is None
            assert [each.doc_name for each in kb.layers("d", layer=layer)] == ["late"]
        if kb.capabilities.document_search is not None:
            assert _hits(kb.search_documents("kettle", dataset_id="d")) == there
            assert _hits(kb.search_documents("", dataset_id="d", where=everything)) == there
        assert _names(kb.list_documents("d")) == there
        assert [each.name for each in kb.list_documents("d", sort="$expires_at")] == there
        assert _names(kb.list_documents("d", where={"$expires_at": {"$exists": True}})) == ["late"]
        assert _names(kb.list_documents("d", prefix="d")) == []
        assert kb.count_documents("d") == 2
        assert "dead" not in kb.context("kettle", 500, dataset_id="d").render()
        missing_ones: list[Callable[[], object]] = [
            lambda: kb.get_document("d", "dead"),
            lambda: kb.put_document_layer("d", "dead", "L0", "Short."),
        ]
        if kb.capabilities.versions is not None:
            missing_ones.append(lambda: kb.get_document("d", "dead", 1))
            missing_ones.append(lambda: kb.history("d", "dead"))
        for missing in missing_ones:
            with pytest.raises(NotFoundError):
                missing()
        report = kb.update_metadata("d", {"seen": True}, names=["dead", "late"])
        assert (report.updated, report.missing) == (1, ("dead",))

    def test_what_has_expired_counts_in_no_statistics(self, store: Store) -> None:
        kb = _service(store)
        texts = {"a": "The kettle sings.", "b": "A lamp and a kettle.", "c": "A lamp."}
        kb.put_documents("d", texts)
        gone = [f"gone{at}" for at in range(5)]
        kb.put_documents("d", dict.fromkeys(gone, "The kettle, the kettle, a lamp."))
        for name in [*texts, *gone]:
            kb.put_document_layer("d", name, "L0", "A kettle in short." + name * 3)
        for name in gone:
            content = kb.get_document("d", name).content
            kb.put_document("d", name, content, expires_at=PAST)

        def found() -> list[object]:
            searches = [
                kb.search(text, dataset_id="d", mode=mode, **query)
                for text in ("kettle", "kettle lamp")
                for mode in (Mode.BM25, Mode.HYBRID)
                for query in ({}, {"where": {"$heading": "x"}}, {"layer": "L0"})
            ]
            if kb.capabilities.document_search is not None:
                searches.append(kb.search_documents("kettle", dataset_id="d"))
            return [
                (each.evidence, [(hit.doc_name, hit.score, hit.scores) for hit in each.hits])
                for each in searches
            ]

        expired = found()
        assert kb.remove_expired("d") == len(gone)
        assert expired == found()

    def test_its_moment_comes_without_a_write(self, store: Store) -> None:
        kb = _service(store)
        kb.put_documents("d", [_note("live")])
        moment = datetime.now(UTC) + timedelta(milliseconds=150)
        kb.put_documents("d", [_note("soon", moment)])
        found = _hits(kb.search("kettle", dataset_id="d")), kb.count_documents("d")
        if datetime.now(UTC) < moment:
            assert found == (["live", "soon"], 2)
        while datetime.now(UTC) < moment:
            time.sleep(0.01)
        assert _hits(kb.search("kettle", dataset_id="d")) == ["live"]
        assert kb.count_documents("d") == 1
        with pytest.raises(NotFoundError):
            kb.get_document("d", "soon")

    @pytest.mark.parametrize("how", ["rebuild", "rebuild all", "rebuild named", "remove_expired"])
    def test_a_rebuild_removes_what_has_expired(self, store: Store, how: str) -> None:
        kb = _service(store)
        kb.put_documents("d", [_note("live"), _note("late", FUTURE)])
        many = 300 if how == "rebuild" else 30  # more than one page of them, once
        kb.put_documents("d", [_note(f"gone{at:03}", PAST) for at in range(many)])
        kb.put_documents("other", [_note("gone", PAST)])
        named = [f"gone{at:03}" for at in range(5)]
        remove: dict[str, tuple[Callable[[], int], int]] = {
            "rebuild": (lambda: kb.rebuild(dataset_id="d").expired, many),
            "rebuild all": (lambda: kb.rebuild().expired, many + 1),
            "rebuild named": (lambda: kb.rebuild(dataset_id="d", doc_name=named[0]).expired, 1),
            "remove_expired": (lambda: kb.remove_expired("d"), many),
        }
        call, removed = remove[how]
        assert (call(), call()) == (removed, 0)
        left = [info.name for info in store.documents.list("d")]
        assert left == (
            ["late", "live"]
            if removed > 1
            else [f"gone{at:03}" for at in range(1, many)] + left[-2:]
        )
        assert left[-2:] == ["late", "live"]
        assert store.chunks.doc_names("d") == left
        assert kb.rebuild(dataset_id="d").failed == ()
        assert kb.remove_expired() == (0 if removed == many + 1 else 1)

    def test_what_is_put_again_stays(self, store: Store) -> None:
        kb = _service(store)
        kb.put_documents("d", [_note("a", PAST), _note("b", PAST), _note("c", PAST)])
        again = kb.put_documents("d", [_note("a"), _note("b", FUTURE)])
        assert (again.updated, again.unchanged) == (2, 0)
        assert kb.get_document("d", "a").system.expires_at is None
        assert kb.get_document("d", "b").system.expires_at == FUTURE
        assert _hits(kb.search("kettle", dataset_id="d", mode="bm25")) == ["a", "b"]
        assert kb.rebuild(dataset_id="d").expired == 1
        assert _names(store.documents.list("d")) == ["a", "b"]

    def test_a_put_keeps_nothing_of_what_has_expired(self, store: Store) -> None:
        documents = store.documents
        old = _note("a", PAST, metadata={"user": "ada"}, outline="{}", sync_root="root")
        for if_version in (None, 0):
            before = documents.put("d", old)
            assert before.metadata == {"user": "ada"}
            stored = documents.put("d", NewDocument(name="a", content="new", if_version=if_version))
            assert (stored.metadata, stored.system) == ({}, SystemData())
            assert stored.version > before.version
        before = documents.put("d", old)
        for if_version in (1, before.version):
            with pytest.raises(ConflictError) as caught:
                documents.put("d", NewDocument(name="a", content="new", if_version=if_version))
            assert (caught.value.expected, caught.value.actual) == (if_version, 0)
        assert documents.get("d", "a") == before
        documents.put("d", _note("a", FUTURE))
        with pytest.raises(ConflictError):
            documents.put("d", _note("a", if_version=0))

    def test_what_is_put_while_the_expired_are_removed_stays(self, store: Store) -> None:
        kb = _service(store)
        kb.put_documents("d", [_note("a", PAST), _note("b", PAST)])
        raced: Any = Before(
            store.documents, lambda: kb.put_documents("d", [_note("a")]), "delete_many"
        )
        other = Service(Repositories.over(store, documents=raced), options=kb.options)
        assert other.remove_expired("d") == 1
        assert _names(kb.list_documents("d")) == ["a"]
        assert _hits(kb.search("kettle", dataset_id="d")) == ["a"]

    def test_no_vectors_are_made_of_what_has_expired(self, store: Store) -> None:
        kb = _service(store)
        kb.put_documents("d", [_note("a", PAST)], embed="later")
        assert kb.embed_pending("d").embedded == 0
        kb.put_documents("d", [_note("b"), _note("c", FUTURE)], embed="later")
        assert (kb.embed_pending("d").documents, kb.embed_pending("d").documents) == (2, 0)

    def test_nobody_waits_for_vectors_of_what_has_expired(self, store: Store) -> None:
        kb = _service(store)
        kb.put_documents("d", [_note("live")])
        kb.put_documents("d", [_note("dead", PAST), _note("late", FUTURE)], embed="later")

        def waiting() -> tuple[tuple[str, ...], int, int, int]:
            stats, found = kb.stats("d")[0], kb.search("kettle", dataset_id="d")
            findings = [each for each in kb.doctor().findings if each.check == "vectors.pending"]
            counts = [each.count for each in findings]
            return found.warnings, stats.pending, stats.pending_chunks, sum(counts)

        one = (
            "1 document lacks vectors: text without one is found by keyword only; "
            "`triptych embed` adds them"
        )
        assert waiting() == ((one,), 1, 1, 1)
        assert kb.embed_pending("d", doc_names=["dead"]).embedded == 0
        assert waiting() == ((one,), 1, 1, 1)
        assert kb.embed_pending("d").embedded == 1
        assert waiting() == ((), 0, 0, 0)
        kb.put_documents("d", [_note("dead", "never")], embed="later")
        assert waiting() == ((one,), 1, 1, 1)

    def test_what_has_expired_is_looked_up_again_after_each_write(self, store: Store) -> None:
        kb = _service(store)
        kb.put_documents("d", [_note("a"), _note("b", PAST), _note("c", FUTURE)])
        kb.put_documents("other", [_note("x", PAST), _note("y")])

        def found(dataset_id: str = "d", **query: Any) -> list[str]:
            lanes = [
                _hits(kb.search("kettle", dataset_id=dataset_id, mode=mode, **query))
                for mode in (Mode.BM25, Mode.VECTOR)
            ]
            assert lanes[0] == lanes[1] or "where" in query
            return lanes[0]

        for _ in range(2):  # the second time nothing was written since
            assert found() == ["a", "c"]
            assert found("other") == ["y"]
            assert found(where={"$not": {"$name": "a"}}) == ["c"]
            assert found(where={"$heading": "Note"}) == ["a", "c"]
            assert found(where={"$not": {"$heading": "Nothing"}}) == ["a", "c"]
            assert found(where={"$not": {"$heading": "Note"}}) == []
        kb.put_documents("d", [_note("a", PAST)])
        assert found() == ["c"]
        kb.put_documents("d", [_note("b", "never")])
        assert found() == ["b", "c"]
        kb.delete_document("d", "c")
        assert found() == ["b"]
        kb.put_documents("d", [_note("c")])
        assert found() == ["b", "c"]
        kb.remove_expired("d")
        assert found() == ["b", "c"]

    def test_moments_that_come_one_after_the_other_are_all_seen(self, store: Store) -> None:
        kb = _service(store)
        begin = datetime.now(UTC) + timedelta(milliseconds=300)
        moments = {f"n{at}": begin + timedelta(milliseconds=40 * at) for at in range(8)}
        kb.put_documents("d", [_note(name, moment) for name, moment in moments.items()])
        kb.put_documents("d", [_note("dead", PAST)])
        while (now := datetime.now(UTC)) < max(moments.values()):
            hits = _hits(kb.search("kettle", dataset_id="d", mode=Mode.BM25, top_k=20))
            after = datetime.now(UTC)
            assert {name for name, moment in moments.items() if moment > after} <= set(hits)
            assert set(hits) <= {name for name, moment in moments.items() if moment > now}
        assert _hits(kb.search("kettle", dataset_id="d")) == []

    def test_deleting_sees_what_has_expired(self, store: Store) -> None:
        kb = _service(store)
        kb.put_documents("d", [_note(name, PAST) for name in "abc"])
        assert kb.delete_document("d", "a")
        assert kb.delete_documents("d", where={"$expires_at": {"$lte": PAST}}).deleted == ("b", "c")
        assert kb.count_documents("d") == 0

    def test_a_metadata_key_of_that_name_expires_nothing(self, store: Store) -> None:
        kb = _service(store)
        kb.put_documents("d", [_note("a", metadata={"$expires_at": PAST, "expires_at": PAST})])
        assert _hits(kb.search("kettle", dataset_id="d")) == ["a"]
        assert kb.count_documents("d", where={"$expires_at": {"$exists": True}}) == 0
        assert store.documents.with_expired(["d"], FUTURE) == []

    def test_datasets_with_expired_documents_are_named(self, store: Store) -> None:
        documents = store.documents
        documents.put("a", _note("x", PAST))
        documents.put("b", _note("x", FUTURE))
        documents.put("c", _note("x"))
        asked = ["c", "b", "a", "unknown"]
        assert documents.with_expired(asked, PAST) == ["a"]
        assert documents.with_expired(asked, PAST - timedelta(microseconds=1)) == []
        assert documents.with_expired(asked, FUTURE) == ["b", "a"]
        documents.put("a", _note("x", "never"))
        documents.delete("b", "x")
        assert documents.with_expired(asked, FUTURE) == []
        documents.put("a", _note("x", PAST))
        documents.delete_dataset("a")
        assert documents.with_expired(asked, FUTURE) == []
        documents.put("a", _note("x"))
        assert documents.with_expired(asked, FUTURE) == []

    def test_what_is_no_moment_is_refused(self, store: Store) -> None:
        kb = _service(store)
        no_moments: list[Any] = ["tomorrow", 3, False, 1e9]
        for bad in no_moments:
            with pytest.raises(ValidationError, match="expires_at is a datetime"):
                kb.put_document("d", "a", "text", expires_at=bad)
