"""What every command shares: the global options, the opened Service, how errors end.

Global options may stand before or after the command's name; those after it win.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import attrs
import typer

from triptych_adapters.cli.exits import Exit, exit_for, hint_for
from triptych_adapters.cli.options import option
from triptych_adapters.cli.output import Output
from triptych_adapters.cli.plain_help import METAVARS, PlainCommand, PlainGroup
from triptych_adapters.cli.shell_text import shell_text

if TYPE_CHECKING:
    from triptych.service import Service
    from triptych_factory import Settings

__all__ = [
    "GLOBAL_OPTIONS",
    "Globals",
    "Session",
    "command",
    "conditions",
    "examples",
    "metadata_of",
    "new_app",
    "new_group",
    "pairs",
    "prose",
    "take_options",
]

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
            "memory://. By default the nearest one from here upwards, else the user's own.",
        ),
        (
            "embedder",
            str | None,
            None,
            "--embedder NAME",
            "local, local-multilingual, hash or none. By default what the store was filled with; "
            "for an empty one local, where installed.",
        ),
        ("as_json", bool, False, "--json", "Print one JSON object on stdout."),
        ("no_color", bool, False, "--no-color", "Print without colour."),
        ("quiet", bool, False, "--quiet -q", "Print only results, warnings and errors."),
    )
}


@attrs.frozen(kw_only=True, slots=True)
class Globals:
    """The global options as they were given."""

    store: str | None = None
    embedder: str | None = None
    as_json: bool = False
    no_color: bool = False
    quiet: bool = False

    def overlaid(self, later: Globals) -> Globals:
        """These options, and over them those that ``later`` gives."""
        given = {
            name: value
            for name, value in attrs.asdict(later).items()
            if value is not None and value is not False
        }
        return attrs.evolve(self, **given)


@attrs.frozen(kw_only=True, slots=True)
class Session:
    """One run of one command."""

    output: Output
    options: Globals

    def settings(self, **given: str | None) -> Settings:
        """The settings in force: options (and those ``given``), then environment, then file."""
        from triptych_factory import Settings

        embedder = None if self.options.embedder == "auto" else self.options.embedder
        return Settings.resolve({"url": self.options.store, "embedder": embedder, **given})

    @contextmanager
    def service(
        self,
        *,
        create: bool = False,
        settings: Settings | None = None,
        dataset: str = "",
        tells: bool = False,
        preload: bool = False,
        pipeline: str | None = None,
    ) -> Iterator[Service]:
        """The Service in force, closed at the block's end.

        It is without a language model, whose key may be missing, unless ``settings`` are given.
        The embedder is that of ``dataset``, unless a setting names one; a
        command that ``tells`` says where a search by meaning is not to be had. ``preload`` loads
        a local model meanwhile, for a command that will embed. Of the settings' pipelines it has
        ``pipeline``; a server has its own.
        """
        from triptych.search.pipeline_record import find_pipeline
        from triptych_factory import wire
        from triptych_factory.remote import is_server
        from triptych_factory.tables import for_pipeline

        settings = settings or self.settings().without_llm()
        named = () if pipeline is None else (pipeline,)
        # The pipelines of a server are its own: it says which there are.
        if pipeline is not None and not is_server(settings.url):
            settings = for_pipeline(settings, find_pipeline(settings.pipelines, pipeline))
        with wire(
            settings, create=create, dataset_id=dataset, preload=preload, named=named
        ) as service:
            yield service
            if tells:
                self.tell_embedder(service, settings)

    def tell_embedder(self, service: Service, settings: Settings) -> None:
        """Say how to search by meaning, where the store cannot be searched so.

        An embedder that is not semantic is named by every command. That there is none, where
        nobody chose it, is said once for each store: a setting of the store says that it was. A
        store without settings hears it each time.
        """
        from triptych.errors import StoreError
        from triptych.installation import install_command
        from triptych_factory.embedders import local_is_installed

        embedder = service.options.embedder
        if embedder is not None and "/not-semantic/" in embedder.signature:
            if not self.output.as_json:
                self.output.note(_not_semantic(settings))
            return
        if settings.embedder != "auto" or embedder is not None:
            return
        installed = local_is_installed()
        said = f"told.keyword-only.{'installed' if installed else 'base'}"
        kept = service.capabilities.settings
        if self.output.quiet or settings.read_only:
            return
        if kept is not None:
            if kept.get_setting(said) is not None:
                return
            with suppress(StoreError):  # a remark is not worth failing for
                kept.set_setting(said, "yes", expected=None)
        if installed:
            self.output.note(
                "note: searched by keyword; no vectors yet: `triptych embed` adds them"
            )
        else:
            self.output.note(
                "note: searched by keyword; to search by meaning too, "
                f"{install_command(extra='local')}, then `triptych embed`"
            )

    def perform(self, operation: str, /, **arguments: Any) -> Any:
        """Run one operation on the Service in force: what it answers.

        The table of operations says whether the store is created.
        """
        from triptych_adapters.wire.operations import OPERATIONS

        row = OPERATIONS[operation]
        with self.service(create=row.creates) as service:
            return row.run(service, **arguments)


def _not_semantic(settings: Settings) -> str:
    """The remark that the embedder is not semantic, and what to do about it."""
    from triptych_factory.remote import is_server

    remark = "note: the embedder 'hash' compares words, not meanings"
    if is_server(settings.url):
        return remark
    source = settings.sources.get("embedder", "argument")
    first = "" if source == "argument" else f"take it out of {source}, then "
    return f"{remark}: {first}`triptych rebuild --all --embedder local` replaces its vectors"


def examples(*lines: str) -> str:
    """A help page's end that shows how the command is used."""
    return "\n".join(["Examples:", *(f"$ {line}" for line in lines)])


