"""The contract of vectors: kept by the digest of their text, whatever makes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from triptych.records.spaces import AnySpace, SpaceCount, VectorSpace

V = TypeVar("V")


class VectorRepo(Protocol):
    """Keeps the vectors of texts, by space and digest, and knows whose texts wait for theirs.

    A `VectorSpace` serves a dataset while the dataset's configuration names it: `DatasetConfig`
    has one serving space of each kind. A chunk has the vector of its digest
    (`DerivedSig.input_sig`), and a layer that of its content (`embedding_input_sig`), so that no
    text is embedded twice in a space. A vector belongs to the chunk sets and layers that have its
    text. It goes in the write that removes, or replaces, the last of them.

    - The *dense* space that serves holds the vectors that chunks have: `ChunkRepo.replace` takes
      and gives them. A set waits while its signature is of another space. None, for a text of which
      the embedder makes no vector, is not kept: give it in the call that completes a set.
    - *Sparse* spaces: a set waits until each of its chunks that has a digest has a vector of the
      space that serves; then the lane finds it, all of it at once. `ChunkRepo.replace` gives a new
      set the vectors that the dataset has of its texts. Vectors of the encoder before are removed
      as the sets are complete.
    - Other dense spaces are kept for a swap. They hold None too,
      and entries of layers, under the names of documents, of folders ("name/") and of the dataset
      (""). No search reads them. They go with the configuration.

    `ChunkRepo.configure` with the ``embed_sig`` of a space that is kept swaps the spaces in its one
    write:

    - each chunk gets the vector of its text in the new space, or none where there is no entry;
    - a set all of whose texts have entries is of the new space at once, any other waits;
    - a layer whose text has an entry gets it, any other stays as it is;
    - what served until then is kept: the same call with the old signature swaps back.

    Of all but the dense space that serves, a store keeps those that its `Capabilities` name:
    ``sparse`` and ``spaces``. Nothing waits for vectors that it does not keep.
    """

    def put_vectors(
        self,
        dataset_id: str,
        space: VectorSpace[V],
        names: Sequence[str],
        vectors: Mapping[str, V | None],
        *,
        serves: bool = True,
    ) -> Sequence[str]:
        """Give what is under ``names`` those of ``vectors``, by digest, that are of its texts, and
        those that the dataset has; the names that wait no longer in ``space``, ordered.

        One atomic write, done only while ``space`` serves, or does not, as ``serves`` says. A
        digest that has a vector keeps it. A vector goes to no other text, nor to what is deleted.
        A chunk's vector of another space gives way to that of a dense space that serves: its set
        waits from then on, and its other vectors of that space may go. All vectors of a set are
        searched once it waits no longer; until then a store may leave out those of it.

        Raises:
            ModelMismatchError: as in `ChunkRepo.replace`. Nothing was stored.
        """
        ...

    def known_vectors(
        self, dataset_id: str, space: VectorSpace[V], digests: Sequence[str]
    ) -> Mapping[str, V]:
        """The vectors that the dataset has in this space, by digest: those of ``digests``, of its
        chunks at least. So nothing is embedded twice."""
        ...

    def waiting(
        self, dataset_id: str, space: AnySpace, names: Collection[str] | None = None
    ) -> Sequence[str]:
        """Those of ``names``, or of all, that lack vectors of the space, ordered.

        Of a space that serves, documents with a set that waits. Of a dense space that is kept,
        names with a chunk set or a layer that lacks an entry; a chunk without a digest lacks one
        always. Of any other, documents with a chunk. A set of no chunks lacks none, and nothing
        lacks vectors of "".
        """
        ...

    def count_waiting(self, dataset_ids: Sequence[str], space: AnySpace) -> int:
        """How many documents of all ``dataset_ids`` have a set that lacks vectors of the space.

        Every search of its lane asks this, of datasets that the space serves."""
        ...

    def vector_spaces(self, dataset_id: str) -> Sequence[SpaceCount]:
        """What is kept of each space that has entries, ordered by kind and signature; without the
        dense one that serves, whose vectors `Store.stats` counts."""
        ...

    def drop_space(self, dataset_id: str, space: AnySpace) -> bool:
        """Remove the entries of a dense space that does not serve; whether there were any."""
        ...
