"""Documents of the folders that a server syncs itself: nobody outside names one so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from support.servers import served
from triptych import NewDocument, NotAvailableError, Service
from triptych.access import Access
from triptych.copies import copy_store
from triptych.errors import AccessDeniedError
from triptych.search import synced_folders
from triptych.sync import DirectorySync, SyncRoot
from triptych_server.keys import KeyStore, authenticator

pytest.importorskip("uvicorn")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A prompt on the server's machine, whose store has synced the folder notes."""
    made = fresh_shell(tmp_path, monkeypatch)
    made.write("notes/a.md", "# Kettle\n\nA kettle of tea.\n")
    made.write("x", "a secret beside the folder\n")
    assert made("sync", "notes", "-q").code == 0
    return made


@pytest.fixture
def kb(shell: Shell) -> Iterator[Service]:
    with triptych.open(str(shell.store), embedder="hash") as opened:
        yield opened


def own_key(kb: Service) -> str:
    settings = kb.capabilities.settings
    assert settings is not None
    (key,) = synced_folders(settings)
    return key


def hostile(key: str) -> list[NewDocument]:
    return [
        NewDocument(name=name, content=f"kettle {number}", sync_root=key)
        for number, name in enumerate(("/etc/passwd", "../x", "a.md"))
    ]


@pytest.mark.parametrize("keyed", [True, False])
def test_a_writer_over_http_names_no_folder_of_the_server(
    shell: Shell, kb: Service, keyed: bool
) -> None:
    key = own_key(kb)
    made = KeyStore.of(kb).add("writer", can_write=True).token if keyed else ""
    options: dict[str, Any] = {"authenticate": authenticator(kb)} if keyed else {}
    with (
        served(kb, write=True, **options) as url,
        triptych.open(url, **({"api_key": made} if keyed else {})) as remote,
    ):
        for document in hostile(key):
            with pytest.raises(AccessDeniedError, match="a folder that this knowledge base syncs"):
                remote.put_documents("default", [document])
        # A folder of the caller's is the caller's, and a document may leave the server's.
        report = remote.put_documents(
            "default", [NewDocument(name="b.md", content="Mine.", sync_root="elsewhere-1")]
        )
        assert (report.added, report.failed) == (1, ())
        assert remote.put_documents(
            "default", [NewDocument(name="a.md", content="Freed.", sync_root="")]
        ).updated
    assert kb.get_document("default", "b.md").system.sync_root == "elsewhere-1"
    assert [info.name for info in kb.list_documents("default")] == ["a.md", "b.md"]


@pytest.mark.parametrize("where", [None, {"team": "red"}])
def test_a_caller_with_an_access_names_no_folder_of_the_store(
    kb: Service, where: dict[str, Any] | None
) -> None:
    restricted = kb.restricted(Access(can_write=True, where=where))
    document = NewDocument(
        name="b.md", content="Kettle.", metadata={"team": "red"}, sync_root=own_key(kb)
    )
    mine = NewDocument(name="c.md", content="Mine.", metadata={"team": "red"}, sync_root="own")
    report = restricted.put_documents("default", [document, mine])
    ((name, error),) = ((each.name, each.error) for each in report.failed)
    assert (report.added, name, type(error)) == (1, "b.md", AccessDeniedError)
    assert "a folder that this knowledge base syncs itself" in str(error)
    with pytest.raises(AccessDeniedError):
        restricted.documents.put("default", document)
    if where is None:
        with pytest.raises(AccessDeniedError, match="a folder that this knowledge base syncs"):
            restricted.documents.load(kb.get_document("default", "a.md"))


def test_the_key_of_a_folder_is_the_servers_while_its_first_sync_runs(
    shell: Shell, kb: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.write("more/b.md", "# Pot\n")
    root = SyncRoot(path=shell.directory / "more", key="handbook")
    sync = DirectorySync(kb, [root])
    restricted = kb.restricted(Access(can_write=True))
    refused = []

    def meanwhile(*_: Any) -> None:
        refused.append(restricted.put_documents("default", hostile("handbook")).failed)

    assert sync.sync(progress=meanwhile).added == 1
    assert refused
    assert all(len(each) == 3 for each in refused)


@pytest.mark.parametrize("named", ["/etc/passwd", "../x", "sub/../../x", "link", "folder/x"])
def test_files_never_leave_their_folder(shell: Shell, kb: Service, named: str) -> None:
    """Whatever marks are stored, by whomever: here by a program on the server itself."""
    os.symlink(shell.directory / "x", shell.directory / "notes" / "link")
    os.symlink(shell.directory, shell.directory / "notes" / "folder")
    kb.put_documents("default", [NewDocument(name=named, content="zebra", sync_root=own_key(kb))])
    found = shell("search", "zebra", "--mode", "bm25", "-d", "default", "--json")
    assert found.json["hits"][0]["file"] is None
    opened = shell("search", "zebra", "--mode", "bm25", "-d", "default", "--open")
    assert (opened.code, "has no existing source file" in opened.err) == (7, True)
    printed = shell("search", "zebra", "--mode", "bm25", "-d", "default", "--files")
    if named.startswith(("/", "../")) or "/../" in named:
        assert (printed.text, named in printed.err) == ("", True)
    else:
        assert printed.text == f"{named}\n"
    assert shell("get", named, "--json").json["document"]["file"] is None


def test_a_link_inside_of_the_folder_is_found(shell: Shell, kb: Service) -> None:
    os.symlink("a.md", shell.directory / "notes" / "b.md")
    assert shell("sync", "notes", "-q").code == 0
    hits = shell("search", "kettle", "--mode", "bm25", "-d", "default", "--json").json["hits"]
    assert {hit["file"] for hit in hits} == {
        str(shell.directory / "notes" / name) for name in ("a.md", "b.md")
    }


def test_a_caller_with_an_access_takes_over_no_store(kb: Service) -> None:
    restricted = kb.restricted(Access(can_write=True))
    with triptych.open("memory://", embedder="hash") as other:
        other.put_documents("default", hostile(own_key(kb)))
        with pytest.raises(NotAvailableError, match="does not support copies"):
            copy_store(other.store, restricted.store)
