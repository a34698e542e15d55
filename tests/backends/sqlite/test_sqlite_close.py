"""A store that is closed while calls are under way: no connection stays open."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from triptych._internal.one_state import one_state
from triptych.errors import StoreError
from triptych_backends.sqlite.connection import Connections


class Interposed(deque[Any]):
    """Idle connections; ``before`` is called as one comes back."""

    before: Callable[[], None]

    def append(self, driver: Any) -> None:
        self.before()
        super().append(driver)


@pytest.fixture
def connections(tmp_path: Path) -> Connections:
    return Connections(
        tmp_path / "kb.db", read_only=False, immutable=False, alone=False, lock_timeout=1
    )


def test_closed_as_a_reader_comes_back(connections: Connections) -> None:
    connections._readers = Interposed()
    connections._readers.before = connections.close
    with connections.reading():
        pass
    assert connections._opened == []
    with pytest.raises(StoreError, match="is closed"), connections.reading():
        pass


def test_closed_as_a_writer_comes_back(connections: Connections) -> None:
    connections._writers = Interposed()
    connections._writers.before = connections.close
    with connections.writing(durable=True):
        pass
    assert connections._opened == []


def test_what_a_writer_did_not_commit_is_not_there_for_the_next(connections: Connections) -> None:
    with connections.writing(durable=True) as driver:
        driver.execute("CREATE TABLE t (x)")
    with suppress(ValueError), connections.writing(durable=True) as driver:
        driver.execute("INSERT INTO t VALUES (1)")
        raise ValueError
    with connections.writing(durable=True) as again:
        assert again is driver
        assert again.execute("SELECT count(*) FROM t").fetchone() == (0,)
    connections.close()


def test_closed_by_a_call_within_another(connections: Connections) -> None:
    with connections.reading():
        with connections.writing(durable=False):
            connections.close()
        assert len(connections._opened) == 2
    assert connections._opened == []


def test_a_reader_whose_transaction_cannot_begin_is_given_back(connections: Connections) -> None:
    with connections.reading():
        pass
    connections._readers[0].execute("BEGIN")  # the next one fails
    with one_state(), pytest.raises(StoreError), connections.reading():
        pass
    assert connections._busy == 0
    connections.close()
    assert connections._opened == []
