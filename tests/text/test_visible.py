"""What readers do not see is shown by its number, and a text cannot imitate a line of a diff."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime

import attrs
from hypothesis import example, given, strategies as st

from triptych.derivation.versions import unified_diff as document_diff
from triptych.records import SourceDocument, SystemData
from triptych.text import diff_lines, unified_diff, visible

UNSEEN = (
    "\v\f\r\x00\x1b\x1c\x1d\x1e\x85\u2028\u2029\u200b\u202e\u2066\ufeff\u00a0\u00ad\u3164\ufe0f"
)
UNSEEN += "\U0001d159\U00016fe4\U00013441\U00013442\U0001bc9d\U000e0041\u034f\u115f\u2800\ud800"
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp")  # "Cn" depends on the version of Unicode
HOSTILE = st.text(st.sampled_from(f"ab \t\n-+@\\\u2039U{UNSEEN}") | st.characters())
LINES = st.lists(
    st.sampled_from(
        ["same", "-- a.md (version 1)", "++ a.md (version 2)", "@@ -1 +1 @@", "+x", "-x", "\\ No"]
    ),
    max_size=12,
).map("\n".join)
PLAIN = SourceDocument(
    dataset_id="d",
    name="a.md",
    content="",
    metadata={},
    version=1,
    updated_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def read(shown: str) -> str:
    return re.sub(r"‹U\+([0-9A-F]{4,6})›", lambda found: chr(int(found[1], 16)), shown)


@given(HOSTILE)
@example("\u2039U+202E\u203a \u202e ‹")
@example("\U0001d159\U00016fe4\U00013441\U00013442\U0001bc9d")
@example("ends in blanks \t ")
def test_what_is_shown_is_the_whole_text_and_all_of_it_is_seen(text: str) -> None:
    shown = visible(text)
    assert read(shown) == text
    assert shown == shown.rstrip(" \t")
    for each in shown:
        assert each in " \t" or unicodedata.category(each) not in HIDDEN, hex(ord(each))
    assert not set(shown) & set(UNSEEN)


def test_ordinary_text_is_shown_as_it_is() -> None:
    for text in ("# Tea: 2 min, „grün“ – ok\tyes", "緑茶は二分。", "שלום العربية", "é e\u0301 👍"):
        assert visible(text) == text


@given(LINES | HOSTILE, LINES | HOSTILE)
@example("-- a\n", "++ b\n")
def test_the_lines_of_a_difference_are_those_of_the_texts(old: str, new: str) -> None:
    def lines(text: str) -> list[str]:
        return re.findall(r"[^\n]*\n|[^\n]+", text)

    shown = list(diff_lines(unified_diff(lines(old), lines(new), "a", "b")))
    for kind, text in (("removed", old), ("added", new)):
        changed = [read(line[1:]) for of, line in shown if of == kind]
        there = iter([each.removesuffix("\n") for each in lines(text)])
        assert all(each in there for each in changed)
    assert [line for of, line in shown if of == "file"] == (["--- a", "+++ b"] if shown else [])
    counts = {of: sum(kind == of for kind, _ in shown) for of in ("added", "removed")}
    assert counts["added"] - counts["removed"] == len(lines(new)) - len(lines(old))


def test_each_field_of_a_document_is_a_line_that_no_metadata_imitates() -> None:
    end = datetime(2026, 12, 1, tzinfo=UTC)
    system = SystemData(expires_at=end, sync_root="r", outline="o\n+$expires_at: 'never'")
    full = attrs.evolve(PLAIN, system=system, original_sha256="f" * 64, parser_sig="p", version=2)
    shown = document_diff(PLAIN, full, whole=True)
    for field in ("expires_at", "sync_root", "outline", "original_sha256", "parser_sig"):
        assert f"+${field}: " in shown
    assert shown.count("\n+$expires_at") == 1
    assert "+$expires_at: '2026-12-01" in document_diff(PLAIN, full)
    assert "$outline" not in document_diff(PLAIN, full)
    forged = {"$expires_at": "x", "a\n+b": 1, "a: 1, b": 2}
    added = document_diff(PLAIN, attrs.evolve(PLAIN, metadata=forged), whole=True)
    assert added.split("\n")[3:-1] == ["+'$expires_at': 'x'", "+'a\\n+b': 1", "+'a: 1, b': 2"]
