"""Read real files of others, and compare what their text lacks with the committed report.

The files are in archives of the package index and of Debian that world.toml pins. Each is parsed
as ``triptych add`` does. A plain reading of the same file, which shares nothing with the parser,
says which words it shows. A word is found in the text, *named* by the parser as one that its text
lacks, or *lost*. A file that lost words since the report, is refused now or is gone is a failure.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from rich.console import Console
from rich.progress import track
from rich.table import Table
from world_files import MIB, LeftOutError, Package, WorldError, archive_of, pins, unpacked
from world_readings import READINGS, NoReadingError, kind_of, lacking, read

from triptych.errors import TriptychError
from triptych.parsing import ParseLimits
from triptych_parsers import default_parser

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "bench/results/world.json"
PINS = Path(__file__).with_name("world.toml")
SECONDS = 180
"""The most for parsing one file, more than the default: a slow machine is no failure."""

Row: TypeAlias = dict[str, Any]
"""``words``, ``named`` and ``lost`` of a file, or why it is ``refused`` or ``unread``: of that
there is no plain reading. Numbers that are 0 are not there."""
Rows: TypeAlias = Mapping[str, Mapping[str, Row]]
"""Rows by package and path."""


@attrs.frozen
class File:
    """A file of a package: ``path`` is the one in it."""

    package: str
    path: str
    file: Path


# The files


def gather(
    packages: Iterable[Package], most: Mapping[str, int], folder: Path
) -> tuple[list[File], dict[str, str]]:
    """The files to read, and the packages that are left out, each with the reason."""
    files: list[File] = []
    left_out: dict[str, str] = {}
    for package in packages:
        limits = {**most, **package.most}
        name = f"{package.name}-{package.version}"
        try:
            archive = archive_of(package, folder / "archives")
        except LeftOutError as error:
            left_out[name] = str(error)
            continue
        target = folder / "files" / name.replace(":", "_")
        if refused := unpacked(package, archive, target, lambda path: bool(kind_of(path))):
            print(f"{name}: not unpacked: {len(refused)}, {refused[0]} …", file=sys.stderr)
        found = (each for each in target.rglob("*") if each.is_file())
        paths = chosen((each.relative_to(target).as_posix() for each in found), limits)
        files += [File(name, each, target / each) for each in paths]
    # Where the time is short, what is read is of every package.
    return sorted(files, key=lambda file: _order(file.path)), left_out


def chosen(paths: Iterable[str], most: Mapping[str, int]) -> list[str]:
    """At most so many of each format, of all folders alike, in the order of their names."""
    taken: Counter[str] = Counter()
    kept = []
    for path in sorted(paths, key=_order):
        kind = kind_of(path)
        taken[kind] += 1
        if taken[kind] <= most.get(kind, 0):
            kept.append(path)
    return sorted(kept)


def _order(path: str) -> bytes:
    return hashlib.sha256(path.encode()).digest()


# Reading


def read_file(file: File) -> tuple[Row, float, float]:
    """The row of a file, and the seconds and MiB that its parser took."""
    parser = default_parser(limits=ParseLimits(seconds=SECONDS), plugins=False)
    data = file.file.read_bytes()
    started = time.monotonic()
    row: Row = {}
    try:
        parsed = parser.parse(file.path, data)
        if parsed is None:
            row["refused"] = "binary"
    except TriptychError as error:
        row["refused"] = str(error).replace(repr(file.path), "it")[:100]
    seconds = time.monotonic() - started
    kinds = (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)  # a worker, where there was one
    peak = next(filter(None, (resource.getrusage(kind).ru_maxrss for kind in kinds)))
    if not row and parsed is not None:
        try:
            count, lost = lacking(read(file.path, data), parsed.content)
        except NoReadingError as error:
            row["unread"] = str(error)
        else:
            told = lost.total() if parsed.no_text else sum(x.words for x in parsed.omissions)
            named = min(told, lost.total())
            row = {"words": count, "named": named, "lost": lost.total() - named}
    kept = {key: value for key, value in row.items() if value or key == "words"}
    return kept, seconds, peak / (1024 if sys.platform == "linux" else MIB)


def read_each(files: Iterable[File], processes: int) -> Iterator[tuple[File, Row, float, float]]:
    """Each file with its row, seconds and MiB, as they are read, each in a process of its own."""
    context = get_context("fork")
    running: dict[Connection, tuple[File, BaseProcess, float]] = {}
    waiting = iter(files)
    while True:
        while len(running) < processes and (file := next(waiting, None)):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=lambda to, of: to.send(read_file(of)), args=(theirs, file)
            )
            process.start()
            theirs.close()
            running[ours] = file, process, time.monotonic() + SECONDS + 60
        if not running:
            return
        ready = set(wait(list(running), timeout=1))
        for ours, (file, process, end) in list(running.items()):
            if ours not in ready and time.monotonic() < end:
                continue
            answer: tuple[Row, float, float] = ({"refused": "took too long"}, float(SECONDS), 0)
            if ours in ready:
                try:
                    answer = ours.recv()
                except EOFError:
                    answer = {"refused": "ended the process that read it"}, 0, 0
            process.kill()
            process.join()
            ours.close()
            del running[ours]
            yield file, *answer


# The report


def compared(
    before: Rows, after: Rows, skipped: Iterable[str] = ()
) -> tuple[list[tuple[str, str]], int]:
    """What got worse, as a file and in words, and how many files changed for the better.

    Packages and files that are ``skipped`` are not compared.
    """
    worse, better, apart = [], 0, set(skipped)
    for package, rows in before.items():
        for path, row in rows.items():
            name, now = f"{package}/{path}", after.get(package, {}).get(path)
            if package not in apart and name not in apart:
                said = _worse(row, now)
                worse += [(name, said)] if said else []
                better += not said and row != now
    return worse, better


def _worse(row: Row, now: Row | None) -> str:
    if now is None:
        return "is gone"
    for key in ("refused", "unread"):
        if key in now and key not in row:
            return f"is {key} now: {now[key]}"
    for keys, said in ((("lost",), "lost"), (("lost", "named"), "not in the text")):
        was, are = (sum(each.get(key, 0) for key in keys) for each in (row, now))
        if are > was:
            return f"words {said}: {was} before, {are} now"
    return ""


def as_json(report: Mapping[str, Any]) -> str:
    """The report, a file a line."""
    packages = []
    for package, files in sorted(report["files"].items()):
        rows = (f"   {json.dumps(path)}: {json.dumps(row)}" for path, row in sorted(files.items()))
        packages.append(f"  {json.dumps(package)}: {{\n" + ",\n".join(rows) + "\n  }")
    measured = json.dumps(report["measured"], indent=1, sort_keys=True)
    return '{"files": {\n' + ",\n".join(packages) + f'\n}},\n"measured": {measured}}}\n'


def tables(report: Mapping[str, Any]) -> Iterator[Table]:
    """By format: how many files and words; and the files with the most lost words."""
    total = Table(title="Files of others", title_justify="left")
    names = "format files whole named lost refused unread words named lost seconds MiB"
    for name in names.split():
        total.add_column(name, justify="left" if name == "format" else "right")
    flat = [(f"{p}/{f}", row) for p, rows in report["files"].items() for f, row in rows.items()]
    for kind in READINGS:
        rows = [row for name, row in flat if kind_of(name) == kind]
        cells = [
            len(rows),
            sum("words" in x and not x.get("lost") and not x.get("named") for x in rows),
            sum("named" in x and "lost" not in x for x in rows),
            *(sum(key in x for x in rows) for key in ("lost", "refused", "unread")),
            *(sum(x.get(key, 0) for x in rows) for key in ("words", "named", "lost")),
        ]
        used = report["measured"]["formats"].get(kind, {})
        cells += [used.get("seconds", 0), used.get("peak_mib", 0)]
        total.add_row(kind, *(f"{each:,}" for each in cells))
    yield total
    reasons = Table("files", "refused because", title="Refused", title_justify="left")
    for reason, count in Counter(x["refused"] for _, x in flat if "refused" in x).most_common(12):
        reasons.add_row(str(count), reason)
    yield reasons
    most = Table("lost", "words", "file", title="Most words lost", title_justify="left")
    for name, row in sorted(flat, key=lambda each: -each[1].get("lost", 0))[:15]:
        most.add_row(str(row.get("lost", 0)), str(row.get("words", 0)), name)
    yield most


# The command


def run(options: argparse.Namespace, said: Console) -> tuple[dict[str, Any], dict[str, str]]:
    """The report of all files, and what was left out with the reason, by package or file."""
    end = time.monotonic() + options.minutes * 60
    packages, most = pins(options.pins)
    said.print(f"{len(packages)} packages in {options.folder}; what is missing is downloaded")
    files, left_out = gather(packages, most, options.folder)
    if not files:
        raise WorldError(f"there is no file to read: {left_out}")
    rows: dict[str, dict[str, Row]] = {each.package: {} for each in files}
    spent: dict[str, dict[str, float]] = {}

    def timely() -> Iterator[File]:
        for file in files:
            if time.monotonic() < end:
                yield file
            else:
                left_out[f"{file.package}/{file.path}"] = f"{options.minutes:g} minutes were over"

    done = read_each(timely(), options.processes)
    shown = track(
        done, "Reading", len(files), console=said, transient=True, disable=not said.is_terminal
    )
    for count, (file, row, seconds, peak) in enumerate(shown, 1):
        if not said.is_terminal and count % 500 == 0:
            said.print(f"{count:,} of {len(files):,} files")
        rows[file.package][file.path] = row
        used = spent.setdefault(kind_of(file.path), {"seconds": 0, "peak_mib": 0})
        used["seconds"] = round(used["seconds"] + seconds, 1)
        used["peak_mib"] = max(used["peak_mib"], round(peak))
    measured = {"formats": spent, "pypdfium2": version("pypdfium2")}
    return {"files": rows, "measured": measured}, left_out


def main(arguments: Sequence[str] | None = None) -> int:
    """Read, report and compare; 1 if something got worse."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="replace the committed report")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--minutes", type=float, default=20, help="when to stop (20)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/world", help="of the cache")
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--pins", type=Path, default=PINS)
    options = parser.parse_args(arguments)
    said = Console(stderr=True)
    try:
        report, left_out = run(options, said)
        if options.write and left_out:
            raise WorldError(f"not written, because these were left out: {left_out}")
    except WorldError as error:
        said.print(f"error: {error}", markup=False)
        return 1
    out = said if options.json else Console(width=None if sys.stdout.isatty() else 140)
    for table in tables(report):
        out.print(table)
    for reason, count in Counter(left_out.values()).items():
        first = next(each for each in left_out if left_out[each] == reason)
        more = f" and {count - 1:,} more" if count > 1 else ""
        out.print(f"left out: {first}{more} ({reason})", markup=False)
    if options.json:
        print(as_json(report), end="")
    if options.write:
        options.report.write_text(as_json(report), encoding="utf-8")
        return 0
    return compare(options.report, report["files"], left_out, out)


def compare(path: Path, files: Rows, left_out: Iterable[str], out: Console) -> int:
    """Print what got worse since the report at ``path``; 1 if there is something."""
    if not path.exists():
        out.print(f"there is no {path} to compare with: make one with --write")
        return 0
    before = json.loads(path.read_text(encoding="utf-8"))["files"]
    worse, better = compared(before, files, left_out)
    changes = Table("file", "what", title=f"Worse than {path.name}", title_justify="left")
    for name, what in worse[:100]:
        changes.add_row(name, what)
    if worse:
        out.print(changes)
    out.print(f"{len(worse)} worse, {better} better than {path.name}", markup=False)
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
