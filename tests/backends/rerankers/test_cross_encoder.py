"""The cross-encoder on this machine, on models of known answers that the tests write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from support.onnx_models import model, share, write_model, write_tokenizer
from triptych.contracts import Reranker
from triptych.errors import (
    CancelledError,
    NotAvailableError,
    ProviderError,
    ValidationError,
)
from triptych_models import CrossEncoder
from triptych_testing import lacking

onnxruntime = pytest.importorskip("onnxruntime", reason="pip install 'triptych[local]'")

Make = Callable[..., CrossEncoder]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Make]:
    several: list[CrossEncoder] = []

    def make(kind: Any = "share", *, max_length: int | None = None, **how: Any) -> CrossEncoder:
        folder = write_model(tmp_path / f"{kind}-{max_length}", kind, max_length=max_length)
        several.append(CrossEncoder(folder, **how))
        return several[-1]

    yield make
    for each in several:
        each.close()


def test_scores_are_those_of_the_model(made: Make) -> None:
    encoder = made()
    assert not lacking(encoder, Reranker)
    found = encoder.scores("a b c", ["a", "x y z", "c b a", "", "b c"])
    assert found.dtype == np.float32
    expected = [share("abc", text.split()) for text in ("a", "x y z", "c b a", "", "b c")]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.argmax() == 2
    assert encoder.scores("a", []).shape == (0,)


letters = st.lists(st.sampled_from("abcdef"), max_size=30).map(" ".join)


@pytest.mark.property
@pytest.mark.parametrize("how", [{}, {"batch": 4, "threads": 1}, {"batch": 100}, {"threads": 3}])
def test_batches_padding_and_threads_change_no_score(made: Make, how: dict[str, int]) -> None:
    encoder = made(**how)

    @settings(max_examples=examples(30), deadline=None)
    @given(query=letters.filter(str.strip), texts=st.lists(letters, max_size=9))
    def holds(query: str, texts: list[str]) -> None:
        found = encoder.scores(query, texts)
        expected = [share(query.split(), text.split()) for text in texts]
        np.testing.assert_allclose(found, expected, atol=1e-6)

    holds()


def test_padding_is_masked(made: Make) -> None:
    lengths = [3, 40, 1, 17]
    texts = [" ".join("a" * length) for length in lengths]
    # [CLS] query [SEP] text [SEP]
    expected = [length + 4 for length in lengths]
    for batch in (1, 2, 4):
        assert made("tokens", batch=batch).scores("b", texts).tolist() == expected


def test_long_texts_are_cut_at_their_ends(made: Make) -> None:
    encoder = made("tokens", max_tokens=20)
    assert encoder.scores("a b", ["c " * 14, "c " * 15, "c " * 16, "c " * 9000]).tolist() == [
        19,
        20,
        20,
        20,
    ]
    shares = made(max_tokens=20)
    kept, lost = "x " * 14 + "a", "x " * 15 + "a"
    found = shares.scores("a b", [kept, lost])
    np.testing.assert_allclose(found, [share("ab", "a"), share("ab", "x")], atol=1e-6)


def test_a_long_query_leaves_room_for_the_text(made: Make) -> None:
    # 17 places for words, 8 of them for the query.
    encoder = made("tokens", max_tokens=20)
    assert encoder.scores("q " * 500, ["a " * 500, "a"]).tolist() == [20, 12]
    found = made(max_tokens=20).scores("a b c d e f g h i j", ["a h", "i j"])
    np.testing.assert_allclose(found, [share("abcdefgh", "ah"), share("abcdefgh", "ij")], atol=1e-6)


def test_the_files_say_how_long_a_pair_is(made: Make, tmp_path: Path) -> None:
    assert made("tokens").scores("a", ["b " * 900]) == [512]
    assert made("tokens", max_length=30).scores("a", ["b " * 900]) == [30]
    assert made("tokens", max_length=30, max_tokens=40).scores("a", ["b " * 900]) == [40]
    folder = write_model(tmp_path / "small", "tokens")
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 24}))
    small = CrossEncoder(folder)
    assert small.scores("a", ["b " * 900]) == [24]
    small.close()


def test_two_logits_are_log_odds(made: Make) -> None:
    texts = ["a", "x", "b a"]
    np.testing.assert_allclose(
        made("two").scores("a b", texts), made().scores("a b", texts), atol=1e-6
    )
    np.testing.assert_allclose(
        made("flat").scores("a b", texts), made().scores("a b", texts), atol=1e-6
    )
    np.testing.assert_allclose(
        made("int32").scores("a b", texts), made().scores("a b", texts), atol=1e-6
    )


def test_the_sigmoid_of_a_logit(made: Make) -> None:
    logits = made("two").scores("a b", ["a", "x"]).astype(float)
    found = made("two", sigmoid=True).scores("a b", ["a", "x"])
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-logits)), atol=1e-6)
    assert made("tokens", sigmoid=True).scores("a", ["b " * 400]).tolist() == [1.0]


@pytest.mark.parametrize(("kind", "said"), [("wide", r"shape \(1, 3\)"), ("nan", "not finite")])
def test_an_output_that_is_no_score_is_named(made: Make, kind: str, said: str) -> None:
    with pytest.raises(ProviderError, match=said):
        made(kind).scores("a", ["b"])


def test_files_that_are_no_cross_encoder_are_named(made: Make, tmp_path: Path) -> None:
    with pytest.raises(NotAvailableError, match="pixel_values"):
        made("other input").scores("a", ["b"])
    folder = write_model(tmp_path / "broken")
    (folder / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(NotAvailableError, match=r"cannot load .*model\.onnx"):
        CrossEncoder(folder).scores("a", ["b"])
    folder = write_model(tmp_path / "silent")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(NotAvailableError, match=r"cannot read .*tokenizer\.json"):
        CrossEncoder(folder).scores("a", ["b"])


def test_missing_files_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=f"there is no folder {tmp_path / 'none'}"):
        CrossEncoder(tmp_path / "none")
    with pytest.raises(ValidationError, match=r"there is no model\.onnx in"):
        CrossEncoder(tmp_path)
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_bytes(model("share"))
    with pytest.raises(ValidationError, match=r"there is no tokenizer\.json in"):
        CrossEncoder(tmp_path)
    write_tokenizer(tmp_path)
    encoder = CrossEncoder(str(tmp_path))
    np.testing.assert_allclose(encoder.scores("a", ["a"]), [share("a", "a")])
    encoder.close()


def test_arguments_that_make_no_sense_are_refused(made: Make) -> None:
    for how in ({"max_tokens": 15}, {"batch": 0}, {"threads": 0}, {"batch": True}):
        with pytest.raises(ValidationError):
            made(**how)
    for query, texts in ((" ", ["a"]), ("a", "text"), ("a", [1])):
        with pytest.raises(ValidationError):
            made().scores(query, texts)  # type: ignore[arg-type]


def test_a_signature_tells_models_apart(made: Make, tmp_path: Path) -> None:
    several = [
        made(),
        made("two"),
        made(max_length=30),
        made(max_tokens=40),
        made(sigmoid=True),
    ]
    signatures = [encoder.signature for encoder in several]
    assert len(set(signatures)) == 5
    assert signatures[0].startswith("onnx/share-None@")
    assert str(tmp_path) not in signatures[0]
    assert made(batch=3).signature == signatures[0]


def test_many_threads_share_one_model(made: Make) -> None:
    encoder = made(threads=2)
    texts = ["a", "b", "a b", "c"]
    expected = encoder.scores("a b", texts)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(encoder.scores("a b", texts)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all((each == expected).all() for each in found)
    encoder.close()
    assert (encoder.scores("a b", texts) == expected).all()


def test_a_deadline_ends_between_pairs(made: Make) -> None:
    encoder = made(threads=1)
    with triptych.deadline(60) as scope:
        scope.cancel()
        with pytest.raises(CancelledError):
            encoder.scores("a", ["a", "b"])


def test_it_reranks_a_search(made: Make) -> None:
    encoder = made()
    with triptych.open("memory://", embedder=None, reranker=encoder) as kb:
        kb.put_documents("d", {"1.txt": "b x x x", "2.txt": "b c x x", "3.txt": "b c d x"})
        found = kb.search("b c d", dataset_id="d").hits
        assert [hit.doc_name for hit in found] == ["3.txt", "2.txt", "1.txt"]
        assert found[0].score == pytest.approx(share("bcd", "bcdx"), abs=1e-6)


FORK = """
import os, sys
from triptych_models import CrossEncoder
encoder = CrossEncoder(sys.argv[1], threads=2)
before = encoder.scores("a b", ["a", "b c"]).tobytes()
child = os.fork()
if child == 0:
    same = encoder.scores("a b", ["a", "b c"]).tobytes() == before
    encoder.close()
    os._exit(0 if same else 3)
_, status = os.waitpid(child, 0)
assert encoder.scores("a b", ["a", "b c"]).tobytes() == before
encoder.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_loads_it_again(tmp_path: Path) -> None:
    folder = str(write_model(tmp_path / "model"))
    # A process of its own: forking the test runner's threads is outside this test.
    ran = subprocess.run(
        [sys.executable, "-c", FORK, folder], timeout=60, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
