"""Runs systems one after the other, each in processes of its own, and judges what they found."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from harness.corpus import Given, key_of
from harness.machine import ROOT, environment, python
from harness.measure import COMPARED, Numbers
from harness.oracle import ExactBM25, ExactVectors, wrong_texts
from harness.system import System
from harness.systems import VARIANTS, system_of

REOPENINGS = 3
_SYNCS = "fsync,fdatasync,msync,sync_file_range,syncfs,sync"
_MEMORY_SHARE = 0.8


class StoppedError(Exception):
    """A measured process failed, or used more time or memory than it may."""


@attrs.frozen(kw_only=True)
class Limits:
    """Seconds for all of a system's processes together, and memory of one of them in MiB."""

    seconds: float
    memory_mb: float = attrs.field()

    @memory_mb.default
    def _most_of_the_machine(self) -> float:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return _MEMORY_SHARE * pages / 2**20


def missing(system: type[System]) -> str | None:
    """The first module that is not installed."""
    for module in system.modules:
        top = module.partition(".")[0]
        try:
            if importlib.util.find_spec(top) is None or importlib.util.find_spec(module) is None:
                return module
        except ImportError:
            return module
    return None


class Bench:
    """One corpus, prepared in a folder, and the exact answers to its queries.

    ``tree`` is the checkout of which "triptych-before" is.
    """

    def __init__(
        self, corpus: Path, stores: Path, limits: Limits, tree: Path | None = None
    ) -> None:
        self._corpus = corpus
        self._stores = stores
        self._limits = limits
        self.roots = {"triptych-before": tree} if tree is not None else {}
        about = json.loads((corpus / "about.json").read_text())
        self._queries: list[str] = about["query texts"]["mixed"][:COMPARED]
        self._given = Given()
        self._exact: dict[Any, ExactBM25] = {}
        self._vectors: ExactVectors | None = None
        self._own: dict[str, Any] = {}

    def measure(self, name: str) -> Numbers:
        """Everything measured of one system; "failed" says what ended it early."""
        system = system_of(name)
        stop = time.monotonic() + self._limits.seconds
        with self._folder() as folder:
            out = folder / "numbers.json"
            scans = []
            try:
                scans.append(self._scan(stop))
                self._child("build", name, folder / "store", out, stop)
                numbers: Numbers = json.loads(out.read_text())
                scans.append(self._scan(stop))
                if system.persists:
                    numbers["reopen"] = self._reopen(name, folder / "store", stop)
                    if system.shared:
                        numbers["processes"] = self._processes(name, folder / "store", stop)
                    numbers["fsyncs"] = self._fsyncs(name, stop)
                else:
                    numbers["reopen"] = numbers["fsyncs"] = "nothing persists"
            except StoppedError as error:
                numbers = json.loads(out.read_text()) if out.exists() else {}
                numbers["failed"] = f"{numbers.get('phase', 'start')}: {error}"
        numbers.pop("phase", None)
        if scans:
            # The quicker of two, before and after: other work on the machine lengthens them.
            numbers["scan_ms"] = unit = min(scans)
            lanes = numbers.get("lanes", {}).items()
            numbers["of_a_scan"] = {lane: round(each["p50"] / unit, 4) for lane, each in lanes}
        found = numbers.pop("found", {})
        if found:
            numbers["agreement"] = self._agreement(system, found)
            numbers["wrong_texts"] = wrong_texts(self._corpus, found)
        if name == "triptych":
            self._own = found
        elif name in VARIANTS and found and self._own:
            queries = [(lane, at) for lane, asked in self._own.items() for at in range(len(asked))]
            same = [found[lane][at] == self._own[lane][at] for lane, at in queries]
            numbers["same_hits"] = round(sum(same) / len(same), 4)
        return numbers

    def _agreement(self, system: type[System], found: dict[str, Any]) -> dict[str, float]:
        agreed = {}
        if "keyword" in found and system.bm25 is not None:
            key = (system.terms, system.query_terms, system.labels)
            if key not in self._exact:
                self._exact[key] = ExactBM25(self._corpus, self._queries, *key)
            agreed["keyword"] = self._exact[key].agreement(found["keyword"], system.bm25)
        if "vector" in found:
            if self._vectors is None:
                rows = self._given.rows([key_of(query) for query in self._queries])
                self._vectors = ExactVectors(self._corpus, rows, self._given)
            agreed["vector"] = self._vectors.agreement(found["vector"])
        return agreed

    def _reopen(self, name: str, store: Path, stop: float) -> Numbers:
        runs = []
        for _ in range(REOPENINGS):
            out = store.with_suffix(".reopen")
            self._child("reopen", name, store, out, stop)
            runs.append(json.loads(out.read_text()))
        keys = [key for key in runs[0] if key != "phase"]
        return {key: statistics.median(run[key] for run in runs) for key in keys}

    def _processes(self, name: str, store: Path, stop: float) -> Numbers:
        out = store.with_suffix(".processes")
        self._child("processes", name, store, out, stop)
        found: Numbers = json.loads(out.read_text())
        return found

    def _scan(self, stop: float) -> float:
        with self._folder() as folder:
            out = folder / "scan.json"
            self._child("scan", "triptych", folder / "store", out, stop)
            return float(json.loads(out.read_text())["p50"])

    def _fsyncs(self, name: str, stop: float) -> Numbers | str:
        """Synchronisations of files, counted by strace, of the same writes in another run."""
        if shutil.which("strace") is None:
            return "not counted: strace is not installed"
        with self._folder() as folder:
            trace = folder / "trace"
            prefix = ["strace", "-f", "--seccomp-bpf", "-qq", "-ttt", "-e", "signal=none"]
            prefix += ["-e", f"trace={_SYNCS}", "-o", str(trace)]
            out = folder / "numbers.json"
            try:
                self._child("fsyncs", name, folder / "store", out, stop, prefix)
            except StoppedError as error:
                return f"not counted: {error}"
            numbers = json.loads(out.read_text())
            # A call that another thread interrupts is written twice: begun, and resumed.
            moments = [
                float(at) for at in re.findall(r"^\d+ +([\d.]+) \w+\(", trace.read_text(), re.M)
            ]
        counted: Numbers = {"chunks": numbers["chunks"]}
        for act, (began, ended, times) in numbers["spans"].items():
            counted[act] = round(sum(began <= at <= ended for at in moments) / times, 2)
        return counted

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(dir=self._stores))
        (folder / "store").mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _child(
        self, task: str, name: str, store: Path, out: Path, stop: float, prefix: Any = ()
    ) -> None:
        """Run one measured process to its end, or end it."""
        root = self.roots.get(name, ROOT)
        command = [*prefix, python(root), "-m", "harness.measure", task, "--system", name]
        command += ["--corpus", self._corpus, "--folder", store, "--out", out]
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                [str(part) for part in command],
                env=environment(root) | VARIANTS.get(name, {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=store,
                start_new_session=True,
            )
            try:
                self._wait(process, stop)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.returncode:
                log.seek(0)
                said = log.read().decode(errors="replace").strip().splitlines() or ["no word"]
                raise StoppedError(f"exit {process.returncode}: {said[-1][:300]}")

    def _wait(self, process: subprocess.Popen[bytes], stop: float) -> None:
        while process.poll() is None:
            if time.monotonic() > stop:
                raise StoppedError(f"took more than {self._limits.seconds:.0f} s")
            if _resident_mb(process.pid) > self._limits.memory_mb:
                raise StoppedError(f"used more than {self._limits.memory_mb:.0f} MB of memory")
            time.sleep(0.1)


def _resident_mb(pid: int) -> float:
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return 0.0
