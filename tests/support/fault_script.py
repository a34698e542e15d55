"""Work on a knowledge base whose disk fails, whose clock jumps, or whose process is killed.

Run as a program, with `fault_shim` loaded before libc, it reads a case a line, as JSON. What
becomes of each step is told on the standard output.
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
from contextlib import suppress
from typing import Any

import attrs

import triptych
from triptych.errors import DerivationError, NotFoundError, StoreError, TriptychError
from triptych.records import NewDocument
from triptych.service import Service

FAULTS = {"ENOSPC": 28, "EIO": 5, "EROFS": 30, "EDQUOT": 122, "kill": 0, "clock": -1}
CALLS = 6
"""Kinds of calls that may fail: any, and one by one those that the shim names."""
STEPS = 8
KEPT = 3
"""Old versions that are kept of each document."""
KINDS = {"put": 6, "many": 2, "delete": 2, "search": 2, "restore": 4, "purge": 1, "clear": 1}
"""What a step may be, and how often."""
NAMES = [f"{letter}.md" for letter in "abcd"]


def text(name: str, edition: int) -> str:
    """A document of three sections, of which an edition changes one."""
    body = "One two three four five six seven eight nine ten eleven twelve. " * 2
    return "".join(
        f"# Part {part} of {name}\n\nEdition {edition if part == 1 else 0}. {body}\n\n"
        for part in range(3)
    )


def document(name: str, edition: int) -> NewDocument:
    """The document of `text`; its metadata name the edition as well."""
    return NewDocument(name=name, content=text(name, edition), metadata={"edition": str(edition)})


Editions = tuple[int, ...]
"""What a document is and was, newest first, as far as it is kept; empty: there is none."""
Held = tuple[Editions, ...]
"""What there is of each of `NAMES`."""
Did = dict[str, "int | Exception"]
"""The version that each document of a step got (0 where none is told), or what failed."""


@attrs.frozen
class Step:
    """A call, and what it makes of the documents that it names."""

    effects: dict[str, Callable[[Editions, Editions], Editions]]
    act: Callable[[Service], Did]

    def after(self, held: Held, read: Held) -> Held:
        """What a store that held ``held`` holds then. A restore reads first: it read ``read``."""
        return tuple(
            self.effects[name](now, then) if name in self.effects else now
            for name, now, then in zip(NAMES, held, read, strict=True)
        )


def steps(seed: int) -> list[Step]:
    """The steps of one case, always the same."""
    chance = random.Random(seed)
    made = []
    for edition in range(1, STEPS + 1):
        (kind,) = chance.choices(list(KINDS), list(KINDS.values()))
        names = chance.sample(NAMES, 3)
        made.append(_step(kind, names, edition))
    return made


def _step(kind: str, names: list[str], edition: int) -> Step:
    name = names[0]
    if kind == "many":
        return Step(dict.fromkeys(names, _put_over(edition)), lambda kb: _many(kb, names, edition))
    if kind == "search":
        return Step({}, _search)
    if kind == "restore":
        return Step({name: _put_back}, lambda kb: _restore(kb, name))
    if kind == "clear":
        return Step(dict.fromkeys(NAMES, _gone), lambda kb: _purge(kb, None))
    if kind == "purge":
        return Step({name: _gone}, lambda kb: _purge(kb, name))
    if kind == "delete":
        return Step({name: _gone}, lambda kb: _delete(kb, name))
    return Step({name: _put_over(edition)}, lambda kb: _put(kb, name, edition))


def _put_over(edition: int) -> Callable[[Editions, Editions], Editions]:
    return lambda now, read: (edition, *now)[: KEPT + 1]


def _put_back(now: Editions, read: Editions) -> Editions:
    """The oldest edition that is kept becomes the newest, unless it is that already."""
    return now if not read or now[:1] == read[-1:] else (read[-1], *now)[: KEPT + 1]


def _gone(now: Editions, read: Editions) -> Editions:
    return ()


def _put(kb: Service, name: str, edition: int) -> Did:
    new = document(name, edition)
    return {name: kb.put_document("d", name, new.content, new.metadata).version}


def _many(kb: Service, names: list[str], edition: int) -> Did:
    news = [document(name, edition) for name in names]
    failed = {failure.name: failure.error for failure in kb.put_documents("d", news).failed}
    return {name: failed.get(name, 0) for name in names}


def _restore(kb: Service, name: str) -> Did:
    try:
        oldest = kb.history("d", name)[-1]
    except NotFoundError:
        return {name: 0}
    return {name: kb.restore("d", name, oldest.version).version}


def _delete(kb: Service, name: str) -> Did:
    kb.delete_document("d", name)
    return {name: 0}


def _purge(kb: Service, name: str | None) -> Did:
    kb.purge("d", name)
    return dict.fromkeys(NAMES if name is None else [name], 0)


def _search(kb: Service) -> Did:
    with suppress(NotFoundError):  # all was purged
        kb.search("seven eight", dataset_id="d")
    return {}


def opened(url: str) -> Service:
    """The knowledge base at ``url``."""
    return triptych.open(
        url, embedder="hash", chunk_size=200, chunk_overlap=0, lock_timeout=5, history=KEPT
    )


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
                which = chance.randrange(CALLS)
                skip = chance.randrange(40 if which < 2 else 8)
                shim.fault_set(skip, FAULTS[kind], count, which)
        if number == end:
            shim.fault_set(-1, 0, 0, 0)
        did, errors = _carried_out(step, kb)
        tell(number, did, list(map(str, errors)))
        if any(isinstance(error, StoreError) and "closed" in str(error) for error in errors):
            shim.fault_set(-1, 0, 0, 0)
            kb.close()
            kb = opened(url)
    shim.fault_set(-1, 0, 0, 0)
    kb.close()
    shim.fault_clock(0)


def _carried_out(step: Step, kb: Service) -> tuple[dict[str, int], list[Exception]]:
    """The versions of documents that were stored, and what failed."""
    try:
        did: Did = step.act(kb)
    except TriptychError as error:
        did = dict.fromkeys(step.effects or [""], error)
    stored: dict[str, int] = {}
    errors: list[Exception] = []
    for name, became in did.items():
        if isinstance(became, int):
            stored[name] = became
            continue
        errors.append(became)
        # It is stored, and what is derived of it is not. Where all failed, the error is the
        # first one's.
        told = became.document if isinstance(became, DerivationError) else None
        if told is not None and told.name == name:
            stored[name] = told.version
    return stored, errors


def warm_up() -> None:
    """Import here, once, what every forked process needs."""
    for place in ("{}/kb.db", "files://{}/kb"):
        with tempfile.TemporaryDirectory() as folder:
            url = place.format(folder)
            with opened(url) as kb:
                for kind in ["put", "put", *KINDS]:
                    _step(kind, NAMES[:3], 1).act(kb)
            opened(url).close()


def main() -> None:
    """Carry out a case a line, and tell how it ended."""
    warm_up()
    for line in sys.stdin:
        command = json.loads(line)
        # A process of its own costs as much as the case: only one that is killed needs it.
        killed = command["kind"] == "kill"
        child = os.fork() if killed else 0
        if child:
            tell("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            continue
        status = 1
        try:
            run(**command)
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            if killed:
                os._exit(status)
            tell("ended", status)


if __name__ == "__main__":
    main()
