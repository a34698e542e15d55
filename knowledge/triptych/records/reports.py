"""What bulk work did and what failed, counts, health, and what the doctor finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, TypeVar

import attrs

from triptych.errors import StoreError
from triptych.records.documents import DatasetConfig
from triptych.records.spaces import SparseSpace

_NOTES = 10
"""How many other failures an error that is raised for all of them names."""

_Report = TypeVar("_Report", bound=attrs.AttrsInstance)


def summed(left: _Report, right: _Report) -> _Report:
    """The counts of two reports of one kind added up, and their lists joined; what one of them
    does not know (None) is not known of both."""
    names = [field.name for field in attrs.fields(type(left))]
    pairs = {name: (getattr(left, name), getattr(right, name)) for name in names}
    return type(left)(
        **{name: None if None in pair else pair[0] + pair[1] for name, pair in pairs.items()}
    )


class Summed:
    """What is added to another of its kind, as `summed` does."""

    __slots__ = ()

    def __add__(self: _Report, other: _Report) -> _Report:
        """Both together."""
        return summed(self, other)


@attrs.frozen(kw_only=True, slots=True)
class Failure:
    """One item that failed, and why; the others were done."""

    dataset_id: str
    name: str
    error: Exception = attrs.field(eq=False)


def raise_first(failed: Sequence[Failure]) -> None:
    """Raise the error of the first of ``failed``, with a note for each of the others."""
    if not failed:
        return
    error = failed[0].error
    for other in failed[1 : _NOTES + 1]:
        error.add_note(f"{other.dataset_id}/{other.name} failed too: {other.error}")
    if len(failed) > _NOTES + 1:
        error.add_note(f"and {len(failed) - _NOTES - 1} more failed")
    raise error


class _Failing:
    """A report whose ``failed`` can be raised."""

    __slots__ = ()
    failed: tuple[Failure, ...]

    def raise_for_failures(self) -> None:
        """Raise the first failure's error, whose notes name the others; nothing without any."""
        raise_first(self.failed)


@attrs.frozen(kw_only=True, slots=True)
class PutReport(_Failing):
    """What a bulk put did: counts of documents, then of chunks.

    ``embedded`` chunks were sent to the embedder, ``reused`` ones had their vectors already, and
    ``encoded`` were sent to the sparse encoder.
    A document in ``failed`` may be stored with its derivation missing: then its error is a
    `DerivationError`. ``pending`` counts the documents that are found by keyword and wait for
    vectors: because they were put to be embedded later, or because the embedder failed.
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


@attrs.frozen(kw_only=True, slots=True)
class EmbedReport(_Failing):
    """What embedding came to: ``documents`` have all their vectors now, ``pending`` do not yet.

    ``embedded`` texts were sent to the embedder, ``encoded`` texts to the sparse encoder;
    ``reused`` chunks got a vector that the dataset had already. Each document whose texts could
    not be embedded is in ``failed``, and pending.
    """

    documents: int = 0
    embedded: int = 0
    reused: int = 0
    encoded: int = 0
    pending: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class DeleteReport(_Failing):
    """What deleting many documents did: the names, ordered.

    ``missing`` are the names that were given and found nothing. Those in ``failed`` remain.
    """

    deleted: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class MetadataReport(_Failing):
    """What changing the metadata of many documents did: counts of documents.

    ``unchanged`` had these values before. ``missing`` are the names that were given and found
    nothing. A document in ``failed`` has its old metadata, unless its error is a `DerivationError`.
    """

    updated: int = 0
    unchanged: int = 0
    missing: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class RebuildReport(_Failing):
    """What a rebuild did: ``checked`` documents are ``fresh``, ``rebuilt`` or in ``failed``.

    ``embedded`` counts chunks, and layers embedded again; ``reused`` counts chunks; ``removed``
    counts the documents whose derived data had no source any more. A document whose chunks were
    fresh and only got embeddings counts as rebuilt, one that only got sparse vectors as fresh;
    ``encoded`` counts the texts of the latter. ``pending`` counts those that wait for vectors.
    ``expired`` counts the documents that were deleted because they had expired.
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
    """The vectors that chunks of one dataset have of one model.

    Attributes:
        embed_sig: the embedder's signature: provider, model, and what else decides.
        dimension: how wide each vector is.
        vectors: how many chunks have a vector of this space.
    """

    embed_sig: str
    dimension: int
    vectors: int


