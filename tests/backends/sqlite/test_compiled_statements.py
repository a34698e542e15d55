"""Statements compiled ahead: their text is the one that SQLAlchemy writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from triptych_backends.sql import bindparam, resolve, select
from triptych_backends.sql.deferred import column_name, tables as t
from triptych_backends.sqlite.session import FILE, compiled_before, key_of
from triptych_backends.sqlite.write_statements import compile_all

HOW = "make venv writes the file again"


def test_each_kept_text_is_what_sqlalchemy_writes() -> None:
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    made = compile_all()
    assert kept.keys() == made.keys(), HOW
    for key, statement in made.items():
        assert kept[key] == statement, HOW


def test_a_statement_that_was_written_otherwise_is_not_taken_for_another() -> None:
    statement = select(t.dataset.c.name).where(t.dataset.c.id == bindparam("one"))
    assert compiled_before(statement) is None
    keys = {
        key_of(each)
        for each in (
            statement,
            select(t.dataset.c.name).where(t.dataset.c.id == bindparam("two")),
            select(t.dataset.c.name).where(t.dataset.c.id != bindparam("one")),
            select(t.dataset.c.name).where(t.dataset.c.id == "one"),
            select(t.dataset.c.name).where(t.dataset.c.id == 1),
            select(t.dataset.c.name).where(t.dataset.c.id == True),  # noqa: E712 - an expression
            select(t.dataset.c.name).limit(1),
            select(t.dataset.c.name),
        )
    }
    assert len(keys) == 8


def test_a_deferred_expression_is_built_once_and_has_no_truth() -> None:
    column = t.document.c.name
    assert column_name(column) == "name"
    assert resolve(column) is resolve(column)
    with pytest.raises(TypeError, match="no value"):
        bool(column == "a")
    with pytest.raises(TypeError):
        list(column)


@pytest.mark.process
def test_a_store_is_made_read_and_written_without_sqlalchemy(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    code = f"""
import sys, triptych
with triptych.open({str(path)!r}, embedder="hash") as kb:
    kb.put_document("notes", "a.md", "# Kettle\\n\\nThe kettle boils.\\n", {{"n": 3}})
with triptych.open({str(path)!r}) as kb:
    where = {{"n": {{"$gte": 2}}}}
    assert kb.search("kettle", dataset_id="notes", where=where, fresh_only=True).hits
    where = {{"doc_prefix": "a"}}
    assert kb.search("kettle", dataset_id="notes", mode="vector", where=where).hits
    assert kb.get_document("notes", "a.md").content.startswith("# Kettle")
    assert kb.list_documents("notes") and kb.stats("notes")
    kb.put_document("notes", "b.md", "Tea.", {{"n": 4}})
    kb.put_documents("notes", {{"c.md": "Milk.", "d.md": "Sugar."}})
    kb.delete_document("notes", "a.md")
    kb.rebuild(dataset_id="notes")
    assert "sqlalchemy" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
