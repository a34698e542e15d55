"""What an extractive abstract and overview are made of."""

from __future__ import annotations

import pytest

from support.rows import each_row
from triptych.errors import ValidationError
from triptych.layers import ExtractiveSummarizer, estimate_tokens
from triptych.layers.inline import clip, visible_text
from triptych.text import split_sentences

PAGE = """---
title: hidden
tags: [x]
---
[![Build](https://ci.example/badge.svg)](https://ci.example)

<!-- a comment. It has sentences. -->

# Kettle { #kettle }

Kettle is a small [message broker](https://example.org/mq "MQ") for **embedded** devices.
It keeps every message on disk, and hands it to one consumer after the other.

## Table of Contents

- [Installation](#installation)
- [Delivery](#delivery)

## Installation

Run the installer as an ordinary user:

```bash
sh install.sh  # This is code. It is no sentence.
```

The installer writes to one folder and asks no questions.

## Delivery

| mode | meaning |
|------|---------|
| once | exactly once |

A message is delivered again until its consumer acknowledges it.
"""


def test_the_abstract_is_the_sentence_that_says_what_it_is() -> None:
    made = ExtractiveSummarizer().summarize_document(PAGE)
    assert made.abstract == "Kettle is a small message broker for embedded devices."


def test_the_overview_is_the_outline_with_a_sentence_under_each_heading() -> None:
    made = ExtractiveSummarizer().summarize_document(PAGE)
    lines = made.overview.splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        "# Kettle",
        "## Installation",
        "## Delivery",
    ]
    assert "The installer writes to one folder and asks no questions." in made.overview
    assert "A message is delivered again until its consumer acknowledges it." in made.overview


@each_row(
    "left_out",
    ["badge", "https://", "hidden", "comment", "install.sh", "#kettle", "exactly once", "**", "]("],
)
def test_mark_up_code_and_navigation_stay_out(left_out: str) -> None:
    made = ExtractiveSummarizer().summarize_document(PAGE)
    assert left_out not in made.abstract + made.overview


def test_chinese_sentences_end_without_spaces() -> None:
    text = "# 茶壶\n\n茶壶是一个小型消息代理。它把每条消息写入磁盘！还有什么？没有了；完。"
    made = ExtractiveSummarizer().summarize_document(text)
    assert made.abstract == "茶壶是一个小型消息代理。"
    assert split_sentences("一。二！三？四；五") == ["一。", "二！", "三？", "四；", "五"]


def test_abbreviations_initials_and_numbers_end_no_sentence() -> None:
    text = "Dr. Ada wrote it, e.g. In C 3.14 times. J. Doe read it. Who else?"
    assert split_sentences(text) == [
        "Dr. Ada wrote it, e.g. In C 3.14 times.",
        "J. Doe read it.",
        "Who else?",
    ]


def test_a_given_title_stands_first_and_is_not_repeated() -> None:
    text = "# Kettle\n\nA broker for small devices that never loses a message.\n"
    summarizer = ExtractiveSummarizer()
    assert summarizer.summarize_document(text, title="Kettle").overview.count("Kettle") == 1
    assert summarizer.summarize_document(text, title="Handbook").overview.startswith(
        "# Handbook\n## Kettle\n"
    ) or summarizer.summarize_document(text, title="Handbook").overview.startswith(
        "# Handbook\n\n## Kettle\n"
    )


@each_row(
    ("text", "abstract"),
    [
        ("", ""),
        (" \n\t\x00", ""),
        ("# Only a heading", "Only a heading"),
        ("```\nprint('x')\n", "```"),
        ("![alt text](picture.png)", "![alt text](picture.png)"),
        ("word", "word"),
        ("---\nkey: value\n---\n", "key: value"),
    ],
)
def test_what_has_a_letter_has_an_abstract(text: str, abstract: str) -> None:
    made = ExtractiveSummarizer().summarize_document(text)
    if abstract and any(map(str.isalpha, abstract)):
        assert made.abstract == abstract
        assert made.overview
    elif not abstract:
        assert (made.abstract, made.overview) == ("", "")
    else:
        assert any(map(str.isalpha, made.abstract))


def test_sections_too_deep_to_be_named_speak_under_the_heading_above() -> None:
    parts = [
        f"## Release {number}\n\n### Fixes of release {number} in all their detail\n\n"
        f"* Repair valve {number} so that component{number} holds.\n"
        for number in range(60)
    ]
    made = ExtractiveSummarizer(overview_tokens=600).summarize_document(
        "# Log\n\n" + "".join(parts)
    )
    assert "## Release 0\n- Repair valve 0 so that component0 holds." in made.overview


def test_a_document_of_links_alone_lists_them_under_its_title() -> None:
    text = "# Guide\n\n- [Start](a.md)\n- [Installing it](b.md)\n"
    made = ExtractiveSummarizer().summarize_document(text)
    assert made.abstract == "Guide"
    assert made.overview == "# Guide\n- Start\n- Installing it"


def test_a_long_sentence_is_cut_behind_a_clause_and_says_so() -> None:
    text = "The first clause is here, " * 40
    cut = clip(text, 24)
    assert cut == ("The first clause is here, " * 3).rstrip(", ") + "…"
    assert estimate_tokens(cut) <= 24


@each_row(
    ("markdown", "seen"),
    [
        ("see [`a[0]`](x) and <https://a.b>", "see `a[0]` and https://a.b"),
        ("_one_ snake_case_name **two** 2 * 3 * 4", "one snake_case_name two 2 * 3 * 4"),
        ("`Vec<T>` and Vec<T>, <b>bold</b><br/>", "`Vec<T>` and Vec<T>, bold"),
        ("a &lt;b&gt;&nbsp;c[^1] \\*d\\*", "a <b> c *d*"),
        ("{% if x %}[text][ref]{{ y }}", "text"),
    ],
)
def test_visible_text(markdown: str, seen: str) -> None:
    assert visible_text(markdown) == seen


def test_the_signature_names_version_and_options() -> None:
    signature = ExtractiveSummarizer().signature
    assert signature.startswith("extractive-")
    others = [
        ExtractiveSummarizer(abstract_tokens=50),
        ExtractiveSummarizer(overview_tokens=500),
        ExtractiveSummarizer(language="none"),
    ]
    assert len({signature, *(other.signature for other in others)}) == 4


@each_row(
    "options",
    [
        {"abstract_tokens": 15},
        {"abstract_tokens": 20.5},
        {"overview_tokens": 10},
        {"language": "x"},
    ],
)
def test_invalid_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(options))):
        ExtractiveSummarizer(**options)  # type: ignore[arg-type]  # that is the test


@each_row(
    ("text", "tokens"),
    [
        ("", 0),
        ("abcd", 1),
        ("abcdefgh", 2),
        ("one two", 2),
        ("12345", 3),
        ("汉字", 3),
        ("слово", 4),
        ("😀", 3),
    ],
)
def test_token_estimates(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize("limit", [64, 200, 1000])
def test_a_long_document_s_overview_fills_its_room_and_keeps_to_it(limit: int) -> None:
    text = "".join(
        f"## Part {part}\n\n"
        + "".join(f"Word{part}x{n} meets other{n}y{part} in place{n * part}. " for n in range(9))
        + "\n\n"
        for part in range(80)
    )
    made = ExtractiveSummarizer(overview_tokens=limit).summarize_document(text)
    assert limit // 2 < estimate_tokens(made.overview) <= limit
