"""What changed: outside, and what is rebuilt for it; in a store, a page of its log at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import attrs

from triptych.errors import ValidationError
from triptych.records.values import EventKind, check_text, to_event_kind


@attrs.frozen(kw_only=True, slots=True)
class ChangeEvent:
    """Something changed outside: ``doc_name`` "" means the whole dataset."""

    kind: EventKind = attrs.field(converter=to_event_kind)
    dataset_id: str
    doc_name: str = ""

    def __attrs_post_init__(self) -> None:
        # Any text will do: what no document can be called still says that something changed.
        for what, name in (("dataset_id", self.dataset_id), ("doc_name", self.doc_name)):
            if not isinstance(name, str):
                raise ValidationError(
                    f"{what} of a ChangeEvent must be a string, not {type(name).__name__}"
                )


@attrs.frozen(init=False, slots=True)
class RebuildScope:
    """What to rebuild: some documents of a dataset, all of them, or every dataset.

    Attributes:
        dataset_id: the dataset; "" means every one.
        doc_names: its documents, in order, each once; none means all of them.
    """

    MAX_DOC_NAMES: ClassVar[int] = 256
    """So many documents can be named. What covers more is the dataset."""

    dataset_id: str
    doc_names: tuple[str, ...]

    def __init__(
        self, *, dataset_id: str = "", doc_name: str = "", doc_names: Iterable[str] = ()
    ) -> None:
        """One document is named by either, several by ``doc_names``, in any order.

        Raises:
            ValidationError: a name is not text, documents are named without a dataset, in both
                ways at once, or more than `MAX_DOC_NAMES` of them.
        """
        check_text(dataset_id, "dataset_id")
        check_text(doc_name, "doc_name")
        names = _names(doc_names)
        if doc_name and names:
            raise ValidationError("give a RebuildScope a doc_name or doc_names, not both")
        if doc_name:
            names = (doc_name,)
        if names and not dataset_id:
            raise ValidationError(
                f"a rebuild of document {names[0]!r} needs its dataset_id as well"
            )
        if len(names) > self.MAX_DOC_NAMES:
            raise ValidationError(
                f"a RebuildScope names at most {self.MAX_DOC_NAMES} documents, not {len(names)}: "
                "name the dataset alone, which covers them"
            )
        self.__attrs_init__(dataset_id, names)

    @property
    def doc_name(self) -> str:
        """The document, where it is a single one, else "".

        A Rebuilder that looks no further takes several documents for the whole dataset: it
        does more than it was asked, and leaves nothing out.
        """
        return self.doc_names[0] if len(self.doc_names) == 1 else ""

    def __str__(self) -> str:
        """For a line of a log: however many documents there are, it is short."""
        if not self.dataset_id:
            return "every dataset"
        if not self.doc_names:
            return f"dataset {self.dataset_id!r}"
        if self.doc_name:
            return f"{self.doc_name!r} of dataset {self.dataset_id!r}"
        return f"{len(self.doc_names)} documents of dataset {self.dataset_id!r}"


def _names(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ValidationError(f"doc_names are several names, not {names!r:.80}")
    found = {check_text(name, "one of doc_names") for name in names}
    if "" in found:
        raise ValidationError("one of doc_names is empty: for all documents, name none")
    return tuple(sorted(found))


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
        """The position that ``mark`` names."""
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
