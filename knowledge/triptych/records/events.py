"""What changed outside, and what is rebuilt for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import attrs

from triptych.errors import ValidationError
from triptych.records.checks import check_text
from triptych.records.values import EventKind, to_event_kind


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
