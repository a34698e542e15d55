"""The rules of the contracts as pure functions, for decisions that a backend makes before it
writes.

A backend reads its state, calls these functions and stores the result, all under one lock or in one
transaction. The functions do no I/O. The ``version`` of a missing document is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import attrs
import numpy as np

from triptych.errors import ConflictError, ModelMismatchError, NotFoundError, ValidationError
from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    Metadata,
    MetadataValue,
    NewDocument,
    PutOutcome,
    SourceDocument,
    SystemData,
    Vector,
    copy_metadata,
)
from triptych.records.documents import system_has_expired
from triptych.records.metadata import same_metadata

if TYPE_CHECKING:
    from triptych.records import EmbeddingSpace

LAYER_SETTINGS = "layers."
"""What the keys of settings about making layers begin with. They are derived data: a store of files
may keep them where it keeps that."""

CHANGE_MODEL = (
    "to change to this model, `triptych rebuild` the dataset, or a copy of it (`triptych copy "
    "--sources`) while this one serves; or open the store with the model it was filled with"
)
"""What to do if a dataset has vectors of another model than the current one."""

_Document = TypeVar("_Document", SourceDocument, DocumentInfo)
_Unit = TypeVar("_Unit", DerivedChunk, DerivedLayer)
_NO_SYSTEM = SystemData()


# Datasets


def dataset_in_use(datasets: Sequence[str]) -> str:
    """Return "default" where it is one of ``datasets`` or there is none, else the only one.

    Raises:
        ValidationError: there are several, and none is "default".
    """
    return "default" if "default" in datasets or not datasets else only_dataset(datasets)


def only_dataset(datasets: Sequence[str], advice: str = "name one") -> str:
    """Return the only dataset; ``advice`` says what to do where there are several.

    Raises:
        NotFoundError: there is no dataset.
        ValidationError: there are several; the message names the first ten.
    """
    if not datasets:
        raise NotFoundError("there is no dataset yet: name the dataset to create")
    if len(datasets) > 1:
        known = ", ".join(map(repr, datasets[:10]))
        raise ValidationError(f"the store has several datasets ({known}): {advice}")
    return datasets[0]


def missing_dataset(dataset_id: str, datasets: Sequence[str]) -> NotFoundError:
    """Return the error for a dataset that does not exist; it names the first ten that exist."""
    known = ", ".join(map(repr, datasets[:10])) or "none yet"
    error = NotFoundError(f"there is no dataset {dataset_id!r}; the datasets are: {known}")
    return error.hinted("`triptych list --datasets` lists them all") if datasets[10:] else error


# Documents


def plan_put(
    dataset_id: str, new: NewDocument, stored: SourceDocument | None, used: int
) -> SourceDocument:
    """Return the document that `DocumentRepo.put` stores; ``stored`` itself if nothing changes.

    Its metadata is `metadata_after`, its system data `system_after`. If these and the content equal
    the stored ones, nothing changes; a new ``original_sha256`` or ``parser_sig`` is then stored
    with the next change.

    Args:
        stored: the stored document of that name, or None.
        used: the greatest version ever deleted in the dataset, 0 for none.

    Raises:
        ConflictError: ``new.if_version`` is given and is not the stored version.
    """
    same = stored is not None and stored.content == new.content
    planned = plan_change(dataset_id, new, stored, used, same_content=same)
    if planned is None:
        assert stored is not None
        return stored
    return planned


class Stored(Protocol):
    """The fields of a stored document, without its content, that a put reads."""

    @property
    def version(self) -> int: ...
    @property
    def metadata(self) -> Metadata: ...
    @property
    def system(self) -> SystemData: ...


def plan_change(
    dataset_id: str,
    new: NewDocument,
    stored: Stored | None,
    used: int,
    *,
    same_content: bool,
    now: datetime | None = None,
) -> SourceDocument | None:
    """`plan_put` without the stored content, which a digest may stand for; None if nothing changes.

    Args:
        same_content: whether the stored document has the content of ``new``.
        now: the time of the put; None is the current time.
    """
    version, before = (stored.version, stored.system) if stored else (0, None)
    metadata = metadata_after(new, stored.metadata if stored else None, before)
    system = system_after(new, before, same_content=same_content)
    # Last, so that what expired before these were made is seen to have expired.
    check_if_version(dataset_id, new, version, before)
    if (
        stored
        and same_content
        and stored.system == system
        and same_metadata(stored.metadata, metadata)
    ):
        return None
    return SourceDocument(
        dataset_id=dataset_id,
        name=new.name,
        content=new.content,
        metadata=metadata,
        version=next_version(version, used),
        updated_at=now or datetime.now(UTC),
        original_sha256=new.original_sha256,
        parser_sig=new.parser_sig,
        system=system,
    )


def metadata_after(
    new: NewDocument, stored: Metadata | None, system: SystemData | None = None
) -> dict[str, MetadataValue]:
    """Return the metadata after a put of ``new``: a copy of its own or of the stored metadata.

    Nothing of an expired document is kept, because a rebuild might already have deleted it.

    Args:
        stored: the metadata of the stored document, or None.
        system: its system data, or None.
    """
    kept = None if system_has_expired(system) else stored
    return copy_metadata((kept or {}) if new.metadata is None else new.metadata)


def system_after(new: NewDocument, stored: SystemData | None, *, same_content: bool) -> SystemData:
    """Return the system data after a put of ``new``.

    An outline belongs to one text: new content without an outline removes it. The root and the
    expiry are kept unless ``new`` sets or removes them, or the stored document has expired.

    Args:
        stored: the system data of the stored document, or None.
        same_content: whether the stored document has the content of ``new``.
    """
    given = (new.outline, new.sync_root, new.expires_at)
    if given == (None, None, None) and stored in (None, _NO_SYSTEM):
        return _NO_SYSTEM  # most documents: each record costs microseconds
    old = stored or _NO_SYSTEM
    kept = old.outline if same_content else ""
    if system_has_expired(old):
        old = _NO_SYSTEM
    expires_at = old.expires_at if new.expires_at is None else new.expires_at
    return SystemData(
        outline=kept if new.outline is None else new.outline,
        sync_root=old.sync_root if new.sync_root is None else new.sync_root,
        expires_at=None if expires_at == "never" else expires_at,
    )


def after_puts(
    dataset_id: str,
    documents: Sequence[NewDocument],
    stored: Mapping[str, SourceDocument],
    used: int,
) -> tuple[list[PutOutcome], dict[str, SourceDocument]]:
    """Return the outcomes of `DocumentRepo.put_many`, and the documents to write by name.

    Each is `plan_put` after the previous ones. The two results share no metadata, so that the
    caller may modify the outcomes.

    Args:
        stored: the stored documents by name; other names are ignored.
        used: the greatest version ever deleted in the dataset, 0 for none.
    """
    changed: dict[str, SourceDocument] = {}
    outcomes = []
    for new in documents:
        old = changed.get(new.name) or stored.get(new.name)
        try:
            document = plan_put(dataset_id, new, old, used)
        except ConflictError as error:
            outcomes.append(PutOutcome(name=new.name, change="failed", error=error))
            continue
        change: Literal["added", "updated", "unchanged"] = "unchanged"
        if document is not old:
            changed[new.name] = document
            change = "updated" if old else "added"
        outcomes.append(PutOutcome(name=new.name, change=change, document=copy_document(document)))
    return outcomes, changed


def outcome_of(before: DocumentInfo | None, stored: SourceDocument) -> PutOutcome:
    """Return the outcome of a put that replaced ``before`` with ``stored``."""
    change: Literal["added", "updated", "unchanged"] = "added"
    if before is not None:
        change = "unchanged" if before.version == stored.version else "updated"
    return PutOutcome(name=stored.name, change=change, document=stored)


def document_of(outcome: PutOutcome) -> SourceDocument:
    """Return the document of a successful put; raise the error of a failed one."""
    if outcome.document is None:
        assert outcome.error is not None
        raise outcome.error
    return outcome.document


def check_if_version(
    dataset_id: str, new: NewDocument, version: int, system: SystemData | None = None
) -> None:
    """Check that ``if_version`` of a put is the stored ``version``, even if nothing would change.

    A document that has expired by its ``system`` data counts as missing: its version is 0.

    Raises:
        ConflictError: ``expected`` is ``new.if_version``, ``actual`` is ``version`` or that 0.
    """
    actual = 0 if system_has_expired(system) else version
    _check_expected(dataset_id, new.name, new.if_version, actual, "put")


def check_delete(dataset_id: str, name: str, if_version: int | None, version: int) -> None:
    """Check that ``if_version`` of a `DocumentRepo.delete` is the stored ``version``.

    Raises:
        ConflictError: ``expected`` is ``if_version``, ``actual`` is ``version``.
    """
    _check_expected(dataset_id, name, if_version, version, "delete")


def _check_expected(
    dataset_id: str, name: str, expected: int | None, version: int, what: str
) -> None:
    if expected in (None, version):
        return
    state = f"is at version {version}" if version else "does not exist"
    raise ConflictError(
        f"document {name!r} of dataset {dataset_id!r} {state}, not at version "
        f"{expected}: read it again, then {what}",
        expected=expected,
        actual=version,
    )


def next_version(version: int, used: int) -> int:
    """Return the version after the next change of a document at ``version``."""
    return max(version, used) + 1


def check_loadable(document: SourceDocument, stored: SourceDocument | None, used: int) -> bool:
    """Return whether `DocumentRepo.load` must write: False if ``document`` is stored already.

    Args:
        used: the greatest version ever deleted in the dataset, 0 for none.

    Raises:
        ConflictError: its version was used before.
    """
    if stored == document and same_metadata(stored.metadata, document.metadata):
        return False
    check_unused(document, stored.version if stored else 0, used)
    return True


def check_unused(document: SourceDocument, version: int, used: int) -> None:
    """Check that the version of a document to load was not used before.

    Raises:
        ConflictError: ``expected`` is the document's version, ``actual`` the stored one.
    """
    if document.version > max(version, used):
        return
    raise ConflictError(
        f"document {document.name!r} of dataset {document.dataset_id!r} cannot be loaded as "
        f"version {document.version}: versions up to {max(version, used)} were used before. Load "
        "it into a new store, or store it with put to give it a new version",
        expected=document.version,
        actual=version,
    )


def versions_to_load(
    dataset_id: str,
    versions: Sequence[SourceDocument],
    stored: int,
    is_stored: Callable[[SourceDocument], bool],
    *,
    replace: bool,
) -> tuple[Sequence[SourceDocument], bool]:
    """Return the ``versions``, oldest first, that `CopyableStore.load_states` must store.

    The second result tells whether the stored document and its history must be deleted first.

    Args:
        stored: the version of the stored document, 0 for none.
        is_stored: returns whether the stored document equals this one.
        replace: whether to delete a document with another history.

    Raises:
        ConflictError: the stored document is not in ``versions``, and ``replace`` is False.
    """
    if not versions or not stored:
        return versions, False
    for at, each in enumerate(versions):
        if each.version == stored and is_stored(each):
            return versions[at + 1 :], False
    if replace:
        return versions, True
    last = versions[-1]
    raise ConflictError(
        f"document {last.name!r} of dataset {dataset_id!r} was changed in the destination: its "
        f"version {stored} there is not among the versions to load, up to {last.version}. Load "
        "into a new store, or delete it there",
        expected=last.version,
        actual=stored,
    )


def page_of_names(
    names: Iterable[str], prefix: str = "", after: str = "", limit: int | None = None
) -> list[str]:
    """Return a page for `DocumentRepo.list`, in code point order; a limit below 0 is 0."""
    found = sorted(name for name in names if name.startswith(prefix) and name > after)
    return found[: None if limit is None else max(limit, 0)]


def copy_document(document: _Document) -> _Document:
    """Return the document with a copy of its metadata, which the receiver may modify."""
    return attrs.evolve(document, metadata=copy_metadata(document.metadata))


# Chunk sets and layers


def can_replace(config: DatasetConfig | None, version: int, sig: DerivedSig) -> bool:
    """Return whether `ChunkRepo.replace` is allowed for a document at ``version``."""
    return (
        config is not None
        and config.chunker_sig == sig.chunker_sig
        and sig.embed_sig in ("", config.embed_sig)
        and _is_at(version, sig)
    )


def is_pending(sig: DerivedSig, embed_sig: str) -> bool:
    """Return whether a set of this signature lacks vectors of ``embed_sig``; "" is no model."""
    return embed_sig != "" and sig.embed_sig != embed_sig


def can_update_source_version(stored: DerivedSig | None, version: int, sig: DerivedSig) -> bool:
    """Return whether `ChunkRepo.update_source_version` is allowed for a set of signature
    ``stored``."""
    return (
        stored is not None
        and (stored.input_sig, stored.chunker_sig, stored.embed_sig)
        == (sig.input_sig, sig.chunker_sig, sig.embed_sig)
        and _is_at(version, sig)
    )


def may_put_layer(layer: DerivedLayer, version: int) -> bool:
    """Return whether `LayerRepo.put` is allowed; always for layers of folders and datasets."""
    return not is_of_document(layer.doc_name) or _is_at(version, layer.sig)


def is_of_document(doc_name: str) -> bool:
    """Return whether a layer of this name is of a document, not of a folder or the dataset."""
    return doc_name != "" and not doc_name.endswith("/")


def check_widths(
    widths: Mapping[str, int], vectors: Iterable[tuple[str, Vector | None]]
) -> dict[str, int]:
    """Return the dataset's dimensions by embedding space after ``vectors`` are stored.

    Call this only for allowed writes; rejected writes are not checked. Vectors of chunks and of
    layers are treated alike, and a space keeps its dimension until the dataset is deleted.

    Args:
        widths: the current dimensions by embedding space.
        vectors: pairs of a space and a vector; None vectors are skipped.

    Raises:
        ModelMismatchError: a vector has another dimension than its space.
    """
    known = dict(widths)
    for space, vector in vectors:
        if vector is None:
            continue
        if vector.shape != (known.setdefault(space, vector.shape[0]),):
            raise ModelMismatchError(
                f"a vector has shape {vector.shape} where embedding space {space!r} of this "
                f"dataset has {known[space]} dimensions: give the new model another signature",
                stored=space,
                configured=space,
            )
    return known


def embedding_spaces(vectors: Iterable[tuple[str, Vector | None]]) -> tuple[EmbeddingSpace, ...]:
    """Return `DatasetStats.spaces` for pairs of a space and a chunk's vector."""
    from triptych.records import EmbeddingSpace

    counts = Counter((sig, len(vector)) for sig, vector in vectors if vector is not None)
    return tuple(
        EmbeddingSpace(embed_sig=sig, dimension=dimension, vectors=count)
        for (sig, dimension), count in sorted(counts.items())
    )


def copy_vector(unit: _Unit) -> _Unit:
    """Return the chunk or layer for storage: with a read-only copy of its vector and no
    ``stale``."""
    vector = None if unit.vector is None else read_only(unit.vector)
    if isinstance(unit, DerivedChunk):
        return attrs.evolve(unit, vector=vector)
    return attrs.evolve(unit, vector=vector, stale=None)


def read_only(vector: Vector) -> Vector:
    """Return a read-only copy of ``vector``."""
    own = np.array(vector, dtype=np.float32)
    own.flags.writeable = False
    return own


def has_source(name: str, documents: Collection[str]) -> bool:
    """Return whether derived data under ``name`` has a source among the dataset's ``documents``."""
    if is_of_document(name):
        return name in documents
    return any(each.startswith(name) for each in documents)


def _is_at(version: int, sig: DerivedSig) -> bool:
    return 0 != version == sig.source_version
