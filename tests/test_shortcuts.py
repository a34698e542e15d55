"""The short ways in and out: folders, files, answers and prompts."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import triptych
from triptych import NotFoundError, Service, ValidationError
from triptych.access import Access
from triptych.errors import StoreLockedError
from triptych.shortcuts import get_chunk, ingest_directory, ingest_file, query, query_context

NAMES = [
    "README.MARKDOWN",
    "guide/start.md",
    "latin.md",
    "link/start.md",
    "tasks/lid.txt",
    "tool.py",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of documents, below an empty current directory without settings."""
    for name in [name for name in os.environ if name.startswith("TRIPTYCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRIPTYCH_EMBEDDER", "hash")
    monkeypatch.chdir(tmp_path)
    files = {
        "docs/guide/start.md": "# Start\n\nFill the kettle.\n",
        "docs/tasks/lid.txt": "---\nlang: en\n---\nMend the lid of the kettle.\n",
        "docs/README.MARKDOWN": "# Kettles\n",
        "docs/latin.md": "caf\xe9",
        "docs/tool.py": "print()",
        "docs/Makefile": "all:",
        "docs/core.md": "a\0b",
        "docs/half.md": "\xff\xfea",
        "docs/.hidden.md": "no",
        "docs/.git/config.md": "no",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    (tmp_path / "docs" / "link").symlink_to(tmp_path / "docs" / "guide")
    (tmp_path / "docs" / "gone.md").symlink_to(tmp_path / "nowhere.md")
    return tmp_path / "docs"


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="hash") as service:
        yield service


def names(service: Service) -> list[str]:
    return [info.name for info in service.list_documents("d")]


@pytest.mark.parametrize("opened", [True, False])
def test_the_files_of_the_store_itself_are_skipped(folder: Path, opened: bool) -> None:
    url = (folder / "store").as_uri().replace("file:", "files:")
    with triptych.open(url) as kb:
        kb.put_document("d", "a.md", "# A\n\ntext\n")
    for _ in range(2):
        if opened:
            with triptych.open(url) as kb:
                report = ingest_directory(kb, folder, "e")
        else:
            report = ingest_directory(url, folder, "e")
    assert [each.reason for each in report.skipped if each.name == "store/"] == ["the store itself"]
    with triptych.open(url) as kb:
        names = [info.name for info in kb.list_documents("e")]
    assert "guide/start.md" in names
    assert not [name for name in names if name.startswith("store")]


def test_a_folder_goes_in_and_everything_skipped_is_reported(kb: Service, folder: Path) -> None:
    report = ingest_directory(kb, folder, "d")
    assert names(kb) == NAMES
    assert (report.added, report.updated, report.unchanged) == (6, 0, 0)
    assert report.chunks == report.embedded + report.reused > 0  # what a link leads to is reused
    assert [(each.name, each.reason) for each in report.skipped] == [
        (".git/", "hidden"),
        (".hidden.md", "hidden"),
        ("Makefile", "has no ending"),
        ("core.md", "binary"),
        ("gone.md", "a link that leads nowhere"),
    ]
    assert [failure.name for failure in report.failed] == ["half.md"]
    assert "UTF-16" in str(report.failed[0].error)
    (note,) = report.notes
    assert "latin.md' does not say its encoding: ISO-8859-1 was guessed" in note
    assert kb.get_document("d", "latin.md").content == "café"


def test_what_an_ignore_file_names_is_skipped(kb: Service, folder: Path) -> None:
    (folder / ".gitignore").write_text("tasks/\n*.py\n")
    (folder / ".triptychignore").write_text("!tool.py\n")
    report = ingest_directory(kb, folder, "d")
    assert names(kb) == [name for name in NAMES if name != "tasks/lid.txt"]
    assert ("tasks/", "ignored") in [(each.name, each.reason) for each in report.skipped]


def test_the_same_again_costs_nothing(kb: Service, folder: Path) -> None:
    ingest_directory(kb, folder, "d")
    report = ingest_directory(kb, str(folder), "d")
    assert (report.added, report.unchanged, report.embedded) == (0, 6, 0)


def test_recreate_leaves_only_what_the_folder_has(kb: Service, folder: Path) -> None:
    kb.put_document("d", "old.md", "An old one.")
    ingest_directory(kb, folder, "d")
    assert "old.md" in names(kb)
    report = ingest_directory(kb, folder, "d", recreate=True)
    assert report.added == 6
    assert "old.md" not in names(kb)


def test_a_folder_that_is_not_there_empties_no_dataset(kb: Service, folder: Path) -> None:
    kb.put_document("d", "old.md", "An old one.")
    for path in (folder / "nowhere", folder / "tool.py"):
        with pytest.raises(NotFoundError, match="no directory"):
            ingest_directory(kb, path, "d", recreate=True)
    assert names(kb) == ["old.md"]


@pytest.mark.parametrize("mistake", [{"progress": 5}, {"recreate": "no"}, {"recreate": None}])
def test_a_mistaken_argument_empties_no_dataset(
    kb: Service, folder: Path, mistake: dict[str, Any]
) -> None:
    kb.put_document("d", "old.md", "An old one.")
    with pytest.raises(ValidationError, match=next(iter(mistake))):
        ingest_directory(kb, folder, "d", **({"recreate": True} | mistake))
    assert names(kb) == ["old.md"]


def test_what_is_no_path_or_name_is_refused_by_name(kb: Service, folder: Path) -> None:
    for path in (None, 5, b"docs"):
        with pytest.raises(ValidationError, match="directory is a path"):
            ingest_directory(kb, path, "d")  # type: ignore[arg-type]  # that is the point
        with pytest.raises(ValidationError, match="path is a path"):
            ingest_file(kb, path, "d")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValidationError, match="cannot be read"):
        ingest_file(kb, "a\0b", "d")
    with pytest.raises(ValidationError, match="name must be a string"):
        ingest_file(kb, folder / "tool.py", "d", name=5)  # type: ignore[arg-type]  # likewise
    with pytest.raises(ValidationError, match="no format"):
        query_context(kb, "kettle", "d", format=[])  # type: ignore[arg-type]  # likewise


