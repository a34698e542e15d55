"""The worker process that reads one file: a header and its bytes in, a line of JSON out."""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import attrs

from triptych.errors import ParseError
from triptych.parsing.builder import ContentBuilder
from triptych.parsing.limits import ParseLimits


@attrs.define
class Reading:
    """What a job is given, and what it fills."""

    name: str
    data: bytes
    limits: ParseLimits
    builder: ContentBuilder
    metadata: dict[str, str] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)


def main() -> None:
    """Read the header and the file from standard input, do the job, answer."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints is not an answer
    header = json.loads(sys.stdin.buffer.readline())
    limits = ParseLimits(**header["limits"])
    _limit(limits)
    answer = _answer(header["job"], header["name"], sys.stdin.buffer.read(), limits)
    with os.fdopen(answers, "wb") as out:
        out.write(json.dumps(answer).encode())
        out.flush()
    # Nothing is left to do, and a damaged file's library may hang when it is torn down.
    os._exit(0)


def _answer(job: str, name: str, data: bytes, limits: ParseLimits) -> dict[str, Any]:
    reading = Reading(name, data, limits, ContentBuilder(name, limits.max_characters))
    module, _, function = job.partition(":")
    try:
        warnings.simplefilter("ignore")  # libraries warn of what they skip
        work: Callable[[Reading], None] = getattr(importlib.import_module(module), function)
        work(reading)
    except ParseError as error:
        return {"error": str(error)}
    except ModuleNotFoundError as error:
        return {"missing": error.name or "a library"}
    except MemoryError:
        return {
            "error": f"{name!r} needs more than {limits.memory:,} bytes of memory to be read: "
            "split it, or raise memory of ParseLimits"
        }
    except Exception as error:  # noqa: BLE001 - a library may fail in any way
        return {
            "error": f"{name!r} is damaged, or is not a file of this format "
            f"({type(error).__name__}: {str(error)[:200]}): open it in the program that made it, "
            "and save it again"
        }
    builder = reading.builder
    return {
        "content": builder.content,
        "metadata": reading.metadata,
        "notes": reading.notes,
        "locators": [
            (each.start, each.end, each.unit, each.number, each.within) for each in builder.locators
        ],
    }


def _limit(limits: ParseLimits) -> None:
    """Hold this process to its memory and time; the parent holds it to its time, too."""
    try:
        import resource
    except ImportError:  # Windows
        return
    seconds = int(limits.seconds) + 1
    memory = int(limits.memory)
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        try:
            resource.setrlimit(kind, (most, hard))
        except (ValueError, OSError):
            continue  # macOS refuses a limit of address space
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
