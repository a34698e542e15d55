"""Queries, their options and their variants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

import attrs

from triptych.errors import ValidationError
from triptych.records.derived import DerivedSig
from triptych.records.filters import FilterTree, Subject, guarded
from triptych.records.models import Message
from triptych.records.spaces import AnyVector
from triptych.records.values import (
    EmbedKind,
    Layer,
    Mode,
    Scope,
    to_layer,
    vector_comparison,
)


class Unnamed(str):
    """Of a query that names no dataset: not what a program has of a variable that is not set."""

    __slots__ = ()


@attrs.frozen(kw_only=True, slots=True)
class Query:
    """A question to a search, with all its options.

    Attributes:
        text: the question, or some words: at most 100,000 characters and 2,000 different words,
            or 500,000 divided by ``offset + top_k`` if that is less. Empty with a ``where``: all
            that passes it is listed, by dataset, document name and chunk index, with the score 0.
        dataset_id: which dataset; needed only if there are several, and neither ``dataset_ids``
            nor ``scope`` says where. "" and None (such as from an unset variable) are invalid.
        dataset_ids: several datasets, searched as one, in place of ``dataset_id``.
        scope: "single" or "all".
        mode: "bm25", "vector" or "hybrid", or the name of another lane; None is hybrid when an
            embedder is wired.
        layer: "L2" finds chunks, "L0" abstracts, "L1" overviews.
        top_k: the maximum number of hits to return.
        threshold: the least fused score, None for no floor.
        min_scores: the least score in a lane ("bm25", "vector", or one of your own), before
            fusion.
        where: conditions on metadata and on the document's own fields, all of which must hold:
            ``{"lang": "en"}``, ``{"lang": ["en", "de"]}`` for any of several,
            ``{"year": {"$gte": 2024}}``; ``doc_name``, ``doc_prefix`` and ``heading`` by their
            text. See `triptych.records.parse_filter`.
        fresh_only: leave out what is stale.
        keyword_boost: raise a hit's score by this share for each word of the query that its
            text holds, after ``threshold``; 0.1 is 10 percent, 0 leaves scores as they are.
        syntax: whether ``text`` is read as the query language: ``"a phrase"``, ``-word``,
            ``word*``, ``field:value``. Without it every character is part of a word.
        offset: how many of the best hits to skip: those of the pages before.
        per_document: the most hits of one document, its best; None for any number.
        conversation: the messages before ``text``, oldest first, for a rewriter that completes a
            follow-up question (`FollowUpRewriter`). Nothing else reads it.
        as_of: search an earlier state, over the versions that are kept: a datetime (in UTC if it
            has no offset) or its ISO 8601 text; or a version: each document at its greatest
            version up to this one. None searches the current state.
    """

    text: str
    dataset_id: str = Unnamed()
    dataset_ids: Sequence[str] = ()
    scope: Scope | str = Scope.SINGLE
    mode: Mode | str | None = None
    layer: Layer | str = Layer.DETAIL
    top_k: int = 10
    threshold: float | None = None
    min_scores: Mapping[str, float] = attrs.field(factory=dict)
    where: Mapping[str, Any] = attrs.field(factory=dict)
    fresh_only: bool = False
    keyword_boost: float = 0.0
    syntax: bool = False
    offset: int = 0
    per_document: int | None = None
    conversation: Sequence[Message] = ()
    as_of: int | datetime | str | None = None


@attrs.frozen(kw_only=True, slots=True)
class Filter:
    """A validated ``where``, and whether what is stale is left out.

    ``tree`` None lets everything pass. ``within`` are further conditions on documents. They are
    evaluated first, and bound the collection: documents that do not pass count in no statistics
    of BM25, as if they were not stored; None bounds nothing. ``fresh``
    holds the chunker and embedder signatures (and prompt signature, for layers) that a fresh set
    carries; an empty one of the latter two means "don't care".
    """

    tree: FilterTree | None = None
    fresh: DerivedSig | None = None
    within: FilterTree | None = None

    def bounded(self, tree: FilterTree | None) -> Filter:
        """Return this filter of the documents that pass ``tree``, whose statistics alone count."""
        if tree is None:
            return self
        return attrs.evolve(self, tree=guarded(tree, self.tree), within=guarded(tree, self.within))

    def admits(self, subject: Subject) -> bool:
        """Whether ``subject`` passes both trees; freshness is not looked at."""
        return all(tree is None or tree.admits(subject) for tree in (self.within, self.tree))

    @property
    def is_trivial(self) -> bool:
        """Whether everything passes."""
        return self.tree is None and self.fresh is None and self.within is None


@attrs.frozen(kw_only=True, slots=True)
class ResolvedQuery:
    """A query that `Service.search` has validated: the input of a `Retriever`.

    ``dataset_ids`` exist; ``datasets_of`` are, for each lane of vectors, those whose vectors are of
    its model, and ``embed_sig`` is the embedder's signature. ``top_k`` counts the hits that
    ``offset`` skips, too. ``limit`` is how deep each lane should reach (lanes over-fetch: it is
    ``top_k`` or more).

    A `QueryRewriter` makes several of one query: ``text`` is what keyword lanes look for,
    ``embed_text`` ("" for ``text``) what vector lanes embed, as ``embed_kind``, and ``weight``
    how much the lists of this variant count in fusion. ``embed_texts`` are several texts whose
    mean vector is searched for, ``embed_own_text`` adds ``text`` to them, and ``group`` is the
    variant's (see `QueryVariant`). ``vectors`` are those that lanes of vectors search for, by
    lane, where the caller has them already.

    ``lanes`` are those that a hybrid search runs, None for all of them.
    """

    text: str
    dataset_ids: tuple[str, ...]
    datasets_of: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    embed_sig: str = ""
    mode: Mode | str
    layer: Layer
    top_k: int
    limit: int
    offset: int = 0
    per_document: int | None = None
    threshold: float | None = None
    min_scores: Mapping[str, float] = attrs.field(factory=dict)
    filter: Filter = attrs.field(factory=Filter)
    keyword_boost: float = 0.0
    embed_text: str = ""
    embed_kind: EmbedKind = "query"
    embed_texts: tuple[str, ...] = ()
    embed_own_text: bool = False
    weight: float = 1.0
    group: str = ""
    vectors: Mapping[str, AnyVector] = attrs.field(factory=dict, eq=False, repr=False)
    lanes: tuple[str, ...] | None = None

    @property
    def embedded(self) -> tuple[tuple[EmbedKind, str], ...]:
        """The texts whose mean vector vector lanes search for, each once, with its kind."""
        if not self.embed_texts:
            return ((self.embed_kind, self.embed_text or self.text),)
        own: tuple[tuple[EmbedKind, str], ...] = (
            (("query", self.text),) if self.embed_own_text else ()
        )
        several = [(self.embed_kind, text) for text in self.embed_texts]
        return tuple(dict.fromkeys((*own, *several)))


@attrs.frozen(kw_only=True, slots=True)
class ChunkQuery:
    """One lane's question to a `ChunkRepo`: BM25 over ``text`` or nearness to ``vector``.

    ``mode`` is BM25, or the lane that ``vector`` is of. ``embed_sig`` names the space that
    ``vector`` lives in: the signature of its model.
    """

    dataset_ids: tuple[str, ...]
    mode: Mode | str
    text: str = ""
    vector: AnyVector | None = attrs.field(default=None, eq=vector_comparison, repr=False)
    embed_sig: str = ""
    top_k: int = 10
    filter: Filter = attrs.field(factory=Filter)


@attrs.frozen(kw_only=True, slots=True)
class LayerQuery(ChunkQuery):
    """One lane's question to a `LayerRepo`."""

    layer: Layer = attrs.field(default=Layer.ABSTRACT, converter=to_layer)


