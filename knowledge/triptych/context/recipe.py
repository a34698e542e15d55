"""The numbers behind a context, in one place."""

from __future__ import annotations

import attrs

__all__ = ["Recipe"]


@attrs.frozen(kw_only=True, slots=True)
class Recipe:
    """How passages are weighed against each other; docs/explanation/context.md has the reasons.

    Attributes:
        depth: how many chunks are looked at.
        layer_depth: how many abstracts and overviews.
        k: of the reciprocal ranks ``1 / (k + rank)``.
        document_weight: the share of its document's score that a chunk gets.
        neighbour: the share of its score that a chunk hands on to the chunks beside it in the
            same section.
        bridge: the most tokens of text between two passages of a document that are taken in to
            make one of them.
        repeated: the share of a text's shingles that makes it a repetition when seen before.
        summaries: the share of the budget that abstracts and overviews may take.
        least_cut: the least tokens that a cut passage must keep.
    """

    depth: int = 100
    layer_depth: int = 20
    k: float = 60.0
    document_weight: float = 0.5
    neighbour: float = 0.5
    bridge: int = 25
    repeated: float = 0.8
    summaries: float = 0.1
    least_cut: int = 24
