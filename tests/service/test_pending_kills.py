"""Processes killed while vectors are pending: only texts in flight are embedded twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from support import embed_script
from support.embed_script import CONCURRENCY, SPACE, asked, contents, open_store, texts_of, word_of
from triptych.chunking import embedding_text
from triptych_testing.builders import vector_of

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL"),
    pytest.mark.process,
]

URLS = ("kb.db", "files://./kb")
KILLS = 3


def test_an_interrupted_put_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _kill_and_finish("kb.db", tmp_path, monkeypatch, random.Random(1), signal.SIGINT)


@pytest.mark.parametrize("url", URLS)
def test_a_killed_put_loses_only_what_is_in_flight(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _kill_and_finish(url, tmp_path, monkeypatch, random.Random(0), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
@pytest.mark.parametrize("url", URLS)
def test_killed_puts_lose_only_what_is_in_flight(
    url: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _kill_and_finish(url, tmp_path, monkeypatch, random.Random(seed), signal.SIGKILL)


def _kill_and_finish(
    url: str,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chance: random.Random,
    how: signal.Signals,
) -> None:
    monkeypatch.chdir(path)
    log = path / "asked.log"
    lost: set[str] = set()
    for _ in range(KILLS):
        before = len(asked(log))
        _run_and_end(url, log, chance.uniform(0.05, 1.2), how)
        calls = list(dict.fromkeys(call for call, _ in asked(log)[before:]))
        # Those that ran, and those whose answers were being stored.
        last = set(calls[-2 * CONCURRENCY :])
        lost |= {text for call, text in asked(log)[before:] if call in last}
    with open_store(url, log) as kb:
        if "d" in kb.list_datasets():
            _check_what_is_there(kb)
        kb.put_documents("d", contents())
        assert kb.embed_pending("d").embedded == 0
        (stats,) = kb.stats("d")
        assert (stats.documents, stats.stale, stats.pending) == (len(contents()), 0, 0)
        assert stats.vectors == stats.chunks
        assert kb.doctor().findings == ()
        for chunk in kb.chunks.iter_chunks("d", vectors=True):
            text = embedding_text(None, chunk.heading_path, chunk.content)
            assert chunk.vector is not None
            assert np.array_equal(chunk.vector, vector_of(text, SPACE))
    times = Counter(text for _, text in asked(log))
    assert set(times) == texts_of(path)
    assert {text for text, count in times.items() if count > 1} <= lost


def _run_and_end(url: str, log: Path, seconds: float, how: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, embed_script.__file__, url, str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    time.sleep(seconds)
    process.send_signal(how)
    process.wait()
    process.stdout.close()


def _check_what_is_there(kb: embed_script.triptych.Service) -> None:
    """Every document that is chunked is found by keyword; nothing is wrong but what is pending."""
    (stats,) = kb.stats("d")
    checks = {finding.check for finding in kb.doctor().findings}
    assert checks <= {"vectors.pending", "chunks.missing"}
    assert ("vectors.pending" in checks) == (stats.pending > 0)
    names = kb.chunks.doc_names("d")
    for name in names[:: max(len(names) // 5, 1)]:
        word = word_of(int(name[1:4]))
        (hit,) = kb.search(word, dataset_id="d", mode="bm25", top_k=5).hits
        assert (hit.doc_name, hit.stale) == (name, None)
