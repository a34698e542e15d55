"""A store that is closed while calls are under way: no connection stays open."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from triptych.errors import StoreError
from triptych_backends.sqlite.connection import Connections


class Interposed(deque[Any]):
    """Idle readers; ``before`` is called as one comes back."""

    before: Callable[[], None]

    def append(self, driver: Any) -> None:
        self.before()
        super().append(driver)


@pytest.fixture
def connections(tmp_path: Path) -> Connections:
    return Connections(tmp_path / "kb.db", read_only=False, immutable=False, lock_timeout=1)


def test_closed_as_a_reader_comes_back(connections: Connections) -> None:
    connections._readers = Interposed()
    connections._readers.before = connections.close
    with connections.reading():
        pass
    assert connections._opened == []
    with pytest.raises(StoreError, match="is closed"), connections.reading():
        pass


def test_closed_as_a_writer_comes_back(connections: Connections) -> None:
    event.listen(connections._writers(), "checkin", lambda *_: connections.close())
    with connections.writing(durable=True):
        pass
    assert connections._opened == []


def test_closed_by_a_call_within_another(connections: Connections) -> None:
    with connections.reading():
        with connections.writing(durable=False):
            connections.close()
        assert len(connections._opened) == 2
    assert connections._opened == []
