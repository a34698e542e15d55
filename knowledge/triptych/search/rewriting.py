"""Query rewriting: the wordings that the lanes are asked in place of the caller's."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from triptych.contracts import QueryRewriter
from triptych.errors import CancelledError, ValidationError
from triptych.records import Mode, Query, QueryVariant, ResolvedQuery
from triptych.search.query import over_fetch

__all__ = ["MAX_VARIANTS", "rewrite", "variants_of"]

MAX_VARIANTS = 32
"""Each variant is a search of its own in every lane."""


def rewrite(rewriter: QueryRewriter, query: Query) -> tuple[Sequence[QueryVariant], str]:
    """Return what ``rewriter`` makes of ``query``, and a warning, "" where all is well.

    When a rewriter fails, the query stays as it is and the warning says why.

    Raises:
        CancelledError: the deadline passed.
    """
    try:
        variants = tuple(rewriter.rewrite(query))
        for each in variants:
            if not isinstance(each, QueryVariant):
                raise ValidationError(
                    f"a rewriter returns QueryVariant records, not {type(each).__name__}"
                )
        if not 1 <= len(variants) <= MAX_VARIANTS:
            raise ValidationError(
                f"a rewriter returns 1 to {MAX_VARIANTS} variants, not {len(variants)}"
            )
    except CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - a rewriter may fail in any way; it is reported
        unchanged = (QueryVariant(text=query.text),)
        return unchanged, f"the query was not rewritten ({type(error).__name__}: {error})"
    return variants, ""


def variants_of(
    resolved: ResolvedQuery, variants: Sequence[QueryVariant]
) -> Sequence[ResolvedQuery]:
    """Return what the lanes are asked: ``resolved`` in each of the wordings."""
    # Several lists are fused, which takes as much depth as a hybrid search does.
    fused = len(variants) > 1 or resolved.mode == Mode.HYBRID
    return tuple(
        attrs.evolve(
            resolved,
            text=each.text,
            embed_text=each.embed_text,
            embed_kind=each.embed_kind,
            weight=each.weight,
            vector=None,
            sparse=None,
            limit=over_fetch(resolved.top_k) if fused else resolved.limit,
        )
        for each in variants
    )
