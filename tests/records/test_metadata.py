"""Metadata values: which are taken, and that they come back as they were."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from enum import IntEnum
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given

from support.rows import each_row
from triptych.errors import ValidationError
from triptych.records import (
    NewDocument,
    check_metadata,
    comparison_key,
    metadata_from_plain,
    metadata_to_plain,
    same_metadata,
)
from triptych_testing.filter_oracle import METADATA


@given(METADATA)
def test_json_holds_every_value_and_its_type(metadata: Any) -> None:
    text = json.dumps(metadata_to_plain(metadata), allow_nan=False)
    back = metadata_from_plain(json.loads(text))
    assert repr(back) == repr(metadata)
    assert same_metadata(back, metadata)
    assert NewDocument(name="a", content="", metadata=metadata).metadata == metadata


@given(METADATA, METADATA)
def test_the_same_metadata_has_the_same_values_of_the_same_types(left: Any, right: Any) -> None:
    assert same_metadata(left, right) == (repr(sorted(left.items())) == repr(sorted(right.items())))


class Number(IntEnum):
    TWO = 2


class Text(str):
    __slots__ = ()


def test_values_become_plain_ones() -> None:
    berlin = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    given = {"n": Number.TWO, "t": Text("x"), "f": np.float64(0.5), "l": (1, "a"), "z": berlin}
    found = check_metadata(given)
    assert found == given | {"l": [1, "a"]}
    kinds = [type(value) for value in found.values()]
    assert kinds == [int, str, float, list, datetime]
    assert found["z"].tzinfo == timezone(timedelta(hours=2))  # type: ignore[union-attr]
    tagged = {"d": {"$date": "2026-09-01"}, "m": [{"$date": "2026-09-01T10:00:00+00:00"}]}
    assert check_metadata(tagged) == {
        "d": date(2026, 9, 1),
        "m": [datetime(2026, 9, 1, 10, tzinfo=UTC)],
    }


@each_row(
    ("value", "message"),
    [
        (None, "is None: leave the key out"),
        ([None], r"\[0\] is None"),
        ({"a": 1}, "not dict: give each of its entries a separate key"),
        ([[1]], "a list in a list"),
        (b"x", "not bytes"),
        (float("nan"), "a finite number"),
        (float("inf"), "a finite number"),
        (1 << 63, "beyond 64 bits"),
        ("\ud800", "lone surrogate"),
        (["\ud800"], "lone surrogate"),
        ({"$date": "soon"}, "ISO 8601"),
        ({"$date": 5}, "ISO 8601"),
        ({1, 2}, "not set"),
        ([0] * 10_001, "the maximum is 10,000"),
    ],
)
def test_what_is_no_value_is_refused_by_its_key(value: object, message: str) -> None:
    with pytest.raises(ValidationError, match=rf"metadata\['key'\].*{message}|{message}"):
        NewDocument(name="a", content="", metadata={"key": value})  # type: ignore[dict-item]


def test_keys_are_text() -> None:
    with pytest.raises(ValidationError, match="a metadata key must be a string"):
        check_metadata({1: "x"})


def test_only_equal_kinds_have_equal_keys() -> None:
    assert comparison_key(1) == comparison_key(1.0) != comparison_key(True)
    assert comparison_key("2024-01-01") != comparison_key(date(2024, 1, 1))
    assert comparison_key(date(2024, 1, 1)) == comparison_key(datetime(2024, 1, 1, tzinfo=UTC))
    assert comparison_key([1, True]) != comparison_key([True, 1])
