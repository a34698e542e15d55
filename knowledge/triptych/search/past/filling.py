"""Fills a scratch store with the documents of a moment, and keeps it true to the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import attrs

from triptych import deadlines
from triptych.contracts import ChunkRepo, Store, VersionReader
from triptych.errors import CancelledError, ConflictError, TriptychError
from triptych.ingestion.derivation import DerivationPipeline
from triptych.ingestion.pending import VectorFiller
from triptych.ingestion.pending_sparse import SparseFiller
from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    SourceDocument,
    Vector,
)
from triptych.records.expiry import has_expired
from triptych.search.past.layers import fill_layers
from triptych.search.past.moments import Moment, VersionThen, version_then

__all__ = ["DatasetFiller", "OutdatedError"]

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
        self, dataset_id: str, embed_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, Vector]:
        found = dict(self._scratch.known_vectors(dataset_id, embed_sig, input_sigs))
        missing = [each for each in input_sigs if each not in found]
        if missing:
            found |= self._chunks.known_vectors(dataset_id, embed_sig, missing)
        return found


@attrs.frozen
class _Seen:
    """What a document was when it was looked at: its current version, whether it had expired (as
    far as that counts), and what it was at the moment."""

    version: int
    expired: bool
    then: VersionThen


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

    def __init__(
        self,
        dataset_id: str,
        moment: Moment,
        store: Store,
        versions: VersionReader,
        scratch: Store,
        derivation: DerivationPipeline,
    ) -> None:
        self._dataset_id = dataset_id
        self._moment = moment
        self._store = store
        self._versions = versions
        self._scratch = scratch
        if derivation.next is not None:
            derivation = derivation.of_config(store.chunks.config(dataset_id))
        known = _KnownVectors(scratch.chunks, store.chunks)
        self._stored_sparse = None if derivation.sparse is None else derivation.sparse.repo
        self._embedding = derivation.over(known, scratch.capabilities.sparse)
        self._plain = derivation.over(known, embeds=False)
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
        changed = [
            (info, expired)
            for info in infos
            for expired in [isinstance(self._moment, int) and has_expired(info, now)]
            if (seen := self._seen.get(info.name)) is None
            or (seen.version, seen.expired) != (info.version, expired)
        ]
        for start in range(0, len(changed), _PAGE):
            deadlines.check("the search of the past")
            self._take(changed[start : start + _PAGE], floor)

    def embed(self) -> tuple[int, Sequence[Exception]]:
        """Embed what has no vector yet; how many texts, and what went wrong.

        Raises:
            CancelledError: the deadline passed. What was embedded stays.
        """
        space = self._embedding.embed_sig
        if not self._has_space:
            return 0, ()
        waiting = self._scratch.chunks.pending(self._dataset_id, space)
        if not waiting:
            return 0, ()
        documents, chunks = self._scratch.documents, self._scratch.chunks
        with VectorFiller(documents, chunks, self._embedding, self._dataset_id) as filler:
            filler.later(waiting)
            return _finished(filler)

    def encode(self) -> tuple[int, Sequence[Exception]]:
        """Encode what has no sparse vector yet; how many texts, and what went wrong.

        Raises:
            CancelledError: as `embed`.
        """
        lane, stored, config = self._embedding.sparse, self._stored_sparse, self._config
        if lane is None or stored is None or config is None or config.sparse_sig != lane.signature:
            return 0, ()
        dataset_id, space = self._dataset_id, lane.signature
        waiting = lane.repo.sparse_pending(dataset_id, space)
        if not waiting:
            return 0, ()
        documents, chunks = self._scratch.documents, self._scratch.chunks
        for start in range(0, len(waiting), _PAGE):
            deadlines.check("the search of the past")
            names = waiting[start : start + _PAGE]
            digests = [
                chunk.sig.input_sig
                for name in names
                for chunk in chunks.iter_chunks(dataset_id, name)
            ]
            known = stored.known_sparse_vectors(dataset_id, space, list(dict.fromkeys(digests)))
            lane.repo.add_sparse_vectors(dataset_id, space, names, known)
        with SparseFiller(documents, chunks, self._embedding, lane, dataset_id) as filler:
            filler.lacking()
            return _finished(filler)

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
        space = self._embedding.embed_sig
        return bool(space) and self._config is not None and self._config.embed_sig == space

    def _configure(self) -> None:
        """Give the scratch dataset the stored configuration, but for the chunker."""
        stored = self._store.chunks.config(self._dataset_id)
        wanted = DatasetConfig(
            chunker_sig=self._embedding.chunker_sig,
            embed_sig=self._embedding.embed_sig if stored is None else stored.embed_sig,
            sparse_sig="" if stored is None else stored.sparse_sig,
            language="english" if stored is None else stored.language,
        )
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
            (document, derivation.expected_signature(document))
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
        space = self._embedding.embed_sig if self._has_space else ""
        for info, document in documents:
            want = self._embedding.expected_signature(document)
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


def _finished(filler: VectorFiller | SparseFiller) -> tuple[int, Sequence[Exception]]:
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
