"""Each deprecation says what the policy in docs/migrations asks for, and ends when it says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import triptych
from support.rows import each_row

ROOT = Path(__file__).parents[1]
PACKAGES = ("knowledge", "backends", "factory", "adapters")
_MESSAGE = re.compile(
    r"`[\w.-]+` is deprecated since (\d+)\.(\d+): use `[^`]+`; it is removed in (\d+)\.(\d+)"
)


def warned(source: str) -> Iterator[ast.Call]:
    """The calls that give a DeprecationWarning, whatever gives it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            arguments = [*node.args, *(each.value for each in node.keywords)]
            if any(isinstance(each, ast.Name) and "Deprecation" in each.id for each in arguments):
                yield node


def wrong(source: str, version: str) -> list[str]:
    """What is wrong with the deprecations in a module, at a version of Triptych."""
    now = tuple(map(int, version.split(".")[:2]))
    found = []
    for call in warned(source):
        first = call.args[0] if call.args else None
        message = first.value if isinstance(first, ast.Constant) else None
        match = _MESSAGE.fullmatch(message) if isinstance(message, str) else None
        if match is None:
            found.append(f"line {call.lineno}: the message is not of the form {_MESSAGE.pattern}")
            continue
        since, until = (tuple(map(int, match.group(n, n + 1))) for n in (1, 3))
        if until <= since:
            found.append(f"line {call.lineno}: it is removed no later than it is deprecated")
        if now >= until:
            found.append(f"line {call.lineno}: remove it, this is {version}")
        if not any(each.arg == "stacklevel" for each in call.keywords):
            found.append(f"line {call.lineno}: name the stacklevel of the caller")
    return found


def test_every_deprecation_names_its_replacement_and_its_end() -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert len(files) > 400
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    found = {file: wrong(text, triptych.__version__) for file, text in texts.items()}
    assert {file: each for file, each in found.items() if each} == {}


GOOD = "`Service.find` is deprecated since 0.2: use `Service.search`; it is removed in 0.3"


@each_row(
    ("message", "more", "version", "count"),
    [
        (GOOD, ", stacklevel=2", "0.2.5", 0),
        (GOOD, ", stacklevel=2", "0.3.0", 1),
        (GOOD, ", stacklevel=2", "0.10.0", 1),
        (GOOD, "", "0.2.0", 1),
        (GOOD.replace("0.3", "0.2"), ", stacklevel=2", "0.1.0", 1),
        ("find is old", ", stacklevel=2", "0.1.0", 1),
    ],
)
def test_a_deprecation_against_the_policy_is_reported(
    message: str, more: str, version: str, count: int
) -> None:
    source = f"warnings.warn({message!r}, DeprecationWarning{more})"
    assert len(wrong(source, version)) == count


def test_the_policy_shows_a_message_of_that_form() -> None:
    page = (ROOT / "docs/migrations/README.md").read_text(encoding="utf-8")
    assert _MESSAGE.search(" ".join(page.split())) is not None
