"""The arguments of a search, typed: the fields of `Query` but its text.

Every call that searches takes them as keywords. A field that is added to `Query` is added here, and
nowhere else; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from triptych.errors import ValidationError
from triptych.records.models import Message
from triptych.records.values import Layer, Mode, Scope

# What other libraries call an option.
_HINTS = {
    **dict.fromkeys(
        ("k", "limit", "n", "n_results", "similarity_top_k", "size", "top_n"),
        "the number of hits is 'top_k'; ",
    ),
    **dict.fromkeys(("filter", "filters"), "conditions are 'where'; "),
}


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
        dataset_id: the dataset, needed unless ``dataset_ids`` or ``scope`` says where.
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
