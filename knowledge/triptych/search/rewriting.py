"""Query rewriting: chains of rewriters, and splitting a question into fragments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from triptych._internal.concurrency import map_ordered
from triptych._internal.wording import FailureWarning
from triptych.contracts import QueryProbe, QueryRewriter
from triptych.contracts.models import check_call
from triptych.errors import CancelledError, ValidationError
from triptych.records import (
    Mode,
    ModelUsage,
    Query,
    QueryVariant,
    ResolvedQuery,
    Rewriting,
    check_whole,
)
from triptych.search.query import over_fetch

MAX_VARIANTS = 32
"""Each variant is a separate search in every lane."""


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
            **attrs.asdict(each, recurse=False),
            vectors={},
            limit=over_fetch(resolved.top_k) if fused else resolved.limit,
        )
        for each in variants
    )


_WORKERS = 4


class ChainRewriter:
    """Runs several rewriters in order, such as ``[FollowUpRewriter(llm), HyDE(llm)]``.

    The first gets the query, each further one the text of every previous variant, up to four
    concurrently. Weights multiply. A variant keeps the texts to embed of an earlier rewriter unless
    a later one sets others. Groups nest: the groups of a later rewriter are subgroups.

    If a rewriter fails, its variant is unchanged and passed on, with a warning. There are at most
    `MAX_VARIANTS` variants: each rewritten variant keeps its first result, and further ones that do
    not fit are dropped with a warning.
    """

    def __init__(self, rewriters: Sequence[QueryRewriter]) -> None:
        """Set the rewriters in their order.

        Raises:
            ValidationError: the list is empty, or a rewriter has no method ``rewrite``.
        """
        if not isinstance(rewriters, Sequence) or not rewriters:
            raise ValidationError("a chain takes one rewriter or more: give a list of them")
        for each in rewriters:
            check_call(each, "rewrite", "query")
        self.rewriters: tuple[QueryRewriter, ...] = tuple(rewriters)

    def rewrite(self, query: Query) -> Rewriting:
        """Return the variants of the last rewriter."""
        return self._rewrite(query, None)

    def rewrite_probing(self, query: Query, probe: QueryProbe) -> Rewriting:
        """`rewrite`, with a probe of the search for the rewriters that use it."""
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
            f"{left_out} wordings of the query were left out: the maximum is {MAX_VARIANTS}"
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


FRAGMENT_ENDS: Final = r"[.?;\u3002\uff0e\uff1f\uff1b]+\s*"
"""The default separators of fragments: full stop, question mark, semicolon, also in Chinese."""


def fragments(text: str, pattern: str = FRAGMENT_ENDS) -> list[str]:
    """Return the parts of ``text`` between the matches of ``pattern``, each once.

    A part without a letter or digit is left out; white space around the others is not kept.
    """
    parts = (part.strip() for part in re.split(pattern, text))
    return list(dict.fromkeys(part for part in parts if any(map(str.isalnum, part))))


class FragmentRewriter:
    """Searches for each fragment of a question separately; a chunk gets its best score.

    "How do I install it? Which ports are open; who may log in" has three fragments. A question with
    one fragment is unchanged. No model is called.

    The scores of the rankings are compared directly. With `ZScoreRanker` a score measures how far a
    chunk is above the rest of its ranking, so that a fragment that few chunks match well outweighs
    one that many match a little. With `RRFRanker` the first chunks of all fragments have the same
    score. In the mode of a single lane the lane's scores are compared.
    """

    def __init__(
        self, pattern: str = FRAGMENT_ENDS, *, maximum: int = 8, include_question: bool = False
    ) -> None:
        """Set the rule for splitting.

        Args:
            pattern: a regular expression for the separators. The default also splits
                "triptych.toml"; ``r"[.?;]+\\s+"`` does not.
            maximum: the maximum number of fragments, 1 to 31; the last one has the remaining text.
            include_question: whether to search for the whole question too.

        Raises:
            ValidationError: the pattern is invalid, or ``maximum`` is out of range.
        """
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValidationError(
                f"the pattern of FragmentRewriter is no regular expression ({error})"
            ) from error
        check_whole(maximum, "maximum", least=1, most=MAX_VARIANTS - 1)
        self._pattern = pattern
        self._maximum = maximum
        self._include_question = include_question

    def rewrite(self, query: Query) -> list[QueryVariant]:
        """Return a variant for each fragment, each in a separate group."""
        parts = fragments(query.text, self._pattern)
        if len(parts) < 2:
            return [QueryVariant(text=query.text)]
        if len(parts) > self._maximum:
            parts[self._maximum - 1 :] = [". ".join(parts[self._maximum - 1 :])]
        if self._include_question:
            parts.insert(0, query.text)
        return [QueryVariant(text=part, group=f"{at}") for at, part in enumerate(parts)]
