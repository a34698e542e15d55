"""Commands whose help has no noise of types, and whose plain values need no pydantic."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from triptych_adapters.cli.option_values import convert_plainly

__all__ = ["METAVARS", "PlainCommand", "PlainGroup", "PlainHelp"]

METAVARS: dict[object, str] = {bool: "", int: "N", float: "NUMBER", str: "NAME"}
"""What an option's value is called where nobody says; a flag has none."""


class PlainHelp:
    """Mixed into Typer's commands: their parameters are shown by what they are called."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, ``--help`` among them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # the command's own
        for each in params:
            if isinstance(each, TyperOption | TyperArgument):
                convert_plainly(each)
            if isinstance(each, TyperOption) and each.is_flag:
                each.metavar = ""
            elif isinstance(each, TyperArgument):
                # The name in front says it; the type would be Python's.
                each.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # Typer has no option for it
        return params


class PlainCommand(PlainHelp, TyperCommand):
    """A command."""


class PlainGroup(PlainHelp, TyperGroup):
    """A group of commands."""
