"""What the commands say of words of files that no search finds, and of files without text."""

from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from triptych.parsing import Omission, ParsedFile

FOOTER = Omission(place="page 7", words=14, reason="footer on each page", example="acme ltd")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    monkeypatch.setenv("TRIPTYCH_EMBEDDER", "none")
    return shell


@pytest.fixture
def unread(shell: Shell) -> Shell:
    """A store with a scan, a report without its footers, and a whole note."""
    scan = ParsedFile(content="", no_text="its 16 pages are pictures")
    report = ParsedFile(content="The pump turns.\n", omissions=(FOOTER,))
    with triptych.open(str(shell.directory / "kb.db"), embedder=None) as kb:
        kb.put_documents(
            "default",
            [
                scan.document("scan.pdf"),
                report.document("report.pdf"),
                triptych.NewDocument(name="note.md", content="whole"),
            ],
        )
    return shell


def test_a_put_says_what_it_did_not_read(shell: Shell) -> None:
    shell.write("table.csv", ",,\n,,\n")
    said = shell("put", "table.csv", "-s", "kb.db")
    assert said.code == 0
    assert "no text" in said.err
    folder = shell.write("tables/table.csv", ",,\n,,\n").parent
    assert "no text" in shell("add", str(folder), "-s", "kb.db").err
    synced = shell("sync", "--json", "-s", "kb.db").json
    assert synced["notes"] == []  # nothing was read again
    (folder / "table.csv").write_text(", ,\n", encoding="utf-8")
    assert "no text" in shell("sync", "--json", "-s", "kb.db").json["notes"][0]


def test_a_file_without_text_is_never_fresh(unread: Shell) -> None:
    said = unread("status", "-s", "kb.db")
    assert "'scan.pdf' has little or no text (its 16 pages are pictures)" in said.err
    assert "everything that is stored is fresh" not in said.err
    assert "'report.pdf': page 7: 14 words are not searched (footer on each page)" in said.err
    assert "note.md" not in said.err
    as_json = unread("status", "--json", "-s", "kb.db").json
    found = as_json["unread"]["default"]
    assert found["scan.pdf"]["no_text"] == "its 16 pages are pictures"
    assert found["report.pdf"]["omissions"][0]["words"] == 14
    assert any("scan.pdf" in each for each in as_json["problems"])


def test_words_alone_that_are_not_searched_are_no_problem(unread: Shell) -> None:
    unread("delete", "scan.pdf", "-s", "kb.db")
    said = unread("status", "-s", "kb.db")
    assert "everything that is stored is fresh" in said.err
    assert "'report.pdf': page 7" in said.err


def test_the_doctor_lists_them_file_by_file(unread: Shell) -> None:
    said = unread("doctor", "-s", "kb.db")
    assert said.code == 0
    assert "not searched: dataset 'default': 'report.pdf': page 7: 14 words are not" in said.err
    assert (
        "not searched: dataset 'default': 'scan.pdf': little or no text (its 16 pages" in said.err
    )
    assert "note.md" not in said.err


def test_why_says_that_there_is_no_text(unread: Shell) -> None:
    said = unread("search", "pump", "--why", "scan.pdf", "-s", "kb.db").text
    assert "no_text: its file gave no text: its 16 pages are pictures" in said
    assert "it has no pump" not in said
    asked = unread("search", "acme", "--why", "report.pdf", "-s", "kb.db")
    assert "page 7: 14 words are not searched (footer on each page)" in asked.text + asked.err


def test_a_list_of_documents_has_them_as_data(unread: Shell) -> None:
    listed = unread("list", "--json", "-s", "kb.db").json["documents"]
    found = {each["name"]: each["system"]["unread"] for each in listed}
    assert found["note.md"] == {"omissions": [], "no_text": ""}
    assert found["report.pdf"]["omissions"][0]["place"] == "page 7"
