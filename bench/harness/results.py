"""Results in JSON: one file a corpus, written again as each system finishes, read to go on."""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.machine import ROOT, commit, versions
from harness.system import System

SCHEMA = 2
_MEASURING = ("corpus", "measure", "oracle", "run", "system", "threads")


def harness_digest(system: type[System]) -> str:
    """Names the code that measured: results of another harness are not taken for this one's."""
    folder = Path(__file__).parent
    module = folder / "systems" / f"{system.__module__.rpartition('.')[2]}.py"
    parts = [folder / f"{name}.py" for name in _MEASURING]
    return hashlib.sha256(b"".join(part.read_bytes() for part in [*parts, module])).hexdigest()[:12]


def provenance(name: str, system: type[System], root: Path = ROOT) -> dict[str, Any]:
    """What decides whether a result still stands."""
    found: dict[str, Any] = {
        "packages": versions(system.packages),
        "harness": harness_digest(system),
    }
    if name.startswith("triptych"):
        found["commit"] = commit(root)
    return found


def median_of(rounds: Sequence[Any]) -> Any:
    """The median of each number of several rounds; all else as the first round has it."""
    first = rounds[0]
    if isinstance(first, dict):
        return {
            key: median_of([each[key] for each in rounds if isinstance(each, dict) and key in each])
            for key in dict.fromkeys(key for each in rounds for key in each)
        }
    numbers = all(isinstance(each, int | float) for each in rounds)
    return statistics.median(rounds) if numbers and len(rounds) > 1 else first


def read_all(folder: Path, machine: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of one machine and Python in a folder, by corpus and size."""
    same = ("processor", "cores", "python")
    held = [
        each
        for each in map(json.loads, (path.read_text() for path in folder.glob("*.json")))
        if each.get("schema") == SCHEMA
        and all(each["machine"][key] == machine[key] for key in same)
    ]
    return sorted(held, key=lambda each: (each["corpus"]["name"], each["corpus"]["chunks"]))


class Results:
    """The results of one corpus; ``systems`` maps names to numbers."""

    def __init__(self, folder: Path, corpus: dict[str, Any], machine: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{corpus['name']}-{corpus['chunks']}.json"
        self.document: dict[str, Any] = {
            "schema": SCHEMA,
            "corpus": corpus,
            "machine": machine,
            "systems": {},
        }
        for old in read_all(folder, machine):
            if old["corpus"] == corpus:
                self.document["systems"] = old["systems"]

    @property
    def systems(self) -> dict[str, dict[str, Any]]:
        systems: dict[str, dict[str, Any]] = self.document["systems"]
        return systems

    def stands(self, name: str, system: type[System]) -> bool:
        """Whether a result is there that measuring again could only repeat.

        One of changed sources is never taken; nor one that failed, unless by its time limit.
        """
        old = self.systems.get(name)
        if old is None or "skipped" in old:
            return False
        if "failed" in old and "took more than" not in old["failed"]:
            return False
        now = provenance(name, system)
        changed = str(now.get("commit", "")).endswith("+changes")
        return not changed and all(old.get(key) == value for key, value in now.items())

    def put(self, name: str, numbers: dict[str, Any], order: tuple[str, ...]) -> None:
        self.systems[name] = {"taken": time.strftime("%Y-%m-%d"), **numbers}
        rank = {known: at for at, known in enumerate(order)}
        ordered = sorted(self.systems.items(), key=lambda entry: rank.get(entry[0], len(rank)))
        self.document["systems"] = dict(ordered)
        scratch = self.path.with_suffix(".part")
        scratch.write_text(json.dumps(self.document, indent=1) + "\n")
        scratch.replace(self.path)
