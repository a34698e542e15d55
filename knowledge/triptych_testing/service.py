"""Conformance tests of a Service over a backend: guarantees that need several repositories."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triptych import Progress
from triptych.contracts import Store
from triptych.deadlines import deadline
from triptych.errors import (
    CancelledError,
    ConflictError,
    DerivationError,
    NotFoundError,
    ProviderError,
    ValidationError,
)
from triptych.records import EmbedKind, EmbedReport, NewDocument, RebuildScope
from triptych.service import Service
from triptych_testing.fakes import FakeEmbedder
from triptych_testing.harness import failures, guarantee, in_threads, or_skip
from triptych_testing.past import PastTests
from triptych_testing.query_syntax import QuerySyntaxTests
from triptych_testing.service_search import TEXT, Outage, ServiceSearchTests
from triptych_testing.sparse_service import SparseServiceTests
from triptych_testing.work import serve

_DOCUMENTS = 150
_SECONDS = 0.002


class SlowEmbedder(FakeEmbedder):
    """A `FakeEmbedder` that takes its time for each text."""

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        vectors = super().embed(texts, kind=kind)
        time.sleep(_SECONDS * len(texts))
        return vectors


def paragraphs(rng: random.Random, count: int) -> list[str]:
    """Paragraphs of 40 to 200 characters, no two alike."""
    words = ["stone", "river", "amber", "quiet", "lantern", "orchard", "signal", "meadow", "copper"]
    made = []
    for _ in range(count):
        size = rng.randint(40, 200)
        text = f"{rng.getrandbits(40):x}"
        while len(text) < size - 12:
            text += " " + rng.choice(words)
        made.append(text + ".")
    return made


_NOT_STORED: list[tuple[Any, Any, dict[Any, Any], str]] = [
    ("", "x", {}, "empty"),
    ("a/", "x", {}, "slash"),
    ("a\0", "x", {}, "control character"),
    ("n" * 2000, "x", {}, "1024 bytes"),
    ("a", "\ud800", {}, "lone surrogate"),
    ("\udfff", "x", {}, "lone surrogate"),
    ("a", b"x", {}, "must be a string"),
    ("a", "x", {"k": None}, "leave the key out"),
    ("a", "x", {"k": b"v"}, "not bytes"),
    ("a", "x", {1: "v"}, "must be a string"),
]
"""Names, contents and metadata that are no document's, and what the refusal says."""


