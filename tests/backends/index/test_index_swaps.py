"""A swap of embedding spaces while the index reads what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from triptych.testing.builders import CONFIG, fill, vector_query
from triptych.testing.spaces import NEW, NEXT, embedded, prepare
from triptych_backends.index import Field, Unit
from triptych_backends.sql.change_log import SqlChangeLog
from triptych_backends.sqlite import SqliteStore


def test_units_of_two_spaces_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore.open(tmp_path / "kb.db") as store:
        fill(store, "d", {"a": "one fish", "b": "blue reef"})
        prepare(store, "d", "a", "b")
        read = SqlChangeLog.units
        swapped = []

        def units(
            log: SqlChangeLog, dataset: str, field: Field, owners: Sequence[int]
        ) -> Iterator[Unit]:
            for owner in owners:
                yield from read(log, dataset, field, [owner])
                if field == "chunk" and not swapped:
                    swapped.append(store.chunks.configure("d", NEXT, expected=CONFIG))

        monkeypatch.setattr(SqlChangeLog, "units", units)
        vector = embedded("blue reef", NEW)
        assert vector is not None
        hits = store.chunks.search(vector_query(vector, "d", space=NEW))
        assert swapped == [True]
        hits = store.chunks.search(vector_query(vector, "d", space=NEW))
        assert (hits[0].doc_name, hits[0].score) == ("b", pytest.approx(1, abs=1e-5))
