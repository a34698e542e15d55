"""What killed backups leave is named and removed; what others are writing is left alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from copies.test_kills import copier
from support.cli_run import ran
from support.rich_stores import open_kind
from triptych import Service
from triptych.question_log import QuestionLog
from triptych.records import Finding
from triptych.resources.files import left_drafts, written_whole
from triptych_backends.filesystem.disk import Disk
from triptych_backends.sqlite import open_backup, write_backup
from triptych_testing.builders import fill_at_once

CANARY = b"Xanthippe"


@pytest.fixture
def backup(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that stands half way through a backup of kb.db to old.db."""
    with open_kind("sqlite", tmp_path, "kb") as store:
        fill_at_once(store, "d", {f"{at:03}": f"{CANARY.decode()} {at}" for at in range(100)})
    with copier() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = {"do": "backup-half", "from": f"sqlite:{tmp_path}/kb", "to": f"{tmp_path}/old.db"}
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2)] == ["begun\n", "half\n"]
        yield process


def drafts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.part"))


def findings(folder: Path, *, repair: bool = False) -> list[Finding]:
    with open_kind("sqlite", folder, "kb") as store:
        report = Service(store).doctor(repair=repair)
        found = report.repaired if repair else report.findings
        return [each for each in found if each.check == "backups.left"]


@pytest.mark.process
def test_next_backup_removes_what_a_killed_one_left(
    backup: subprocess.Popen[str], tmp_path: Path
) -> None:
    backup.kill()
    backup.wait()
    (left,) = drafts(tmp_path)
    assert CANARY in left.read_bytes()
    (found,) = findings(tmp_path)
    assert found.examples == (str(left),)
    ended = ran(["--store", str(tmp_path / "kb.db"), "backup", str(tmp_path / "new.db")])
    assert ended.code == 0
    assert f"removed {left}" in ended.err
    assert drafts(tmp_path) == []
    assert findings(tmp_path) == []
    with open_kind("sqlite", tmp_path, "kb") as store:
        settings = store.capabilities.settings
        assert settings is not None
        assert dict(settings.list_settings("backup.")) == {}


@pytest.mark.process
def test_doctor_removes_what_a_killed_backup_left(
    backup: subprocess.Popen[str], tmp_path: Path
) -> None:
    backup.kill()
    backup.wait()
    assert len(findings(tmp_path, repair=True)) == 1
    assert drafts(tmp_path) == []


@pytest.mark.process
def test_backup_that_runs_keeps_its_draft(backup: subprocess.Popen[str], tmp_path: Path) -> None:
    (draft,) = drafts(tmp_path)
    assert findings(tmp_path) == []
    with open_kind("sqlite", tmp_path, "kb") as store:
        for name in ("new.db", "old.db"):
            assert write_backup(store, tmp_path / name).removed == ()
    assert drafts(tmp_path) == [draft]
    assert backup.stdin is not None
    assert backup.stdout is not None
    backup.stdin.write("\n" * 9)  # it goes on
    backup.stdin.close()
    assert "done" in backup.stdout.read()
    assert drafts(tmp_path) == []
    for name in ("old.db", "new.db"):
        with open_backup(tmp_path / name) as opened:
            assert opened.documents.count("d") == 100


def test_only_drafts_of_the_file_are_removed(tmp_path: Path) -> None:
    names = ("a.db.0123abcd.part", "b.db.0123abcd.part", "a.db.mine.part", "a.db")
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "a.db.00000000.part").mkdir()
    (tmp_path / "a.db.11111111.part").symlink_to("a.db")
    with written_whole(tmp_path / "a.db", mode=0o600):
        assert left_drafts(tmp_path / "a.db", remove=True) == [tmp_path / names[0]]
    assert all((tmp_path / name).exists() for name in names[1:])


def test_next_export_names_what_a_killed_one_left(tmp_path: Path) -> None:
    with open_kind("sqlite", tmp_path, "kb") as store:
        fill_at_once(store, "d", {"a": "text"})
    out, left = tmp_path / "d.jsonl", tmp_path / "d.jsonl.0123abcd.part"
    left.write_bytes(CANARY)
    ended = ran(["--store", str(tmp_path / "kb.db"), "export", "-d", "d", "-o", str(out)])
    assert ended.code == 0
    assert f"removed {left}" in ended.err
    assert not left.exists()


def ask(log: QuestionLog, text: str) -> None:
    assert log.note(text, ["d"], "nothing", []) is None


def test_draft_of_a_question_log_goes_with_the_next_write_and_with_a_purge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    def left() -> list[Path]:
        files = (tmp_path / "kb" / ".triptych").rglob("*")
        return [each for each in files if each.is_file() and CANARY in each.read_bytes()]

    with open_kind("files", tmp_path, "kb") as store:
        fill_at_once(store, "d", {"a": "text"})
        service = Service(store)
        log = QuestionLog(store.capabilities.settings)
        for end in (lambda: ask(log, "another"), lambda: service.purge("d", "a")):
            with monkeypatch.context() as patch:
                patch.setattr(Disk, "rename", die)
                with pytest.raises(Killed):
                    ask(log, CANARY.decode())
            assert len(left()) == 1
            assert "journal.left" in {each.check for each in service.doctor().findings}
            end()
            assert left() == []
