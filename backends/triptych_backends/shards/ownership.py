"""Which server has a dataset: a mark in the server itself, which each of its transactions sees.

The placement that the first server keeps is a hint. The marks are the truth, because they change in
the transactions that they bound:

- no mark, or ``here``: the dataset is on this server;
- ``leaving``: it still is, but takes no writes until then, for a move is about to end;
- ``left``: it is on the server ``peer``;
- ``arriving``: a copy is being made here; the dataset is on ``peer``, unless that says ``left``
  with the same ``move``.

The one write that changes ``leaving`` into ``left`` is the move.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from threading import local
from typing import Any, Literal

import attrs

from triptych_backends.postgres.database import PostgresDatabase, PostgresTransaction
from triptych_backends.postgres.session import PostgresSession
from triptych_backends.sql.errors import corrupt

__all__ = [
    "BusyError",
    "ElsewhereError",
    "Expected",
    "Mark",
    "ShardDatabase",
    "read_marks",
    "server_time",
    "write_mark",
]

_KEY = "shard:"
_READ = "SELECT key, value FROM meta WHERE key = ANY(%s::text[])"
_READ_ALL = "SELECT key, value FROM meta WHERE starts_with(key, 'shard:')"
_WRITE = (
    "INSERT INTO meta (key, value) VALUES (%s, %s) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"

State = Literal["here", "leaving", "left", "arriving"]


@attrs.frozen(kw_only=True)
class Mark:
    """What a server says of one dataset.

    Attributes:
        state: see the module.
        move: the move that the state is of; of ``here``, the one that brought the dataset.
        peer: the other server of that move.
        before: of ``leaving``, the move that had brought the dataset here.
        until: of ``leaving``, when writes go on all the same, in seconds of the server's clock.
    """

    state: State = "here"
    move: str = ""
    peer: str = ""
    before: str = ""
    until: float = 0.0

    @property
    def brought_by(self) -> str:
        """The move that had brought the dataset to this server; "" where none did."""
        return self.before if self.state == "leaving" else self.move


@attrs.frozen
class Expected:
    """What a caller takes for granted of a dataset on a server: the move that brought it there.

    ``arrived`` says that the server that it came from has let go of it.
    """

    move: str = ""
    arrived: bool = False

    def holds(self, mark: Mark) -> bool:
        """Whether the dataset may be read on the server with this mark."""
        if mark.state == "arriving":
            return self.arrived and self.move == mark.move
        return mark.state != "left" and self.move == mark.brought_by


class ElsewhereError(Exception):
    """A dataset is on another server, or came back since: look again."""

    def __init__(self, dataset_id: str) -> None:
        super().__init__(dataset_id)
        self.dataset_id = dataset_id


class BusyError(Exception):
    """A dataset takes no writes at this moment: it is about to be on the server ``peer``."""

    def __init__(self, dataset_id: str, peer: str) -> None:
        super().__init__(dataset_id)
        self.dataset_id = dataset_id
        self.peer = peer


class _Expectations(local):
    def __init__(self) -> None:
        self.datasets: Mapping[str, Expected] = {}


class ShardDatabase(PostgresDatabase):
    """A `PostgresDatabase` that serves a dataset only while it is here.

    Within `expecting`, each transaction checks the datasets' marks, so that a process with an old
    map neither writes into a dataset that has moved nor reads what is left of it.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._expectations = _Expectations()

    @contextmanager
    def expecting(self, datasets: Mapping[str, Expected]) -> Iterator[None]:
        """Within the context, this thread reads and writes ``datasets`` and nothing else.

        Raises:
            ElsewhereError: one is not as expected. Nothing was written.
            BusyError: one takes no writes now. Nothing was written.
        """
        expectations = self._expectations
        before, expectations.datasets = expectations.datasets, datasets
        try:
            yield
        finally:
            expectations.datasets = before

    @contextmanager
    def reading(self) -> Iterator[PostgresSession]:
        """See `Database.reading`. The marks are read last: what was read before them is good."""
        with super().reading() as session:
            yield session
            self._check(session)

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSession]:
        """See `Database.snapshot`. The marks are of the same state as all else."""
        with super().snapshot() as session:
            self._check(session)
            yield session

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[PostgresTransaction]:
        """See `Database.writing`. No mark changes until the transaction ends."""
        with super().writing(durable=durable) as transaction:
            for dataset_id, mark in self._check(transaction.session).items():
                if mark.state == "leaving":
                    if server_time(transaction.session) < mark.until:
                        raise BusyError(dataset_id, mark.peer)
                    # Whoever moved it was killed, or is too slow: the move must try again.
                    write_mark(transaction.session, dataset_id, Mark(move=mark.before))
            yield transaction
        # What is read after the write belongs to it: the write must not be repeated.
        self._expectations.datasets = {}

    def _check(self, session: PostgresSession) -> Mapping[str, Mark]:
        expected = self._expectations.datasets
        if not expected:
            return {}
        marks = read_marks(session, expected)
        for dataset_id, each in expected.items():
            if not each.holds(marks.get(dataset_id, Mark())):
                raise ElsewhereError(dataset_id)
        return marks


def read_marks(
    session: PostgresSession, datasets: Collection[str] | None = None
) -> Mapping[str, Mark]:
    """The marks of those of ``datasets`` that have one; of all for None.

    Raises:
        CorruptStoreError: a mark cannot be read.
    """
    if datasets is None:
        rows = session.text(_READ_ALL)
    else:
        rows = session.text(_READ, ([_KEY + each for each in datasets],))
    try:
        return {key[len(_KEY) :]: Mark(**json.loads(value)) for key, value in rows}
    except (TypeError, ValueError) as error:
        raise corrupt("of a server", f"where its datasets are: {error}") from error


def write_mark(session: PostgresSession, dataset_id: str, mark: Mark) -> None:
    """Let the server say ``mark`` of the dataset, once the transaction is committed."""
    session.text(_WRITE, (_KEY + dataset_id, json.dumps(attrs.asdict(mark))))


def server_time(session: PostgresSession) -> float:
    """The server's clock, in seconds since 1970."""
    return float(session.text(_NOW)[0][0])
