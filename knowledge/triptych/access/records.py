"""What a caller may do: which datasets, whether to write, and which documents there are."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import attrs

from triptych.errors import ValidationError
from triptych.records import FilterTree, check_identifier, parse_filter
from triptych.records.filters import (
    HEADING,
    UPDATED_AT,
    VERSION,
    Subject,
    conditions_of,
)

_OF_A_WRITE = (HEADING, VERSION, UPDATED_AT)


def _datasets(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValidationError(
            f"dataset_ids lists the datasets of an access, such as ['handbook'], not {given!r:.60}"
        )
    return tuple(dict.fromkeys(check_identifier(each, "dataset_id") for each in given))


def _where(given: Any) -> Mapping[str, Any] | None:
    if given is None:
        return None
    tree = parse_filter(given)
    if tree is None:
        raise ValidationError(
            "the where of an access is empty, and everything would pass it: name a condition, or "
            "give None for an access to all documents"
        )
    for condition in conditions_of(tree):
        if condition.field in _OF_A_WRITE:
            raise ValidationError(
                f"the where of an access cannot ask for {condition.field}, which is not fixed "
                "before a document is written, or is not of the whole document: ask for metadata, "
                "doc_name, doc_prefix or $expires_at"
            )
    return copy.deepcopy(dict(given))


@attrs.frozen(kw_only=True, slots=False)
class Access:
    """What a caller may do, for `Service.restricted`.

    Attributes:
        dataset_ids: the datasets that the caller may name; None for all. They need not exist yet.
        can_write: whether the caller may change documents.
        where: a filter that every document of the caller passes, as in `Query`; None for all
            documents. What does not pass does not exist for the caller: it is not found, not
            counted, and has no part in a score. Conditions are on metadata, ``doc_name``,
            ``doc_prefix`` and ``$expires_at``.
    """

    dataset_ids: tuple[str, ...] | None = attrs.field(default=None, converter=_datasets)
    can_write: bool = False
    where: Mapping[str, Any] | None = attrs.field(default=None, converter=_where, hash=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.can_write, bool):
            raise ValidationError(f"can_write is True or False, not {self.can_write!r:.60}")
        _ = self.tree  # read once: what a caller does to the mapping later changes nothing

    @cached_property
    def tree(self) -> FilterTree | None:
        """``where`` as a tree; None lets every document pass."""
        return None if self.where is None else parse_filter(self.where)

    def names(self, dataset_id: str) -> bool:
        """Whether the caller may name this dataset."""
        return self.dataset_ids is None or dataset_id in self.dataset_ids

    def admits(self, subject: Subject) -> bool:
        """Whether a document is one of the caller's."""
        return self.tree is None or self.tree.admits(subject)
