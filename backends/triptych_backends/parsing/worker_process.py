"""Parsers that run in a worker process of their own, with limits on time and memory.

The libraries that read PDF and office files may crash, hang or outgrow memory on a file that was
made to do so. A worker reads one file and ends; what it answers is data, never code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import attrs

from triptych import deadlines
from triptych.chunking.outline import Locator
from triptych.errors import NotAvailableError, ParseError
from triptych.installation import lacking
from triptych.parsing.builder import fit
from triptych.parsing.limits import ParseLimits
from triptych.parsing.parsed import ParsedFile

# -I keeps the worker from reading the user's environment and current directory; the path to the
# packages is this process's own.
_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from triptych_backends.parsing.worker import main; main()"
)
# Numeric libraries reserve address space for each thread, which is what the limit counts.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def run_isolated(
    job: str, name: str, data: bytes, limits: ParseLimits, *, signature: str, extra: str
) -> ParsedFile:
    """What ``job`` ("module:function") makes of ``data``, worked out in a worker process.

    The time is that of ``limits``, or what the deadline around this call leaves.

    Raises:
        ParseError: the file is malformed, encrypted or beyond a limit, or the worker died.
        NotAvailableError: the library is missing; install ``extra``.
        CancelledError: the deadline around this call has passed.
    """
    deadlines.check("reading a file")
    left = deadlines.remaining()
    seconds = limits.seconds if left is None else min(limits.seconds, left)
    if not sys.executable:
        raise NotAvailableError(
            f"no worker process can be started to read {name!r}: this Python does not know its "
            "own program (sys.executable), as where it is embedded in another"
        )
    header = {"job": job, "name": name, "limits": attrs.asdict(limits)}
    command = [sys.executable, "-I", "-c", _START, json.dumps([*map(str, sys.path)])]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(header).encode() + b"\n" + data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            env={**os.environ, **_ONE_THREAD},
            check=False,
        )
    except subprocess.TimeoutExpired:
        deadlines.check("reading a file")
        raise ParseError(
            f"{name!r} could not be read in {seconds:g} seconds: split it, or raise seconds of "
            "ParseLimits"
        ) from None
    except OSError as error:
        raise NotAvailableError(
            f"no worker process can be started to read {name!r} ({error}): PDF and office files "
            "are read in one"
        ) from error
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise ParseError(
            f"{name!r} ended its reader (exit code {done.returncode}): it is damaged, or needs "
            f"more than the {limits.memory:,} bytes of memory of ParseLimits"
        ) from None
    return _parsed(answer, name, signature, extra)


def _parsed(answer: Any, name: str, signature: str, extra: str) -> ParsedFile:
    if answer.get("missing"):
        raise lacking(f"{name!r} needs {answer['missing']}, which is not installed", extra)
    if answer.get("error"):
        raise ParseError(answer["error"])
    locators = (
        Locator(start=start, end=end, unit=unit, number=number, within=within)
        for start, end, unit, number, within in answer["locators"]
    )
    return ParsedFile(
        content=answer["content"],
        metadata={key: fit(value) for key, value in answer["metadata"].items()},
        parser_sig=signature,
        locators=tuple(locators),
        notes=tuple(answer["notes"]),
    )
