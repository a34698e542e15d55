"""The chunks of a restricted caller, and searches among them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import attrs

from triptych.access.view import AccessView
from triptych.errors import AccessDeniedError
from triptych.records import (
    AnySpace,
    Candidate,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    StoredUnit,
    VectorSpace,
)
from triptych.records.spaces import StoredSpace
from triptych.records.values import SpaceKind

V = TypeVar("V")

_MOST_SEEN = 50_000
_BATCH = 1_000


class ReadTexts:
    """The digests of texts that an access was shown, the last of them.

    A store knows the vector of a text by the text's digest alone, whoever's document it is of. Who
    has read the text may have its vector; to anybody else it would say that the text is there.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, dataset_id: str, digests: Iterable[str]) -> None:
        """Take note of texts of a dataset, by their digests."""
        with self._lock:
            for digest in digests:
                key = dataset_id, digest
                self._seen[key] = None
                self._seen.move_to_end(key)
            while len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)

    def among(self, dataset_id: str, digests: Iterable[str]) -> list[str]:
        """Those of ``digests`` that were seen."""
        with self._lock:
            return [each for each in digests if (dataset_id, each) in self._seen]


def visible_units(
    view: AccessView, found: Mapping[Hashable, StoredUnit]
) -> Mapping[Hashable, StoredUnit]:
    """Those of ``found`` that are of documents of the caller, in a state that is the caller's."""
    return {key: unit for key, unit in found.items() if _is_visible(view, unit)}


def _is_visible(view: AccessView, unit: StoredUnit) -> bool:
    info = unit.document
    if info is None:
        layer = unit.layer  # of a folder or a dataset
        return layer is not None and view.tree is None and view.access.names(layer.dataset_id)
    if not view.access.names(info.dataset_id) or not view.admits(info):
        return False
    if unit.chunk is None and unit.layer is None:
        return True  # the document's opening is of its present state
    digest = info.input_sig if unit.layer is None else info.content_sha256
    return view.shows_derived(info, unit.sig, digest)


