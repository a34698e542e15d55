"""Query rewriting: the wordings that the lanes are asked in place of the caller's."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from triptych.contracts import QueryProbe, QueryRewriter
from triptych.errors import CancelledError, ValidationError
from triptych.records import Mode, Query, QueryVariant, ResolvedQuery, Rewriting
from triptych.records.reports import FailureWarning
from triptych.search.query import over_fetch

MAX_VARIANTS = 32
"""Each variant is a search of its own in every lane."""


def rewrite(rewriter: QueryRewriter, query: Query, probe: QueryProbe | None = None) -> Rewriting:
    """Return what ``rewriter`` makes of ``query``.

    When a rewriter fails, the query stays as it is and a warning says why.

    Raises:
        CancelledError: the deadline passed.
    """
    try:
        return call_rewriter(rewriter, query, probe)
    except CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - a rewriter may fail in any way; it is reported
        return Rewriting(
            variants=(QueryVariant(text=query.text),),
            warnings=(FailureWarning("the query was not rewritten", error, kind=True),),
        )


def call_rewriter(
    rewriter: QueryRewriter, query: Query, probe: QueryProbe | None = None
) -> Rewriting:
    """Return what ``rewriter`` makes of ``query``, checked.

    Raises:
        ValidationError: it did not return 1 to `MAX_VARIANTS` variants.
        Exception: it failed.
    """
    probing = None if probe is None else getattr(rewriter, "rewrite_probing", None)
    made = rewriter.rewrite(query) if probing is None else probing(query, probe)
    rewriting = made if isinstance(made, Rewriting) else Rewriting(variants=tuple(made))
    for each in rewriting.variants:
        if not isinstance(each, QueryVariant):
            raise ValidationError(
                f"a rewriter returns QueryVariant records, not {type(each).__name__}"
            )
    if not 1 <= len(rewriting) <= MAX_VARIANTS:
        raise ValidationError(
            f"a rewriter returns 1 to {MAX_VARIANTS} variants, not {len(rewriting)}"
        )
    return rewriting


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
            embed_texts=each.embed_texts,
            embed_own_text=each.embed_own_text,
            weight=each.weight,
            group=each.group,
            vector=None,
            sparse=None,
            limit=over_fetch(resolved.top_k) if fused else resolved.limit,
        )
        for each in variants
    )
