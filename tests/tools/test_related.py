"""Names that are defined and used, and links: what a place is related to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from support.cli_run import fresh_shell
from support.rows import each_row
from support.servers import served
from triptych.access import Access
from triptych.errors import NotFoundError, ValidationError
from triptych.service import Service
from triptych_adapters.related import Related, related
from triptych_adapters.tools import knowledge_tools

BOILER = """class Kettle:
    \"\"\"Boils water.\"\"\"

    def __init__(self, size: int) -> None:
        self.size = size

    def boil(self) -> None:
        pour_water(self.size)


def unused() -> None:
    pass
"""
WATER = """def pour_water(size: int) -> None:
    print(size)
"""
KITCHEN = """from boiler import Kettle


def breakfast() -> None:
    kettle = Kettle(3)
    kettle.boil()
"""
GUIDE = """# Guide

The class `Kettle` is in [the boiler](../src/boiler.py#L1), and `src/water.py` pours. A kettle is
hot. Nothing is said of ../../secret.py here.
"""


@pytest.fixture(scope="module")
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder=None) as service:
        fill(service)
        yield service


def fill(service: Service) -> None:
    for name, text in (
        ("src/boiler.py", BOILER),
        ("src/water.py", WATER),
        ("src/kitchen.py", KITCHEN),
    ):
        service.put_document("d", name, text, {"kind": "code"})
    service.put_document("d", "docs/guide.md", GUIDE)


def places(found: Related) -> dict[str, list[str]]:
    def all_of(hits: object) -> list[str]:
        assert isinstance(hits, list)
        return [f"{hit.doc_name}:{hit.start_line}" for hit in hits]

    return {
        "definitions": all_of(found.definitions),
        "users": sorted({each.partition(":")[0] for each in all_of(found.users)}),
        "cited": list(found.cited),
        "citing": [each.partition(":")[0] for each in all_of(found.citing)],
    }


def test_a_document_uses_and_is_used_cites_and_is_cited(kb: Service) -> None:
    assert places(related(kb, "d", "src/boiler.py")) == {
        "definitions": ["src/water.py:1"],
        "users": ["docs/guide.md", "src/kitchen.py"],
        "cited": [],
        "citing": ["docs/guide.md"],
    }
    assert places(related(kb, "d", "docs/guide.md")) == {
        "definitions": ["src/boiler.py:1"],
        "users": [],
        "cited": ["src/boiler.py", "src/water.py"],
        "citing": [],
    }


def test_at_a_line_only_what_stands_there_counts(kb: Service) -> None:
    here = places(related(kb, "d", "src/kitchen.py", 5))
    assert here["definitions"] == ["src/boiler.py:1", "src/boiler.py:7"]
    assert places(related(kb, "d", "src/boiler.py", 11))["users"] == []
    # A special method is its class's.
    assert "src/kitchen.py" in places(related(kb, "d", "src/boiler.py", 4))["users"]


def test_a_restricted_caller_learns_of_nothing_else(kb: Service) -> None:
    ours = kb.restricted(Access(where={"doc_prefix": "src/"}))
    assert places(related(ours, "d", "src/boiler.py"))["citing"] == []
    assert "docs/guide.md" not in places(related(ours, "d", "src/boiler.py"))["users"]
    with pytest.raises(NotFoundError):
        related(ours, "d", "docs/guide.md")


def test_it_is_as_fresh_as_a_search() -> None:
    with triptych.open("memory://", embedder=None) as kb:
        fill(kb)
        kb.put_document("d", "src/kitchen.py", "def lunch() -> None:\n    pass\n", {"kind": "code"})
        kb.delete_document("d", "docs/guide.md")
        assert places(related(kb, "d", "src/boiler.py"))["users"] == []


def test_it_is_the_same_over_http(kb: Service) -> None:
    pytest.importorskip("uvicorn")
    from triptych_server.client import connect

    with served(kb) as url, connect(url) as client:
        assert related(client, "d", "src/boiler.py") == related(kb, "d", "src/boiler.py")


def test_what_is_not_there_is_named(kb: Service) -> None:
    with pytest.raises(NotFoundError, match=r"none\.md"):
        related(kb, "d", "none.md")
    with pytest.raises(NotFoundError, match="no line 99"):
        related(kb, "d", "src/water.py", 99)
    with pytest.raises(ValidationError):
        related(kb, "d", "src/water.py", 0)
    kb.put_document("e", "empty.md", "")
    assert related(kb, "e", "empty.md") == Related(definitions=[], users=[], cited=[], citing=[])


@each_row("link", ["[2](two.html)", "[[two]]", "[[two|Second]]", "[[two#Part]]", "[2](two.md)"])
def test_links_to_pages_and_notes_lead_to_their_files(link: str) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_document("d", "sub/one.md", f"# One\n\nSee {link}.\n")
        kb.put_document("d", "sub/two.md", "# Second\n\nText.\n")
        assert related(kb, "d", "sub/one.md").cited == ["sub/two.md"]
        assert [hit.doc_name for hit in related(kb, "d", "sub/two.md").citing] == ["sub/one.md"]


@each_row(
    ("name", "text"),
    [
        ("b.py", 'def f():\n    """It is there, in between."""\n'),
        ("b.py", "def f():  # there, between\n    return f'{there} between'\n"),
        ("b.js", "// there\nconst f = () => `between ${1}` + 'there';\n"),
        ("b.go", "func f() string { /* there */\n return `between` }\n"),
        ("b.rs", 'fn f() -> &str { r#"there"# } // between\n'),
        ("b.c", 'int f(void) { puts("there"); /* between */ }\n'),
        ("b.rb", "def f\n  'there'  # between\nend\n"),
        ("b.java", 'class F { String f() { return "there"; } // between\n}\n'),
    ],
)
def test_words_of_comments_and_strings_are_no_names(name: str, text: str) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        defined = "def there():\n    pass\n\n\ndef between(x):\n    return x\n"
        for each, said in (("a.py", defined), (name, text)):
            kb.put_document("d", each, said, {"kind": "code"})
            kb.put_document("d", f"used/{each}", said + "there(between)\n", {"kind": "code"})
        assert related(kb, "d", name).definitions == []
        assert {hit.doc_name for hit in related(kb, "d", "a.py").users} >= {f"used/{name}"}
        assert name not in {hit.doc_name for hit in related(kb, "d", "a.py").users}
        assert related(kb, "d", name, 1).definitions == []
        assert related(kb, "d", f"used/{name}").definitions


def test_a_tool_lists_the_places(kb: Service) -> None:
    get = {tool.name: tool for tool in knowledge_tools(kb)}["knowledge_get"]
    answer = json.loads(get(name="src/boiler.py", related=True))
    assert answer["related"]["defined"] == ["src/water.py:1 pour_water"]
    assert answer["related"]["linked_from"] == ["docs/guide.md:1 Guide"]
    assert "related" not in json.loads(get(name="src/boiler.py"))
    here = json.loads(get(name="src/kitchen.py", lines="5-6", related=True))
    assert here["related"]["defined"] == ["src/boiler.py:1 Kettle", "src/boiler.py:7 boil"]


def test_the_command_prints_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    for name, text in (("src/boiler.py", BOILER), ("src/kitchen.py", KITCHEN)):
        shell.write(f"all/{name}", text)
    shell.write("all/docs/guide.md", GUIDE)
    assert shell("put", "all").code == 0
    shown = shell("related", "src/kitchen.py:5").text
    assert "defined elsewhere:\n  src/boiler.py:1  Kettle\n" in shown
    asked = shell("related", "docs/guide.md", "--json").json
    assert (asked["name"], asked["line"], asked["cited"]) == (
        "docs/guide.md",
        None,
        ["src/boiler.py"],
    )
    shell.write("all/alone.md", "Alone.")
    shell("put", "all")
    assert "nothing is related" in shell("related", "alone.md").err
