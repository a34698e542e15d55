"""Front matter is metadata with its types, and what only looks like it is text."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from support.rows import each_row
from triptych.parsing import MarkdownParser, TextParser, front_matter
from triptych.records import NewDocument


def _notes(text: str) -> tuple[str, ...]:
    parsed = MarkdownParser().parse("a.md", text.encode())
    assert parsed is not None
    assert parsed.content == text
    return parsed.notes


def test_front_matter_keeps_lists_numbers_booleans_and_dates() -> None:
    text = (
        "---\ntitle: 'Retry: limits'\ntags: [a, b]\nyear: 2024\nrating: -4.5\nstub: true\n"
        "empty:\nnothing: ~\nnone: []\nauthor:\n  name: Ada\ndate: 2024-05-01\n"
        "triptych:\n  sync_root: forged\ntriptych.sync_root: forged\nitems:\n- one\n- 2\n-\n"
        "---\n# Text\n"
    )
    assert front_matter(text) == {
        "title": "Retry: limits",
        "tags": ["a", "b"],
        "year": 2024,
        "rating": -4.5,
        "stub": True,
        "author.name": "Ada",
        "date": date(2024, 5, 1),
        # The user's words: what Triptych keeps itself is not in the metadata.
        "triptych.sync_root": "forged",
        "items": ["one", 2],
    }
    assert front_matter("---\ntitle: alone\n---") == {"title": "alone"}
    assert front_matter("---\ntitle: alone\n...\ntext") == {"title": "alone"}
    toml = (
        '+++\r\ntitle = "Über"\r\ndraft = false\r\ndate = 2024-05-01\r\nat = 07:30:00\r\n'
        'weight = 1.10\r\ntags = ["a", "b"]\r\n[extra]\r\nlang = "de"\r\n+++\r\ntext'
    )
    assert front_matter(toml) == {
        "title": "Über",
        "draft": False,
        "date": date(2024, 5, 1),
        "at": "07:30:00",
        "weight": 1.1,
        "tags": ["a", "b"],
        "extra.lang": "de",
    }


@each_row(
    "written",
    [
        *("no", "yes", "on", "off", "y", "NO"),  # YAML 1.1 makes booleans of these
        *("1.10", "3.10", "2.50", "007", "02134", "0x1F", "0o17", "1_000", "+5", "-0", ".5", "1e5"),
        *("1:30", "12:30:45", "190:20:30", "99999999999999999999", ".inf", ".nan"),
        *("2024-13-45", "2024-1-5", "2024-05", "2024-05-01 9:30", "1.2.3", "2024-05-01T25:00"),
    ],
)
def test_a_value_that_would_change_as_another_type_is_text_as_written(written: str) -> None:
    assert front_matter(f"---\nkey: {written}\n---\n") == {"key": written}


@each_row(
    ("written", "value"),
    [
        ("True", True),
        ("FALSE", False),
        ("0", 0),
        ("3.9", 3.9),
        ("2024-05-01T10:00", datetime(2024, 5, 1, 10)),
        ("2024-05-01 10:00:30Z", datetime(2024, 5, 1, 10, 0, 30, tzinfo=UTC)),
        (
            "2015-10-01 01:00:00 +0200",
            datetime(2015, 10, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        ),
        ('"2024"', "2024"),
        ("'true'", "true"),
        ("!!str 2024", "2024"),
    ],
)
def test_a_value_is_what_a_person_means(written: str, value: object) -> None:
    found = front_matter(f"---\nkey: {written}\n---\n")["key"]
    assert (found, type(found)) == (value, type(value))


def test_a_title_a_kind_and_a_category_are_text() -> None:
    text = "---\ntitle: 1984\nkind: true\ncategory: 2024-01-05\n---\n"
    assert front_matter(text) == {"title": "1984", "kind": "true", "category": "2024-01-05"}
    assert front_matter("---\ntitle: [Draft, 2]\n---\n") == {"title": "Draft, 2"}
    assert front_matter("+++\ntitle = 1984\n+++\n") == {"title": "1984"}


def test_mappings_and_lists_in_lists_become_plain_lists() -> None:
    text = (
        "---\nauthors:\n- name: Ada\n  born: 1815\n- name: Alan\n- solo\n"
        "grid: [[1, 2], [three]]\nbase: &base {a: 1}\nmore: *base\n---\n"
    )
    assert front_matter(text) == {
        "authors.name": ["Ada", "Alan"],
        "authors.born": [1815],
        "authors": ["solo"],
        "grid": [1, 2, "three"],
        "base.a": 1,
        "more.a": 1,
    }


@each_row(
    "text",
    [
        "",
        "---",
        "---\n",
        "# Heading\n\n---\na: b\n---\n",
        "---\nnever closed: yes\n",
        "---\n: : : [\n---\n",
        "---\n- a list\n---\n",
        "---\n" + "[" * 500 + "\n---\n",
        "--- \ntext that goes on\n\n---- \n",
        "+++\na = 1\n...\n",
    ],
)
def test_what_is_no_front_matter_says_nothing(text: str) -> None:
    assert front_matter(text) == {}
    assert _notes(text) == ()


@each_row(
    ("body", "line", "metadata"),
    [
        ("tags: [a]\ncreated: {{date}}\n", 3, {"tags": ["a"], "created": "{{date}}"}),
        ("title: Foo: bar\nyear: 2020\n", 2, {"title": "Foo: bar", "year": 2020}),
        ('year: 2020\ntitle: "Foo\n', 3, {"year": 2020, "title": '"Foo'}),
        (
            "year: 2020\n\n# a comment\nat: @home # there\n",
            5,
            {"year": 2020, "at": "@home # there"},
        ),
        ("year: 2020\ntags:\n\t- a\n", 4, {"year": 2020}),
        ("\ttitle: x\n", 2, {}),
        ("some: text: here\nand prose without an end\n", 2, {}),
    ],
)
def test_broken_yaml_is_named_and_its_whole_entries_are_taken(
    body: str, line: int, metadata: dict[str, object]
) -> None:
    for ends in ("\n", "\r\n"):
        text = f"---\n{body}---\n# Text\n".replace("\n", ends)
        assert front_matter(text) == metadata
        (note,) = _notes(text)
        assert note.startswith(f"'a.md': front matter is not valid YAML at line {line}: ")
        assert ("so it is not metadata" in note) == (not metadata)
        assert ("without tags" in note) == ("tags:\n\t" in body)
    parsed = TextParser().parse("a.txt", text.encode())
    assert parsed is not None
    assert parsed.notes == (note.replace("a.md", "a.txt"),)


@each_row(
    ("text", "note"),
    [
        ("+++\nno toml here\n+++\n", r"is not valid TOML: Expected '=' .*line 2.*not metadata"),
        ("+++\na = " + "[" * 9000 + "\n+++\n", "not valid TOML: it nests too deep"),
        ("---\na: {b: {c: {d: {e: {f: {g: 1}}}}}}\n---\n", r"nests too deep at a\.b\.c\.d\.e\.f,"),
        ("---\na: [" + "1, " * 2000 + "]\n---\n", "more than 1,000 values"),
        ("---\na: b\n---\nx: {{y}}\n", ""),
    ],
)
def test_what_is_not_metadata_is_named(text: str, note: str) -> None:
    notes = _notes(text)
    assert len(notes) == bool(note)
    assert all(re.search(note, each) for each in notes)


def _bomb(levels: str) -> str:
    text = f"{levels[0]}: &{levels[0]} [x,x,x,x,x,x,x,x,x]\n"
    for here, below in zip(levels[1:], levels, strict=False):
        text += f"{here}: &{here} [{','.join(['*' + below] * 9)}]\n"
    return f"---\n{text}---\n"


@each_row(
    "text",
    [
        _bomb("abcdefgh"),
        "---\na: &a [*a, *a, *a]\n---\n",
        "---\na: &a {"
        + ", ".join(f"k{n}: ''" for n in range(2000))
        + "}\nb: {"
        + ", ".join(f"k{n}: *a" for n in range(2000))
        + "}\n---\n",
        # The time and memory of tomllib grow with the square of the parts of a key.
        "+++\n" + "a." * 30_000 + "a = 1\n+++\n",
        "+++\n['a'." + ' "b" .' * 9_000 + "c]\n+++\n",
        "+++\nx = {" + "a.a." * 15_000 + "a = 1}\n+++\n",
        "---\n" + "a: b: c\n" * 8_000 + "---\n",
    ],
)
def test_front_matter_that_multiplies_itself_stays_small(text: str) -> None:
    start = time.monotonic()
    assert len(str(front_matter(text))) < 20_000
    assert time.monotonic() - start < 10
    assert _notes(text)


@given(st.text())
def test_any_text_has_front_matter_that_can_be_stored(text: str) -> None:
    for written in (f"---\n{text}\n---\n", f"---\na: {text}\n---\n", f"+++\n{text}\n+++\n"):
        NewDocument(name="a.md", content="", metadata=front_matter(written))


@given(st.from_regex(r"[-+]?[0-9_.:xoTZe -]{1,20}", fullmatch=True))
def test_a_number_or_time_is_written_as_before(text: str) -> None:
    value = front_matter(f"---\nkey: {text}\n---\n").get("key", "")
    if isinstance(value, int | float):
        assert str(value) == text.strip()


@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("[cooking/baking]", ["cooking/baking", "cooking"]),
        ("[a/b/c, a, d]", ["a/b/c", "a", "d", "a/b"]),
        ("bread, iron", ["bread", "iron"]),
        ('"bread, #iron,"', ["bread", "iron"]),
        ("bread", "bread"),
        ("[2024, tea]", [2024, "tea"]),
    ],
)
def test_tags_are_read_as_obsidian_does(written: str, tags: object) -> None:
    assert front_matter(f"---\ntags: {written}\n---\n") == {"tags": tags}


def test_a_tag_of_many_parts_brings_few() -> None:
    tags = front_matter(f"---\ntags: {'a/' * 20_000}z\n---\n")["tags"]
    assert isinstance(tags, list)
    assert len(tags) < 10
