"""A worker process reads one file: a header and its bytes in, a line of JSON out.

The libraries that read PDF and office files may crash, hang or outgrow memory on a file that was
made to do so. A worker has limits on time and memory; what it answers is data, never code.
`run_isolated` starts one, `main` is what it does.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any

import attrs

from triptych import deadlines
from triptych.chunking import Locator
from triptych.errors import NotAvailableError, ParseError
from triptych.installation import lacking
from triptych.parsing import ContentBuilder, ParsedFile, ParseLimits, fit
from triptych.records import Omission


@attrs.define
class Reading:
    """What a job is given, and what it fills."""

    name: str
    data: bytes
    limits: ParseLimits
    builder: ContentBuilder
    options: Mapping[str, Any] = attrs.field(factory=dict)
    metadata: dict[str, str | float] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)
    omissions: list[Omission] = attrs.field(factory=list)
    no_text: str = ""


def main() -> None:
    """Read the header and the file from standard input, do the job, answer."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints is not an answer
    header = json.loads(sys.stdin.buffer.readline())
    limits = ParseLimits(**header["limits"])
    _limit(limits)
    answer = _answer(header, sys.stdin.buffer.read(), limits)
    with os.fdopen(answers, "wb") as out:
        out.write(json.dumps(answer).encode())
        out.flush()
    # Nothing is left to do, and a damaged file's library may hang when it is torn down.
    os._exit(0)


def _answer(header: Mapping[str, Any], data: bytes, limits: ParseLimits) -> dict[str, Any]:
    name, builder = header["name"], ContentBuilder(header["name"], limits.max_characters)
    reading = Reading(name, data, limits, builder, header["options"])
    module, _, function = header["job"].partition(":")
    try:
        warnings.simplefilter("ignore")  # libraries warn of what they skip
        work: Callable[[Reading], None] = getattr(importlib.import_module(module), function)
        work(reading)
    except ParseError as error:
        return {"error": str(error)}
    except ModuleNotFoundError as error:
        return {"missing": error.name or "a library"}
    except RecursionError:
        return {"error": f"{name!r} nests too deep to be read: flatten it"}
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
    return {
        "content": builder.content,
        "metadata": reading.metadata,
        "notes": reading.notes,
        "omissions": [attrs.asdict(each) for each in reading.omissions],
        "no_text": reading.no_text,
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


def allow_more_time(seconds: float) -> None:
    """Let this process use so much more time than it was started with."""
    try:
        import resource
    except ImportError:  # Windows
        return
    most, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_CPU, (most + int(seconds), hard))


# -I keeps the worker from reading the user's environment and current directory; the path to the
# packages is this process's own.
_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from triptych_parsers.worker import main; main()"
)
# Numeric libraries reserve address space for each thread, which is what the limit counts.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# Character recognition keeps a core busy for seconds a page, and needs half a gigabyte.
_RECOGNISING = threading.BoundedSemaphore(os.cpu_count() or 1)
_STEP = 0.5
"""Seconds after which a wait looks whether it was cancelled."""


def run_isolated(
    job: str,
    name: str,
    data: bytes,
    limits: ParseLimits,
    *,
    signature: str,
    extra: str = "",
    ocr: bool = False,
) -> ParsedFile:
    """The file that ``job`` makes of ``data``; see `ask_worker`.

    With ``ocr``, an option of the job, it may take ``limits.ocr_seconds`` longer, and no more files
    are read at a time than there are cores.

    Raises:
        TriptychError: as `ask_worker`.
    """
    if not ocr:
        return _parsed(ask_worker(job, name, data, limits, extra=extra), signature)
    while not _RECOGNISING.acquire(timeout=_STEP):
        deadlines.check("reading a file")
    try:
        answer = ask_worker(job, name, data, limits, extra=extra, more=limits.ocr_seconds, ocr=True)
    finally:
        _RECOGNISING.release()
    return _parsed(answer, signature)


def ask_worker(
    job: str,
    name: str,
    data: bytes,
    limits: ParseLimits,
    *,
    extra: str,
    more: float = 0,
    **options: Any,
) -> dict[str, Any]:
    """What ``job`` ("module:function") makes of ``data``, worked out in a worker process.

    The time is that of ``limits`` and ``more`` seconds, or what the deadline around this call
    leaves. ``options`` are the job's, as plain data for JSON.

    Raises:
        ParseError: the file is malformed, encrypted or beyond a limit, or the worker died.
        NotAvailableError: the library is missing; install ``extra``.
        CancelledError: the deadline around this call has passed, or it was cancelled.
    """
    deadlines.check("reading a file")
    if not sys.executable:
        raise NotAvailableError(
            f"no worker process can be started to read {name!r}: this Python does not know its "
            "own program (sys.executable), as where it is embedded in another"
        )
    header = {"job": job, "name": name, "limits": attrs.asdict(limits), "options": options}
    command = [sys.executable, "-I", "-c", _START, json.dumps([*map(str, sys.path)])]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
        )
    except OSError as error:
        raise NotAvailableError(
            f"no worker process can be started to read {name!r} ({error}): PDF and office files "
            "are read in one"
        ) from error
    sent = json.dumps(header).encode() + b"\n" + data
    said = _talk(process, sent, name, limits.seconds + more)
    try:
        answer = json.loads(said)
    except ValueError:
        raise ParseError(
            f"{name!r} ended its reader (exit code {process.returncode}): it is damaged, or needs "
            f"more than the {limits.memory:,} bytes of memory of ParseLimits"
        ) from None
    if answer.get("missing"):
        raise lacking(f"{name!r} needs {answer['missing']}, which is not installed", extra)
    if answer.get("error"):
        raise ParseError(answer["error"])
    found: dict[str, Any] = answer
    return found


def _send(pipe: IO[bytes], sent: bytes) -> None:
    with suppress(OSError), pipe:  # a process may end before it has read all
        pipe.write(sent)


def _talk(process: subprocess.Popen[bytes], sent: bytes, name: str, seconds: float) -> bytes:
    """What a process answers to what is ``sent``; it is killed where this ends otherwise."""
    end = time.monotonic() + seconds
    # `communicate` cannot go on with what it sends after a time-out.
    pipe, process.stdin = process.stdin, None
    threading.Thread(target=_send, args=(pipe, sent), daemon=True).start()
    with process:
        try:
            while True:
                deadlines.check("reading a file")
                left = end - time.monotonic()
                if left <= 0:
                    raise ParseError(
                        f"{name!r} could not be read in {seconds:g} seconds: split it, or raise "
                        "seconds of ParseLimits"
                    )
                with suppress(subprocess.TimeoutExpired):
                    return process.communicate(timeout=min(left, _STEP))[0]
        except BaseException:
            process.kill()
            raise


def _parsed(answer: Mapping[str, Any], signature: str) -> ParsedFile:
    locators = (
        Locator(start=start, end=end, unit=unit, number=number, within=within)
        for start, end, unit, number, within in answer["locators"]
    )
    return ParsedFile(
        content=answer["content"],
        metadata={
            key: fit(value) if isinstance(value, str) else value
            for key, value in answer["metadata"].items()
        },
        parser_sig=signature,
        locators=tuple(locators),
        notes=tuple(answer["notes"]),
        omissions=tuple(Omission(**each) for each in answer["omissions"]),
        no_text=answer["no_text"],
    )
