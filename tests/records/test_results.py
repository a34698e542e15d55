"""A result as a sequence, as text, as HTML and as a table; what a hit says of itself."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import (
    DatasetSearchOptions,
    Failure,
    PutReport,
    QuestionOptions,
    RebuildReport,
    Result,
    SearchOptions,
)
from triptych.sync import SyncReport

TEXTS = {
    "a.md": "# One\n\nred fish\n",
    "b.md": "# Two\n\nblue <b>fish</b> & more\n\n## Three\n\nline\nline\nfish\n",
}


@pytest.fixture
def kb() -> triptych.Service:
    made = triptych.open("memory://", embedder="hash")
    made.put_documents("d", TEXTS)
    return made


def test_a_result_is_the_sequence_of_its_hits(kb: triptych.Service) -> None:
    found = kb.search("fish", dataset_id="d")
    assert len(found) == len(found.hits) == len(list(found))
    assert (found[0], found[-1], found[:2]) == (found.hits[0], found.hits[-1], found.hits[:2])
    assert [hit.doc_name for hit in found] == [hit.doc_name for hit in found.hits]
    assert found
    assert found.hits[1] in found
    nothing = kb.search("zebra", dataset_id="d", mode="bm25")
    assert not nothing
    assert (len(nothing), list(nothing)) == (0, [])
    assert found == kb.search("fish", dataset_id="d")


def test_reprs_are_short(kb: triptych.Service) -> None:
    kb.put_document("d", "long.md", "fish " * 5000)
    found = kb.search("fish", dataset_id="d", top_k=40)
    assert all(len(repr(hit)) < 200 for hit in found)
    assert repr(found).startswith(f"<Result: {len(found)} hits\n")
    assert len(repr(found).splitlines()) <= 12
    assert repr(Result()) == "<Result: 0 hits>"
    assert repr(Result(warnings=("careful",))) == "<Result: 0 hits, 1 warning>"
    assert repr(kb).startswith("<Service MemoryStore, hash-bag-of-words")
    assert repr(kb.dataset("d")).startswith("<Dataset 'd' of <Service")
    kb.close()
    assert "closed" in repr(kb)


def test_a_hit_names_its_version_lines_and_no_file(kb: triptych.Service) -> None:
    kb.put_document("d", "a.md", "# One\n\nred fish\n\nmore\n")
    hit = next(hit for hit in kb.search("red", dataset_id="d", mode="bm25"))
    assert (hit.version, hit.path, hit.file) == (2 if hit.version == 2 else hit.version, None, None)
    assert hit.version == kb.get_document("d", "a.md").version
    content = kb.get_document("d", "a.md").content
    for each in kb.search("fish", dataset_id="d"):
        content = kb.get_document("d", each.doc_name).content
        last = content[: each.start + len(each.content.rstrip("\n"))].count("\n") + 1
        assert each.end_line == last
        assert content[each.start : each.end] == each.content


def test_a_hit_of_a_remembered_folder_knows_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell: Shell = fresh_shell(tmp_path, monkeypatch)
    shell("init")
    file = shell.write("notes/deep/a.md", "red fish")
    other = shell.write("docs/b.md", "red fish too")
    shell("add", "notes", "--prefix", "n/")
    shell("sync", "docs", "--prefix", "d/")
    with triptych.open(tmp_path / ".triptych" / "kb.db") as kb:
        paths = {hit.doc_name: hit.path for hit in kb.search("fish", dataset_id="default")}
        assert paths == {"n/deep/a.md": file, "d/b.md": other}
        whole = kb.search_documents("fish", dataset_id="default")
        assert {hit.path for hit in whole} == {file, other}
    rows = shell("search", "fish", "--json").json["hits"]
    assert {row["doc_name"]: row["file"] for row in rows}["n/deep/a.md"] == str(file)


def test_a_search_without_remembered_folders_imports_no_sync(tmp_path: Path) -> None:
    code = """
import sys, triptych
with triptych.open("kb.db", embedder="hash") as kb:
    kb.put_document("d", "a.md", "red fish")
    assert kb.search("fish", dataset_id="d")
