from __future__ import annotations

import uuid
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples

pytestmark = pytest.mark.property

SECTIONS = st.lists(st.sampled_from(["stone", "river", "amber", "quiet"]), max_size=7)


LONG = " It hung above the door of the inn." * 8
"""Shorter sections would be one chunk."""


def text_of(sections: list[str]) -> str:
    return "".join(f"# Same\n\nThe {word} lantern.{LONG}\n\n" for word in sections)


@settings(max_examples=examples(60), deadline=None)
@given(SECTIONS, SECTIONS)
def test_ids_are_unique_and_stay_with_the_text_whatever_is_edited(first, second) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        found = []
        for sections in (first, second):
            kb.put_document("d", "a.md", text_of(sections))
            hits = kb.search("lantern", dataset_id="d", top_k=50).hits
            assert len(hits) == len(sections)
            ids: dict[str, set[str | None]] = {word: set() for word in sections}
            for hit in hits:
                ids[hit.content.split()[3]].add(hit.chunk_id)
            assert len({hit.chunk_id for hit in hits}) == len(hits)
            assert {word: len(its) for word, its in ids.items()} == Counter(sections)
            found.append(ids)
        before, after = found
        for word in before.keys() & after.keys():
            # Equal texts share ids as far as there are equally many of them.
            fewer, more = sorted((before[word], after[word]), key=len)
            assert fewer <= more


def test_ids_are_uuids_of_version_5_and_never_change() -> None:
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_document("d", "a.md", "# A\n\nA lantern.\n")
        (hit,) = kb.search("lantern", dataset_id="d").hits
        (whole,) = kb.search_documents("lantern", dataset_id="d").hits
    assert whole.chunk_id is None
    assert hit.chunk_id is not None
    assert uuid.UUID(hit.chunk_id).version == 5
    assert hit.chunk_id == "e024b71c-42b4-5474-856f-fe417cf26a68"
