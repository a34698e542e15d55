"""What a query rewriter returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import attrs

from triptych.errors import ValidationError
from triptych.records.models import ModelUsage
from triptych.records.values import (
    EmbedKind,
    check_text,
)


def _several(texts: Any) -> tuple[str, ...]:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ValidationError(f"embed_texts are several texts, not {texts!r:.60}: give a tuple")
    return tuple(texts)


@attrs.frozen(kw_only=True, slots=True)
class QueryVariant:
    """One wording of a query, as a `QueryRewriter` returns it.

    Attributes:
        text: what keyword lanes look for.
        embed_text: what vector lanes embed; "" embeds ``text``.
        embed_kind: "query", or "document" where ``embed_text`` or ``embed_texts`` are passages such
            as the answer may be (HyDE).
        embed_texts: several texts in place of ``embed_text``. Vector lanes search for the mean of
            their unit vectors, scaled to unit length.
        embed_own_text: whether ``text``, embedded as a query, joins the mean of ``embed_texts``.
        weight: how much the lists that it finds count in fusion, above 0.
        group: the variants of one group are fused into one ranking. Of several groups each
            candidate keeps the best score that any ranking gives it.
    """

    text: str
    embed_text: str = ""
    embed_kind: EmbedKind = "query"
    embed_texts: tuple[str, ...] = attrs.field(default=(), converter=_several)
    embed_own_text: bool = False
    weight: float = 1.0
    group: str = ""

    def __attrs_post_init__(self) -> None:
        check_text(self.text, "the text of a query's variant")
        check_text(self.embed_text, "the embed_text of a query's variant")
        check_text(self.group, "the group of a query's variant")
        if not self.text.strip():
            raise ValidationError("a query's variant has no text: give it at least one word")
        if self.embed_kind not in ("query", "document"):
            raise ValidationError(
                f"embed_kind is 'query' or 'document', not {self.embed_kind!r:.60}"
            )
        for text in self.embed_texts:
            if not check_text(text, "one of the embed_texts of a query's variant").strip():
                raise ValidationError("one of the embed_texts is blank: leave it out")
        if self.embed_texts and self.embed_text:
            raise ValidationError("a variant has embed_text or embed_texts, not both")
        if self.embed_own_text and not self.embed_texts:
            raise ValidationError("embed_own_text joins the text to embed_texts: there are none")
        if not 0 < self.weight < float("inf"):
            raise ValidationError(f"the weight of a variant is above 0, not {self.weight!r:.60}")


@attrs.frozen(kw_only=True, slots=True)
class Rewriting(Sequence[QueryVariant]):
    """The variants of a query, with warnings and the usage of models.

    It is the sequence of its variants, so a rewriter may return it in place of a list.

    Attributes:
        variants: what the lanes are asked.
        question: the question in full, for the steps after the search, such as a rerank; "" where
            it is the query's text as it came.
        warnings: what could not be done, for `Result.warnings`.
        usage: what language models took.
    """

    variants: tuple[QueryVariant, ...]
    question: str = ""
    warnings: tuple[str, ...] = ()
    usage: tuple[ModelUsage, ...] = ()

    def __len__(self) -> int:
        return len(self.variants)

    def __iter__(self) -> Iterator[QueryVariant]:
        return iter(self.variants)

    @overload
    def __getitem__(self, index: int) -> QueryVariant: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[QueryVariant, ...]: ...

    def __getitem__(self, index: int | slice) -> QueryVariant | tuple[QueryVariant, ...]:
        return self.variants[index]
