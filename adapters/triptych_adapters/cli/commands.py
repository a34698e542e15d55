"""The commands, each imported when it is run or listed."""

from __future__ import annotations

from collections import UserDict
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from triptych_adapters.cli.plain_help import PlainGroup
from triptych_adapters.cli.query_words import excluded_words_last

__all__ = ["COMMANDS", "LazyGroup"]

_PANELS = {
    "Put documents in": "init add@roots put sync watch roots remove@roots import@transfer follow "
    "create@maintain",
    "Find and read": "search ask context get@read list@read count@tag history diff@history changes",
    "Change and delete": "tag restore@history delete@maintain",
    "Keep it well": "status doctor rebuild@maintain embed@maintain work layers spaces fetch",
    "Measure": "eval@evaluate pipelines",
    "Copy and move": "backup@stores copy@stores export@transfer",
    "Serve": "serve mcp keys",
}
"""The commands in the order of the help page, by what people do; ``@`` names the module of this
package that registers one, where it is not of the command's name."""

_PLACES = {
    name: (module or name, panel)
    for panel, words in _PANELS.items()
    for name, _, module in (word.partition("@") for word in words.split())
}
"""Of each command, the module that registers it and its panel."""

COMMANDS = tuple(_PLACES)
"""The names of all commands, in the order of the help page."""

_MEANT = {
    **dict.fromkeys(("find", "query", "grep"), "`triptych search`"),
    **dict.fromkeys(("show", "cat"), "`triptych get`"),
    "rm": "`triptych delete`, of a folder that was added `triptych remove`",
    "index": "`triptych add FOLDER`, or `triptych put` for files once",
    "version": "`triptych --version`, of documents `triptych history`",
}


class _Commands(UserDict[str, Any]):
    """Typer's commands by name, each made when it is read."""

    def __getitem__(self, name: str) -> Any:
        module, panel = self.data[name]
        command: Any = _group_of(module).commands[name]
        command.rich_help_panel = panel
        return command


class LazyGroup(PlainGroup):
    """A group of all commands: to run one of them costs no import of the others."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands(_PLACES)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, a query's exclusions as words."""
        return list(super().parse_args(ctx, excluded_words_last(args)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named; what another program calls so is suggested."""
        if args and args[0] in _MEANT:
            ctx.fail(f"there is no command {args[0]!r}: did you mean {_MEANT[args[0]]}?")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands; none is imported."""
        return [*COMMANDS]


@cache
def _group_of(module: str) -> TyperGroup:
    """The commands of ``module``."""
    return typer.main.get_group(import_module(f"triptych_adapters.cli.{module}").app)
