"""Processes killed while they make layers: what they had made is not made again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import triptych
from layer_script import INPUT_TOKENS
from triptych.layers import LayerBuilder
from triptych.testing import FakeLLM

SCRIPT = Path(__file__).parents[1] / "layer_script.py"
SCHEMES = {"sqlite": "{}/kb.db", "files": "files://{}/kb"}
TEXT = "# Subject\n\n" + "\n\n".join(
    f"## Part {at}\n\n" + f"A sentence of part {at}, which is one of many. " * 8 for at in range(9)
)


def made(folder: Path, scheme: str) -> str:
    """A store with short documents and one that is read in parts."""
    url = SCHEMES[scheme].format(folder.as_posix())
    with triptych.open(url, embedder=None) as kb:
        kb.put_documents("d", {f"f{at % 3}/doc{at}.md": f"# Doc {at}" for at in range(8)})
        kb.put_document("d", "f1/long.md", TEXT)
    return url


def run(url: str, calls: Path, *, concurrency: int, die_at: int = 0, moment: str = "before") -> int:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    arguments = [url, str(calls), str(concurrency), str(die_at), moment]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 9), done.stderr
    return done.returncode


def calls_of_a_clean_run(folder: Path, scheme: str) -> int:
    llm = FakeLLM()
    with triptych.open(made(folder, scheme), embedder=None) as kb:
        builder = LayerBuilder(kb, llm, input_tokens=INPUT_TOKENS)
        builder.apply(builder.plan("d"))
    return len(llm.requests)


def killed_until_done(
    tmp_path: Path, scheme: str, *, concurrency: int, die_at: int, moment: str
) -> None:
    (tmp_path / "clean").mkdir()
    clean = calls_of_a_clean_run(tmp_path / "clean", scheme)
    assert clean > 30
    url, calls, kills = made(tmp_path, scheme), tmp_path / "calls", 0
    while run(url, calls, concurrency=concurrency, die_at=die_at, moment=moment) == 9:
        kills += 1
        assert kills <= clean
    assert kills >= 1
    assert clean <= calls.stat().st_size <= clean + kills * concurrency
    with triptych.open(url, embedder=None) as kb:
        builder = LayerBuilder(kb, FakeLLM(), input_tokens=INPUT_TOKENS)
        assert not builder.plan("d")
        assert all(layer.stale is None for layer in kb.layers("d"))
        assert len(kb.layers("d")) == 2 * (9 + 4)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_killed_runs_lose_at_most_what_was_under_way(tmp_path: Path, scheme: str) -> None:
    killed_until_done(tmp_path, scheme, concurrency=2, die_at=17, moment="before")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_killed_every_few_calls_they_come_to_an_end(
    tmp_path: Path, scheme: str, concurrency: int, moment: str
) -> None:
    killed_until_done(tmp_path, scheme, concurrency=concurrency, die_at=6, moment=moment)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_killed_at_every_checkpoint_and_restarted_once(
    tmp_path: Path, scheme: str, moment: str
) -> None:
    (tmp_path / "clean").mkdir()
    clean = calls_of_a_clean_run(tmp_path / "clean", scheme)
    for die_at in range(1, clean + 1):
        folder = tmp_path / str(die_at)
        folder.mkdir()
        url, calls = made(folder, scheme), folder / "calls"
        kills = run(url, calls, concurrency=3, die_at=die_at, moment=moment) == 9
        assert run(url, calls, concurrency=3) == 0
        assert clean <= calls.stat().st_size <= clean + kills * 3, die_at
