"""What the pages show leaves the reader's own store alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.doc_pages import PAGES, Block, blocks
from triptych_factory.locations import store_in
from triptych_testing import failures

ROOT = Path(__file__).parents[2]
ABOUT_IT = ("README.md", "docs/how-to/console.md", "docs/how-to/my-notes.md")
"""The pages whose subject is the reader's own store. They name no embedder but none."""

_COMMAND = re.compile(r"(?:^|[\s;&|(])triptych +(?P<rest>[^|;&)]*)")
_NAMES_STORE = re.compile(r"(?:^| )(?:-s|--store)[ =]")
_HERE = re.compile(r"""triptych +init\b|TRIPTYCH_URL=|url = ["']""")
"""From such a line on, commands of a page use another store."""
_MADE_HERE = re.compile(r'triptych\.open\("kb\.db"')
"""A program that makes kb.db in the folder, which commands there then find."""
_HASH = re.compile(r"""--embedder[ =]hash|embedder = ["']hash|TRIPTYCH_EMBEDDER=hash""")
_WITHOUT_STORE = re.compile(r"--version|--help|init\b|fetch\b|copy |eval compare |impact \S*HEAD\b")
"""Commands that open no store, or those alone that they name."""


def on_own_store(page: list[Block]) -> list[str]:
    """The command lines of a page that use the reader's own store."""
    found, elsewhere = [], False
    for block in page:
        elsewhere = elsewhere or (block.kind == "python" and bool(_MADE_HERE.search(block.text)))
        if block.kind not in ("console", "text"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            elsewhere = elsewhere or bool(_HERE.search(line))
            if block.kind == "console" and not line.startswith("$ "):
                continue  # what a command prints
            own = [
                command
                for command in _COMMAND.finditer(line)
                if not _NAMES_STORE.search(command["rest"])
                and not _WITHOUT_STORE.match(command["rest"])
            ]
            found += [f"{block.where}: {line}"] if own and not elsewhere else []
    return found


def _leaves_the_own_store_alone(page: Path) -> None:
    shown = blocks(page)
    own = on_own_store(shown)
    if page.relative_to(ROOT).as_posix() in ABOUT_IT:
        assert own
        assert [block.where for block in shown if _HASH.search(block.text)] == []
    else:
        assert own == []


def test_no_page_touches_the_reader_s_own_store() -> None:
    assert failures(PAGES, _leaves_the_own_store_alone) == []


def test_commands_do_not_use_the_store_of_the_readme_s_program(tmp_path: Path) -> None:
    """A reader who ran it, and then `triptych add` there, would miss the notes elsewhere."""
    (program,) = [block.text for block in blocks(ROOT / "README.md") if block.kind == "python"]
    (made,) = re.findall(r'triptych\.open\("([^"]+)"', program)
    (tmp_path / made).touch()
    assert store_in(tmp_path) is None
    (tmp_path / "kb.db").touch()
    assert store_in(tmp_path) is not None


def _says_what_is_run(page: Path) -> None:
    consoles = [block for block in blocks(page) if block.kind == "console"]
    assert [block.where for block in consoles if not block.text.startswith("$ ")] == []


def test_a_block_of_commands_is_run_or_says_that_it_is_not() -> None:
    assert failures(PAGES, _says_what_is_run) == []


@pytest.mark.parametrize(
    ("shown", "count"),
    [
        ("```console\n$ triptych put kettle.md --embedder hash\n```", 1),
        ("```text\ntriptych add ~/notes\n```", 1),
        ("```console\n$ echo tea | triptych --embedder hash put - --name tea.md\n```", 1),
        ("```console\n$ triptych export --quiet | triptych -s b.db import -\n```", 1),
        ("```console\n$ triptych -s ./kb.db put kettle.md\n$ triptych put -s ./kb.db a.md\n```", 0),
        ("```console\n$ triptych init\n$ triptych put kettle.md\n```", 0),
        ("```console\n$ triptych put kettle.md\n$ triptych init\n```", 1),
        ('```python\ntriptych.open("kb.db")\n```\n\n```console\n$ triptych list\n```', 0),
        ("```console\n$ triptych copy a.db b.db\n$ triptych --version\n```", 0),
    ],
)
def test_a_command_on_the_reader_s_own_store_is_seen(
    shown: str, count: int, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{shown}\n", encoding="utf-8")
    assert len(on_own_store(blocks(page))) == count
