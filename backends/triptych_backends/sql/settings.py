"""The store's settings: rows of the table ``meta`` whose key says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from triptych_backends.sql.database import Database
from triptych_backends.sql.deferred import bindparam, delete, select, tables as t
from triptych_backends.sql.dialect import Upsert
from triptych_backends.sql.errors import corrupt
from triptych_backends.sql.session import Session

_OURS = "setting:"
"""What the keys of settings begin with: the table holds other rows too."""

_m = t.meta.c
_ALL = select(_m.key, _m.value).order_by(_m.key)
_ONE = select(_m.value).where(_m.key == bindparam("wanted"))
_SET = Upsert(t.meta, ("key",))
_REMOVE = delete(t.meta).where(_m.key == bindparam("wanted"))


class HasDatabase(Protocol):
    """A store over a database."""

    @property
    def database(self) -> Database:
        """Where its tables are."""
        ...


class SqlSettings:
    """`SettingsStore` of a store over a `Database`, for the store to inherit."""

    def get_setting(self: HasDatabase, key: str) -> str | None:
        """See `SettingsStore.get_setting`."""
        with self.database.reading() as session:
            return _read(session, key, self.database.where)

    def set_setting(
        self: HasDatabase, key: str, value: str | None, *, expected: str | None
    ) -> bool:
        """See `SettingsStore.set_setting`."""
        with self.database.writing() as tx:
            if _read(tx, key, self.database.where) != expected:
                return False
            if value is None:
                tx.run(_REMOVE, wanted=_OURS + key)
            elif value != expected:
                tx.run_many(_SET, [(_OURS + key, value)])
            return True

    def list_settings(self: HasDatabase, prefix: str = "") -> Mapping[str, str]:
        """See `SettingsStore.list_settings`. Reads all of them: they are few."""
        with self.database.cached() as session:
            rows = session.all(_ALL)
        found = {}
        for key, value in rows:
            if str(key).startswith(_OURS + prefix):
                found[key[len(_OURS) :]] = _text(key, value, self.database.where)
        return dict(sorted(found.items()))


def _read(session: Session, key: str, where: str) -> str | None:
    row = session.one(_ONE, wanted=_OURS + key)
    return None if row is None else _text(key, row[0], where)


def _text(key: str, value: object, where: str) -> str:
    if not isinstance(value, str):
        raise corrupt(where, f"the setting {key!r}")
    return value
