"""``list``, ``count``, ``tag`` and ``delete`` by filter."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    for number, lang in enumerate(("en", "de", "en")):
        name = f"n{number}.md"
        shell.write(name, f"# Note {number}\n\nA kettle.\n")
        given = f'{{"year": {2024 - number}}}'
        assert shell("put", name, "-m", f"lang={lang}", "-m", given).code == 0
    return shell


def names(shell: Shell, *arguments: str) -> list[str]:
    return [each["name"] for each in shell("list", *arguments, "--json").json["documents"]]


def test_documents_are_listed_and_counted_by_filter(shell: Shell) -> None:
    assert names(shell, "--where", "lang=en") == ["n0.md", "n2.md"]
    assert names(shell, "--sort", "year") == ["n2.md", "n1.md", "n0.md"]
    assert names(shell, "--sort", "-year", "--limit", "1", "--after", "n0.md") == ["n1.md"]
    assert shell("list", "--count").text.strip() == "3"
    ran = shell("list", "--count", "--where", '{"year": {"$lt": 2024}}', "--json").json
    assert (ran["dataset_id"], ran["count"]) == ("default", 2)
    assert shell("list", "--sort", "$size").code == 2
    assert shell("list", "--count", "--dataset", "none").code == 3


def test_tag_changes_metadata_alone(shell: Shell) -> None:
    ran = shell("tag", "n0.md", "--set", '{"seen": true}', "--set", "by=me", "--unset", "lang")
    assert ran.code == 0, ran.err
    document = shell("get", "n0.md", "--json").json["document"]
    assert document["metadata"] == {"kind": "markdown", "year": 2024, "seen": True, "by": "me"} or (
        document["metadata"] == {"year": 2024, "seen": True, "by": "me"}
    )
    assert document["version"] == 2
    ran = shell("tag", "--where", "lang=en", "--set", "x=1", "--json")
    assert (ran.json["updated"], ran.json["unchanged"]) == (1, 0)
    assert (ran.json["missing"], ran.json["failed"]) == ([], [])
    ran = shell("tag", "n1.md", "none.md", "--set", "x=1")
    assert (ran.code, "none.md" in ran.err) == (8, True)
    for wrong in (
        ("n0.md",),
        ("--set", "x=1"),
        ("n0.md", "--set", "x=1", "--unset", "x"),
        ("n0.md", "--set", "x"),
    ):
        assert shell("tag", *wrong).code == 2
    assert shell("tag", "none.md", "--set", "x=1").code == 3


def test_a_filter_of_all_documents_is_written_out(shell: Shell) -> None:
    ran = shell("tag", "--where", "{}", "--set", "a=1")
    assert (ran.code, "every document" in ran.err) == (2, True), ran.err
    assert names(shell, "--where", "a=1") == []
    ran = shell("tag", "--where", '{"$name": {"$exists": true}}', "--set", "a=1")
    assert ran.code == 0, ran.err
    assert len(names(shell, "--where", "a=1")) == 3


@pytest.mark.parametrize(
    "given",
    ['{"year": 2024, "year": 2023}', '{"year": {"$gte": 2024, "$gte": 2023}}'],
)
def test_a_key_given_twice_in_json_is_refused(shell: Shell, given: str) -> None:
    ran = shell("list", "--count", "--where", given)
    assert (ran.code, "several times" in ran.err) == (2, True), ran.err


def test_json_that_cannot_be_read_is_refused_in_plain_words(shell: Shell) -> None:
    ran = shell("list", "--count", "--where", '{"a":' * 100_000)
    assert (ran.code, "nested too deeply" in ran.err) == (2, True), ran.err
    assert "recursion" not in ran.err
    ran = shell("list", "--count", "--where", "{year}")
    assert (ran.code, "is not a JSON object" in ran.err) == (2, True), ran.err


def test_delete_by_filter_asks_first(shell: Shell) -> None:
    ran = shell("delete", "--where", "lang=en")
    assert (ran.code, "--yes" in ran.err) == (2, True)
    assert shell("list", "--count").text.strip() == "3"
    ran = shell("delete", "--where", "lang=en", "--yes", "--json")
    assert (ran.code, ran.json["deleted"]) == (0, ["n0.md", "n2.md"])
    assert names(shell) == ["n1.md"]
    assert shell("delete", "--where", "lang=en", "--yes").code == 0
    assert shell("delete", "n1.md", "--where", "lang=en", "--yes").code == 2
    assert shell("delete", "--where", "{}", "--yes").code == 2


def test_a_search_without_words_lists(shell: Shell) -> None:
    hits = shell("search", "--where", "lang=en", "--json").json["hits"]
    assert [hit["doc_name"] for hit in hits] == ["n0.md", "n2.md"]
    hits = shell("search", "kettle", "--offset", "1", "--per-document", "1", "--json").json["hits"]
    assert len(hits) == 2
    assert shell("search").code == 2
