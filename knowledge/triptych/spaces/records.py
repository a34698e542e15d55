"""What is said of the embedding spaces of a dataset."""

from __future__ import annotations

import attrs

from triptych.records import Failure


@attrs.frozen(kw_only=True, slots=True)
class SpaceState:
    """One embedding space of one dataset.

    Attributes:
        dataset_id: the dataset.
        embed_sig: the embedder's signature.
        serves: whether searches use it.
        dimension: how wide each vector is; 0 before the first.
        vectors: how many vectors: of chunks where it serves, else of distinct texts.
        lacking: how many names lack vectors of it: documents, and folders with layers.
    """

    dataset_id: str
    embed_sig: str
    serves: bool
    dimension: int
    vectors: int
    lacking: int


@attrs.frozen(kw_only=True, slots=True)
class FillReport:
    """What filling a space came to, in one dataset or in several.

    Attributes:
        embed_sig: the embedder's signature.
        documents: how many names got all their vectors: documents, and folders with layers.
        embedded: how many texts were sent to the embedder.
        reused: how many texts had their vectors already.
        lacking: how many names lack vectors still.
        failed: what could not be filled, and why.
    """

    embed_sig: str
    documents: int = 0
    embedded: int = 0
    reused: int = 0
    lacking: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class SwapReport:
    """What became of a swap.

    Attributes:
        dataset_id: the dataset.
        embed_sig: the signature of the embedder that serves now.
        before: that of the one that served.
        swapped: False where it served already.
        embedded: how many texts had to be embedded for it.
        pending: how many documents have no vectors of it yet: they are found by keyword.
    """

    dataset_id: str
    embed_sig: str
    before: str
    swapped: bool
    embedded: int = 0
    pending: int = 0
