"""``triptych put --expires`` and ``--ttl``, and what shows the moment."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("note.md", "# Note\n\nA kettle.\n")
    return shell


def expires_at(shell: Shell, name: str = "note.md") -> str | None:
    found = shell("get", name, "--info", "--json").json["document"]["system"]["expires_at"]
    return None if found is None else str(found)


def test_a_moment_is_set_kept_and_taken_away(shell: Shell) -> None:
    assert shell("put", "note.md", "--expires", "2999-12-31T02:00+02:00").code == 0
    assert expires_at(shell) == "2999-12-31T00:00:00+00:00"
    shell.write("note.md", "# Note\n\nAnother kettle.\n")
    assert shell("put", "note.md").code == 0
    assert expires_at(shell) == "2999-12-31T00:00:00+00:00"
    assert shell("put", "note.md", "--expires", "2999-12-31").code == 0
    assert shell("put", "-", "--name", "other", stdin=b"text").code == 0
    listed = {row[0]: row[4:] for row in shell("list").rows}
    assert listed == {"note.md": ["2999-12-31T00:00:00+00:00"], "other": [""]}
    assert "2999-12-31T00:00:00+00:00" in shell("get", "note.md", "--info").text
    (shown, _) = shell("list", "--json").json["documents"]
    assert shown["system"]["expires_at"] == "2999-12-31T00:00:00+00:00"
    assert shell("put", "note.md", "--expires", "never").code == 0
    assert expires_at(shell) is None
    assert all(len(row) == 4 for row in shell("list").rows)


@pytest.mark.parametrize(
    ("ttl", "length"),
    [
        ("30d", timedelta(days=30)),
        ("1.5h", timedelta(minutes=90)),
        ("90m", timedelta(minutes=90)),
        ("45s", timedelta(seconds=45)),
        ("2w", timedelta(days=14)),
    ],
)
def test_a_time_to_live_begins_now(shell: Shell, ttl: str, length: timedelta) -> None:
    before = datetime.now(UTC)
    assert shell("put", "note.md", "--ttl", ttl).code == 0
    moment = expires_at(shell)
    assert moment is not None
    assert before + length <= datetime.fromisoformat(moment) <= datetime.now(UTC) + length


@pytest.mark.parametrize(
    "options",
    [
        ("--ttl", "30"),
        ("--ttl", "soon"),
        ("--ttl", "0d"),
        ("--ttl", "9999999999w"),
        ("--expires", "tomorrow"),
        ("--expires", "2001-01-01"),
        ("--expires", "2999-01-01", "--ttl", "1d"),
    ],
)
def test_what_is_no_later_moment_is_refused(shell: Shell, options: tuple[str, ...]) -> None:
    ran = shell("put", "note.md", *options)
    assert ran.code == 2
    assert options[0] in ran.err or "already" in ran.err
    assert not shell.store.exists()


@pytest.mark.parametrize("command", ["put note.md", "admin keys add web"])
def test_no_time_to_live_is_named_as_such(shell: Shell, command: str) -> None:
    ran = shell(*command.split(), "--ttl", "0d")
    assert (ran.code, ran.err) == (2, "error: --ttl must be more than 0\n")


def test_a_key_that_has_expired_is_no_document(shell: Shell) -> None:
    ran = shell("admin", "keys", "add", "web", "--expires", "2001-01-01")
    assert (ran.code, "the key would have expired already" in ran.err) == (2, True)


def test_a_rebuild_says_how_many_have_expired(shell: Shell) -> None:
    assert shell("put", "note.md").code == 0
    with triptych.open(str(shell.store), embedder="hash") as kb:
        kb.put_document("default", "old", "A kettle.", expires_at=datetime(2001, 1, 1))
        kb.put_document("default", "older", "A kettle.", expires_at=datetime(2001, 1, 1))
    assert [row[0] for row in shell("list").rows] == ["note.md"]
    assert shell("get", "old").code == 3
    ran = shell("rebuild")
    assert (ran.code, "2 expired" in ran.text) == (0, True), ran.text
    assert shell("rebuild", "--json").json["expired"] == 0


def test_an_export_and_its_import_keep_the_moment(shell: Shell) -> None:
    for text, expires in (("one", "2999-01-01"), ("two", "2999-06-01"), ("three", "never")):
        shell.write("note.md", text)
        assert shell("put", "note.md", "--expires", expires).code == 0
    shell.write("late.md", "late")
    assert shell("put", "late.md", "--expires", "2999-01-01").code == 0
    exported = shell("export", "--versions", "--quiet").text
    lines = [json.loads(line) for line in exported.splitlines()]
    moments = ["2999-01-01T00:00:00+00:00", "2999-06-01T00:00:00+00:00", "never"]
    assert [each["expires_at"] for each in lines if each["name"] == "note.md"] == moments
    copied = shell("import", "-", "--dataset", "copy", "--quiet", stdin=exported.encode())
    assert copied.code == 0, copied.err
    found = {each["name"]: each for each in shell("list", "-d", "copy", "--json").json["documents"]}
    assert found["late.md"]["system"]["expires_at"] == "2999-01-01T00:00:00+00:00"
    assert found["note.md"]["system"]["expires_at"] is None
    foreign = b'{"name": "a", "content": "x", "expires_at": "2001-01-01"}\n'
    assert shell("import", "-", "--dataset", "foreign", stdin=foreign).code == 0
    assert [row[0] for row in shell("list", "-d", "foreign").rows] == ["a"]
