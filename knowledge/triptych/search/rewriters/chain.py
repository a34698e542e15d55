"""Rewriters one after another: each rewrites what the one before it made."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from triptych._internal.concurrency import map_ordered
from triptych.contracts import QueryProbe, QueryRewriter
from triptych.errors import CancelledError, ValidationError
from triptych.records import ModelUsage, Query, QueryVariant, Rewriting
from triptych.records.reports import FailureWarning
from triptych.search.rewriting import MAX_VARIANTS, call_rewriter

_WORKERS = 4


class ChainRewriter:
    """Several rewriters in a row, such as ``[FollowUpRewriter(llm), HyDE(llm)]``.

    The first gets the query. Every other gets each variant that came before it, as a query of the
    variant's text, up to four at a time. Weights multiply. A variant keeps what an earlier rewriter
    gave vector lanes to embed, unless a later one gives something else. Groups nest: within a
    group, the groups of a later rewriter are groups of their own.

    A rewriter that fails leaves its variant as it was, with a warning; the next one goes on from
    there. There are `MAX_VARIANTS` variants at most: each that was rewritten keeps its first, and
    what does not fit is left out, with a warning.
    """

    def __init__(self, rewriters: Sequence[QueryRewriter]) -> None:
        """Take the rewriters, in their order.

        Raises:
            ValidationError: there is none, or one has no method ``rewrite``.
        """
        if not isinstance(rewriters, Sequence) or not rewriters:
            raise ValidationError("a chain takes one rewriter or more: give a list of them")
        for each in rewriters:
            if isinstance(each, type) or not callable(getattr(each, "rewrite", None)):
                raise ValidationError(f"{each!r:.80} has no method rewrite: give a QueryRewriter")
        self.rewriters: tuple[QueryRewriter, ...] = tuple(rewriters)

    def rewrite(self, query: Query) -> Rewriting:
        """Return what the last rewriter makes of the query."""
        return self._rewrite(query, None)

    def rewrite_probing(self, query: Query, probe: QueryProbe) -> Rewriting:
        """`rewrite`, with a probe of the search for the rewriters that ask it."""
        return self._rewrite(query, probe)

    def _rewrite(self, query: Query, probe: QueryProbe | None) -> Rewriting:
        made = Rewriting(variants=(QueryVariant(text=query.text),))
        for rewriter in self.rewriters:
            made = _next(rewriter, query, made, probe)
        return made


def _next(
    rewriter: QueryRewriter, query: Query, before: Rewriting, probe: QueryProbe | None
) -> Rewriting:
    def of(variant: QueryVariant) -> Rewriting:
        try:
            return call_rewriter(rewriter, attrs.evolve(query, text=variant.text), probe)
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - a rewriter may fail in any way; it is reported
            name = type(rewriter).__name__
            return Rewriting(
                variants=(QueryVariant(text=variant.text),),
                warnings=(FailureWarning(f"{name} did not rewrite the query", error, kind=True),),
            )

    made = list(map_ordered(of, before.variants, _WORKERS))
    warnings = [*before.warnings, *(each for one in made for each in one.warnings)]
    room = MAX_VARIANTS - len(made)
    variants: list[QueryVariant] = []
    for old, rewriting in zip(before.variants, made, strict=True):
        new = rewriting.variants[: 1 + room]
        room -= len(new) - 1
        variants += [_nested(old, each) for each in new]
    left_out = sum(map(len, made)) - len(variants)
    if left_out:
        warnings.append(
            f"{left_out} wordings of the query were left out: {MAX_VARIANTS} is the most"
        )
    whole = made[0].question if len(made) == 1 else ""
    return Rewriting(
        variants=tuple(variants),
        question=whole or before.question,
        warnings=tuple(dict.fromkeys(warnings)),
        usage=_total((*before.usage, *(each for one in made for each in one.usage))),
    )


def _nested(old: QueryVariant, new: QueryVariant) -> QueryVariant:
    """``new``, made of ``old``, with what it keeps of it."""
    own = bool(new.embed_text or new.embed_texts)
    kept = new if own else old
    return attrs.evolve(
        new,
        embed_text=kept.embed_text,
        embed_texts=kept.embed_texts,
        embed_own_text=kept.embed_own_text,
        embed_kind=kept.embed_kind,
        weight=old.weight * new.weight,
        group="/".join(part for part in (old.group, new.group) if part),
    )


def _total(usages: Sequence[ModelUsage]) -> tuple[ModelUsage, ...]:
    """The usage of each model."""
    totals: dict[str, ModelUsage] = {}
    for each in usages:
        totals[each.model] = totals[each.model] + each if each.model in totals else each
    return tuple(totals.values())


def rewriters_of(
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None,
) -> Sequence[QueryRewriter]:
    """Return the rewriters that an option names: one, several in a list or tuple, or none."""
    if rewriter is None:
        return ()
    return rewriter if isinstance(rewriter, Sequence) else (rewriter,)


def one_rewriter(
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None,
) -> QueryRewriter | None:
    """Return the rewriters that an option names as one; None without any."""
    several = rewriters_of(rewriter)
    if len(several) > 1:
        return ChainRewriter(several)
    return several[0] if several else None
