"""The contract of stores that keep vectors of several embedding spaces for one dataset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from triptych.records import EmbeddingSpace, Vector

__all__ = ["SpaceRepo"]


@runtime_checkable
class SpaceRepo(Protocol):
    """Capability: a `ChunkRepo` that keeps vectors of other spaces beside the one that serves.

    The space that serves is the `DatasetConfig.embed_sig` of a dataset. An entry of another space
    is a vector by the digest of its text: `DerivedSig.input_sig` of chunks, `embedding_input_sig`
    of a layer's content; or None, which says that the embedder makes no vector of this text. An
    entry belongs to the chunk sets and layers that it was given for, and to those that are stored
    after it and have its text. It goes in the write that removes, or replaces, the last of them.
    A dataset's entries go with its configuration. No search reads an entry.

    `ChunkRepo.known_vectors` finds vectors of every space. `ChunkRepo.configure` with the
    ``embed_sig`` of entries that are kept swaps the spaces in its one write:

    - each chunk gets the vector of its text in the new space, or none where there is no entry;
    - a set all of whose texts have entries is of the new space at once, any other waits
      (`ChunkRepo.pending`);
    - a layer whose text has an entry gets it, any other stays as it is;
    - what served until then is kept: the same call with the old signature swaps back.
    """

    def keep_vectors(
        self,
        dataset_id: str,
        embed_sig: str,
        names: Sequence[str],
        vectors: Mapping[str, Vector | None],
    ) -> Sequence[str]:
        """Keep those of ``vectors``, by digest, that chunk sets or layers under ``names`` have the
        text of; the names of those that have all their entries then, ordered.

        ``names`` are those of documents, of folders ("name/") and of the dataset (""). Entries that
        are there already come to belong to what is under ``names``, too; a digest that has an entry
        keeps it. One atomic write, which does nothing and returns nothing while ``embed_sig`` is
        "" or serves.

        Raises:
            ModelMismatchError: as in `ChunkRepo.replace`. Nothing was stored.
        """
        ...

    def unprepared(
        self, dataset_id: str, embed_sig: str, names: Collection[str] | None = None
    ) -> Sequence[str]:
        """Those of ``names``, or of all, with a chunk set or a layer that lacks an entry, ordered.

        A chunk without a digest lacks one always. ``embed_sig`` does not serve.
        """
        ...

    def kept_spaces(self, dataset_id: str) -> Sequence[EmbeddingSpace]:
        """The spaces that have entries and do not serve, ordered by signature.

        ``vectors`` counts those of distinct texts, without the entries that are None; ``dimension``
        is 0 where there are none.
        """
        ...

    def drop_space(self, dataset_id: str, embed_sig: str) -> bool:
        """Remove the entries of a space; whether there were any. One that serves has none."""
        ...
