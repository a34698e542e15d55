"""The change logs of several servers, read as one: a cursor has a place in each."""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import attrs

from triptych.records import ChangeCursor, ChangePage, DocumentChange
from triptych_backends.shards.ownership import Mark, read_marks
from triptych_backends.shards.routing import Router
from triptych_backends.shards.server import Server, ServerAwayError
from triptych_backends.sql.snapshot import PinnedDatabase, SqlSnapshot

__all__ = ["ShardedChanges"]

_DIGITS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_HEAD = "SELECT nonce, tick, (SELECT mark FROM epoch ORDER BY first DESC LIMIT 1) FROM clock"


@attrs.frozen
class _Position:
    """A place in one server's log, and which datasets the server had then."""

    cursor: str
    datasets: str


_Positions = Mapping[str, _Position]


@attrs.frozen
class _ServerPage:
    page: ChangePage
    marks: Mapping[str, Mark]


class ShardedChanges:
    """`ChangeReader` of a store over a `Router`, for the store to inherit.

    The changes of a dataset come in the order of their commits; those of datasets on two servers
    in any. After a move, those who follow one of its servers begin again.
    """

    router: Router

    def change_head(self) -> str:
        """See `ChangeReader.change_head`."""

        def head(server: Server) -> object:
            with server.database.snapshot() as session:
                return [server.name, *session.text(_HEAD)[0], _digest(read_marks(session))]

        return json.dumps(self.router.on_every_server(head))

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """See `ChangeReader.read_changes`."""
        servers, others = self.router.servers(), {}
        if dataset_id is not None:
            name = self.router.place(dataset_id).server.name
            others = {each: servers[each] for each in servers if each != name}
            servers = {name: servers[name]}
        positions = None if since is None else _unpacked(since)
        if since is None or positions is not None:
            known = {**self._heads(others, positions or {}), **(positions or {})}
            page = self._read(servers, known, dataset_id, limit, starts=since is None)
            if page is not None:
                return page
        page = self._read(servers, self._heads(others, {}), dataset_id, limit, starts=True)
        assert page is not None
        return attrs.evolve(page, reset=True)

    def _heads(self, servers: Mapping[str, Server], known: _Positions) -> _Positions:
        """The end of each log that has no position yet: a cursor of one dataset is one of all.

        A server that is away has none: who goes on from the cursor there begins at the beginning.
        """
        found: dict[str, _Position] = {}
        for name in servers.keys() - known.keys():
            with suppress(ServerAwayError), servers[name].named():
                database = servers[name].database
                with database.snapshot() as session:
                    _, tick, mark = session.text(_HEAD)[0]
                    cursor = str(ChangeCursor(number=tick, mark=mark or ""))
                    found[name] = _Position(cursor, _digest(read_marks(session)))
        return found

    def _read(
        self,
        servers: Mapping[str, Server],
        positions: _Positions,
        dataset_id: str | None,
        limit: int,
        *,
        starts: bool,
    ) -> ChangePage | None:
        """The page after ``positions``; None where a server cannot go on from its own.

        A server without one begins at its beginning, if this ``starts`` there.
        """
        at = dict(positions)
        changes: list[DocumentChange] = []
        more = False
        for name in sorted(servers):
            while True:
                known = at.get(name)
                if known is None and not starts and dataset_id is not None:
                    return None
                cursor = None if known is None else ChangeCursor.parse(known.cursor)
                found = self._page(servers[name], cursor, dataset_id, max(limit - len(changes), 1))
                datasets = _digest(found.marks)
                if known is not None and (found.page.reset or known.datasets != datasets):
                    return None
                if len(changes) >= limit and (found.page.changes or found.page.more):
                    more = True
                    break
                for change in found.page.changes:
                    mark = found.marks.get(change.dataset_id, Mark())
                    at[name] = _Position(change.cursor, datasets)
                    if mark.state not in ("left", "arriving"):
                        changes.append(attrs.evolve(change, cursor=_packed(at)))
                at[name] = _Position(found.page.cursor, datasets)
                if not found.page.more:
                    break
        return ChangePage(changes=tuple(changes), cursor=_packed(at), more=more)

    def _page(
        self, server: Server, cursor: ChangeCursor | None, dataset_id: str | None, limit: int
    ) -> _ServerPage:
        database = server.database
        with server.named(), database.snapshot() as session:
            shown = SqlSnapshot(PinnedDatabase(database, session))
            page = shown.read_changes(cursor, dataset_id=dataset_id, limit=limit)
            marks = read_marks(session)
        return _ServerPage(page, {name: self._arrived(name, mark) for name, mark in marks.items()})

    def _arrived(self, dataset_id: str, mark: Mark) -> Mark:
        """The mark of a dataset that arrived, as it will be once that is noted."""
        if mark.state == "arriving":
            left = self.router.mark(self.router.server(mark.peer), dataset_id)
            if left.state == "left" and left.move == mark.move:
                return Mark(move=mark.move)
        return mark


def _digest(marks: Mapping[str, Mark]) -> str:
    """What differs when a dataset has come to a server, or has left it."""
    kept = sorted(
        (name, mark.state == "left", mark.brought_by)
        for name, mark in marks.items()
        if mark.state != "arriving" and mark.brought_by
    )
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()[:12] if kept else ""


def _packed(positions: _Positions) -> str:
    """The positions as the text of a `ChangeCursor`."""
    plain = [[name, each.cursor, each.datasets] for name, each in sorted(positions.items())]
    number = int.from_bytes(b"\1" + json.dumps(plain, separators=(",", ":")).encode())
    digits = []
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    cursors = [ChangeCursor.parse(each.cursor) for each in positions.values()]
    base = until = None
    if any(each.until is not None for each in cursors):
        base = sum(each.number if each.base is None else each.base for each in cursors)
        until = sum(each.marked for each in cursors)
    total = sum(each.number for each in cursors)
    mark = "".join(reversed(digits))
    return str(ChangeCursor(number=total, mark=mark, base=base, until=until))


def _unpacked(cursor: ChangeCursor) -> _Positions | None:
    """The positions of a cursor; None of one that `_packed` did not make."""
    number = 0
    for digit in cursor.mark:
        number = number * len(_DIGITS) + _DIGITS.index(digit)
    data = number.to_bytes((number.bit_length() + 7) // 8)
    try:
        plain = json.loads(data[1:].decode())
        found = {name: _Position(str(text), str(datasets)) for name, text, datasets in plain}
        return found if _packed(found) == str(cursor) else None
    except (TypeError, ValueError):
        return None
