"""What changed outside, and what is rebuilt for it."""

from __future__ import annotations

import attrs

from triptych.errors import ValidationError
from triptych.records.checks import check_text
from triptych.records.values import EventKind, to_event_kind

__all__ = [
    "ChangeEvent",
    "RebuildScope",
]


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


@attrs.frozen(kw_only=True, slots=True)
class RebuildScope:
    """What to rebuild: "" means every dataset, or every document of the dataset."""

    dataset_id: str = ""
    doc_name: str = ""

    def __attrs_post_init__(self) -> None:
        check_text(self.dataset_id, "dataset_id")
        check_text(self.doc_name, "doc_name")
        if self.doc_name and not self.dataset_id:
            raise ValidationError(
                f"a rebuild of document {self.doc_name!r} needs its dataset_id as well"
            )
