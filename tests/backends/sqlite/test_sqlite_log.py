"""The change log that the index replays, and how statements reach their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import Delete, SelectBase, Update

from support.sqlite_stores import CONFIG, derive, put
from triptych.records import DerivedLayer, DerivedSig, Layer, NewDocument
from triptych_backends.sql.deferred import Upsert, resolve
from triptych_backends.sqlite import SqliteStore
from triptych_backends.sqlite.session import compiled
from triptych_backends.sqlite.write_statements import statements_in


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore.open(tmp_path / "kb.db") as store:
        assert store.chunks.configure("d", CONFIG, expected=None)
        yield store


def owners(store: SqliteStore, after: int = 0) -> set[tuple[str | None, int]]:
    changes = store.feed.changes("d", after)
    assert [change.seq for change in changes] == sorted({change.seq for change in changes})
    assert all(change.seq <= store.feed.head().seq for change in changes)
    return {(change.field, change.owner) for change in changes}


def live(store: SqliteStore) -> set[tuple[str | None, int]]:
    with store.database.reading() as session:
        run = session.driver.execute
        documents = {("document", pk) for (pk,) in run("SELECT id FROM document")}
        sets = {("chunk", pk) for (pk,) in run("SELECT document_id FROM derivation")}
        fields = {"L0": "abstract", "L1": "overview"}
        layers = {(fields[kind], pk) for pk, kind in run("SELECT id, layer FROM layer")}
    return documents | sets | layers


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "same", "meta", "derive", "layer", "delete", "sets", "all", "space", "layers"]
        ),
        st.sampled_from("ab"),
    ),
    max_size=25,
)


@given(OPERATIONS)
@settings(max_examples=40, deadline=None)
def test_replaying_the_log_from_anywhere_names_every_owner_that_differs(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, str]]
) -> None:
    with SqliteStore.open(tmp_path_factory.mktemp("log") / "kb.db") as store:
        store.chunks.configure("d", CONFIG, expected=None)
        states = [(store.feed.head().seq, _units(store))]
        for step, (what, name) in enumerate(operations):
            _apply(store, what, name, step)
            states.append((store.feed.head().seq, _units(store)))
        assert [seq for seq, _ in states] == sorted(seq for seq, _ in states)
        assert live(store) <= owners(store)
        now = states[-1][1]
        for seq, then in states:
            changes = store.feed.changes("d", seq)
            named = {(change.field, change.owner) for change in changes}
            if any(change.field is None for change in changes):
                assert set(now) <= named
            else:
                differ = {
                    owner for owner in then.keys() | now.keys() if then.get(owner) != now.get(owner)
                }
                assert differ <= named
        _every_vector_is_referenced(store)


def _units(store: SqliteStore) -> dict[tuple[str | None, int], list[object]]:
    units: dict[tuple[str | None, int], list[object]] = {}
    for field, owner in live(store):
        for unit in store.feed.units("d", field, [owner]):  # type: ignore[arg-type]  # live() never has None
            assert unit.owner == owner
            vector = None if unit.vector is None else unit.vector.tobytes()
            units.setdefault((field, owner), []).append((unit.key, unit.name, unit.text, vector))
    return units


def _apply(store: SqliteStore, what: str, name: str, step: int) -> None:
    match what:
        case "put":
            store.documents.put("d", NewDocument(name=name, content=f"one\n{step}\n"))
        case "same":
            store.documents.put("d", NewDocument(name=name, content="one\n"))
        case "meta":
            document = store.documents.get("d", name)
            content = document.content if document else ""
            metadata = {"step": f"{step}\0"}
            store.documents.put("d", NewDocument(name=name, content=content, metadata=metadata))
        case "derive":
            document = store.documents.get("d", name)
            if document:
                derive(store, document)
        case "layer":
            document = store.documents.get("d", name)
            sig = DerivedSig(source_version=document.version if document else 1, embed_sig="hash")
            store.layers.put(
                DerivedLayer(
                    dataset_id="d",
                    doc_name=name if step % 2 else "",
                    layer=Layer.ABSTRACT,
                    content=f"one {step % 3}",
                    sig=sig,
                )
            )
        case "delete":
            store.documents.delete("d", name)
        case "sets":
            store.chunks.delete_by_doc("d", name)
        case "all":
            store.documents.delete_dataset("d")
        case "layers":
            store.layers.delete_by_dataset("d")
        case "space":
            config = store.chunks.config("d")
            new = attrs.evolve(CONFIG, language="german" if step % 2 else "english")
            assert store.chunks.configure("d", new, expected=config)


def _every_vector_is_referenced(store: SqliteStore) -> None:
    with store.database.reading() as session:
        orphans = session.driver.execute(
            "SELECT count(*) FROM vector WHERE id NOT IN (SELECT vector_id FROM chunk "
            "WHERE vector_id IS NOT NULL UNION SELECT vector_id FROM layer "
            "WHERE vector_id IS NOT NULL)"
        ).fetchone()[0]
    assert orphans == 0


def test_log_is_bounded_by_the_owners(store: SqliteStore) -> None:
    for number in range(50):
        put(store, "a", f"{number}\n")
    assert len(store.feed.changes("d", 0)) == 3
    store.documents.delete_dataset("d")
    assert owners(store) == {(None, 0)}


def test_another_space_lists_every_owner_behind_a_reset(store: SqliteStore) -> None:
    put(store, "a", "one\n")
    put(store, "b", "one\ntwo\n")
    seen = store.feed.head().seq
    other = attrs.evolve(CONFIG, embed_sig="other")
    assert store.chunks.configure("d", other, expected=CONFIG)
    assert store.feed.changes("d", seen)[0].field is None
    assert owners(store, seen) == live(store) | {(None, 0)} == owners(store)
    documents = [change.owner for change in store.feed.changes("d", 0) if change.field == "chunk"]
    assert [unit.vector for unit in store.feed.units("d", "chunk", documents)] == [None] * 3
    head = store.feed.head()
    chunker = attrs.evolve(other, chunker_sig="lines")
    assert store.chunks.configure("d", chunker, expected=other)
    assert store.feed.head() == head


def test_metadata_alone_changes_nothing_that_is_indexed_identical_puts_nothing_at_all(
    store: SqliteStore,
) -> None:
    put(store, "a", "one\n")
    head = store.feed.head()
    store.documents.put("d", NewDocument(name="a", content="one\n", metadata={"k": "v"}))
    # Those who follow documents see it; an index has nothing to read again.
    assert store.feed.changes("d", head.seq) == []
    head = store.feed.head()
    store.documents.put("d", NewDocument(name="a", content="one\n", metadata={"k": "v"}))
    assert store.feed.head() == head
    info = store.documents.get_info("d", "a")
    assert info is not None
    assert info.version == 2


MODULES = (
    "vectors documents document_rows deletes chunk_sets change_log filters chunks chunk_rows "
    "layers transaction vector_uses store"
)


def test_no_statement_walks_through_a_table(store: SqliteStore) -> None:
    allowed = {
        "SCAN clock",
        "SCAN dataset USING INDEX sqlite_autoindex_dataset_1",
        # All of their ids, when what was deleted is scrubbed.
        "SCAN dataset USING COVERING INDEX sqlite_autoindex_dataset_1",
        "SCAN anon_1",
        # Which is kept at a thousand rows, and walked once a writing connection.
        "SCAN epoch",
        # All settings: they are few.
        "SCAN meta USING INDEX sqlite_autoindex_meta_1",
    }
    seen = 0
    for module in MODULES.split():
        for value in vars(import_module(f"triptych_backends.sql.{module}")).values():
            for statement in statements_in(value):
                if isinstance(statement, Upsert) or not isinstance(
                    resolve(statement), SelectBase | Update | Delete
                ):
                    continue
                sql, names, _ = compiled(statement)
                seen += 1
                with store.database.reading() as session:
                    plan = session.driver.execute(f"EXPLAIN QUERY PLAN {sql}", [None] * len(names))
                    steps = [row[3] for row in plan]
                assert not [
                    step
                    for step in steps
                    if step.startswith("SCAN") and "VIRTUAL" not in step and step not in allowed
                    # The oldest deletions are looked for once in a thousand ticks.
                    if (module, step) != ("transaction", "SCAN document_change")
                ], (module, sql, steps)
                # Ids alone lead to these: a plan that begins at the dataset reads all of it.
                if module == "change_log" and "json_each" in sql:
                    assert not steps[0].startswith("SEARCH dataset"), (sql, steps)
    assert seen > 60


def test_hot_paths_take_one_statement(store: SqliteStore) -> None:
    documents = [put(store, name, "one\ntwo\n") for name in "abc"]
    with store.database.reading() as session:
        keys = [row[0] for row in session.driver.execute("SELECT id FROM chunk")]
        vectors = [row[0] for row in session.driver.execute("SELECT id FROM vector")]
        statements: list[str] = []
        session.driver.set_trace_callback(statements.append)
    for call in (
        store.feed.head,
        lambda: store.chunks.fetch(keys),
        lambda: store.feed.vectors("d", vectors),
        lambda: store.feed.changes("d", 0),
        lambda: store.chunks.get_doc_sigs("d", ["a", "b"]),
        lambda: store.documents.put("d", NewDocument(name="a", content=documents[0].content)),
    ):
        statements.clear()
        assert call()
        asked = [each for each in statements if each != "PRAGMA data_version"]
        assert len(asked) == 1, json.dumps(statements)
    store.feed.head()  # the put has committed
    statements.clear()
    assert store.feed.head()
    assert statements == ["PRAGMA data_version"], "nothing was committed since"
    with store.database.reading() as session:
        session.driver.set_trace_callback(None)
