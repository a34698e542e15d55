"""Exclusions in a query are words, not options."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from triptych_adapters.cli.query_words import excluded_words_last


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("search failed -draft", "search failed -- -draft"),
        ("search -re* delta -k 3", "search delta -k 3 -- -re*"),
        ("--store kb.db search a -draft -k3 -n5", "--store kb.db search a -k3 -n5 -- -draft"),
        ("search a -d raft -wlang=en --json", "search a -d raft -wlang=en --json"),
        ("search a -d -raft", "search a -d -raft"),
        ("search a -- -draft", "search a -- -draft"),
        ("put search -draft", "put search -draft"),
        ("search a -h", "search a -h"),
        ("context a -draft -b 200", "context a -b 200 -- -draft"),
    ],
)
def test_what_can_only_be_an_exclusion_is_a_word(given: str, read: str) -> None:
    assert excluded_words_last(given.split()) == read.split()


def test_an_argument_with_a_space_is_words() -> None:
    assert excluded_words_last(["search", "-draft failed"]) == ["search", "--", "-draft failed"]
    assert excluded_words_last(["search", '-"old one"', "x"]) == ["search", "x", "--", '-"old one"']


def test_the_command_excludes(shell: Shell) -> None:
    shell("create", "d")
    shell.write("notes/a.md", "failed request\n")
    shell.write("notes/b.md", "failed request, draft\n")
    assert shell("put", "notes", "-d", "d").code == 0
    for words in (["failed", "-draft"], ["-draft failed"], ["failed", "-dra*"]):
        hits = shell("search", *words, "-d", "d", "--json", "--mode", "bm25").json["hits"]
        assert [hit["doc_name"] for hit in hits] == ["a.md"]


def test_a_comparison_outside_of_json_is_refused_with_the_right_form(shell: Shell) -> None:
    shell("create", "d")
    for where, operator in (("year>=2024", "$gte"), ("lang!=en", "$ne"), ("year<=1", "$lte")):
        ran = shell("count", "-d", "d", "--where", where)
        assert (ran.code, operator in ran.err) == (2, True)
