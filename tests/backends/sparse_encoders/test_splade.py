"""A SPLADE folder as a sparse encoder: weights that are known, and folders that are none."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from support.splade_models import TERMS, Kind, weights_of, write_model
from triptych.errors import CancelledError, NotAvailableError, ProviderError, ValidationError
from triptych.records import SparseVector
from triptych_models import SpladeEncoder

pytest.importorskip("onnxruntime", reason="the extra 'local' is not installed")
MADE: list[SpladeEncoder] = []


@pytest.fixture(autouse=True)
def close_all() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


def made(folder: Path, **how: object) -> SpladeEncoder:
    MADE.append(SpladeEncoder(folder, **how))  # type: ignore[arg-type]  # each by its name
    return MADE[-1]


def plain(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["logits", "pooled", "int32", "types"])
@pytest.mark.parametrize("nested", [False, True])
def test_weights_are_those_of_the_formula(tmp_path: Path, kind: Kind, nested: bool) -> None:
    encoder = made(write_model(tmp_path / "model", kind, nested=nested))
    assert encoder.vocabulary_size is None
    texts = ["a", "a b c", "", "j j j", "c b a"]
    for of in ("document", "query"):
        found = encoder.encode(texts, kind=of)  # type: ignore[arg-type]  # each is a kind
        for text, vector in zip(texts, found, strict=True):
            assert plain(vector) == pytest.approx(weights_of(text.split()), rel=1e-6)
    assert encoder.vocabulary_size == TERMS
    assert encoder.encode([], kind="query") == []


def test_a_vector_depends_on_its_text_alone(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    texts = ["a b", "c", "d e f g h i j a b c", "a b"]
    many = made(folder, threads=3).encode(texts, kind="document")
    each = [made(folder, threads=1).encode([text], kind="document")[0] for text in texts]
    assert many == each


def test_the_heaviest_terms_are_kept_and_long_texts_are_cut(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    whole = weights_of(["a", "b", "c"])
    (vector,) = made(folder, top_k=2).encode(["a b c"], kind="document")
    heaviest = sorted(whole, key=lambda term: (-whole[term], term))[:2]
    assert set(plain(vector)) == set(heaviest)
    (cut,) = made(folder, max_tokens=8).encode(["a b c d e f g h i j"], kind="document")
    assert plain(cut) == pytest.approx(weights_of("abcdef"), rel=1e-6)
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 8}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 1e30}))
    (same,) = made(folder).encode(["a b c d e f g h i j"], kind="document")
    assert same == cut


def test_signature_names_the_files_and_every_rule(tmp_path: Path) -> None:
    first = made(write_model(tmp_path / "one" / "model"))
    assert first.signature == made(write_model(tmp_path / "two" / "model")).signature
    assert first.signature.startswith("splade/model@")
    others = {
        made(write_model(tmp_path / "three" / "model", "pooled")).signature,
        made(tmp_path / "one" / "model", top_k=5).signature,
        made(tmp_path / "one" / "model", max_tokens=9).signature,
    }
    (tmp_path / "two" / "model" / "tokenizer.json").write_text("{}")
    others.add(made(tmp_path / "two" / "model").signature)
    assert len(others | {first.signature}) == 5


def test_a_closed_encoder_loads_again(tmp_path: Path) -> None:
    encoder = made(write_model(tmp_path / "model"))
    before = encoder.encode(["a"], kind="query")
    encoder.close()
    assert encoder.encode(["a"], kind="query") == before


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"top_k": 0}, "top_k"),
        ({"top_k": True}, "top_k"),
        ({"max_tokens": 7}, "max_tokens"),
        ({"threads": 0}, "threads"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    tmp_path: Path, how: dict[str, int], why: str
) -> None:
    folder = write_model(tmp_path / "model")
    with pytest.raises(ValidationError, match=why):
        SpladeEncoder(folder, **how)  # type: ignore[arg-type]  # which is what is tested


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="there is no folder"):
        SpladeEncoder(tmp_path / "none")
    with pytest.raises(ValidationError, match=r"no model\.onnx"):
        SpladeEncoder(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(ValidationError, match=r"no tokenizer\.json"):
        SpladeEncoder(tmp_path)


def test_files_that_are_something_else_are_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(NotAvailableError, match="cannot load"):
        made(folder).encode(["a"], kind="query")
    write_model(folder, "other input")
    with pytest.raises(NotAvailableError, match="pixel_values"):
        made(folder).encode(["a"], kind="query")
    write_model(folder)
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(NotAvailableError, match=r"cannot read .*tokenizer\.json"):
        made(folder).encode(["a"], kind="query")


@pytest.mark.parametrize(
    ("kind", "why"), [("nan", "not finite"), ("other output", "not a sparse encoder")]
)
def test_a_model_of_another_kind_is_a_providers_fault(tmp_path: Path, kind: Kind, why: str) -> None:
    with pytest.raises(ProviderError, match=why):
        made(write_model(tmp_path / "model", kind)).encode(["a"], kind="query")


def test_the_deadline_is_asked_between_texts(tmp_path: Path) -> None:
    encoder = made(write_model(tmp_path / "model"), threads=1)
    with triptych.deadline(0.001):
        time.sleep(0.01)
        with pytest.raises(CancelledError):
            encoder.encode(["a", "b"], kind="document")


def test_a_folder_is_a_setting(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    with triptych.open("memory://", embedder=None, sparse_encoder=f"splade:{folder}") as kb:
        kb.put_documents("d", {"1": "a b", "2": "c d"})
        found = kb.search("c", dataset_id="d", mode="sparse")
        asked, stored = weights_of("c"), weights_of(["c", "d"])
        expected = sum(stored.get(term, 0.0) * weight for term, weight in asked.items())
        scores = {hit.doc_name: hit.score for hit in found.hits}
        assert scores["2"] == pytest.approx(expected, rel=1e-5)


def test_a_query_has_the_weights_that_the_folder_lists_and_runs_no_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    plainly = made(folder).signature
    idf = {"a": 2.5, "b": 0.5, "c": 0.0, "d": 1e-50, "[CLS]": 9.0}
    (folder / "idf.json").write_text(json.dumps(idf))
    encoder = made(folder)
    assert encoder.signature != plainly
    assert encoder.encode(["a b a c d zz", "", "zz"], kind="query") == [
        SparseVector.of([4, 5], [2.5, 0.5]), SparseVector.of([], []), SparseVector.of([], []),
    ]  # fmt: skip
    assert encoder.vocabulary_size is None  # no model ran
    (vector,) = encoder.encode(["a b"], kind="document")
    assert plain(vector) == pytest.approx(weights_of(["a", "b"]), rel=1e-6)
    (heaviest,) = made(folder, top_k=1).encode(["a b"], kind="query")
    assert plain(heaviest) == {4: 2.5}


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "[]",
        "[" * 9999,
        '{"no such piece": 1}',
        '{"a": "x"}',
        '{"a": NaN}',
        '{"a": 1e39}',
        '{"a": 1' + "0" * 400 + "}",
    ],
)
def test_a_list_of_weights_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    folder = write_model(tmp_path / "model")
    (folder / "idf.json").write_text(text)
    with pytest.raises(NotAvailableError, match="idf"):
        made(folder).encode(["a"], kind="query")
