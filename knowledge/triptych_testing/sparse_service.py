"""Tests of the sparse lane of a Service over any backend."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from triptych.contracts import Store
from triptych.errors import (
    DerivationError,
    ModelMismatchError,
    NotAvailableError,
    ProviderError,
    ValidationError,
)
from triptych.records import DatasetStats, Mode
from triptych.service import Service
from triptych_testing.builders import SPARSE, sparse_of
from triptych_testing.fakes import FakeEmbedder, FakeSparseEncoder
from triptych_testing.harness import HarnessTests, keeps_or_skip
from triptych_testing.work import serve

PARTS = (
    "The kettle whistles when the water boils. " * 12,
    "The owl sleeps by day, and hunts at night. " * 12,
    "Reefs are built by corals, slowly. " * 12,
)
TEXT = "\n\n".join(PARTS)


def stats_of(kb: Service) -> DatasetStats:
    """The statistics of the dataset "d"."""
    (found,) = kb.stats("d")
    return found


class SparseServiceTests(HarnessTests):
    """The lane "sparse": filled by puts and rebuilds, searched alone and with the others."""

    @pytest.fixture
    def sparse_store(self, store: Store) -> Store:
        keeps_or_skip(store.chunks, "sparse")
        return store

    @pytest.fixture
    def encoder(self) -> FakeSparseEncoder:
        return FakeSparseEncoder()

    @pytest.fixture
    def sparse(self, sparse_store: Store, encoder: FakeSparseEncoder) -> Iterator[Service]:
        with serve(sparse_store, FakeEmbedder(), encoder=encoder) as kb:
            yield kb

    @pytest.fixture
    def plain(self, sparse_store: Store, encoder: FakeSparseEncoder) -> Iterator[Service]:
        """Without an embedder."""
        with serve(sparse_store, None, encoder=encoder) as kb:
            yield kb

    def test_encoder_over_a_store_that_keeps_no_sparse_vectors_is_refused(
        self, store: Store, encoder: FakeSparseEncoder
    ) -> None:
        if "sparse" in store.chunks.kinds:
            pytest.skip("the store keeps them")
        with pytest.raises(NotAvailableError, match="keeps no sparse vectors"):
            serve(store, None, encoder=encoder)
        assert encoder.calls == 0
        with serve(store, None) as kb, pytest.raises(ValidationError, match="no mode 'sparse'"):
            kb.search("owl", dataset_id="d", mode="sparse")

    def test_what_is_put_is_found_by_the_sparse_lane(self, sparse: Service) -> None:
        sparse.put_document("d", "a.md", TEXT)
        assert sparse.lanes == ("bm25", "vector", "sparse")
        result = sparse.search("owl sleeps", dataset_id="d", mode="sparse")
        assert result.warnings == ()
        best = result.hits[0]
        assert "owl" in best.content
        score = sparse_of(best.content).dot(sparse_of("owl sleeps"))
        assert best.scores == {"sparse": pytest.approx(score, abs=1e-6)}
        fused = sparse.search("owl sleeps", dataset_id="d")
        assert fused.warnings == ()
        assert set(fused.hits[0].scores) == {"bm25", "vector", "sparse"}
        assert "owl" in fused.hits[0].content
        floor = {"sparse": score - 1e-3}
        kept = sparse.search("owl sleeps", dataset_id="d", mode="sparse", min_scores=floor)
        assert [hit.chunk_index for hit in kept.hits] == [best.chunk_index]
        assert stats_of(sparse).further_pending == 0
        assert stats_of(sparse).further_spaces[0].sig == SPARSE

    def test_without_an_embedder_keywords_and_sparse_vectors_are_fused(
        self, plain: Service
    ) -> None:
        plain.put_document("d", "a.md", TEXT)
        result = plain.search("owl sleeps", dataset_id="d")
        assert result.warnings == ()
        assert set(result.hits[0].scores) == {"bm25", "sparse"}
        asked = plain.search("owl sleeps", dataset_id="d", mode="hybrid")
        assert ["vector lane did not run" in each for each in asked.warnings] == [True]
        assert [hit.scores for hit in asked.hits] == [hit.scores for hit in result.hits]

    def test_unchanged_text_is_never_encoded_twice(
        self, plain: Service, encoder: FakeSparseEncoder
    ) -> None:
        plain.put_document("d", "a.md", TEXT)
        chunks = len(encoder.texts)
        assert chunks >= 3
        plain.put_document("d", "a.md", TEXT)
        plain.put_document("d", "b.md", TEXT)
        plain.put_document("d", "a.md", TEXT, {"lang": "en"})
        assert plain.rebuild(dataset_id="d").encoded == 0
        assert len(encoder.texts) == chunks
        edited = "\n\n".join([*PARTS[:2], "Nothing is as old as a shark. " * 15])
        plain.put_document("d", "a.md", edited)
        assert 0 < len(encoder.texts) - chunks < chunks
        assert len(set(encoder.texts)) == len(encoder.texts)
        assert stats_of(plain).further_pending == 0
        hit = plain.search("shark", dataset_id="d", mode="sparse").hits[0]
        assert (hit.doc_name, hit.stale) == ("a.md", None)

    def test_many_documents_are_encoded_once_each(
        self, sparse: Service, encoder: FakeSparseEncoder
    ) -> None:
        contents = {f"{number}.md": f"Note {number} of many." for number in range(40)}
        report = sparse.put_documents("d", {**contents, "70.md": contents["7.md"]})
        assert (report.added, report.encoded, report.pending) == (41, 40, 0)
        assert sorted(encoder.texts) == sorted(contents.values())
        found = sparse.search("note 7", dataset_id="d", mode="sparse", top_k=2)
        assert [hit.doc_name for hit in found.hits] == ["7.md", "70.md"]

    def test_encoder_that_fails_leaves_the_document_to_the_other_lanes(
        self, sparse: Service, encoder: FakeSparseEncoder
    ) -> None:
        encoder.failures = dict.fromkeys((1, 2), ProviderError("the model is out"))
        with pytest.raises(DerivationError, match="the model is out") as caught:
            sparse.put_document("d", "a.md", "The owl sleeps.")
        assert caught.value.document is not None
        found = sparse.search("owl", dataset_id="d")
        assert set(found.hits[0].scores) == {"bm25", "vector"}
        assert found.hits[0].stale is None
        (warning,) = found.warnings
        assert "1 document lacks sparse vectors" in warning
        assert sparse.search("owl", dataset_id="d", mode="bm25").warnings == ()
        assert sparse.search("owl", dataset_id="d", mode="vector").warnings == ()
        assert stats_of(sparse).further_pending == 1
        assert (stats_of(sparse).pending, stats_of(sparse).stale) == (0, 0)
        report = sparse.embed_pending("d")
        assert (report.documents, report.embedded, report.encoded) == (1, 0, 1)
        assert sparse.search("owl", dataset_id="d").warnings == ()
        assert sparse.search("owl", dataset_id="d", mode="sparse").hits

    def test_one_document_that_cannot_be_encoded_holds_up_no_other(
        self, sparse_store: Store
    ) -> None:
        class Refusing(FakeSparseEncoder):
            def encode(self, texts, *, kind):  # type: ignore[no-untyped-def]  # as the fake's
                if any("reef" in text for text in texts):
                    raise ProviderError("no reefs")
                return super().encode(texts, kind=kind)

        with serve(sparse_store, None, encoder=Refusing()) as kb:
            report = kb.put_documents("d", {"a": "an owl", "b": "a reef", "c": "a kettle"})
            assert [failure.name for failure in report.failed] == ["b"]
            assert (report.encoded, report.pending) == (2, 1)
            assert kb.search("reef", dataset_id="d", mode="bm25").hits
            rebuilt = kb.rebuild(dataset_id="d")
            assert [failure.name for failure in rebuilt.failed] == ["b"]
            assert (rebuilt.checked, rebuilt.fresh, rebuilt.rebuilt) == (3, 2, 0)

    def test_what_is_put_for_later_is_encoded_later(
        self, sparse: Service, encoder: FakeSparseEncoder
    ) -> None:
        sparse.put_document("d", "a.md", "The owl sleeps.", embed="later")
        report = sparse.put_documents("d", {"b.md": "An owl."}, embed="later")
        assert (encoder.calls, report.pending, stats_of(sparse).further_pending) == (0, 1, 2)
        past = datetime.now(UTC) - timedelta(seconds=1)
        sparse.put_document("d", "gone.md", "No owl.", embed="later", expires_at=past)
        assert stats_of(sparse).further_pending == 2
        done = sparse.embed_pending("d", doc_names=["b.md"])
        assert (done.documents, done.embedded, done.encoded) == (1, 1, 1)
        assert encoder.texts == ["An owl."]
        done = sparse.embed_pending()
        assert (done.documents, done.encoded, done.pending) == (1, 1, 0)
        assert sparse.embed_pending("d").encoded == 0

    def test_dataset_made_without_an_encoder_takes_one_on(
        self, sparse_store: Store, encoder: FakeSparseEncoder
    ) -> None:
        with serve(sparse_store, None) as kb:
            kb.put_document("d", "a.md", "The owl sleeps.")
            with pytest.raises(ValidationError, match="no mode 'sparse'"):
                kb.search("owl", dataset_id="d", mode="sparse")
        with serve(sparse_store, None, encoder=encoder) as kb:
            with pytest.raises(NotAvailableError, match="triptych embed"):
                kb.search("owl", dataset_id="d", mode="sparse")
            result = kb.search("owl", dataset_id="d")
            assert [hit.scores.keys() for hit in result.hits] == [{"bm25"}]
            assert any("no sparse vectors yet" in each for each in result.warnings)
            kb.put_document("d", "b.md", "A kettle.")
            assert encoder.texts == ["A kettle."]
            (warning,) = kb.search("owl", dataset_id="d").warnings
            assert "1 document lacks sparse vectors" in warning
            assert stats_of(kb).further_pending == 1
            assert kb.rebuild(dataset_id="d").encoded == 1
            assert kb.search("owl", dataset_id="d", mode="sparse").hits

    def test_another_encoder_is_told_until_a_rebuild(
        self, sparse_store: Store, encoder: FakeSparseEncoder
    ) -> None:
        with serve(sparse_store, FakeEmbedder(), encoder=encoder) as kb:
            kb.put_documents("d", {"a.md": "The owl sleeps.", "b.md": "A kettle."})
        other = FakeSparseEncoder("sparse/2")
        with serve(sparse_store, FakeEmbedder(), encoder=other) as kb:
            with pytest.raises(ModelMismatchError, match="sparse vectors of 'sparse/1'"):
                kb.put_document("d", "c.md", "A reef.")
            with pytest.raises(ModelMismatchError, match="sparse vectors"):
                kb.embed_pending("d")
            with pytest.raises(ModelMismatchError, match="another model"):
                kb.search("owl", dataset_id="d", mode="sparse")
            result = kb.search("owl", dataset_id="d")
            assert set(result.hits[0].scores) == {"bm25", "vector"}
            assert ["by the other lanes only" in each for each in result.warnings] == [True]
            report = kb.rebuild(dataset_id="d")
            assert (report.encoded, report.embedded, report.rebuilt, report.fresh) == (2, 0, 0, 2)
            assert kb.search("owl", dataset_id="d").warnings == ()
            spaces = stats_of(kb).further_spaces
            assert [(each.sig, each.vectors) for each in spaces] == [("sparse/2", 2)]

    def test_service_without_an_encoder_leaves_sparse_vectors_as_they_are(
        self, sparse_store: Store, encoder: FakeSparseEncoder
    ) -> None:
        with serve(sparse_store, None, encoder=encoder) as kb:
            kb.put_documents("d", {"a.md": "The owl sleeps.", "b.md": "A kettle."})
        with serve(sparse_store, None) as kb:
            assert kb.lanes == ("bm25", "vector")
            kb.put_document("d", "b.md", "A reef.")
            assert kb.rebuild(dataset_id="d").failed == ()
            assert kb.search("reef", dataset_id="d").warnings == ()
            stats = stats_of(kb)
            assert (stats.further_pending, stats.further_spaces[0].vectors) == (1, 1)
        with serve(sparse_store, None, encoder=encoder) as kb:
            assert kb.search("owl", dataset_id="d", mode="sparse").hits
            (warning,) = kb.search("reef", dataset_id="d", mode="sparse").warnings
            assert "1 document lacks sparse vectors" in warning
            assert kb.embed_pending("d").encoded == 1
            assert kb.search("reef", dataset_id="d", mode="sparse").hits

    def test_whole_documents_have_a_sparse_lane_and_layers_have_none(self, sparse: Service) -> None:
        sparse.put_documents("d", {"a.md": TEXT, "b.md": "The owl sleeps."})
        sparse.put_document_layer("d", "a.md", "L0", "Of owls.")
        if sparse.capabilities.document_search is not None:
            found = sparse.search_documents("owl sleeps", dataset_id="d", mode="sparse").hits
            assert {hit.doc_name for hit in found} == {"a.md", "b.md"}
            assert all(set(hit.scores) == {"sparse"} for hit in found)
            assert all(hit.layer is None for hit in found)
            both = sparse.search_documents("owl sleeps", dataset_id="d").hits[0]
            assert "sparse" in both.scores
        with pytest.raises(NotAvailableError, match="layers have no sparse vectors"):
            sparse.search("owls", dataset_id="d", layer="L0", mode="sparse")
        for result in (
            sparse.search("owls", dataset_id="d", layer="L0"),
            *sparse.search_many(["owls"], dataset_id="d", layer="L0"),
        ):
            assert result.hits
            assert [each for each in result.warnings if "layers have no sparse" in each]
        warnings = sparse.context("owls", 500, dataset_id="d").warnings
        assert not [each for each in warnings if "sparse" in each]

    def test_filters_and_pages_act_in_the_sparse_lane(self, plain: Service) -> None:
        for number in range(12):
            plain.put_document("d", f"{number:02}.md", f"Owl {number}.", {"n": number})
        where = {"n": {"$gte": 8}}
        found = plain.search("owl", dataset_id="d", mode="sparse", where=where, top_k=3)
        assert [hit.doc_name for hit in found.hits] == ["08.md", "09.md", "10.md"]
        rest = plain.search("owl", dataset_id="d", mode="sparse", where=where, top_k=3, offset=3)
        assert [hit.doc_name for hit in rest.hits] == ["11.md"]
        phrase = plain.search('owl "Owl 3"', dataset_id="d", mode="sparse", syntax=True)
        assert [hit.doc_name for hit in phrase.hits] == ["03.md"]
        fresh = plain.search("owl", dataset_id="d", mode="sparse", fresh_only=True, top_k=20)
        assert len(fresh.hits) == 12
        everywhere = plain.search("owl", scope="all", mode="sparse", top_k=20)
        assert len(everywhere.hits) == 12
        assert everywhere.hits[0].scores.keys() == {"sparse"}

    def test_what_is_purged_is_gone_from_the_sparse_lane(
        self, sparse_store: Store, encoder: FakeSparseEncoder
    ) -> None:
        with serve(sparse_store, None, encoder=encoder) as kb:
            kb.put_documents("d", {"a.md": "The owl sleeps.", "b.md": "A kettle."})
            assert kb.purge("d", "a.md")
            assert kb.search("owl", dataset_id="d", mode="sparse").hits == ()
            assert [each.vectors for each in sparse_store.chunks.further_spaces("d")] == [1]
            assert kb.purge("d")
            assert list(sparse_store.chunks.further_spaces("d")) == []
            kb.put_document("d", "a.md", "The owl sleeps.")
            assert encoder.texts.count("The owl sleeps.") == 2

    def test_mode_of_a_lane_is_no_member_of_the_enumeration(self, plain: Service) -> None:
        """`Mode` stays what it was: the sparse lane is one of those that have their own name."""
        assert "sparse" not in set(Mode)
        plain.put_document("d", "a.md", "The owl sleeps.")
        assert plain.search("owl", dataset_id="d", mode="sparse").hits[0].score > 0
