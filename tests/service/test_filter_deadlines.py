"""A filter ends soon after the deadline of its call, however many conditions and documents it has.

No clock is asked: the call is cancelled when the first condition is evaluated, and what is still
done afterwards is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.postgres import PostgresServer
from triptych import CancelledError, deadline
from triptych.contracts import Store
from triptych.deadlines import CancelScope
from triptych.records import Condition, NewDocument, Subject
from triptych.service import Service
from triptych_backends.filesystem import FilesStore
from triptych_backends.index.selection import AT_ONCE
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_backends.sqlite.connection import Connections

pytest.importorskip("psycopg")
import psycopg

DOCUMENTS = 1_200
CONDITIONS = 40
LONG = "a text of more than sixteen bytes"
STATEMENTS = 4
FINDS = re.compile("FROM (document|document_meta|chunk) WHERE")
"""Statements that find what fulfils a condition; the soonest expiry is asked before any."""

FORMS: dict[str, Callable[[int], dict[str, Any]]] = {
    "contains": lambda at: {"note": {"$contains": f"no such {at}"}},
    "order": lambda at: {"note": {"$gt": f"{LONG}z{at}"}},
    "number": lambda at: {"size": {"$gt": DOCUMENTS + at}},
    "values": lambda at: {"size": [-at - 1, -at - 100]},
    "not": lambda at: {"$not": {"size": {"$gte": -at}}},
    "heading": lambda at: {"heading": f"no such {at}"},
    "name": lambda at: {"$name": {"$contains": f"no such {at}"}},
    "prefix": lambda at: {"doc_prefix": f"no such {at}"},
}
CALLS: dict[str, Callable[[Service, dict[str, Any]], Any]] = {
    "count": lambda service, where: service.count_documents("kb", where=where),
    "list": lambda service, where: service.list_documents("kb", where=where, limit=3),
    "search": lambda service, where: service.search("tea", dataset_id="kb", where=where),
    "documents": lambda s, where: s.search_documents("tea", dataset_id="kb", where=where),
}


class Spent:
    """What a call has done since it was cancelled."""

    def __init__(self) -> None:
        self.scope: CancelScope | None = None
        self.rows = 0
        self.statements = 0

    @contextmanager
    def cancelled_at_once(self) -> Iterator[None]:
        """The call in the block is cancelled when it evaluates its first condition."""
        self.rows = self.statements = 0
        with deadline() as self.scope:
            yield
        self.scope = None

    def condition(self) -> None:
        if self.scope is not None:
            self.rows += 1
            self.scope.cancel()

    def statement(self, text: str) -> None:
        words = " ".join(text.split())
        if self.scope is not None and FINDS.search(words) and "min(" not in words:
            self.statements += 1
            self.scope.cancel()


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Spent:
    found = Spent()
    admits, connect, execute = Condition.admits, Connections.connect, psycopg.Cursor.execute

    def judged(self: Condition, subject: Subject) -> bool:
        found.condition()
        return admits(self, subject)

    def connected(self: Connections) -> Any:
        driver = connect(self)
        driver.set_trace_callback(found.statement)
        return driver

    def executed(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        found.statement(str(query))
        return execute(self, query, *args, **kwargs)

    monkeypatch.setattr(Condition, "admits", judged)
    monkeypatch.setattr(Connections, "connect", connected)
    monkeypatch.setattr(psycopg.Cursor, "execute", executed)
    return found


def open_store(kind: str, path: Path, server: PostgresServer) -> Store:
    if kind == "memory":
        return MemoryStore()
    if kind == "files":
        return FilesStore.open(path / "kb")
    if kind == "postgres":
        from triptych_postgres import PostgresStore

        return PostgresStore.open(server.schema_url("filter_deadlines"))
    return SqliteStore.open(path / "kb.db", background_index=False)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "files", "postgres"])
def test_conditions_end_with_their_call(
    kind: str, tmp_path: Path, postgres_server: PostgresServer, spent: Spent
) -> None:
    with ExitStack() as stack:
        if kind == "postgres":
            stack.callback(drop, postgres_server)
        service = stack.enter_context(Service(open_store(kind, tmp_path, postgres_server)))
        service.put_documents(
            "kb",
            [
                NewDocument(
                    name=f"{at}.md",
                    content="# Tea\n\nTea in a pot.",
                    metadata={"note": f"{LONG} {at}", "size": at},
                )
                for at in range(DOCUMENTS)
            ],
        )
        service.search("tea", dataset_id="kb")
        for form, make in FORMS.items():
            for name, call in CALLS.items():
                if (form, name) == ("heading", "search"):
                    continue  # the index has the headings of chunks: no document is read
                where = {"$or": [make(at) for at in range(CONDITIONS)]}
                with pytest.raises(CancelledError), spent.cancelled_at_once():
                    call(service, where)
                assert spent.rows <= AT_ONCE * CONDITIONS, (form, name)
                assert spent.statements <= STATEMENTS, (form, name)


def drop(server: PostgresServer) -> None:
    with server.connect() as driver:
        driver.execute("DROP SCHEMA filter_deadlines CASCADE")
