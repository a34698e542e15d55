"""Exclusions in a query are words, not options."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from support.rows import each_row
from triptych_adapters.cli.command import excluded_words_last

VALUED = {"-d", "-k", "-w", "-b"}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


@each_row(
    ("given", "read"),
    [
        ("failed -draft", "failed -- -draft"),
        ("-re* delta -k 3", "delta -k 3 -- -re*"),
        ("a -draft -k3 -n5", "a -k3 -n5 -- -draft"),
        ("a -d raft -wlang=en --json", "a -d raft -wlang=en --json"),
        ("a -d -raft", "a -d -raft"),
        ("a -- -draft", "a -- -draft"),
        ("a -h", "a -h"),
        ("a -draft -b 200", "a -b 200 -- -draft"),
        ("a -node.j* -kebab-ca* -3.11* -C++ -k 3", "a -k 3 -- -node.j* -kebab-ca* -3.11* -C++"),
        ("a -wyear>2020 -3 -k2.5", "a -wyear>2020 -3 -- -k2.5"),
    ],
)
def test_what_can_only_be_an_exclusion_is_a_word(given: str, read: str) -> None:
    assert excluded_words_last(given.split(), VALUED) == read.split()


def test_an_argument_with_a_space_is_words() -> None:
    assert excluded_words_last(["-draft failed"], VALUED) == ["--", "-draft failed"]
    assert excluded_words_last(['-"old one"', "x"], VALUED) == ["x", "--", '-"old one"']


def test_only_a_query_has_exclusions(shell: Shell) -> None:
    shell.write("search", "A file.")
    assert shell("put", "search", "-draft").code == 0
    assert shell("list", "--datasets").text == "raft\n"


def test_the_command_excludes(shell: Shell) -> None:
    shell("admin", "create", "d")
    shell.write("notes/a.md", "failed request\n")
    shell.write("notes/b.md", "failed request, draft\n")
    assert shell("put", "notes", "-d", "d").code == 0
    for words in (["failed", "-draft"], ["-draft failed"], ["failed", "-dra*"]):
        hits = shell("search", *words, "-d", "d", "--json", "--mode", "bm25").json["hits"]
        assert [hit["doc_name"] for hit in hits] == ["a.md"]


def test_fields_alone_list_the_documents(shell: Shell) -> None:
    shell("admin", "create", "d")
    shell.write("notes/guide/a.md", "failed request\n")
    shell.write("notes/b.md", "failed request\n")
    assert shell("put", "notes", "-d", "d").code == 0
    for asked in (("in:guide/",), ("--where", "doc_prefix=guide/")):
        listed = shell("search", *asked, "-d", "d", "--json").json["hits"]
        assert [hit["doc_name"] for hit in listed] == ["guide/a.md"]


def test_a_comparison_outside_of_json_is_refused_with_the_right_form(shell: Shell) -> None:
    shell("admin", "create", "d")
    for where, operator in (("year>=2024", "$gte"), ("lang!=en", "$ne"), ("year<=1", "$lte")):
        ran = shell("list", "--count", "-d", "d", "--where", where)
        assert (ran.code, operator in ran.err) == (2, True)
