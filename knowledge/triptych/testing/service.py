"""Conformance of a Service over a backend: the guarantees that take more than one repository."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from triptych._internal.progress import Progress
from triptych.chunking import ChunkConfig, ChunkerSet, DefaultChunker, default_chunkers
from triptych.contracts import (
    Embedder,
    Store,
)
from triptych.contracts.defaults import Repositories
from triptych.deadlines import deadline
from triptych.errors import (
    CancelledError,
    ConflictError,
    DerivationError,
    ModelMismatchError,
    NotAvailableError,
    NotFoundError,
    ProviderError,
    StoreError,
    ValidationError,
)
from triptych.records import EmbedKind, Layer, NewDocument, Query, RebuildScope
from triptych.service import Service, ServiceOptions
from triptych.testing.fakes import CoveringEmbedder, Failing, FakeEmbedder, kept_open
from triptych.testing.fillers import FillerTests
from triptych.testing.guarantees import guarantee
from triptych.testing.harness import Harness, or_skip
from triptych.testing.past import PastTests
from triptych.testing.query_syntax import QuerySyntaxTests
from triptych.testing.sparse_service import SparseServiceTests

TEXT = "# Start\n\nCats sleep all day.\n\n## Install\n\nRun the installer twice.\n"


class Outage(FakeEmbedder):
    """A `FakeEmbedder` that can be out, for every text or for those that hold a word."""

    out: tuple[Exception, str] | None = None
    asked: Callable[[], None] | None = None  # before documents are embedded

    def fail(self, error: Exception, text: str = "") -> None:
        """Raise ``error`` from now on, whenever ``text`` is in what is to be embedded."""
        self.out = (error, text)

    def recover(self) -> None:
        """Work again."""
        self.out = None

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        if self.asked is not None and kind == "document":
            self.asked()
        if self.out is not None and any(self.out[1] in text for text in texts):
            raise self.out[0]
        return super().embed(texts, kind=kind)


def serve(
    store: Store, embedder: Embedder | None, *, chunkers: ChunkerSet | None = None
) -> Service:
    """A Service over an open store, which stays open when the Service is closed."""
    options = ServiceOptions(embedder=embedder, chunkers=chunkers or default_chunkers())
    return Service(kept_open(store), options=options)


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


class ServiceTests(QuerySyntaxTests, FillerTests, SparseServiceTests, PastTests):
    """What a Service promises, whatever it stands on."""

    @pytest.fixture
    def embedder(self) -> Outage:
        return Outage()

    @pytest.fixture
    def kb(self, store: Store, embedder: Outage) -> Iterator[Service]:
        with serve(store, embedder) as kb:
            yield kb

    # Documents in and out

    def test_what_was_put_comes_back_and_is_found(self, kb: Service) -> None:
        stored = kb.put_document("d", "a.md", TEXT, {"lang": "en"})
        assert kb.get_document("d", "a.md") == stored
        assert (stored.version, stored.content, stored.metadata) == (1, TEXT, {"lang": "en"})
        hit = kb.search("installer", dataset_id="d").hits[0]
        assert (hit.doc_name, hit.heading_path, hit.start_line) == (
            "a.md",
            ("Start", "Install"),
            5,
        )
        assert TEXT[hit.start : hit.end] == hit.content
        assert TEXT.encode()[hit.offset :].decode().startswith(hit.content)
        assert set(hit.scores) == {"bm25", "vector"}
        assert hit.stale is None
        assert hit.metadata == {"lang": "en"}

    @pytest.mark.parametrize(
        ("name", "content", "metadata", "said"),
        [
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
        ],
    )
    @guarantee(4)
    def test_what_cannot_be_stored_is_refused_by_name(
        self, kb: Service, name: str, content: str, metadata: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(ValidationError, match=said):
            kb.put_document("d", name, content, metadata)
        assert kb.list_datasets() == []

    @pytest.mark.parametrize("dataset_id", ["", " ", "a\n", "\ud800"])
    def test_a_dataset_needs_a_proper_id(self, kb: Service, dataset_id: str) -> None:
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
    def test_an_edit_embeds_only_what_changed(
        self, kb: Service, store: Store, embedder: Outage
    ) -> None:
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

    def test_a_rename_embeds_nothing(self, kb: Service, store: Store, embedder: Outage) -> None:
        kb.put_document("d", "a.md", TEXT)
        before = len(embedder.texts)
        kb.put_document("d", "b.md", TEXT)
        kb.delete_document("d", "a.md")
        assert len(embedder.texts) == before
        assert [hit.doc_name for hit in kb.search("installer", dataset_id="d").hits] == ["b.md"] * 2

    def test_moving_a_section_embeds_at_most_what_moved(
        self, kb: Service, store: Store, embedder: Outage
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
        self, kb: Service, store: Store, embedder: Outage
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

        section = "# Twice\n\nThe same copper lantern.\n\n"
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
    def test_the_same_text_is_embedded_once(
        self, kb: Service, store: Store, embedder: Outage
    ) -> None:
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
        text = "# Kept\n\nAn amber lantern.\n\n# Part\n\n{} words.\n"
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
        assert warning.startswith("1 document has no vectors yet")
        embedder.recover()
        embedded = len(embedder.texts)
        assert kb.embed_pending("d").documents == len(embedder.texts) - embedded == 1
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
            assert warning == f"3 documents have no vectors yet: they are {told}"
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
        done = kb.embed_pending("d")
        assert (done.documents, done.embedded, done.pending) == (1, 1, 0)
        assert sorted(embedder.texts) == sorted(texts.values())

    def test_embedding_later_needs_a_dataset_of_this_model(self, kb: Service) -> None:
        with pytest.raises(NotFoundError):
            kb.embed_pending("none")
        for wrong in ("soon", None, True):
            with pytest.raises(ValidationError, match="embed"):
                kb.put_document("d", "a", "text", embed=wrong)  # type: ignore[arg-type]  # refused
        assert kb.list_datasets() == []

    def test_a_rebuild_repairs_what_failed(self, kb: Service, embedder: Outage) -> None:
        embedder.fail(ProviderError("out"))
        report = kb.put_documents("d", {"a.txt": "first words", "b.txt": "second words"})
        assert [failure.name for failure in report.failed] == ["a.txt", "b.txt"]
        assert all(isinstance(failure.error, DerivationError) for failure in report.failed)
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
        errors: list[str] = []

        def work(who: int) -> None:
            for turn in range(8):
                word = f"w{who}t{turn}"
                kb.put_document("d", f"{who}.txt", f"{word} text")
                names = [h.doc_name for h in kb.search(word, dataset_id="d", mode="bm25").hits]
                if names != [f"{who}.txt"]:
                    errors.append(f"{word}: {names}")

        threads = [threading.Thread(target=work, args=(who,)) for who in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors

    # Guarantee 2: queries are judged here

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"text": ""}, "empty"),
            ({"text": " \n\t"}, "empty"),
            ({"text": "\0"}, "empty"),
            ({"text": "a\0b"}, "NUL"),
            ({"text": "\ud800"}, "lone surrogate"),
            ({"text": "x" * 200_000}, "100,000"),
            ({"text": 5}, "must be a string"),
            ({"top_k": -1}, "top_k"),
            ({"top_k": 0}, "top_k"),
            ({"top_k": 10**9}, "top_k"),
            ({"top_k": 1.5}, "top_k"),
            ({"top_k": True}, "top_k"),
            ({"threshold": float("nan")}, "threshold"),
            ({"threshold": "high"}, "threshold"),
            ({"min_scores": {"bm25": float("nan")}}, "min_scores"),
            ({"min_scores": {"cosine": 1.0}}, "the lanes are"),
            ({"mode": "fuzzy"}, "'bm25', 'vector', 'hybrid'"),
            ({"layer": "L9"}, "'L0', 'L1', 'L2'"),
            ({"scope": "some"}, "'single', 'all'"),
            ({"dataset_id": ""}, "name a dataset_id"),
            ({"scope": "all"}, "names some"),
            ({"dataset_ids": ["d"]}, "leave one of the two out"),
            ({"dataset_id": "", "dataset_ids": "d"}, "one is a dataset_id"),
            ({"dataset_id": "", "dataset_ids": [5]}, "must be a string"),
            ({"where": "lang"}, "where"),
            ({"where": {"lang": None}}, r"where\['lang'\]"),
            ({"where": {"lang": ">=5"}}, r"\$gte"),
            ({"where": {"lang": ["a", None]}}, r"where\['lang'\]"),
            ({"where": {"lang": {"$is": 5}}}, r"where\['lang'\]"),
        ],
    )
    @guarantee(2)
    def test_an_invalid_query_is_refused(
        self, kb: Service, fields: dict[str, object], said: str
    ) -> None:
        kb.put_document("d", "a", "x")
        query = Query(**{"text": "x", "dataset_id": "d", **fields})  # type: ignore[arg-type] # the point
        with pytest.raises(ValidationError, match=said):
            kb.search(query)
        if "layer" not in fields:  # which plays no role for whole documents
            with pytest.raises(ValidationError, match=said):
                kb.search_documents(query)

    @guarantee(2)
    def test_an_unknown_field_names_the_known_ones(self, kb: Service) -> None:
        with pytest.raises(ValidationError, match=r"topk.*top_k"):
            kb.search("x", dataset_id="d", topk=5)  # type: ignore[call-arg]  # on purpose

    # Search

    def test_hybrid_is_the_default_with_an_embedder_and_keyword_without(
        self, kb: Service, store: Store
    ) -> None:
        kb.put_document("d", "a.txt", "some words")
        assert set(kb.search("words", dataset_id="d").hits[0].scores) == {"bm25", "vector"}
        kb.put_document("plain", "a.txt", "x")
        with serve(store, None) as plain:
            result = plain.search("words", dataset_id="d")
            assert set(result.hits[0].scores) == {"bm25"}
            assert result.warnings == ()
            hybrid = plain.search("words", dataset_id="d", mode="hybrid")
            assert set(hybrid.hits[0].scores) == {"bm25"}
            assert "needs an embedder" in hybrid.warnings[0]
            with pytest.raises(NotAvailableError, match="needs an embedder"):
                plain.search("words", dataset_id="d", mode="vector")

    def test_a_failing_lane_is_named_in_hybrid_and_raises_alone(
        self, kb: Service, embedder: Outage
    ) -> None:
        kb.put_document("d", "a.txt", "some words")
        embedder.fail(ProviderError("the model is out"))
        result = kb.search("words", dataset_id="d")
        assert [hit.doc_name for hit in result.hits] == ["a.txt"]
        assert "the vector lane did not run: the model is out" in result.warnings[0]
        with pytest.raises(ProviderError, match="the model is out"):
            kb.search("words", dataset_id="d", mode="vector")

    def test_filters_hold_in_every_lane(self, kb: Service) -> None:
        for at in range(40):
            lang = "en" if at % 4 else "fr"
            kb.put_document(
                "d",
                f"{'x' if at % 2 else 'y'}/{at:02}.md",
                f"# H{at % 3}\n\ncommon words {at}",
                {"lang": lang},
            )
        for mode in ("bm25", "vector", "hybrid"):
            hits = kb.search(
                "common", dataset_id="d", mode=mode, where={"lang": "fr"}, top_k=50
            ).hits
            assert len(hits) == 10
            assert {hit.metadata["lang"] for hit in hits} == {"fr"}
            hits = kb.search(
                "common",
                dataset_id="d",
                mode=mode,
                where={"lang": ["fr", "en"], "doc_prefix": "x/"},
                top_k=50,
            ).hits
            assert len(hits) == 20
            hits = kb.search(
                "common", dataset_id="d", mode=mode, where={"doc_name": ["x/01.md", "none"]}
            ).hits
            assert [hit.doc_name for hit in hits] == ["x/01.md"]
            hits = kb.search(
                "common", dataset_id="d", mode=mode, where={"heading": "h1"}, top_k=50
            ).hits
            assert {hit.heading_path for hit in hits} == {("H1",)}
            assert len(hits) == 13

    def test_filters_hold_for_whole_documents(self, kb: Service, store: Store) -> None:
        or_skip(store.capabilities.document_search)
        for at in range(40):
            lang = "en" if at % 4 else "fr"
            kb.put_document("d", f"{at:02}.md", f"common words {at}", {"lang": lang})
        for mode in ("bm25", "vector", "hybrid"):
            docs = kb.search_documents(
                "common", dataset_id="d", mode=mode, where={"lang": "fr"}, top_k=50
            )
            assert len(docs.hits) == 10

    def test_thresholds_cut_after_fusion_and_min_scores_before(self, kb: Service) -> None:
        kb.put_documents("d", {f"{at}.txt": f"words {'words ' * at}" for at in range(8)})
        every = kb.search("words", dataset_id="d", top_k=20).hits
        middle = every[3].score
        kept = kb.search("words", dataset_id="d", top_k=20, threshold=middle).hits
        assert kept == tuple(hit for hit in every if hit.score >= middle)
        floor = sorted(hit.scores["bm25"] for hit in every)[4]
        hits = kb.search(
            "words", dataset_id="d", mode="bm25", top_k=20, min_scores={"bm25": floor}
        ).hits
        assert hits
        assert all(hit.scores["bm25"] >= floor for hit in hits)
        assert kb.search("words", dataset_id="d", threshold=99.0).hits == ()

    def test_exhausted_says_whether_there_is_more(self, kb: Service) -> None:
        kb.put_documents("d", {f"{at}.txt": f"words {at}" for at in range(8)})
        assert not kb.search("words", dataset_id="d", mode="bm25", top_k=5).exhausted
        assert kb.search("words", dataset_id="d", mode="bm25", top_k=9).exhausted
        assert kb.search("absent", dataset_id="d", mode="bm25").exhausted

    def test_every_dataset_or_one(self, kb: Service) -> None:
        kb.put_document("one", "a.txt", "common words")
        kb.put_document("two", "b.txt", "common words")
        assert {h.dataset_id for h in kb.search("common", scope="all").hits} == {"one", "two"}
        assert {h.dataset_id for h in kb.search("common", dataset_id="two").hits} == {"two"}

    def test_some_of_the_datasets(self, kb: Service) -> None:
        for dataset_id in ("one", "three", "two"):
            kb.put_documents(dataset_id, {"a.txt": "common words", "b.txt": "common sense"})
        everywhere = kb.search("common words", scope="all", top_k=6).hits
        for several in (("one", "two"), ("two", "one", "two"), ["three"]):
            found = kb.search("common words", dataset_ids=several, top_k=6)
            places = [(hit.dataset_id, hit.doc_name) for hit in found.hits]
            wanted = [(h.dataset_id, h.doc_name) for h in everywhere if h.dataset_id in several]
            assert sorted(places) == sorted(wanted)
        pack = kb.context("common words", 200, dataset_ids=("one", "two"))
        assert {piece.citation.dataset_id for piece in pack.pieces} <= {"one", "two"}
        with pytest.raises(NotFoundError, match="'four'"):
            kb.search("common", dataset_ids=("one", "four"))

    def test_search_many_embeds_once_and_agrees_with_search(
        self, kb: Service, embedder: Outage
    ) -> None:
        kb.put_documents("d", {f"{at}.txt": f"words {at}" for at in range(8)})
        queries = ["words", "words 3", "5"]
        single = [kb.search(query, dataset_id="d") for query in queries]
        before = embedder.calls
        assert kb.search_many(queries, dataset_id="d") == single
        assert embedder.calls == before + 1
        assert kb.search_many([]) == []

    def test_documents_are_found_whole(self, kb: Service, store: Store) -> None:
        or_skip(store.capabilities.document_search)
        long = "\n\n".join(f"## Part {at}\n\nfiller text number {at}" for at in range(60))
        kb.put_document("d", "long.md", f"# Long\n\n{long}\n\n## Last\n\nthe needle")
        kb.put_document("d", "short.txt", "something else")
        hits = kb.search_documents("needle", dataset_id="d", mode="bm25").hits
        assert [(hit.doc_name, hit.layer, hit.chunk_index) for hit in hits] == [
            ("long.md", None, -1)
        ]
        assert hits[0].content == kb.get_document("d", "long.md").content[: hits[0].end]
        assert len(kb.search_documents("needle", dataset_id="d", top_k=10).hits) == 2

    def test_a_text_outside_the_models_vocabulary_gets_no_vector(self, store: Store) -> None:
        with serve(store, CoveringEmbedder()) as kb:
            kb.put_document("d", "zh.txt", "猫在睡觉")
            kb.put_document("d", "en.txt", "cats sleep")
            assert kb.stats("d")[0].vectors == 1
            result = kb.search("猫", dataset_id="d")
            assert [hit.doc_name for hit in result.hits] == ["zh.txt"]
            assert "vocabulary covers" in result.warnings[0]
            with pytest.raises(NotAvailableError, match="vocabulary covers"):
                kb.search("猫", dataset_id="d", mode="vector")
            assert kb.rebuild().fresh == 2

    # Configurations

    def test_another_model_cannot_write_and_searches_by_keyword(
        self, kb: Service, store: Store
    ) -> None:
        kb.put_document("d", "a.txt", "some words")
        with serve(store, FakeEmbedder(signature="other/1")) as other:
            with pytest.raises(ModelMismatchError, match=r"other/1.*spaces fill"):
                other.put_document("d", "b.txt", "x")
            with pytest.raises(ModelMismatchError):
                other.put_documents("d", {"b.txt": "x"})
            with pytest.raises(ModelMismatchError):
                other.put_document_layer("d", "a.txt", "L0", "x")
            with pytest.raises(ModelMismatchError):
                other.rebuild(dataset_id="d", doc_name="a.txt")
            assert [info.name for info in other.list_documents("d")] == ["a.txt"]
            result = other.search("words", dataset_id="d")
            assert [hit.doc_name for hit in result.hits] == ["a.txt"]
            assert "another model" in result.warnings[0]
            assert result.hits[0].stale == "embedder"
            with pytest.raises(ModelMismatchError):
                other.search("words", dataset_id="d", mode="vector")
            other.put_document("mine", "c.txt", "its own dataset")
            everywhere = other.search("words dataset", scope="all")
            assert {hit.dataset_id for hit in everywhere.hits} == {"d", "mine"}
            assert "another model" in everywhere.warnings[0]

    def test_a_rebuild_of_the_dataset_takes_on_the_new_model(
        self, kb: Service, store: Store
    ) -> None:
        kb.put_documents("d", {"a.txt": "some words", "b.txt": "more words"})
        new = FakeEmbedder(signature="other/1")
        with serve(store, new) as other:
            report = other.rebuild(dataset_id="d")
            assert (report.rebuilt, report.embedded) == (2, 2)
            result = other.search("words", dataset_id="d", mode="vector")
            assert len(result.hits) == 2
            assert all(hit.stale is None for hit in result.hits)
            assert other.rebuild(dataset_id="d").fresh == 2
        with pytest.raises(ModelMismatchError):
            kb.put_document("d", "c.txt", "x")

    def test_a_rebuild_embeds_layers_again_and_leaves_their_texts(
        self, kb: Service, store: Store
    ) -> None:
        kb.put_document("d", "a.txt", "some words")
        kb.put_document_layer("d", "a.txt", "L0", "An abstract.", prompt_sig="by hand")
        kb.put_dataset_layer("d", "L0", "All of it.")
        with serve(store, FakeEmbedder(signature="other/1")) as other:
            before = other.layer("d", "a.txt", "L0")
            assert before is not None
            assert before.stale == "embedder"
            assert other.rebuild(dataset_id="d").embedded == 3
            after = other.layer("d", "a.txt", "L0")
            assert after is not None
            assert (after.content, after.sig.prompt_sig) == ("An abstract.", "by hand")
            assert after.stale is None
            hits = other.search("abstract", dataset_id="d", layer="L0", mode="vector").hits
            assert {hit.doc_name for hit in hits} == {"", "a.txt"}
            assert all(hit.stale is None for hit in hits)

    def test_another_chunker_is_reported_stale_and_taken_on_by_a_rebuild(
        self, kb: Service, store: Store, embedder: Outage
    ) -> None:
        kb.put_document("d", "a.txt", "some words")
        small = attrs.evolve(
            default_chunkers(), default=DefaultChunker(config=ChunkConfig(size=64, overlap=0))
        )
        with serve(store, embedder, chunkers=small) as other:
            assert other.search("words", dataset_id="d").hits[0].stale == "chunker"
            assert other.search("words", dataset_id="d", fresh_only=True).hits == ()
            with pytest.raises(ConflictError, match="rebuild"):
                other.put_document("d", "b.txt", "x")
            before = len(embedder.texts)
            assert other.rebuild(dataset_id="d").rebuilt == 1
            assert len(embedder.texts) == before, (
                "the chunk's text is the same: its vector is reused"
            )
            assert other.search("words", dataset_id="d").hits[0].stale is None

    def test_an_empty_dataset_takes_on_any_configuration(self, kb: Service, store: Store) -> None:
        kb.put_document("d", "a.txt", "x")
        kb.delete_document("d", "a.txt")
        with serve(store, FakeEmbedder(signature="other/1")) as other:
            assert other.put_document("d", "a.txt", "y").version == 2

    def test_a_dataset_can_be_made_empty(self, kb: Service) -> None:
        docs = kb.dataset("d")
        assert docs.create() is True
        assert docs.create(language="german") is False
        assert list(kb.list_datasets()) == ["d"]
        assert list(kb.list_documents("d")) == []
        for mode in ("bm25", "vector", "hybrid"):
            result = kb.search("x", dataset_id="d", mode=mode)
            assert (result.hits, result.exhausted) == ((), True)
            assert kb.search("x", scope="all", mode=mode).hits == ()
        assert kb.search("x", dataset_id="d", layer="L0").hits == ()
        stats = docs.stats()
        assert (stats.documents, stats.chunks, stats.stale, stats.size) == (0, 0, 0, 0)
        assert kb.health().ok
        assert kb.doctor().clean
        assert docs.rebuild().checked == 0
        assert kb.rebuild().removed == 0
        assert kb.doctor().clean
        assert list(kb.list_datasets()) == ["d"]
        docs.put("a.txt", "the houses")
        assert len(docs.search("house", mode="bm25").hits) == 1
        assert kb.create_dataset("de", language="german")
        kb.put_document("de", "a.txt", "die Häuser")
        assert len(kb.search("Hauses Haus", dataset_id="de", mode="bm25").hits) == 1
        assert kb.delete_dataset("d")
        assert docs.create() is True
        for wrong in ("", "a\n"):
            with pytest.raises(ValidationError, match="dataset_id"):
                kb.create_dataset(wrong)
        with pytest.raises(ValidationError, match="english"):
            kb.create_dataset("new", language="klingon")
        assert "new" not in kb.list_datasets()

    def test_a_dataset_has_its_own_language(self, kb: Service) -> None:
        kb.put_document("en", "a.txt", "the houses")
        kb.configure_dataset("de", language="german")
        kb.put_document("de", "a.txt", "die Häuser")
        assert len(kb.search("house", dataset_id="en", mode="bm25").hits) == 1
        assert len(kb.search("Hauses Haus", dataset_id="de", mode="bm25").hits) == 1
        kb.configure_dataset("en", language="none")
        assert not kb.search("house", dataset_id="en", mode="bm25").hits
        with pytest.raises(ValidationError, match="english"):
            kb.configure_dataset("en", language="klingon")

    # Layers

    @guarantee(3)
    def test_layers_are_stored_found_and_reported_stale(self, kb: Service) -> None:
        kb.put_document("d", "a.md", TEXT)
        made = kb.put_document_layer("d", "a.md", "L0", "About cats.", prompt_sig="p/1")
        assert kb.layer("d", "a.md", Layer.ABSTRACT) == made
        assert kb.layer("d", "a.md", "L1") is None
        for mode in ("bm25", "vector", "hybrid"):
            hit = kb.search("cats", dataset_id="d", layer="L0", mode=mode).hits[0]
            assert (hit.content, hit.layer, hit.chunk_index) == ("About cats.", Layer.ABSTRACT, -1)
            assert hit.stale is None
            assert not kb.search("cats", dataset_id="d", layer="L1", mode=mode).hits
        kb.put_document("d", "a.md", TEXT, {"only": "metadata"})
        assert kb.search("cats", dataset_id="d", layer="L0").hits[0].stale is None
        kb.put_document("d", "a.md", TEXT + "More.\n")
        assert kb.search("cats", dataset_id="d", layer="L0").hits[0].stale == "source"
        assert kb.search("cats", dataset_id="d", layer="L0", fresh_only=True).hits == ()
        layer = kb.layer("d", "a.md", "L0")
        assert layer is not None
        assert layer.stale == "source"
        kb.delete_document("d", "a.md")
        assert kb.layer("d", "a.md", "L0") is None
        assert not kb.search("cats", dataset_id="d", layer="L0").hits

    def test_a_datasets_layer_goes_stale_with_the_abstracts_below(self, kb: Service) -> None:
        kb.put_documents("d", {"a.txt": "one", "b.txt": "two"})
        kb.put_document_layer("d", "a.txt", "L0", "First.")
        kb.put_dataset_layer("d", "L1", "All of it.")
        layer = kb.dataset_layer("d", "L1")
        assert layer is not None
        assert layer.stale is None
        assert kb.search("all", dataset_id="d", layer="L1").hits[0].stale is None
        kb.put_document_layer("d", "b.txt", "L0", "Second.")
        layer = kb.dataset_layer("d", "L1")
        assert layer is not None
        assert layer.stale == "input"
        assert kb.search("all", dataset_id="d", layer="L1").hits[0].stale == "input"
        assert [(each.doc_name, each.layer) for each in kb.layers("d")] == [
            ("", "L1"),
            ("a.txt", "L0"),
            ("b.txt", "L0"),
        ]

    def test_a_layer_made_from_an_older_version_is_refused(self, kb: Service) -> None:
        kb.put_document("d", "a.txt", "one")
        kb.put_document("d", "a.txt", "two")
        with pytest.raises(ConflictError, match="version 1"):
            kb.put_document_layer("d", "a.txt", "L0", "x", source_version=1)
        with pytest.raises(ValidationError, match="L2 is the chunks"):
            kb.put_document_layer("d", "a.txt", "L2", "x")

    def test_a_layer_that_cannot_be_embedded_is_not_stored(
        self, kb: Service, embedder: Outage
    ) -> None:
        kb.put_document("d", "a.txt", "one")
        embedder.fail(ProviderError("out"))
        with pytest.raises(DerivationError) as caught:
            kb.put_document_layer("d", "a.txt", "L0", "An abstract.")
        assert caught.value.partial == "An abstract."
        assert kb.layer("d", "a.txt", "L0") is None

    # Deletes

    @guarantee(6)
    def test_a_delete_takes_everything_and_may_be_repeated(
        self, kb: Service, harness: Harness, store: Store
    ) -> None:
        kb.put_document("d", "a.md", TEXT)
        kb.put_document_layer("d", "a.md", "L0", "About cats.")
        assert kb.delete_document("d", "a.md")
        assert not kb.delete_document("d", "a.md")
        for layer in ("L0", "L2"):
            assert not kb.search("cats", dataset_id="d", layer=layer).hits
        if store.capabilities.document_search:
            assert not kb.search_documents("cats", dataset_id="d").hits
        if harness.raw is not None:
            left = harness.raw(store, "d")
            assert (left.content, left.chunks, left.vectors, left.layers) == ({}, 0, 0, 0)
        assert kb.delete_dataset("d")
        assert not kb.delete_dataset("d")
        assert kb.list_datasets() == []

    @guarantee(6)
    def test_purging_deletes_too(self, kb: Service) -> None:
        kb.put_documents("d", {"a.txt": "one words", "b.txt": "two words"})
        receipt = kb.purge("d", "a.txt")
        assert (receipt.existed, receipt.documents, receipt.chunks) == (True, 1, 1)
        assert receipt.beyond
        assert [hit.doc_name for hit in kb.search("words", dataset_id="d").hits] == ["b.txt"]
        assert kb.purge("d")
        assert kb.list_datasets() == []
        assert kb.put_document("d", "a.txt", "again").version > 1

    def test_a_delete_that_fails_leaves_everything(self, store: Store, embedder: Outage) -> None:
        documents = Failing(store.documents, {"delete": StoreError("the disk is full")})
        kb = Service(
            Repositories.over(store, documents=documents),
            options=ServiceOptions(embedder=embedder),
        )
        with kb:
            kb.put_document("d", "a.txt", "one fish")
            kb.put_document_layer("d", "a.txt", "L0", "About a fish.")
            with pytest.raises(StoreError, match="the disk is full"):
                kb.delete_document("d", "a.txt")
            assert len(kb.search("fish", dataset_id="d").hits) == 1
            assert kb.layer("d", "a.txt", "L0") is not None
            documents.errors.clear()
            assert kb.delete_document("d", "a.txt")

    def test_a_delete_can_name_the_version(self, kb: Service) -> None:
        kb.put_document("d", "a.txt", "one")
        kb.put_document("d", "a.txt", "two")
        with pytest.raises(ConflictError) as caught:
            kb.delete_document("d", "a.txt", if_version=1)
        assert (caught.value.expected, caught.value.actual) == (1, 2)
        assert len(kb.search("two", dataset_id="d").hits) == 1
        assert kb.dataset("d").delete("a.txt", if_version=2)
        with pytest.raises(ValidationError, match="if_version"):
            kb.delete_document("d", "a.txt", if_version=-1)

    # Views, counts, closing

    def test_a_dataset_view_fills_in_its_id(self, kb: Service, store: Store) -> None:
        docs = kb.dataset("d")
        docs.put("a.md", TEXT)
        docs.put_many({"b.txt": "two"})
        assert docs.get("a.md").dataset_id == "d"
        assert [info.name for info in docs.list()] == ["a.md", "b.txt"]
        assert docs.search("cats").hits == kb.search("cats", dataset_id="d").hits
        if store.capabilities.document_search:
            assert docs.search_documents("cats").hits
        assert docs.search_many(["cats"])[0].hits
        docs.put_layer("a.md", "L0", "About cats.")
        docs.put_dataset_layer("L0", "Cats.")
        assert docs.layer("a.md", "L0") is not None
        assert docs.dataset_layer("L0") is not None
        assert len(docs.layers()) == 2
        assert docs.rebuild().checked == 2
        assert docs.rebuild("a.md").checked == 1
        stats = docs.stats()
        assert (stats.documents, stats.chunks, stats.vectors, stats.layers, stats.stale) == (
            2,
            3,
            3,
            2,
            0,
        )
        assert stats.size == len(TEXT) + 3
        (space,) = stats.spaces
        embedder = kb.options.embedder
        assert embedder is not None
        assert (space.embed_sig, space.vectors) == (embedder.signature, 3)
        assert space.dimension == embedder.dimension
        assert docs.delete("a.md")
        assert docs.purge("b.txt")

    def test_pages_of_documents(self, kb: Service) -> None:
        kb.put_documents("d", {f"{folder}/{at}.txt": "x" for folder in "ab" for at in range(5)})
        page = kb.list_documents("d", prefix="b/", limit=3)
        assert [info.name for info in page] == ["b/0.txt", "b/1.txt", "b/2.txt"]
        rest = kb.list_documents("d", prefix="b/", after=page[-1].name, limit=3)
        assert [info.name for info in rest] == ["b/3.txt", "b/4.txt"]
        with pytest.raises(ValidationError, match="limit"):
            kb.list_documents("d", limit=-1)

    def test_a_closed_knowledge_base_says_so(self, store: Store) -> None:
        kb = serve(store, None)
        kb.close()
        kb.close()
        with pytest.raises(StoreError, match="closed"):
            kb.list_datasets()
