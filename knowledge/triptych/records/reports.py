"""Reports of bulk work, statistics, health checks and findings of the doctor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, TypeVar

import attrs

from triptych.errors import DerivationError, StoreError, TriptychError
from triptych.records.derived import DatasetConfig
from triptych.records.spaces import StoredSpace
from triptych.records.values import SpaceKind

_NOTES = 10
"""The maximum number of other failures that a raised error names."""

_Report = TypeVar("_Report", bound=attrs.AttrsInstance)


def summed(left: _Report, right: _Report) -> _Report:
    """Add two reports of one class: sum their counts and join their lists. A value that is None in
    either is None in the sum."""
    names = [field.name for field in attrs.fields(type(left))]
    pairs = {name: (getattr(left, name), getattr(right, name)) for name in names}
    return type(left)(
        **{name: None if None in pair else pair[0] + pair[1] for name, pair in pairs.items()}
    )


class Summed:
    """A report that can be added to another of its class (`summed`)."""

    __slots__ = ()

    def __add__(self: _Report, other: _Report) -> _Report:
        """Return the sum of both."""
        return summed(self, other)


@attrs.frozen(kw_only=True, slots=True)
class Failure:
    """An item of bulk work that failed, and its error; the other items succeeded."""

    dataset_id: str
    name: str
    error: Exception = attrs.field(eq=False)


def raise_first(failed: Sequence[Failure]) -> None:
    """Raise the error of the first failure, with a note for each of the others."""
    if not failed:
        return
    error = failed[0].error
    for other in failed[1 : _NOTES + 1]:
        error.add_note(f"{other.dataset_id}/{other.name} failed too: {other.error}")
    if len(failed) > _NOTES + 1:
        error.add_note(f"and {len(failed) - _NOTES - 1} more failed")
    raise error


def _root(error: BaseException) -> tuple[type, str]:
    """What an error comes from. Triptych's own messages name texts and counts: their class does."""
    while error.__cause__ is not None:
        error = error.__cause__
    return type(error), "" if isinstance(error, TriptychError) else str(error)


class _Failing:
    """A report whose ``failed`` can be raised."""

    __slots__ = ()
    failed: tuple[Failure, ...]

    def raise_for_failures(self) -> None:
        """Raise the first failure's error, if any; its notes name the others."""
        raise_first(self.failed)


