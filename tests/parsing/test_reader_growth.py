"""A file of twice the size takes no more than about twice the memory and the work."""

from __future__ import annotations

import re
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.rows import each_row
from triptych.chunking import MarkdownChunker, first_heading
from triptych.errors import TriptychError
from triptych.layers import syntax_of
from triptych.layers.code_outline import read_code
from triptych.layers.outline import read_outline
from triptych.parsing import base_parsers, front_matter
from triptych.text.injection import suspicious
from triptych_evaluation import read_golden
from triptych_factory import Settings

SIZE = 6_000
SLOW = ("Markdown", "YAML front matter")
Patterns = dict[str, Callable[[int], str]]


def many(unit: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda size: before + unit * (size // len(unit)) + after


def lines(line: Callable[[int], str]) -> Callable[[int], str]:
    """As many lines as come to the size; each may be longer than the one before."""

    def made(size: int) -> str:
        held, length = [], 0
        while length < size:
            held.append(line(len(held)))
            length += len(held[-1]) + 1
        return "\n".join(held)

    return made


def work(call: Callable[[str], Any], text: str) -> tuple[int, int]:
    """The most bytes that a call held, and how often it called something, or ran a line."""
    lines_run = 0

    def count(frame: Any, event: str, argument: Any) -> Any:
        nonlocal lines_run
        lines_run += 1
        return count

    def done() -> None:
        with suppress(TriptychError):  # a refusal has a name
            call(text)

    done()  # what is compiled and kept at the first use
    tracemalloc.start()
    try:
        done()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    before = sys.gettrace()
    sys.settrace(count)
    try:
        done()
    finally:
        sys.settrace(before)
    return peak, lines_run


MARKS = re.findall(
    r"\S+",
    r"""*a ** [ ![ []( [a]( [a](<b ![a](b ] [a][ ` > | |- - 1. # = -*_ < <!-- <a <div> </ <table><th
    <![CDATA[ & &# \ $ {{ @ ::: !!! ignore :a:` ``a |a| .. a_ ~~~ " ' {"a": [[ ((""",
)
MARKDOWN = {
    **{f"{mark!r} in a row": many(mark) for mark in MARKS},
    **{f"{mark!r} in lines": many(f"{mark}\n") for mark in MARKS},
    "longer runs of backticks": lines(lambda at: "`" * at),
    "rows that widen": lines(lambda at: "|a" * (at + 1) + "|" if at != 1 else "|-|"),
    "lists in lists": lines(lambda at: "  " * at + "- a"),
    "quotes in quotes": lines(lambda at: "> " * at + "a"),
    "definitions of links": lines(lambda at: f"[a{at}]: b"),
    "headings": lines(lambda at: "#" * (at % 7) + " a"),
    "blanks": many(" ", "a", "b"),
    "combining marks": many("\u0301", "a"),
    "digits": many("9"),
}
CSV = {
    "columns without a value": lambda size: (
        ",".join(f"c{at}" for at in range(size // 12)) + "\n" + "x\n" * (size // 8)
    ),
    "rows that widen": lines(lambda at: "a," * at),
    "quotes": many('"a",'),
    "heads": lines(lambda at: f"n{at},m{at}\n1,2\n"),
}
HTML = {
    "elements": lambda size: "<div>" * 400 + "<b>a</b>" * (size // 8),
    "cells that span": many("<tr><td rowspan=9999 colspan=999>a", "<table>"),
    "tables in cells": lambda size: "<table><tr><td>a" * 60 + "x" * size,
    "lists": many("<ul><li>a"),
    "attributes": lines(lambda at: f"<a b{at}="),
    "entities": many("&#x", "&" + "a" * 99),
    "ends of what is not open": many("</i>", "<b>" * 99),
}
JSON = {
    "arrays": lambda size: "[" * 90 + '"' + "x" * size + '"' + "]" * 90,
    "members": lines(lambda at: f'{"{" if not at else ""}"k{at}": "{"x" * 250}",'),
    "digits": many("9"),
    "escapes": many("\\u0041", '"', '"'),
    "comments": many("/**/"),
}
TOML = {
    "parts of a key": many("a.", "", "a = 1"),
    "parts of a quoted key": many(r'"\"".', "", "a = 1"),
    "parts of a header": many("a.", "[", "a]"),
    "parts in a table": many("a . ", "x = {", "a = 1}"),
    "arrays": many("[", "x = "),
    "tables": many("{a=", "x = "),
    "digits": many("9", "x = "),
    "keys": lines(lambda at: f"k{at} = 1"),
    "headers": lines(lambda at: f"[[a]]\n[a.b{at}]"),
    "quotes": many('\\" ', '"'),
}
YAML = {
    "lists in lists": many("[\n ", "x: "),
    "mappings": many("{a: ", "x: "),
    "lists of lists": many("- "),
    "aliases": lines(lambda at: f"a{at}: &a{at} [{f'*a{at - 1},' * 9 if at else 'x'}]"),
    "keys": lines(lambda at: f"k{at}: 1"),
    "broken entries": lines(lambda at: f"k{at}: @b"),
    "open quotes": lines(lambda at: f'k{at}: "" "'),
    "escapes": many("\\u0041", 'x: "', '"'),
    "digits": many("9", "x: "),
}


def parsed(ending: str) -> Callable[[str], object]:
    parser = next(each for each in base_parsers() if ending in each.endings)
    chunker = MarkdownChunker()

    def read(text: str) -> None:
        found = parser.parse(f"a{ending}", text.encode())
        if found is not None:
            chunker.chunk(found.content)

    return read


def markdown(text: str) -> None:
    MarkdownChunker().chunk(text)
    first_heading(text)
    read_outline(text)
    suspicious(text)
    parsed(".md")(text)


def from_file(read: Callable[[Path], object]) -> Callable[[str], object]:
    def written(text: str) -> object:
        Path("file").write_text(text, "utf-8")
        return read(Path("file"))

    return written


def settings(text: str) -> None:
    Path("triptych.toml").write_text(text, "utf-8")
    Settings.resolve(environ={}, directory=Path.cwd())


GOLDEN = {
    "aliases of lists": lambda size: (
        f"- question: a\n  expected_files: &a [{'a, ' * (size // 3)}a]\n"
        + "- question: b\n  expected_files: *a\n" * (size // 36)
    ),
    "lists": many("[\n ", "- question: a\n  expected_files: "),
    "digits": many("9", "- question: a\n  relevance: {a: "),
}
READERS: dict[str, tuple[Callable[[str], object], Patterns]] = {
    "Markdown": (markdown, MARKDOWN),
    "HTML": (parsed(".html"), HTML),
    "reStructuredText": (parsed(".rst"), {f"{mark!r}": many(f"{mark} a\n") for mark in MARKS}),
    "JSON": (parsed(".json"), JSON),
    "notebooks": (parsed(".ipynb"), JSON),
    "CSV": (parsed(".csv"), CSV),
    "YAML": (parsed(".yaml"), YAML),
    "TOML front matter": (lambda text: front_matter(f"+++\n{text}\n+++\n"), TOML),
    "YAML front matter": (lambda text: front_matter(f"---\n{text}\n---\n"), YAML),
    "settings": (settings, TOML),
    "golden sets": (from_file(read_golden), GOLDEN),
}


def assert_in_proportion(read: Callable[[str], object], patterns: Patterns, size: int) -> None:
    grew = {}
    for name, pattern in patterns.items():
        peak, done = work(read, pattern(size))
        twice_peak, twice_done = work(read, pattern(2 * size))
        if twice_peak > 3 * peak + 100_000 or twice_done > 3 * done + 1_000:
            grew[name] = (peak, twice_peak, done, twice_done)
    assert not grew


@pytest.mark.parametrize("reader", READERS)
def test_twice_the_size_is_no_more_than_about_twice_the_work(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_in_proportion(*READERS[reader], SIZE // 5 if reader in SLOW else SIZE)


@each_row("ending", [".py", ".go", ".ts", ".rs", ".java", ".c", ".rb"])
@each_row("opening", ['a = "', "a = '", "a = `", 'r#"', '"""', "'\\''", "/*"])
def test_a_string_of_code_that_has_no_end_is_read_once(ending: str, opening: str) -> None:
    syntax = syntax_of(f"a{ending}")
    assert syntax is not None
    for rest in (r"\"", r"\'", r"\`", opening):
        begun = time.process_time()  # of patterns no work can be counted
        read_code(opening + rest * (60_000 // len(rest)), syntax)
        assert time.process_time() - begun < 2
