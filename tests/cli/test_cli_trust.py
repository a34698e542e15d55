"""A folder that somebody else made, and the commands that a person runs in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from support.provider_server import Asked, ProviderServer, Reply, as_json, serving, vector
from triptych.sync import RememberedRoots, SyncRoot
from triptych_providers import OllamaEmbedder

SECRET = "The badger keeps the spare key."


def answer(asked: Asked) -> Reply:
    if asked.path.endswith("/api/embed"):
        return as_json({"embeddings": [vector(text, 8) for text in asked.body["input"]]})
    return as_json({"message": {"content": "An answer [1]."}, "done": True})


@pytest.fixture
def host() -> Iterator[ProviderServer]:
    with serving(answer) as server:
        yield server


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: ProviderServer) -> Shell:
    """In a clone, whose settings and store name a model and folders of the user."""
    (tmp_path / "clone" / ".triptych").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "diary.md").write_text(f"# Diary\n\n{SECRET}\n")
    shell = fresh_shell(tmp_path / "clone", monkeypatch)
    monkeypatch.delenv("TRIPTYCH_EMBEDDER")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("OLLAMA_HOST", host.url)
    # As its maker made it, on another machine.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "theirs"))
    embedder = OllamaEmbedder("m", base_url=host.url)
    with triptych.open(
        str(tmp_path / "clone" / ".triptych" / "kb.db"),
        embedder=embedder,
    ) as kb:
        kb.dataset("d").put("a.md", "# Lid\n\nThe lid opens to the left.\n")
        RememberedRoots(kb.capabilities.settings).add([SyncRoot(path=tmp_path / "private")])
    embedder.close()
    shell.write(
        "triptych.toml",
        f'llm = "ollama:m"\nllm_base_url = "{host.url}"\nhistory = 0\n'
        f'reranker = "tei:{host.url}"\nsparse_encoder = "tei:{host.url}"\n',
    )
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    host.asked.clear()
    return shell


COMMANDS = (
    "search lid",
    "ask lid",
    "context lid",
    "status",
    "status --json",
    "doctor",
    "sync",
    "sync --dry-run",
    "embed",
    "rebuild --all",
    "layers build",
    "list",
    "list --folders",
)


@pytest.mark.parametrize("line", COMMANDS)
def test_no_command_in_a_strange_folder_asks_its_hosts(
    shell: Shell, host: ProviderServer, tmp_path: Path, line: str
) -> None:
    ran = shell(*line.split())
    assert host.asked == []
    assert SECRET not in ran.both
    assert "llm, llm_base_url, reranker, sparse_encoder are not in force" in ran.err
    mine = str(tmp_path / "mine.db")
    assert shell("-s", mine, "put", str(tmp_path / "private")).code == 0
    ran = shell("-s", mine, *line.split())
    assert "is not in force" in ran.err
    assert host.asked == []


def test_the_folders_and_the_embedder_of_a_strange_store_wait_for_trust(
    shell: Shell, host: ProviderServer, tmp_path: Path
) -> None:
    private = str(tmp_path / "private")
    refused = shell("sync")
    assert (refused.code, private in refused.err, "triptych trust" in refused.err) == (
        2,
        True,
        True,
    )
    named = shell("-s", ".triptych/kb.db", "sync")
    assert (named.code, private in named.err) == (2, True)
    searched = shell("search", "lid", "--json")
    assert [hit["doc_name"] for hit in searched.json["hits"]] == ["a.md"]
    assert any("triptych trust" in each for each in searched.json["warnings"])
    shell.write("b.md", "# Spout\n\nA spout.\n")
    put = shell("put", "b.md")  # kept, and found by its words
    assert (put.code, "triptych trust" in put.err) == (6, True)
    assert host.asked == []

    planned = shell("trust", "--dry-run", "--json").json
    assert planned["folders"] == [private]
    assert planned["embedder"] == "ollama:m"
    assert planned["settings"]["llm"] == "ollama:m"
    assert shell("sync").code == 2
    trusted = shell("trust")
    assert trusted.err == ""
    assert f"trusted: the store reads the folder {private}" in trusted.text
    assert "llm = ollama:m" in trusted.text
    assert host.asked == []
    shell.write("triptych.toml", "history = 3\n")  # the other hosts answer nothing of use
    synced = shell("sync", "--json")
    assert (synced.code, synced.json["added"]) == (0, 1)
    assert any(SECRET in str(asked.body) for asked in host.asked)
    assert shell("embed").code == 0  # b.md, which was put before
    host.asked.clear()
    assert shell("search", "spare key", "--json").json["warnings"] == []
    assert host.asked != []

    assert shell("trust", "--revoke").code == 0
    host.asked.clear()
    assert shell("sync").code == 2
    assert shell("search", "lid").code == 0
    assert host.asked == []


def test_what_a_person_adds_and_names_is_trusted_as_it_is_said(
    shell: Shell, host: ProviderServer, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    shell.directory.joinpath("triptych.toml").unlink()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "n.md").write_text("# Notes\n\nA note.\n")
    store = str(tmp_path / "mine" / "kb.db")
    assert shell("-s", store, "--embedder", "ollama:m", "add", str(tmp_path / "notes")).code == 0
    assert shell("-s", store, "sync").code == 0
    host.asked.clear()
    os.chdir(tmp_path / "mine")  # where it is found
    assert shell("search", "note", "--json").json["warnings"] == []
    assert host.asked != []
    assert shell("sync").code == 0


def test_a_store_in_the_home_does_not_own_the_home(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shell.directory.joinpath("triptych.toml").unlink()
    store = str(tmp_path / "kb.db")
    with triptych.open(store, embedder="none") as kb:
        RememberedRoots(kb.capabilities.settings, tmp_path).add(
            [SyncRoot(path=tmp_path / "private")]
        )
    refused = shell("-s", store, "sync")
    assert (refused.code, "nobody added on this machine" in refused.err) == (2, True)


def test_where_nothing_reaches_out_there_is_nothing_to_trust(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    os.chdir(tmp_path / "empty")
    ran = shell("trust")
    assert (ran.code, "nothing here needs trust" in ran.err) == (3, True)


@pytest.fixture
def plain(shell: Shell, tmp_path: Path) -> Shell:
    """In a folder of one's own, beside which is one that is nobody else's business."""
    shell.directory.joinpath("triptych.toml").unlink()
    (tmp_path / "mine").mkdir()
    os.chdir(tmp_path / "mine")
    return shell


def test_a_store_of_plain_files_owns_its_own_folder_only(plain: Shell, tmp_path: Path) -> None:
    url = f"files://{tmp_path}/mine"
    with triptych.open(url, embedder="none") as kb:
        theirs = RememberedRoots(kb.capabilities.settings, tmp_path)
        theirs.add([SyncRoot(path=tmp_path / "private")])
    refused = plain("-s", url, "sync")
    assert (refused.code, "nobody added on this machine" in refused.err) == (2, True)


def test_a_link_to_a_store_brings_no_folder_beside_the_link(plain: Shell, tmp_path: Path) -> None:
    (tmp_path / "mine" / "notes").mkdir()
    (tmp_path / "mine" / "notes" / "n.md").write_text("# Mine\n\nMy own words.\n")
    assert plain("--embedder", "none", "init").code == 0
    assert plain("add", "notes", "--embedder", "none").code == 0
    evil = tmp_path / "evil"
    (evil / "notes").mkdir(parents=True)
    (evil / "notes" / "n.md").write_text("# Theirs\n\nTheir words.\n")
    (evil / ".triptych").symlink_to(tmp_path / "mine" / ".triptych")
    os.chdir(evil)
    assert plain("sync").code == 0
    assert plain("get", "n.md").text.endswith("My own words.\n")


def test_nothing_is_removed_or_written_behind_a_link(plain: Shell, tmp_path: Path) -> None:
    (tmp_path / "mine" / "a.md").write_text("# A\n\nText.\n")
    ssh = tmp_path / "ssh"
    ssh.mkdir()
    for name in ("id", "known_hosts", "conf.json", ".new-x", f"{0:032x}.json"):
        (ssh / name).write_text("x")
    assert plain("-s", "kb.db", "--embedder", "none", "add", ".").code == 0
    state = tmp_path / "mine" / "kb.db.sync"
    for each in state.iterdir():
        each.unlink()
    state.rmdir()
    state.symlink_to(ssh)
    kept = sorted(ssh.iterdir())
    plain("-s", "kb.db", "doctor", "--repair")
    assert plain("-s", "kb.db", "sync").code in (0, 1)
    assert plain("-s", "kb.db", "delete", "a.md", "--purge", "--yes").code in (0, 2)
    assert sorted(ssh.iterdir()) == kept


def test_init_writes_through_no_link(plain: Shell, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "mine" / ".triptych").symlink_to(tmp_path / "other")
    assert plain("init").code != 0
    assert list((tmp_path / "other").iterdir()) == []
    (tmp_path / "mine" / ".triptych").unlink()
    (tmp_path / "mine" / ".triptych").mkdir()
    (tmp_path / "mine" / ".triptych" / ".gitignore").symlink_to(tmp_path / "planted")
    assert plain("init").code == 0
    assert not (tmp_path / "planted").exists()
