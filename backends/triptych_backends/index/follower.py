"""What the helper process of an index does: it publishes what the writer has written."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress

from triptych_backends.index.local import LocalIndex

# Numbers of the change log: a chunk with its vector takes two and a half.
_AT_ONCE = 8_192
_POLL_SECONDS = 0.01
# After so long without a write, what is left is published unless it is little, and then tidied.
# Vectors that come slowly, some every second, must not be published one by one.
_QUIET_SECONDS = 0.25
_QUIET_LEAST = 256
_TIDY_SECONDS = 1.0
_IDLE_SECONDS = 5.0
# Another process was publishing, or the disk is full.
_AGAIN_SECONDS = 0.5


class Orders:
    """What the writer asks for on the standard input, and what it is answered on the output.

    A line each way is JSON: from the writer a dataset's name, to it ``begins`` (datasets with how
    many numbers of the log are taken in), ``ended`` and ``failed``. When the input ends, so does
    this process, at once: nothing of it is needed by anybody.
    """

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._parent = os.getppid()
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # what a library prints is no answer
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(ValueError):
            for line in sys.stdin.buffer:
                self._names[json.loads(line)] = None
        os._exit(0)

    def datasets(self) -> list[str]:
        """The datasets so far."""
        if os.getppid() != self._parent:
            os._exit(0)  # a fork of the writer may still hold the input open
        return list(self._names)

    def say(self, **what: object) -> None:
        """Send a line to the writer."""
        with suppress(OSError):
            self._answers.write(json.dumps(what) + "\n")
            self._answers.flush()


def follow(index: LocalIndex, orders: Orders) -> None:
    """Publish what is written to the datasets, until nothing has been for some seconds.

    Raises OSError where the index's folder cannot be written.
    """
    done: dict[str, int] = {}
    loose: dict[str, int] = {}
    again: dict[str, float] = {}
    seen, since = -1, time.monotonic()
    while True:
        head, now = index.feed.head().seq, time.monotonic()
        if head != seen:
            seen, since = head, now
        quiet = now - since
        least = _AT_ONCE
        if quiet >= _QUIET_SECONDS:
            least = 1 if quiet >= _IDLE_SECONDS else _QUIET_LEAST
        is_idle = True
        for name in orders.datasets():
            new = head - done.get(name, 0)
            if now < again.get(name, 0.0):
                continue
            if new >= least:
                _require_writable(index, name)
                orders.say(begins={name: new})
                is_done = index.publish(name, "little")
                loose[name] = loose.get(name, 0) + new
            elif loose.get(name) and (quiet >= _IDLE_SECONDS or _is_bulk(loose[name], quiet)):
                # Nobody need wait for this.
                is_done = index.publish(name, "all")
                loose[name] = 0
                index.sweep(name)
            else:
                continue
            is_idle = False
            orders.say(ended=[name])
            if is_done:
                done[name] = head
            else:
                again[name] = time.monotonic() + _AGAIN_SECONDS
        if is_idle:
            if quiet >= _IDLE_SECONDS:
                return
            time.sleep(_POLL_SECONDS)


def _is_bulk(loose: int, quiet: float) -> bool:
    """Whether so many numbers, published in parts, are worth tidying after so many seconds."""
    return loose >= _AT_ONCE and quiet >= _TIDY_SECONDS


def _require_writable(index: LocalIndex, dataset: str) -> None:
    folder = index.folder(dataset)
    assert folder is not None
    with folder.lock():
        pass
