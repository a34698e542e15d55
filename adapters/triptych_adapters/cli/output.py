"""The output of the command: results on stdout, everything else on stderr.

On a terminal results are tables; piped, they are tab-separated lines. With ``--json`` stdout
holds one JSON object and nothing else.
"""

from __future__ import annotations

import io
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import attrs
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from triptych._internal.wording import counted

if TYPE_CHECKING:
    from triptych._internal.progress import Progress, ProgressCallback
    from triptych.records import Failure

Rows = tuple[Sequence[str], Iterable[Sequence[object]]]
"""The names of columns, and rows of as many cells."""

_SCHEMA = 1
"""The version of the JSON objects. Fields may be added under it, none changed or removed."""

_INDENT = 4
_LEAST = 24
"""Cells that a column of words needs, to be read."""

_STREAMS = frozenset({"watch"})
"""Commands that print an object a line, of which an error is one."""

_INSIDE = ("embedded", "reused", "encoded", "pending")
"""Counts of chunks, which stand after those."""
_LAST = ("failed", "skipped")
_NOUNS = {"model_calls": ("model call", "model calls")}

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""How Python holds the bytes of a file name that are no UTF-8."""

_SPELLINGS: Final = (
    (r"\bproof='mark'", "--proof mark"),
    # The longer form first: a later expression would take it apart.
    (r"`Service\.doctor\(repair=True\)`", "`triptych doctor --repair`"),
    (r"(`triptych doctor --repair`), or \1", r"\1"),
    (r"rebuild\(dataset_id=(?:'([^']*)'|…)\)", r"`triptych rebuild --dataset \1`"),
    (r"--dataset `", "--dataset NAME`"),
    (r"open the knowledge base with embedder='([\w-]+)'", r"give --embedder \1"),
    (r"\bmode='(\w+)'", r"--mode \1"),
    (r"\bembedder='([\w-]+)'", r"--embedder \1"),
    (r"open it with read_only=True", "set TRIPTYCH_READ_ONLY=true"),
    (r"open the store with read_only=True", "set TRIPTYCH_READ_ONLY=true"),
    (
        r"open the (?:store|knowledge base) with the (settings|one) (it was|they were) filled with",
        r"give the \1 \2 filled with (--embedder)",
    ),
    (r"give the key as api_key, or a transport that adds it", "set TRIPTYCH_LLM_API_KEY"),
    (r" \(give dimension=\S+ if it is meant\)", ""),
    (r"\boverwrite=True", "--overwrite"),
    (r"allow more \(Timeouts\.\w+\), or ", ""),
    (r", or (?:give )?api_key\b", ", or TRIPTYCH_LLM_API_KEY"),
    (r"\bgive base_url; by name, set\b", "set"),
)
"""The library's advice as it is written in Python, and in a shell."""

EVERY_SECONDS = 30.0
"""Between two lines of progress where no terminal shows it."""

_BREAK = re.compile(r"[\t\n\v\f\r\u0085\u2028\u2029]")


def visible(text: str) -> str:
    """``text`` without what could steer a terminal: control and direction characters."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _plain(cell: object) -> str:
    if isinstance(cell, list | tuple):
        return ", ".join(map(_plain, cell))
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _in_a_line(cell: str) -> str:
    return " ".join(cell.split()) if _BREAK.search(cell) else cell


def json_text(value: Any, *, indent: int | None = None) -> str:
    """``value`` as JSON that can be encoded, whatever names of files it holds."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def summary_line(counts: Mapping[str, int | None]) -> str:
    """``331 added, 8,325 chunks (8,322 embedded), 4 skipped``, of the counts of a report.

    None is a count that is not known. They come in the order given, but chunks before what failed
    or was skipped; what is said of chunks alone, as of a rebuild, stands by itself. Without any
    count, the line says ``nothing to do``.
    """
    done = [
        _count(name, count)
        for name, count in counts.items()
        if count and name not in (*_INSIDE, *_LAST, "chunks")
    ]
    inside = [f"{counts[name]:,} {name}" for name in _INSIDE if counts.get(name)]
    chunks = counts.get("chunks") or 0
    if chunks and inside:
        done.append(f"{counted(chunks, 'chunk')} ({', '.join(inside)})")
    else:
        done += [counted(chunks, "chunk")] if chunks else inside
    done += [_count(name, count) for name in _LAST if (count := counts.get(name))]
    return ", ".join(done) or "nothing to do"


