"""Reads the documentation's pages and runs what they show.

A fenced block's info string is one word, which every reader of Markdown takes for the language,
and says what is done with it:

- ``python``: run, in order within a page, in one namespace a page.
- ``output``: what the Python block before it prints.
- ``console``: each line that begins with ``$`` is run by the shell, with the real ``triptych``
  command on its path, and what it prints stands below it. The comment ``<!-- exit=3 -->`` as the
  last line before the block says that each command ends with 3.
  After the first such command of a test run, those that need no shell run in this process, since
  starting another takes longer than most of them do.
- ``toml``, ``json``: parsed.
- ``ini``, ``nginx``: a unit of systemd and a server of nginx, checked by docs/test_services.py.
- ``text``, ``mermaid``: left alone. Nothing else is allowed.

In shown output ``…`` stands for anything. A number with up to three decimals may be off by 0.02,
since the vectors of a quantised model are not the same on every processor; one with more decimals
by 0.0001. What is printed has no more decimals than what is shown, or than three.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

import triptych
from support.cli_run import ran
from triptych_server.telemetry.metrics import FIGURES, METRICS

KINDS = frozenset(
    {"python", "output", "console", "toml", "json", "ini", "nginx", "text", "mermaid"}
)
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^`]*)$")
_DECIMAL = re.compile(r"-?\d+\.\d+")
_WHITE = re.compile(r"\s+")
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_QUALIFIED = re.compile(r"(?<!\.)\btriptych((?:\.[A-Za-z_]\w*)+)")
_CAMEL = re.compile(r"[A-Z]+[a-z]+(?:[A-Z]+[a-z0-9]*)+|[A-Z][a-z]+Error")
_EXIT = re.compile(r"<!-- exit=(\d+) -->")

METRIC_NAMES = frozenset(each.name for each in METRICS) | frozenset(
    each.name.replace("triptych_store_", "triptych.store.") for each in FIGURES
)
_ROOT = Path(__file__).parents[2]
SKILL = _ROOT / "knowledge/triptych/.agents/skills/triptych/SKILL.md"
PAGES = (_ROOT / "README.md", SKILL, *sorted(_ROOT.glob("docs/**/*.md")))
"""The pages whose snippets run."""
COMMUNITY = tuple(sorted({*_ROOT.glob("*.md")} - {*PAGES}))
ISSUE_FORMS = tuple(sorted(_ROOT.glob(".github/ISSUE_TEMPLATE/*.yml")))
"""Pages and forms that show no snippets; their links and commands are checked."""

CAMEL_HOMES = (
    "triptych",
    "triptych.access",
    "triptych.aio",
    "triptych.answers",
    "triptych.chunking",
    "triptych.answers",
    "triptych.contracts",
    "triptych.derivation.versions",
    "triptych.errors",
    "triptych_evaluation",
    "triptych.events",
    "triptych.living_documents",
    "triptych.layers",
    "triptych.parsing",
    "triptych.records",
    "triptych.contracts.defaults",
    "triptych.search",
    "triptych.service.knowledge_base",
    "triptych.shortcuts",
    "triptych.sync",
    "triptych_testing",
    "triptych_testing.expiry",
    "triptych.text",
    "triptych.vectors.executor",
    "triptych_server.client",
    "triptych_server.keys",
    "triptych_server.http",
    "triptych_server.keys.authenticator",
    "triptych_models",
    "triptych_backends.filesystem",
    "triptych_backends.memory",
    "triptych_parsers",
    "triptych_sources",
    "triptych_providers",
    "triptych_backends.sqlite",
    "triptych_backends.watching",
    "builtins",
)
"""Where a name in backticks and camel case may come from."""


@attrs.frozen(kw_only=True)
class Block:
    """A fenced block: where it begins (line, from 1), its info string, its text, the exit code."""

    page: Path
    line: int
    kind: str
    text: str
    exit: int = 0

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of ``page``, in order."""
    found: list[Block] = []
    opened: tuple[int, str, str, str] | None = None
    lines: list[str] = []
    before, code = "", 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence is not None:
                opened = (number, fence["indent"], fence["fence"], fence["info"].strip())
                lines = []
                ends = _EXIT.fullmatch(before)
                code = int(ends[1]) if ends else 0
            before = line.strip() or before
        elif fence is not None and fence["fence"] == opened[2] and not fence["info"].strip():
            text = "".join(f"{each.removeprefix(opened[1])}\n" for each in lines)
            found.append(Block(page=page, line=opened[0], kind=opened[3], text=text, exit=code))
            opened = None
        else:
            lines.append(line)
    assert opened is None, f"{page.name}:{opened[0]}: the block never ends" if opened else ""
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    kept, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


