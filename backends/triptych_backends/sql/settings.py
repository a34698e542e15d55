"""The settings of a store over a database: rows of the table ``meta`` whose key says so."""

from __future__ import annotations

from collections.abc import Mapping

from triptych_backends.sql.database import HasDatabase
from triptych_backends.sql.deferred import Upsert, bindparam, delete, func, select, tables as t
from triptych_backends.sql.errors import corrupt
from triptych_backends.sql.transaction import Reader

_OURS = "setting:"
"""What the keys of settings begin with: the table holds other rows too."""

_m = t.meta.c
_BEGINNING = select(_m.key, _m.value).where(
    func.substr(_m.key, 1, bindparam("length")) == bindparam("prefix")
)
_ONE = select(_m.value).where(_m.key == bindparam("wanted"))
_SET = Upsert(t.meta, ("key",))
_REMOVE = delete(t.meta).where(_m.key == bindparam("wanted"))


def _read(session: Reader, key: str, where: str) -> str | None:
    row = session.one(_ONE, wanted=_OURS + key)
    return None if row is None else _text(key, row[0], where)


def _text(key: str, value: object, where: str) -> str:
    if not isinstance(value, str):
        raise corrupt(where, f"the setting {key!r}")
    return value


class SqlSettings:
    """`SettingsStore` of a store over a `Database`, for the store to inherit."""

    def get_setting(self: HasDatabase, key: str) -> str | None:
        """See `SettingsStore.get_setting`."""
        return _read(self.database.known, key, self.database.where)

    def set_setting(
        self: HasDatabase, key: str, value: str | None, *, expected: str | None
    ) -> bool:
        """See `SettingsStore.set_setting`."""
        with self.database.writing(_OURS) as tx:
            if _read(tx, key, self.database.where) != expected:
                return False
            if value is None:
                tx.run(_REMOVE, wanted=_OURS + key)
            elif value != expected:
                tx.run_many(_SET, [(_OURS + key, value)])
            return True

    def list_settings(self: HasDatabase, prefix: str = "") -> Mapping[str, str]:
        """See `SettingsStore.list_settings`."""
        start = _OURS + prefix
        rows = self.database.known.all(_BEGINNING, prefix=start, length=len(start))
        where = self.database.where
        return dict(sorted((key[len(_OURS) :], _text(key, value, where)) for key, value in rows))
