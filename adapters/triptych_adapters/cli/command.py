"""Commands as functions, whose options and arguments Typer parses and shows.

Global options may stand before or after the command's name; those after it win.

Typer converts every value with pydantic, whose import and whose schemas cost more than the rest
of reading a command line. The usual values are plain: text, a choice as it is spelt, a whole
number, a default. Everything else, and so every invalid value, goes to Typer's own converter,
which says what is wrong.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import takewhile
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from triptych.errors import TriptychError
from triptych_adapters.cli.session import Exit, Globals, run

if TYPE_CHECKING:
    from triptych.service import KnowledgeBase

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


_MEANT = {"--limit": "--top-k", "--top-k": "--limit"}
"""Options of other commands for the same thing."""


class PlainCommand(_PlainHelp, TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; what another command calls an option is suggested."""
        own = {flag for each in self.get_params(ctx) for flag in each.opts}
        for given in takewhile(lambda each: each != "--", args):
            flag = given.partition("=")[0]
            if flag not in own and (meant := _MEANT.get(flag)) in own:
                ctx.fail(f"there is no option {flag}: did you mean {meant}?")
        return list(super().parse_args(ctx, args))


class PlainGroup(_PlainHelp, TyperGroup):
    """A group of commands, which are made when they are read."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands; none is imported."""
        return [*self.commands]


class _PlainConverter:
    """The converter of one parameter: plain values here, others by ``others``.

    It takes the place of `get_runtime_param`, whose call returns it.
    """

    def __init__(self, parameter: Any, others: Callable[[], Any]) -> None:
        described = parameter.type_descriptor
        self._annotation = described.annotation
        self._info = described.parameter_info
        self._multiple = parameter.multiple or parameter.nargs == -1
        self._others = others

    def __call__(self) -> _PlainConverter:
        return self

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """``value`` as the parameter's type, as `typer._coercion.RuntimeParam.coerce` has it."""
        converted = self._convert(value)
        if converted is not _OTHER:
            return converted
        try:
            return self._others().coerce(value, param=param, ctx=ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's words
            raise

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
        if get_origin(kind) is Literal and value in get_args(kind):
            return value
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
    if isinstance(others, _PlainConverter) or not callable(others):
        return
    if hasattr(described, "annotation") and hasattr(described, "parameter_info"):
        parameter.get_runtime_param = _PlainConverter(parameter, others)


PANEL = "Global options"

GLOBAL_OPTIONS: dict[str, tuple[Any, Any]] = {
    name: (Annotated[kind, option(*said, rich_help_panel=PANEL, show_default=False)], default)
    for name, kind, default, *said in (
        (
            "store",
            str | None,
            None,
            "--store -s URL",
            "The knowledge base: a path such as ./kb.db, sqlite:///PATH, files:///DIR or "
            "memory://. By default the nearest store in this folder or above, else the user's.",
        ),
        (
            "embedder",
            str | None,
            None,
            "--embedder NAME",
            "local, local-multilingual, hash or none. By default the embedder of the store's "
            "vectors; for an empty store local, if installed.",
        ),
        ("as_json", bool, False, "--json", "Print one JSON object on stdout."),
        ("no_color", bool, False, "--no-color", "Print without colour."),
        ("quiet", bool, False, "--quiet -q", "Print only results, warnings and errors."),
    )
}


def examples(*lines: str) -> str:
    """A help page's end that shows how the command is used."""
    return "\n".join(["Examples:", *(f"$ {line}" for line in lines)])


F = TypeVar("F", bound=Callable[..., Exit | None])

_EXAMPLES: dict[Callable[..., Exit | None], str] = {}


def command(*shown: str) -> Callable[[F], F]:
    """Mark ``function(session, …)`` as a command, whose help ends with the examples ``shown``.

    The function returns how it ended (None: well). Errors end the run with their exit code. A
    parameter that is an attrs class stands for its fields, each of them an option or argument.
    """

    def mark(function: F) -> F:
        _EXAMPLES[function] = examples(*shown)
        return function

    return mark


def made(name: str, function: Callable[..., Exit | None]) -> Any:
    """Typer's command ``name`` that runs ``function``, and takes the global options as well."""

    @functools.wraps(function)
    def callback(ctx: typer.Context, **arguments: Any) -> None:
        later = Globals(**{option: arguments.pop(option) for option in GLOBAL_OPTIONS})
        before = ctx.find_root().obj
        options = before.overlaid(later) if isinstance(before, Globals) else later
        full_name = " ".join(ctx.command_path.split()[1:]) or name
        for each, kind in groups.items():
            fields = {field.name: arguments.pop(field.name) for field in attrs.fields(kind)}
            arguments[each] = kind(**fields)
        raise typer.Exit(run(function, full_name, options, arguments))

    hints = get_type_hints(function, include_extras=True)
    own = list(inspect.signature(function).parameters.values())[1:]
    groups = {each.name: hints[each.name] for each in own if attrs.has(hints[each.name])}
    options: dict[str, tuple[Any, Any]] = {}
    for each in own:
        if each.name in groups:
            options |= _fields_of(groups[each.name])
        else:
            options[each.name] = _described(each.name, hints[each.name], each.default)
    take_options(callback, {**options, **GLOBAL_OPTIONS})
    alone = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
    )
    alone.command(
        name,
        cls=_QueryCommand if "query" in options else PlainCommand,
        help=prose(function.__doc__ or ""),
        epilog=_EXAMPLES[function],
    )(callback)
    return typer.main.get_command(alone)


