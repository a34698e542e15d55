"""How commands declare their options and arguments, and those that several of them share."""

from __future__ import annotations

from typing import Any

import typer

__all__ = ["argument", "option"]


def option(usage: str, help: str, **others: Any) -> Any:
    """An option that is written as ``usage``: its flags, then what its value is called.

    ``others`` are further arguments of `typer.Option`, such as ``min``.
    """
    words = usage.split()
    flags = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(flags) :]) or None
    return typer.Option(*flags, metavar=metavar, help=help, **others)


def argument(metavar: str, help: str, **others: Any) -> Any:
    """An argument that help calls ``metavar``; ``others`` as for `option`."""
    return typer.Argument(metavar=metavar or None, help=help, **others)
