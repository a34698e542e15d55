"""Records as plain data: what goes out comes back, and damage is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from support.rows import each_row
from triptych.errors import (
    ConflictError,
    DeletionHeldError,
    DerivationError,
    ModelMismatchError,
    RateLimitedError,
    StoreError,
    StoreLockedError,
    TriptychError,
    UnusableAnswerError,
    ValidationError,
)
from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    Failure,
    Hit,
    Layer,
    NewDocument,
    PutReport,
    Result,
    SourceDocument,
)
from triptych.records.serialization import from_dict, to_dict
from triptych_backends.memory import ChunkSetState, DatasetState
from triptych_testing.filter_oracle import METADATA

pytestmark = pytest.mark.property

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WHOLE = st.integers(0, 2**40)
VECTORS = st.none() | arrays.arrays(
    np.float32, st.integers(0, 5), elements=st.floats(-4, 4, width=32)
)
SIGS = st.builds(DerivedSig, source_version=WHOLE, chunker_sig=TEXT, input_sig=TEXT)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=-3, minutes=30))])
DOCUMENTS = st.builds(
    SourceDocument,
    dataset_id=TEXT,
    name=TEXT,
    content=TEXT,
    metadata=METADATA,
    version=WHOLE,
    updated_at=st.datetimes(timezones=ZONES),
)
LAYERS = st.builds(
    DerivedLayer,
    dataset_id=TEXT,
    doc_name=TEXT,
    layer=st.sampled_from(Layer),
    content=TEXT,
    sig=SIGS,
    vector=VECTORS,
    stale=st.sampled_from([None, "source", "prompt"]),
)


@st.composite
def chunks(draw: st.DrawFn) -> DerivedChunk:
    content, start = draw(TEXT), draw(WHOLE)
    return DerivedChunk(
        dataset_id=draw(TEXT),
        doc_name=draw(TEXT),
        index=draw(WHOLE),
        start=start,
        end=start + len(content),
        offset=draw(WHOLE),
        start_line=1,
        content=content,
        sig=draw(SIGS),
        vector=draw(VECTORS),
        heading_path=draw(st.lists(TEXT, max_size=3).map(tuple)),
        window_start=draw(st.none() | WHOLE),
        locator=draw(st.none() | TEXT),
    )


STATES = st.builds(
    DatasetState,
    exists=st.booleans(),
    config=st.none() | st.builds(DatasetConfig, chunker_sig=TEXT),
    documents=st.dictionaries(TEXT, DOCUMENTS, max_size=2),
    sets=st.dictionaries(
        TEXT,
        st.builds(ChunkSetState, sig=SIGS, chunks=st.lists(chunks(), max_size=2).map(tuple)),
        max_size=2,
    ),
    layers=st.dictionaries(
        TEXT,
        st.dictionaries(st.sampled_from(Layer), LAYERS, max_size=2),
        max_size=2,
    ),
)


@given(st.one_of(DOCUMENTS, LAYERS, chunks(), STATES))
def test_records_come_back_from_json_as_they_were(record: Any) -> None:
    text = json.dumps(to_dict(record), allow_nan=False)
    back = from_dict(type(record), json.loads(text))
    assert back == record
    assert json.dumps(to_dict(back)) == text


def test_vectors_come_back_bit_for_bit_and_read_only() -> None:
    vector = np.array([0.1, -0.0, np.inf, 1e-45], np.float32)
    sig = DerivedSig()
    made = DerivedLayer(dataset_id="d", doc_name="", layer="L0", content="", sig=sig, vector=vector)
    plain = to_dict(made)
    assert plain["vector"] == "zczMPQAAAIAAAIB/AQAAAA=="
    back = from_dict(DerivedLayer, plain).vector
    assert back is not None
    assert (back.dtype, back.tobytes()) == (np.float32, vector.tobytes())
    assert not back.flags.writeable


def test_what_a_record_holds_stays_its_own() -> None:
    document = NewDocument(name="a", content="", metadata={"k": "v"})
    plain = to_dict(document)
    plain["metadata"]["k"] = "other"
    assert document.metadata == {"k": "v"}
    back = from_dict(NewDocument, plain)
    plain["metadata"]["k"] = "third"
    assert back.metadata == {"k": "other"}


def test_nested_records_of_results_are_taken() -> None:
    hit = Hit(dataset_id="d", doc_name="a", layer=None, content="x", score=1, sig=DerivedSig())
    result = Result(hits=(attrs.evolve(hit, scores={"bm25": 0.5}, terms=("x",)),), warnings=("w",))
    assert from_dict(Result, to_dict(result)) == result


def test_missing_fields_get_their_defaults() -> None:
    assert from_dict(DatasetConfig, {"chunker_sig": "c"}) == DatasetConfig(chunker_sig="c")
    assert from_dict(DatasetState, {}) == DatasetState()


SOURCE: dict[str, Any] = {
    "dataset_id": "d",
    "name": "a",
    "content": "x",
    "metadata": {},
    "version": 1,
    "updated_at": "2026-01-01T00:00:00+00:00",
}
GOOD: dict[str, Any] = {
    "dataset_id": "d",
    "name": "a",
    "metadata": {"k": "v"},
    "version": 1,
    "updated_at": "2026-01-01T00:00:00+00:00",
    "content_sha256": "",
    "size": 0,
    "input_sig": "",
}


@each_row(
    ("change", "message"),
    [
        ({"version": "1"}, "version: a whole number belongs here, not '1'"),
        ({"version": True}, "version: a whole number belongs here, not True"),
        ({"version": None}, "version: a whole number belongs here, not None"),
        ({"name": 5}, "name: text belongs here, not 5"),
        ({"updated_at": "noon"}, "updated_at: a time in ISO 8601 belongs here, not 'noon'"),
        ({"updated_at": 5}, "updated_at: a time in ISO 8601 belongs here, not 5"),
        ({"metadata": []}, r"metadata: an object belongs here, not \[\]"),
        (
            {"metadata": {"k": None}},
            "metadata: .* is None: leave the key out where .*",
        ),
        ({"metadata": {"k": {"$date": "x"}}}, "metadata: .* holds a time in ISO 8601, .*"),
        ({"colour": "red"}, "a DocumentInfo has no field 'colour'"),
    ],
)
def test_damage_is_named(change: Mapping[str, Any], message: str) -> None:
    assert from_dict(DocumentInfo, GOOD).version == 1
    with pytest.raises(ValidationError, match=f"^{message}$"):
        from_dict(DocumentInfo, {**GOOD, **change})


def test_damage_deep_inside_is_named() -> None:
    def refused(plain: object, message: str) -> None:
        with pytest.raises(ValidationError, match=message):
            from_dict(DatasetState, plain)

    chunk = {"dataset_id": "d", "doc_name": "a", "index": 0, "start": 0, "end": 1, "offset": 0}
    chunk |= {"start_line": 1, "content": "x", "sig": {}}
    for damage, message in (
        ({"end": 7}, "spans 0:7 but holds 1 code points"),
        ({"vector": "AAA"}, "vector: float32 in base64 belong here, not 'AAA'"),
        ({"vector": "AAA="}, "vector: float32 in base64 belong here"),
        ({"vector": 5}, "vector: float32 in base64 belong here"),
        ({"heading_path": "H"}, "heading_path: a list belongs here, not 'H'"),
        ({"heading_path": ["H", 1]}, "heading_path: 1: text belongs here, not 1"),
    ):
        sets = {"a": {"sig": {}, "chunks": [chunk | damage]}}
        refused({"sets": sets}, f"^sets: a: chunks: 0: .*{message}")
    refused({"sets": {"a": {"sig": {}}}}, "^sets: a: chunks of a ChunkSetState is missing$")
    refused({"layers": {"a": {"L7": {}}}}, "^layers: a: one of 'L0', 'L1', 'L2' belongs here")
    refused([], r"^an object belongs here, not \[\]$")


@attrs.frozen
class Odd:
    names: set[str]


def test_what_has_no_plain_form_is_refused() -> None:
    with pytest.raises(TypeError, match="a set has no plain form"):
        to_dict({"a": {1}})
    with pytest.raises(TypeError, match="a ndarray has no plain form"):
        to_dict(np.zeros(3))
    with pytest.raises(TypeError, match="no plain form"):
        from_dict(Odd, {})


@each_row(
    "error",
    [
        ValidationError("a"),
        ConflictError("b", expected=3, actual=0),
        ModelMismatchError("c", stored="x", configured="y"),
        StoreError("d", errors=[StoreLockedError("e").hinted("wait")]),
        RateLimitedError("f", retry_after=1.5),
        UnusableAnswerError("g", reason="empty"),
        DeletionHeldError("h", names=["a.md"], documents=4),
        DerivationError("i", document=from_dict(SourceDocument, SOURCE)),
    ],
)
def test_errors_come_back_with_what_they_say(error: TriptychError) -> None:
    plain = json.loads(json.dumps(to_dict(error)))
    back: Any = from_dict(Exception, plain)
    assert type(back) is type(error)
    assert to_dict(back) == plain
    assert str(back) == str(error)
    assert back.hint == error.hint


def test_an_error_of_another_kind_keeps_its_name() -> None:
    back = from_dict(Exception, to_dict(KeyError("k")))
    assert type(back) is TriptychError
    assert str(back) == "KeyError: 'k'"
    for damage in ({}, [], {"type": "StoreError"}, {"type": 5, "message": "x"}):
        with pytest.raises(ValidationError):
            from_dict(Exception, damage)
    with pytest.raises(ValidationError, match="document: "):
        from_dict(Exception, {"type": "DerivationError", "message": "", "document": {}})


def test_reports_come_back_with_their_failures() -> None:
    failed = (Failure(dataset_id="d", name="a", error=ConflictError("x", expected=1, actual=2)),)
    back = from_dict(PutReport, to_dict(PutReport(added=1, failed=failed)))
    assert to_dict(back) == to_dict(PutReport(added=1, failed=failed))
    assert isinstance(back.failed[0].error, ConflictError)
    assert from_dict(list[str], ["a"]) == ["a"]
