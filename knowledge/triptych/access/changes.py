"""The changes of a restricted caller, with cursors that reveal no others."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
import struct
from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

import attrs

from triptych import deadlines
from triptych.access.view import AccessView
from triptych.contracts import ChangeReader, SettingsStore
from triptych.errors import CorruptStoreError, NotAvailableError, StoreError, StoreLockedError
from triptych.records import ChangeCursor, ChangePage, DocumentChange, Subject
from triptych.records.filters import NAME, conditions_of

_SETTING = "access/secret"
_MOST_AT_ONCE = 10_000


class AccessChanges:
    """A `ChangeReader` of what an access shows.

    The numbers of a store's log count the changes of all datasets: under an access the cursors are
    sealed, so that nobody reads them. The log keeps the names of deleted documents and not their
    metadata: an access with a filter on metadata has no changes.
    """

    def __init__(
        self, view: AccessView, reader: ChangeReader, settings: SettingsStore | None
    ) -> None:
        sealed_before = False
        if isinstance(reader, AccessChanges):
            # Restricted again: the cursors of the store are merged, and sealed once.
            sealed_before, settings = reader.seals, reader._settings
            reader = reader._shown
        self._shown: _ShownChanges = _ShownChanges(view, reader)
        self._settings: SettingsStore | None = settings
        is_whole = view.access.dataset_ids is None and view.tree is None
        self.seals: bool = sealed_before or not is_whole

    def change_head(self) -> str:
        """See `ChangeReader.change_head`."""
        return self._shown.change_head()

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """See `ChangeReader.read_changes`.

        Raises:
            NotAvailableError: the access has a filter on something else than names; or the store
                can keep no secret.
        """
        if not self.seals:
            return self._shown.read_changes(since, dataset_id=dataset_id, limit=limit)
        self._shown.check()
        seal = self._seal
        position = None if since is None else seal.open(since)
        page = self._shown.read_changes(position, dataset_id=dataset_id, limit=limit)
        changes = (attrs.evolve(each, cursor=seal.close(each.cursor)) for each in page.changes)
        return attrs.evolve(page, changes=tuple(changes), cursor=seal.close(page.cursor))

    @cached_property
    def _seal(self) -> CursorSeal:
        return CursorSeal(_secret(self._settings))


class _ShownChanges:
    """A `ChangeReader` of what an access shows, with the cursors of the store."""

    def __init__(self, view: AccessView, reader: ChangeReader) -> None:
        self._view = view
        names = view.access.dataset_ids
        self._reader = reader if names is None else DatasetsChanges(reader, names)

    def check(self) -> None:
        if any(condition.field != NAME for condition in conditions_of(self._view.tree)):
            raise NotAvailableError(
                "this access has a filter on metadata, and the log of changes does not keep the "
                "metadata of deleted documents: compare names and versions of list_documents with "
                "your copies; or request an access by doc_prefix, doc_name or datasets"
            )

    def change_head(self) -> str:
        return self._reader.change_head()

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        self.check()
        if self._view.tree is None:
            return self._reader.read_changes(since, dataset_id=dataset_id, limit=limit)
        found: list[DocumentChange] = []
        reset = False
        position, more, at_end = since, True, ""
        while more and len(found) <= limit:
            deadlines.check("reading the changes")
            page = self._reader.read_changes(
                position, dataset_id=dataset_id, limit=min(limit + 1, _MOST_AT_ONCE)
            )
            if page.reset and found:
                # The log was cut off while it was read: begin again, as the reset says.
                found = []
            reset = reset or page.reset
            found += [each for each in page.changes if self._shows(each)]
            # There may be more of others alone: whether the caller has more is read.
            position, more, at_end = ChangeCursor.parse(page.cursor), page.more, page.cursor
        shown = tuple(found[:limit])
        cut = len(found) > limit
        cursor = shown[-1].cursor if cut else at_end
        return ChangePage(changes=shown, cursor=cursor, reset=reset, more=cut)

    def _shows(self, change: DocumentChange) -> bool:
        return self._view.access.admits(Subject(name=change.name))


def _secret(settings: SettingsStore | None) -> bytes:
    """The store's secret, made when it is first needed: whoever opens the store has the same.

    Raises:
        NotAvailableError: there is none, and the store cannot keep one.
        StoreError: the store is busy, or damaged.
    """
    if settings is None:
        raise NotAvailableError(
            "this store keeps no settings, which must hold a secret for the changes of a "
            "restricted caller"
        )
    kept = settings.get_setting(_SETTING)
    if kept is None:
        made = secrets.token_hex(32)
        try:
            kept = made if settings.set_setting(_SETTING, made, expected=None) else None
        except (StoreLockedError, CorruptStoreError):
            raise
        except StoreError as error:
            raise NotAvailableError(
                "the changes of a restricted caller need a secret in the store, which cannot be "
                "written "
                f"({error}): read them once where the store is open for writing"
            ) from error
        kept = kept or settings.get_setting(_SETTING)
    return bytes.fromhex(kept or "")


_NOWHERE = f"no-dataset-{secrets.token_hex(16)}"
"""The name of no dataset: where none is asked for, the log is read all the same."""


@attrs.frozen(eq=False)
class DatasetsChanges:
    """A `ChangeReader` of the datasets ``names``; the cursors are those of ``reader``.

    Each dataset is read by itself: what the log no longer knows of others (after a purge of
    theirs, say) lets nobody begin again here.
    """

    reader: ChangeReader
    names: Sequence[str]

    def change_head(self) -> str:
        """See `ChangeReader.change_head`. It moves with every dataset of the store."""
        return self.reader.change_head()

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """See `ChangeReader.read_changes`. A dataset that is not among these does not exist."""
        asked = [name for name in self.names if dataset_id in (None, name)] or [_NOWHERE]
        run = self._run(asked, since, limit)
        reset = run is None
        while run is None:
            since = None
            run = self._run(asked, since, limit)
        more = run.cut
        if not more and since is not None and since.until is not None:
            # A run ended that began earlier: there may be another, with changes of others alone.
            following = self._run(asked, run.end, limit if not run.changes else 1)
            if not run.changes and following is not None:
                run, more = following, following.cut
            else:
                more = following is None or bool(following.changes)
        cursor = run.changes[-1].cursor if run.cut else str(run.end)
        return ChangePage(changes=tuple(run.changes), cursor=cursor, reset=reset, more=more)

    def _run(self, asked: Sequence[str], since: ChangeCursor | None, limit: int) -> _Run | None:
        """The changes after ``since`` up to one end of the log; None to begin at the beginning."""
        start = since
        end = None if since is None or since.until is None else _end(since)
        found: list[tuple[int, DocumentChange]] = []
        cuts: list[int] = []
        for name in asked:
            page = self.reader.read_changes(start, dataset_id=name, limit=limit)
            if page.reset:
                return None
            last = ChangeCursor.parse(page.cursor)
            if end is None:
                # The others are read up to the same end, whatever is committed meanwhile.
                end = _end(last)
                base = 0 if start is None else start.number
                start = ChangeCursor(number=base, mark=end.mark, base=base, until=end.number)
            numbered = [(ChangeCursor.parse(each.cursor).number, each) for each in page.changes]
            # A dataset without a change up to the end shows what came after it.
            found += [each for each in numbered if each[0] <= end.number]
            if last.until == end.number:
                cuts.append(last.number)
        assert end is not None  # at least one was read
        found.sort(key=itemgetter(0))
        # Where one page is cut, what another dataset has after that place is of the next page.
        shown = [change for number, change in found if not cuts or number <= min(cuts)]
        return _Run(shown[:limit], end, bool(cuts) or len(shown) > limit)


class _Run(NamedTuple):
    changes: list[DocumentChange]
    end: ChangeCursor
    cut: bool


def _end(cursor: ChangeCursor) -> ChangeCursor:
    return ChangeCursor(number=cursor.marked, mark=cursor.mark)


_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_LONGEST = 8192  # characters that the mark of a cursor may have
_NONCE = _TAG = 6  # bytes
_NONE = 2**48 - 1
_AS_TEXT = (2**48 - 2).to_bytes(6, "big")
"""What begins a cursor whose mark is not bytes in hexadecimal digits."""


class CursorSeal:
    """Makes cursors that only who has the secret reads, and that nobody else makes.

    Encrypt-then-MAC with SHA-256 as the pseudorandom function; a new nonce each time, so that two
    cursors to one place differ as those to two places do.
    """

    def __init__(self, secret: bytes) -> None:
        self._stream = hmac.digest(secret, b"cursor stream", "sha256")
        self._check = hmac.digest(secret, b"cursor check", "sha256")

    def close(self, text: str) -> str:
        """The cursor ``text``, sealed.

        Raises:
            StoreError: the store's cursors are too long for it.
        """
        cursor = ChangeCursor.parse(text)
        try:
            packed = _packed(cursor)
        except (ValueError, struct.error) as error:
            raise StoreError("the cursors of this store cannot be sealed") from error
        nonce = secrets.token_bytes(_NONCE)
        body = nonce + self._mixed(nonce, packed)
        digits = _to_digits(body + hmac.digest(self._check, body, "sha256")[:_TAG])
        if len(digits) > _LONGEST:
            raise StoreError("the cursors of this store are too long to be sealed")
        return str(ChangeCursor(number=0, mark=digits))

    def open(self, cursor: ChangeCursor) -> ChangeCursor:
        """The cursor that was sealed; of one that was not, a cursor that no store goes on from."""
        nothing = ChangeCursor(number=0, mark="unknown")
        data = _from_digits(cursor.mark)
        body, tag = data[:-_TAG], data[-_TAG:]
        if cursor.number or len(body) <= _NONCE:
            return nothing
        if not hmac.compare_digest(tag, hmac.digest(self._check, body, "sha256")[:_TAG]):
            return nothing
        return _unpacked(self._mixed(body[:_NONCE], body[_NONCE:]))

    def _mixed(self, nonce: bytes, data: bytes) -> bytes:
        stream = b"".join(
            hmac.digest(self._stream, nonce + bytes([block]), hashlib.sha256)
            for block in range(len(data) // 32 + 1)
        )
        return bytes(one ^ other for one, other in zip(data, stream, strict=False))


def _packed(cursor: ChangeCursor) -> bytes:
    try:
        packed = bytes.fromhex(cursor.mark)
    except ValueError:
        return _AS_TEXT + str(cursor).encode()
    if packed.hex() != cursor.mark:
        return _AS_TEXT + str(cursor).encode()
    numbers = (cursor.number, cursor.base, cursor.until)
    fields = b"".join((_NONE if each is None else each).to_bytes(6, "big") for each in numbers)
    return fields + packed


def _unpacked(data: bytes) -> ChangeCursor:
    if data.startswith(_AS_TEXT):
        return ChangeCursor.parse(data[len(_AS_TEXT) :].decode())
    number, base, until = (int.from_bytes(data[at : at + 6], "big") for at in (0, 6, 12))
    return ChangeCursor(
        number=number,
        mark=data[18:].hex(),
        base=None if base == _NONE else base,
        until=None if until == _NONE else until,
    )


def _to_digits(data: bytes) -> str:
    value = int.from_bytes(b"\1" + data, "big")  # so that leading zeros are kept
    digits = ""
    while value:
        value, digit = divmod(value, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


def _from_digits(text: str) -> bytes:
    value = 0
    for character in text:
        value = value * len(_DIGITS) + _DIGITS.index(character)
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return data[1:] if data[:1] == b"\1" else b""