def new_app() -> typer.Typer:
    """What the commands of a module are registered with."""
    return typer.Typer(
        rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False
    )


def new_group(app: typer.Typer, name: str, help: str) -> typer.Typer:
    """A group of commands in ``app``."""
    group = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode="rich")
    app.add_typer(group, name=name, help=help)
    return group


def command(
    app: typer.Typer, *shown: str, name: str = ""
) -> Callable[[Callable[..., Exit | None]], Callable[..., Exit | None]]:
    """Register ``function(session, …)`` as a command that takes the global options as well.

    It has the function's name, unless ``name`` is another; its help ends with the examples
    ``shown``. The function returns how it ended (None: well). Errors end the run with their exit
    code. A parameter that is an attrs class stands for its fields, each of them an option or
    argument.
    """

    def register(function: Callable[..., Exit | None]) -> Callable[..., Exit | None]:
        called = name or function.__name__.rstrip("_")

        @functools.wraps(function)
        def run(ctx: typer.Context, **arguments: Any) -> None:
            later = Globals(**{option: arguments.pop(option) for option in GLOBAL_OPTIONS})
            before = ctx.find_root().obj
            options = before.overlaid(later) if isinstance(before, Globals) else later
            full_name = " ".join(ctx.command_path.split()[1:]) or called
            for each, kind in groups.items():
                fields = {field.name: arguments.pop(field.name) for field in attrs.fields(kind)}
                arguments[each] = kind(**fields)
            raise typer.Exit(_run(function, full_name, options, arguments))

        hints = get_type_hints(function, include_extras=True)
        own = list(inspect.signature(function).parameters.values())[1:]
        groups = {each.name: hints[each.name] for each in own if attrs.has(hints[each.name])}
        options: dict[str, tuple[Any, Any]] = {}
        for each in own:
            if each.name in groups:
                options |= _fields_of(groups[each.name])
            else:
                options[each.name] = _described(each.name, hints[each.name], each.default)
        take_options(run, {**options, **GLOBAL_OPTIONS})
        app.command(
            called, cls=PlainCommand, help=prose(function.__doc__ or ""), epilog=examples(*shown)
        )(run)
        return function

    return register


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
    from triptych_adapters.cli import completion

    kind, info = get_args(annotation)
    info = copy(info)
    info.show_default = info.show_default and default not in _NOTHING
    if info.metavar is None:
        plain = [each for each in get_args(kind) or (kind,) if each is not type(None)]
        info.metavar = METAVARS.get(plain[0]) if len(plain) == 1 else None
    if name == "dataset":
        info.autocompletion = completion.complete_dataset
    elif info.metavar == "NAME" and name in _DOCUMENTS:
        info.autocompletion = completion.complete_document
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


