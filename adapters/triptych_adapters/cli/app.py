"""The root command: the table of commands, each imported when it is run or listed."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from triptych_adapters.cli.command import (
    GLOBAL_OPTIONS,
    PlainGroup,
    examples,
    made,
    prose,
    take_options,
)
from triptych_adapters.cli.session import Globals, describe

PANELS = {
    "Add and change knowledge": "init@roots add@roots put sync@roots watch remove@roots "
    "import@copies.import_ tag@maintain delete@maintain",
    "Find and read": "search similar@search related@search impact ask context get@read "
    "list@read.list_",
    "See what is fresh": "status history diff@history changes@history rebuild@maintain "
    "embed@maintain layers",
    "Evaluate": "eval",
    "Serve": "serve console@serve mcp@serve install@agents uninstall@agents",
    "Keep safe": "trust doctor@status backup@copies copy@copies export@copies restore@history",
    "Administer": "admin",
}
"""The commands in the order of the help page, by what people do. ``@`` names the module of this
package that has one, and its function there, where they are not of the command's name."""

GROUPS = {
    "layers": (
        "Build and show abstracts (L0) and overviews (L1).",
        "show@layers build@layers ledger@layers",
    ),
    "eval": (
        "Measure the quality of searches and answers.",
        "retrieval@evaluate_retrieval compare@evaluate_retrieval rag@evaluate_answers "
        "calibrate@evaluate_answers questions@evaluate_answers log@evaluate_answers",
    ),
    "admin": (
        "Manage keys, reviews and embedders, create datasets, download data.",
        "keys review@admin proposals create@admin fetch@admin",
    ),
    "admin keys": (
        "Manage the keys of clients of a served knowledge base.",
        "add@admin list@admin.list_keys revoke@admin",
    ),
    "admin proposals": (
        "List and decide on what agents propose in reviewed datasets.",
        "list@proposals.list_proposals show@proposals approve@proposals refuse@proposals",
    ),
}
"""What is a group of commands: what it is for, and its commands."""

COMMANDS = tuple(word.partition("@")[0] for words in PANELS.values() for word in words.split())
"""The names of all commands and groups, in the order of the help page."""

_MEANT = {
    **dict.fromkeys(("find", "query", "grep"), "`triptych search`"),
    **dict.fromkeys(("show", "cat"), "`triptych get`"),
    "rm": "`triptych delete`, of a folder that was added `triptych remove`",
    "index": "`triptych add FOLDER`, or `triptych put` for files once",
    "count": "`triptych list --count`",
    **{each: f"`triptych list --{each}`" for each in ("datasets", "folders", "pipelines")},
    **{
        each: f"`triptych admin {each}`"
        for each in ("create", "fetch", "keys", "proposals", "review")
    },
    "version": "`triptych --version`, of documents `triptych history`",
    **dict.fromkeys(("open", "edit"), "`triptych search WORDS --open`, which opens the best hit"),
    "help": "`triptych -h`, of one command `triptych COMMAND -h`",
    **dict.fromkeys(("config", "settings"), "`triptych status`, which shows all settings"),
    **dict.fromkeys(("upgrade", "update"), "`pipx upgrade triptych`, or `pip install -U`"),
}


class _Commands(UserDict[str, Any]):
    """Typer's commands by name, each made when it is read."""

    def __init__(self, group: str, panels: Mapping[str, str]) -> None:
        super().__init__()
        self._group = group
        for panel, words in panels.items():
            for name, _, module in (word.partition("@") for word in words.split()):
                self.data[name] = (module or name, panel)

    def __getitem__(self, name: str) -> Any:
        module, panel = self.data[name]
        path = f"{self._group} {name}".strip()
        if path in GROUPS:
            help, words = GROUPS[path]
            found: Any = PlainGroup(
                name=name, help=help, no_args_is_help=True, rich_markup_mode="rich"
            )
            found.commands = _Commands(path, {"": words})
        else:
            module, _, function = module.partition(".")
            place = import_module(f"triptych_adapters.cli.{module}")
            found = made(name, getattr(place, function or name))
        found.rich_help_panel = panel or None
        return found


class _Root(PlainGroup):
    """The group of all commands: to run one of them costs no import of the others."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands("", PANELS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named; what another program calls so is suggested."""
        if args and args[0] in _MEANT:
            ctx.fail(f"there is no command {args[0]!r}: did you mean {_MEANT[args[0]]}?")
        return super().resolve_command(ctx, args)


SETTINGS = """Settings come from options, then TRIPTYCH_* variables (TRIPTYCH_URL,
TRIPTYCH_EMBEDDER, …), then the nearest triptych.toml. `triptych status` shows each with its
source. Piped, tables become tab-separated lines; --json gives one JSON object."""

START = examples("triptych put docs/", "triptych search how do I start", "triptych status")

app = typer.Typer(
    name="triptych",
    cls=_Root,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from triptych import __version__

        typer.echo(f"triptych {__version__}")
        raise typer.Exit


def _root(ctx: typer.Context, version: bool, **options: Any) -> None:
    """A knowledge base in a file: store documents and search them.

    Documents are versioned, cut into chunks, embedded and searched by keyword and by meaning; every
    hit has its source and tells whether it is still fresh.
    """
    ctx.obj = Globals(**options)


_VERSION = Annotated[
    bool,
    typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit."),
]
take_options(_root, {"version": (_VERSION, False), **GLOBAL_OPTIONS})
app.callback(
    epilog="\n\n".join([START, describe(), prose(SETTINGS)]), help=prose(_root.__doc__ or "")
)(_root)
