"""No text makes a pattern, or a function that reads foreign text, take more than linear time."""

from __future__ import annotations

from zlib import crc32

import pytest

from support.hostile_text import (
    CALLS,
    UNITS,
    Found,
    Hostile,
    found_patterns,
    growth_fault,
    own_units,
)

PARTS = range(24)
"""All patterns in one test would keep one worker of a run long after the others."""

NOT_FED = {
    "triptych.chunking.blocks: _BLOCK": "fed by the call chunking.markdown",
    **{
        f"triptych.layers.{name}": "one for each language: fed by the calls layers.summarize_code"
        for name in (
            "code_outline: public",
            "code_outline: syntax.inner_doc",
            "code_outline: syntax.package",
            "code_syntax: syntax.definition",
            "code_syntax: syntax.opaque",
        )
    },
    "triptych._internal.thoughts: f'(?P<end>{end})' + f'|(?P<begin>{begin})' * (end != _FINAL)": (
        "one for each pair of marks: fed by the call internal.thoughts"
    ),
    "triptych_providers.remote_model: f'(?<!\\\\w){name}(?!\\\\w)'": (
        "the name of a field of a request, in a refusal of 2,000 characters at most"
    ),
    "triptych_adapters.cli.output: python": "it meets messages of Triptych's own",
    "triptych_evaluation.targets: '\\\\s+'.join(words)": "fed by the call evaluation.find_passage",
    "triptych.layers.inline._COMMENT": "fed by layers.visible_text, which cuts the text first",
    "triptych.parsing.html_tokens: f'</{re.escape(name)}(?=[\\\\s/>])'": "fed by parsing.html",
    "triptych.search.rewriting: pattern": "fed by the call search.fragments",
    "triptych.search.syntax: ways": "fed by the call search.conditions",
    "triptych.search.syntax: '|'.join(ways)": "fed by the call search.conditions",
    "triptych.text.patterns: self._pattern": "each is fed under its own name",
    "triptych.answers.proof: before + words + after": "words of an answer as they stand, once",
    "triptych.search.code_ranking: f'{_DEFINES}{re.escape(symbol)}(?!\\\\w)'": (
        "a name as it stands after a word of a language, in chunks"
    ),
    "triptych_adapters.related: f'(?<!\\\\w){re.escape(each)}(?!\\\\w)'": (
        "a name as it stands, in chunks"
    ),
    "triptych_sources.robots: first + middle + last + end": (
        "one for each rule of a site, whose parts are atomic: test_web_source feeds them"
    ),
    **{
        f"triptych_impact.findings: {each}": "a name as it stands, in one sentence"
        for each in (
            "begins + text + ends.get(change.kind, 's?(?!\\\\w)')",
            "f'(?<![\\\\w.]){re.escape(change.old)}(?!\\\\w|\\\\.\\\\d)'",
            "f'{form}(?:[(=]|\\\\.\\\\w)|\\\\.{form}|\\\\bimport {form}'",
            "f'(?<!\\\\w){re.escape(change.new)}(?!\\\\w)'",
            "whole",
        )
    },
    "triptych_server.mcp.agents: f'(?m:^){first}(.*?){last}'": "files of the person's own",
    "triptych_server.mcp.agents: f'(?m:^){mark}(?:{_AFTER})?: '": "files of the person's own",
    "triptych.sync.patterns: source + b'\\\\Z'": (
        "one for each pattern of an ignore file: test_sync_patterns feeds them names and paths"
    ),
}
"""Patterns that are not fed by themselves, and why."""


def fed_patterns() -> list[Found]:
    return [each for each in found_patterns() if each.name not in NOT_FED]


def kinds_for(name: str, at_length: bool) -> list[Hostile]:
    """Every kind of text at length, else a sixth of them, another sixth for each name."""
    return [
        kind
        for number, kind in enumerate(UNITS)
        if at_length or (number + crc32(name.encode())) % 6 == 0
    ]


def call_faults(name: str, *, at_length: bool = False) -> list[str]:
    call = CALLS[name]
    found = (growth_fault(call, kind, at_length=at_length) for kind in kinds_for(name, at_length))
    return [fault for fault in found if fault]


def pattern_faults(part: int, *, at_length: bool = False) -> list[tuple[str, str]]:
    return [
        (each.name, fault)
        for each in fed_patterns()[part :: len(PARTS)]
        for call in each.calls()
        for kind in (*kinds_for(each.name, at_length), *own_units(each.pattern.pattern))
        if (fault := growth_fault(call, kind, at_length=at_length))
    ]


@pytest.mark.parametrize("name", CALLS)
def test_what_meets_foreign_text_takes_linear_time(name: str) -> None:
    assert call_faults(name) == []


@pytest.mark.parametrize("part", PARTS)
def test_every_pattern_takes_linear_time(part: int) -> None:
    assert pattern_faults(part) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_what_meets_foreign_text_takes_linear_time_at_length(name: str) -> None:
    assert call_faults(name, at_length=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_every_pattern_takes_linear_time_at_length(part: int) -> None:
    assert pattern_faults(part, at_length=True) == []


def test_every_pattern_is_fed_or_has_a_reason_not_to_be() -> None:
    names = {each.name for each in found_patterns()}
    assert len(names) > 150
    assert set(NOT_FED) <= names
    assert {each.name for each in found_patterns() if each.pattern is None} <= set(NOT_FED)
    assert all(each.calls() for each in fed_patterns())


@pytest.mark.parametrize("at_length", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_takes_more_is_seen(at_length: bool) -> None:
    slow = Found("a", __import__("re").compile(r"\s*b"), frozenset({"search"}))
    (call,) = slow.calls()
    assert "characters" in (growth_fault(call, ("", " ", ""), at_length=at_length) or "")