print([name for name in sys.modules if name.startswith("triptych.sync")])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_html_shows_hits_and_warnings_and_is_escaped(kb: triptych.Service) -> None:
    html = kb.search("fish", dataset_id="d")._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>fish" not in html
    assert "d/b.md:" in html
    assert Result(warnings=("a < b",))._repr_html_() == "<p>no hits</p>\n<p>a &lt; b</p>"


def test_dicts_have_the_names_of_a_hit(kb: triptych.Service) -> None:
    found = kb.search("fish", dataset_id="d")
    rows = found.to_dicts()
    assert json.loads(json.dumps(rows)) == rows
    assert rows[0]["end_line"] >= rows[0]["start_line"]
    for row, hit in zip(rows, found, strict=True):
        assert all(hasattr(hit, name) for name in row)
        assert (row["doc_name"], row["snippet"]) == (hit.doc_name, hit.snippet)


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_a_result_is_a_table(kb: triptych.Service) -> None:
    table = kb.search("fish", dataset_id="d").to_pandas()
    assert list(table.columns) == list(kb.search("fish", dataset_id="d").to_dicts()[0])
    assert set(table["doc_name"]) == {"a.md", "b.md"}
    assert list(Result().to_pandas().columns) == list(table.columns)


def test_without_pandas_a_table_is_not_available(
    kb: triptych.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(NotAvailableError, match="pip install pandas"):
        kb.search("fish", dataset_id="d").to_pandas()


def test_the_typed_arguments_are_the_fields_of_a_query() -> None:
    fields = {name for name in triptych.Query.__attrs_attrs__ for name in [name.name]} - {"text"}  # type: ignore[attr-defined]
    assert set(SearchOptions.__annotations__) | set(DatasetSearchOptions.__annotations__) == fields
    places = {"dataset_id", "dataset_ids", "scope"}
    assert set(DatasetSearchOptions.__annotations__) == fields - places
    of_results = {"top_k", "offset", "per_document"}
    assert set(QuestionOptions.__annotations__) == fields - places - of_results


def test_where_none_is_no_condition(kb: triptych.Service) -> None:
    assert kb.search("fish", dataset_id="d", where=None) == kb.search("fish", dataset_id="d")
    assert len(kb.dataset("d").search("fish", where=None)) == 3


@pytest.mark.parametrize("report", [PutReport, RebuildReport, SyncReport])
def test_a_report_raises_its_failures(report: type[PutReport]) -> None:
    report().raise_for_failures()
    failed = tuple(
        Failure(dataset_id="d", name=f"{n}.md", error=ValidationError(f"bad {n}"))
        for n in range(13)
    )
    with pytest.raises(ValidationError, match="bad 0") as raised:
        report(failed=failed).raise_for_failures()
    notes = raised.value.__notes__
    assert (notes[0], notes[-1]) == ("d/1.md failed too: bad 1", "and 2 more failed")


@pytest.mark.parametrize(
    "documents",
    [
        [{"name": "a", "content": "b"}],
        [triptych.NewDocument(name="a", content="b"), ("a", "b")],
        {"a": "text", "b": None},
        {"a": "text", 1: "text"},
    ],
)
def test_what_is_not_a_document_is_refused_before_anything_is_written(
    kb: triptych.Service, documents: object
) -> None:
    with pytest.raises(ValidationError, match="put_documents"):
        kb.put_documents("new", documents)  # type: ignore[arg-type]  # on purpose
    assert kb.list_datasets() == ["d"]


def test_a_stream_ends_at_what_is_not_a_document(kb: triptych.Service) -> None:
    def documents() -> object:
        for number in range(1100):
            yield triptych.NewDocument(name=f"{number:04}", content="text")
        yield "no document"

    with pytest.raises(ValidationError, match="not str"):
        kb.put_documents("new", documents())  # type: ignore[arg-type]  # on purpose
    assert len(kb.list_documents("new")) == 256 + 512  # two batches
