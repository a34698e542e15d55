"""A text that is put by itself is cut by the structure that a file of its name has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from triptych.errors import ParseError
from triptych.records import NewDocument
from triptych.service import Service, ServiceOptions
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import FakeEmbedder

GO = "package a\n\nfunc Login() {\n\treturn\n}\n\nfunc Logout() {\n\treturn\n}\n"
JSON = '{"a": "' + "x " * 150 + '", "b": "' + "y " * 150 + '"}\n'
YAML = "first:\n  " + "x " * 150 + "\nsecond:\n  " + "y " * 150 + "\n"
URLS = ["memory://", "kb.db", "files:///{}/kb"]


def chunks(kb: Service, name: str, dataset_id: str = "d") -> list[tuple[object, ...]]:
    return [
        (chunk.content, chunk.heading_path, chunk.locator)
        for chunk in kb.chunks.iter_chunks(dataset_id, name)
    ]


def paths(kb: Service, name: str) -> list[object]:
    return [path for _, path, _ in chunks(kb, name)]


@pytest.fixture(params=URLS)
def kb(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Service]:
    monkeypatch.chdir(tmp_path)
    with triptych.open(request.param.format(tmp_path), embedder=FakeEmbedder()) as service:
        yield service


@pytest.mark.parametrize(("name", "text"), [("a.go", GO), ("a.json", JSON), ("a.yaml", YAML)])
def test_a_plain_put_is_cut_as_the_file_is(
    kb: Service, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    triptych.ingest_file(kb, tmp_path / name, "files", name=name)
    stored = kb.put_document("d", name, text)
    assert stored.content == text
    assert chunks(kb, name) == chunks(kb, name, "files")
    assert len({path for path in paths(kb, name) if path}) == 2
    report = kb.put_documents("bulk", {name: text})
    assert report.added == 1
    assert chunks(kb, name, "bulk") == chunks(kb, name, "files")


def test_an_identical_put_costs_nothing_and_metadata_is_kept(kb: Service) -> None:
    first = kb.put_document("d", "a.go", GO, {"lang": "go"})
    calls = kb.options.embedder.calls  # type: ignore[union-attr]  # the fake's
    assert kb.put_document("d", "a.go", GO) == first
    assert kb.put_document("d", "a.go", GO, {"lang": "go"}) == first
    assert kb.put_document("d", "a.go", GO, first.metadata) == first
    assert kb.options.embedder.calls == calls  # type: ignore[union-attr]  # likewise
    changed = kb.put_document("d", "a.go", GO.replace("Logout", "Leave"))
    assert changed.metadata["lang"] == "go"
    assert paths(kb, "a.go")[1:] == [("Login",), ("Leave",)]
    emptied = kb.put_document("d", "a.go", GO, {})
    assert emptied.metadata == {}
    assert emptied.system == first.system
    kb.rebuild(dataset_id="d")
    assert paths(kb, "a.go")[1:] == [("Login",), ("Logout",)]
    restored = kb.restore("d", "a.go", first.version)
    assert (restored.content, restored.metadata) == (first.content, first.metadata)


def test_the_outline_of_another_text_is_replaced(kb: Service) -> None:
    stored = kb.put_document("d", "a.go", GO)
    changed = kb.put_document("d", "a.go", GO.replace("Login", "Enter"), stored.metadata)
    assert changed.system.outline not in ("", stored.system.outline)
    assert paths(kb, "a.go")[1:] == [("Enter",), ("Logout",)]
    assert kb.put_document("d", "a.go", "").system.outline == ""


def test_an_outline_of_ones_own_is_kept(kb: Service) -> None:
    kb.put_documents("d", [NewDocument(name="a.go", content=GO, outline="")])
    assert kb.get_document("d", "a.go").system.outline == ""


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", '{"a": '), ("a.md", "# A\n"), ("notes", GO), ("a.sh", "echo 1")]
)
def test_what_has_no_such_structure_is_put_as_it_is(kb: Service, name: str, text: str) -> None:
    assert kb.put_document("d", name, text, {"k": "v"}).system.outline == ""


def test_without_the_extra_code_is_plain_text(kb: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    assert kb.put_document("d", "a.go", GO).system.outline == ""
    assert set(paths(kb, "a.go")) == {()}


def test_a_service_without_an_outliner_is_as_it_was() -> None:
    store = MemoryStore()
    with Service(store, options=ServiceOptions()) as kb:
        assert kb.put_document("d", "a.go", GO).system.outline == ""


def test_a_document_without_outline_loads_no_parser() -> None:
    code = (
        "import sys, triptych\n"
        "with triptych.open('memory://', embedder=None) as kb:\n"
        "    kb.put_document('d', 'a.md', 'text')\n"
        "assert not {'triptych_parsers', 'tree_sitter'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_outliner_that_fails_is_reported_and_the_rest_is_put() -> None:
    def outliner(name: str, content: str) -> str | None:
        if name == "bad.md":
            raise KeyError("no such rule")
        return None

    with Service(MemoryStore(), options=ServiceOptions(outliner=outliner)) as kb:
        report = kb.put_documents("d", {"a.md": "one", "bad.md": "two", "c.md": "three"})
        assert (report.added, [failure.name for failure in report.failed]) == (2, ["bad.md"])
        with pytest.raises(ParseError, match=r"the outliner failed on 'bad\.md'"):
            raise report.failed[0].error
        assert [info.name for info in kb.list_documents("d")] == ["a.md", "c.md"]
        with pytest.raises(ParseError, match="KeyError"):
            kb.put_document("d", "bad.md", "two")
