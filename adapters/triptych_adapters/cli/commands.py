"""The commands, each imported when it is run or listed."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

import typer
from typer.core import TyperGroup

from triptych_adapters.cli.plain_help import PlainGroup
from triptych_adapters.cli.query_words import excluded_words_last

__all__ = ["COMMANDS", "LazyGroup"]

_MODULES = {
    "init": ("init",),
    "put": ("put",),
    "roots": ("add", "roots", "remove"),
    "sync": ("sync",),
    "watch": ("watch",),
    "follow": ("follow",),
    "search": ("search",),
    "ask": ("ask",),
    "context": ("context",),
    "pipelines": ("pipelines",),
    "read": ("get", "list"),
    "tag": ("count", "tag"),
    "history": ("history", "diff", "restore"),
    "changes": ("changes",),
    "maintain": ("create", "rebuild", "embed", "delete"),
    "spaces": ("spaces",),
    "work": ("work",),
    "status": ("status",),
    "doctor": ("doctor",),
    "transfer": ("import", "export"),
    "stores": ("copy", "backup"),
    "keys": ("keys",),
    "mcp": ("mcp",),
    "fetch": ("fetch",),
    "layers": ("layers",),
    "evaluate": ("eval",),
    "serve": ("serve",),
}

COMMANDS: Mapping[str, str] = MappingProxyType(
    {name: module for module, names in _MODULES.items() for name in names}
)
"""The module of this package that registers each command, in the order of the help page."""


class _Commands(UserDict[str, Any]):
    """Typer's commands by name, each made when it is read."""

    def __getitem__(self, name: str) -> Any:
        return _group_of(self.data[name]).commands[name]


class LazyGroup(PlainGroup):
    """A group of `COMMANDS`: to run one of them costs no import of the others."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands(COMMANDS)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, a query's exclusions as words."""
        return list(super().parse_args(ctx, excluded_words_last(args)))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands; none is imported."""
        return [*COMMANDS]


@cache
def _group_of(module: str) -> TyperGroup:
    """What ``module`` registers. Cached: some modules add to a group of their own."""
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    import_module(f"triptych_adapters.cli.{module}").register(app)
    return typer.main.get_group(app)