def _run(
    function: Callable[..., Exit | None], name: str, options: Globals, arguments: dict[str, Any]
) -> Exit:
    output = Output(
        command=name, as_json=options.as_json, quiet=options.quiet, color=not options.no_color
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_: output.warn(str(message))
            ended = function(Session(output=output, options=options), **arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BROKEN_PIPE
    except typer.Abort:
        return _report(KeyboardInterrupt(), output)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - nobody else would tell
        return _report(error, output)
    return Exit.OK if ended is None else ended


def _report(error: BaseException, output: Output) -> Exit:
    """Tell of ``error``: a line on stderr, a JSON object, a traceback where one is asked for."""
    from triptych.errors import TriptychError
    from triptych_adapters.wire.errors import error_json
    from triptych_factory.settings import debug_requested

    code = exit_for(error)
    if isinstance(error, KeyboardInterrupt):
        message = "interrupted; what was committed stays"
    elif isinstance(error, TriptychError):
        message = str(error)
    else:
        message = f"{type(error).__name__}: {error}"
    if debug_requested():
        traceback.print_exception(error)
    if output.as_json:
        told = error_json(error) | {"message": shell_text(message), "exit_code": int(code)}
        output.emit({"error": told})
    output.error(message, hint=hint_for(error))
    return code


_COMPARISON = re.compile("[<>!]$")
_OPERATORS = {">": "$gte", "<": "$lte", "!": "$ne"}


def conditions(values: Sequence[str], option: str) -> dict[str, Any]:
    """The ``where`` of ``KEY=VALUE`` options and JSON objects, all of which must hold. A key that
    comes several times may have any of its values."""
    from triptych.errors import ValidationError

    plain, objects = _parted(values, option)
    several = pairs(plain, option)
    for key in several:
        sign = _COMPARISON.search(key)
        if sign:
            name = key[: sign.start()].strip()
            raise ValidationError(
                f"{option} {key}=… is not KEY=VALUE: a comparison is written as JSON, such as "
                f'\'{{"{name}": {{"{_OPERATORS[sign[0]]}": …}}}}\''
            )
    where: dict[str, Any] = {
        key: found[0] if len(found) == 1 else found for key, found in several.items()
    }
    if where:
        objects.insert(0, where)
    return objects[0] if len(objects) == 1 else {"$and": objects} if objects else {}


def metadata_of(values: Sequence[str], option: str) -> dict[str, Any]:
    """The metadata of ``KEY=VALUE`` options, whose values are text, and JSON objects."""
    from triptych.errors import ValidationError

    plain, objects = _parted(values, option)
    given = [{key: value} for key, found in pairs(plain, option).items() for value in found]
    metadata: dict[str, Any] = {}
    for entries in [*given, *objects]:
        for key, value in entries.items():
            if key in metadata:
                raise ValidationError(f"{option} gives {key!r} several times: give it once")
            metadata[key] = value
    return metadata


def _parted(values: Sequence[str], option: str) -> tuple[list[str], list[dict[str, Any]]]:
    """``KEY=VALUE`` options, and those that are JSON objects."""
    from triptych.errors import ValidationError

    plain, objects = [], []
    for value in values:
        if not value.lstrip().startswith("{"):
            plain.append(value)
            continue
        try:
            objects.append(json.loads(value, object_pairs_hook=_unique_keys))
        except ValidationError as error:
            raise ValidationError(f"{option} {value[:60]!r} {error}") from None
        except RecursionError:
            raise ValidationError(f"{option} {value[:60]!r} is nested too deeply") from None
        except ValueError as error:
            raise ValidationError(
                f"{option} {value[:60]!r} is not a JSON object: {error}"
            ) from None
    return plain, objects


def _unique_keys(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, of which Python would keep the last of several values for a key."""
    from triptych.errors import ValidationError

    found: dict[str, Any] = {}
    for key, value in entries:
        if key in found:
            raise ValidationError(f"gives {key!r} several times: give it once")
        found[key] = value
    return found


def pairs(values: Sequence[str], option: str) -> dict[str, list[str]]:
    """``KEY=VALUE`` options by key, every value in the order given."""
    from triptych.errors import ValidationError

    found: dict[str, list[str]] = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not equals or not key:
            raise ValidationError(f"{option} {value!r} is not KEY=VALUE")
        found.setdefault(key, []).append(rest)
    return found
