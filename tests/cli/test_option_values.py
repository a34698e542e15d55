"""Plain values are converted without pydantic, to what Typer makes of them with it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperOption

from support.rows import each_row
from triptych_adapters.cli.command import convert_plainly


class Color(StrEnum):
    RED = "red"
    DARK_BLUE = "dark-blue"


def command(
    text: str = "",
    count: int = 1,
    page: Annotated[int, typer.Option(min=1, max=50)] = 1,
    near: Annotated[int, typer.Option(min=1, max=50, clamp=True)] = 1,
    share: float = 0.5,
    color: Color = Color.RED,
    any_case: Annotated[Color, typer.Option(case_sensitive=False)] = Color.RED,
    maybe: Annotated[str | None, typer.Option()] = None,
    parsed: Annotated[int, typer.Option(parser=lambda text: int(text, 16))] = 0,
    words: Annotated[list[str] | None, typer.Argument()] = None,
    numbers: Annotated[list[int] | None, typer.Option()] = None,
    colors: Annotated[list[Color] | None, typer.Option()] = None,
    flag: bool = False,
) -> None:
    """Do nothing."""


def parameters() -> dict[str, Any]:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    made = typer.main.get_command(app).params
    return {str(each.name): each for each in made if isinstance(each, TyperOption | TyperArgument)}


VALUES: list[Any] = [None, "", "a", "red", "RED", "dark-blue", "DARK_BLUE", Color.RED]
VALUES += ["0", "1", "007", "50", "51", "-3", "+3", " 3 ", "3.0", "1e3", "1_000", "٣", "9" * 30]
VALUES += [0, 1, 51, True, 2.5, 3.0, b"red", (), [], ["a"], ("a", "b"), ["1", 2], ["red"], ["x", 1]]


def outcome(parameter: Any, value: Any) -> tuple[type, Any]:
    context = typer.Context(typer.main.get_command(typer.Typer(callback=command)))
    try:
        found = parameter.get_runtime_param().coerce(value, param=parameter, ctx=context)
    except Exception as error:  # noqa: BLE001 - whatever Typer raises
        # Ours leaves out pydantic's words, which say nothing to a person.
        return type(error), str(error).removeprefix("Value error, ")
    return type(found), found


@each_row("name", sorted(parameters()))
def test_a_value_is_what_typer_makes_of_it(name: str) -> None:
    theirs, ours = parameters()[name], parameters()[name]
    convert_plainly(ours)
    for value in VALUES:
        assert outcome(ours, value) == outcome(theirs, value), value


def test_a_typer_that_converts_in_another_way_is_left_alone() -> None:
    class Other:
        """A parameter of a Typer without `get_runtime_param`."""

    other = Other()
    convert_plainly(other)
    assert vars(other) == {}
