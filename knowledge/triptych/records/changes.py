"""Change events, the scope of rebuilds, and pages of a store's change log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import attrs

from triptych.errors import ValidationError
from triptych.records.values import EventKind, check_text, to_event_kind


@attrs.frozen(kw_only=True, slots=True)
class ChangeEvent:
    """A change in an external source; ``doc_name`` "" means the whole dataset."""

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
    """What to rebuild: some documents of a dataset, a whole dataset, or all datasets.

    Attributes:
        dataset_id: the dataset; "" means all.
        doc_names: the documents, sorted and distinct; empty means all.
    """

    MAX_DOC_NAMES: ClassVar[int] = 256
    """The maximum number of named documents. To rebuild more, name only the dataset."""

    dataset_id: str
    doc_names: tuple[str, ...]

    def __init__(
        self, *, dataset_id: str = "", doc_name: str = "", doc_names: Iterable[str] = ()
    ) -> None:
        """Name one document by ``doc_name``, or any number by ``doc_names``, in any order.

        Raises:
            ValidationError: a name is not text, there is no dataset, both arguments are given, or
                there are more than `MAX_DOC_NAMES` names.
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
        """The document if there is exactly one, else "".

        A Rebuilder that reads only this field rebuilds the whole dataset instead of several
        documents: more than requested, but never less.
        """
        return self.doc_names[0] if len(self.doc_names) == 1 else ""

    def __str__(self) -> str:
        """Return a short text for logs, however many documents there are."""
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
        raise ValidationError("one of doc_names is empty: for all documents, leave doc_names empty")
    return tuple(sorted(found))


ChangeKind = Literal["added", "updated", "deleted"]
"""How a document changed between two cursors."""

_TEXT = re.compile(r"(\d{1,19})-([0-9A-Za-z]{0,8192})(?:-(\d{1,19})-(\d{1,19}))?", re.ASCII)
_EXAMPLE = "a ChangePage or a DocumentChange has it; leave it out to begin at the beginning"


@attrs.frozen(kw_only=True, slots=True)
class ChangeCursor:
    """A position in a store's change log; its text form is opaque.

    A run of pages begins at ``base`` and ends at ``until``. A cursor between two pages of a run has
    both; before the first page and after the last it has neither.

    Attributes:
        number: the number of the last change that was read.
        mark: the store's name for this part of its log (see `ChangeReader`), at ``until`` if that
            is set, else at ``number``.
        base: the position at which the run began.
        until: the end of the log when the run began.
    """

    number: int
    mark: str
    base: int | None = None
    until: int | None = None

    @property
    def marked(self) -> int:
        """The position of ``mark``."""
        return self.number if self.until is None else self.until

    def __str__(self) -> str:
        run = "" if self.until is None else f"-{self.base}-{self.until}"
        return f"{self.number}-{self.mark}{run}"

    @classmethod
    def parse(cls, text: object) -> ChangeCursor:
        """Parse a cursor from its text form.

        Raises:
            ValidationError: ``text`` is not a cursor.
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
        kind: "added" if the document did not exist at the cursor that reading started from, else
            "updated" (content, metadata or expiry changed) or "deleted".
        version: the current version; for a deleted document the last one.
        cursor: the position after this change.
    """

    dataset_id: str
    name: str
    kind: ChangeKind
    version: int
    cursor: str


@attrs.frozen(kw_only=True, slots=True)
class ChangePage:
    """A page of changes in commit order, at least within each dataset.

    Attributes:
        changes: the last change of each document, oldest first.
        cursor: pass it as ``since`` to continue.
        reset: whether the store could not continue from the given cursor and started from the
            beginning: drop your copies before you apply the changes. Only true on the first page.
        more: whether there are more changes now.
    """

    changes: tuple[DocumentChange, ...] = ()
    cursor: str
    reset: bool = False
    more: bool = False
