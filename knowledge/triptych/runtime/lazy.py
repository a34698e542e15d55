"""Packages whose names are imported at first use."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

_IMPORT = re.compile(r"^from (\S+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_NAME = re.compile(r"\bas (\w+)")
_LISTED = re.compile(r"^__all__ = \[[^\]]*\]|\b(\w+) as \1\b", re.MULTILINE)
_DEFINED = re.compile(r"^(?:class|def) \w+", re.MULTILINE)
_PACKAGES = (
    *("triptych", "triptych_evaluation", "triptych_testing", "triptych_factory"),
    *("triptych_backends", "triptych_models", "triptych_parsers", "triptych_providers"),
    *("triptych_sources", "triptych_postgres", "triptych_qdrant", "triptych_inplace"),
    *("triptych_adapters", "triptych_impact", "triptych_server", "triptych_frameworks"),
)
_PRIVATE = re.compile(
    r"\._|__pycache__|_backends\.(index|sql)\b|_adapters\.cli\b|_server\.console\b"
)


def _home_of(package: str, name: str) -> str:
    """The module of a public ``name``; "" for none, and for a module of ``package``."""
    from importlib.util import find_spec

    return "" if find_spec(f"{package}.{name}") else _homes().get(name, "")


@cache
def _homes() -> dict[str, str]:
    """The module of each public name: the first that lists it, else that defines it."""
    homes: dict[str, str] = {}
    specs = [spec for each in _PACKAGES if (spec := find_spec(each)) is not None]
    roots = [Path(path) for spec in specs for path in spec.submodule_search_locations or ()]
    files = [(each, root) for root in roots for each in sorted(root.rglob("*.py*"))]
    for pattern, (file, root) in product((_LISTED, _DEFINED), files):
        parts = file.relative_to(root.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        if not _PRIVATE.search(module):
            found = " ".join(m[0] for m in pattern.finditer(file.read_text(encoding="utf-8")))
            homes |= {name: module for name in re.findall(r"\w+", found) if name not in homes}
    return homes


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
            said = f"module {package!r} has no attribute {name!r}"
            home = "" if name.startswith("_") else _home_of(package, name)
            if not home:
                raise AttributeError(said)
            # `from … import` asks by hasattr, and would drop the words of an AttributeError.
            asks = sys._getframe(1).f_globals.get("__name__")
            error = ImportError if asks == "importlib._bootstrap" else AttributeError
            raise error(f"{said}: use `from {home} import {name}`")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return names, get, listed
