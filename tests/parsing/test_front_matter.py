"""Front matter is metadata, and what only looks like it is text."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from triptych.parsing import front_matter


def test_front_matter_is_reported_as_strings() -> None:
    text = (
        "---\ntitle: 'Retry: limits'\ntags: [a, b]\ndraft: no\nversion: 1.10\nempty:\n"
        "author:\n  name: Ada\ntriptych:\n  sync_root: forged\ntriptych.sync_root: forged\n"
        "items:\n- one\n- two\n---\n# Text\n"
    )
    assert front_matter(text) == {
        "title": "Retry: limits",
        "tags": "a, b",
        "draft": "no",
        "version": "1.10",
        "author.name": "Ada",
        "items": "one, two",
        # The user's words: what Triptych keeps itself is not in the metadata.
        "triptych.sync_root": "forged",
    }
    toml = '+++\r\ntitle = "Über"\r\ndraft = false\r\ndate = 2024-05-01\r\n+++\r\ntext'
    assert front_matter(toml) == {"title": "Über", "draft": "false", "date": "2024-05-01"}
    assert front_matter("---\ntitle: alone\n---") == {"title": "alone"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---",
        "---\n",
        "# Heading\n\n---\na: b\n---\n",
        "---\nnever closed: yes\n",
        "---\n: : : [\n---\n",
        "---\n- a list\n---\n",
        "---\n" + "[" * 5000 + "\n---\n",
        "+++\nno toml here\n+++\n",
        "--- \ntext that goes on\n\n---- \n",
    ],
)
def test_what_is_no_front_matter_says_nothing(text: str) -> None:
    assert front_matter(text) == {}


def test_front_matter_that_multiplies_itself_stays_small() -> None:
    bomb = "---\na: &a [x,x,x,x,x,x,x,x,x]\n"
    for here, below in zip("bcdefgh", "abcdefg", strict=True):
        bomb += f"{here}: &{here} [{','.join(['*' + below] * 9)}]\n"
    assert len(str(front_matter(bomb + "---\n"))) < 1000


@given(st.text())
def test_any_text_has_front_matter_that_can_be_stored(text: str) -> None:
    for key, value in front_matter(f"---\n{text}\n---\n").items():
        assert (key + value).encode("utf-8")
