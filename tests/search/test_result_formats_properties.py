"""Any content comes through each format, whole and well-formed."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from triptych import Hit, Layer, Result
from triptych.records import DerivedSig
from triptych.search.result_formats import format_json, format_text, format_xml

pytestmark = pytest.mark.property

SPECIAL = "\0\x0b\x1b\r\n\t\x85\u2028\ufffe\uffff\U0010ffff<>&\"']/-!;#0"
TEXT = st.text(st.sampled_from(SPECIAL) | st.characters(exclude_categories=["Cs"]), max_size=10)
HITS = st.lists(
    st.builds(
        Hit,
        dataset_id=TEXT,
        doc_name=TEXT,
        layer=st.sampled_from([*Layer, None]),
        content=TEXT,
        score=st.floats(-1, 100),
        chunk_index=st.integers(-1, 9),
        sig=st.builds(DerivedSig, source_version=st.integers(0, 10**9)),
        metadata=st.fixed_dictionaries({}, optional={"category": TEXT}),
        heading_path=st.lists(TEXT, max_size=3).map(tuple),
        start_line=st.integers(1, 99),
        stale=st.sampled_from([None, "source", "input"]),
        window=st.none() | TEXT,
    ),
    max_size=3,
)


def in_xml(text: str) -> str:
    """``text`` as XML 1.0 can hold it, character by character."""

    def allowed(character: str) -> bool:
        code = ord(character)
        return (
            code in (9, 10, 13)
            or 0x20 <= code <= 0xD7FF
            or 0xE000 <= code <= 0xFFFD
            or code >= 0x10000
        )

    return "".join(each if allowed(each) else "\ufffd" for each in text)


@settings(max_examples=examples(120), deadline=None)
@given(HITS)
def test_xml_parses_and_says_everything(hits: list[Hit]) -> None:
    root = ElementTree.fromstring(format_xml(Result(hits=tuple(hits))))
    assert root.tag == "retrieved_context"
    assert [element.tag for element in root] == ["document"] * len(hits)
    for hit, element in zip(hits, root, strict=True):
        shown = hit.content if hit.window is None else hit.window
        assert element.text == "\n" + re.sub("\r\n?", "\n", in_xml(shown)) + "\n"
        about = element.attrib
        assert about["source"] == in_xml(hit.doc_name)
        assert about.get("section", "") == in_xml(" > ".join(hit.heading_path))
        assert about.get("category", "") == in_xml(hit.metadata.get("category", ""))
        assert about["version"] == str(hit.sig.source_version)
        assert about.get("stale") == hit.stale
        assert float(about["score"]) == round(hit.score, 4)
        assert ("lines" in about) == (hit.layer in (None, Layer.DETAIL))


@settings(max_examples=examples(40), deadline=None)
@given(HITS)
def test_json_parses_to_what_went_in(hits: list[Hit]) -> None:
    value = json.loads(format_json(hits))
    assert [(each["content"], each["window"], each["doc_name"]) for each in value["hits"]] == [
        (hit.content, hit.window, hit.doc_name) for hit in hits
    ]
    assert [each["score"] for each in value["hits"]] == [hit.score for hit in hits]


@settings(max_examples=examples(40), deadline=None)
@given(HITS)
def test_text_has_a_line_for_each_hit_and_no_control_character(hits: list[Hit]) -> None:
    text = format_text(hits)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    for rank, hit in enumerate(hits, start=1):
        assert f"{rank}. " in text
        assert f"score {hit.score:.4f}" in text