def _count(name: str, count: int) -> str:
    if name in _NOUNS:
        return counted(count, *_NOUNS[name])
    return f"{count:,} {name}"


def shell_text(text: str) -> str:
    """``text`` with what a program would write as a person writes it in a shell."""
    for python, shell in _SPELLINGS:
        text = re.sub(python, shell, text)
    return text


def counts_of(report: Any, names: Sequence[str] = ()) -> dict[str, int | None]:
    """The counts of a report, by name: its numbers, and how many are in its lists.

    ``names`` are those to show, in this order, where the report has them; none are all.
    """
    fields = [field.name for field in attrs.fields(type(report))]
    shown = [name for name in names if name in fields] if names else fields
    values = {name: getattr(report, name) for name in shown}
    return {
        name: len(value) if isinstance(value, tuple) else value for name, value in values.items()
    }


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

    @contextmanager
    def progress(
        self, phase: str, *, total: int | None = None
    ) -> Iterator[ProgressCallback | None]:
        """A callback that moves a bar per phase on stderr, or where that is no terminal, writes a
        line every half minute; None where only results are asked for.

        The first ``phase`` is shown from the start where its ``total`` is known.
        """
        if not self.shows_progress:
            yield None if self.quiet or self.as_json else self._now_and_then()
            return
        from triptych._internal.progress import Progress
        from triptych_adapters.progress import rich_bars

        with rich_bars(self.stderr) as move:
            if total is not None:
                move(Progress(phase=phase, done=0, total=total))
            yield move

    def _now_and_then(self) -> ProgressCallback:
        told = time.monotonic()

        def move(progress: Progress) -> None:
            nonlocal told
            if time.monotonic() >= told + EVERY_SECONDS:
                told = time.monotonic()
                of = "" if progress.total is None else f" of {progress.total:,}"
                self.note(f"{progress.phase}: {progress.done:,}{of}")

        return move

    def show(
        self,
        *values: Any,
        table: Rows | None = None,
        title: str = "",
        lines: Iterable[str | Text] = (),
        note: str | Iterable[str] = (),
        unless_quiet: bool = False,
        stream: bool = False,
    ) -> None:
        """Print a result: its JSON for a program, a table or lines and remarks for a person.

        The JSON object has the fields of ``values``, which are mappings and records, in their
        order; of a ``stream`` it is one of many, on a line of its own. Rows and lines are not made
        where nobody reads them. With ``unless_quiet`` the table and the lines are left out where
        only results are asked for, as they but say what was done.
        """
        if self.as_json:
            from triptych.records.serialization import to_json

            self.emit({k: v for each in values for k, v in to_json(each).items()}, stream=stream)
            return
        if not (self.quiet and unless_quiet):
            if table is not None:
                self.table(*table, title=title)
            for line in lines:
                self.say(line)
        for each in [note] if isinstance(note, str) else note:
            if each:
                self.note(each)

    def emit(self, fields: Mapping[str, Any], *, stream: bool = False) -> None:
        """Print the command's JSON object, in UTF-8 whatever the terminal's encoding."""
        value = {"schema": _SCHEMA, "command": self.command, **fields}
        indent = None if stream or self.command in _STREAMS else 2
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
        rows: Iterable[Sequence[object]],
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
        rows = list(rows)
        cells = [[visible(_plain(cell)) for cell in row] for row in rows]
        if not self.stdout.is_terminal:
            # Written as it is: rich would turn the tabs into spaces, and a name may begin with one.
            lines = ("\t".join(map(_in_a_line, row)) for row in cells)
            self.write("".join(f"{line}\n" for line in lines))
            return
        from rich.table import Table

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

    def warn(self, *texts: object) -> None:
        """Print warnings on stderr: a line each, whatever names of files they tell of."""
        for text in texts:
            said = shell_text(_one_line(str(text)))
            self._remark(Text.assemble(("warning: ", "yellow"), said))

    def warn_of(
        self, failures: Sequence[Failure], *, placed: bool = False, most: int | None = None
    ) -> None:
        """Warn of what failed, by name, or ``placed`` in its dataset: of the first ``most``."""
        for each in failures[:most]:
            place = "/".join(filter(None, (each.dataset_id, each.name))) or "the store"
            self.warn(f"{place if placed else each.name}: {each.error}")
        if most is not None and len(failures) > most:
            self.warn(f"and {len(failures) - most} more")

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