def test_a_name_that_no_document_can_have_is_reported(kb: Service, folder: Path) -> None:
    (folder / "a\nb.md").write_text("text")
    report = ingest_directory(kb, folder, "d")
    assert [failure.name for failure in report.failed] == ["a\nb.md", "half.md"]
    assert report.added == 6


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything is readable here")
def test_a_folder_that_cannot_be_read_is_reported(kb: Service, folder: Path) -> None:
    (folder / "guide").chmod(0)
    try:
        failed = ingest_directory(kb, folder, "d").failed
    finally:
        (folder / "guide").chmod(0o755)
    (told,) = [str(each.error) for each in failed if each.name == "guide/"]
    assert told.endswith("cannot be read: Permission denied")


def test_a_file_goes_in_under_its_path(kb: Service, folder: Path) -> None:
    assert ingest_file(kb, "docs/tasks/lid.txt", "d").name == "docs/tasks/lid.txt"
    assert ingest_file(kb, folder / "tool.py", "d", name="tool").content == "print()"
    assert kb.get_document("d", "docs/tasks/lid.txt").metadata == {"lang": "en"}
    with pytest.raises(ValidationError, match="UTF-16"):
        ingest_file(kb, folder / "half.md", "d")
    with pytest.raises(ValidationError, match=r"core\.md' is binary"):
        ingest_file(kb, folder / "core.md", "d")
    with pytest.raises(ValidationError, match="cannot be read"):
        ingest_file(kb, folder / "nowhere.md", "d")


def test_what_front_matter_says_filters(kb: Service, folder: Path) -> None:
    ingest_directory(kb, folder, "d")
    found = query(kb, "kettle", "d", where={"category": "task"}).hits
    assert {hit.doc_name for hit in found} == set()
    (folder / "tasks/lid.txt").write_text("---\ncategory: task\n---\nMend the lid.\n")
    ingest_directory(kb, folder, "d")
    found = query(kb, "lid", "d", where={"category": ["task", "brand"]}).hits
    assert {hit.doc_name for hit in found} == {"tasks/lid.txt"}
    assert len(query(kb, "kettle", "d", 1).hits) == 1


