"""Layers of source code: what a file says of itself, and what it defines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from support.extractive_layers import build_layers
from support.rows import each_row
from triptych.chunking import Part, read_outline
from triptych.layers import ExtractiveSummarizer, estimate_tokens
from triptych.records import DocumentContext, DocumentSummary
from triptych_parsers.code import outline_of

PYTHON = '''#!/usr/bin/env python
# Copyright 2024 Somebody. All rights reserved.
"""Boil water without watching it.

The kettle whistles. It knows ``minutes`` only.
"""

import time

TEXT = """
def not_a_function():
    pass
"""


class Kettle(Pot):
    """A kettle that whistles when the water boils. It never burns."""

    def boil(
        self,
        minutes: int = 3,
    ) -> None:
        """Heat the water."""
        def inner():
            """Nobody's affair."""

    def _whistle(self): ...


@decorated
async def pour(kettle, cup):
    # Not a docstring.
    return cup
'''

GO = """// Copyright 2024 Somebody. Use is governed by a license.

// Package kettle boils water. It whistles.
package kettle

import "fmt"

// Kettle holds water.
type Kettle struct {
\tminutes int
}

// Boil heats the water until it boils.
func (k *Kettle) Boil(minutes int) error {
\tfmt.Println("func NotThis() {")
\treturn nil
}

func pour(k *Kettle) {
}
"""

SCRIPT = """/**
 * @license MIT
 */

/**
 * Boils water in the browser.
 *
 * @module kettle
 */

import { cup } from "./cup.js";

/** A kettle that whistles. */
export class Kettle extends Pot {
  /**
   * Heats the water.
   * @param {number} minutes how long
   */
  boil(minutes) {
    if (minutes > 3) {
      this.whistle();
    }
  }
}

// Fills a cup.
export const pour = (kettle) => {
  return cup(kettle);
};

export default function empty() {
  return "function notThis() {";
}
"""

TYPESCRIPT = """import { Pot } from "./pot";

/** What a kettle can do. */
export interface Boiling {
  boil(minutes: number): void;
}

/** Heats the water. */
export async function boil(kettle: Boiling, minutes = 3): Promise<void> {
  kettle.boil(minutes);
}
"""

RUST = """// Copyright 2024 Somebody.

//! Boils water.
//!
//! And whistles, when `boil` is done.

use std::fmt;

/// A kettle that whistles.
#[derive(Debug)]
pub struct Kettle {
    minutes: u32,
}

impl Kettle {
    /// Heats the water.
    pub fn boil(&self, name: &'static str) -> u32 {
        let quote = '"';
        3
    }
}

fn whistle<'a>(text: &'a str) {
    println!("fn not_this() {{");
}
"""

JAVA = """/*
 * Copyright 2024 Somebody. Licensed under the Apache License.
 */
package org.example;

import java.util.List;

/**
 * A kettle that whistles when {@link Water} boils. It never burns.
 *
 * @author Somebody
 */
@Deprecated
public final class Kettle extends Pot {
    /** Heats the water. */
    public List<String> boil(int minutes) throws Exception {
        return List.of("class NotThis {");
    }
}
"""

C = """/* SPDX-License-Identifier: MIT */

/*
 * Boils water on small machines. Needs no heap.
 */

#include <stdio.h>

/* Water and how long it boils. */
struct kettle {
    int minutes;
};

// Heats the water.
static int boil(struct kettle *kettle,
                int minutes)
{
    printf("int not_this(void) {");
    return 0;
}
"""


def layers(name: str, text: str, parts: tuple[Part, ...] = ()) -> DocumentContext:
    made = ExtractiveSummarizer().summarize_code(text, name=name, parts=parts)
    assert made is not None
    return made


def parts_of(name: str, text: str) -> tuple[Part, ...]:
    pytest.importorskip("tree_sitter", reason="the extra 'code' is not installed")
    outline = read_outline(outline_of(name, text) or "", text)
    assert outline is not None
    return outline.parts


SAMPLES = {
    "kettle.py": (
        PYTHON,
        "Boil water without watching it. The kettle whistles.",
        [
            "- `class Kettle(Pot)`: A kettle that whistles when the water boils.",
            "  - `def boil(self, minutes: int = 3) -> None`: Heat the water.",
            "- `async def pour(kettle, cup)`",
        ],
    ),
    "kettle.go": (
        GO,
        "Package kettle boils water. It whistles.",
        [
            "- `type Kettle struct`: Kettle holds water.",
            "- `func (k *Kettle) Boil(minutes int) error`: Boil heats the water until it boils.",
            "- `func pour(k *Kettle)`",
        ],
    ),
    "kettle.mjs": (
        SCRIPT,
        "Boils water in the browser.",
        [
            "- `export class Kettle extends Pot`: A kettle that whistles.",
            "  - `boil(minutes)`: Heats the water.",
            "- `export const pour = (kettle) =>`: Fills a cup.",
            "- `export default function empty()`",
        ],
    ),
    "kettle.ts": (
        TYPESCRIPT,
        "Type Boiling; function boil.",
        [
            "- `export interface Boiling`: What a kettle can do.",
            "- `export async function boil(kettle: Boiling, minutes = 3): Promise<void>`: "
            "Heats the water.",
        ],
    ),
    "kettle.rs": (
        RUST,
        "Boils water. And whistles, when `boil` is done.",
        [
            "- `pub struct Kettle`: A kettle that whistles.",
            "- `impl Kettle`",
            "  - `pub fn boil(&self, name: &'static str) -> u32`: Heats the water.",
            "- `fn whistle<'a>(text: &'a str)`",
        ],
    ),
    "Kettle.java": (
        JAVA,
        "A kettle that whistles when Water boils. It never burns.",
        [
            "- `public final class Kettle extends Pot`: A kettle that whistles when Water boils.",
            "  - `public List<String> boil(int minutes) throws Exception`: Heats the water.",
        ],
    ),
    "kettle.c": (
        C,
        "Boils water on small machines. Needs no heap.",
        [
            "- `struct kettle`: Water and how long it boils.",
            "- `static int boil(struct kettle *kettle, int minutes)`: Heats the water.",
        ],
    ),
}


@each_row("with_parser", [False, True])
@each_row("name", SAMPLES)
def test_a_file_is_described_by_its_own_words_and_definitions(name: str, with_parser: bool) -> None:
    text, abstract, outline = SAMPLES[name]
    made = layers(name, text, parts_of(name, text) if with_parser else ())
    assert made.abstract == abstract
    lines = made.overview.splitlines()
    position = -1
    for line in outline:
        found = next((at for at, each in enumerate(lines) if each.startswith(line)), -1)
        assert found > position, (line, made.overview)
        position = found
    assert "not_" not in made.overview.casefold()
    assert "NotThis" not in made.overview
    assert "copyright" not in made.overview.casefold()


@each_row("name", SAMPLES)
def test_a_file_with_errors_is_read_as_far_as_it_goes(name: str) -> None:
    text, abstract, outline = SAMPLES[name]
    broken = text.replace("(", "((", 1).rstrip()[:-3] + '\n\n)]} ((( \'""" /* ` class'
    made = layers(name, broken)
    assert made.abstract == abstract
    assert made.overview.count("- `") >= len(outline) - 1


def test_without_words_of_its_own_a_file_is_described_by_what_it_defines() -> None:
    text = "class A:\n    pass\n\nclass B: ...\n\ndef c(): ...\n\ndef _d(): ...\n"
    assert layers("a.py", text).abstract == "Classes A and B; function c."
    assert layers("a.py", "def _d(): ...\ndef _e(): ...\n").abstract == "Functions _d and _e."
    many = "".join(f"def f{number}(): ...\n" for number in range(40))
    assert layers("a.py", many).abstract.endswith("f9, f10 and 29 more.")


def test_a_single_class_describes_its_file() -> None:
    text = 'class Kettle:\n    """A kettle that whistles at you."""\n\ndef pour(): ...\n'
    assert layers("a.py", text).abstract == "A kettle that whistles at you."


def test_a_notice_or_an_order_to_a_tool_is_nothing_that_a_file_says() -> None:
    text = "// eslint-disable no-console\n\n/* Copyright 2024 */\n\nfunction boil() {\n}\n"
    assert layers("a.js", text).abstract == "Function boil."
    text = "// Code generated by protoc. DO NOT EDIT.\n\npackage kettle\n\nfunc Boil() {\n}\n"
    assert layers("a.go", text).abstract == "Function Boil."


@each_row("text", ["", "x = 1\n", "\n\n# only a comment\n", "%%%"])
def test_what_defines_and_says_nothing_is_read_as_text(text: str) -> None:
    assert ExtractiveSummarizer().summarize_code(text, name="a.py") is None


def test_other_names_are_no_code() -> None:
    assert ExtractiveSummarizer().summarize_code(PYTHON, name="kettle.md") is None
    assert ExtractiveSummarizer().summarize_code("a { color: red }", name="kettle.css") is None


def test_an_overview_keeps_its_limit_and_counts_what_it_leaves_out() -> None:
    text = '"""Much."""\n' + "".join(
        f'class C{a}:\n    """The class of {a}."""\n    def m(self): ...\n' for a in range(500)
    )
    made = ExtractiveSummarizer(overview_tokens=300).summarize_code(text, name="a.py")
    assert made is not None
    assert estimate_tokens(made.overview) <= 300
    last = made.overview.splitlines()[-1]
    assert last == f"- and {1000 - made.overview.count('- `')} more"
    assert "def m" not in made.overview


def test_carriage_returns_and_a_byte_order_mark_change_nothing() -> None:
    plain, windows = layers("a.py", PYTHON), layers("a.py", "\ufeff" + PYTHON.replace("\n", "\r\n"))
    assert windows == plain


@settings(max_examples=examples(150))
@given(
    st.sampled_from(sorted(SAMPLES)),
    st.lists(
        st.sampled_from(
            [
                *"\n {}()'\"#`\\é\x00;:\r",
                '"""',
                "def f(",
                "class A",
                "//",
                "/*",
                "*/",
                "@a",
                "fn x(",
                "impl",
                "func (",
                "=>",
            ]
        ),
        max_size=60,
    ).map("".join),
)
@pytest.mark.property
def test_any_text_is_read_within_its_limits(name: str, text: str) -> None:
    summarizer = ExtractiveSummarizer(abstract_tokens=20, overview_tokens=80)
    for content in (text, SAMPLES[name][0] + text, text + SAMPLES[name][0]):
        made = summarizer.summarize_code(content, name=name)
        assert made == summarizer.summarize_code(content, name=name)
        if made is not None:
            assert made.abstract.strip()
            assert estimate_tokens(made.abstract) <= 20
            assert estimate_tokens(made.overview) <= 80


@each_row("name", SAMPLES)
@each_row("unit", ["f(", "a ", '"', "/*", "(\n", "def f(\n", "a b\n", "x(y)\n", "@a\n"])
def test_reading_takes_time_in_proportion_to_the_text(name: str, unit: str) -> None:
    """No assertion on a clock: the suite's limit of time would end what is quadratic."""
    ExtractiveSummarizer().summarize_code(unit * (400_000 // len(unit)), name=name)


def test_layers_of_a_mixed_tree(tmp_path: Path) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        for name, (text, _, _) in SAMPLES.items():
            kb.put_document("d", f"src/{name}", text)
        kb.put_document("d", "docs/use.md", "# Use\n\nFill the kettle before you boil anything.\n")
        kb.put_document("d", "LICENSE.txt", "You may use the kettle in any way that you like.\n")
        build_layers(kb, "d")
        assert kb.layer("d", "src/kettle.py", "L0").content == SAMPLES["kettle.py"][1]
        assert "`class Kettle(Pot)`" in kb.layer("d", "src/kettle.py", "L1").content
        abstract = kb.dataset_layer("d", "L0")
        assert abstract is not None
        assert abstract.content == "Fill the kettle before you boil anything."


def test_a_folder_of_code_is_described_by_its_prose() -> None:
    summaries = [
        DocumentSummary(
            name="src/a.py", abstract="Kettle, pot and cup boil the water of a kettle."
        ),
        DocumentSummary(name="src/b.py", abstract="Kettle, pot and cup boil the water of a pot."),
        DocumentSummary(name="LICENSE", abstract="You may use the kettle, the pot and the cup."),
        DocumentSummary(name="guide/use.md", abstract="How tea is made in the morning, and why."),
    ]
    made = ExtractiveSummarizer().summarize_dataset(summaries)
    assert made.abstract == "How tea is made in the morning, and why."
    readme = DocumentSummary(name="README.md", abstract="Kitchen helps you to boil water.")
    made = ExtractiveSummarizer().summarize_dataset([*summaries, readme])
    assert made.abstract == readme.abstract
    made = ExtractiveSummarizer().summarize_dataset(summaries[:2])
    assert made.abstract.startswith("Kettle")


def test_layers_made_before_code_was_read_are_stale() -> None:
    assert ExtractiveSummarizer().signature.startswith("extractive-3/")
