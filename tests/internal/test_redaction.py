"""What is shown of URLs and of texts that quote a key."""

from __future__ import annotations

from hypothesis import given, strategies as st

from support.rows import each_row
from triptych.resources import shown_url, without_secrets
from triptych_providers.errors import shown

KEY = "sk-SeCrEt0123456789abcdefXYZ"


@each_row(
    ("url", "shown"),
    [
        ("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"),
        ("http://u:pw@host/v1", "http://***@host/v1"),
        ("http://u:pw@h:abc", "http://***@h:abc"),
        ("http://u:p/w@h/a", "http://***@h/a"),
        ("http://u:p?w@h", "http://***"),
        ("http://h/?a=b@c&key=pw", "http://***"),
        ("u:pw@host", "***@host"),
        ("http:u:pw@host", "***@host"),
        ("http://h/v1?key=pw", "http://h/v1?key=***"),
        ("http://h/v1?key=pw&b;c=pw", "http://h/v1?key=***&***;c=***"),
        ("http://h/v1?pw", "http://h/v1?***"),
        ("http://h/v1?key=p=w", "http://h/v1?key=***"),
        ("http://h/#pw", "http://h/#***"),
        ("files:///home/a@b/kb", "files:///home/a@b/kb"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_user_and_no_value_of_a_query_is_shown(before: str, behind: str) -> None:
    assert KEY not in shown_url(f"http://{before.replace('/', '')}{KEY}@{behind}")
    assert KEY not in shown_url(f"http://h/{before}?{behind}={KEY}")


@given(
    st.integers(0, len(KEY) - 8),
    st.integers(8, len(KEY)),
    st.text(alphabet="ÿ \n'", max_size=20),
    st.text(alphabet="ÿ \n'", max_size=20),
)
def test_no_run_of_a_key_is_left(start: int, size: int, before: str, behind: str) -> None:
    part = KEY[start : start + size]
    left = without_secrets(before + part + behind, [KEY])
    assert left.startswith(before)
    assert "[key]" in left
    assert not any(KEY[at : at + 8] in left for at in range(len(KEY) - 7))


@each_row("mask", ["****", "...", "…", "••••"])
def test_a_masked_key_is_not_left(mask: str) -> None:
    said = f"bad key: {KEY[:6]}{mask}{KEY[-4:]}. Look at it"
    assert without_secrets(said, [KEY]) == "bad key: [key] Look at it"
    assert without_secrets(f"wait{mask} then go", [KEY]) == f"wait{mask} then go"


def test_a_short_key_is_replaced_whole() -> None:
    assert without_secrets("abc and ab", ["abc", ""]) == "[key] and ab"


def test_a_long_refusal_is_cut_before_it_is_read() -> None:
    said = f"bad key {KEY} " + "x" * 2_000_000
    assert shown(said, [KEY]) == f"bad key [key] {'x' * 286}…"
    # A part of a key at the cut is not left, nor is a masked one.
    for at in range(1 << 14, (1 << 14) - len(KEY), -1):
        for key in (KEY, f"{KEY[:6]}****"):
            said = f"{KEY} " * 500
            said += " " * (at - len(said)) + key + " " + "x" * 99
            assert KEY[:4] not in shown(said, [KEY], most=1 << 14)