# Running


def run_page(page: Path, *, programs: Path) -> None:
    """Run the snippets of ``page`` in the current directory.

    ``programs`` is an empty folder for the commands ``triptych`` and ``python``. What the page
    leaves open is closed at its end, as a program's is when it ends.

    Raises:
        AssertionError: a snippet does something else than the page says.
    """
    with contextlib.ExitStack() as left_open:
        _run_blocks(page, _Console(_command(programs)), left_open)


def _run_blocks(page: Path, console: _Console, left_open: contextlib.ExitStack) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in blocks(page):
        if block.kind == "python":
            printed = _run_python(block, namespace)
            for each in namespace.values():
                if isinstance(each, triptych.Service):
                    left_open.callback(each.close)
        elif block.kind == "output":
            assert matches(block.text, printed), _unlike(block, printed)
        elif block.kind == "console":
            _run_console(block, console)
        elif block.kind == "toml":
            tomllib.loads(block.text)
        elif block.kind == "json":
            json.loads(block.text)
        else:
            assert block.kind in KINDS, (
                f"{block.where}: the info string {block.kind!r} says nothing that is done"
            )


def _run_python(block: Block, namespace: dict[str, Any]) -> str:
    # Blank lines in front, so that a traceback names the page's own line.
    source = "\n" * block.line + block.text
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(block.page), "exec"), namespace)
    return printed.getvalue()


class _Console:
    """Runs command lines, each as ``/bin/sh`` would."""

    _has_run = False

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def run(self, line: str) -> tuple[int, str]:
        """How a line ended, and what it printed on either stream."""
        arguments = _arguments(line)
        if arguments is not None and self._has_run:
            environment = {name: self._environment[name] for name in ("NO_COLOR", "COLUMNS")}
            done_here = ran(arguments, stdin=b"", env=environment)
            return done_here.code, done_here.both
        _Console._has_run = _Console._has_run or arguments is not None
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.returncode, done.stdout.decode("utf-8")


def _arguments(line: str) -> list[str] | None:
    """What the shell gives ``triptych``; None for a line that asks more of the shell than that."""
    if re.search(r"[$`\\*?\[~#!]", line):
        return None
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    found = list(words)
    if found[:1] != ["triptych"] or any(set(word) <= set("();<>|&") for word in found):
        return None
    return found[1:]


def _run_console(block: Block, console: _Console) -> None:
    for line, shown in _commands(block.text):
        ended, printed = console.run(line)
        assert ended == block.exit, (
            f"{block.where}: {line!r} ended with {ended}, not {block.exit}:\n{printed}"
        )
        assert not shown.strip() or matches(shown, printed), _unlike(block, printed)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command with what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        while line.endswith("\\"):
            more, _, shown = shown.partition("\n")
            line = f"{line[:-1]} {more}"
        yield line, shown


