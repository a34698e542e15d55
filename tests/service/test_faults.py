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
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import fault_script
from support.fault_script import (
    FAULTS,
    NAMES,
    STEPS,
    Editions,
    Held,
    document,
    opened,
    steps,
    text,
)
from triptych.service import Service

SHIM = Path(fault_script.__file__).with_name("fault_shim.c")
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the shim is loaded as Linux loads it"),
    pytest.mark.skipif(COMPILER is None, reason="there is no C compiler to make the shim with"),
    pytest.mark.process,
]
FEW, MANY = 10, 300
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


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """A folder in memory, where there is one: no case needs a disk that keeps anything."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="triptych-faults-", dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="module", params=["sqlite", "files"])
def base(request: pytest.FixtureRequest, disk: Path) -> Path:
    """A store with a first edition of each document, to be copied."""
    scheme: str = request.param
    folder = disk / scheme
    folder.mkdir()
    with opened(url_in(folder, scheme)) as kb:
        kb.put_documents("d", [document(name, 0) for name in NAMES])
        kb.search("seven", dataset_id="d")
    (folder / "scheme").write_text(scheme)
    return folder


def url_in(folder: Path, scheme: str) -> str:
    return str(folder / "kb.db") if scheme == "sqlite" else f"files://{folder}/kb"


@pytest.mark.parametrize("kind", FAULTS)
def test_whatever_fails_nothing_told_is_lost(script: Script, base: Path, kind: str) -> None:
    met = [survives(script, base, kind, seed) for seed in range(FEW)]
    assert kind == "clock" or any(met), "the fault was never met"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", FAULTS)
def test_whatever_fails_nothing_told_is_lost_at_length(
    script: Script, base: Path, kind: str
) -> None:
    failed = []
    for seed in range(1000, 1000 + MANY):
        try:
            survives(script, base, kind, seed)
        except Exception as error:  # noqa: BLE001 - all are told, at the end
            failed.append(error)
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {MANY} cases not survived", failed)


def survives(script: Script, base: Path, kind: str, seed: int) -> bool:
    """Carry out one case and look at what is left; whether the fault was met."""
    folder = base.with_name(f"{base.name}-{kind}-{seed}")
    shutil.copytree(base, folder)
    url = url_in(folder, (folder / "scheme").read_text())
    told, ended = script.run(url=url, seed=seed, kind=kind)
    try:
        assert ended in ((0, -signal.SIGKILL) if kind == "kill" else (0,)), told
        check(url, seed, told, killed=ended != 0)
    except BaseException as error:
        error.add_note(f"{kind}, seed {seed}, {base.name}: {told}")
        raise
    finally:
        shutil.rmtree(folder)
    return ended != 0 or any(errors for *_, errors in told)


def check(url: str, seed: int, told: list[list[Any]], *, killed: bool) -> None:
    """The store holds what the steps left, is whole, and can be written."""
    may_hold, versions = expected(seed, told, killed=killed)
    with opened(url) as kb:
        there = "d" in kb.list_datasets()
        stored = {info.name for info in kb.list_documents("d")} if there else set()
        held = tuple(editions(kb, name) if name in stored else () for name in NAMES)
        assert held in may_hold
        report = kb.doctor()
        wrong = {finding.check for finding in report.findings}
        failed = killed or any(errors for *_, errors in told)
        assert wrong <= (STALE if failed else set()), [str(each) for each in report.findings]
        assert not wrong or kb.doctor(repair=True).clean
        name = NAMES[seed % len(NAMES)]
        assert kb.put_document("d", name, "Written afterwards.").version > versions[name]
        assert [hit.doc_name for hit in kb.search("afterwards", dataset_id="d", mode="bm25").hits]


def expected(seed: int, told: list[list[Any]], *, killed: bool) -> tuple[set[Held], dict[str, int]]:
    """What the store may hold, and the greatest version that each document was told to have.

    A step that failed was carried out wholly, or not at all; and that while a later step was
    under way, between its reading and its writing.
    """
    may_hold: set[Held] = {((0,),) * len(NAMES)}
    versions = dict.fromkeys(NAMES, 0)
    every = steps(seed)
    assert [number for number, *_ in told] == list(range(len(told)))
    for step, (_, done, _) in zip(every, told, strict=False):
        after = {step.after(held, read) for held in may_hold for read in may_hold}
        may_hold = after if done else may_hold | after
        versions |= {name: max(versions[name], version) for name, version in done.items()}
    if killed and len(told) < STEPS:
        step = every[len(told)]
        may_hold |= {step.after(held, read) for held in may_hold for read in may_hold}
    return may_hold, versions


def editions(kb: Service, name: str) -> Editions:
    """What a document is and was, by the store."""
    infos = kb.history("d", name)
    numbers = [info.version for info in infos]
    assert numbers == sorted(set(numbers), reverse=True)
    found = [int(info.metadata["edition"]) for info in infos]
    for number, edition in zip(numbers, found, strict=True):
        assert kb.get_document("d", name, number).content == text(name, edition)
    return tuple(found)
