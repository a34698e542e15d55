"""The numbers behind a context, in one place."""

from __future__ import annotations

import attrs

__all__ = ["ContextParameters"]


@attrs.frozen(kw_only=True, slots=True)
class ContextParameters:
    """How passages are weighed against each other; docs/explanation/context.md has the reasons.

    Attributes:
        depth: how many chunks are looked at.
        layer_depth: how many abstracts, overviews and whole documents.
        led: how many abstracts and overviews, the best, have their documents' chunks searched
            where none was found.
        rescored: whether chunks are ordered by their lanes' scores again, as parts of long texts
            should be; else the order of the search stands.
        vector: the weight of the vector lane's scores beside the keyword lane's, 0 to 1.
        k: of the reciprocal ranks ``1 / (k + rank)``.
        abstract: the weight of a document's rank by its abstract in its chunks' scores.
        overview: likewise by its overview.
        whole: by all of its text.
        best_chunk: by its best chunk.
        beside: the share of its own score that a chunk adds to those before and after it.
        bridge: the maximum number of tokens between two passages of a document that are joined
            into one, with the text between them.
        repeated: the share of a text's shingles that makes it a repetition when seen before.
        summaries: the share of the budget that abstracts and overviews may take.
        leading: of how many documents, by their best passages, abstracts and overviews may be
            taken.
        least_cut: the least tokens that a cut passage must keep.
    """

    depth: int = 100
    layer_depth: int = 50
    led: int = 3
    rescored: bool = True
    vector: float = 0.6
    k: float = 10.0
    abstract: float = 0.1
    overview: float = 0.2
    whole: float = 0.4
    best_chunk: float = 0.2
    beside: float = 0.3
    bridge: int = 25
    repeated: float = 0.8
    summaries: float = 0.05
    leading: int = 10
    least_cut: int = 24
