"""The access of a caller, and the rules by which repositories restrict a store to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import takewhile
from typing import Any, TypeVar

import attrs

from triptych.contracts import Capabilities, Store
from triptych.contracts.rules import missing_dataset
from triptych.errors import AccessDeniedError, NotFoundError, ValidationError
from triptych.records import (
    Condition,
    DerivedSig,
    DocumentInfo,
    Filter,
    FilterTree,
    SourceDocument,
    check_identifier,
    parse_filter,
)
from triptych.records.documents import document_subject
from triptych.records.filters import (
    HEADING,
    NAME,
    UPDATED_AT,
    VERSION,
    Subject,
    all_of,
    conditions_of,
    guarded,
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
            "the where of an access is empty, so that it would allow all documents: give a "
            "condition, or None to allow all documents"
        )
    for condition in conditions_of(tree):
        if condition.field in _OF_A_WRITE:
            raise ValidationError(
                f"the where of an access cannot use {condition.field}, which is unknown before a "
                "document is written, or not a property of the whole document: use metadata, "
                "doc_name, doc_prefix or $expires_at"
            )
    return copy.deepcopy(dict(given))


@attrs.frozen(kw_only=True, slots=False)
class Access:
    """The permissions of a caller, for `Service.restricted`.

    Attributes:
        dataset_ids: the datasets that the caller may use; None for all. They need not exist.
        can_write: whether the caller may change documents.
        where: a filter as in `Query` on metadata, ``doc_name``, ``doc_prefix`` and ``$expires_at``;
            None allows all documents. Documents that do not match do not exist for the caller: they
            are not found or counted, and affect no score.
        agent: whether the caller is a program whose writes wait for a person, in datasets that are
            reviewed (`triptych.proposals`).
        caller: the name of the caller, as shown with its proposals.
    """

    dataset_ids: tuple[str, ...] | None = attrs.field(default=None, converter=_datasets)
    can_write: bool = False
    where: Mapping[str, Any] | None = attrs.field(default=None, converter=_where, hash=False)
    agent: bool = False
    caller: str = ""

    def __attrs_post_init__(self) -> None:
        for name in ("can_write", "agent"):
            if not isinstance(getattr(self, name), bool):
                raise ValidationError(f"{name} is True or False, not {getattr(self, name)!r:.60}")
        _ = self.tree  # read once: what a caller does to the mapping later changes nothing

    @cached_property
    def tree(self) -> FilterTree | None:
        """``where`` as a tree; None matches every document."""
        return None if self.where is None else parse_filter(self.where)

    def names(self, dataset_id: str) -> bool:
        """Return whether the caller may use this dataset."""
        return self.dataset_ids is None or dataset_id in self.dataset_ids

    def check_can_write(self) -> None:
        """Refuse every write where the access may only read.

        Raises:
            AccessDeniedError: it may only read.
        """
        if not self.can_write:
            raise AccessDeniedError("this access may only read: ask for one that may write")

    def names_all(self, dataset_ids: Sequence[str]) -> bool:
        """Return whether the caller may use each of these datasets."""
        return all(map(self.names, dataset_ids))

    def is_whole(self, dataset_id: str) -> bool:
        """Whether it hides nothing of this dataset."""
        return self.tree is None and self.names(dataset_id)

    def admits(self, subject: Subject) -> bool:
        """Return whether the caller may use this document."""
        return self.tree is None or self.tree.admits(subject)


_Document = TypeVar("_Document", DocumentInfo, SourceDocument)
_PAGE = 1_000  # names that one condition lists
_NOBODY = DocumentInfo(
    dataset_id="",
    name="",
    metadata={"team": ""},
    version=1,
    updated_at=datetime.min,
    content_sha256="",
    size=0,
    input_sig="",
)


def named_condition(names: Collection[str]) -> Condition:
    """The condition that a document has one of these names."""
    return Condition(NAME, "in", tuple(("text", name) for name in names))


@attrs.frozen(eq=False)
class AccessView:
    """What an `Access` shows of ``store``.

    What is outside of it is answered on the same path as what is not there: the same reads of
    the store, then the same answer. ``reviews`` says in which datasets the caller's writes wait for
    review.
    """

    store: Store
    capabilities: Capabilities
    access: Access
    reviews: Callable[[str], bool] = lambda dataset_id: False
    _known: dict[str, str] = attrs.field(factory=dict, init=False, repr=False)

    @property
    def tree(self) -> FilterTree | None:
        """What every document of the caller passes; None where all do."""
        return self.access.tree

    # Datasets

    def datasets(self) -> Sequence[str]:
        """The datasets that there are for the caller, ordered.

        Where the access names none and has a filter, those that hold a document which passes it.
        """
        found = [each for each in self.store.documents.list_datasets() if self.access.names(each)]
        if self.tree is None or self.access.dataset_ids is not None:
            return found
        return [each for each in found if self._holds_any(each)]

    def shows(self, dataset_id: str) -> bool:
        """Whether the dataset, which may not exist, is one that the caller may read."""
        if not self.access.names(dataset_id):
            return False
        if self.tree is None or self.access.dataset_ids is not None:
            return True
        return self._holds_any(dataset_id)

    def _holds_any(self, dataset_id: str) -> bool:
        """Whether a document of the caller is there. One that was is looked at first: each search
        asks this."""
        known = self._known.get(dataset_id)
        if known is not None and self.info(dataset_id, known) is not None:
            return True
        found = self.store.documents.list(dataset_id, where=self.tree, limit=1)
        if found:
            self._known[dataset_id] = found[0].name
        else:
            self._known.pop(dataset_id, None)
        return bool(found)

    def named(self, dataset_ids: Sequence[str]) -> tuple[str, ...]:
        """Those of ``dataset_ids`` that the caller may name, in their order."""
        return tuple(each for each in dataset_ids if self.access.names(each))

    def missing(self, dataset_id: str) -> NotFoundError:
        """The error if the dataset does not exist for the caller."""
        return missing_dataset(dataset_id, self.datasets())

    # Documents

    def admits(self, document: DocumentInfo | SourceDocument) -> bool:
        """Whether this state of a document is one of the caller's."""
        return self.tree is None or self.tree.admits(document_subject(document))

    def admitted(self, document: _Document | None) -> _Document | None:
        """``document``, None unless it is one of the caller's."""
        return document if document is not None and self.admits(document) else None

    def info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """The document without its content, None if there is none for the caller."""
        if not self.access.names(dataset_id):
            return None
        found = self.store.documents.get_info(dataset_id, name)
        # What is missing is judged, too, which takes as long.
        passes = self.admits(found or _NOBODY)
        return found if passes else None

    def infos(self, dataset_id: str, names: Sequence[str]) -> Mapping[str, DocumentInfo]:
        """Those of ``names`` that are the caller's documents."""
        if not self.access.names(dataset_id):
            return {}
        found: dict[str, DocumentInfo] = {}
        several = list(dict.fromkeys(names))
        for start in range(0, len(several), _PAGE):
            tree = all_of(named_condition(several[start : start + _PAGE]), self.tree)
            for info in self.store.documents.list(dataset_id, where=tree):
                found[info.name] = info
        return found

    def every_info(self, dataset_id: str) -> Mapping[str, DocumentInfo]:
        """All documents of the dataset that are the caller's, ordered by name."""
        if not self.access.names(dataset_id):
            return {}
        return {info.name: info for info in self.store.documents.list(dataset_id, where=self.tree)}

    def history(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """The versions of a document, newest first, down to the last that is not the caller's.

        What a document was before it became the caller's stays with whose it was.
        """
        reader = self.capabilities.versions
        if reader is None or not self.access.names(dataset_id):
            return ()
        # Judged before its versions are read: how long that takes says how many there are.
        if self.tree is not None and self.info(dataset_id, name) is None:
            return ()
        return list(takewhile(self.admits, reader.versions(dataset_id, name)))

    def shows_derived(self, info: DocumentInfo, sig: DerivedSig, digest: str) -> bool:
        """Whether what was derived from the document ``info`` is of a state that is the caller's.

        ``digest`` is what ``sig.input_sig`` is where it is derived from the present state. What was
        derived from an older one shows that one's text.
        """
        if self.tree is None or sig.input_sig == digest or sig.source_version == info.version:
            return True
        versions = self.history(info.dataset_id, info.name)
        return any(each.version == sig.source_version for each in versions)

    # Filters

    def filter(self, asked: Filter) -> Filter:
        """``asked`` of the caller's documents, and with statistics of these alone."""
        return asked.bounded(self.tree)

    def where(self, tree: FilterTree | None) -> FilterTree | None:
        """``tree`` of the caller's documents: evaluated on no other."""
        return guarded(self.tree, tree)

    # Writes

    def check_write(self, dataset_id: str) -> None:
        """Refuse a write that the access does not allow.

        Raises:
            AccessDeniedError: it may only read.
            NotFoundError: the dataset is not one that it names.
        """
        self.access.check_can_write()
        if not self.access.names(dataset_id):
            raise self.missing(dataset_id)

    def check_whole(self, dataset_id: str, what: str) -> None:
        """Refuse a write that concerns a whole dataset where the access has a filter.

        Raises:
            AccessDeniedError: the access may only read, or has a filter, or is an agent's and the
                dataset is reviewed.
            NotFoundError: the dataset is not one that it names.
        """
        self.check_write(dataset_id)
        if self.tree is not None:
            raise AccessDeniedError(
                f"this access is to some documents of a dataset, and {what} concerns all of them: "
                "ask for an access without a filter"
            )
        self.check_unreviewed(dataset_id, what)

    def check_create(self, dataset_id: str) -> None:
        """Refuse making a dataset that the access does not name.

        Raises:
            AccessDeniedError: it names none and has a filter, or is an agent's and the dataset is
                reviewed.
        """
        if self.access.dataset_ids is None:
            self.check_whole(dataset_id, "making a dataset")

    def check_unreviewed(self, dataset_id: str, what: str) -> None:
        """Refuse a write that cannot wait for review, where the caller's writes do.

        Raises:
            AccessDeniedError: they do.
        """
        if self.reviews(dataset_id):
            raise AccessDeniedError(
                f"what agents write in {dataset_id!r} is reviewed, and {what} cannot be: an agent "
                "may propose documents, their metadata and their deletion"
            )

    def refused(self, name: str) -> AccessDeniedError:
        """The error where a document may not be written."""
        return AccessDeniedError(
            f"this access does not allow writing the document {name!r}: its name and metadata, "
            "before and after, must pass the access's filter"
        )
