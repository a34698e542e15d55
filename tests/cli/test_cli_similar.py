"""``triptych similar``."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/jobs.md", "# Jobs\n\nThe scheduler runs the jobs at night.\n")
    shell.write("docs/night.md", "# Night\n\nAt night the scheduler runs jobs.\n")
    shell.write("docs/ferry.md", "# Ferry\n\nThe ferry leaves the harbour at noon.\n")
    assert shell("put", "docs").code == 0
    return shell


def test_the_nearest_documents_are_printed_by_name_and_as_json(filled: Shell) -> None:
    ran = filled("similar", "jobs.md", "-n", "1")
    assert ran.code == 0
    assert "night.md" in ran.text
    assert "ferry.md" not in ran.text
    shown = filled("similar", "default/jobs.md", "--json").json
    assert shown["name"] == "jobs.md"
    assert [hit["doc_name"] for hit in shown["hits"]] == ["night.md", "ferry.md"]


def test_what_is_not_there_or_does_not_pass_is_said(filled: Shell) -> None:
    missing = filled("similar", "job.md")
    assert missing.code != 0
    assert "did you mean 'jobs.md'?" in missing.err
    none = filled("similar", "jobs.md", "--where", "lang=en")
    assert none.code == 0
    assert "no hits" in none.err
