"""Builds layers in a process that dies: run as a program, with a store, a log of calls and a plan.

``python layer_script.py STORE CALLS CONCURRENCY DIE_AT MOMENT`` makes the layers of the dataset
"d". Each call of the model adds a byte to the file CALLS. At the DIE_AT-th call (0: never) the
process ends as by a crash: "before" the answer or "after" it was stored.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import triptych
from triptych.layers import LayerBuilder
from triptych.records import Message
from triptych.testing import FakeLLM

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


def main() -> None:
    store, calls, concurrency, die_at, moment = sys.argv[1:]
    with triptych.open(store, embedder=None, create=False) as kb:
        llm = MortalLLM(Path(calls), int(die_at), moment)
        builder = LayerBuilder(kb, llm, input_tokens=INPUT_TOKENS)
        builder.apply(builder.plan("d"), concurrency=int(concurrency))


if __name__ == "__main__":
    main()