# What other libraries call an option.
_HINTS = {
    **dict.fromkeys(
        ("k", "limit", "n", "n_results", "similarity_top_k", "size", "top_n"),
        "the number of hits is 'top_k'; ",
    ),
    **dict.fromkeys(("filter", "filters"), "conditions are 'where'; "),
    "where_document": "words of the text are a phrase in the query, '\"…\"', with syntax=True; ",
}


# Every call that searches takes the fields of `Query` but its text as keywords. A field that is
# added there is added here, and nowhere else; a test compares the two.


class QuestionOptions(TypedDict, total=False):
    """How one dataset is searched, but for how many hits there are; see `Query`.

    Keys:
        mode: "bm25", "vector", "hybrid" or a lane of your own; None takes hybrid where it can.
        layer: "L2" finds chunks, "L0" abstracts, "L1" overviews.
        threshold: the minimum fused score; None for none.
        min_scores: the minimum score in a lane, before fusion.
        where: conditions on metadata and on the document; None for none.
        fresh_only: whether stale hits are left out.
        keyword_boost: raises a hit's score by this share for each word of the query it holds.
        syntax: whether the text is read as the query language.
        conversation: what was said before the query, for a rewriter of follow-up questions.
        as_of: the moment, or the version, to search what was stored at; None for now.
    """

    mode: Mode | str | None
    layer: Layer | str
    threshold: float | None
    min_scores: Mapping[str, float]
    where: Mapping[str, Any] | None
    fresh_only: bool
    keyword_boost: float
    syntax: bool
    conversation: Sequence[Message]
    as_of: int | datetime | str | None


class DatasetSearchOptions(QuestionOptions, total=False):
    """What a search of one dataset takes beside the query's text; see `Query`.

    Keys:
        top_k: the maximum number of hits, from 1.
        offset: how many of the best hits to skip.
        per_document: the maximum number of hits of one document; None for any number.
    """

    top_k: int
    offset: int
    per_document: int | None


class SearchOptions(DatasetSearchOptions, total=False):
    """What a search takes beside the query's text: also where it looks; see `Query`.

    Keys:
        dataset_id: the dataset; without it, ``dataset_ids`` and ``scope``, the only one.
        dataset_ids: several datasets, searched as one.
        scope: "single" or "all".
    """

    dataset_id: str
    dataset_ids: Sequence[str]
    scope: Scope | str


def check_option_names(options: Iterable[str]) -> None:
    """Refuse what is not an option of a search.

    Raises:
        ValidationError: the message names the options, and the one that another library's means.
    """
    known = SearchOptions.__annotations__
    for name in options:
        if name not in known:
            hint = _HINTS.get(name, "")
            raise ValidationError(
                f"a search has no option {name!r}: {hint}the options are {', '.join(known)}"
            )


def split_options(
    options: Mapping[str, Any], defaults: Mapping[str, Any], wired: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that ``defaults`` names, each with its default, and all others: a search's.

    ``wired`` are defaults that None stands for, too.
    """
    own = {name: options.get(name, default) for name, default in defaults.items()}
    own |= {name: value for name, value in (wired or {}).items() if options.get(name) is None}
    return own, {name: given for name, given in options.items() if name not in defaults}
