"""Base classes for repositories and stores, with defaults for the optional methods.

The defaults use the required methods. Override a default if your store has a faster way.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import attrs

from triptych.contracts import Capabilities, ChunkRepo, DocumentRepo, LayerRepo, Store
from triptych.contracts.rules import embedding_spaces, is_pending, outcome_of
from triptych.errors import ConflictError, StoreAwayError
from triptych.records import (
    DatasetConfig,
    DatasetStats,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    FilterTree,
    Layer,
    NewDocument,
    PutOutcome,
    ScrubReport,
    Vector,
)
from triptych.records.documents import expired_by
from triptych.records.spaces import AnySpace, StoredSpace, VectorSpace, dense
from triptych.records.values import SpaceKind

V = TypeVar("V")


class DocumentRepoBase:
    """Defaults for `DocumentRepo.put_many`, `DocumentRepo.delete_many`, `DocumentRepo.count` and
    `DocumentRepo.with_expired`."""

    def put_many(
        self: DocumentRepo, dataset_id: str, documents: Sequence[NewDocument]
    ) -> Sequence[PutOutcome]:
        """See `DocumentRepo.put_many`. Each document is a separate write."""
        return [_put(self, dataset_id, document) for document in documents]

    def delete_many(
        self: DocumentRepo, dataset_id: str, versions: Mapping[str, int]
    ) -> Sequence[str]:
        """See `DocumentRepo.delete_many`. Each document is a separate write."""
        deleted = []
        for name in sorted(versions):
            with suppress(ConflictError):  # it is of another version, or gone
                if self.delete(dataset_id, name, if_version=versions[name]):
                    deleted.append(name)
        return deleted

    def count(self: DocumentRepo, dataset_id: str, *, where: FilterTree | None = None) -> int:
        """See `DocumentRepo.count`. Lists the documents."""
        return len(self.list(dataset_id, where=where))

    def with_expired(
        self: DocumentRepo, dataset_ids: Sequence[str], moment: datetime
    ) -> Sequence[str]:
        """See `DocumentRepo.with_expired`."""
        where = expired_by(moment)
        return [each for each in dataset_ids if self.list(each, where=where, limit=1)]


def _put(documents: DocumentRepo, dataset_id: str, document: NewDocument) -> PutOutcome:
    try:
        before = documents.get_info(dataset_id, document.name)
        stored = documents.put(dataset_id, document)
    except StoreAwayError:
        raise
    except Exception as error:  # noqa: BLE001 - each document's outcome is its own
        return PutOutcome(name=document.name, change="failed", error=error)
    return outcome_of(before, stored)


class ChunkRepoBase:
    """Defaults for the bulk and vector methods of `ChunkRepo`, which handle one set at a time."""

    in_process: bool = False
    """See `ChunkRepo.in_process`."""
    kinds: Collection[SpaceKind] = frozenset[SpaceKind](["dense"])
    """See `VectorRepo.kinds`."""

    def configs(self: ChunkRepo, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig]:
        """See `ChunkRepo.configs`. Reads each separately."""
        found = {dataset_id: self.config(dataset_id) for dataset_id in dataset_ids}
        return {dataset_id: config for dataset_id, config in found.items() if config is not None}

    def replace_many(
        self: ChunkRepo,
        dataset_id: str,
        sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]],
    ) -> Sequence[bool]:
        """See `ChunkRepo.replace_many`. Each set is a separate write."""
        return [self.replace(dataset_id, name, chunks, sig=sig) for name, chunks, sig in sets]

    def known_vectors(
        self: ChunkRepo, dataset_id: str, space: VectorSpace[V], digests: Sequence[str]
    ) -> Mapping[str, V]:
        """See `VectorRepo.known_vectors`. Reads all chunks of the dataset."""
        wanted = set(digests)
        if not wanted or space.kind != "dense":
            return {}
        found: dict[str, Any] = {
            chunk.sig.input_sig: chunk.vector
            for chunk in self.iter_chunks(dataset_id, vectors=True)
            if chunk.vector is not None
            and chunk.sig.embed_sig == space.sig
            and chunk.sig.input_sig in wanted
        }
        return found

    def put_vectors(
        self: ChunkRepo,
        dataset_id: str,
        space: VectorSpace[V],
        names: Sequence[str],
        vectors: Mapping[str, V | None],
    ) -> Sequence[str]:
        """See `VectorRepo.put_vectors`, for the serving dense space. Each set is read, and replaced
        in a separate write."""
        if space.kind != "dense" or not space.serves(self.config(dataset_id)):
            return []
        given: dict[str, Any] = dict(vectors)
        return [
            name
            for name in sorted(set(names))
            if _give_vectors(self, dataset_id, name, space.sig, given)
        ]

    def waiting(
        self: ChunkRepo, dataset_id: str, space: AnySpace, names: Collection[str] | None = None
    ) -> Sequence[str]:
        """See `VectorRepo.waiting`. Reads all signatures, and the chunks of sets that lack
        vectors."""
        there, wanted = self.doc_names(dataset_id), None if names is None else set(names)
        sigs = self.get_doc_sigs(dataset_id, [n for n in there if wanted is None or n in wanted])
        return [
            name
            for name, sig in sorted(sigs.items())
            if space.kind == "dense"
            and is_pending(sig, space.sig)
            and next(iter(self.iter_chunks(dataset_id, name)), None) is not None
        ]

    def count_waiting(self: ChunkRepo, dataset_ids: Sequence[str], space: AnySpace) -> int:
        """See `VectorRepo.count_waiting`. Calls `VectorRepo.waiting`."""
        return sum(len(self.waiting(each, space)) for each in dict.fromkeys(dataset_ids))

    def further_spaces(self, dataset_id: str) -> Sequence[StoredSpace]:
        """See `VectorRepo.further_spaces`. Returns none."""
        return ()

    def count_sets(self: ChunkRepo, dataset_ids: Sequence[str]) -> int:
        """See `ChunkRepo.count_sets`. Calls `ChunkRepo.doc_names`."""
        return sum(len(self.doc_names(each)) for each in dict.fromkeys(dataset_ids))


def _give_vectors(
    chunks: ChunkRepo,
    dataset_id: str,
    name: str,
    embed_sig: str,
    vectors: Mapping[str, Vector | None],
) -> bool:
    """Add ``vectors`` to one set; return whether it no longer waits."""
    sig = chunks.get_doc_sig(dataset_id, name)
    if sig is None or sig.embed_sig == embed_sig:
        return sig is not None
    before = list(chunks.iter_chunks(dataset_id, name, vectors=True))
    bare = [each.sig.input_sig for each in before if each.sig.embed_sig != embed_sig]
    known = {**chunks.known_vectors(dataset_id, dense(embed_sig), bare)}
    changed, done = False, True
    made = []
    for chunk in before:
        digest = chunk.sig.input_sig
        kept = chunk.vector if chunk.sig.embed_sig == embed_sig else None
        if kept is None and (kept := known.get(digest, vectors.get(digest))) is not None:
            changed = True
        done = done and (kept is not None or digest in vectors)
        made.append(attrs.evolve(chunk, vector=kept))
    # Vectors of another space are given up with the first of this one: a set has one space.
    if not changed and not done:
        return False
    sig = attrs.evolve(sig, embed_sig=embed_sig if done else "")
    # Done only while the document is at the set's version: what came meanwhile is not undone.
    return chunks.replace(dataset_id, name, made, sig=sig) and done


class LayerRepoBase:
    """The default for `LayerRepo.page`, which calls `LayerRepo.list`."""

    in_process: bool = False
    """See `LayerRepo.in_process`."""

    def page(
        self: LayerRepo,
        dataset_id: str,
        layer: Layer,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int,
    ) -> Sequence[DerivedLayer]:
        """See `LayerRepo.page`. Reads all layers of the kind."""
        found = [
            each
            for each in self.list(dataset_id, layer=layer)
            if each.doc_name.startswith(prefix) and (after is None or each.doc_name > after)
        ]
        return heapq.nsmallest(max(limit, 0), found, key=lambda each: each.doc_name)


class StoreBase:
    """Defaults for `Store`: `stats` reads everything, no capabilities, and `scrub` does nothing."""

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`. None."""
        return Capabilities()

    def scrub(self) -> ScrubReport | None:
        """See `Store.scrub`. Does nothing."""
        return None

    def stats(
        self: Store, dataset_id: str, *, chunker_sig: str, embed_sig: str
    ) -> DatasetStats | None:
        """See `Store.stats`. Reads all chunks of the dataset one by one."""
        if dataset_id not in self.documents.list_datasets():
            return None
        infos = self.documents.list(dataset_id)
        sigs = self.chunks.get_doc_sigs(dataset_id, [info.name for info in infos])
        wanted = DerivedSig(chunker_sig=chunker_sig, embed_sig=embed_sig)
        expected = {
            info.name: attrs.evolve(wanted, source_version=info.version, input_sig=info.input_sig)
            for info in infos
        }
        waiting = frozenset(self.chunks.waiting(dataset_id, dense(embed_sig)))
        count = lacking = 0

        def vectors() -> Iterator[tuple[str, Vector | None]]:
            nonlocal count, lacking
            for chunk in self.chunks.iter_chunks(dataset_id, vectors=True):
                count += 1
                embedded = chunk.vector is not None and chunk.sig.embed_sig == embed_sig
                lacking += chunk.doc_name in waiting and not embedded
                yield chunk.sig.embed_sig, chunk.vector

        spaces = embedding_spaces(vectors())
        return DatasetStats(
            dataset_id=dataset_id,
            documents=len(infos),
            chunks=count,
            vectors=sum(space.vectors for space in spaces),
            layers=len(self.layers.list(dataset_id)),
            stale=sum(
                name not in sigs or sigs[name].stale_reason(want) not in (None, "vector")
                for name, want in expected.items()
            ),
            pending=len(waiting),
            pending_chunks=lacking,
            size=sum(info.size for info in infos),
            config=self.chunks.config(dataset_id),
            spaces=spaces,
        )


def _leave_open() -> None:
    """Close nothing."""


@attrs.frozen(kw_only=True)
class Repositories(StoreBase):
    """Three repositories as a `Store`. Closing it calls the argument ``close``, if given."""

    documents: DocumentRepo
    chunks: ChunkRepo
    layers: LayerRepo
    capabilities: Capabilities = attrs.field(factory=Capabilities)
    close: Callable[[], None] = _leave_open

    @classmethod
    def over(cls, store: Store, **instead: Any) -> Repositories:
        """Return ``store`` with other ``documents``, ``chunks`` or ``layers``.

        They also replace the store's repositories in its capabilities.
        """
        own = {name: getattr(store, name) for name in ("documents", "chunks", "layers")}
        shown = {id(part): instead.get(name, part) for name, part in own.items()}
        has = attrs.asdict(store.capabilities, recurse=False)
        return cls(
            **{**own, **instead},
            capabilities=Capabilities(
                **{name: shown.get(id(part), part) for name, part in has.items()}
            ),
        )
