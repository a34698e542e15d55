"""Tables that are not ours, followed into a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from support.foreign_tables import ForeignTables, foreign_tables
from support.postgres import PostgresServer
from triptych import ConflictError, Service
from triptych.errors import DeletionHeldError
from triptych.sync import RowReport, RowSource, follow_rows

pytest.importorskip("psycopg")

from triptych_backends.in_place import TableSpec
from triptych_backends.in_place.postgres import ForeignDatabase, TableRows


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> Iterator[ForeignTables]:
    with foreign_tables(postgres_server) as made:
        yield made


@pytest.fixture
def tables(database: ForeignTables) -> ForeignTables:
    database.execute(
        "DROP TABLE IF EXISTS notes CASCADE",
        "CREATE TABLE notes (id bigint PRIMARY KEY, title text, body text, lang text, "
        "changed timestamptz DEFAULT now())",
        "INSERT INTO notes (id, title, body, lang, changed) SELECT n, 'Note ' || n, "
        "'The text of ' || n, 'en', now() - interval '1 day' FROM generate_series(1, 12) n",
    )
    return database


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(tmp_path / "kb.db", embedder="hash") as service:
        yield service


SPEC = TableSpec(
    table="notes",
    columns=[{"text": "title"}, {"text": "body"}],
    metadata=["lang"],
    updated_at="changed",
)


def rows(tables: ForeignTables, **changes: object) -> TableRows:
    import attrs

    return TableRows(ForeignDatabase(tables.url), attrs.evolve(SPEC, **changes))


def counts(report: RowReport) -> tuple[int, int, int]:
    report.raise_for_failures()
    return report.added, report.updated, len(report.deleted)


def test_only_what_changed_is_written(kb: Service, tables: ForeignTables) -> None:
    with rows(tables) as source:
        first = follow_rows(kb, "notes", source)
        assert counts(first) == (12, 0, 0)
        document = kb.get_document("notes", "7")
        assert document.content == "Note 7\n\nThe text of 7"
        assert document.metadata == {"lang": "en"}
        again = follow_rows(kb, "notes", source)
        assert counts(again) == (0, 0, 0)
        assert again.embedded == 0
        tables.execute(
            "UPDATE notes SET body = 'A lighthouse', changed = now() WHERE id = 7",
            "INSERT INTO notes VALUES (13, 'New', 'text', NULL, now())",
            "DELETE FROM notes WHERE id = 3",
            "UPDATE notes SET title = NULL, body = NULL, changed = now() WHERE id = 4",
        )
        assert counts(follow_rows(kb, "notes", source)) == (1, 1, 2)
    assert kb.search("lighthouse", dataset_id="notes").hits[0].doc_name == "7"
    assert kb.get_document("notes", "7").version > document.version
    names = {info.name for info in kb.list_documents("notes")}
    assert names == {str(n) for n in range(1, 14)} - {"3", "4"}


def test_late_commits_are_seen(kb: Service, tables: ForeignTables) -> None:
    with rows(tables) as source, tables.connect("postgres") as late:
        late.autocommit = False
        late.execute("INSERT INTO notes VALUES (20, 'Late', 'begun first', 'en', now())")
        late.execute("UPDATE notes SET body = 'late', changed = now() WHERE id = 1")
        tables.execute("INSERT INTO notes VALUES (21, 'Early', 'committed first', 'en', now())")
        assert counts(follow_rows(kb, "notes", source)) == (13, 0, 0)
        late.commit()
        assert counts(follow_rows(kb, "notes", source, compare=False)) == (1, 1, 0)
    assert kb.get_document("notes", "1").content == "Note 1\n\nlate"


def test_rows_that_the_overlap_misses_are_found_by_their_ids(
    kb: Service, tables: ForeignTables
) -> None:
    tables.execute("UPDATE notes SET changed = now() - (13 - id) * interval '1 hour'")
    with TableRows(ForeignDatabase(tables.url), SPEC, overlap=0) as source:
        follow_rows(kb, "notes", source)
        tables.execute(
            "INSERT INTO notes VALUES (30, 'Old', 'stamped long ago', 'en', '1999-01-01')",
            "INSERT INTO notes VALUES (31, 'None', 'without a stamp', 'en', NULL)",
            "UPDATE notes SET body = 'unstamped' WHERE id = 2",
        )
        assert counts(follow_rows(kb, "notes", source, compare=False)) == (0, 0, 0)
        assert counts(follow_rows(kb, "notes", source)) == (2, 0, 0)
        assert counts(follow_rows(kb, "notes", source, full=True)) == (0, 1, 0)


def test_a_row_of_the_future_hides_no_other(kb: Service, tables: ForeignTables) -> None:
    with rows(tables) as source:
        tables.execute(
            "UPDATE notes SET changed = '2999-01-01' WHERE id = 5",
            "UPDATE notes SET changed = 'infinity' WHERE id = 6",
        )
        follow_rows(kb, "notes", source)
        tables.execute("UPDATE notes SET body = 'now', changed = now() WHERE id = 1")
        assert counts(follow_rows(kb, "notes", source, compare=False)) == (0, 1, 0)


def test_it_goes_on_where_it_was_cut_off(
    kb: Service, tables: ForeignTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triptych.sync.rows.PAGE", 5)

    class Cut:
        """A source that breaks after a page."""

        def __init__(self, source: RowSource) -> None:
            self.source, self.pages = source, 0

        def changed(self, cursor: str, limit: int):  # type: ignore[no-untyped-def]
            self.pages += 1
            if self.pages > 1:
                raise ConnectionError("cut off")
            return self.source.changed(cursor, limit)

        def __getattr__(self, name: str) -> object:
            return getattr(self.source, name)

    with TableRows(ForeignDatabase(tables.url), SPEC, overlap=0) as source:
        # Stamps that differ, so that a page ends between two.
        tables.execute("UPDATE notes SET changed = now() - (13 - id) * interval '1 hour'")
        with pytest.raises(ConnectionError):
            follow_rows(kb, "notes", Cut(source))  # type: ignore[arg-type]
        assert kb.count_documents("notes") == 5
        report = follow_rows(kb, "notes", source)
        assert (report.added, report.checked) == (7, 8)


def test_whole_numbers_and_no_stamps_do_too(kb: Service, tables: ForeignTables) -> None:
    tables.execute("ALTER TABLE notes ADD seq bigint", "UPDATE notes SET seq = id * 1000")
    with rows(tables, updated_at="seq") as source:
        assert follow_rows(kb, "by-number", source).added == 12
        tables.execute("UPDATE notes SET body = 'x', seq = 13000 WHERE id = 2")
        report = follow_rows(kb, "by-number", source, compare=False)
        assert (report.checked, report.updated) == (2, 1)
    with rows(tables, updated_at=None) as source:
        assert follow_rows(kb, "by-id", source).added == 12
        tables.execute("UPDATE notes SET body = 'y' WHERE id = 2")
        assert counts(follow_rows(kb, "by-id", source)) == (0, 1, 0)


def test_most_documents_are_not_deleted_unasked(kb: Service, tables: ForeignTables) -> None:
    with rows(tables) as source:
        follow_rows(kb, "notes", source)
        tables.execute("DELETE FROM notes WHERE id > 2")
        report = follow_rows(kb, "notes", source)
        assert len(report.held) == 10
        with pytest.raises(DeletionHeldError, match="10 of 12"):
            report.raise_for_failures()
        assert kb.count_documents("notes") == 12
        assert counts(follow_rows(kb, "notes", source, delete_most=True)) == (0, 0, 10)


def test_documents_from_elsewhere_stay(kb: Service, tables: ForeignTables) -> None:
    kb.put_document("notes", "mine.md", "My own note")
    kb.put_document("notes", "5", "My own five")
    with rows(tables) as source:
        report = follow_rows(kb, "notes", source)
        (failure,) = report.failed
        assert failure.name == "5"
        assert isinstance(failure.error, ConflictError)
        assert (report.added, report.deleted) == (11, ())
        assert kb.get_document("notes", "5").content == "My own five"
        assert counts(follow_rows(kb, "notes", source, full=True, adopt=True)) == (0, 1, 0)
    assert kb.get_document("notes", "mine.md")


def test_a_change_of_the_columns_reads_every_row(kb: Service, tables: ForeignTables) -> None:
    with rows(tables) as source:
        follow_rows(kb, "notes", source)
    with rows(tables, columns=[{"text": "body"}]) as source:
        assert counts(follow_rows(kb, "notes", source, compare=False)) == (0, 12, 0)


def test_a_change_of_the_type_of_the_times_reads_every_row(
    kb: Service, tables: ForeignTables
) -> None:
    with rows(tables) as source:
        follow_rows(kb, "notes", source)
    tables.execute(
        "ALTER TABLE notes ALTER COLUMN changed DROP DEFAULT, "
        "ALTER COLUMN changed TYPE bigint USING extract(epoch FROM changed)"
    )
    with rows(tables) as source:
        assert follow_rows(kb, "notes", source).checked >= 12
    tables.execute(
        "ALTER TABLE notes ALTER COLUMN changed TYPE timestamptz USING to_timestamp(changed)"
    )
    with rows(tables) as source:
        assert follow_rows(kb, "notes", source).checked >= 12


def test_rows_of_one_id_are_named_and_not_written_again_and_again(
    kb: Service, tables: ForeignTables
) -> None:
    tables.execute(
        "ALTER TABLE notes DROP CONSTRAINT notes_pkey",
        "INSERT INTO notes (id, title, body, changed) VALUES (1, 'Other', 'Another', now())",
    )
    with rows(tables) as source:
        report = follow_rows(kb, "notes", source)
        assert report.added == 12
        assert "several rows have the id '1'" in str(report.failed[0].error)
        report = follow_rows(kb, "notes", source)
        assert (report.updated, [each.name for each in report.failed]) == (0, ["1"])


def test_a_follower_that_is_behind_overwrites_nothing(
    kb: Service, tables: ForeignTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rows(tables) as source, rows(tables) as other:
        follow_rows(kb, "notes", source)
        tables.execute("UPDATE notes SET body = 'one', changed = now() WHERE id = 1")
        put = Service.put_documents
        raced = []

        def late(self: Service, *args: object, **options: object) -> object:
            # Between this follower's read and its write another one stores a newer state.
            if not raced:
                raced.append(True)
                tables.execute("UPDATE notes SET body = 'two', changed = now() WHERE id = 1")
                follow_rows(kb, "notes", other)
            return put(self, *args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(Service, "put_documents", late)
        assert follow_rows(kb, "notes", source, compare=False).failed == ()
    assert kb.get_document("notes", "1").content == "Note 1\n\ntwo"
