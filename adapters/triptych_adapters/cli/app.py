"""The command's root: global options, and the commands below it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from triptych_adapters.cli import (
    context,
    doctor,
    evaluate,
    history,
    layers,
    maintain,
    put,
    read,
    search,
    status,
    sync,
    tag,
    watch,
)
from triptych_adapters.cli.exits import describe
from triptych_adapters.cli.session import GLOBAL_OPTIONS, Globals, examples, prose, take_options

__all__ = ["app", "main"]

SETTINGS = """Settings come from options, then TRIPTYCH_* variables (TRIPTYCH_URL,
TRIPTYCH_EMBEDDER, …), then the nearest triptych.toml. `triptych status` shows each with its
source. Piped, tables become tab-separated lines; --json gives one JSON object."""

START = examples("triptych put docs/", "triptych search how do I start", "triptych status")

app = typer.Typer(
    name="triptych",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _module in (
    put,
    sync,
    watch,
    search,
    context,
    read,
    history,
    layers,
    maintain,
    tag,
    status,
    doctor,
    evaluate,
):
    _module.register(app)


def _version(value: bool) -> None:
    if value:
        from triptych import __version__

        typer.echo(f"triptych {__version__}")
        raise typer.Exit


def _root(ctx: typer.Context, version: bool, **options: Any) -> None:
    """A knowledge base in a file: put documents in, find the right text again.

    Documents are versioned, cut into chunks, embedded and searched by keyword and by meaning;
    every hit says where it comes from and whether it is still fresh.
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


def main() -> None:
    """Run the command line of this process."""
    app(prog_name="triptych")
