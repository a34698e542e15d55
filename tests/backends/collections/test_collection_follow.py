"""Qdrant collections that are not ours, followed into a dataset, in two engines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import attrs
import pytest

import triptych
from triptych import ConflictError, Service
from triptych.errors import DeletionHeldError
from triptych.sync import RowReport, follow_rows

pytest.importorskip("qdrant_client")
pytest.importorskip("qdrant_edge")

from qdrant_client import QdrantClient

from support.edge_points import EdgePoints, LocalPoints
from triptych_backends.in_place import TableSpec
from triptych_backends.in_place.qdrant import CollectionRows
from triptych_factory import open_rows

Engine: TypeAlias = EdgePoints | LocalPoints

NOW = datetime.now(UTC)
SPEC = TableSpec(
    table="notes",
    columns=[{"text": "title"}, {"text": "body"}],
    metadata=["lang"],
    document="source",
    updated_at="changed",
)


def point(number: int, ago: timedelta | None = None, **fields: Any) -> tuple[Any, Any, Any]:
    payload = {
        "title": f"Note {number}",
        "body": f"The text of {number}",
        "lang": "en",
        "source": "a.md",
        "changed": (NOW - (timedelta(days=1) if ago is None else ago)).isoformat(),
        **fields,
    }
    id_ = number if number % 2 else str(UUID(int=number))
    return id_, {"": [1.0, 0.0]}, payload


def name_of(number: int) -> str:
    return f"a.md/{point(number)[0]}"


@pytest.fixture(params=["local", "edge"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made: Engine = LocalPoints() if request.param == "local" else EdgePoints(tmp_path / "shards")
    made.make("notes", {"": (2, "Cosine")}, changed="datetime")
    made.put("notes", [point(number) for number in range(1, 13)])
    yield made
    made.reader.close()


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(tmp_path / "kb.db", embedder="hash") as service:
        yield service


def rows(engine: Engine, **changes: object) -> CollectionRows:
    return CollectionRows(engine.reader, attrs.evolve(SPEC, **changes))


def counts(report: RowReport) -> tuple[int, int, int]:
    report.raise_for_failures()
    return report.added, report.updated, len(report.deleted)


def test_only_what_changed_is_written(kb: Service, engine: Engine) -> None:
    source = rows(engine)
    assert counts(follow_rows(kb, "notes", source)) == (12, 0, 0)
    document = kb.get_document("notes", name_of(7))
    assert document.content == "Note 7\n\nThe text of 7"
    assert document.metadata == {"lang": "en"}
    again = follow_rows(kb, "notes", source)
    assert counts(again) == (0, 0, 0)
    assert again.embedded == 0
    now = timedelta()
    engine.put(
        "notes",
        [
            point(7, now, body="A lighthouse"),
            point(13, now),
            point(4, now, title=None, body=[]),
        ],
    )
    engine.delete("notes", [3])
    assert counts(follow_rows(kb, "notes", source)) == (1, 1, 2)
    assert kb.get_document("notes", name_of(7)).content == "Note 7\n\nA lighthouse"
    assert {info.name for info in kb.documents.list("notes")} == {
        name_of(number) for number in range(1, 14) if number not in (3, 4)
    }


def test_a_pass_reads_what_is_new_where_there_is_an_index(kb: Service, engine: Engine) -> None:
    follow_rows(kb, "notes", rows(engine))
    engine.put("notes", [point(5, timedelta(), body="new")])
    report = follow_rows(kb, "notes", rows(engine), compare=False)
    assert counts(report) == (0, 1, 0)
    assert report.checked == 12  # all were as new as the newest that was seen
    # Each begins ten minutes before the newest change seen; the local mode has no indexes.
    latest = follow_rows(kb, "notes", rows(engine), compare=False)
    assert latest.checked == (1 if isinstance(engine, EdgePoints) else 12)


def test_pages_neither_lose_nor_repeat_points_of_one_time(engine: Engine) -> None:
    source = rows(engine)
    engine.put("notes", [point(number, timedelta(hours=1)) for number in range(20, 33)])
    engine.put("notes", [point(number, timedelta(minutes=number)) for number in range(33, 40)])
    engine.put("notes", [point(41, lang="de")])
    expected = {name_of(number) for number in [*range(1, 13), *range(20, 40), 41]}
    for limit in (1, 2, 3, 5, 13, 50):
        seen: list[str] = []
        cursor, more = "", True
        while more:
            page = source.changed(cursor, limit)
            assert len(page.rows) <= limit
            seen += [row.name for row in page.rows]
            cursor, more = page.cursor, page.more
        assert set(seen) == expected
        assert len(seen) == len(expected)
        if isinstance(engine, EdgePoints):
            assert source.changed(cursor, limit).rows == ()
            newest = {row.name for row in source.changed(source.resume(cursor), 50).rows}
            assert newest == {name_of(number) for number in range(33, 40)}


def test_a_pass_that_stopped_goes_on(kb: Service, engine: Engine) -> None:
    class Stopping(CollectionRows):
        left = 2

        def changed(self, cursor: str, limit: int) -> Any:
            if not self.left:
                raise RuntimeError("killed")
            self.left -= 1
            return super().changed(cursor, 3)

    with pytest.raises(RuntimeError):
        follow_rows(kb, "notes", Stopping(engine.reader, SPEC, overlap=0), compare=False)
    stored = len(kb.documents.list("notes"))
    assert 0 < stored < 12
    left = follow_rows(kb, "notes", rows(engine))
    assert left.added == 12 - stored
    assert len(kb.documents.list("notes")) == 12


def test_points_without_a_time_are_found_by_name(kb: Service, engine: Engine) -> None:
    engine.put("notes", [point(20, changed=None), point(21, changed="soon")])
    assert counts(follow_rows(kb, "notes", rows(engine))) == (14, 0, 0)


def test_numbers_say_when_a_point_changed(kb: Service, engine: Engine) -> None:
    engine.make("log", {"": (2, "Cosine")}, changed="integer")
    engine.put("log", [point(number, changed=number) for number in range(1, 9)])
    source = CollectionRows(engine.reader, attrs.evolve(SPEC, table="log", name="log"), overlap=2)
    assert counts(follow_rows(kb, "log", source)) == (8, 0, 0)
    report = follow_rows(kb, "log", source, compare=False)
    assert report.checked == (3 if isinstance(engine, EdgePoints) else 8)


def test_many_deletions_wait(kb: Service, engine: Engine) -> None:
    source = rows(engine)
    follow_rows(kb, "notes", source)
    engine.delete("notes", [point(number)[0] for number in range(1, 9)])
    report = follow_rows(kb, "notes", source)
    assert (len(report.held), report.documents, report.deleted) == (8, 12, ())
    with pytest.raises(DeletionHeldError):
        report.raise_for_failures()
    assert counts(follow_rows(kb, "notes", source, delete_most=True)) == (0, 0, 8)


def test_documents_from_elsewhere_stay(kb: Service, engine: Engine) -> None:
    kb.put_document("notes", name_of(5), "mine")
    report = follow_rows(kb, "notes", rows(engine))
    (failure,) = report.failed
    assert isinstance(failure.error, ConflictError)
    assert kb.get_document("notes", name_of(5)).content == "mine"


def test_the_collections_filter_decides(kb: Service, engine: Engine) -> None:
    engine.put("notes", [point(1, lang="de")])
    german = rows(engine, where={"lang": {"$ne": "en"}})
    assert counts(follow_rows(kb, "notes", german)) == (1, 0, 0)
    engine.put("notes", [point(1, timedelta(), lang="en"), point(2, timedelta(), lang="de")])
    report = follow_rows(kb, "notes", german)
    assert (report.added, report.deleted) == (1, (name_of(1),))


def test_clients_of_two_servers_are_two_sources(tmp_path: Path) -> None:
    def key(**options: Any) -> str:
        client = QdrantClient(**options)
        try:
            with open_rows(client, {"table": "notes", "text": "body"}) as source:
                return source.key
        finally:
            client.close()

    away = {"check_compatibility": False}
    keys = [
        key(host="one", **away),
        key(url="http://two:6333", **away),
        key(path=str(tmp_path / "a")),
        key(path=str(tmp_path / "b")),
    ]
    assert len(set(keys)) == 4
    with open_rows("qdrant://one", {"table": "notes", "text": "body"}) as source:
        assert source.key == keys[0]


def test_open_rows_takes_a_client(kb: Service) -> None:
    local = LocalPoints()
    local.make("notes", {"": (2, "Cosine")})
    local.put("notes", [point(1)])
    with open_rows(local.client, {"table": "notes", "text": "body"}) as source:
        assert counts(follow_rows(kb, "notes", source)) == (1, 0, 0)
    assert kb.get_document("notes", "1").content == "The text of 1"
