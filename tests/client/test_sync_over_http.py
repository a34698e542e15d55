"""`triptych sync` and `watch` into a knowledge base on a server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.cli_run import ran
from support.servers import served
from support.sync_folder import until
from triptych.records import Layer
from triptych.sync import DirectorySync, SyncOptions, SyncRoot
from triptych_server.http import Limits

LIMITS = Limits(body=64 << 10)


@pytest.fixture
def kb() -> Iterator[triptych.Service]:
    with triptych.open("memory://", embedder="hash") as opened:
        yield opened


@pytest.fixture
def url(kb: triptych.Service) -> Iterator[str]:
    with served(kb, write=True, limits=LIMITS) as address:
        yield address


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    return tmp_path


def write(name: str, text: str) -> None:
    path = Path("notes", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def synced(url: str, *more: str) -> dict[str, Any]:
    result = ran(["sync", "notes", "--store", url, "--json", *more])
    assert result.code == 0, result.err
    found: dict[str, Any] = result.json
    return found


def names(kb: triptych.Service) -> list[str]:
    return [info.name for info in kb.list_documents("default")]


def test_the_server_has_what_the_folder_has_and_unchanged_files_are_not_sent(
    url: str, kb: triptych.Service
) -> None:
    write("a.md", "# Tea\n\nA pot of tea.\n")
    write("b/c.md", "# Milk\n\nA jug of milk.\n")
    assert synced(url)["added"] == 2
    versions = {info.name: info.version for info in kb.list_documents("default")}
    assert set(versions) == {"a.md", "b/c.md"}
    assert kb.search("pot", dataset_id="default").hits[0].doc_name == "a.md"

    assert synced(url)["unchanged"] == 2
    write("a.md", "# Tea\n\nA pot of green tea.\n")
    counts = synced(url)
    assert (counts["updated"], counts["unchanged"]) == (1, 1)
    now = {info.name: info.version for info in kb.list_documents("default")}
    assert (now["a.md"] > versions["a.md"], now["b/c.md"]) == (True, versions["b/c.md"])


def test_what_is_gone_is_deleted_and_what_others_put_is_not(url: str, kb: triptych.Service) -> None:
    for name in ("a.md", "b.md", "c.md"):
        write(name, f"# {name}\n")
    kb.put_document("default", "own.md", "Put by itself.")
    synced(url)
    Path("notes/a.md").unlink()
    assert synced(url)["deleted"] == ["a.md"]
    assert names(kb) == ["b.md", "c.md", "own.md"]
    write("own.md", "Of the folder.")
    failed = ran(["sync", "notes", "--store", url])
    assert (failed.code, "--adopt" in failed.err or "adopt it" in failed.err) == (8, True)
    Path("notes/own.md").unlink()
    for name in ("b.md", "c.md"):
        Path("notes", name).unlink()
    held = ran(["sync", "notes", "--store", url])
    assert "--yes" in held.err
    assert names(kb) == ["b.md", "c.md", "own.md"]


def test_a_rename_keeps_the_layers(url: str, kb: triptych.Service) -> None:
    write("old.md", "# Tea\n\nA pot of tea.\n")
    write("other.md", "# Milk\n")
    synced(url)
    kb.put_document_layer("default", "old.md", Layer.ABSTRACT, "About tea.")
    Path("notes/old.md").rename("notes/new.md")
    assert synced(url)["renamed"] == [["old.md", "new.md"]]
    moved = kb.layer("default", "new.md", Layer.ABSTRACT)
    assert moved is not None
    assert (moved.content, moved.stale) == ("About tea.", None)
    assert names(kb) == ["new.md", "other.md"]


def test_a_dry_run_names_what_would_be_sent_and_sends_nothing(
    url: str, kb: triptych.Service
) -> None:
    write("a.md", "# Tea\n")
    plan = synced(url, "--dry-run")
    assert plan["added"] == ["a.md"]
    assert plan["chunks"] is None  # the server cuts
    assert kb.list_datasets() == []
    assert "would be: 1 added" in ran(["sync", "notes", "--store", url, "-n"]).text


def test_a_file_that_the_server_does_not_take_fails_alone(url: str, kb: triptych.Service) -> None:
    write("big.md", "word " * 20_000)
    for number in range(40):
        write(f"{number:02}.md", f"# {number}\n\n" + "text " * 1000)
    result = ran(["sync", "notes", "--store", url])
    assert result.code == 8, result.err
    assert "'big.md' takes" in result.err
    assert "--max-body" in result.err
    assert len(names(kb)) == 40


def test_vectors_that_an_outage_left_pending_are_added_by_the_next_sync(
    url: str, kb: triptych.Service
) -> None:
    write("a.md", "# Tea\n\nA pot of tea.\n")
    kb.put_documents("default", {"b.md": "# Milk\n"}, embed="later")
    assert synced(url)["embedded"] == 2
    assert kb.stats("default")[0].pending == 0


def test_folders_of_two_machines_are_two(
    url: str, kb: triptych.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.md", "# Tea\n")
    synced(url)
    Path("notes/a.md").rename("notes/b.md")
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    synced(url)
    assert names(kb) == ["a.md", "b.md"]


def test_a_key_stands_for_the_folder_wherever_it_is(
    url: str, kb: triptych.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.md", "# Tea\n")
    write("b.md", "# Milk\n")
    synced(url, "--key", "handbook")
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    Path("notes/a.md").unlink()
    assert synced(url, "--key", "handbook")["deleted"] == ["a.md"]
    assert names(kb) == ["b.md"]
    two = ran(["sync", "notes", "data", "--key", "handbook", "--store", url])
    assert two.code in (2, 3)


def test_folders_that_a_server_remembers_are_its_own(url: str) -> None:
    for command in (["sync"], ["watch"], ["add", "notes"], ["list", "--folders"]):
        result = ran([*command, "--store", url])
        assert result.code == 7, result.err
        assert "on a server" in result.err


def test_a_program_syncs_into_a_server(url: str, kb: triptych.Service) -> None:
    write("a.md", "# Tea\n")
    with triptych.open(url) as remote:
        sync = DirectorySync(remote, [SyncRoot(path=Path("notes"))], SyncOptions())
        assert sync.sync().added == 1
        write("a.md", "# Green tea\n")
        scope = triptych.RebuildScope(dataset_id="default", doc_name="a.md")
        assert sync.rebuild(scope).rebuilt == 1
    assert kb.get_document("default", "a.md").content == "# Green tea\n"


@pytest.mark.process
def test_a_folder_is_watched(url: str, kb: triptych.Service) -> None:
    write("a.md", "# Tea\n")
    command = [sys.executable, "-m", "triptych_adapters.cli", "watch", "notes", "--poll", "0.1"]
    environ = {**os.environ, "TRIPTYCH_URL": url}
    with subprocess.Popen(
        [*command, "--debounce", "0.05"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            until(lambda: kb.list_datasets() and names(kb) == ["a.md"])
            write("b.md", "# Milk\n")
            until(lambda: names(kb) == ["a.md", "b.md"])
        finally:
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
