"""A document's row between the database and the records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from triptych.errors import CorruptStoreError
from triptych.records import (
    DocumentInfo,
    MetadataValue,
    SystemData,
)
from triptych.records.metadata import (
    metadata_from_plain,
)
from triptych_backends.sql.deferred import (
    tables as t,
)
from triptych_backends.sql.errors import DAMAGE, corrupt

_d = t.document.c
COLUMNS = (
    _d.id,
    _d.name,
    _d.version,
    _d.updated_at,
    _d.revision,
    _d.content_sha256,
    _d.size,
    _d.input_sig,
    _d.original_sha256,
    _d.system,
    _d.metadata,
)
"""What `DocumentRow.read` takes, in its order."""

NO_SYSTEM = SystemData()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def info_in(row: Sequence[Any], dataset_id: str, where: str) -> DocumentInfo:
    """The document in the first columns of ``row``, in the order of `COLUMNS`."""
    metadata: dict[str, MetadataValue] = {}
    parser_sig, system = "", NO_SYSTEM
    if row[9] != "{}" or row[10] != "{}":
        parser_sig, system, metadata = kept_in(row, where)
    return DocumentInfo(
        dataset_id=dataset_id,
        name=row[1],
        metadata=metadata,
        version=row[2],
        updated_at=moment_of(row[3]),
        content_sha256=row[5],
        size=row[6],
        input_sig=row[7],
        original_sha256=row[8],
        parser_sig=parser_sig,
        system=system,
    )


@lru_cache(maxsize=64)
def read_system(text: str) -> tuple[str, SystemData]:  # the files of a folder have the same
    """What `write_system` wrote.

    Raises:
        ValueError, TypeError, AttributeError: it is something else.
    """
    if text == "{}":
        return "", NO_SYSTEM
    held = json.loads(text)
    parser_sig = held.pop("parser_sig", "")
    if "expires_at" in held:
        held["expires_at"] = datetime.fromisoformat(held["expires_at"])
    return parser_sig, SystemData(**held)


def kept_in(row: Sequence[Any], where: str) -> tuple[str, SystemData, dict[str, MetadataValue]]:
    """The parser's signature, the system's data and the metadata in a row."""
    (kept, said), what = row[9:11], "what is kept"
    try:
        parser_sig, system = read_system(kept)
        what = "the metadata"
        metadata = {} if said == "{}" else metadata_from_plain(json.loads(said))
    except DAMAGE as error:
        raise corrupt(where, f"{what} of document {row[1]!r}: {error}") from error
    return parser_sig, system, metadata


def micros_of(time: datetime) -> int:
    """A column of microseconds since 1970; without a time zone it is of UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - EPOCH) // MICROSECOND


@lru_cache(maxsize=64)
def moment_of(micros: int) -> datetime:  # a batch has one
    """The time of a column of microseconds."""
    try:
        return EPOCH + timedelta(microseconds=micros)
    except (OverflowError, TypeError) as error:
        raise CorruptStoreError(
            f"the store is damaged: {micros!r} is not a time that a document was put. Restore "
            "it from a backup; documents that can be read can be exported"
        ) from error
