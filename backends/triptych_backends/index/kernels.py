"""The compiled inner loops of a search, where this installation has them; else NumPy does the work.

Both give the same answers, bit for bit. `hatch_build.py` compiles `kernels.c` when Triptych is
installed; ``TRIPTYCH_PURE=1`` leaves what it made unused.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

# As in `kernels.c`: a file that an older checkout compiled takes other arguments.
VERSION = 2


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
