"""The command's root: global options, and the commands below it."""

from __future__ import annotations

from typing import Annotated

import typer

from triptych_adapters.cli import layers, maintain, put, read, search, status
from triptych_adapters.cli.exits import describe
from triptych_adapters.cli.session import GLOBAL_OPTIONS, Globals

__all__ = ["app", "main"]

SETTINGS = """Settings come from options, then TRIPTYCH_* variables (TRIPTYCH_URL,
TRIPTYCH_EMBEDDER, …), then the nearest triptych.toml. `triptych status` shows each with its
source. Piped, tables become tab-separated lines; --json gives one JSON object."""

START = """Start here:

  triptych put docs/

  triptych search how do I start

  triptych status"""

app = typer.Typer(
    name="triptych",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
