"""Disk full, I/O errors, a disk turned read-only, a clock set back, kills: nothing told is lost.

The faults are made between Triptych and the system, by a library that is loaded before libc: so
SQLite's own calls meet them as Python's do.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fault_script
from fault_script import FAULTS, NAMES, opened, steps, text

SHIM = Path(fault_script.__file__).with_name("fault_shim.c")
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the shim is loaded as Linux loads it"),
    pytest.mark.skipif(COMPILER is None, reason="there is no C compiler to make the shim with"),
]
FEW, MANY = 3, 300
STALE = {"chunks.missing", "chunks.stale"}


class Script:
    """`fault_script` as a process."""

    def __init__(self, shim: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, fault_script.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "LD_PRELOAD": str(shim),
            },
        )

    def run(self, **command: Any) -> tuple[list[list[Any]], int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        told = []
        while (said := json.loads(self._process.stdout.readline()))[0] != "ended":
            told.append(said)
        return told, said[1]

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Script]:
    shim = tmp_path_factory.mktemp("shim") / "fault.so"
    assert COMPILER is not None
    compile_shim = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(shim), str(SHIM), "-ldl"]
    subprocess.run(compile_shim, check=True)
    script = Script(shim)
    yield script
    script.close()


@pytest.fixture(scope="module", params=["sqlite", "files"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a first edition of each document, to be copied."""
    folder = tmp_path_factory.mktemp(request.param) / "base"
    folder.mkdir()
    with opened(url_in(folder, request.param)) as kb:
        kb.put_documents("d", {name: text(name, 0) for name in NAMES})
        kb.search("seven", dataset_id="d")
    (folder / "scheme").write_text(request.param)
    return folder


def url_in(folder: Path, scheme: str) -> str:
    return str(folder / "kb.db") if scheme == "sqlite" else f"files://{folder}/kb"


@pytest.mark.parametrize("kind", FAULTS)
def test_whatever_fails_nothing_told_is_lost(
    script: Script, base: Path, tmp_path: Path, kind: str
) -> None:
    met = [survives(script, base, tmp_path, kind, seed) for seed in range(FEW)]
    assert kind == "clock" or any(met), "the fault was never met"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", FAULTS)
def test_whatever_fails_nothing_told_is_lost_at_length(
    script: Script, base: Path, tmp_path: Path, kind: str
) -> None:
    for seed in range(1000, 1000 + MANY):
        survives(script, base, tmp_path, kind, seed)


def survives(script: Script, base: Path, tmp_path: Path, kind: str, seed: int) -> bool:
    """Carry out one case and look at what is left; whether the fault was met."""
    folder = tmp_path / f"{kind}-{seed}"
    shutil.copytree(base, folder)
    url = url_in(folder, (folder / "scheme").read_text())
    told, ended = script.run(url=url, seed=seed, kind=kind)
    try:
        assert ended in ((0, -signal.SIGKILL) if kind == "kill" else (0,)), told
        check(url, seed, told, killed=ended != 0)
    except BaseException as error:
        error.add_note(f"{kind}, seed {seed}, {url}: {told}")
        raise
    shutil.rmtree(folder)
    return ended != 0 or any(said[0] != "done" for said in told)


def check(url: str, seed: int, told: list[list[Any]], *, killed: bool) -> None:
    """The store holds what the steps left, is whole, and can be written."""
    may_be: dict[str, set[int | None]] = {name: {0} for name in NAMES}
    every = steps(seed)
    assert [said[1] for said in told] == list(range(len(told)))
    for step, said in zip(every, told, strict=False):
        for name, left in step.leaves.items():
            may_be[name] = {left} if said[0] == "done" else may_be[name] | {left}
    if killed and len(told) < len(every):
        for name, left in every[len(told)].leaves.items():
            may_be[name] = may_be[name] | {left}
    with opened(url) as kb:
        stored = {info.name for info in kb.list_documents("d")}
        for name, editions in may_be.items():
            content = kb.get_document("d", name).content if name in stored else None
            assert content in {None if e is None else text(name, e) for e in editions}, name
        report = kb.doctor()
        wrong = {finding.check for finding in report.findings}
        failed = killed or any(said[0] != "done" for said in told)
        assert wrong <= (STALE if failed else set()), [str(each) for each in report.findings]
        assert not wrong or kb.doctor(repair=True).clean
        kb.put_document("d", "last.md", "Written afterwards.")
        assert [hit.doc_name for hit in kb.search("afterwards", dataset_id="d", mode="bm25").hits]