@attrs.frozen(kw_only=True, slots=True)
class PutReport(_Failing):
    """The report of a bulk put: counts of documents, then of chunks.

    ``embedded`` chunks were sent to the embedder, ``reused`` chunks had vectors already, and
    ``encoded`` chunks were sent to other models. A document in ``failed`` with a
    `DerivationError` is stored, but its derived data is missing. ``pending`` counts the documents
    that only keyword search finds until they get vectors: the embedder failed, or ``embed`` was
    "later".
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    encoded: int = 0
    pending: int = 0
    failed: tuple[Failure, ...] = ()

    def unless_all_failed(self) -> PutReport:
        """Return the report, if not every document failed for one cause that is no document's.

        Raises:
            DerivationError, StoreError: the first failure's; its ``report`` is this one.
        """
        first = self.failed[0].error if self.failed else None
        if (
            isinstance(first, DerivationError | StoreError)
            and not self.added + self.updated + self.unchanged
            and {_root(each.error) for each in self.failed} == {_root(first)}
        ):
            first.report = self
            self.raise_for_failures()
        return self


def reported(put: Callable[[], PutReport]) -> PutReport:
    """The report of a bulk put, also of one in which every document failed for one cause."""
    try:
        return put()
    except (DerivationError, StoreError) as error:
        if isinstance(error.report, PutReport):
            return error.report
        raise


@attrs.frozen(kw_only=True, slots=True)
class EmbedReport(_Failing):
    """The report of embedding: ``documents`` now have all their vectors, ``pending`` still lack
    some.

    ``embedded`` texts were sent to the embedder, ``encoded`` texts to other models;
    ``reused`` chunks got a vector that the dataset already had. A document whose texts could not be
    embedded is in ``failed`` and is also pending.
    """

    documents: int = 0
    embedded: int = 0
    reused: int = 0
    encoded: int = 0
    pending: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class DeleteReport(_Failing):
    """The report of deleting many documents, with sorted names.

    ``missing`` are the given names without a document. Documents in ``failed`` remain.
    """

    deleted: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class MetadataReport(_Failing):
    """The report of changing the metadata of many documents: counts of documents.

    ``unchanged`` documents already had these values. ``missing`` are the given names without a
    document. A document in ``failed`` keeps its old metadata, except after a `DerivationError`.
    """

    updated: int = 0
    unchanged: int = 0
    missing: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class RebuildReport(_Failing):
    """The report of a rebuild: ``checked`` documents are ``fresh``, ``rebuilt`` or in ``failed``.

    ``embedded`` counts chunks and re-embedded layers, ``reused`` chunks, and ``removed`` the names
    whose derived data had no source. A document with fresh chunks that only got embeddings counts
    as rebuilt, one that only got vectors of other models than the embedder as fresh; ``encoded``
    counts the texts that got those. ``pending`` counts documents that lack vectors, and ``expired``
    the expired documents that were deleted.
    """

    checked: int = 0
    fresh: int = 0
    rebuilt: int = 0
    embedded: int = 0
    reused: int = 0
    encoded: int = 0
    removed: int = 0
    expired: int = 0
    pending: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class EmbeddingSpace:
    """The vectors of one model in one dataset.

    Attributes:
        embed_sig: the embedder's signature: provider, model and relevant options.
        dimension: the dimension of the vectors.
        vectors: the number of chunks with a vector in this space.
    """

    embed_sig: str
    dimension: int
    vectors: int


@attrs.frozen(kw_only=True, slots=True)
class DatasetStats:
    """Counts of one dataset.

    ``stale`` counts documents whose chunks are missing or stale, ``vectors`` chunks with a vector;
    ``size`` is the size of all contents in bytes of UTF-8. ``spaces`` lists the vectors by model,
    sorted by signature: one space, unless a rebuild with another embedder is unfinished.
    ``pending`` counts the documents with chunks that lack a vector of the current model,
    ``pending_chunks`` these chunks; keyword search finds them, and they are not stale.
    ``further_spaces`` lists the vectors of other models than embedders.
    """

    dataset_id: str
    documents: int
    chunks: int
    vectors: int
    layers: int
    stale: int
    size: int
    config: DatasetConfig | None = None
    spaces: tuple[EmbeddingSpace, ...] = ()
    pending: int = 0
    pending_chunks: int = 0
    further_spaces: tuple[StoredSpace, ...] = ()

    @property
    def further_pending(self) -> int:
        """How often a document waits for vectors of another model than the embedder."""
        return sum(each.pending for each in self.further_spaces)

    def pending_in(self, kind: SpaceKind) -> int:
        """Return how many documents wait for vectors of the current model of a kind."""
        if kind == "dense":
            return self.pending
        return sum(each.pending for each in self.further_spaces if each.kind == kind)


@attrs.frozen(kw_only=True, slots=True)
class HealthCheck:
    """The result of one health check.

    Attributes:
        name: what was checked: "store", "index", "embedder", "coverage" (chunks with vectors),
            "search settings" (the dataset's tuning), "refused texts" (of the model) or a dataset.
        status: "ok"; "warning" if quality or speed suffers; "failed" if puts or searches fail.
        detail: what was found.
        remedy: what to do about it, or "".
        error: the error of a failed check, or the words of a model that refused texts.
    """

    name: str
    status: Literal["ok", "warning", "failed"]
    detail: str
    remedy: str = ""
    error: Exception | None = attrs.field(default=None, eq=False)

    def __str__(self) -> str:
        return f"{self.detail}: {self.remedy}" if self.remedy else self.detail


@attrs.frozen(kw_only=True, slots=True)
class Health:
    """The results of health checks, in the order in which they ran."""

    __plain_properties__: ClassVar[tuple[str, ...]] = ("ok", "status")

    checks: tuple[HealthCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed; there may be warnings."""
        return all(check.status != "failed" for check in self.checks)

    @property
    def status(self) -> Literal["healthy", "failed"]:
        """`ok` as a word."""
        return "healthy" if self.ok else "failed"

    @property
    def problems(self) -> tuple[HealthCheck, ...]:
        """The failed checks, then the warnings."""
        order = ("failed", "warning")
        return tuple(c for status in order for c in self.checks if c.status == status)

    def require(self) -> None:
        """Raise the error of the first failed check, if any.

        Raises:
            TriptychError: a check failed.
        """
        for check in self.checks:
            if check.status == "failed":
                raise check.error or StoreError(str(check))


@attrs.frozen(kw_only=True, slots=True)
class ScrubReport:
    """The report of `Store.scrub`.

    ``terms`` counts the words removed from the store's table of words; None if it has none.
    ``beyond`` names the places that it could not erase.
    """

    terms: int | None = None
    beyond: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class PurgeReceipt:
    """The counts of what `Service.purge` erased; true if there was anything to delete.

    They are taken just before the delete, and may miss what another writer stores in between.
    ``name`` is None if the dataset was purged. ``versions`` counts old versions, ``vectors`` chunks
    with a vector, and ``layers`` includes the layers of the document's folders and dataset.
    ``answers`` counts results of the semantic cache, ``requests`` the responses that servers kept
    for repeated requests, ``questions`` the logged questions that were deleted or named the
    document. ``terms`` is as in `ScrubReport`. ``beyond`` names places that may still hold the
    text. For a restricted caller ``questions`` and ``requests`` are 0 and ``terms`` is None.
    """

    dataset_id: str
    name: str | None
    existed: bool = False
    documents: int = 0
    versions: int = 0
    chunks: int = 0
    vectors: int = 0
    layers: int = 0
    answers: int = 0
    questions: int = 0
    requests: int = 0
    terms: int | None = None
    beyond: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there was anything to delete."""
        return self.existed


@attrs.frozen(kw_only=True, slots=True)
class Finding:
    """A violated invariant, with all its occurrences in one place.

    Attributes:
        check: the check that found it, such as "chunks.spans".
        place: where it is: a dataset, the database, a file.
        detail: what is wrong.
        why: how it affects answers or later work.
        repair: how a repair fixes it, "" if it cannot.
        remedy: what you can do about it, "" if a repair fixes it.
        dataset_id: its dataset, "" for the whole store.
        count: the number of occurrences.
        examples: the names of the first few.
        derives: whether the repair derives chunks or vectors again, which requires that the Service
            has the configuration of the dataset.
    """

    check: str
    place: str
    detail: str
    why: str
    repair: str = ""
    remedy: str = ""
    dataset_id: str = ""
    count: int = 1
    examples: tuple[str, ...] = ()
    derives: bool = False

    @property
    def repairable(self) -> bool:
        """Whether a repair can fix it."""
        return bool(self.repair)

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        named = f": {', '.join(self.examples)}" if self.examples else ""
        return f"{self.check}: {self.place}: {self.detail}{times}{named}"


@attrs.frozen(kw_only=True, slots=True)
class DoctorReport:
    """The report of `Service.doctor`.

    Attributes:
        findings: what is wrong now, after a repair if there was one.
        repaired: what was wrong and has been repaired.
        actions: what the repair did, in order.
        checked: the numbers of documents, chunks, layers and so on that were checked.
        skipped: what could not be checked, and why.
        left_out: text that no search finds, and why: what is in no chunk, and words of files that
            their documents lack; and chunks that only keyword search finds, because the model
            refuses them.
        advice: how searches may find more, if nothing is wrong.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = ("clean",)

    findings: tuple[Finding, ...] = ()
    repaired: tuple[Finding, ...] = ()
    actions: tuple[str, ...] = ()
    checked: Mapping[str, int] = attrs.field(factory=dict)
    skipped: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether there are no findings."""
        return not self.findings
