"""What a search or a list prints names the same document to every command that takes one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell

KEYWORDS = ("--mode", "bm25")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Two folders with a file of one name: ``boat.md`` and ``other/boat.md``."""
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("notes/boat.md", "# Boat\n\nThe mooring is paid.\n\n## Sails\n\nRed.\nBlue.\n")
    shell.write("other/boat.md", "# Another\n\nA dinghy.\n")
    assert shell("add", "notes").code == 0
    assert shell("add", "other").code == 0
    return shell


def place(shell: Shell, word: str) -> str:
    return shell("search", word, *KEYWORDS).text.split("  ")[0]


@pytest.mark.parametrize("here", [".", "notes", "other", "elsewhere"])
def test_the_place_that_a_search_prints_is_that_document(
    shell: Shell, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shell.directory / here).mkdir(exist_ok=True)
    monkeypatch.chdir(shell.directory / here)
    for word, name in (("mooring", "boat.md"), ("dinghy", "other/boat.md")):
        printed = place(shell, word)
        if (here, name) == ("other", "other/boat.md"):
            assert printed == "boat.md:3"  # the name of another document: see below
            printed = f"./{printed}"
        for arguments in (
            ("get", printed, "--info"),
            ("history", printed),
            ("diff", printed),
            ("restore", printed, "1"),
            ("rebuild", "--doc", printed),
            ("layers", "build", "--dry-run", printed, "--list"),
            ("tag", printed, "--set", f"seen={here}"),
        ):
            assert shell(*arguments).code == 0, arguments
        found = shell("get", printed, "--json").json["document"]
        assert (found["name"], found["metadata"]["seen"]) == (name, here)
        assert shell("history", printed, "--json").json["name"] == name
        assert shell("restore", printed, "1", "--json").json["document"]["name"] == name
        assert "no such layer" in shell("layers", "show", printed).err
    ran = shell("delete", printed, "--json")
    assert ran.json["deleted"] == ["other/boat.md"]


def test_what_names_two_documents_is_refused_and_both_are_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shell.directory / "other")
    for arguments in (
        ("get", "boat.md"),
        ("get", "boat.md:3"),
        ("history", "boat.md"),
        ("tag", "boat.md", "--set", "a=b"),
        ("delete", "boat.md"),
    ):
        ran = shell(*arguments)
        assert ran.code == 2, arguments
        assert "'default/boat.md' or 'default/other/boat.md'" in ran.err
    assert "mooring" in shell("get", "default/boat.md").text
    assert "dinghy" in shell("get", "default/other/boat.md").text
    assert "dinghy" in shell("get", "./boat.md").text


def test_a_name_of_two_datasets_is_refused_and_both_are_named(shell: Shell) -> None:
    shell("put", "other", "-d", "more")
    ran = shell("delete", "boat.md")
    assert (ran.code, "'default/boat.md' or 'more/boat.md'" in ran.err) == (2, True)
    assert shell("delete", "more/boat.md", "other/boat.md").code == 2
    assert len(shell("list").rows) == 2
    assert shell("delete", "more/boat.md").code == 0
    assert shell("list", "-d", "more").rows == []


def test_a_file_that_stands_where_another_document_would_be_is_not_that(shell: Shell) -> None:
    """A document put by hand has the name that a file would have, and did not come from it."""
    shell.write("notes/late.md", "# Late\n")
    shell.write("mine.md", "# Mine\n")
    shell("put", "mine.md", "--name", "late.md")
    assert shell("get", "notes/late.md").code == 3
    assert shell("get", "late.md").text == "# Mine\n"


def test_a_file_is_found_over_a_link_and_over_its_parent(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shell.directory / "linked").symlink_to("notes")
    monkeypatch.chdir(shell.directory / "other")
    for typed in ("../notes/boat.md:3", "../linked/boat.md:3"):
        assert shell("get", typed).text == "The mooring is paid.\n", typed


def test_a_purge_by_the_file_erases_that_document_also_when_it_is_repeated(shell: Shell) -> None:
    for existed in (True, False):
        ran = shell("delete", "other/boat.md", "--purge", "--json")
        (receipt,) = ran.json["receipts"]
        assert (receipt["name"], receipt["existed"]) == ("other/boat.md", existed)
    file = "../" + shell.directory.name + "/notes/boat.md"
    for existed in (True, False):
        (receipt,) = shell("delete", file, "--purge", "--json").json["receipts"]
        assert (receipt["name"], receipt["existed"]) == ("boat.md", existed)


