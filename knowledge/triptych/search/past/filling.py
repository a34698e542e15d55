"""Filling a scratch store with the documents of a moment, and updating it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import attrs

from triptych import deadlines
from triptych.contracts import ChunkRepo, Store, VersionReader
from triptych.derivation.deriver import Deriver
from triptych.errors import CancelledError, ConflictError, TriptychError
from triptych.records import (
    AnySpace,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    SourceDocument,
    VectorSpace,
)
from triptych.records.documents import has_expired
from triptych.records.spaces import dense
from triptych.search.past.layers import fill_layers
from triptych.search.past.moments import Moment, aware
from triptych.vectors.filler import Filler

V = TypeVar("V")

_PAGE = 64
_TRIES = 3
"""How often a document is looked at again that is written while it is read."""


class OutdatedError(Exception):
    """The scratch store can no longer take what belongs into it: begin with an empty one."""


class _KnownVectors:
    """The vectors of both stores."""

    def __init__(self, scratch: ChunkRepo, chunks: ChunkRepo) -> None:
        self._scratch = scratch
        self._chunks = chunks

    def known_vectors(
        self, dataset_id: str, space: VectorSpace[V], digests: Sequence[str]
    ) -> Mapping[str, V]:
        found = dict(self._scratch.known_vectors(dataset_id, space, digests))
        missing = [each for each in digests if each not in found]
        if missing:
            found |= self._chunks.known_vectors(dataset_id, space, missing)
        return found


@attrs.frozen(kw_only=True, slots=True)
class VersionThen:
    """A document at a moment.

    Attributes:
        info: the version that was current, None where there is none to search.
        lost: whether there was one, but it is no longer kept.
        unknown: whether there may have been one that is no longer kept.
    """

    info: DocumentInfo | None = None
    lost: bool = False
    unknown: bool = False


def version_then(
    versions: Sequence[DocumentInfo], moment: Moment, deleted_version: int | None
) -> VersionThen:
    """Return the document at ``moment``.

    A document that had expired by then counts as none. A version number has no time: then a
    document counts as none if it has expired by now.

    Args:
        versions: the current version and the kept ones, newest first; one at least.
        moment: when.
        deleted_version: the greatest version ever deleted in the dataset, None if not known.
    """
    if isinstance(moment, datetime):
        found = next((each for each in versions if aware(each.updated_at) <= moment), None)
        if has_expired(found, moment):
            return VersionThen()
    else:
        if has_expired(versions[0]):
            return VersionThen()
        found = next((each for each in versions if each.version <= moment), None)
    if found is not None:
        return VersionThen(info=found)
    oldest = versions[-1].version
    # The first version of a document is at most one above the greatest that was deleted.
    if deleted_version is not None and oldest > deleted_version + 1:
        return VersionThen(lost=True)
    return VersionThen(unknown=oldest > 1)


@attrs.frozen
class _Seen:
    """What a document was when it was looked at: its current version, whether it had expired (as
    far as that counts), and what it was at the moment."""

    version: int
    expired: bool
    then: VersionThen


@attrs.define(eq=False, slots=False)
class DatasetFiller:
    """One dataset of a scratch store, brought to a moment. One thread at a time calls it.

    Versions never change once they are stored: a document whose current version is the one that
    was seen before is at the same version of then. So each `fill` looks at what was written since
    the last one, and at nothing else.

    Attributes:
        failed: the documents that could not be chunked, with the errors.
        deleted: whether anything was ever deleted in the dataset.
        left_out: how many layers do not fit the documents.
    """

    _dataset_id: str
    _moment: Moment
    _store: Store
    _versions: VersionReader
    _scratch: Store
    _derivation: Deriver

    def __attrs_post_init__(self) -> None:
        derivation, models = self._derivation, self._derivation.models
        known = _KnownVectors(self._scratch.chunks, self._store.chunks)
        self._embedding = derivation.over(known, models.only(self._scratch.chunks.kinds))
        self._plain = derivation.over(known, models.only(()))
        self._config: DatasetConfig | None = None
        self._seen: dict[str, _Seen] = {}
        self.failed: dict[str, Exception] = {}
        self.deleted: bool = False
        self.left_out: int = 0

    @property
    def lost(self) -> Sequence[str]:
        """The documents whose version of then is no longer kept."""
        return [name for name, seen in self._seen.items() if seen.then.lost]

    @property
    def unknown(self) -> Sequence[str]:
        """The documents that came later, or whose version of then is no longer kept."""
        return [name for name, seen in self._seen.items() if seen.then.unknown]

    @property
    def is_empty(self) -> bool:
        """Whether no document of then is there."""
        return all(seen.then.info is None for seen in self._seen.values())

    def fill(self) -> None:
        """Take over the documents of the moment, chunked; vectors as far as there are any.

        Raises:
            OutdatedError: a document cannot be stored in this scratch store.
            CancelledError: the deadline passed. The next call goes on from here.
        """
        dataset_id = self._dataset_id
        self._configure()
        # Before the list: a document that was deleted in between was deleted in any case.
        floor = self._versions.deleted_version(dataset_id)
        self.deleted = bool(floor)
        infos = self._store.documents.list(dataset_id)
        now = datetime.now(UTC)
        there = {info.name for info in infos}
        for name in [name for name in self._seen if name not in there]:
            self._drop(name)
            del self._seen[name]
        changed: list[tuple[DocumentInfo, bool]] = []
        for info in infos:
            expired = isinstance(self._moment, int) and has_expired(info, now)
            seen = self._seen.get(info.name)
            if seen is None or (seen.version, seen.expired) != (info.version, expired):
                changed.append((info, expired))
        for start in range(0, len(changed), _PAGE):
            deadlines.check("the search of the past")
            self._take(changed[start : start + _PAGE], floor)

    def embed(self, lanes: Collection[str]) -> tuple[int, Sequence[Exception]]:
        """Make the vectors of these lanes that are missing; how many texts were sent to models, and
        what went wrong.

        Raises:
            CancelledError: the deadline passed. What was embedded stays.
        """
        deriver, sent = self._embedding, 0
        errors: list[Exception] = []
        for lane in deriver.lanes:
            if lane.name not in lanes or not lane.space.serves(self._config):
                continue
            self._take_over(lane.space)
            with deriver.filler(
                self._scratch.documents, self._scratch.chunks, lane, self._dataset_id
            ) as filler:
                filler.lacking()
                count, wrong = _finished(filler)
            sent += count
            errors += wrong
        return sent, errors

    def _take_over(self, space: AnySpace) -> None:
        """Give what waits the vectors that the store has of its texts."""
        dataset_id, chunks = self._dataset_id, self._scratch.chunks
        waiting = chunks.waiting(dataset_id, space)
        for start in range(0, len(waiting), _PAGE):
            deadlines.check("the search of the past")
            names = waiting[start : start + _PAGE]
            digests = dict.fromkeys(
                chunk.sig.input_sig
                for name in names
                for chunk in chunks.iter_chunks(dataset_id, name)
            )
            known = self._store.chunks.known_vectors(dataset_id, space, list(digests))
            chunks.put_vectors(dataset_id, space, names, known)

    def fill_layers(self, *, vectors: bool) -> int:
        """Take over the layers that fit; how many texts were embedded.

        Raises:
            ProviderError: the embedder could not answer.
        """
        self.left_out, embedded = fill_layers(
            self._store.layers,
            self._scratch,
            self._dataset_id,
            self._embedding,
            vectors=vectors and self._has_space,
        )
        return embedded

    @property
    def _has_space(self) -> bool:
        """Whether the dataset has vectors of this embedder."""
        return dense(self._embedding.models.embed_sig).serves(self._config)

    def _configure(self) -> None:
        """Give the scratch dataset the stored configuration, but for the chunker."""
        stored = self._store.chunks.config(self._dataset_id)
        models = self._embedding.models
        if stored is None:
            wanted = DatasetConfig(chunker_sig=models.chunker_sig, embed_sig=models.embed_sig)
        else:
            wanted = attrs.evolve(stored, chunker_sig=models.chunker_sig)
        if wanted != self._config:
            before = self._scratch.chunks.config(self._dataset_id)
            self._scratch.chunks.configure(self._dataset_id, wanted, expected=before)
            self._scratch.documents.create_dataset(self._dataset_id)
            self._config = wanted

    def _take(self, page: Sequence[tuple[DocumentInfo, bool]], floor: int | None) -> None:
        new: list[tuple[DocumentInfo, SourceDocument]] = []
        seen: dict[str, _Seen] = {}
        for info, expired in page:
            then, document = self._document_then(info, floor)
            seen[info.name] = _Seen(info.version, expired, then)
            before = self._seen.get(info.name)
            had = None if before is None else before.then.info
            if then.info is None:
                self._drop(info.name)
            elif document is not None and (had is None or had.version != document.version):
                new.append((info, document))
        for _, document in new:
            try:
                self._scratch.documents.load(document)
            except ConflictError as error:
                raise OutdatedError from error
        self._chunk(new)
        self._seen |= seen

    def _document_then(
        self, info: DocumentInfo, floor: int | None
    ) -> tuple[VersionThen, SourceDocument | None]:
        """The document of then. It is read again if it is written meanwhile."""
        versions: Sequence[DocumentInfo] = (info,)
        then = version_then(versions, self._moment, floor)
        for _ in range(_TRIES):
            if then.info is None:
                versions = self._versions.versions(self._dataset_id, info.name)
                if not versions:
                    return VersionThen(), None  # it was deleted
                then = version_then(versions, self._moment, floor)
                if then.info is None:
                    return then, None
            document = self._read(info.name, then.info.version)
            if document is not None:
                return then, document
            then = VersionThen()
        return VersionThen(lost=True), None

    def _read(self, name: str, version: int) -> SourceDocument | None:
        document = self._store.documents.get(self._dataset_id, name)
        if document is None or document.version == version:
            return document
        return self._versions.get_version(self._dataset_id, name, version)

    def _drop(self, name: str) -> None:
        self._scratch.documents.delete(self._dataset_id, name)
        self.failed.pop(name, None)

    # Chunks

    def _chunk(self, documents: Sequence[tuple[DocumentInfo, SourceDocument]]) -> None:
        """Store the chunk sets of ``documents``, each with the info of its current version."""
        if not documents:
            return
        copied = self._copies(documents)
        sets = list(copied)
        names = {name for name, _, _ in copied}
        derivation = self._embedding if self._has_space else self._plain
        rest = [
            (document, derivation.models.expected_signature(document))
            for _, document in documents
            if document.name not in names
        ]
        for document, _ in rest:
            self.failed.pop(document.name, None)
        try:
            made = derivation.derive(self._dataset_id, rest) if rest else []
        except CancelledError:
            raise
        except Exception:  # noqa: BLE001 - a chunker may fail in any way: which document was it?
            made = []
            for document, sig in rest:
                try:
                    made += derivation.derive(self._dataset_id, [(document, sig)])
                except CancelledError:
                    raise
                except Exception as error:  # noqa: BLE001 - the result has a warning
                    self.failed[document.name] = error
        sets += [(each.document.name, each.chunks, each.sig) for each in made]
        self._scratch.chunks.replace_many(self._dataset_id, sets)

    def _copies(
        self, documents: Sequence[tuple[DocumentInfo, SourceDocument]]
    ) -> list[tuple[str, Sequence[DerivedChunk], DerivedSig]]:
        """The stored chunk sets of those documents whose text is still that of then."""
        chunks = self._store.chunks
        names = [info.name for info, _ in documents]
        before = chunks.get_doc_sigs(self._dataset_id, names)
        found = []
        space = self._embedding.models.embed_sig if self._has_space else ""
        for info, document in documents:
            want = self._embedding.models.expected_signature(document)
            sig = before.get(info.name)
            if sig is None or (sig.source_version, sig.input_sig, sig.chunker_sig) != (
                info.version,
                want.input_sig,
                want.chunker_sig,
            ):
                continue
            stored = list(
                chunks.iter_chunks(self._dataset_id, info.name, vectors=bool(space)),
            )
            whole = bool(space) and sig.embed_sig == space
            copies = []
            for chunk in stored:
                other = chunk.vector is not None and chunk.sig.embed_sig != space
                whole = whole and not other
                copies.append(attrs.evolve(chunk, vector=None) if other or not space else chunk)
            found.append((info.name, copies, attrs.evolve(want, embed_sig=space if whole else "")))
        # Sets that were replaced while they were read are left to the chunker.
        after = chunks.get_doc_sigs(self._dataset_id, names) if found else {}
        return [each for each in found if before.get(each[0]) == after.get(each[0])]


def _finished(filler: Filler[Any]) -> tuple[int, Sequence[Exception]]:
    """Fill what waits; how many texts were embedded, and what went wrong."""
    errors: list[Exception] = []
    try:
        filler.finish()
    except CancelledError:
        raise
    except TriptychError as error:
        errors.append(error)
    result = filler.result()
    return result.embedded, [*errors, *(each.error for each in result.failed)]
