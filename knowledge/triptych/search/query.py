"""The validation of queries, for `Service.search` and for code that stores a query's fields."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from triptych.errors import ValidationError
from triptych.records import (
    Filter,
    Message,
    Mode,
    Query,
    Scope,
    check_text,
    check_whole,
    parse_filter,
    to_layer,
    to_scope,
)
from triptych.records.queries import Unnamed, check_option_names
from triptych.records.values import MODES
from triptych.text.words import count_words
from triptych.vectors.lanes import needs

DEFAULT_THRESHOLD = 0.1 / 2.2
"""A keyword score below which chunks are hardly relevant, for ``min_scores={"bm25": …}``. No code
uses it by default.

The reference implementation uses 0.1 with a BM25 of the same idf, k1 and b, but with the constant
factor ``k1 + 1`` = 2.2, which Lucene's formula omits. The quotient keeps the same chunks here."""

MAX_TOP_K = 10_000
_MAX_QUERY = 100_000
_MOST_WORDS = 2_000
_MOST_CELLS = 500_000  # words times depth: which hit holds which word is a table in memory
_MOST_BOOST = 1000
_LEAST_DEPTH = 30  # candidates a lane brings to fusion at least: docs/explanation/retrieval.md


def validate(query: Query, lanes: Collection[str] | None = None) -> tuple[Query, Filter]:
    """Return the query with every field in its canonical type, and its filter.

    ``lanes`` are the names of the lanes that ``mode`` and ``min_scores`` may name; None takes any.

    Raises:
        ValidationError: a field is invalid; the message names it and says what can.
    """
    text = check_text(query.text, "the query")
    tree = None if query.where == {} else parse_filter(query.where)
    if not has_words(text):
        if tree is None:
            raise ValidationError("the query is empty: give it at least one word")
        if query.threshold is not None or query.min_scores or query.keyword_boost:
            raise ValidationError(
                "a query without words lists all matches of its where, without scores: leave out "
                "threshold, min_scores and keyword_boost"
            )
    if "\0" in text:
        raise ValidationError("the query holds a NUL character: remove it")
    check_length(text)
    if query.dataset_id is not None:
        check_text(query.dataset_id, "dataset_id")
    beside = {"mode": lanes, "min_scores": lanes, "offset": query.top_k}
    changed: dict[str, Any] = {}
    for name, check in _CHECKS.items():
        value = getattr(query, name)
        if value is not _DEFAULTS[name]:  # which are all in their canonical type
            checked = check(value, beside[name]) if name in beside else check(value)
            if checked is not value:
                changed[name] = checked
    if query.as_of is not None:
        from triptych.search.past.moments import to_moment  # most searches are of now

        changed["as_of"] = to_moment(query.as_of)
    judged = attrs.evolve(query, **changed) if changed else query
    reach = judged.offset + judged.top_k
    most = min(_MOST_WORDS, _MOST_CELLS // reach)
    if len(text) > most and (words := count_words(text)) > most:
        raise ValidationError(
            f"the query has {words:,} different words; the maximum is {most:,} where offset and "
            f"top_k reach to hit {reach:,}: search with its essential sentences"
            + ("" if most == _MOST_WORDS else ", or for fewer hits")
        )
    named = judged.dataset_ids or judged.dataset_id
    if judged.dataset_ids and judged.dataset_id:
        raise ValidationError(
            f"dataset_id={judged.dataset_id!r} names one dataset and dataset_ids several: leave "
            "one of the two out"
        )
    if judged.scope is Scope.SINGLE and not named:
        raise ValidationError("name a dataset_id, or search everywhere with scope='all'")
    if judged.scope is Scope.ALL and named:
        name = "dataset_ids" if judged.dataset_ids else "dataset_id"
        raise ValidationError(
            f"scope='all' searches every dataset, but {name}={named!r} names some: leave one of "
            "the two out"
        )
    return judged, Filter(tree=tree)


def check_length(text: object) -> None:
    """Refuse a query that is too long.

    Raises:
        ValidationError: it is.
    """
    if isinstance(text, str) and len(text) > _MAX_QUERY:
        raise ValidationError(
            f"the query is {len(text):,} characters long; the maximum is {_MAX_QUERY:,}: "
            "search with its essential sentences"
        )


def query_of(query: Query | str, options: Mapping[str, Any]) -> Query:
    """The query that a caller means by a text, or a query, and options over it.

    Raises:
        ValidationError: an option is unknown.
    """
    fields: dict[str, Any] = {**options}
    check_option_names(fields)
    if isinstance(mode := fields.get("mode"), str):
        fields["mode"] = MODES.get(mode, mode)  # as `validate` does, before there is a record
    if fields.get("where", ...) is None:
        fields["where"] = {}  # no conditions
    if isinstance(query, Query):
        return attrs.evolve(query, **fields) if fields else query
    return Query(text=query, **fields)


def names_none(query: Query) -> bool:
    """Whether a query is of the only dataset, as it does not say where to search."""
    if query.dataset_ids:
        return False
    everywhere = query.scope is not Scope.SINGLE and to_scope(query.scope) is Scope.ALL
    return isinstance(query.dataset_id, Unnamed) and not everywhere


def resolve_mode(
    mode: Mode | str | None, *, has_embedder: bool, lanes: Collection[str] = ()
) -> Mode | str:
    """Return the mode of a search: None is hybrid with an embedder, else keyword.

    The name of one of ``lanes`` is also a mode, for that lane only.

    Raises:
        ValidationError: there is no such mode.
    """
    if mode is None:
        return Mode.HYBRID if has_embedder else Mode.BM25
    return _mode(mode, lanes)


def check_queries(queries: Any) -> Iterable[Query | str]:
    """Return ``queries``, unless they are one query.

    Raises:
        ValidationError: they are not several.
    """
    if isinstance(queries, str | Query) or not isinstance(queries, Iterable):
        raise ValidationError(
            f"search_many takes several queries, not {type(queries).__name__}: give it a list, or "
            "use search()"
        )
    return queries


def over_fetch(top_k: int) -> int:
    """How deep a lane reaches so that fusion has enough to choose from."""
    return max(_LEAST_DEPTH, 2 * top_k)


def _mode(value: Any, lanes: Collection[str] | None) -> Mode | str:
    if isinstance(value, str):
        if (mode := MODES.get(value)) is not None:
            return mode
        if value and (lanes is None or value in lanes):
            return value
    names = dict.fromkeys([*map(str, Mode), *(lanes or ())])
    raise ValidationError(
        f"there is no mode {value!r}: choose one of {', '.join(map(repr, names))}{needs(value)}"
    )


def check_dataset_ids(value: Any) -> tuple[str, ...]:
    """Return the names of datasets, each once.

    Raises:
        ValidationError: they are no list of names.
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValidationError(
            f"dataset_ids is a list of datasets, not {value!r:.60}: one is a dataset_id"
        )
    return tuple(dict.fromkeys(check_text(each, "a dataset of dataset_ids") for each in value))


def has_words(text: str) -> bool:
    """Whether there is anything in ``text`` to look for."""
    return bool(text.strip("\0 \t\r\n\f\v\u3000"))


def check_conversation(conversation: object) -> Sequence[Message]:
    """Return ``conversation`` as a tuple.

    Raises:
        ValidationError: it is not a sequence of `Message` records.
    """
    if isinstance(conversation, str) or not isinstance(conversation, Sequence):
        raise ValidationError(
            f"a conversation is a list of Message records, not {type(conversation).__name__}"
        )
    for message in conversation:
        if not isinstance(message, Message):
            raise ValidationError(
                f"a conversation holds Message records, not {type(message).__name__}: give "
                'Message("user", "…") and Message("assistant", "…")'
            )
        check_text(message.content, "a message of the conversation")
    return tuple(conversation)


def _offset(value: Any, top_k: int) -> int:
    if check_whole(value, "offset") + top_k > MAX_TOP_K:
        raise ValidationError(
            f"offset and top_k reach to hit {value + top_k:,}; {MAX_TOP_K:,} is the last: narrow "
            "the search with where"
        )
    return int(value)


def _switch(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise ValidationError(f"{what} is True or False, not {value!r:.60}")
    return value


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise ValidationError(f"{what} must be a number, not {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValidationError(f"{what} is larger than any score: give a smaller number") from None


def _share(value: Any) -> float:
    share = _number(value, "keyword_boost")
    if not 0 <= share <= _MOST_BOOST:
        raise ValidationError(
            f"keyword_boost is a share from 0 to {_MOST_BOOST}, such as 0.1 for 10 percent a "
            f"word, not {value}"
        )
    return share


def _min_scores(value: Any, lanes: Collection[str] | None) -> dict[str, float]:
    if isinstance(value, dict) and not value:
        return value
    if not isinstance(value, Mapping):
        raise ValidationError("min_scores must map a lane's name to its least score")
    for lane in value:
        if lanes is not None and lane not in lanes:
            raise ValidationError(
                f"min_scores names the lane {lane!r}; the lanes are {' and '.join(lanes)}"
            )
    return {lane: _number(score, f"min_scores[{lane!r}]") for lane, score in value.items()}


_DEFAULTS = {field.name: field.default for field in attrs.fields(Query)}
_CHECKS: Mapping[str, Callable[..., Any]] = {
    "dataset_ids": check_dataset_ids,
    "layer": to_layer,
    "mode": _mode,
    "scope": to_scope,
    "top_k": partial(check_whole, what="top_k", least=1, most=MAX_TOP_K),
    "threshold": partial(_number, what="threshold"),
    "min_scores": _min_scores,
    "fresh_only": partial(_switch, what="fresh_only"),
    "syntax": partial(_switch, what="syntax"),
    "keyword_boost": _share,
    "offset": _offset,
    "per_document": partial(check_whole, what="per_document", least=1),
    "conversation": check_conversation,
}
"""What checks each field that is not as it is by default, in this order, and converts it."""
