"""Tests of searches of a Service over a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from triptych.chunking import ChunkConfig, DefaultChunker, default_chunkers
from triptych.contracts import Store
from triptych.contracts.defaults import Repositories
from triptych.errors import (
    ConflictError,
    DerivationError,
    ModelMismatchError,
    NotAvailableError,
    NotFoundError,
    ProviderError,
    StoreError,
    ValidationError,
)
from triptych.records import EmbedKind, Hit, Layer, Query
from triptych.service import Service, ServiceOptions
from triptych_testing.fakes import CoveringEmbedder, Failing, FakeEmbedder
from triptych_testing.harness import (
    Harness,
    HarnessTests,
    check_contents,
    failures,
    guarantee,
    or_skip,
    there,
)
from triptych_testing.work import serve

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


_INVALID: list[tuple[dict[str, Any], str]] = [
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
]
"""Fields that no query may have, and what the refusal says."""


class ServiceSearchTests(HarnessTests):
    """Searches, configurations, layers, deletes and views."""

    @pytest.fixture
    def embedder(self) -> Outage:
        return Outage()

    @pytest.fixture
    def kb(self, store: Store, embedder: Outage) -> Iterator[Service]:
        with serve(store, embedder) as kb:
            yield kb

    # Guarantee 2: queries are judged here

    def test_a_near_word_is_named_where_no_document_holds_the_word(self, kb: Service) -> None:
        kb.put_documents("d", {"a.txt": "The scheduler sleeps.", "b.txt": "A kettle."})
        or_skip(kb.capabilities.document_search)
        found = kb.search("schedular", dataset_id="d", mode="bm25")
        assert found.warnings == ("no document holds 'schedular'; did you mean 'scheduler'?",)

    @guarantee(2)
    def test_an_invalid_query_is_refused(self, kb: Service) -> None:
        kb.put_document("d", "a", "x")

        def is_refused(row: tuple[dict[str, Any], str]) -> None:
            fields, said = row
            query = Query(**{"text": "x", "dataset_id": "d", **fields})
            with pytest.raises(ValidationError, match=said):
                kb.search(query)
            if "layer" not in fields:  # which plays no role for whole documents
                with pytest.raises(ValidationError, match=said):
                    kb.search_documents(query)

        assert failures(_INVALID, is_refused) == []

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
            name, text = f"{'x' if at % 2 else 'y'}/{at:02}.md", f"# H{at % 3}\n\ncommon words {at}"
            kb.put_document("d", name, text, {"lang": lang})
        for mode in ("bm25", "vector", "hybrid"):

            def hits(mode: str = mode, **where: Any) -> Sequence[Hit]:
                return kb.search("common", dataset_id="d", mode=mode, where=where, top_k=50).hits

            assert len(hits(lang="fr")) == 10
            assert {hit.metadata["lang"] for hit in hits(lang="fr")} == {"fr"}
            assert len(hits(lang=["fr", "en"], doc_prefix="x/")) == 20
            assert [hit.doc_name for hit in hits(doc_name=["x/01.md", "none"])] == ["x/01.md"]
            assert {hit.heading_path for hit in hits(heading="h1")} == {("H1",)}
            assert len(hits(heading="h1")) == 13

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
            with pytest.raises(ModelMismatchError, match=r"other/1.*copy --sources"):
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
            assert there(other.layer("d", "a.txt", "L0")).stale == "embedder"
            assert other.rebuild(dataset_id="d").embedded == 3
            after = there(other.layer("d", "a.txt", "L0"))
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
        assert there(kb.layer("d", "a.md", "L0")).stale == "source"
        kb.delete_document("d", "a.md")
        assert kb.layer("d", "a.md", "L0") is None
        assert not kb.search("cats", dataset_id="d", layer="L0").hits

    def test_a_datasets_layer_goes_stale_with_the_abstracts_below(self, kb: Service) -> None:
        kb.put_documents("d", {"a.txt": "one", "b.txt": "two"})
        kb.put_document_layer("d", "a.txt", "L0", "First.")
        kb.put_dataset_layer("d", "L1", "All of it.")
        layer = there(kb.dataset_layer("d", "L1"))
        assert layer.stale is None
        assert kb.search("all", dataset_id="d", layer="L1").hits[0].stale is None
        kb.put_document_layer("d", "b.txt", "L0", "Second.")
        layer = there(kb.dataset_layer("d", "L1"))
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
        check_contents(harness, store, content={}, chunks=0, vectors=0, layers=0)
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
            Repositories.over(store, documents=documents), options=ServiceOptions(embedder=embedder)
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
        embedder = there(kb.options.embedder)
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
