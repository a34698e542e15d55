"""The compiled inner loops of a search, where this installation has them; else NumPy does the work.

Both give the same answers, bit for bit. `hatch_build.py` compiles `kernels.c` when Triptych is
installed; ``TRIPTYCH_PURE=1`` leaves what it made unused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from triptych._internal.turns import SEARCHES

T = TypeVar("T")

# As in `kernels.c`: a file that an older checkout compiled takes other arguments.
VERSION = 8


def _load() -> tuple[Any, str]:
    if os.environ.get("TRIPTYCH_PURE", "") not in ("", "0"):
        return None, "NumPy (TRIPTYCH_PURE is set)"
    try:
        found: Any = import_module("triptych_backends.index._kernels")
    except ModuleNotFoundError:
        return None, "NumPy (nothing was compiled when Triptych was installed)"
    except ImportError as error:
        return None, f"NumPy (what was compiled cannot be loaded: {error})"
    if found.VERSION != VERSION:
        return None, "NumPy (what was compiled is of another version: install Triptych again)"
    # Of what was compiled for several kinds of processor, the best that this one has.
    return found, f"compiled ({found.use('')})"


compiled, in_use = _load()
"""The compiled module, None for NumPy; and which of the two is in use, and why."""

LONG = 100_000
"""Over more rows than these a kernel takes longer than handing a turn on costs."""


def run(kernel: Callable[..., T], rows: int, *arguments: Any) -> T:
    """What a kernel answers over so many rows; while a long one runs, others may search.

    A kernel does not hold the interpreter's lock.
    """
    if rows <= LONG:
        return kernel(*arguments)
    with SEARCHES.given_up():
        return kernel(*arguments)