@attrs.frozen(kw_only=True, slots=True)
class DatasetStats:
    """Counts of one dataset.

    ``stale`` counts documents whose chunks are missing or stale; ``vectors`` the chunks
    that have one; ``size`` is the sources' size in bytes of UTF-8. ``spaces`` divides the vectors
    by model, in order of its signature: one space, unless a rebuild with another embedder is not
    done yet. ``pending`` counts the documents whose chunks do not all have a vector of the model
    yet, ``pending_chunks`` their chunks without one; these documents are found by keyword, and are
    not stale for it. ``sparse_spaces`` are the encoders of the sparse vectors, and
    ``sparse_pending`` counts the documents whose chunks do not all have one of ``config``'s.
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
    sparse_spaces: tuple[SparseSpace, ...] = ()
    sparse_pending: int = 0


@attrs.frozen(kw_only=True, slots=True)
class HealthCheck:
    """One thing that was looked at: fine, worth knowing, or in the way of work.

    Attributes:
        name: what was looked at: "store", "index", "embedder", "coverage" (by a dataset's
            embedder), "search settings" (that a dataset is tuned to) or a dataset.
        status: "failed" is what makes puts or searches fail; a "warning" costs quality or time.
        detail: what was found.
        remedy: what to do about it, "" where nothing is to be done.
        error: what a failed check ended with.
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
    """What a health check found, in the order in which it looked."""

    __plain_properties__: ClassVar[tuple[str, ...]] = ("ok",)

    checks: tuple[HealthCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed; there may be warnings."""
        return all(check.status != "failed" for check in self.checks)

    @property
    def problems(self) -> tuple[HealthCheck, ...]:
        """What failed, then the warnings."""
        order = ("failed", "warning")
        return tuple(c for status in order for c in self.checks if c.status == status)

    def require(self) -> None:
        """Raise what the first failed check ended with; nothing when none failed.

        Raises:
            TriptychError: something is in the way of work.
        """
        for check in self.checks:
            if check.status == "failed":
                raise check.error or StoreError(str(check))


@attrs.frozen(kw_only=True, slots=True)
class ScrubReport:
    """What `Store.scrub` did.

    ``terms`` counts the words that it removed from a table of words; None where there is no such
    table. ``beyond`` names the places that it did not reach.
    """

    terms: int | None = None
    beyond: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class PurgeReceipt:
    """What `Service.purge` removed, in counts; true where there was anything to delete.

    It is counted just before the delete, so that what another writer puts in between may be
    missing. ``name`` is None where the dataset was purged. ``versions`` are old ones, ``vectors``
    counts chunks that had one, and ``layers`` includes those of the folders and the dataset above
    a document. ``answers`` are those of the semantic cache, ``requests`` those that servers kept
    for requests which are sent again, ``questions`` the entries of the log of questions that went
    or named the document. ``terms`` are those of `ScrubReport`. ``beyond`` says where it may still
    be read. Under an access ``questions`` and ``requests`` are 0, and ``terms`` is None.
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
        """Whether there was anything to delete."""
        return self.existed


@attrs.frozen(kw_only=True, slots=True)
class Finding:
    """One thing that is wrong, as often as it is in one place.

    Attributes:
        check: the check that found it, such as "chunks.spans".
        place: where: a dataset, the database, a file.
        detail: what is wrong.
        why: what it does to answers or to later work.
        repair: how a repair repairs it, "" where it cannot.
        remedy: what only a person can do about it, "" where a repair does.
        dataset_id: the dataset that it is in, "" where it is the whole store.
        count: how many times.
        examples: the first few of those, by name.
        derives: whether the repair makes chunks or vectors again, for which the Service must be
            of the configuration that the dataset was filled with.
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
    """What an examination found; after a repair, what is left.

    Attributes:
        findings: what is wrong now.
        repaired: what was wrong, and is no more.
        actions: what the repair did, in order.
        checked: how many documents, chunks, layers and so on were looked at.
        skipped: what could not be looked at here, and why.
        left_out: what is in no chunk, and so is not found by a search of chunks, and why.
        advice: what may find more, where nothing is wrong.
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
        """Whether nothing is wrong (any more)."""
        return not self.findings
