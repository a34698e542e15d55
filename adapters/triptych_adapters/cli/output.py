"""What the command prints: results on stdout, everything else on stderr.

On a terminal results are tables; piped, they are tab-separated lines. With ``--json`` stdout
holds one JSON object and nothing else.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import attrs
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triptych_adapters.cli.shell_text import shell_text

__all__ = ["SCHEMA", "Output", "json_text", "visible"]

SCHEMA = 1
"""The version of the JSON objects. Fields may be added under it, none changed or removed."""

_INDENT = 4
_LEAST = 24
"""Cells that a column of words needs, to be read."""

_STREAMS = frozenset({"watch", "work"})
"""Commands that print an object a line, of which an error is one."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""How Python holds the bytes of a file name that are no UTF-8."""


def visible(text: str) -> str:
    """``text`` without what could steer a terminal: control and direction characters."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """``value`` as JSON that can be encoded, whatever names of files it holds."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class PipedConsole(Console):
    """A console that tells of a reader who went away, where rich's own ends the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@attrs.frozen(kw_only=True, slots=True)
class Output:
    """Where a command's results and remarks go."""

    command: str
    as_json: bool = False
    quiet: bool = False
    color: bool = True
    stdout: Console = attrs.field(init=False)
    stderr: Console = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A terminal that lacks a character shows a replacement rather than a failure.
                stream.reconfigure(errors="replace")
        no_color = None if self.color else True
        options: dict[str, Any] = {"no_color": no_color, "highlight": False, "markup": False}
        object.__setattr__(self, "stdout", PipedConsole(**options))
        object.__setattr__(self, "stderr", PipedConsole(stderr=True, **options))

    @property
    def shows_progress(self) -> bool:
        """Whether somebody is watching stderr."""
        return self.stderr.is_terminal and not self.quiet

    def emit(self, fields: Mapping[str, Any]) -> None:
        """Print the command's JSON object, in UTF-8 whatever the terminal's encoding."""
        value = {"schema": SCHEMA, "command": self.command, **fields}
        indent = None if self.command in _STREAMS else 2
        self.write(json_text(value, indent=indent) + "\n")

    def write(self, text: str) -> None:
        """Print ``text`` on stdout exactly, in UTF-8."""
        sys.stdout.flush()
        left = memoryview(text.encode("utf-8"))
        while left:
            # Unbuffered (PYTHONUNBUFFERED=1), a write may take a part and tell of no error.
            left = left[sys.stdout.buffer.write(left) :]
        sys.stdout.buffer.flush()

    def say(self, text: str | Text) -> None:
        """Print a line of the result on stdout."""
        line = Text(visible(text)) if isinstance(text, str) else text
        self.stdout.print(line, soft_wrap=True)

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        title: str = "",
        folds: bool = False,
    ) -> None:
        """Print rows: a table on a terminal, tab-separated lines without a head elsewhere.

        Where the terminal is too narrow for the table, its columns move together, and the widest
        wraps at words. Where that is not enough, each row is a paragraph: its first cell, which is
        a name or a path, on a line of its own, so that it can be copied. One that ``folds`` stays
        a table, whatever words it breaks.
        """
        cells = [[visible(str(cell)) for cell in row] for row in rows]
        if not self.stdout.is_terminal:
            # Written as it is: rich would turn the tabs into spaces.
            lines = ("\t".join(" ".join(cell.split()) for cell in row) for row in cells)
            self.write("".join(f"{line}\n" for line in lines))
            return
        width = self.stdout.width
        widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
        if not folds and _too_wide(widths, cells, width):
            self._paragraphs(columns, cells, title)
            return
        table = Table(title=title or None, title_justify="left", header_style="bold", box=None)
        if sum(widths) + 2 * len(widths) > width:
            table.padding, table.pad_edge = (0, 1, 0, 0), False
        for index, column in enumerate(columns):
            numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
            table.add_column(column, justify="right" if numeric else "left", overflow="fold")
            table.columns[-1].no_wrap = not folds and widths[index] < max(widths)
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        self.stdout.print(table)

    def _paragraphs(
        self, columns: Sequence[str], cells: Sequence[Sequence[str]], title: str
    ) -> None:
        if title:
            self.stdout.print(Text(title, style="italic"))
        for first, *others in cells:
            self.stdout.print(Text(first, style="bold"), soft_wrap=True)
            named = zip(columns[1:], others, strict=True)
            parts = [f"{column} {cell}".strip() for column, cell in named if cell]
            room = self.stdout.width - _INDENT
            lines = [""]
            for part in parts:
                for piece in wrap(part, room, break_long_words=False, break_on_hyphens=False):
                    joined = f"{lines[-1]}  {piece}" if lines[-1] else piece
                    lines[-1:] = [joined] if cell_len(joined) <= room else [lines[-1], piece]
            for line in filter(None, lines):
                self.stdout.print(Text(" " * _INDENT + line), soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a remark on stderr, unless asked to be quiet."""
        if not self.quiet:
            self._remark(Text(visible(text)))

    def warn(self, text: str) -> None:
        """Print a warning on stderr: one line, whatever names of files it tells of."""
        line = Text.assemble(("warning: ", "yellow"), shell_text(_one_line(text)))
        self._remark(line)

    def error(self, text: str, *, hint: str = "") -> None:
        """Print an error on stderr: one line, and one for what to do about it."""
        line = Text.assemble(("error: ", "bold red"), shell_text(_one_line(text)))
        self._remark(line)
        if hint:
            self._remark(Text(f"hint: {hint}", style="dim"))

    def _remark(self, line: Text) -> None:
        """Print on stderr: wrapped at words for a person, one line for a program."""
        self.stderr.print(line, soft_wrap=not self.stderr.is_terminal)


def _too_wide(widths: Sequence[int], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether a table of these cells, a space apart, has no room to wrap its widest column.

    The first one, which is copied, does not wrap.
    """
    over = sum(widths) + len(widths) - 1 - width
    widest = widths.index(max(widths))
    words = [word for row in rows for word in row[widest].split()]
    room = widths[widest] - over
    return over > 0 and (widest == 0 or room < max(_LEAST, *map(cell_len, words)))


def _one_line(text: str) -> str:
    return " ".join(visible(text).split())