def _command(programs: Path) -> dict[str, str]:
    """An environment in which ``triptych`` is this tree's command, ``python`` its interpreter."""
    main = " -c 'from triptych_adapters.cli import main; main()'"
    for name, arguments in (("triptych", main), ("python", "")):
        program = programs / name
        program.write_text(
            f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n', encoding="utf-8"
        )
        program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRIPTYCH_")}
    return kept | {
        "PATH": f"{programs}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }


def _unlike(block: Block, printed: str) -> str:
    return f"{block.where}: shown is\n{block.text}\nbut printed was\n{printed}"


def matches(shown: str, printed: str) -> bool:
    """Whether ``printed`` is what ``shown`` says; white space counts as one space."""
    wanted = _WHITE.sub(" ", shown).strip()
    pattern = re.escape(_DECIMAL.sub("\0", wanted)).replace("…", ".*").replace("\0", "(-?[\\d.]+)")

    found = re.fullmatch(pattern, _WHITE.sub(" ", printed).strip(), re.DOTALL)
    if found is None:
        return False
    pairs = zip(_DECIMAL.findall(wanted), found.groups(), strict=True)
    return all(_close(left, right) for left, right in pairs)


def _close(left: str, right: str) -> bool:
    try:
        shown, printed = (len(each.partition(".")[2]) for each in (left, right))
        rough = shown <= 3
        # A page that rounds what it shows rounds it in its code, or the reader sees other digits.
        if printed > max(shown, 3):
            return False
        return abs(float(left) - float(right)) <= (0.02 if rough else 0.0001)
    except ValueError:  # what stands there is 1.2.3, no number
        return False


# Links and names


def anchors(page: Path) -> set[str]:
    """The anchors that a forge makes of the page's headings, and the site of names in its API."""
    text = prose(page)
    found = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    for line in text.splitlines():
        if re.match(r"#{1,6} ", line):
            title = line.lstrip("#").strip().lower()
            kept = (c for c in title if c in "-_ " or unicodedata.category(c)[0] in "LN")
            found.add("".join(kept).replace(" ", "-"))
    return found


def dead_links(page: Path) -> list[str]:
    """The relative links of ``page`` that lead nowhere."""
    dead = []
    for target in (found["target"] for found in _LINK.finditer(prose(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        is_dead = not file.exists() or (
            bool(anchor) and file.suffix == ".md" and anchor not in anchors(file)
        )
        if is_dead:
            dead.append(target)
    return dead


def unknown_names(page: Path) -> list[str]:
    """Names of Triptych that ``page`` mentions and that do not exist.

    That is ``triptych.…`` anywhere, and what stands alone in backticks in camel case.
    """
    # Pages of the API are files that are named by their module.
    text = re.sub(r"\]\(\S+\.md\b", "](", page.read_text(encoding="utf-8"))
    unknown = [
        f"triptych{found}"
        for found in sorted(set(_QUALIFIED.findall(text)))
        # The settings file, and the group of entry points, which is no module.
        if found not in (".toml", ".parsers")
        and f"triptych{found}" not in METRIC_NAMES
        and not _exists(found[1:].split("."))
    ]
    spans = sorted(filter(_CAMEL.fullmatch, set(_CODE_SPAN.findall(prose(page)))))
    return unknown + [
        span for span in spans if named(span) is None and span not in _of_frameworks()
    ]


def named(name: str) -> Any:
    """What ``name`` is in the first of `CAMEL_HOMES` that has it; None if none has."""
    homes = filter(None, map(_module, CAMEL_HOMES))
    return next((getattr(home, name) for home in homes if hasattr(home, name)), None)


@functools.cache
def _of_frameworks() -> frozenset[str]:
    """The names of the modules for frameworks, which cannot be imported without them."""
    adapters = Path(__file__).parents[2] / "adapters" / "triptych_frameworks"
    found: set[str] = set()
    for framework in ("haystack", "langchain"):
        tree = ast.parse((adapters / framework / "__init__.py").read_text(encoding="utf-8"))
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        found |= {name.name for node in imports for name in node.names}
    return frozenset(found)


def _exists(path: list[str]) -> bool:
    thing: Any = importlib.import_module("triptych")
    for at, name in enumerate(path):
        if isinstance(thing, ModuleType):
            if at == 0 and not hasattr(thing, name) and _module(f"triptych.{name}") is None:
                return False
            inner = _module(".".join(["triptych", *path[: at + 1]]))
            thing = getattr(thing, name, None) or inner
            if thing is None:
                return False
        elif not hasattr(thing, name):
            return False
        else:
            thing = getattr(thing, name)
    return True


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            return None
        raise
