"""What changed in a store: the last change of each document, a page at a time."""

from __future__ import annotations

import re
from typing import Literal

import attrs

from triptych.errors import ValidationError

ChangeKind = Literal["added", "updated", "deleted"]
"""What became of a document between two moments."""

_TEXT = re.compile(r"(\d{1,19})-([0-9A-Za-z]{0,8192})(?:-(\d{1,19})-(\d{1,19}))?", re.ASCII)
_EXAMPLE = "a ChangePage or a DocumentChange has it; pass None to begin at the beginning"


@attrs.frozen(kw_only=True, slots=True)
class ChangeCursor:
    """A position in a store's log of changes; as text it is opaque.

    A run of pages begins at ``base`` and ends at ``until``. Between two pages of a run the cursor
    has both; at its end, and before the first, it has neither.

    Attributes:
        number: the number of the last change that was read.
        mark: the store's name of this part of its log: see `ChangeReader`. It is that of ``until``
            where there is one, else of ``number``.
        base: the position at which the run began.
        until: the end of the log when the run began.
    """

    number: int
    mark: str
    base: int | None = None
    until: int | None = None

    @property
    def marked(self) -> int:
        """The position that ``mark`` is of."""
        return self.number if self.until is None else self.until

    def __str__(self) -> str:
        run = "" if self.until is None else f"-{self.base}-{self.until}"
        return f"{self.number}-{self.mark}{run}"

    @classmethod
    def parse(cls, text: object) -> ChangeCursor:
        """The cursor that ``text`` is.

        Raises:
            ValidationError: ``text`` is no cursor.
        """
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValidationError(f"{text!r} is no cursor of changes: {_EXAMPLE}")
        number, mark, base, until = found.groups()
        if until is None:
            return cls(number=int(number), mark=mark)
        if not int(base) <= int(number) <= int(until):
            raise ValidationError(f"{text!r} is no cursor of changes: {_EXAMPLE}")
        return cls(number=int(number), mark=mark, base=int(base), until=int(until))


@attrs.frozen(kw_only=True, slots=True)
class DocumentChange:
    """The last change of a document.

    Attributes:
        dataset_id: the dataset of the document.
        name: the document's name.
        kind: "added" if it was not there at the cursor that the reading began with, else "updated"
            or "deleted". Change of content, metadata or expiry is an update.
        version: the version it has now; of a deleted one, the last it had.
        cursor: where to go on after this change.
    """

    dataset_id: str
    name: str
    kind: ChangeKind
    version: int
    cursor: str


@attrs.frozen(kw_only=True, slots=True)
class ChangePage:
    """Changes in the order in which they were committed, of each dataset at least.

    Attributes:
        changes: the last change of each document, oldest first.
        cursor: where to go on: pass it as ``since``.
        reset: whether the store could not go on from the cursor it was given, and began at the
            beginning: drop what you have before you apply the changes. Only the first page says
            so.
        more: whether there are more changes now.
    """

    changes: tuple[DocumentChange, ...] = ()
    cursor: str
    reset: bool = False
    more: bool = False
