"""One decoder: encodings are told apart, binary data from text, and a guess is named."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest
from hypothesis import given, strategies as st

from support.rows import each_row
from triptych.errors import ParseError
from triptych.parsing import DecodedText, decode_text

GERMAN = "Die Übung für Müller: größer, schöner, Öl. Äpfel übrig; straße.\n"
FRENCH = "Voilà l'été à Orléans: déjà vu, façade, où, naïve, cœur sacré.\n"
CHINESE = "知识库把文档分成若干段落，然后为每一段建立索引。查询时返回最相关的段落。\n"
MIXED = "# 安装 install\n\nRun `pip install` 然后打开浏览器。\n"
RUSSIAN = "Документы и поиск по ним.\n"


def read(data: bytes, name: str = "a.txt") -> str | None:
    decoded = decode_text(data, name)
    return None if decoded is None else decoded.text


def decoded(data: bytes, name: str = "a.txt") -> DecodedText:
    found = decode_text(data, name)
    assert found is not None
    return found


@each_row(
    ("text", "encoding"),
    [
        (GERMAN, "utf-8"),
        (CHINESE, "utf-8"),
        ("\N{ROCKET} to the moon", "utf-8"),
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
    assert read(text.encode(encoding)) == text


@each_row(
    ("data", "text"),
    [
        (CHINESE.encode()[:-2], CHINESE[:-2] + "\xe3\u20ac"),
        (CHINESE.encode() + "café".encode("latin-1"), CHINESE + "café"),
        ("“quoted” ".encode("cp1252") + CHINESE.encode(), "“quoted” " + CHINESE),
        (GERMAN.encode() * 3 + b"\x81\xff", GERMAN * 3 + "\x81\xff"),
    ],
)
def test_a_few_bytes_that_are_no_utf8_do_not_garble_the_rest(data: bytes, text: str) -> None:
    assert read(data) == text


def test_chinese_is_reported_far_behind_the_beginning() -> None:
    text = "plain English\n" * 6000 + CHINESE
    assert read(text.encode("gb18030")) == text


def test_a_mark_that_names_utf16_is_no_part_of_the_text() -> None:
    assert read(b"\xfe\xff" + "a".encode("utf-16-be")) == "a"


def test_utf8_comes_back_byte_for_byte_with_its_mark() -> None:
    data = b"\xef\xbb\xbf" + GERMAN.encode() + b"\r\n\0"
    assert decoded(data) == DecodedText(text=data.decode())


@each_row(
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
    ],
)
def test_binary_data_is_no_text(data: bytes) -> None:
    assert decode_text(data) is None


@pytest.mark.parametrize("data", [b"\xff\xfe\0\xd8", b"\xfe\xffa", b"\xff\xfe\0\0a"])
def test_what_follows_a_mark_and_is_not_in_its_encoding_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(ParseError, match=r"'a\.txt' begins as UTF-"):
        decode_text(data, "a.txt")


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_all_of_utf8_comes_back(text: str) -> None:
    found = decode_text(text.encode())
    assert found is None or found == DecodedText(text=text)


@given(st.binary(max_size=300))
def test_any_bytes_give_text_that_can_be_stored_or_none(data: bytes) -> None:
    for name in ("a.txt", "a.html", "a.py"):
        try:
            text = read(data, name)
        except ParseError:
            assert data.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"))
        else:
            assert text is None or text.encode("utf-8").decode() == text


# The guesser, measured. "word" is what a short comment or title holds, "line" a sentence, "code" a
# program with one such word, "long" a sentence far behind the beginning of an English text.

WORDS = {
    "simplified": "重试次数",
    "traditional": "重試次數",
    "japanese": "再試行の回数",
    "katakana": "データベース",
    "korean": "재시도 횟수",
    "russian": "Повторы запросов",
    "german": "Müller",
    "french": "été",
    "spanish": "El niño",
}
LINES = {
    "simplified": "知识库把文档分成若干段落，然后为每一段建立索引。查询时返回最相关的段落。",
    "traditional": "知識庫把文件分成若干段落，然後為每一段建立索引。查詢時返回最相關的段落。",
    "japanese": "文書をいくつかの段落に分けて、それぞれに索引を作ります。段落を返します。",
    "katakana": "データベースのインデックス",
    "korean": "문서를 여러 단락으로 나누고 각 단락에 색인을 만듭니다. 관련 있는 단락을 돌려줍니다.",
    "russian": "База знаний делит документы на абзацы и строит для каждого индекс.",
    "german": "Die Übung für Müller: größer, schöner, Öl. Äpfel übrig; straße.",
    "french": "Voilà l'été à Orléans: déjà vu, façade, où, naïve, cœur – c’est dommage.",
    "spanish": "El niño pidió mañana más información sobre la canción, ¿verdad?",
}
MEASURED = [
    ("simplified", "gb18030"),
    ("traditional", "gb18030"),
    ("traditional", "big5"),
    ("japanese", "euc_jp"),
    ("japanese", "shift_jis"),
    ("katakana", "shift_jis"),
    ("korean", "euc_kr"),
    ("russian", "cp1251"),
    ("russian", "koi8_r"),
    ("german", "cp1252"),
    ("french", "cp1252"),
    ("spanish", "cp1252"),
    ("german", "utf-16-le"),
    ("russian", "utf-16-be"),
]
SIZES = {
    "word": "{word}",
    "line": "{line}\n",
    "code": "# config\nkey = value\nprint('hello')\n# {word}\nfor i in range(10): pass\n",
    "long": "Plain English comes before it.\n" * 3000 + "{line}\n",
}


@each_row("size", SIZES)
@each_row(("language", "encoding"), MEASURED)
def test_the_guesser_is_measured(language: str, encoding: str, size: str) -> None:
    text = SIZES[size].format(word=WORDS[language], line=LINES[language])
    found = decoded(text.encode(encoding))
    assert found.text == text
    assert len(found.notes) == 1


@each_row(
    ("text", "encoding", "instead"),
    [
        ("日本語", "euc_jp", "gb18030"),
        ("한국", "euc_kr", "gb18030"),
        ("файл", "cp1251", "gb18030"),
        ("Επανάληψη", "cp1253", "cp1251"),
        ("Größe ÄÖÜäöüß", "cp1252", "cp1253"),
    ],
)
def test_a_word_may_be_too_short_to_tell_and_is_a_guess_all_the_same(
    text: str, encoding: str, instead: str
) -> None:
    found = decoded(text.encode(encoding))
    assert found.encoding == instead
    assert "guess" in found.notes[0]


def test_a_guess_is_named_and_what_is_certain_is_not() -> None:
    (note,) = decoded(CHINESE.encode("gb18030"), "old.txt").notes
    assert note == (
        "'old.txt' does not say its encoding: GB18030 was guessed; save it as UTF-8 if its text "
        "is wrong"
    )
    (note,) = decoded(CHINESE.encode() + b"\xe9 \xe8").notes
    assert note == "'a.txt' is UTF-8 but for 2 bytes, read as windows-1252: save it as UTF-8"
    for data in (CHINESE.encode(), CHINESE.encode("utf-16"), CHINESE.encode("utf-8-sig"), b""):
        assert decoded(data).notes == ()


@each_row(
    ("name", "text", "encoding"),
    [
        ("a.xml", '<?xml version="1.0" encoding="ISO-8859-2"?>\n<a>łódź</a>', "iso8859_2"),
        ("a.html", "<html><meta charset=windows-1250><p>łódź", "cp1250"),
        ("a.html", '<meta charset="iso-2022-jp"><p>日本語', "iso2022_jp"),
        ("page", "<!doctype html><meta charset=euc-jp><p>日本", "euc_jp"),
        ("a.py", "# -*- coding: koi8-r -*-\nname = 'мир'\n", "koi8_r"),
        ("a.py", "#!/usr/bin/python\n# vim: set fileencoding=cp1251 :\n'да'\n", "cp1251"),
    ],
)
def test_what_a_file_declares_is_no_guess(name: str, text: str, encoding: str) -> None:
    found = decoded(text.encode(encoding), name)
    assert (found.text, found.notes) == (text, ())


@each_row(
    ("name", "head"),
    [
        ("a.txt", "# coding: koi8-r\n"),  # not its format
        ("a.py", "\n\n# coding: koi8-r\n"),  # the third line
        ("a.py", "# coding: punycode\n"),
        ("a.py", "# coding: unicode_escape\n"),
        ("a.html", "<meta charset=undefined>"),
        ("a.html", "<meta charset=utf-7>"),
        ("a.html", "<meta charset=utf-8>"),
        ("a.html", "<meta charset=nonsense>"),
    ],
)
def test_what_is_no_declaration_leaves_a_guess(name: str, head: str) -> None:
    text = head + GERMAN
    found = decoded(text.encode("cp1252"), name)
    assert found.text == text
    assert "windows-1252" in found.notes[0] or "ISO-8859-1" in found.notes[0]


def test_utf8_wins_over_a_declaration() -> None:
    text = "<html><meta charset=windows-1252><p>größer"
    assert decoded(text.encode(), "a.html") == DecodedText(text=text)


def test_bytes_that_do_not_fit_a_declaration_are_reported() -> None:
    head = "<html><meta charset=euc-jp>"
    found = decoded((head + "索引を作ります" * 20).encode("euc_jp") + b"\xff", "a.html")
    assert found.text.endswith("\ufffd")
    assert "declares euc_jp" in found.notes[0]
    wrong = decoded((head + LINES["german"]).encode("cp1252"), "a.html")
    assert wrong.text == head + LINES["german"]
