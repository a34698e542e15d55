"""What the numbers were taken on: processor, memory, disk, versions, commit; never a host name."""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("knowledge", "backends", "factory", "adapters")
REMOVED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Variables that bind NumPy to another processor's kernels: measured processes go without."""


def _status(field: str) -> float:
    with open("/proc/self/status") as status:
        return round(next(int(row.split()[1]) / 1024 for row in status if row.startswith(field)), 1)


def resident_mb() -> float:
    return _status("VmRSS")


def peak_mb() -> float:
    """The most memory that was resident since `reset_peak`."""
    return _status("VmHWM")


def reset_peak() -> None:
    """Set the peak to what is resident now (proc(5), clear_refs); elsewhere it stays."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def fsync_ms(folder: Path) -> dict[str, float]:
    """What one fsync of 4 KiB appended to a file costs in the folder of the stores."""
    taken = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(50):
            began = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            taken.append(1e3 * (time.perf_counter() - began))
    return {"p50": round(statistics.median(taken), 3), "p95": round(sorted(taken)[47], 3)}


def describe(folder: Path) -> dict[str, Any]:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "fsync_ms": fsync_ms(folder),
        "unset_for_measured_processes": list(REMOVED),
    }


def environment(root: Path = ROOT) -> dict[str, str]:
    """The environment of a measured process: a checkout's sources, no network, no telemetry."""
    kept = {key: value for key, value in os.environ.items() if key not in REMOVED}
    paths = [str(ROOT / "bench"), *(str(root / source) for source in SOURCES)]
    kept["PYTHONPATH"] = os.pathsep.join(paths)
    kept |= {"HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "DO_NOT_TRACK": "1"}
    return kept


def python(root: Path = ROOT) -> str:
    """A checkout's own interpreter; this one where it has none."""
    own = root / ".venv" / "bin" / "python"
    return str(own) if root != ROOT and own.exists() else sys.executable


def commit(root: Path = ROOT) -> str:
    """The commit of what is measured, with "+changes" when its sources differ from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    found = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return found + ("+changes" if git("status", "--porcelain", "--", *SOURCES) else "")


def versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "checkout" if package == "triptych" else "not installed"
    return found
