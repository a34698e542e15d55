"""Filters: what a ``where`` may be, and how a mistake in one is told."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from support.rows import each_row
from triptych.errors import ValidationError
from triptych.records import Condition, Not, Subject, parse_filter
from triptych_testing.filter_oracle import METADATA, WHERES, passes


def refusal(where: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        parse_filter(where)
    return str(caught.value)


@settings(deadline=None)
@given(WHERES, METADATA, st.sampled_from(["a", "a/b", "b"]))
def test_a_tree_admits_what_the_oracle_does(where: Any, metadata: Any, name: str) -> None:
    tree = parse_filter(where)
    for subject in (Subject(name=name, metadata=metadata, version=2), Subject(name=name)):
        assert (tree is None or tree.admits(subject)) == passes(where, subject)
    assert tree == parse_filter(where)
    assert hash(tree) == hash(parse_filter(where))


def test_plain_values_and_lists_mean_what_they_always_did() -> None:
    assert parse_filter({}) is None
    assert parse_filter({"lang": "en"}) == Condition("lang", "in", (("text", "en"),))
    assert parse_filter({"lang": ["en", "de"]}) == parse_filter({"lang": {"$in": ["en", "de"]}})
    assert parse_filter({"doc_name": "a"}) == parse_filter({"$name": "a"})
    assert parse_filter({"doc_prefix": ["a", "b"]}) == parse_filter({"$prefix": ["a", "b"]})
    assert parse_filter({"heading": "Straße"}) == parse_filter({"$heading": {"$eq": "STRASSE"}})
    assert parse_filter({"day": {"$date": "2026-09-01"}}) == parse_filter({"day": date(2026, 9, 1)})


def test_a_negation_holds_where_the_field_is_missing() -> None:
    for where in ({"k": {"$ne": 1}}, {"k": {"$nin": [1]}}, {"k": {"$exists": False}}):
        tree = parse_filter(where)
        assert isinstance(tree, Not)
        assert tree.admits(Subject(name="a"))
    for where in ({"k": {"$lt": 1}}, {"k": {"$contains": 1}}, {"k": {"$exists": True}}):
        tree = parse_filter(where)
        assert tree is not None
        assert not tree.admits(Subject(name="a"))


@each_row(
    ("value", "shown"),
    [
        (">=2026-09-01", "{'date': {'$gte': {'$date': '2026-09-01'}}}"),
        ("<= 5", "{'date': {'$lte': 5}}"),
        (">0.5", "{'date': {'$gt': 0.5}}"),
        ("!=x", "{'date': {'$ne': 'x'}}"),
        ("== x", "{'date': {'$eq': 'x'}}"),
        ("$gte", "{'date': {'$gte': …}}"),
        ("$gte 5", "{'date': {'$gte': …}}"),
    ],
)
def test_a_text_that_looks_like_an_operator_is_refused_with_the_right_form(
    value: str, shown: str
) -> None:
    for where in ({"date": value}, {"date": ["x", value]}, {"$not": {"date": value}}):
        assert shown in refusal(where)
    # Said so, it is a text like any other.
    tree = parse_filter({"date": {"$eq": value}})
    assert tree is not None
    assert tree.admits(Subject(name="a", metadata={"date": value}))


@each_row(
    ("key", "own"), [("doc_name", "$name"), ("doc_prefix", "$prefix"), ("heading", "$heading")]
)
@each_row("value", ["<a>.md", ">= 5", "$and"])
def test_the_right_form_of_a_name_is_one_that_is_taken(key: str, own: str, value: str) -> None:
    shown = f"{{{own!r}: {{'$eq': {value!r}}}}}"
    assert shown in refusal({key: value})
    assert shown in refusal({key: ["x", value]})
    assert parse_filter({own: {"$eq": value}}) is not None


@each_row("value", ["", "a >= b", "$5", "->", "$", ">", "$exact", "=> x"])
def test_a_text_that_only_resembles_one_is_a_text(value: str) -> None:
    assert parse_filter({"k": value}) == Condition("k", "in", (("text", value),))


@each_row(
    ("where", "message"),
    [
        ({"year": {"$greater": 1}}, "no operator '$greater': choose among $eq"),
        ({"year": {}}, "is empty"),
        ({"year": {"sub": 1}}, "no operator 'sub'"),
        ({"$gte": 1}, "$gte belongs under the field"),
        ({"$size": 1}, "no operator or field '$size'"),
        ({"year": {"$not": {"$gte": 1}}}, "{'$not': {'year': …}}"),
        ({"year": {"$or": [1]}}, "{'$or': [{'year': …}, …]}"),
        ({"$and": {"a": 1}}, "joins a list"),
        ({"$or": []}, "joins a list"),
        ({"$or": [{}]}, "an empty condition"),
        ({"$not": {}}, "is empty"),
        ({"$not": [1]}, "where must map"),
        ({"year": None}, "{'$exists': False}"),
        ({"year": [None]}, "{'$exists': False}"),
        ({"year": {"$in": 5}}, "takes a list"),
        ({"year": {"$in": [[1]]}}, "{'$eq': [...]}"),
        ({"year": {"$gte": [1]}}, "compares with a list"),
        ({"year": {"$gte": True}}, "have no order"),
        ({"year": {"$exists": 1}}, "True or False"),
        ({"year": {"$gte": float("nan")}}, "a finite number"),
        ({"year": {"$gte": 1 << 64}}, "beyond 64 bits"),
        ({"year": {"$gte": {"$date": "x"}}}, "ISO 8601"),
        ({"$heading": {"$gte": "a"}}, "$heading is compared by"),
        ({"$prefix": {"$contains": "a"}}, "$prefix is compared by"),
        ({"$name": 5}, "a string or a list of strings"),
        ({"doc_name": {"$ne": "a"}}, "write '$name'"),
        ({"heading": 5}, "a string or a list of strings"),
        ({1: "x"}, "a key of where must be a string"),
        ("lang=en", "where must map"),
        (None, "where must map"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(where: Any, message: str) -> None:
    assert message in refusal(where)


def test_size_and_depth_are_bounded() -> None:
    deep: dict[str, Any] = {"k": 1}
    for _ in range(21):
        deep = {"$not": deep}
    assert "more than 20 levels" in refusal(deep)
    assert "the maximum is 1,000" in refusal({"$or": [{"k": 1}] * 1001})
    assert "the maximum is 10,000" in refusal({"k": list(range(10_001))})
    assert parse_filter({"k": list(range(10_000))}) is not None


def test_a_metadata_key_may_have_any_name_but_an_operators() -> None:
    metadata = {"name": "x", "and": 1, "a.b": 2, "": 3}
    for key, value in metadata.items():
        tree = parse_filter({key: value})
        assert tree is not None
        assert tree.admits(Subject(name="a", metadata=metadata))


@pytest.mark.parametrize("value", [b"en", bytearray(b"en"), range(3)])
def test_bytes_and_ranges_are_not_lists(value: Any) -> None:
    for where in (
        {"lang": value},
        {"lang": {"$ne": value}},
        {"$not": {"lang": value}},
        {"year": {"$gte": value}},
        {"lang": {"$in": [value]}},
    ):
        assert "must be text, a number" in refusal(where)


def test_own_fields_are_compared_with_their_own_kind() -> None:
    for where in ({"$updated_at": {"$gte": "2020-01-01"}}, {"$updated_at": {"$ne": "2020-01-01"}}):
        assert "{'$date': '2026-09-01'}" in refusal(where)
    for value in ("1", {"$gte": "1"}, {"$in": [1, "2"]}, True):
        assert "compared with a number" in refusal({"$version": value})
    assert parse_filter({"$version": {"$in": [1, 2]}, "$updated_at": {"$gte": date(2026, 1, 1)}})


def test_a_list_that_is_too_long_is_refused_before_it_is_read() -> None:
    class Never:
        pass

    assert "the maximum is 10,000" in refusal({"year": [Never()] * 10_001})
    assert "the maximum is 10,000" in refusal({"year": {"$in": [Never()] * 10_001}})
