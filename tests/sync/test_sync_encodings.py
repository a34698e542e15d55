"""Encodings are told apart, and binary data from text."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest
from hypothesis import given, strategies as st

from triptych.sync import decode_text, front_matter

GERMAN = "Die Übung für Müller: größer, schöner, Öl. Äpfel übrig; straße.\n"
FRENCH = "Voilà l'été à Orléans: déjà vu, façade, où, naïve, cœur sacré.\n"
CHINESE = "知识库把文档分成若干段落，然后为每一段建立索引。查询时返回最相关的段落。\n"
MIXED = "# 安装 install\n\nRun `pip install` 然后打开浏览器。\n"
RUSSIAN = "Документы и поиск по ним.\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "utf-8"),
        (CHINESE, "utf-8"),
        ("\N{ROCKET} to the moon", "utf-8"),
        (GERMAN, "utf-8-sig"),
        (GERMAN, "utf-16"),
        (CHINESE, "utf-16"),
        (GERMAN, "utf-16-le"),
        (GERMAN, "utf-16-be"),
        (MIXED, "utf-16-le"),
        (MIXED, "utf-16-be"),
        (RUSSIAN, "utf-16-le"),
        (CHINESE, "utf-32"),
        (CHINESE, "gb18030"),
        (MIXED, "gb18030"),
        ("短", "gb18030"),
        (GERMAN, "latin-1"),
        ("Müller", "latin-1"),
        ("été", "latin-1"),
        (FRENCH, "cp1252"),
        ("“quoted” – and dashed…", "cp1252"),
        ("", "utf-8"),
    ],
)
def test_text_is_read_in_the_encoding_it_was_written_in(text: str, encoding: str) -> None:
    assert decode_text(text.encode(encoding)) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (CHINESE.encode()[:-2], CHINESE[:-2] + "\xe3\u20ac"),
        (CHINESE.encode() + "café".encode("latin-1"), CHINESE + "café"),
        ("“quoted” ".encode("cp1252") + CHINESE.encode(), "“quoted” " + CHINESE),
        (GERMAN.encode() * 3 + b"\x81\xff", GERMAN * 3 + "\x81\xff"),
    ],
)
def test_a_few_bytes_that_are_no_utf8_do_not_garble_the_rest(data: bytes, text: str) -> None:
    assert decode_text(data) == text


def test_chinese_is_told_far_behind_the_beginning() -> None:
    text = "plain English\n" * 6000 + CHINESE
    assert decode_text(text.encode("gb18030")) == text


def test_a_mark_that_names_utf16_is_no_part_of_the_text() -> None:
    assert decode_text(b"\xfe\xff" + "a".encode("utf-16-be")) == "a"


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7\nno NUL anywhere",
        gzip.compress(b"x", mtime=0),
        b"\x89PNG\r\n\x1a\n",
        bytes(range(256)),
        struct.pack("<64h", *range(64)),
        zlib.compress(bytes(range(200)) * 20),
        b"\0",
        b"text\0with a NUL",
        b"text\0with a NUL, and of even length, too",
        b"\xff\xfe\0\xd8",  # half of a surrogate pair
    ],
)
def test_binary_data_is_no_text(data: bytes) -> None:
    assert decode_text(data) is None


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_all_of_utf8_comes_back(text: str) -> None:
    read = decode_text(text.encode())
    assert read is None or read == text.removeprefix("\ufeff")


@given(st.binary(max_size=300))
def test_any_bytes_give_text_that_can_be_stored_or_none(data: bytes) -> None:
    read = decode_text(data)
    assert read is None or read.encode("utf-8").decode() == read


def test_front_matter_is_told_as_strings() -> None:
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