class ServiceTests(ServiceSearchTests, QuerySyntaxTests, SparseServiceTests, PastTests):
    """The guarantees of a Service over any backend."""

    # Documents in and out

    def test_what_was_put_comes_back_and_is_found(self, kb: Service) -> None:
        stored = kb.put_document("d", "a.md", TEXT, {"lang": "en"})
        assert kb.get_document("d", "a.md") == stored
        assert (stored.version, stored.content, stored.metadata) == (1, TEXT, {"lang": "en"})
        hit = kb.search("installer", dataset_id="d").hits[0]
        assert (hit.doc_name, hit.heading_path, hit.start_line) == ("a.md", ("Start", "Install"), 5)
        assert TEXT[hit.start : hit.end] == hit.content
        assert TEXT.encode()[hit.offset :].decode().startswith(hit.content)
        assert set(hit.scores) == {"bm25", "vector"}
        assert hit.stale is None
        assert hit.metadata == {"lang": "en"}

    @guarantee(4)
    def test_what_cannot_be_stored_is_refused_by_name(self, kb: Service) -> None:
        def is_refused(row: tuple[Any, Any, dict[Any, Any], str]) -> None:
            name, content, metadata, said = row
            with pytest.raises(ValidationError, match=said):
                kb.put_document("d", name, content, metadata)
            assert kb.list_datasets() == []

        assert failures(_NOT_STORED, is_refused) == []

    def test_a_dataset_needs_a_proper_id(self, kb: Service) -> None:
        for dataset_id in ("", " ", "a\n", "\ud800"):
            with pytest.raises(ValidationError, match="dataset_id"):
                kb.put_document(dataset_id, "a", "x")

    def test_if_version_guards_against_lost_updates(self, kb: Service) -> None:
        kb.put_document("d", "a", "one", if_version=0)
        kb.put_document("d", "a", "two", if_version=1)
        with pytest.raises(ConflictError) as caught:
            kb.put_document("d", "a", "three", if_version=1)
        assert (caught.value.expected, caught.value.actual) == (1, 2)
        assert kb.get_document("d", "a").content == "two"

    def test_what_is_not_there_is_named(self, kb: Service) -> None:
        with pytest.raises(NotFoundError, match="no dataset 'nowhere'"):
            kb.get_document("nowhere", "a")
        kb.put_document("d", "a", "x")
        with pytest.raises(NotFoundError, match="no document 'b'"):
            kb.get_document("d", "b")
        for call in (
            lambda: kb.search("x", dataset_id="nowhere"),
            lambda: kb.search_documents("x", dataset_id="nowhere"),
            lambda: kb.list_documents("nowhere"),
            lambda: kb.rebuild(dataset_id="nowhere"),
            lambda: kb.stats("nowhere"),
            lambda: kb.put_document_layer("d", "b", "L0", "x"),
            lambda: kb.put_dataset_layer("nowhere", "L0", "x"),
        ):
            with pytest.raises(NotFoundError, match=r"nowhere|'b'"):
                call()

    # Guarantee 10: no-op costs nothing

    @guarantee(10)
    def test_an_identical_put_costs_nothing(self, kb: Service, embedder: Outage) -> None:
        first = kb.put_document("d", "a.md", TEXT, {"k": "v"})
        calls = embedder.calls
        assert kb.put_document("d", "a.md", TEXT, {"k": "v"}) == first
        report = kb.put_documents(
            "d", [NewDocument(name="a.md", content=TEXT, metadata={"k": "v"})]
        )
        assert (report.unchanged, report.embedded, report.chunks) == (1, 0, 0)
        assert kb.rebuild().fresh == 1
        assert embedder.calls == calls

    def test_new_metadata_is_a_new_version_and_no_new_work(
        self, kb: Service, embedder: Outage
    ) -> None:
        kb.put_document("d", "a.md", TEXT, {"k": "v"})
        calls = embedder.calls
        assert kb.put_document("d", "a.md", TEXT, {"k": "w"}).version == 2
        assert embedder.calls == calls
        hit = kb.search("installer", dataset_id="d", where={"k": "w"}).hits[0]
        assert (hit.stale, hit.sig.source_version) == (None, 2)
        assert kb.search("installer", dataset_id="d", where={"k": "v"}).hits == ()

    def test_a_put_without_metadata_keeps_what_is_there(
        self, kb: Service, embedder: Outage
    ) -> None:
        first = kb.put_document("d", "a.md", TEXT, {"title": "Cats", "k": "v"})
        calls = embedder.calls
        assert kb.put_document("d", "a.md", TEXT) == first
        report = kb.put_documents("d", {"a.md": TEXT})
        assert (report.unchanged, report.updated) == (1, 0)
        assert embedder.calls == calls
        docs = kb.dataset("d")
        assert docs.put("a.md", TEXT + "More.\n").metadata == first.metadata
        kb.put_documents("d", {"a.md": TEXT + "Even more.\n"})
        assert docs.get("a.md").metadata == first.metadata
        assert kb.search("more", dataset_id="d", where={"k": "v"}).hits
        assert docs.put("a.md", TEXT, {}).metadata == {}
        report = kb.put_documents("d", [NewDocument(name="a.md", content=TEXT, metadata={})])
        assert report.unchanged == 1
        assert not kb.search("cats", dataset_id="d", where={"k": "v"}).hits

    @guarantee(10)
    def test_an_edit_embeds_only_what_changed(self, kb: Service, embedder: Outage) -> None:
        rng = random.Random(7)
        body = paragraphs(rng, 300)
        kb.put_document("d", "long.md", "# Title\n\n" + "\n\n".join(body))
        costs = []
        for _ in range(60):
            at = rng.randrange(len(body))
            body[at] = paragraphs(rng, 1)[0]
            before = len(embedder.texts)
            kb.put_document("d", "long.md", "# Title\n\n" + "\n\n".join(body))
            costs.append(len(embedder.texts) - before)
        assert sum(costs) / len(costs) <= 1.7, costs  # 1.5 over thousands; this is a sample
        assert max(costs) <= 4, costs
        assert min(costs) >= 1, costs

    def test_a_rename_embeds_nothing(self, kb: Service, embedder: Outage) -> None:
        kb.put_document("d", "a.md", TEXT)
        before = len(embedder.texts)
        kb.put_document("d", "b.md", TEXT)
        kb.delete_document("d", "a.md")
        assert len(embedder.texts) == before
        assert [hit.doc_name for hit in kb.search("installer", dataset_id="d").hits] == ["b.md"] * 2

    def test_moving_a_section_embeds_at_most_what_moved(
        self, kb: Service, embedder: Outage
    ) -> None:
        parts = [
            f"## Part {at}\n\n{text}\n" for at, text in enumerate(paragraphs(random.Random(1), 40))
        ]
        kb.put_document("d", "a.md", "# Title\n\n" + "\n".join(parts))
        before = len(embedder.texts)
        parts.append(parts.pop(3))
        kb.put_document("d", "a.md", "# Title\n\n" + "\n".join(parts))
        assert len(embedder.texts) - before <= 2

    def test_a_changed_heading_embeds_its_section_alone(
        self, kb: Service, embedder: Outage
    ) -> None:
        parts = [
            f"## Part {at}\n\n{text}\n" for at, text in enumerate(paragraphs(random.Random(2), 40))
        ]
        kb.put_document("d", "a.md", "# Title\n\n" + "\n".join(parts))
        before = len(embedder.texts)
        parts[5] = parts[5].replace("## Part 5", "## Another part")
        kb.put_document("d", "a.md", "# Title\n\n" + "\n".join(parts))
        assert len(embedder.texts) - before == 1

    def test_a_chunks_id_is_its_texts_and_stays_under_edits_elsewhere(
        self, kb: Service, store: Store
    ) -> None:
        def chunk_ids() -> dict[str, str]:
            return {
                f"{chunk.index}:{chunk.content}": chunk.chunk_id
                for chunk in store.chunks.iter_chunks("d", "a.md")
            }

        # So long that no two sections are one chunk.
        section = f"# Twice\n\nThe same copper lantern.{' It hung there.' * 20}\n\n"
        kb.put_document("d", "a.md", section * 3 + "# End\n\nAn orchard.\n")
        kb.put_document("d", "b.md", section)
        before = chunk_ids()
        assert len(set(before.values())) == len(before) == 4
        hits = kb.search("lantern orchard", dataset_id="d", mode="bm25").hits
        assert {hit.chunk_id for hit in hits if hit.doc_name == "a.md"} == {*before.values()}
        assert len({hit.chunk_id for hit in hits}) == 5
        kb.put_document("d", "a.md", "# New\n\nA river.\n\n" + section * 3 + "# End\n\nAmber.\n")
        after = chunk_ids()
        assert list(after.values())[1:4] == list(before.values())[:3]
        assert not {*after.values()} & {list(before.values())[3]}
        for hit in kb.search("lantern", dataset_id="d", mode="bm25").hits:
            if hit.doc_name == "a.md":
                assert hit.chunk_id == after[f"{hit.chunk_index}:{hit.content}"]

    @guarantee(10)
    def test_the_same_text_is_embedded_once(self, kb: Service, embedder: Outage) -> None:
        kb.put_documents("d", {f"{at}.txt": "the very same text" for at in range(10)})
        assert len(embedder.texts) == 1
        kb.put_document("other", "a.txt", "the very same text")
        assert len(embedder.texts) == 2, "nothing leaks from one dataset to another"

    # Guarantee 7: the source first, derivation outside

    @guarantee(7)
    def test_a_failing_embedder_leaves_the_document_found_by_keyword(
        self, kb: Service, embedder: Outage
    ) -> None:
        kb.put_document("d", "a.txt", "the old words")
        embedder.fail(ProviderError("the model is out"))
        with pytest.raises(DerivationError, match="the model is out") as caught:
            kb.put_document("d", "a.txt", "the new words")
        assert caught.value.document is not None
        assert caught.value.document.version == 2
        assert kb.get_document("d", "a.txt").content == "the new words"
        found = kb.search("words", dataset_id="d", mode="bm25", fresh_only=True)
        (hit,) = found.hits
        assert (hit.content, hit.stale, hit.sig.source_version) == ("the new words", None, 2)
        assert found.warnings == ()
        (stats,) = kb.stats("d")
        assert (stats.stale, stats.pending, stats.pending_chunks) == (0, 1, 1)
        embedder.recover()
        kb.put_document("d", "a.txt", "the new words")
        (hit,) = kb.search("words", dataset_id="d", mode="vector").hits
        assert (hit.content, hit.stale) == ("the new words", None)
        assert kb.stats("d")[0].pending == 0

    def test_a_document_is_found_at_every_moment_of_a_put_whose_embedder_fails(
        self, kb: Service, embedder: Outage
    ) -> None:
        long = " It hung there." * 20  # or both sections would be one chunk
        text = f"# Kept\n\nAn amber lantern.{long}\n\n# Part\n\n{{}} words.{long}\n"
        kb.put_document("d", "a.md", text.format("Old"))

        def found(mode: str) -> dict[str, str | None]:
            hits = kb.search("words lantern", dataset_id="d", mode=mode).hits
            return {hit.content.split()[2]: hit.stale for hit in hits}

        # Until the embedder has answered, the old chunks serve, and say that they are stale.
        meanwhile: list[dict[str, str | None]] = []
        embedder.asked = lambda: meanwhile.extend(map(found, ("bm25", "vector")))
        embedder.fail(ProviderError("the model is out"), "New")
        with pytest.raises(DerivationError):
            kb.put_document("d", "a.md", text.format("New"))
        embedder.asked = None
        assert meanwhile[:2] == [{"Old": "source", "An": "source"}] * 2
        # Then the new ones do: by keyword all, by meaning those whose text is as it was.
        assert found("bm25") == {"New": None, "An": None}
        assert found("vector") == {"An": None}
        (warning,) = kb.search("words", dataset_id="d").warnings
        assert warning.startswith("1 document lacks vectors")
        embedder.recover()
        embedded = len(embedder.texts)
        done = kb.embed_pending("d", retry=True)  # the model refused this text, not all
        assert done.documents == len(embedder.texts) - embedded == 1
        assert found("vector") == {"New": None, "An": None}

    def test_a_search_of_few_hits_warns_of_documents_without_chunks(self, kb: Service) -> None:
        kb.put_document("d", "whole.txt", "words")
        kb.put_document("d", "empty.txt", "")
        assert kb.search("words", dataset_id="d").warnings == ()
        # What a process leaves that is killed before it derives.
        for name in ("a.txt", "b.txt"):
            kb.documents.put("d", NewDocument(name=name, content="lost words"))
        for mode in ("bm25", "vector", "hybrid"):
            found = kb.search("lost", dataset_id="d", mode=mode)
            (warning,) = found.warnings
            assert warning.startswith("2 documents are not indexed yet")
            assert "rebuild" in warning
        assert kb.search("lost", dataset_id="d", layer="L0").warnings == ()
        (warning,) = kb.search("lost", scope="all").warnings
        assert warning.startswith("2 documents")
        kb.documents.delete("d", "b.txt")
        (warning,) = kb.search("lost", dataset_id="d").warnings
        assert warning.startswith("1 document is not indexed yet")
        kb.rebuild(dataset_id="d")
        found = kb.search("lost", dataset_id="d", mode="bm25")
        assert ([hit.doc_name for hit in found.hits], found.warnings) == (["a.txt"], ())

    def test_a_search_warns_once_of_documents_without_vectors(self, kb: Service) -> None:
        kb.put_document("d", "whole.txt", "words with a vector")
        for at in range(3):
            kb.put_document("d", f"{at}.txt", f"words {at}", embed="later")
        for mode, told in (("hybrid", "found by keyword only"), ("vector", "not found yet")):
            found = kb.search("words", dataset_id="d", mode=mode, top_k=10)
            (warning,) = found.warnings
            want = f"text without one is {told}; `triptych embed` adds them"
            assert warning == f"3 documents lack vectors: {want}"
            assert [hit.stale for hit in found.hits] == [None] * len(found.hits)
            assert len(found.hits) == (4 if mode == "hybrid" else 1)
        assert kb.search("words", dataset_id="d", mode="bm25").warnings == ()
        assert kb.search("words", dataset_id="d", layer="L0").warnings == ()
        kb.put_document("other", "a.txt", "words")
        assert kb.search("words", dataset_id="other").warnings == ()
        (warning,) = kb.search("words", scope="all").warnings
        assert warning.startswith("3 documents")
        kb.embed_pending("d")
        assert kb.search("words", dataset_id="d").warnings == ()

    def test_texts_are_embedded_later_and_once(self, kb: Service, embedder: Outage) -> None:
        texts = {f"{at}.txt": f"text {at % 4}" for at in range(10)}
        report = kb.put_documents("d", texts, embed="later")
        assert (report.added, report.embedded, report.pending, report.failed) == (10, 0, 10, ())
        assert embedder.texts == []
        assert len(kb.search("text", dataset_id="d", mode="bm25", top_k=20).hits) == 10
        again = kb.put_documents("d", texts, embed="later")
        assert (again.unchanged, again.chunks, again.pending) == (10, 0, 10)
        done = kb.embed_pending()
        assert (done.documents, done.embedded, done.reused, done.pending) == (10, 4, 6, 0)
        assert sorted(embedder.texts) == [f"text {at}" for at in range(4)]
        assert kb.embed_pending("d") == type(done)()
        assert kb.stats("d")[0].vectors == 10
        assert len(kb.search("text 1", dataset_id="d", mode="vector", top_k=20).hits) == 10

    @guarantee(7)
    def test_an_outage_loses_no_vector_and_goes_on_where_it_began(
        self, kb: Service, embedder: Outage
    ) -> None:
        texts = {f"{at:03}.txt": f"words {at}" for at in range(200)}
        embedder.fail(ProviderError("out"), text="words 150")
        report = kb.put_documents("d", texts)
        assert [failure.name for failure in report.failed] == ["150.txt"]
        assert "pending" in str(report.failed[0].error)
        assert (report.added, report.pending, report.embedded) == (199, 1, 199)
        embedder.recover()
        if kb.capabilities.settings is not None:
            again = kb.embed_pending("d")  # a text that is refused is not sent again
            assert (again.embedded, again.pending, len(again.failed)) == (0, 1, 1)
        done = kb.embed_pending("d", retry=True)
        assert (done.documents, done.embedded, done.pending) == (1, 1, 0)
        assert sorted(embedder.texts) == sorted([*texts.values(), "words 0"])  # known to be good

    def test_embedding_later_needs_a_dataset_of_this_model(self, kb: Service) -> None:
        with pytest.raises(NotFoundError):
            kb.embed_pending("none")
        for wrong in ("soon", None, True):
            with pytest.raises(ValidationError, match="embed"):
                kb.put_document("d", "a", "text", embed=wrong)  # type: ignore[arg-type]  # refused
        assert kb.list_datasets() == []

    def test_a_rebuild_repairs_what_failed(self, kb: Service, embedder: Outage) -> None:
        embedder.fail(ProviderError("out"))
        with pytest.raises(DerivationError) as caught:
            kb.put_documents("d", {"a.txt": "first words", "b.txt": "second words"})
        assert [failure.name for failure in caught.value.report.failed] == ["a.txt", "b.txt"]
        assert len(kb.list_documents("d")) == 2
        assert len(kb.rebuild().failed) == 2
        embedder.recover()
        assert kb.rebuild(dataset_id="d", doc_name="b.txt").rebuilt == 1
        rebuilt = kb.rebuild(RebuildScope(dataset_id="d"))
        assert (rebuilt.checked, rebuilt.fresh, rebuilt.rebuilt) == (2, 1, 1)
        assert len(kb.search("words", dataset_id="d").hits) == 2

    def test_one_poisonous_document_fails_alone(self, kb: Service, embedder: Outage) -> None:
        embedder.fail(ProviderError("cannot read this"), text="poison")
        documents = {f"{at}.txt": f"good words {at}" for at in range(20)}
        documents["7.txt"] = "poison"
        report = kb.put_documents("d", documents)
        assert [failure.name for failure in report.failed] == ["7.txt"]
        assert report.added == 19
        assert len(kb.search("words", dataset_id="d", top_k=30, mode="bm25").hits) == 19

    @guarantee(7)
    def test_a_bulk_put_reports_item_by_item(self, kb: Service) -> None:
        kb.put_document("d", "old.txt", "old")
        kb.put_document("d", "same.txt", "same")
        report = kb.put_documents(
            "d",
            {
                "new.txt": "new",
                "old.txt": "changed",
                "same.txt": "same",
                "bad/": "x",
                "s": "\ud800",
            },
        )
        assert (report.added, report.updated, report.unchanged) == (1, 1, 1)
        assert [failure.name for failure in report.failed] == ["bad/", "s"]
        report = kb.put_documents(
            "d",
            [
                NewDocument(name="old.txt", content="x", if_version=1),
                NewDocument(name="new.txt", content="y", if_version=1),
            ],
        )
        assert isinstance(report.failed[0].error, ConflictError)
        assert (report.updated, len(report.failed)) == (1, 1)

    def test_progress_tells_documents_and_embedded_texts(self, kb: Service) -> None:
        seen: list[Progress] = []
        kb.put_documents(
            "d", {f"{at}.txt": f"text {at}" for at in range(300)}, progress=seen.append
        )
        assert [p.done for p in seen if p.phase == "documents"] == [256, 300]
        assert {p.total for p in seen if p.phase == "documents"} == {300}
        embedded = [p.done for p in seen if p.phase == "embedding"]
        assert embedded == sorted(embedded)
        assert embedded[-1] == 300
        assert len(embedded) > 2

    def test_what_a_progress_callback_raises_is_the_callers(self, kb: Service) -> None:
        def stop(progress: Progress) -> None:
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            kb.put_documents("d", {"a.txt": "text"}, progress=stop)

    def test_a_deadline_ends_a_bulk_put_between_batches(self, kb: Service) -> None:
        def documents() -> Iterator[NewDocument]:
            for at in range(1000):
                if at == 600:
                    scope.cancel()
                yield NewDocument(name=f"{at:04}.txt", content=f"text {at}")

        with deadline() as scope, pytest.raises(CancelledError):
            kb.put_documents("d", documents())
        stored = kb.list_documents("d")
        assert 0 < len(stored) < 1000
        assert len(kb.search("text", dataset_id="d", mode="bm25", top_k=1000).hits) == len(stored)

    # Guarantee 8: read your writes

    @guarantee(8)
    def test_every_write_is_seen_by_the_next_search(self, kb: Service) -> None:
        before = "needlex"
        for turn, needle in enumerate(f"needle{letter}" for letter in "abcdefghijkl"):
            kb.put_document("d", "a.txt", f"{needle} text")
            assert len(kb.search(needle, dataset_id="d", mode="bm25").hits) == 1
            assert not kb.search(before, dataset_id="d", mode="bm25").hits
            before = needle
            if turn % 4 == 3:
                kb.delete_document("d", "a.txt")
                assert not kb.search(needle, dataset_id="d", mode="bm25").hits

    def test_threads_read_their_own_writes(self, kb: Service) -> None:
        def work(who: int) -> None:
            for turn in range(8):
                word = f"w{who}t{turn}"
                kb.put_document("d", f"{who}.txt", f"{word} text")
                names = [h.doc_name for h in kb.search(word, dataset_id="d", mode="bm25").hits]
                assert names == [f"{who}.txt"], word

        in_threads(work, 6)

    # Several fillers of one dataset

    @pytest.mark.parametrize("later", [True, False], ids=["embed", "put"])
    def test_two_fillers_make_every_vector_and_ask_for_no_text_twice_each(
        self, store: Store, later: bool
    ) -> None:
        settings = or_skip(store.capabilities.settings)
        notes = {f"n{number:03}": f"Note {number // 2}." for number in range(_DOCUMENTS)}
        embedder = SlowEmbedder()
        with serve(store, embedder) as one, serve(store, embedder) as other:
            if later:
                one.put_documents("d", notes, embed="later")

            def fill(number: int) -> EmbedReport:
                kb = (one, other)[number]
                if not later:
                    kb.put_documents("d", notes)
                return kb.embed_pending("d")

            reports = in_threads(fill, 2)
            (stats,) = one.stats("d")
        assert [(report.pending, report.failed) for report in reports] == [(0, ())] * 2
        assert (stats.vectors, stats.pending) == (_DOCUMENTS, 0)
        asked = Counter(embedder.texts)
        assert set(asked) == set(notes.values())
        assert max(asked.values()) <= 2
        assert dict(settings.list_settings()) == {}