@attrs.frozen(eq=False)
class AccessChunks:
    """A `ChunkRepo` of what an access shows."""

    _view: AccessView
    _seen: ReadTexts

    # Configurations

    def config(self, dataset_id: str) -> DatasetConfig | None:
        view = self._view
        return view.store.chunks.config(dataset_id) if view.shows(dataset_id) else None

    def configs(self, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig]:
        view = self._view
        return view.store.chunks.configs([each for each in dataset_ids if view.shows(each)])

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        """See `ChunkRepo.configure`.

        Raises:
            AccessDeniedError: under a filter, the dataset has another configuration, which is that
                of others' documents too.
        """
        view, chunks = self._view, self._view.store.chunks
        view.check_write(dataset_id)
        if view.tree is None:
            return chunks.configure(dataset_id, config, expected=expected)
        stored = chunks.config(dataset_id)
        if stored is None:
            if chunks.configure(dataset_id, config, expected=None):
                return True
            stored = chunks.config(dataset_id)
        if stored is not None and expected is None:
            # A dataset of others' documents is not shown: whoever puts the first of its own there
            # puts it in the dataset's language.
            # A lane that it does not have stays as it is.
            further: dict[SpaceKind, str] = {
                kind: sig
                for kind, sig in stored.sigs.items()
                if kind != "dense" and not config.sigs[kind]
            }
            config = attrs.evolve(config, language=stored.language).with_sigs(further)
        if stored == config:
            return True
        raise AccessDeniedError(
            f"this access is to some documents of a dataset, and cannot give {dataset_id!r} "
            "another chunker, model or language: ask for an access without a filter"
        )

    # Sets

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        return self._view.store.chunks.get_doc_sigs(
            dataset_id, self._visible(dataset_id, doc_names)
        )

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        """See `ChunkRepo.doc_names`; under a filter, those that have their document."""
        if not self._view.access.names(dataset_id):
            return []
        return self._visible(dataset_id, self._view.store.chunks.doc_names(dataset_id))

    def _visible(self, dataset_id: str, doc_names: Sequence[str]) -> Sequence[str]:
        """Those of ``doc_names`` that an access shows, in their order."""
        view = self._view
        if not view.access.names(dataset_id):
            return []
        if view.tree is None:
            return doc_names
        there = view.infos(dataset_id, doc_names)
        return [name for name in doc_names if name in there]

    def replace(
        self, dataset_id: str, doc_name: str, chunks: Sequence[DerivedChunk], *, sig: DerivedSig
    ) -> bool:
        return self.replace_many(dataset_id, [(doc_name, chunks, sig)])[0]

    def replace_many(
        self, dataset_id: str, sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]]
    ) -> Sequence[bool]:
        """See `ChunkRepo.replace_many`. A set of a document that is not the caller's is refused."""
        view = self._view
        view.check_write(dataset_id)
        there = set(self._visible(dataset_id, [name for name, _, _ in sets]))
        ours = [each for each in sets if each[0] in there]
        if len(ours) == 1:
            ((name, chunks, sig),) = ours
            done = iter([view.store.chunks.replace(dataset_id, name, chunks, sig=sig)])
        else:
            done = iter(view.store.chunks.replace_many(dataset_id, ours) if ours else ())
        return [name in there and next(done) for name, _, _ in sets]

    def put_vectors(
        self,
        dataset_id: str,
        space: VectorSpace[V],
        names: Sequence[str],
        vectors: Mapping[str, V | None],
    ) -> Sequence[str]:
        view = self._view
        view.check_write(dataset_id)
        there = self._visible(dataset_id, list(dict.fromkeys(names)))
        return view.store.chunks.put_vectors(dataset_id, space, there, vectors)

    def waiting(
        self, dataset_id: str, space: AnySpace, names: Collection[str] | None = None
    ) -> Sequence[str]:
        view = self._view
        if not view.access.names(dataset_id):
            return []
        return self._visible(dataset_id, view.store.chunks.waiting(dataset_id, space, names))

    def count_waiting(self, dataset_ids: Sequence[str], space: AnySpace) -> int:
        view = self._view
        named = view.named(dataset_ids)
        waiting = view.store.chunks.count_waiting(named, space)
        if view.tree is None or not waiting:
            return waiting
        return sum(len(self.waiting(each, space)) for each in dict.fromkeys(named))

    def further_spaces(self, dataset_id: str) -> Sequence[StoredSpace]:
        """See `VectorRepo.further_spaces`. Under a filter the vectors of the caller's chunks are
        read, which takes time in proportion to them."""
        view = self._view
        if not view.access.names(dataset_id):
            return []
        chunks = view.store.chunks
        spaces = chunks.further_spaces(dataset_id)
        if view.tree is None or not spaces:
            return spaces
        there = view.every_info(dataset_id)
        digests = list(
            dict.fromkeys(
                chunk.sig.input_sig
                for chunk in chunks.iter_chunks(dataset_id)
                if chunk.doc_name in there and chunk.sig.input_sig
            )
        )
        found = []
        for each in spaces:
            space: AnySpace = VectorSpace(each.kind, each.sig)
            count = size = 0
            for at in range(0, len(digests), _BATCH):
                some = digests[at : at + _BATCH]
                vectors = chunks.known_vectors(dataset_id, space, some).values()
                count += len(vectors)
                size += sum(len(vector.to_bytes()) for vector in vectors)
            if count:
                found.append(attrs.evolve(each, vectors=count, size=size))
        return found

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        view = self._view
        named = view.named(dataset_ids)
        if view.tree is None:
            return view.store.chunks.count_sets(named)
        return sum(self._count_sets(each) for each in dict.fromkeys(named))

    def _count_sets(self, dataset_id: str) -> int:
        store, tree = self._view.store, self._view.tree
        if store.documents.count(dataset_id) <= store.chunks.count_sets([dataset_id]):
            return store.documents.count(dataset_id, where=tree)  # each document has one
        there = self._view.every_info(dataset_id)
        return sum(name in there for name in store.chunks.doc_names(dataset_id))

    def update_source_version(self, dataset_id: str, doc_name: str, sig: DerivedSig) -> bool:
        self._view.check_write(dataset_id)
        if not self._visible(dataset_id, [doc_name]):
            return False
        return self._view.store.chunks.update_source_version(dataset_id, doc_name, sig)

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        self._view.check_write(dataset_id)
        if self._visible(dataset_id, [doc_name]):
            self._view.store.chunks.delete_by_doc(dataset_id, doc_name)

    def delete_by_dataset(self, dataset_id: str) -> None:
        self._view.check_whole(dataset_id, "deleting all its chunks")
        self._view.store.chunks.delete_by_dataset(dataset_id)

    # Reading

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `ChunkRepo.search`; the statistics are those of the caller's documents."""
        return self._view.store.chunks.search(narrow(self._view, query))

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        found = visible_units(self._view, self._view.store.chunks.fetch(keys))
        if self._view.tree is not None:
            for unit in found.values():
                if unit.chunk is not None:
                    self._seen.add(unit.chunk.dataset_id, [unit.chunk.sig.input_sig])
        return found

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """See `ChunkRepo.iter_chunks`. Asks the store at once, which may be closed."""
        view = self._view
        if not view.access.names(dataset_id):
            return iter(())
        if view.tree is None:
            return view.store.chunks.iter_chunks(dataset_id, doc_name, vectors=vectors)
        there = (
            view.every_info(dataset_id) if doc_name is None else view.infos(dataset_id, [doc_name])
        )
        if not there:
            return iter(())
        found = view.store.chunks.iter_chunks(dataset_id, doc_name, vectors=vectors)
        return self._shown(found, there)

    def _shown(
        self, chunks: Iterator[DerivedChunk], there: Mapping[str, DocumentInfo]
    ) -> Iterator[DerivedChunk]:
        view = self._view
        judged: tuple[str, int, bool] = "", -1, False
        for chunk in chunks:
            info = there.get(chunk.doc_name)
            if info is None:
                continue
            if judged[:2] != (chunk.doc_name, chunk.sig.source_version):
                # What was written since the list was read is looked at as it is now.
                if chunk.sig.source_version > info.version:
                    info = view.info(chunk.dataset_id, chunk.doc_name)
                # The chunk's own digest is of its text: the set's version says what it is of.
                sig = attrs.evolve(chunk.sig, input_sig="")
                shown = info is not None and view.shows_derived(info, sig, "of the document")
                judged = chunk.doc_name, chunk.sig.source_version, shown
            if judged[2]:
                self._seen.add(chunk.dataset_id, [chunk.sig.input_sig])
                yield chunk

    def known_vectors(
        self, dataset_id: str, space: VectorSpace[V], digests: Sequence[str]
    ) -> Mapping[str, V]:
        """See `VectorRepo.known_vectors`; under a filter, of texts that were read."""
        view = self._view
        if not view.access.names(dataset_id):
            return {}
        if view.tree is not None:
            digests = self._seen.among(dataset_id, digests)
            if not digests:
                return {}
        return view.store.chunks.known_vectors(dataset_id, space, digests)

    @property
    def in_process(self) -> bool:
        return self._view.store.chunks.in_process

    @property
    def kinds(self) -> Collection[SpaceKind]:
        return self._view.store.chunks.kinds


def narrow(view: AccessView, query: ChunkQuery) -> ChunkQuery:
    """``query`` of the caller's datasets and documents."""
    return attrs.evolve(
        query, dataset_ids=view.named(query.dataset_ids), filter=view.filter(query.filter)
    )
