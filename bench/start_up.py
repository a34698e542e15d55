"""What one command costs from its start to its end: processor time, wall time, memory.

    python bench/start_up.py
    python bench/start_up.py --runs 20 --store ./kb.db --query "how do I rebuild"

Without ``--store`` it fills one from the pages of ``docs/``. Each run is a new process, and the
commands take turns, so that other work on the machine meets all of them alike. The least processor
time is the one to compare: others on the machine lengthen the rest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# A user's Python keeps the bytecode it has compiled.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
DOCS = Path(__file__).resolve().parent.parent / "docs"


class Run(NamedTuple):
    """One process: seconds of the processor (all its threads), seconds by the clock, megabytes."""

    cpu: float
    wall: float
    memory: float


def run(arguments: Sequence[str]) -> Run:
    """Run ``triptych`` once, output and all, in a new process."""
    command = [sys.executable, "-c", "from triptych_adapters.cli import main; main()", *arguments]
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stderr is not None
        complaint = process.stderr.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode:
        sys.exit(f"triptych {' '.join(arguments)}: exit code {process.returncode}\n{complaint}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * unit / 1e6)


def commands_for(store: Path, document: str, query: str) -> dict[str, list[str]]:
    """The commands that are measured, each with its arguments."""
    use = ["--store", str(store)]
    return {
        "--version": ["--version"],
        "--help": ["--help"],
        "search": ["search", query, *use],
        "search --json": ["search", query, "--json", *use],
        "search --mode bm25": ["search", query, "--mode", "bm25", *use],
        "search --embedder none": ["search", query, "--embedder", "none", *use],
        "list": ["list", *use],
        "get": ["get", document, *use],
        "status": ["status", *use],
    }


def fill(store: Path) -> str:
    """Put the pages of ``docs/`` into a new store; the name of one of them."""
    run(["put", str(DOCS), "--store", str(store)])
    return "concepts.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--store", type=Path, help="a store that is there already")
    parser.add_argument("--document", help="a document of it, for `get`")
    parser.add_argument("--query", default="how do I rebuild a dataset")
    parser.add_argument("--only", help="the commands whose name contains this")
    given = parser.parse_args()
    if given.store is not None and given.document is None:
        parser.error("--store needs --document")
    with tempfile.TemporaryDirectory() as folder:
        store = given.store or Path(folder) / "kb.db"
        document = given.document or fill(store)
        commands = {
            name: arguments
            for name, arguments in commands_for(store, document, given.query).items()
            if not given.only or given.only in name
        }
        runs: dict[str, list[Run]] = {name: [] for name in commands}
        for turn in range(given.runs + 1):
            for name, arguments in commands.items():
                measured = run(arguments)
                if turn:  # the first run fills the caches of Python and of the system
                    runs[name].append(measured)
    print(
        f"{'command':24} {'CPU: least':>10} {'median':>8}"
        f" {'wall: least':>12} {'median':>8} {'MB':>6}"
    )
    for name, measured_runs in runs.items():
        cpu, wall, memory = zip(*measured_runs, strict=True)
        print(
            f"{name:24} {min(cpu):9.3f}s {statistics.median(cpu):7.3f}s "
            f"{min(wall):11.3f}s {statistics.median(wall):7.3f}s {max(memory):6.0f}"
        )


if __name__ == "__main__":
    main()
