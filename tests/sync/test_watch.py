"""A watched folder: real files, real events, a real process."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import triptych
from support.sync_folder import Desk, contents, desk as made_desk, until
from support.watch_process import watch_command
from triptych.contracts import EventNotifier
from triptych.errors import NotAvailableError, ProviderError, ValidationError
from triptych.events import EventReloader, RebuildRecord, ReloaderOptions
from triptych.installation import install_command
from triptych.sync import DirectorySync, PollingNotifier
from triptych_backends.watching import WatchfilesNotifier

pytestmark = pytest.mark.process

QUICK = ReloaderOptions(debounce=0.05, max_delay=0.5, backoff_initial=0.05, backoff_max=0.2)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with made_desk(tmp_path) as made:
        yield made


@pytest.fixture(params=["watching", "polling"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def notifier_of(kind: str, sync: DirectorySync) -> EventNotifier:
    return WatchfilesNotifier(sync) if kind == "watching" else PollingNotifier(sync, every=0.05)


@contextmanager
def watched(desk: Desk, kind: str = "watching") -> Iterator[list[RebuildRecord]]:
    """The folder is watched, and its first sync is done; what happens since is in the list."""
    records: list[RebuildRecord] = []
    sync = desk.syncing()
    notifier = notifier_of(kind, sync)
    with EventReloader(sync, notifier, QUICK, on_rebuild=records.append) as reloader:
        reloader.start()
        until(lambda: records)
        del records[:]
        yield records


def test_what_is_there_at_the_start_is_synced(desk: Desk, kind: str) -> None:
    desk.write("a.md", "one")
    with watched(desk, kind):
        assert contents(desk.kb) == {"a.md": "one"}


def test_edits_renames_and_deletes_arrive(desk: Desk, kind: str) -> None:
    desk.write("a.md", "one")
    with watched(desk, kind) as records:
        desk.write("a.md", "two")
        # What a rebuild has written is seen before its record is.
        until(lambda: records and contents(desk.kb) == {"a.md": "two"})
        assert records[0].scope.doc_name == "a.md"
        desk.write("new/b.md", "three")
        until(lambda: contents(desk.kb) == {"a.md": "two", "new/b.md": "three"})
        (desk.root / "new" / "b.md").rename(desk.root / "c.md")
        until(lambda: contents(desk.kb) == {"a.md": "two", "c.md": "three"})
        (desk.root / "c.md").unlink()
        until(lambda: contents(desk.kb) == {"a.md": "two"})


def test_a_file_that_is_saved_by_renaming_never_loses_its_document(desk: Desk, kind: str) -> None:
    desk.write("a.md", "0")
    lost: list[int] = []
    with watched(desk, kind):
        for number in range(1, 20):
            temporary = desk.write(f"{number}.tmp", str(number))
            (desk.root / "a.md").rename(desk.root / "a.md~")
            temporary.rename(desk.root / "a.md")
            (desk.root / "a.md~").unlink()
            if not desk.names:
                lost.append(number)
        until(lambda: contents(desk.kb) == {"a.md": "19"})
    assert lost == []
    assert desk.kb.get_document("d", "a.md").version > 1


def test_a_tree_that_is_moved_in_out_and_about_arrives(desk: Desk, kind: str) -> None:
    outside = desk.path / "outside"
    for number in range(20):
        file = outside / "deep" / f"{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Part {number}\n\ntext {number}\n")
    with watched(desk, kind):
        outside.rename(desk.root / "in")
        until(lambda: len(desk.names) == 20)
        (desk.root / "in").rename(desk.root / "moved")
        until(lambda: len(desk.names) == 20 and desk.names[0] == "moved/deep/0.md")
        assert len(desk.embedder.texts) == 20
        (desk.root / "moved").rename(outside)
        until(lambda: not desk.names)


def test_a_root_that_is_deleted_and_made_again_is_watched_again(desk: Desk, kind: str) -> None:
    desk.write("a.md", "one")
    with watched(desk, kind) as records:
        shutil.rmtree(desk.root)
        until(lambda: records and not desk.root.exists())
        desk.root.mkdir()
        desk.write("b.md", "two")
        until(lambda: contents(desk.kb) == {"b.md": "two"})
        desk.write("c/d.md", "three")
        until(lambda: "c/d.md" in desk.names)
        desk.root.rename(desk.path / "away")
        desk.root.mkdir()
        desk.write("e.md", "four")
        until(lambda: contents(desk.kb) == {"e.md": "four"})


def test_a_root_that_is_not_there_yet_is_waited_for(desk: Desk, kind: str) -> None:
    desk.root.rmdir()
    with watched(desk, kind):
        desk.write("a.md", "one")
        until(lambda: contents(desk.kb) == {"a.md": "one"})
        desk.write("a.md", "two")
        until(lambda: contents(desk.kb) == {"a.md": "two"})


def test_many_changes_at_once_all_arrive(desk: Desk) -> None:
    """Three events for each of so many files, and as many deletes."""
    with watched(desk):
        for number in range(1050):
            (desk.root / f"{number}.md").write_text(f"text {number}")
        until(lambda: len(desk.names) == 1050)
        for number in range(1000):
            (desk.root / f"{number}.md").unlink()
        until(lambda: len(desk.names) == 50, 60)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_git_checkout_arrives(desk: Desk) -> None:
    def git(*arguments: str) -> None:
        settings = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "gc.auto=0"]
        subprocess.run(["git", "-C", str(desk.root), *settings, *arguments], check=True)

    git("init", "-q", "-b", "one")
    for number in range(30):
        desk.write(f"part{number}.md", f"one {number}")
    git("add", ".")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "two")
    for number in range(30):
        if number % 3:
            desk.write(f"part{number}.md", f"two {number}")
        else:
            (desk.root / f"part{number}.md").unlink()
    desk.write("only-two.md", "two")
    git("add", "-A")
    git("commit", "-qm", "two")
    with watched(desk):
        for branch in ("one", "two", "one"):
            git("checkout", "-q", branch)
            files = {path.name: path.read_text() for path in desk.root.glob("*.md")}
            until(lambda files=files: contents(desk.kb) == files)  # type: ignore[misc]  # bound now


def test_an_embedder_out_of_reach_is_reported_and_tried_again(desk: Desk, kind: str) -> None:
    desk.write("a.md", "# A\n\nalpha\n")
    with watched(desk, kind) as records:
        first = desk.embedder.calls + 1
        desk.embedder.failures = dict.fromkeys(range(first, first + 7), ProviderError("no answer"))
        desk.write("a.md", "# A\n\nbeta\n")
        until(lambda: records and records[-1].retry is None)
        assert "no answer" in str(records[0].report.failed[0].error)  # type: ignore[union-attr]  # it has one
        assert records[0].retry_in is not None
        assert records[-1].attempt > 1
    (hit,) = desk.kb.search("beta", dataset_id="d", mode="bm25").hits
    assert hit.stale is None


def test_a_root_that_is_a_link_is_watched(desk: Desk, kind: str) -> None:
    desk.root.rename(desk.path / "real")
    os.symlink("real", desk.root)
    with watched(desk, kind):
        desk.write("deep/a.md", "one")
        until(lambda: contents(desk.kb) == {"deep/a.md": "one"})
        os.mkdir(desk.path / "other")
        (desk.path / "other" / "b.md").write_text("two")
        desk.root.unlink()
        os.symlink("other", desk.root)
        until(lambda: contents(desk.kb) == {"b.md": "two"})


def test_ignored_changes_make_no_work(desk: Desk) -> None:
    desk.write(".gitignore", "log.md\nbuild/\n")
    desk.write("a.md", "one")
    desk.write("build/0.md", "built")
    with watched(desk) as records:
        for number in range(10):
            desk.write("log.md", str(number))
            desk.write(f".git/{number}", str(number))
            desk.write(f"build/{number}.md", str(number))
            desk.write(f"{number}.png", str(number))
        # In one step: a file that is written is emptied first, which may be a change of its own.
        saved = desk.path / "saved.md"
        saved.write_text("two")
        saved.rename(desk.root / "a.md")
        until(lambda: records and contents(desk.kb) == {"a.md": "two"})
        assert [record.scope.doc_name for record in records] == ["a.md"]
        desk.write(".gitignore", "build/\n")
        until(lambda: desk.names == ["a.md", "log.md"])


def test_all_is_compared_from_time_to_time(desk: Desk) -> None:
    sync = desk.syncing()
    notifier = WatchfilesNotifier(sync, resync=0.1)
    events = notifier.events()
    assert [next(events).kind for _ in range(3)] == ["bulk"] * 3
    notifier.close()
    assert list(events) == []


@pytest.mark.parametrize("when", ["before", "while it waits"])
def test_a_closed_notifier_ends(desk: Desk, kind: str, when: str) -> None:
    notifier = notifier_of(kind, desk.syncing())
    if when == "before":
        notifier.close()
        assert list(notifier.events()) in ([], [*desk.syncing().everything()])
        return
    thread = threading.Thread(target=lambda: list(notifier.events()))
    thread.start()
    notifier.close()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "1", True])
def test_an_invalid_period_is_refused(desk: Desk, seconds: float) -> None:
    with pytest.raises(ValidationError):
        PollingNotifier(desk.syncing(), every=seconds)
    with pytest.raises(ValidationError):
        WatchfilesNotifier(desk.syncing(), resync=seconds)


def test_without_watchfiles_the_extra_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(NotAvailableError, match=re.escape(install_command(extra="watch"))):
        WatchfilesNotifier(desk.syncing())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_the_command_watches_until_it_is_told_to_stop(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\nalpha\n")
    # A store inside of what is watched, whose own writes must start nothing.
    with watch_command(tmp_path, ".", "--json", "--embedder", "hash") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["command"], first["report"]["rebuilt"]) == ("watch", 1)
        (tmp_path / "docs" / "b.md").write_text("# B\n\nbeta\n")
        seen: list[list[str]] = []
        while ["docs/b.md"] not in seen:
            seen.append(json.loads(process.stdout.readline())["scope"]["doc_names"])
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert out == ""
    assert "stopped" in err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_the_command_does_not_wait_for_a_model_that_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nalpha\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"http://127.0.0.1:{server.getsockname()[1]}"
        with watch_command(
            tmp_path, ".", "--embedder", "ollama:none", OLLAMA_HOST=host, NO_PROXY="127.0.0.1"
        ) as process:
            asked, _ = server.accept()
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=30)
            asked.close()
    assert process.returncode == 0, err
    assert "during a call of the model" in err
    with triptych.open(tmp_path / "kb.db", embedder=None) as kb:
        assert kb.health().ok
