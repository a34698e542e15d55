"""How commands declare their options and arguments, and how Typer shows and converts them.

Typer converts every value with pydantic, whose import and whose schemas cost more than the rest
of reading a command line. The usual values are plain: text, a choice as it is spelt, a whole
number, a default. Everything else, and so every invalid value, goes to Typer's own converter,
which says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

METAVARS: dict[object, str] = {bool: "", int: "N", float: "NUMBER", str: "NAME"}
"""What an option's value is called where nobody says; a flag has none."""

_WHOLE = re.compile(r"[0-9]{1,9}")
_OTHER = object()
"""A value that Typer must convert."""


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


class _PlainHelp:
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


class PlainCommand(_PlainHelp, TyperCommand):
    """A command."""


class PlainGroup(_PlainHelp, TyperGroup):
    """A group of commands, which are made when they are read."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands; none is imported."""
        return [*self.commands]


class _PlainConverter:
    """The converter of one parameter: plain values here, others by ``others``."""

    def __init__(self, parameter: Any, others: Callable[[], Any]) -> None:
        described = parameter.type_descriptor
        self._annotation = described.annotation
        self._info = described.parameter_info
        self._multiple = parameter.multiple or parameter.nargs == -1
        self._others = others

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """``value`` as the parameter's type, as `typer._coercion.RuntimeParam.coerce` has it."""
        converted = self._convert(value)
        if converted is not _OTHER:
            return converted
        return self._others().coerce(value, param=param, ctx=ctx)

    def _convert(self, value: Any) -> Any:
        if value is None:
            return () if self._multiple else None
        if self._info.parser is not None:
            return _OTHER
        if get_origin(self._annotation) is not list:
            return _OTHER if self._multiple else self._one(value, self._annotation)
        if not isinstance(value, list | tuple):
            return _OTHER
        (kind,) = get_args(self._annotation)
        values = [self._one(each, kind) for each in value]
        return _OTHER if any(each is _OTHER for each in values) else values

    def _one(self, value: Any, kind: Any) -> Any:
        if kind is str:
            return value if type(value) is str else _OTHER
        if kind is int:
            return self._whole(value)
        if isinstance(kind, type) and issubclass(kind, Enum):
            if isinstance(value, kind):
                return value
            return next((each for each in kind if each.value == value), _OTHER)
        return _OTHER

    def _whole(self, value: Any) -> Any:
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            value = int(value)
        if type(value) is not int:
            return _OTHER
        low, high = self._info.min, self._info.max
        inside = (low is None or value >= low) and (high is None or value <= high)
        return value if inside else _OTHER


def convert_plainly(parameter: Any) -> None:
    """Let ``parameter``, a Typer option or argument, convert plain values without pydantic.

    A Typer that converts in another way than 0.29 is left as it is.
    """
    others = getattr(parameter, "get_runtime_param", None)
    described = getattr(parameter, "type_descriptor", None)
    if isinstance(others, _Lookup) or not callable(others):
        return
    if hasattr(described, "annotation") and hasattr(described, "parameter_info"):
        parameter.get_runtime_param = _Lookup(_PlainConverter(parameter, others))


class _Lookup:
    """What `get_runtime_param` is for a parameter: it returns the converter."""

    def __init__(self, converter: _PlainConverter) -> None:
        self._converter = converter

    def __call__(self) -> _PlainConverter:
        return self._converter
