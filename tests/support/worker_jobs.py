"""Jobs for a worker process that go wrong."""

from __future__ import annotations

import importlib
import os
import time


def sleep(reading: object) -> None:
    """A job that hangs."""
    time.sleep(600)


def crash(reading: object) -> None:
    """A job that dies, as a library in C may."""
    print("not an answer", flush=True)
    os.abort()


def hoard(reading: object) -> None:
    """A job that takes memory without end."""
    held = []
    while True:
        held.append(bytearray(64 << 20))


def chatter(reading: object) -> None:
    """A job whose library prints."""
    print("{}")


def missing(reading: object) -> None:
    """A job whose library is not there."""
    importlib.import_module("a_library_that_is_not_there")
