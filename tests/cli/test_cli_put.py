"""``triptych put``: which files go in, under which names, and what is reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell

GUIDE = "# Guide\n\nRetries back off.\n\n## Limits\n\nTen per second.\n"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


def names(shell: Shell, *options: str) -> list[str]:
    return [row[0] for row in shell("list", *options).rows]


def test_a_directory_gives_its_text_files_by_their_paths_in_it(shell: Shell) -> None:
    shell.write("docs/guide/start.md", GUIDE)
    shell.write("docs/notes.TXT", "Some notes.")
    shell.write("docs/.hidden.md", "no")
    shell.write("docs/.git/x.md", "no")
    shell.write("docs/logo.png", b"\x89PNG")
    ran = shell("put", "docs", "--json")
    assert ran.code == 0
    assert ran.json["added"] == 2
    assert names(shell) == ["guide/start.md", "notes.TXT"]


def test_putting_the_same_again_changes_nothing(shell: Shell) -> None:
    shell.write("docs/a.md", GUIDE)
    shell("put", "docs")
    counts = shell("put", "docs", "--json").json
    assert (counts["unchanged"], counts["added"], counts["embedded"]) == (1, 0, 0)


def test_a_named_file_may_end_in_anything_and_keeps_the_path_it_was_given_by(shell: Shell) -> None:
    shell.write("src/tool.py", "print('x')\n")
    assert shell("put", "./src/tool.py", "src/../src/tool.py").code == 2
    assert shell("put", "./src/tool.py").code == 0
    assert names(shell) == ["src/tool.py"]


def test_a_file_from_elsewhere_is_named_by_its_last_part(shell: Shell, tmp_path: Path) -> None:
    other = tmp_path / "here"
    other.mkdir()
    shell.write("a.md", GUIDE)
    os.chdir(other)
    assert shell("put", "../a.md").code == 0
    assert names(shell) == ["a.md"]


def test_content_comes_back_byte_for_byte(shell: Shell) -> None:
    data = b"\xef\xbb\xbfone\r\ntwo\rthree\n\x00\xf0\x9f\x98\x80 e\xcc\x81 \x1b[31m"
    shell.write("odd.md", data)
    assert shell("put", "odd.md").code == 0
    assert shell("get", "odd.md").out == data


def test_standard_input_needs_a_name_and_keeps_its_bytes(shell: Shell) -> None:
    assert shell("put", "-", stdin=b"x").code == 2
    assert not shell.store.exists()
    assert shell("put", "-", "--name", "log", stdin=b"a\r\nb").code == 0
    assert shell("get", "log").out == b"a\r\nb"


def test_metadata_goes_to_every_document(shell: Shell) -> None:
    shell.write("a.md", GUIDE)
    shell("put", "a.md", "--metadata", "lang=en", "-m", "eq=a=b")
    document = shell("get", "a.md", "--json").json["document"]
    assert document["metadata"] == {"lang": "en", "eq": "a=b"}
    assert document["content"] == GUIDE


@pytest.mark.parametrize("value", ["lang", "=x"])
def test_metadata_that_is_no_pair_is_refused_before_a_store_is_made(
    shell: Shell, value: str
) -> None:
    shell.write("a.md", GUIDE)
    ran = shell("put", "a.md", "--metadata", value)
    assert ran.code == 2
    assert "KEY=VALUE" in ran.err
    assert not shell.store.exists()


def test_one_bad_file_of_many_is_reported_and_holds_up_no_other(shell: Shell) -> None:
    shell.write("docs/a.md", GUIDE)
    shell.write("docs/latin.txt", b"\xff\xfea")
    ran = shell("put", "docs", "--json")
    assert ran.code == 8
    assert ran.json["added"] == 1
    assert [failure["name"] for failure in ran.json["failed"]] == ["latin.txt"]
    assert ran.json["failed"][0]["error"]["type"] == "ParseError"
    assert "latin.txt" in ran.err


def test_when_every_document_fails_the_cause_is_the_exit_code(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.write("docs/a.md", GUIDE)
    shell.write("docs/b.md", GUIDE)
    shell("put", "docs")
    shell.write("docs/a.md", GUIDE + "more")
    shell.write("docs/b.md", GUIDE + "more")
    monkeypatch.setenv("TRIPTYCH_READ_ONLY", "true")
    ran = shell("put", "docs", "--json")
    assert (ran.code, len(ran.json["failed"])) == (5, 2)
    assert shell("search", "retries").code == 0


def test_one_bad_file_alone_is_an_error(shell: Shell) -> None:
    shell.write("latin.txt", b"\xff\xfea")
    ran = shell("put", "latin.txt")
    assert ran.code == 2
    assert ran.err.startswith("error: 'latin.txt' begins as UTF-16 text and is damaged at byte 2")


@pytest.mark.parametrize("stdin", [False, True])
def test_binary_data_is_refused_by_name(shell: Shell, stdin: bool) -> None:
    data = b"text\0with a NUL"
    shell.write("core", data)
    ran = shell("put", "-", "--name", "core", stdin=data) if stdin else shell("put", "core")
    assert ran.code == 2
    assert ran.err.startswith("error: 'core' is binary")
    assert not shell.store.exists()


def test_a_guessed_encoding_is_named(shell: Shell) -> None:
    shell.write("docs/old.txt", "茶壶在厨房里，水已经开了。".encode("gb18030"))
    assert "GB18030 was guessed" in shell("put", "docs").err
    (note,) = shell("put", "docs", "--json").json["notes"]
    assert "'docs/old.txt'" in note
    assert "GB18030 was guessed" in note


def test_two_files_of_one_name_are_refused_before_anything_is_stored(shell: Shell) -> None:
    shell.write("x/readme.md", "x")
    shell.write("y/readme.md", "y")
    ran = shell("put", "x", "y")
    assert ran.code == 2
    assert "'readme.md'" in ran.err
    assert not shell.store.exists()


def test_a_missing_path_is_not_found(shell: Shell) -> None:
    assert shell("put", "nowhere.md").code == 3


def test_if_version_guards_against_somebody_elses_change(shell: Shell) -> None:
    shell.write("a.md", GUIDE)
    assert shell("put", "a.md", "--if-version", "0").code == 0
    shell.write("a.md", GUIDE + "more")
    ran = shell("put", "a.md", "--if-version", "0", "--json")
    assert ran.code == 4
    assert ran.json["error"]["type"] == "ConflictError"
    version = shell("get", "a.md", "--json").json["document"]["version"]
    assert shell("put", "a.md", "--if-version", str(version)).code == 0


def test_links_to_directories_are_not_followed(shell: Shell) -> None:
    shell.write("docs/a.md", GUIDE)
    os.symlink("..", shell.directory / "docs" / "loop")
    shell("put", "docs")
    assert names(shell) == ["a.md"]


def test_quiet_says_nothing_when_all_is_well(shell: Shell) -> None:
    shell.write("a.md", GUIDE)
    ran = shell("put", "a.md", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, b"", "")


def test_an_embedder_that_cannot_be_had_leaves_no_store_behind(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.write("a.md", GUIDE)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")  # where nothing listens
    assert shell("put", "a.md", "--embedder", "lokal").code == 2
    ran = shell("put", "a.md", "--embedder", "ollama:x")
    assert ran.code == 6
    assert "http://127.0.0.1:9" in ran.err
    assert not shell.store.exists()


def test_a_table_is_shown_as_what_it_was_and_filtered_as_what_is_read(shell: Shell) -> None:
    for name, text in (("t.csv", "a,b\n1,2\n"), ("n.md", "---\nkind: note\n---\nText.\n")):
        shell.write(name, text)
        shell("put", name)
    rows = dict(shell("get", "t.csv", "--info").rows)
    assert rows["metadata.kind"] == "markdown, read from csv"
    assert dict(shell("get", "n.md", "--info").rows)["metadata.kind"] == "note"
    assert [row[0] for row in shell("list", "--where", "kind=markdown").rows] == ["t.csv"]


def test_what_is_skipped_in_a_folder_is_reported(shell: Shell) -> None:
    for name in ("docs/a.md", "docs/logo.png", "docs/deep/Makefile", "docs/.hidden/x.md"):
        shell.write(name, "text")
    ran = shell("put", "docs", "--json")
    assert ran.json["added"] == 1
    assert ran.json["skipped"] == [
        {"name": ".hidden/", "reason": "hidden"},
        {"name": "deep/Makefile", "reason": "has no ending"},
        {"name": "logo.png", "reason": "ends in .png, which --ocr reads"},
    ]
    said = shell("put", "docs").err
    assert (
        "skipped deep/Makefile (has no ending), logo.png (ends in .png, which --ocr reads)" in said
    )
    assert "hidden" not in said


def test_standard_input_keeps_metadata_unless_it_is_given(shell: Shell) -> None:
    def metadata() -> object:
        return shell("get", "log", "--json").json["document"]["metadata"]

    shell("put", "-", "--name", "log", "-m", "lang=en", stdin=b"one")
    shell("put", "-", "--name", "log", stdin=b"two")
    assert (metadata(), shell("get", "log").out) == ({"lang": "en"}, b"two")
    shell("put", "-", "--name", "log", "-m", "lang=de", stdin=b"two")
    assert metadata() == {"lang": "de"}


def test_a_file_states_its_own_metadata(shell: Shell) -> None:
    shell.write("a.md", GUIDE)
    shell("put", "a.md", "--metadata", "lang=en")
    shell("put", "a.md")
    assert shell("get", "a.md", "--json").json["document"]["metadata"] == {}


def test_a_dataset_is_created_empty(shell: Shell) -> None:
    assert shell("admin", "create", "docs", "--json").json == {
        "schema": 1,
        "command": "admin create",
        "dataset_id": "docs",
        "created": True,
    }
    assert shell("admin", "create", "docs", "--json").json["created"] is False
    assert shell("list", "--datasets", "--json").json["datasets"] == ["docs"]
    assert shell("list", "--dataset", "docs", "--json").json["documents"] == []
    assert shell("search", "fish", "--dataset", "docs", "--json").json["hits"] == []
    assert shell("admin", "create", "de", "--language", "klingon").code == 2
    assert shell("admin", "create", "de", "--language", "german").code == 0
    assert shell("status").code == 0


def test_without_a_dataset_it_is_default_else_the_only_one(shell: Shell) -> None:
    shell.write("a.md", GUIDE)
    shell.write("b.md", GUIDE)
    shell("put", "a.md", "-d", "only")
    assert shell("put", "b.md", "--json").json["dataset_id"] == "only"
    assert names(shell, "-d", "only") == ["a.md", "b.md"]
    assert shell("delete", "--where", '{"$name": "b.md"}', "--yes").code == 0
    assert names(shell, "-d", "only") == ["a.md"]
    shell("put", "a.md", "-d", "other")
    ran = shell("put", "b.md")
    assert ran.code == 2
    assert "'only', 'other'" in ran.err
    assert shell("put", "b.md", "-d", "default").code == 0
    assert shell("put", "b.md", "--json").json["dataset_id"] == "default"
