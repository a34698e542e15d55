"""Documentation that is written once: a method that passes on to another has its docstring too."""

from __future__ import annotations

import inspect
import re

_REFERENCE = re.compile(r"`\w+\.(\w+)`")


def share_docs(target: type, source: type) -> None:
    """Append to each docstring of ``target`` that begins with `Source.name` that method's own."""
    for method in vars(target).values():
        if not inspect.isfunction(method) or not method.__doc__:
            continue
        found = _REFERENCE.match(method.__doc__)
        original = None if found is None else getattr(source, found[1], None)
        if original is not None and original.__doc__:
            method.__doc__ = f"{method.__doc__}\n\n{inspect.cleandoc(original.__doc__)}"
