"""What the tests of vectors need of each kind: what makes them, and how they are searched."""

from __future__ import annotations

import attrs
import numpy as np

from triptych.contracts import Store
from triptych.records import AnySpace, AnyVector, ChunkQuery, DatasetConfig
from triptych.records.spaces import dense, sparse
from triptych.testing.builders import (
    CONFIG,
    SPARSE,
    chunks_of,
    ids,
    put,
    sig_of,
    sparse_of,
    vector_of,
    vector_query,
)


@attrs.frozen(kw_only=True)
class Lane:
    """One kind of vectors. Of a text that begins with "~" the embedder makes none.

    Attributes:
        space: the space that serves.
        config: the configuration of which it serves.
        other: one that another space of the kind serves.
        none: one that none serves.
    """

    space: AnySpace
    config: DatasetConfig
    other: DatasetConfig
    none: DatasetConfig

    def vector(self, text: str) -> AnyVector | None:
        """What the model makes of a text."""
        if self.space.kind == "sparse":
            return sparse_of(text, self.space.sig)
        return None if text.startswith("~") else vector_of(text, self.space.sig)

    def wait(self, store: Store, dataset_id: str, name: str, content: str, **metadata: str) -> None:
        """Put a document with a chunk set that waits for all its vectors."""
        document = put(store, dataset_id, name, content, **metadata)
        sig = attrs.evolve(sig_of(store, dataset_id, name, self.config), embed_sig="")
        bare = chunks_of(document, sig)
        assert store.chunks.replace(dataset_id, name, bare, sig=sig)

    def whole(self, store: Store, dataset_id: str, name: str) -> dict[str, AnyVector | None]:
        """All that a document's set waits for, by digest, in the order of its chunks."""
        chunks = store.chunks.iter_chunks(dataset_id, name)
        return {chunk.sig.input_sig: self.vector(chunk.content) for chunk in chunks}

    def give(
        self, store: Store, dataset_id: str, vectors: dict[str, AnyVector | None], *names: str
    ) -> list[str]:
        """What `VectorRepo.put_vectors` says in the space that serves."""
        return list(store.chunks.put_vectors(dataset_id, self.space, names, vectors))

    def held(self, store: Store, dataset_id: str, name: str) -> list[int]:
        """The indices of the chunks that have their vector, which is the model's."""
        found = []
        chunks = list(store.chunks.iter_chunks(dataset_id, name, vectors=True))
        digests = [chunk.sig.input_sig for chunk in chunks]
        known = store.chunks.known_vectors(dataset_id, self.space, digests)
        for chunk in chunks:
            vector: AnyVector | None = known.get(chunk.sig.input_sig)
            if self.space.kind == "dense":
                vector = chunk.vector if chunk.sig.embed_sig == self.space.sig else None
            if vector is None:
                continue
            made = self.vector(chunk.content)
            if isinstance(vector, np.ndarray) and isinstance(made, np.ndarray):
                same = np.array_equal(vector, made)
            else:
                same = vector == made
            assert same, f"chunk {chunk.index} of {name!r} has the vector of another text"
            found.append(chunk.index)
        return found

    def found(self, store: Store, dataset_id: str, text: str = "one fish") -> list[str]:
        """The documents that a search of the lane finds."""
        vector = self.vector(text)
        if isinstance(vector, np.ndarray):
            query = vector_query(vector, dataset_id, top_k=50)
        else:
            query = ChunkQuery(
                dataset_ids=(dataset_id,),
                mode="sparse",
                vector=vector,
                embed_sig=self.space.sig,
                top_k=50,
            )
        return sorted({name for name, _ in ids(store.chunks.search(query))})


_BARE = attrs.evolve(CONFIG, embed_sig="")

DENSE = Lane(
    space=dense(CONFIG.embed_sig),
    config=CONFIG,
    other=attrs.evolve(CONFIG, embed_sig="space/2"),
    none=_BARE,
)
SPARSE_LANE = Lane(
    space=sparse(SPARSE),
    config=attrs.evolve(_BARE, sparse_sig=SPARSE),
    other=attrs.evolve(_BARE, sparse_sig="sparse/2"),
    none=_BARE,
)
LANES = {lane.space.kind: lane for lane in (DENSE, SPARSE_LANE)}