def test_lines_are_got_as_searches_and_citations_print_them(shell: Shell) -> None:
    for printed, text in (
        (place(shell, "mooring"), "The mooring is paid.\n"),
        ("notes/boat.md:7", "Red.\n"),
        ("notes/boat.md:5-7", "## Sails\n\nRed.\n"),
        ("notes/boat.md:7-", "Red.\nBlue.\n"),
        ("notes/boat.md:7-99", "Red.\nBlue.\n"),
        ("default/boat.md:1-1", "# Boat\n"),
    ):
        assert shell("get", printed).text == text, printed
    for wrong, said in (("boat.md:9", "the document has 8 lines"), ("boat.md:7-6", "6 is before")):
        ran = shell("get", wrong)
        assert (ran.code, ran.out, said in ran.err) == (2, b"", True), ran.err


def test_lines_of_a_converted_file_are_those_of_the_file(shell: Shell) -> None:
    paragraphs = "".join(f"<div><div>\n<p>Knot {n} of twine.</p>\n</div></div>\n" for n in range(9))
    html = f"<html>\n<head>\n<title>Knots</title>\n</head>\n<body>\n{paragraphs}</body></html>\n"
    shell.write("notes/knots.html", html.replace("Knot 5 of", "The sheepshank of"))
    assert shell("sync", "-q").code == 0
    printed = place(shell, "sheepshank")
    assert printed == "notes/knots.html:22"
    assert "sheepshank" in html.replace("Knot 5 of", "The sheepshank of").splitlines()[21]
    assert shell("get", printed).text.rstrip() == "The sheepshank of twine."


# What the next sync undoes


@pytest.mark.parametrize(
    "arguments",
    [
        ("delete", "other/boat.md"),
        ("delete", "other/boat.md", "--purge"),
        ("delete", "--where", '{"$name": "other/boat.md"}', "--yes"),
        ("delete", "--dataset-wide", "--yes"),
    ],
)
def test_a_deleted_document_whose_file_still_stands_is_said_to_come_back(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    ran = shell(*arguments)
    (said,) = [line for line in ran.err.splitlines() if "next sync makes" in line]
    assert "boat.md" in said
    assert "delete the file too" in said
    assert shell("sync").code == 0
    assert len(shell("list").rows) == 2


def test_a_document_without_its_file_is_deleted_without_a_warning(shell: Shell) -> None:
    shell("put", "other/boat.md", "--name", "mine.md")
    assert "next sync" not in shell("delete", "mine.md").err
    (shell.directory / "other" / "boat.md").unlink()
    assert "next sync" not in shell("delete", "other/boat.md").err


def test_a_restored_or_tagged_document_is_said_to_go_back_to_its_file(shell: Shell) -> None:
    file = shell.write("other/boat.md", "# Another\n\nA canoe.\n")
    assert shell("sync").code == 0
    said = "the next sync puts back what is in the file: change other/boat.md too"
    assert said in shell("restore", "other/boat.md", "1").err
    assert said in shell("tag", "--where", '{"$name": "other/boat.md"}', "--set", "a=b").err
    assert said not in shell("tag", "other/boat.md", "--set", "a=b").err  # it changes nothing
    assert said in shell("tag", "other/boat.md", "--set", "a=c").err
    assert shell("sync").code == 0
    assert shell("get", "other/boat.md").text == file.read_text()
    assert shell("get", "other/boat.md", "--json").json["document"]["metadata"] == {}


def test_a_damaged_document_is_deleted_all_the_same(shell: Shell) -> None:
    with sqlite3.connect(shell.store) as store:
        store.execute("UPDATE document SET metadata = '{' WHERE name = 'boat.md'")
    store.close()
    assert shell("delete", "boat.md").code == 0
    assert [row[0] for row in shell("list").rows] == ["other/boat.md"]


def test_a_name_that_begins_with_a_space_is_printed_as_it_is(shell: Shell) -> None:
    shell.write("notes/ lead.md", "# Lead\n\nIt begins with a space.\n")
    assert shell("sync").code == 0
    names = [line.split("\t")[0] for line in shell("list", "-d", "default").text.splitlines()]
    assert " lead.md" in names
    assert shell("get", " lead.md").code == 0
