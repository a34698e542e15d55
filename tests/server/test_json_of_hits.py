"""The JSON of what was read: what the standard library writes, by a faster writer."""

from __future__ import annotations

import json
import math
from datetime import UTC
from typing import Any

import pytest

pytest.importorskip("starlette")

from hypothesis import given, strategies as st

from triptych.errors import NotFoundError
from triptych.records import DerivedSig, Failure, Hit, Layer, Result
from triptych.records.serialization import to_json
from triptych_server.http.responses import encoded, encoded_result, public

TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from('\0\x1f\x7f\u2028"\\/'))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.integers() | st.integers(-(2**65), 2**65) | FINITE
VALUES = st.one_of(
    *(TEXT, NUMBERS, st.booleans(), st.dates(), st.datetimes(timezones=st.just(UTC))),
    st.lists(TEXT | NUMBERS, max_size=3),
)
HITS = st.builds(
    Hit,
    dataset_id=TEXT,
    doc_name=TEXT,
    layer=st.sampled_from([*Layer, None]),
    content=TEXT,
    score=FINITE,
    chunk_index=st.integers(0, 2**70),
    sig=st.builds(DerivedSig, input_sig=st.just("i")),
    metadata=st.dictionaries(TEXT, VALUES, max_size=3),
    scores=st.dictionaries(TEXT, FINITE, max_size=2),
    heading_path=st.lists(TEXT, max_size=2).map(tuple),
    terms=st.lists(TEXT, max_size=2).map(tuple),
)
# Half of a pair is no character, but the name of a file may hold one.
FAILURES = st.builds(
    Failure,
    dataset_id=TEXT,
    name=st.text(st.sampled_from("aü\ud800\udfff")),
    error=TEXT.map(NotFoundError),
)
RESULTS = st.builds(Result, hits=st.lists(HITS, max_size=3).map(tuple), exhausted=st.booleans())


def _hit(**fields: Any) -> Hit:
    sig = DerivedSig(input_sig="i")
    return Hit(dataset_id="d", doc_name="a", layer=None, content="", sig=sig, **fields)


@pytest.mark.property
@given(st.one_of(RESULTS, FAILURES, st.lists(HITS | FAILURES, max_size=3)))
def test_the_json_of_what_was_read_says_what_the_standard_library_writes(found: Any) -> None:
    written = encoded_result(found)
    plain = json.loads(encoded(to_json(found, public)))
    assert json.loads(written) == plain
    # The same keys in the same order, and 1 is not 1.0, 0.0 not -0.0.
    assert json.dumps(json.loads(written)) == json.dumps(plain)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["score", "scores", "metadata"])
def test_what_is_no_number_of_json_is_not_written_as_null(number: float, place: str) -> None:
    given = {"score": 1.0, place: number if place == "score" else {"a": number}}
    with pytest.raises(ValueError, match="is no number of JSON"):
        encoded_result(Result(hits=(_hit(**given),)))
    assert to_json(_hit(score=number))["score"] is number
