"""The contract of sources: what is synced and is no folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Protocol

import attrs

from triptych.scan import FileStat

UNKNOWN = FileStat(0, 0, 0, 0)
"""The stat of an entry whose revision is unknown."""


def stat_of(entry: SourceEntry) -> FileStat:
    """Return the revision of an entry as a stat: 126 bits of its digest."""
    if not entry.revision:
        return UNKNOWN
    found = hashlib.sha256(entry.revision.encode("utf-8", "replace")).digest()
    high, low = (int.from_bytes(found[at : at + 8]) >> 1 for at in (0, 8))
    return FileStat(entry.size or 0, 0, high, low)


@attrs.frozen(kw_only=True, slots=True)
class SourceEntry:
    """An entry of a source's list.

    Attributes:
        name: its name, parts separated by slashes; after the root's prefix, the document's name.
        revision: changes if the entry does, such as a digest, a version or a time of modification.
            An entry with the revision of the last sync is not fetched. "" is unknown: each sync
            fetches it.
        size: in bytes; None if unknown.
        hint: a file name whose extension says how to parse an entry without one: "page.html".
        skip: why the source cannot give it, such as "a submodule"; "" if it can.
    """

    name: str
    revision: str = ""
    size: int | None = None
    hint: str = ""
    skip: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Fetched:
    """The content of an entry.

    Attributes:
        data: the bytes, which a parser of files reads.
        url: a link to exactly this content; stored as the document's metadata ``source_url``.
        revision: stored as ``source_revision``, and given to the next `Source.fetch`.
        hint: as in `SourceEntry`, if only the content tells; it takes precedence.
    """

    data: bytes
    url: str = ""
    revision: str = ""
    hint: str = ""


class Source(Protocol):
    """Where documents come from that are not files of a folder.

    A sync calls `revision`, then `list` unless that is unchanged, then `fetch` for what is new or
    changed, from several threads. A source that is a context manager is entered around these calls.
    What fails raises a `TriptychError` or an `OSError`; no document is deleted then.
    """

    @property
    def location(self) -> str:
        """What names the source, such as a URL without secrets; its documents belong to it."""
        ...

    def revision(self) -> str:
        """Return a string that changes if any entry does; "" if only `list` can tell."""
        ...

    def list(self) -> Iterable[SourceEntry]:
        """Yield every entry.

        Documents that are not listed are deleted, so it must raise unless the list is complete.
        The entries before the error are synced.
        """
        ...

    def fetch(self, name: str, known: str) -> Fetched | None:
        """Return the content of an entry, or None if it is unchanged.

        ``known`` is the `Fetched.revision` of what is stored; "" means that the content is needed.
        """
        ...
