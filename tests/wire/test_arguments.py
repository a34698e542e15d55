"""What a model writes as arguments: read by the schema, refused by name."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from support.rows import each_row
from triptych.errors import ValidationError
from triptych.records import DerivedSig, Layer, NewDocument
from triptych_adapters.wire import check_schema, json_schema, read_arguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to find."},
        "mode": {"type": "string", "enum": ["bm25", "vector"], "description": "How."},
        "top_k": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100,
            "default": 5,
            "description": "How many.",
        },
        "threshold": {"type": "number", "description": "The least score."},
        "deep": {"type": "boolean", "description": "Whether to dig."},
    },
    "required": ["query"],
    "additionalProperties": False,
}


def read(arguments: Any) -> dict[str, Any]:
    return read_arguments("find", SCHEMA, arguments)


def refusal(arguments: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        read(arguments)
    return str(raised.value)


def test_defaults_are_filled_in_and_the_rest_is_left_out() -> None:
    assert read({"query": "tea"}) == {"query": "tea", "top_k": 5}
    given = {"query": "tea", "top_k": 7, "mode": "bm25", "threshold": 2, "deep": False}
    assert read(given) == given


def test_arguments_may_be_json_text() -> None:
    assert read('{"query": "tea", "top_k": 3}') == {"query": "tea", "top_k": 3}
    for text in ("", "tea", '{"query": ', "[" * 100_000):
        assert "not JSON" in refusal(text)
    assert "has the key 'query' twice" in refusal('{"query": "tea", "query": "ale"}')
    assert "NaN is not a number in JSON" in refusal('{"query": "tea", "threshold": NaN}')
    assert "one JSON object, not [1]" in refusal("[1]")
    assert "one JSON object, not null" in refusal(None)


def test_a_whole_number_may_be_written_as_five_point_zero() -> None:
    top_k = read({"query": "tea", "top_k": 5.0})["top_k"]
    assert (top_k, type(top_k)) == (5, int)


@each_row(
    ("name", "value", "expected"),
    [
        ("query", 5, "must be a string, not 5"),
        ("query", ["tea"], 'must be a string, not ["tea"]'),
        ("mode", "fuzzy", 'must be one of "bm25", "vector", not "fuzzy"'),
        ("top_k", True, "must be a whole number from 1 to 100, not true"),
        ("top_k", "5", 'must be a whole number from 1 to 100, not "5"'),
        ("top_k", 5.5, "must be a whole number from 1 to 100, not 5.5"),
        ("top_k", 0, "must be a whole number from 1 to 100, not 0"),
        ("top_k", 101, "must be a whole number from 1 to 100, not 101"),
        ("top_k", math.inf, "must be a whole number from 1 to 100, not Infinity"),
        pytest.param(
            *("top_k", 10**5000, "must be a whole number from 1 to 100, not a value of type int"),
            id="more digits than are written",
        ),
        ("threshold", "high", 'must be a number, not "high"'),
        ("threshold", False, "must be a number, not false"),
        ("threshold", math.nan, "must be a number, not NaN"),
        ("deep", 1, "must be true or false, not 1"),
        ("deep", b"yes", "must be true or false, not a value of type bytes"),
    ],
)
def test_a_wrong_value_is_refused_by_name_with_what_is_expected(
    name: str, value: object, expected: str
) -> None:
    said = refusal({"query": "tea", name: value})
    assert said == f"find: the argument {name!r} {expected}"


def test_all_faults_are_reported_at_once() -> None:
    said = refusal({"limit": 3, "top_k": "many"})
    assert said == (
        "find: the argument 'query' is missing: What to find.; "
        'there is no argument "limit", the arguments are query, mode, top_k, threshold, deep; '
        "the argument 'top_k' must be a whole number from 1 to 100, not \"many\""
    )
    assert "no argument 7" in refusal({"query": "tea", 7: 8})


def test_a_text_that_no_store_can_hold_is_refused_by_name() -> None:
    assert "'query' holds a lone surrogate" in refusal({"query": "\ud800"})
    assert "no argument" in refusal({"query": "tea", "\ud800": 1})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("a 5é", max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=3), inner),
    max_leaves=4,
)


def fits(name: str, value: Any) -> bool:
    """JSON Schema's own rules for the properties above, written once more."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "query":
        return isinstance(value, str)
    if name == "mode":
        return value in ("bm25", "vector")
    if name == "top_k":
        return number and math.isfinite(value) and value == int(value) and 1 <= value <= 100
    if name == "threshold":
        return number and math.isfinite(value)
    return isinstance(value, bool)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*SCHEMA["properties"], "limit"]),
        VALUES | st.sampled_from(["bm25", 1, 100.0, 3, True]),
    )
)
def test_any_arguments_are_read_as_the_schema_says_or_refused_naming_each_fault(
    arguments: dict[str, Any],
) -> None:
    given = {name: each for name, each in arguments.items() if each is not None or name == "limit"}
    wrong = [name for name, value in given.items() if name == "limit" or not fits(name, value)]
    wrong += [] if "query" in given else ["query"]
    before = json.dumps(arguments)
    if wrong:
        said = refusal(arguments)
        assert all(repr(name) in said or json.dumps(name) in said for name in wrong)
    else:
        assert read(arguments) == {"top_k": 5, **given}
    assert json.dumps(arguments) == before


