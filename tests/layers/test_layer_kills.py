"""Processes killed while they make layers: what they had made is not made again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import triptych
from support import layer_script
from support.layer_script import INPUT_TOKENS
from triptych.layers import LayerBuilder
from triptych_testing.fakes import FakeLLM

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks the processes it kills"),
    pytest.mark.process,
]

SCRIPT = Path(layer_script.__file__)
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


Run = Callable[..., int]


@pytest.fixture
def run() -> Iterator[Run]:
    """Builds layers in a process of its own: 0 when it came to its end, 9 when it died."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def build(
        url: str, calls: Path, *, concurrency: int, die_at: int = 0, moment: str = "before"
    ) -> int:
        assert process.stdin is not None
        assert process.stdout is not None
        wanted = {"store": url, "calls": str(calls), "concurrency": concurrency}
        line = json.dumps({**wanted, "die_at": die_at, "moment": moment})
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        assert code in (0, 9)
        return code

    yield build
    process.communicate(timeout=60)


def calls_of_a_clean_run(folder: Path, scheme: str) -> int:
    llm = FakeLLM()
    with triptych.open(made(folder, scheme), embedder=None) as kb:
        builder = LayerBuilder(kb, llm, input_tokens=INPUT_TOKENS)
        builder.apply(builder.plan("d"))
    return len(llm.requests)


def killed_until_done(
    run: Run, tmp_path: Path, scheme: str, *, concurrency: int, die_at: int, moment: str
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
def test_killed_runs_lose_at_most_what_was_under_way(run: Run, tmp_path: Path, scheme: str) -> None:
    killed_until_done(run, tmp_path, scheme, concurrency=2, die_at=17, moment="before")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_killed_every_few_calls_they_come_to_an_end(
    run: Run, tmp_path: Path, scheme: str, concurrency: int, moment: str
) -> None:
    killed_until_done(run, tmp_path, scheme, concurrency=concurrency, die_at=6, moment=moment)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_killed_at_every_checkpoint_and_restarted_once(
    run: Run, tmp_path: Path, scheme: str, moment: str
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
