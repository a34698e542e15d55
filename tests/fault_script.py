"""Work on a knowledge base whose disk fails, whose clock jumps, or whose process is killed.

Run as a program, with `fault_shim` loaded before libc, it reads lines of JSON and forks a process
for each. What becomes of each step is told on the standard output.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

import triptych
from triptych.errors import DerivationError, StoreError, TriptychError
from triptych.records import NewDocument
from triptych.service import Service

FAULTS = {"ENOSPC": 28, "EIO": 5, "EROFS": 30, "EDQUOT": 122, "kill": 0, "clock": -1}
STEPS = 10
NAMES = [f"{letter}.md" for letter in "abcdef"]


def text(name: str, edition: int) -> str:
    """A document of three sections, of which an edition changes one."""
    body = "One two three four five six seven eight nine ten eleven twelve. " * 6
    return "".join(
        f"# Part {part} of {name}\n\nEdition {edition if part == 1 else 0}. {body}\n\n"
        for part in range(3)
    )


@attrs.frozen
class Step:
    """A call, and which editions (None: deleted) it leaves of the documents it names."""

    leaves: dict[str, int | None]
    act: Callable[[Service], object]


def steps(seed: int) -> list[Step]:
    """The steps of one case, always the same."""
    chance = random.Random(seed)
    made = []
    for edition in range(1, STEPS + 1):
        kind = chance.choice(["put", "put", "put", "many", "delete", "search"])
        name = chance.choice(NAMES)
        made.append(_step(kind, name, edition, chance))
    return made


def _step(kind: str, name: str, edition: int, chance: random.Random) -> Step:
    if kind == "many":
        names = chance.sample(NAMES, 3)
        return Step(dict.fromkeys(names, edition), lambda kb: _put_many(kb, names, edition))
    if kind == "delete":
        return Step({name: None}, lambda kb: kb.delete_document("d", name))
    if kind == "search":
        return Step({}, lambda kb: kb.search("seven eight", dataset_id="d"))
    return Step({name: edition}, lambda kb: kb.put_document("d", name, text(name, edition)))


def _put_many(kb: Service, names: list[str], edition: int) -> None:
    news = [NewDocument(name=name, content=text(name, edition)) for name in names]
    for failure in kb.put_documents("d", news).failed:
        raise failure.error


def opened(url: str) -> Service:
    """The knowledge base at ``url``."""
    return triptych.open(url, embedder="hash", chunk_size=200, chunk_overlap=0, lock_timeout=5)


def tell(*said: object) -> None:
    """One line, whole."""
    os.write(1, (json.dumps(said) + "\n").encode())


def run(url: str, seed: int, kind: str) -> None:
    """All steps, of which some in the middle meet the fault."""
    shim: Any = ctypes.CDLL(None)
    chance = random.Random(f"{kind} {seed}")
    begin = chance.randrange(STEPS - 2)
    end = chance.randrange(begin + 1, STEPS)
    kb = opened(url)
    for number, step in enumerate(steps(seed)):
        if number == begin:
            if kind == "clock":
                shim.fault_clock(-chance.choice([1, 3600, 86400 * 400]))
            else:
                count = chance.choice([1, 2, 10**6])
                shim.fault_set(chance.randrange(40), FAULTS[kind], count)
        if number == end:
            shim.fault_set(-1, 0, 0)
        try:
            step.act(kb)
        except DerivationError as error:
            tell("derivation", number, str(error))
        except TriptychError as error:
            tell("failed", number, f"{type(error).__name__}: {error}")
            if isinstance(error, StoreError) and "closed" in str(error):
                shim.fault_set(-1, 0, 0)
                kb.close()
                kb = opened(url)
        else:
            tell("done", number)
    shim.fault_set(-1, 0, 0)
    kb.close()


def main() -> None:
    """Fork a process for each line, and tell how it ended."""
    with tempfile.TemporaryDirectory() as folder, opened(str(Path(folder) / "kb.db")) as kb:
        for step in steps(0):
            step.act(kb)
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if not child:
            status = 1
            try:
                run(command["url"], command["seed"], command["kind"])
                status = 0
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(status)
        tell("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
