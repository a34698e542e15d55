"""Builds layers in processes that die.

Run as a program it reads lines of JSON, forks a process for each, and prints how that ended. Each
makes the layers of the dataset "d" in ``store``; each call of the model adds a byte to the file
``calls``. At the ``die_at``-th call (0: never) the process ends as by a crash: "before" the answer,
or "after" it was given, while it is on its way to the store.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import triptych
from triptych.layers import LayerBuilder
from triptych.records import Message
from triptych_testing.fakes import FakeLLM

INPUT_TOKENS = 300


class MortalLLM(FakeLLM):
    """Counts its calls in a file, and ends the process at one of them."""

    def __init__(self, calls: Path, die_at: int, moment: str) -> None:
        super().__init__()
        self._file = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._count = 0
        self._die_at = die_at
        self._moment = moment
        self._counting = threading.Lock()

    def generate(self, messages: Sequence[Message], *, max_tokens: int):  # type: ignore[no-untyped-def]  # as its parent's
        os.write(self._file, b".")
        with self._counting:
            self._count += 1
            dies = self._count == self._die_at
        if dies and self._moment == "before":
            os._exit(9)
        if dies:
            # The answer is on its way to the store when the process ends.
            threading.Thread(target=self._end_soon, daemon=True).start()
        return super().generate(messages, max_tokens=max_tokens)

    @staticmethod
    def _end_soon() -> None:
        time.sleep(0.002)
        os._exit(9)


def build(store: str, calls: str, concurrency: int, die_at: int, moment: str) -> None:
    with triptych.open(store, embedder=None, create=False) as kb:
        llm = MortalLLM(Path(calls), die_at, moment)
        builder = LayerBuilder(kb, llm, input_tokens=INPUT_TOKENS)
        builder.apply(builder.plan("d"), concurrency=concurrency)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                build(**json.loads(line))
                os._exit(0)
            except BaseException:  # noqa: BLE001 - the child must not go on as its parent
                traceback.print_exc()
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
