"""Steps against hits that say the same: MMR, near-duplicates, at most so many of a document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from triptych import Hit, ModelMismatchError, NotAvailableError, Query, Service, ValidationError
from triptych.records import (
    DerivedChunk,
    DerivedSig,
    Layer,
    Mode,
    NewDocument,
    ResolvedQuery,
    Vector,
)
from triptych.search import MMR, NearDuplicates, Neighbours, Parents, PerDocument

SAME = "The kettle whistles when the water in it boils, and the tea is near."


@attrs.define
class Given:
    """A reader that knows the vectors, and collects warnings."""

    rows: Sequence[Vector | None]
    warnings: list[str] = attrs.field(factory=list)

    def vectors(self, hits: Sequence[Hit]) -> Sequence[Vector | None]:
        return [self.rows[hit.chunk_index] for hit in hits]

    def windows(self, hits: Sequence[Hit]) -> Sequence[str | None]:
        raise AssertionError

    def source(self, hit: Hit) -> str | None:
        raise AssertionError

    def neighbours(self, hit: Hit, before: int, after: int) -> Sequence[DerivedChunk]:
        raise AssertionError

    def section(self, hit: Hit) -> Sequence[DerivedChunk]:
        raise AssertionError

    def warn(self, message: str) -> None:
        self.warnings.append(message)


def resolved(top_k: int = 10) -> ResolvedQuery:
    return ResolvedQuery(
        text="q", dataset_ids=("d",), mode=Mode.BM25, layer=Layer.DETAIL, top_k=top_k, limit=30
    )


def hits_of(scores: Sequence[float], layer: Layer = Layer.DETAIL) -> list[Hit]:
    return [
        Hit(
            dataset_id="d",
            doc_name="a",
            layer=layer,
            content=f"text {at}",
            score=score,
            chunk_index=at,
            sig=DerivedSig(source_version=1),
        )
        for at, score in enumerate(scores)
    ]


def unit(*values: float) -> Vector:
    row = np.array(values, dtype=np.float32)
    length: Vector = row / np.linalg.norm(row)
    return length


def places(hits: Sequence[Hit]) -> list[int]:
    return [hit.chunk_index for hit in hits]


def by_definition(
    scores: Sequence[float], rows: Sequence[Vector], lambda_: float
) -> list[tuple[int, float]]:
    """The formula, written down once more."""
    low, high = min(scores), max(scores)
    relevance = [1.0 if high == low else (score - low) / (high - low) for score in scores]
    chosen: list[tuple[int, float]] = []
    left = list(range(len(scores)))
    while left:
        values = {}
        for at in left:
            cosines = [
                float(rows[at].astype(float) @ rows[other].astype(float)) for other, _ in chosen
            ]
            values[at] = round(lambda_ * relevance[at] - (1 - lambda_) * max([0.0, *cosines]), 9)
        best = max(left, key=lambda at: (values[at], -at))
        chosen.append((best, values[best]))
        left.remove(best)
    return chosen


def test_mmr_prefers_what_is_new() -> None:
    rows = [unit(1, 0, 0), unit(1, 0.01, 0), unit(0, 1, 0)]
    hits = hits_of([1.0, 0.9, 0.5])
    found = MMR(0.5)(resolved(), hits, Given(rows))
    assert places(found) == [0, 2, 1]
    assert found[0].scores == {"fused": 1.0, "mmr": 0.5}
    assert found[0].score == 0.5
    assert places(MMR(1)(resolved(), hits, Given(rows))) == [0, 1, 2]
    assert places(MMR(0)(resolved(), hits, Given(rows))) == [0, 2, 1]


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data(), lambda_=st.floats(0, 1))
@pytest.mark.property
def test_mmr_is_its_formula(data: st.DataObject, lambda_: float) -> None:
    count = data.draw(st.integers(1, 9))
    scores = sorted(
        data.draw(st.lists(st.floats(-5, 5), min_size=count, max_size=count)), reverse=True
    )
    vectors = data.draw(
        st.lists(
            st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=count, max_size=count
        )
    )
    rows = [unit(*vector) if any(vector) else unit(1, 1, 1) for vector in vectors]
    found = MMR(lambda_)(resolved(), hits_of(scores), Given(rows))
    expected = by_definition(scores, rows, lambda_)
    assert [hit.score for hit in found] == pytest.approx([value for _, value in expected], abs=1e-6)
    assert sorted(places(found)) == list(range(count))
    values = [hit.score for hit in found]
    assert values == sorted(values, reverse=True)


def test_a_chunk_without_a_vector_counts_as_new_and_is_reported() -> None:
    reader = Given([unit(1, 0), unit(1, 0), None])
    found = MMR(0.5)(resolved(), hits_of([1.0, 0.9, 0.5]), reader)
    assert places(found) == [0, 2, 1]
    assert reader.warnings == ["the MMR: 1 hit has no vector, and counts as unlike all others"]


def test_layers_stay_as_they_are() -> None:
    layers = hits_of([1.0, 0.9], layer=Layer.ABSTRACT)
    reader = Given([])
    assert MMR(0.1)(resolved(), layers, reader) == layers
    assert NearDuplicates(by="vector")(resolved(), layers, reader) == layers
    assert MMR(0.1)(resolved(), [], reader) == []


def topics() -> dict[str, str]:
    copies = {f"kettle{n}.md": f"{SAME} Note {n}." for n in range(8)}
    return {
        **copies,
        "teapot.md": "A teapot of porcelain keeps the tea in it warm, and the water too.",
        "leaf.md": "Leaves of tea want water that has rested for a minute.",
    }


@pytest.fixture(params=["memory://", "kb.db"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param if request.param == "memory://" else str(tmp_path / request.param)


def opened(url: str, *steps: object, embedder: str | None = "hash") -> Service:
    kb = triptych.open(url, embedder=embedder, postprocessors=steps)  # type: ignore[arg-type]
    unnamed = {"title": " "}  # else the copies differ by the words of their names
    kb.put_documents(
        "d",
        [NewDocument(name=each, content=text, metadata=unnamed) for each, text in topics().items()],
    )
    return kb


def names(hits: Sequence[Hit]) -> list[str]:
    return [hit.doc_name for hit in hits]


def test_mmr_surfaces_other_topics_of_a_corpus_of_near_duplicates(url: str) -> None:
    with opened(url) as kb:
        plain = kb.search("when the water boils for tea", dataset_id="d", top_k=3).hits
        assert all(name.startswith("kettle") for name in names(plain))
    with opened(url, MMR(0.3)) as kb:
        found = kb.search("when the water boils for tea", dataset_id="d", top_k=3)
        assert sum(name.startswith("kettle") for name in names(found.hits)) == 1
        assert found.warnings == ()
        for mode in ("bm25", "vector"):
            diverse = kb.search("tea water", dataset_id="d", top_k=3, mode=mode).hits
            assert sum(name.startswith("kettle") for name in names(diverse)) == 1
        kb.context("tea", 200, dataset_id="d")


def test_mmr_without_vectors_is_an_error(url: str) -> None:
    with (
        opened(url, MMR(), embedder=None) as kb,
        pytest.raises(NotAvailableError, match="triptych embed"),
    ):
        kb.search("tea", dataset_id="d")


def test_vectors_of_two_models_are_not_compared(tmp_path: Path) -> None:
    from triptych_testing.fakes import FakeEmbedder

    where = str(tmp_path / "kb.db")
    with triptych.open(where, embedder=FakeEmbedder()) as kb:
        kb.put_document("other", "a.md", "tea")
    with triptych.open(where, embedder="hash", postprocessors=[MMR()]) as kb:
        kb.put_document("d", "a.md", "tea")
        with pytest.raises(ModelMismatchError, match="several models"):
            kb.search("tea", scope="all", mode="bm25")
        assert len(kb.search("tea", dataset_id="d")) == 1


def test_a_service_without_an_embedder_compares_stored_vectors(tmp_path: Path) -> None:
    opened(str(tmp_path / "kb.db")).close()
    where = str(tmp_path / "kb.db")
    with triptych.open(where, embedder=None, postprocessors=[MMR(0.3)]) as kb:
        found = kb.search("tea water", dataset_id="d", top_k=3).hits
        assert sum(name.startswith("kettle") for name in names(found)) == 1


@pytest.mark.parametrize("by", ["text", "vector"])
def test_near_duplicates_are_left_out(url: str, by: str) -> None:
    threshold = None if by == "text" else 0.8
    with opened(url, NearDuplicates(threshold, by=by)) as kb:  # type: ignore[arg-type]
        found = names(kb.search("tea water", dataset_id="d").hits)
        assert len(found) == 3
        assert sum(name.startswith("kettle") for name in found) == 1
        best = kb.search("tea water", dataset_id="d", top_k=1).hits
        assert names(best) == found[:1]


def test_near_duplicates_by_text_need_no_vectors() -> None:
    with opened("memory://", NearDuplicates(), embedder=None) as kb:
        assert len(kb.search("tea water", dataset_id="d").hits) == 3
    with (
        opened("memory://", NearDuplicates(by="vector"), embedder=None) as kb,
        pytest.raises(NotAvailableError),
    ):
        kb.search("tea water", dataset_id="d")


def test_the_threshold_is_a_resemblance_of_shingles() -> None:
    # 10 words are 6 shingles; of another last word 5 are shared, of 7 in all.
    first = "one two three four five six seven eight nine ten"
    hits = [
        attrs.evolve(hit, content=text)
        for hit, text in zip(hits_of([2.0, 1.0]), (first, first.replace("ten", "x")), strict=True)
    ]
    assert len(NearDuplicates(5 / 7)(resolved(), hits, Given([]))) == 1
    assert len(NearDuplicates(5 / 7 + 1e-9)(resolved(), hits, Given([]))) == 2


def test_at_most_so_many_of_each_document() -> None:
    with triptych.open("memory://", embedder=None, postprocessors=[PerDocument(2)]) as kb:
        kb.put_document("d", "long.md", "\n\n".join(f"# Part {n}\n\ntea {n}" for n in range(60)))
        kb.put_document("d", "short.md", "# Short\n\ntea and more words than the others have")
        found = kb.search("tea", dataset_id="d").hits
        assert names(found).count("long.md") <= 2


def test_steps_combine_in_any_order() -> None:
    steps = [MMR(0.7), NearDuplicates(), PerDocument(1), Neighbours(), Parents()]
    for turn in range(len(steps)):
        for order in (steps[turn:] + steps[:turn], steps[turn::-1] + steps[:turn:-1]):
            with opened("memory://", *order) as kb:
                found = kb.search_many([Query(text="tea water", dataset_id="d", top_k=3)])[0]
                assert sum(name.startswith("kettle") for name in names(found.hits)) == 1
                assert found.warnings == ()


def test_arguments_that_make_no_sense_are_refused() -> None:
    for lambda_ in (-0.1, 1.5, True, float("nan")):
        with pytest.raises(ValidationError, match="lambda_"):
            MMR(lambda_)
    for threshold in (0, -1, 1.1):
        with pytest.raises(ValidationError, match="threshold"):
            NearDuplicates(threshold)
    with pytest.raises(ValidationError, match="by is"):
        NearDuplicates(by="words")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="most"):
        PerDocument(0)