class _QueryCommand(PlainCommand):
    """A command with a query, of which words may begin with a minus."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, a query's exclusions as words."""
        valued = {
            flag
            for each in self.get_params(ctx)
            if isinstance(each, TyperOption) and not each.is_flag
            for flag in each.opts
        }
        return list(super().parse_args(ctx, excluded_words_last(args, valued)))


_EXCLUDED = re.compile(
    r"-(?![A-Za-z]\d+$)(?:[^\W\d][\w.'’/+#-]+\*?|\d[\w.-]+\*|\"[^\"]+\"|[^-\s].*\s.*)", re.DOTALL
)


def excluded_words_last(arguments: Sequence[str], valued: Container[str]) -> list[str]:
    """``arguments`` with the exclusions of a query after ``--``, where everything is words.

    To a parser ``failed -draft`` has the option ``-d raft``. ``-k3`` and ``-wlang=en`` stay
    options; ``-draft``, ``-dra*``, ``-"a phrase"`` and an argument with a space are words, but for
    those that follow one of the options ``valued``.
    """
    given = list(arguments)
    if "--" in given:
        return given
    words = [
        at
        for at, each in enumerate(given)
        if (at == 0 or given[at - 1] not in valued) and _EXCLUDED.fullmatch(each)
    ]
    if not words:
        return given
    kept = [each for at, each in enumerate(given) if at not in words]
    return [*kept, "--", *(given[at] for at in words)]


def _fields_of(kind: type) -> dict[str, tuple[Any, Any]]:
    """The annotation and default of each field of an attrs class."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: _described(field.name, hints[field.name], field.default)
        for field in attrs.fields(kind)
    }


_DOCUMENTS = frozenset(("name", "names", "document", "doc"))
"""Parameters that take names of documents."""


_NOTHING = (None, "", inspect.Parameter.empty, attrs.NOTHING)
"""Defaults that help does not show, as they say nothing."""


def _described(name: str, annotation: Any, default: Any) -> tuple[Any, Any]:
    """``annotation`` with what help calls its value, and what the shell offers at a Tab; and the
    default."""
    kind, info = get_args(annotation)
    info = copy(info)
    info.show_default = info.show_default and default not in _NOTHING
    if info.metavar is None:
        plain = [each for each in get_args(kind) or (kind,) if each is not type(None)]
        info.metavar = METAVARS.get(plain[0]) if len(plain) == 1 else None
    if name == "dataset":
        info.autocompletion = _complete_dataset
    elif info.metavar == "NAME" and name in _DOCUMENTS:
        info.autocompletion = _complete_document
    return Annotated[kind, info], inspect.Parameter.empty if default is attrs.NOTHING else default


def take_options(function: Callable[..., None], options: Mapping[str, tuple[Any, Any]]) -> None:
    """Give ``function(ctx, **options)`` a signature that names the options, for Typer to read.

    ``options`` maps a name to its annotation and default.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        *(
            inspect.Parameter(name, keyword, annotation=annotation, default=default)
            for name, (annotation, default) in options.items()
        ),
    ]
    # Typer reads both, the one for order and defaults, the other for types.
    signature = inspect.Signature(parameters)
    function.__signature__ = signature  # type: ignore[attr-defined]  # any function takes it
    function.__annotations__ = {each.name: each.annotation for each in parameters}


def prose(text: str) -> str:
    """``text`` with each paragraph on one line, for the terminal's width to wrap."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


_MOST = 200
"""Names that are offered; a shell asks before it lists as many."""


def _complete_dataset(ctx: typer.Context, incomplete: str) -> list[str]:
    """The datasets that begin so; none where there is no store, or it cannot be opened."""
    with _opened(ctx) as service:
        if service is None:
            return []
        return [name for name in service.list_datasets() if name.startswith(incomplete)]


def _complete_document(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of documents that begin so, in the dataset that is named or in all of them."""
    with _opened(ctx) as service:
        if service is None:
            return []
        named = ctx.params.get("dataset")
        datasets: Sequence[str] = [named] if named else service.list_datasets()
        found = {
            info.name
            for each in datasets
            for info in service.list_documents(each, prefix=incomplete, limit=_MOST)
        }
        return sorted(found)[:_MOST]


@contextmanager
def _opened(ctx: typer.Context) -> Iterator[KnowledgeBase | None]:
    """The store of the command line, read only; None for any trouble: a Tab shows no errors."""
    from triptych_factory import Settings, wire

    store = ctx.params.get("store") or ctx.find_root().params.get("store")
    try:
        settings = Settings.resolve(
            {"url": store, "embedder": "none", "llm": "none", "read_only": True}
        )
        service = wire(settings, create=False)
    except (TriptychError, OSError):
        yield None
        return
    with service:
        yield service
