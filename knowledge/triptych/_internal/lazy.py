"""Packages whose names are imported at first use."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_IMPORT = re.compile(r"^from (\S+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_NAME = re.compile(r"\bas (\w+)")


def lazy_exports(
    package: str, file: str
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of ``package``, whose module is ``file``.

    The names come from the stub beside ``file``, from lines such as ``from a.b import C as C``:
    type checkers read the same lines, so that each name is written once (as SPEC 1 has it).
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {
        name: module
        for module, several, one in _IMPORT.findall(stub)
        for name in _NAME.findall(several or one)
    }
    # Constants, then classes, then functions: the order of the linter.
    names = sorted(homes, key=lambda name: (not name.isupper(), not name[0].isupper(), name))

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return names, get, listed