@each_row(
    "change",
    [
        {"type": "array"},
        {"additionalProperties": True},
        {"properties": None},
        {"required": ["nothing"]},
        {"oneOf": []},
        {"properties": {"a": {"type": "string"}}},
        {"properties": {"a": {"type": "array", "description": "x"}}},
        {"properties": {"a": {"type": "string", "description": "x", "pattern": "y"}}},
    ],
)
def test_a_schema_that_would_not_be_honoured_is_refused(change: dict[str, Any]) -> None:
    check_schema(SCHEMA)
    with pytest.raises(ValidationError):
        check_schema({**SCHEMA, "required": [], **change})


# What is nested


NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"type": "string"}, "description": "Several."},
        "where": {
            "type": "object",
            "additionalProperties": {
                "anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]
            },
            "description": "Conditions.",
        },
        "item": {**json_schema(NewDocument), "description": "A record."},
    },
    "required": [],
    "additionalProperties": False,
}


def test_lists_and_objects_are_read_in_depth() -> None:
    check_schema(NESTED)
    given: dict[str, Any] = {
        "tags": ["a", "b"],
        "where": {"x": 1.0, "y": [2, 3.0]},
        "item": {"name": "a", "content": "b", "metadata": None, "if_version": 2},
    }
    assert read_arguments("find", NESTED, given) == given
    assert read_arguments("find", NESTED, {"item": given["item"] | {"metadata": {"k": "v"}}})


def test_null_is_as_if_left_out() -> None:
    assert read({"query": "tea", "mode": None, "top_k": None}) == read({"query": "tea"})
    assert (
        refusal({"query": None})
        == refusal({})
        == ("find: the argument 'query' is missing: What to find.")
    )
    assert "no argument" in refusal({"query": "tea", "limit": None})
    item = {"name": "a", "content": "b"}
    left_out = {"tags": None, "where": None, "item": {**item, "parser_sig": None}}
    assert read_arguments("find", NESTED, left_out) == {"item": item}
    kept = {"item": {**item, "metadata": None}}  # null says something there
    assert read_arguments("find", NESTED, kept) == kept
    with pytest.raises(ValidationError, match="lacks 'content'"):
        read_arguments("find", NESTED, {"item": {"name": "a", "content": None}})


@each_row(
    ("given", "said"),
    [
        ({"tags": [None]}, "the argument 'tags'[0] must be a string, or be left out, not null"),
        ({"tags": "a"}, "the argument 'tags' must be a list, not \"a\""),
        ({"tags": ["a", 1]}, "the argument 'tags'[1] must be a string, not 1"),
        ({"tags": ["\ud800"]}, "the argument 'tags'[0] holds a lone surrogate"),
        ({"where": []}, "the argument 'where' must be an object, not []"),
        (
            {"where": {"x": "1"}},
            "the argument 'where'['x'] must be a whole number or a list, not \"1\"",
        ),
        ({"where": {"x": None}}, "a whole number or a list, or be left out, not null"),
        ({"item": {"name": "a"}}, "the argument 'item' lacks 'content'"),
        ({"item": {"name": "a", "content": 5}}, "'item'['content'] must be a string, not 5"),
        ({"item": {"name": "a", "content": "b", "x": 1}}, "'item' has no \"x\", its fields are"),
        (
            {"item": {"name": "a", "content": "b", "metadata": {"k": None}}},
            "'item'['metadata']['k'] must be a string or true or false or a number or an object "
            "with $date or a list, or be left out, not null",
        ),
    ],
)
def test_a_fault_in_depth_is_reported_by_its_place(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        read_arguments("find", NESTED, given)
    assert said in str(raised.value)


@each_row(
    "nested",
    [
        {"type": "array", "items": {"type": "string", "pattern": "x"}},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "date"}},
        {"anyOf": [{"type": "string"}, {"type": "string", "format": "date"}]},
    ],
)
def test_a_nested_schema_that_would_not_be_honoured_is_refused(nested: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        check_schema({**NESTED, "properties": {"a": {**nested, "description": "x"}}})


SIGS = ("chunker_sig", "prompt_sig", "embed_sig", "input_sig")


def test_the_schema_of_a_record_says_what_is_read_as_one() -> None:
    assert json_schema(DerivedSig) == {
        "type": "object",
        "properties": {
            "source_version": {"type": "integer"},
            **{name: {"type": "string"} for name in SIGS},
        },
        "required": [],
        "additionalProperties": False,
    }
    assert json_schema(Layer) == {"type": "string", "enum": ["L0", "L1", "L2"]}
    with pytest.raises(TypeError, match="no JSON Schema"):
        json_schema(object)
