"""Documents in from JSON Lines and Parquet, and out to JSON Lines."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from triptych.errors import NotAvailableError, NotFoundError, ValidationError
from triptych.installation import install_command
from triptych.records import same_metadata
from triptych.service import Service
from triptych.transfer import (
    ImportFields,
    export_jsonl,
    import_jsonl,
    import_parquet,
    iter_exported,
)
from triptych_parsers import default_parser


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder=None) as opened:
        yield opened


def lines(*rows: Any) -> list[bytes]:
    return [json.dumps(row).encode() + b"\n" for row in rows]


def exported(kb: Service, dataset: str = "d", **options: Any) -> bytes:
    out = io.BytesIO()
    export_jsonl(kb, dataset, out, **options)
    return out.getvalue()


def test_what_is_exported_comes_back_on_another_store(kb: Service, tmp_path: Path) -> None:
    kb.put_document("d", "a.md", "# Tea\r\n\r\nHot.\n", {"lang": "en"})
    kb.put_document("d", "b/src.py", "class A:\n    def f(self): ...\n")
    with triptych.open(tmp_path / "copy.db", embedder=None) as copy:
        report = import_jsonl(copy, "d", io.BytesIO(exported(kb)))
        assert (report.added, report.failed) == (2, ())
        for name in ("a.md", "b/src.py"):
            one, other = kb.get_document("d", name), copy.get_document("d", name)
            assert (one.content, one.metadata) == (other.content, other.metadata)
            assert [each.heading_path for each in kb.chunks.iter_chunks("d", name)] == [
                each.heading_path for each in copy.chunks.iter_chunks("d", name)
            ]
        assert import_jsonl(copy, "d", io.BytesIO(exported(kb))).unchanged == 2


def test_a_line_says_all_that_is_known_of_a_document(kb: Service) -> None:
    made = kb.put_document("d", "a.md", "Tea", {"lang": "en"})
    assert list(iter_exported(kb, "d")) == [
        {
            "name": "a.md",
            "content": "Tea",
            "metadata": {"lang": "en"},
            "version": 1,
            "updated_at": made.updated_at.isoformat(),
        }
    ]


def test_versions_go_out_oldest_first_and_come_back_as_versions(kb: Service) -> None:
    for text in ("one", "two", "three"):
        kb.put_document("d", "a.md", text)
    assert [line["content"] for line in iter_exported(kb, "d")] == ["three"]
    out = exported(kb, versions=True)
    assert [json.loads(line)["content"] for line in out.splitlines()] == ["one", "two", "three"]
    import_jsonl(kb, "copy", io.BytesIO(out))
    assert kb.get_document("copy", "a.md").content == "three"
    assert [each.version for each in kb.history("copy", "a.md")] == [3, 2, 1]


def test_an_export_pages_through_any_number_of_documents(kb: Service) -> None:
    kb.put_documents("d", {f"{at:04}.md": f"text {at}" for at in range(700)})
    assert [line["name"] for line in iter_exported(kb, "d")] == [f"{at:04}.md" for at in range(700)]


def test_a_bad_line_is_named_by_its_number_and_holds_up_no_other(kb: Service) -> None:
    good = lines({"name": "a", "content": "A"}, {"name": "b", "content": "B"})
    bad = [
        b"{not json}\n",
        b"\xff\xfe\n",
        b"[1, 2]\n",
        b'{"name": "c"}\n',
        b'{"name": "c", "content": 5}\n',
        b'{"name": "c\\u0000", "content": "x"}\n',
        b'{"name": "c", "content": "\\ud800"}\n',
        b'{"name": "c", "content": "x", "metadata": []}\n',
        b"[" * 100_000 + b"\n",
    ]
    report = import_jsonl(kb, "d", [good[0], b"\n", *bad, b"   \n", good[1]])
    assert report.added == 2
    assert [each.name for each in report.failed] == [f"line {at}" for at in range(3, 12)]
    assert all(isinstance(each.error, ValidationError) for each in report.failed)
    assert "'content'" in str(report.failed[3].error)


def test_fields_of_other_names_are_taken_as_told(kb: Service) -> None:
    row = {"id": 7, "text": "Tea", "lang": "en", "year": 2024, "tags": ["a"], "none": None}
    import_jsonl(
        kb,
        "some",
        lines(row),
        fields=ImportFields(name="id", content="text", metadata=("lang", "year", "missing")),
    )
    stored = kb.get_document("some", "7")
    assert set(stored.metadata) == {"lang", "year"}
    assert stored.metadata["year"] == 2024
    everything = ImportFields(name="id", content="text", metadata=("*",))
    import_jsonl(kb, "all", lines(row), fields=everything)
    assert kb.get_document("all", "7").metadata == {"lang": "en", "year": 2024, "tags": ["a"]}
    with pytest.raises(ValidationError, match="names of fields"):
        ImportFields(metadata="lang")  # type: ignore[arg-type]


def test_places_and_provenance_of_a_parsed_file_come_back(kb: Service) -> None:
    rows = "name,price\nkettle,35\ncup,2\n"
    parsed = default_parser().parse("a.csv", rows.encode())
    assert parsed is not None
    kb.put_documents("d", [parsed.document("a.csv", {})])
    import_jsonl(kb, "copy", io.BytesIO(exported(kb)))
    one, other = kb.get_document("d", "a.csv"), kb.get_document("copy", "a.csv")
    assert one.parser_sig == other.parser_sig != ""
    assert one.original_sha256 == other.original_sha256
    places = [each.locator for each in kb.chunks.iter_chunks("d", "a.csv")]
    assert places == [each.locator for each in kb.chunks.iter_chunks("copy", "a.csv")]
    assert places[0] is not None


def test_typed_metadata_goes_out_and_comes_back(kb: Service) -> None:
    metadata = {
        "text": "a",
        "number": 3,
        "share": 0.5,
        "yes": True,
        "day": date(2024, 2, 29),
        "moment": datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        "tags": ["a", 1, date(2024, 1, 1)],
    }
    kb.put_document("d", "a", "A", metadata)
    import_jsonl(kb, "copy", io.BytesIO(exported(kb)))
    assert same_metadata(kb.get_document("copy", "a").metadata, metadata)


def test_what_metadata_cannot_hold_is_kept_as_json(kb: Service) -> None:
    row = {"name": "a", "content": "A", "metadata": {"o": {"x": 1}, "l": [[1], None], "n": None}}
    import_jsonl(kb, "d", lines(row))
    assert kb.get_document("d", "a").metadata == {"o": '{"x": 1}', "l": "[[1], null]"}


def test_values_of_a_table_keep_their_types(kb: Service, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"name": "a", "content": "A", "day": date(2024, 2, 29), "price": Decimal("1.5"), "n": 1.0},
        {"name": "b", "content": "B", "day": None, "price": None, "n": float("nan")},
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    import_parquet(kb, "d", tmp_path / "a.parquet", fields=ImportFields(metadata=("*",)))
    found = kb.get_document("d", "a").metadata
    assert found == {"day": date(2024, 2, 29), "price": 1.5, "n": 1.0}
    assert kb.get_document("d", "b").metadata == {}


def test_a_row_without_metadata_keeps_what_the_document_has(kb: Service) -> None:
    kb.put_document("d", "a", "A", {"lang": "en"})
    import_jsonl(kb, "d", lines({"name": "a", "content": "B"}))
    assert kb.get_document("d", "a").metadata == {"lang": "en"}


def test_text_lines_and_a_byte_order_mark_are_read_too(kb: Service) -> None:
    rows = ['\ufeff{"name": "a", "content": "A"}\r\n', '{"name": "b", "content": "B"}']
    assert import_jsonl(kb, "d", rows).added == 2
    rows_of_bytes = [b"\xef\xbb\xbf" + rows[1].encode()]
    assert import_jsonl(kb, "e", rows_of_bytes).added == 1


def test_an_export_of_no_dataset_says_so(kb: Service) -> None:
    with pytest.raises(NotFoundError):
        exported(kb, "nothing")


def test_parquet_is_read_row_by_row(kb: Service, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"name": f"{at}", "content": f"text {at}", "metadata": {"lang": "en"}} for at in range(3000)
    ]
    rows[1500]["content"] = None
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=1000)
    report = import_parquet(kb, "d", tmp_path / "a.parquet")
    assert report.added == 2999
    assert [each.name for each in report.failed] == ["row 1501"]
    assert kb.get_document("d", "7").metadata == {"lang": "en"}


def test_what_is_no_parquet_is_refused(kb: Service, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"hello")
    with pytest.raises(ValidationError, match="no Parquet file"):
        import_parquet(kb, "d", tmp_path / "a.parquet")
    with pytest.raises(NotFoundError):
        import_parquet(kb, "d", tmp_path / "none.parquet")


def test_without_pyarrow_the_extra_is_named(
    kb: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(NotAvailableError, match=re.escape(install_command(extra="parquet"))):
        import_parquet(kb, "d", tmp_path / "a.parquet")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SCALARS = (
    TEXT
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.dates()
    | st.datetimes()
)
KEYS = st.text("abc", min_size=1, max_size=3)
VALUES = SCALARS | st.lists(SCALARS, max_size=3)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    lambda name: not name.isspace() and not name.endswith("/")
)


@pytest.mark.property
@settings(max_examples=examples(60), deadline=None)
@given(
    st.dictionaries(
        NAMES,
        st.tuples(
            TEXT, st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=3)
        ),
        max_size=6,
    )
)
def test_a_round_trip_loses_nothing(documents: dict[str, tuple[str, dict[str, Any]]]) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        for name, (content, metadata) in documents.items():
            kb.put_document("d", name, content, metadata)
        out = exported(kb) if documents else b""
        report = import_jsonl(kb, "copy", io.BytesIO(out))
        assert (report.added, report.failed) == (len(documents), ())
        for name in documents:
            one, other = kb.get_document("d", name), kb.get_document("copy", name)
            assert one.content == other.content
            assert same_metadata(one.metadata, other.metadata)
        if documents:
            again = [{**line, "updated_at": ""} for line in iter_exported(kb, "copy")]
            assert again == [{**line, "updated_at": ""} for line in iter_exported(kb, "d")]


@pytest.mark.process
def test_the_commands_pipe_into_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "triptych_adapters.cli", "--embedder", "none"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}

    def run(*arguments: str, data: bytes | None = None, code: int = 0) -> bytes:
        done = subprocess.run(
            [*command, *arguments],
            input=data,
            capture_output=True,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        assert done.returncode == code, done.stderr.decode()
        return done.stdout if code == 0 else done.stderr

    (tmp_path / "rows.jsonl").write_text(
        '{"id": 1, "text": "水 boils", "lang": "en"}\nnonsense\n{"id": 2, "text": "Tea"}\n',
        encoding="utf-8",
    )
    options = ("--name-field", "id", "--content-field", "text", "-m", "lang")
    told = run("import", "rows.jsonl", *options, code=8)
    assert b"line 2: it is not JSON" in told
    out = run("export")
    assert json.loads(out.splitlines()[0])["content"] == "水 boils"
    run("--store", "copy.db", "import", "-", data=out)
    run("--store", "copy.db", "export", "--output", "copy.jsonl")
    one, other = (
        [{**json.loads(line), "updated_at": ""} for line in data.splitlines()]
        for data in (out, (tmp_path / "copy.jsonl").read_bytes())
    )
    assert one == other
    assert b"there is no file" in run("import", "none.jsonl", code=3)
    assert b"nothing" in run("export", "--dataset", "nothing", "--output", "copy.jsonl", code=3)
    assert (tmp_path / "copy.jsonl").read_bytes()