def test_documents_get_a_category_by_their_path(kb: Service, folder: Path) -> None:
    (folder / "tasks/logo.md").write_text("---\ncategory: brand\n---\nDraw the lid.\n")
    report = ingest_directory(kb, folder, "d", categories=True)
    found = {each.name: each.metadata["category"] for each in kb.list_documents("d")}
    assert found["tasks/lid.txt"] == "task"
    assert found["tasks/logo.md"] == "brand"
    assert found["guide/start.md"] == "documentation"
    hits = query(kb, "lid", "d", where={"category": "task"}).hits
    assert {hit.doc_name for hit in hits} == {"tasks/lid.txt"}
    root = ElementTree.fromstring(
        query_context(kb, "mend the lid", "d", top_k=1, where={"category": "task"})
    )
    assert root[0].attrib["category"] == "task"
    again = ingest_directory(kb, folder, "d", categories=True)
    assert (again.added, again.updated) == (0, 0)
    assert report.added == len(found)
    stored = ingest_file(kb, "docs/tasks/lid.txt", "files", name="faq/lid.txt", categories=True)
    assert stored.metadata["category"] == "help-doc"


def test_a_chunk_is_read_by_its_id(kb: Service, folder: Path) -> None:
    ingest_directory(kb, folder, "d")
    for hit in query(kb, "kettle lid", "d").hits:
        assert hit.chunk_id is not None
        for name in (hit.doc_name, None):
            chunk = get_chunk(kb, hit.chunk_id, "d", name)
            assert (chunk.doc_name, chunk.index) == (hit.doc_name, hit.chunk_index)
            assert (chunk.content, chunk.chunk_id) == (hit.content, hit.chunk_id)
    (hit,) = query(kb, "mend the lid", "d", 1).hits
    assert hit.chunk_id is not None
    hidden = kb.restricted(Access(dataset_ids=["d"], where={"lang": "fr"}))
    with pytest.raises(NotFoundError):
        get_chunk(hidden, hit.chunk_id, "d")
    kb.put_document("d", "other.md", "# Other\n\nMend the pot.\n")
    assert get_chunk(kb, hit.chunk_id, "d").content == hit.content
    with pytest.raises(NotFoundError, match="have changed"):
        get_chunk(kb, hit.chunk_id, "d", "other.md")
    past = datetime(2020, 1, 1, tzinfo=UTC)
    kb.put_document("d", hit.doc_name, kb.get_document("d", hit.doc_name).content, expires_at=past)
    for name in (hit.doc_name, None, "none.md"):
        with pytest.raises(NotFoundError):
            get_chunk(kb, hit.chunk_id, "d", name)
    with pytest.raises(NotFoundError):
        get_chunk(kb, hit.chunk_id, "none")


def test_a_question_gives_the_context_of_a_prompt(kb: Service, folder: Path) -> None:
    ingest_directory(kb, folder, "d")
    root = ElementTree.fromstring(query_context(kb, "mend the lid", "d", top_k=1))
    (document,) = root
    assert document.attrib["source"] == "tasks/lid.txt"
    assert "category" not in document.attrib
    assert document.text.rstrip().endswith("Mend the lid of the kettle.")
    assert query_context(kb, "lid", "d", format="text", mode="bm25").startswith("1. tasks/lid.txt")
    assert json.loads(query_context(kb, "lid", "d", format="json"))["hits"]
    with pytest.raises(ValidationError, match="'json', 'text', 'xml'"):
        query_context(kb, "lid", "d", format="yaml")


def test_a_path_or_nothing_stands_for_a_store(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder.parent / "data"))
    report = ingest_directory("own.db", folder, "d")
    assert report.added == 6
    assert ingest_file(Path("own.db"), folder / "tool.py", "d").version == 1
    assert query("own.db", "kettle", "d").hits
    ingest_directory(None, folder, "d")
    assert (folder.parent / "data" / "triptych" / "kb.db").exists()
    assert "kettle" in query_context(None, "kettle", "d")


def test_asking_makes_no_store(folder: Path) -> None:
    for ask in (query, query_context):
        with pytest.raises(NotFoundError):
            ask("none.db", "kettle", "d")
    assert not Path("none.db").exists()


def test_a_store_that_is_not_well_takes_no_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest_directory("own.db", folder, "d")
    Path("own.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(triptych.StoreError):
        ingest_directory("own.db", folder, "d", recreate=True)


def test_a_store_that_is_locked_is_reported_at_once_and_not_file_by_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest_directory("own.db", folder, "d")
    (folder / "new.md").write_text("new")
    monkeypatch.setenv("TRIPTYCH_LOCK_TIMEOUT", "0.1")
    writer = sqlite3.connect("own.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreLockedError):
            ingest_directory("own.db", folder, "d")
    finally:
        writer.close()
    assert ingest_directory("own.db", folder, "d").added == 1
