"""What a person does to the files is seen, gets a version, and loses nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from triptych.errors import ConflictError, CorruptStoreError, StoreError
from triptych.records import DatasetConfig, DerivedLayer, DerivedSig, Layer, NewDocument
from triptych.service import Service
from triptych_backends.filesystem import FilesStore

CONFIG = DatasetConfig(chunker_sig="c", embed_sig="")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kb"


@pytest.fixture
def store(root: Path) -> Iterator[FilesStore]:
    with FilesStore.open(root) as store:
        yield store


def put(store: FilesStore, name: str, content: str, **metadata: str) -> int:
    new = NewDocument(name=name, content=content, metadata=metadata)
    return store.documents.put("docs", new).version


def versions(store: FilesStore, dataset: str = "docs") -> dict[str, int]:
    return {info.name: info.version for info in store.documents.list(dataset)}


def layer(store: FilesStore, name: str, content: str, kind: str = "L0") -> DerivedLayer:
    info = store.documents.get_info("docs", name)
    sig = DerivedSig(
        source_version=info.version if info else 0,
        prompt_sig="p",
        input_sig=info.content_sha256 if info else "",
    )
    return DerivedLayer(
        dataset_id="docs", doc_name=name, layer=Layer(kind), content=content, sig=sig
    )


def forget(root: Path) -> None:
    """Delete the derived database, while the store is closed."""
    shutil.rmtree(root / ".triptych" / "derived")


def look(store: FilesStore, how: str) -> FilesStore:
    """Have the store look at its files."""
    if how == "list":
        store.documents.list("docs")
    elif how == "get":
        store.documents.get("docs", "a.md")
    elif how == "get_info":
        store.documents.get_info("docs", "a.md")
    elif how == "rebuild":
        Service(store).rebuild(dataset_id="docs")
    elif how == "put":
        put(store, "b.md", "another")
        store.documents.get("docs", "a.md")
    else:
        store.close()
        return FilesStore.open(store.path)
    return store


WAYS = ["list", "get", "get_info", "rebuild", "open", "put"]


def mirrored(store: FilesStore, name: str = "a.md") -> tuple[str, int] | None:
    """What the mirror has, which searches see; nothing is looked at."""
    found = store.mirror.documents.get("docs", name)
    return None if found is None else (found.content, found.version)


@pytest.mark.parametrize("how", WAYS)
def test_an_edited_file_gets_the_next_version(root: Path, how: str) -> None:
    store = FilesStore.open(root)
    first = put(store, "a.md", "first", lang="en")
    # As long as before, and so soon that some clocks cannot tell.
    (root / "docs" / "a.md").write_bytes(b"fir5t")
    store = look(store, how)
    assert mirrored(store) == ("fir5t", first + 1)
    found = store.documents.get("docs", "a.md")
    assert found is not None
    assert found.metadata == {"lang": "en"}
    store.close()


def test_an_edit_that_keeps_size_and_time_is_seen_while_it_is_recent(
    root: Path, store: FilesStore
) -> None:
    put(store, "a.md", "first")
    file = root / "docs" / "a.md"
    before = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"FIRST")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    found = store.documents.get("docs", "a.md")
    assert found is not None
    assert found.content == "FIRST"


def test_a_file_that_was_only_touched_is_not_edited(root: Path, store: FilesStore) -> None:
    version = put(store, "a.md", "text")
    os.utime(root / "docs" / "a.md", (1, 1))
    assert versions(store) == {"a.md": version}


def test_old_files_are_not_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two seconds are long.
    monkeypatch.setattr("triptych.scan.stats.RACY_NS", 200_000_000)
    with FilesStore.open(root) as store:
        put(store, "a.md", "text")
        time.sleep(0.3)  # beyond the span in which a time says nothing
        versions(store)
        read: list[str] = []
        monkeypatch.setattr(
            type(store.workspace.disk), "read", lambda self, path: read.append(path)
        )
        store.mirror.documents.get("docs", "a.md")
        store.documents.get("docs", "a.md")
        store.documents.get_info("docs", "a.md")
        assert read == []


@pytest.mark.parametrize("how", [way for way in WAYS if way != "put"])
def test_a_new_file_is_a_document_above_all_that_was_deleted(root: Path, how: str) -> None:
    store = FilesStore.open(root)
    for text in "xyz":
        put(store, "old.md", text)
    store.documents.delete("docs", "old.md")
    (root / "docs" / "a.md").write_text("new")
    store = look(store, how)
    assert mirrored(store) == ("new", 4)
    store.close()


@pytest.mark.parametrize("how", WAYS)
def test_a_removed_file_takes_its_document_along(root: Path, how: str) -> None:
    store = FilesStore.open(root)
    put(store, "kept.md", "kept")
    version = put(store, "a.md", "text")
    assert store.layers.put(layer(store, "a.md", "abstract"))
    (root / "docs" / "a.md").unlink()
    store = look(store, how)
    assert mirrored(store) is None
    assert store.layers.get("docs", "a.md", Layer.ABSTRACT) is None
    assert not (root / "_layers" / "docs" / "a.md.L0.md").exists()
    assert put(store, "a.md", "text") > version
    store.close()


def test_a_new_folder_is_a_dataset_and_a_removed_one_none(root: Path, store: FilesStore) -> None:
    (root / "notes" / "deep").mkdir(parents=True)
    assert list(store.documents.list_datasets()) == []
    (root / "notes" / "deep" / "a.md").write_text("deep")
    # The folder itself was not modified: opening and listing look deeper.
    assert versions(store, "notes") == {"deep/a.md": 1}
    assert list(store.documents.list_datasets()) == ["notes"]
    (root / "team%2Fdocs").mkdir()
    (root / "team%2Fdocs" / "a.md").write_text("a")
    assert list(store.documents.list_datasets()) == ["notes", "team/docs"]
    assert store.chunks.configure("notes", CONFIG, expected=None)
    shutil.rmtree(root / "notes")
    assert list(store.documents.list_datasets()) == ["team/docs"]
    assert store.chunks.config("notes") is None
    found = store.documents.put("notes", NewDocument(name="b", content=""))
    assert found.version == 2


def test_what_tools_drop_and_hidden_files_are_left_alone(root: Path, store: FilesStore) -> None:
    put(store, "a.md", "text")
    for name in (".DS_Store", ".a.md.swp", "a.md~", "#a.md#", "Thumbs.db"):
        (root / "docs" / name).write_bytes(b"\xff")
    (root / "docs" / ".git").mkdir()
    (root / "docs" / ".git" / "HEAD").write_text("x")
    (root / "README.md").write_text("of no dataset")
    assert versions(store) == {"a.md": 1}
    assert store.problems() == ()
    store.documents.delete_dataset("docs")
    assert (root / "docs" / ".git" / "HEAD").exists()
    assert list(store.documents.list_datasets()) == []


def test_a_file_that_is_no_text_is_reported_and_never_adopted(
    root: Path, store: FilesStore
) -> None:
    put(store, "a.md", "text")
    for name in ("a.md", "new.md"):
        (root / "docs" / name).write_bytes(b"caf\xe9")
    assert versions(store) == {"a.md": 1}
    told = {problem.path: problem for problem in store.problems()}
    assert set(told) == {"docs/a.md", "docs/new.md"}
    assert "not UTF-8" in told["docs/a.md"].reason
    assert "save it as UTF-8" in told["docs/a.md"].remedy
    for name in ("a.md", "new.md"):
        with pytest.raises(CorruptStoreError, match="save it as UTF-8"):
            store.documents.get("docs", name)
        with pytest.raises(CorruptStoreError, match="save it as UTF-8"):
            put(store, name, "over it")
        with pytest.raises(CorruptStoreError):
            store.documents.delete("docs", name)
    info = store.documents.get_info("docs", "a.md")
    assert info is not None
    assert info.version == 1
    outcomes = store.documents.put_many(
        "docs", [NewDocument(name=name, content="x") for name in ("a.md", "b.md")]
    )
    assert [outcome.change for outcome in outcomes] == ["failed", "added"]
    assert (root / "docs" / "a.md").read_bytes() == b"caf\xe9"
    (root / "docs" / "a.md").write_text("café", "utf-8")
    assert mirrored(look(store, "list")) == ("café", 2)


def test_put_checks_its_version_against_the_edited_file(root: Path, store: FilesStore) -> None:
    version = put(store, "a.md", "text")
    (root / "docs" / "a.md").write_text("edited")
    with pytest.raises(ConflictError) as caught:
        store.documents.put("docs", NewDocument(name="a.md", content="x", if_version=version))
    assert caught.value.actual == version + 1


def test_an_older_derivation_is_refused_once_the_edit_was_seen(
    root: Path, store: FilesStore
) -> None:
    put(store, "a.md", "text")
    made = layer(store, "a.md", "abstract")
    (root / "docs" / "a.md").write_text("edited")
    assert store.layers.put(made) is False


def test_a_rename_in_the_folder_is_a_delete_and_a_new_document(
    root: Path, store: FilesStore
) -> None:
    put(store, "a.md", "text")
    (root / "docs" / "a.md").rename(root / "docs" / "b.md")
    assert versions(store) == {"b.md": 2}
    # To another spelling of the same name.
    put(store, "100%", "text")
    (root / "docs" / "100%25").rename(root / "docs" / "100%")
    found = store.documents.list("docs")
    assert [info.name for info in found] == ["100%", "b.md"]
    assert (root / "docs" / "100%").read_text() == "text"


def test_two_files_for_one_document_are_reported(root: Path, store: FilesStore) -> None:
    put(store, "100%", "text")
    (root / "docs" / "100%").write_text("other")
    assert versions(store) == {"100%": 1}
    (told,) = store.problems()
    assert told.path == "docs/100%"
    assert "'100%'" in told.reason


def test_a_file_becomes_a_folder_and_back(root: Path, store: FilesStore) -> None:
    put(store, "a", "file")
    (root / "docs" / "a").unlink()
    (root / "docs" / "a").mkdir()
    (root / "docs" / "a" / "b").write_text("inside")
    assert versions(store) == {"a/b": 2}
    shutil.rmtree(root / "docs" / "a")
    (root / "docs" / "a").write_text("file")
    assert versions(store) == {"a": 3}


# Git


def snapshot(root: Path, to: Path) -> None:
    """What Git would keep."""
    shutil.copytree(root, to, ignore=shutil.ignore_patterns("derived", "journal", "lock"))


def checkout(copy: Path, root: Path) -> None:
    """Make the working tree what the snapshot has."""
    for path in [*root.iterdir(), *(root / ".triptych").iterdir()]:
        if path.name not in (".triptych", "derived", "journal", "lock"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(copy, root, dirs_exist_ok=True)


@pytest.mark.parametrize("opened", [True, False])
def test_a_checkout_of_the_past_makes_new_versions(
    root: Path, tmp_path: Path, opened: bool
) -> None:
    store = FilesStore.open(root)
    put(store, "a.md", "old", state="old")
    put(store, "gone.md", "gone", state="old")
    put(store, "same.md", "same")
    snapshot(root, tmp_path / "past")
    put(store, "a.md", "new", state="new")
    put(store, "late.md", "late")
    store.documents.delete("docs", "gone.md")
    used = versions(store)
    if not opened:
        store.close()
    checkout(tmp_path / "past", root)
    if not opened:
        store = FilesStore.open(root)
    assert versions(store) == {"a.md": used["a.md"] + 1, "gone.md": 2, "same.md": 1}
    for name, content in (("a.md", "old"), ("gone.md", "gone")):
        found = store.documents.get("docs", name)
        assert found is not None
        assert (found.content, found.metadata) == (content, {"state": "old"})
    assert put(store, "late.md", "again") > used["late.md"]
    store.close()


def test_what_others_committed_keeps_its_versions(root: Path, tmp_path: Path) -> None:
    with FilesStore.open(root) as store:
        put(store, "a.md", "one")
        assert store.chunks.configure("docs", CONFIG, expected=None)
    snapshot(root, tmp_path / "theirs")
    with FilesStore.open(tmp_path / "theirs") as theirs:
        for text in "xyz":
            put(theirs, "a.md", text, by="them")
        put(theirs, "b.md", "theirs")
        theirs.documents.put("more", NewDocument(name="c.md", content="c"))
        assert theirs.layers.put(layer(theirs, "a.md", "about a"))
        new = DatasetConfig(chunker_sig="c2", embed_sig="")
        assert theirs.chunks.configure("docs", new, expected=CONFIG)
    shutil.rmtree(tmp_path / "theirs" / ".triptych" / "derived")
    with FilesStore.open(root) as store:
        checkout(tmp_path / "theirs", root)
        assert list(store.documents.list_datasets()) == ["docs", "more"]
        assert versions(store) == {"a.md": 4, "b.md": 1}
        assert store.chunks.config("docs") == new
        found = store.layers.get("docs", "a.md", Layer.ABSTRACT)
        assert found is not None
        assert (found.content, found.sig.prompt_sig) == ("about a", "p")


def test_metadata_edited_in_the_sidecar_makes_a_version(root: Path, store: FilesStore) -> None:
    put(store, "a.md", "text", lang="en")
    side = root / ".triptych" / "datasets" / "docs" / "sidecars" / "a.md.json"
    side.write_text(side.read_text().replace('"en"', '"de"'))
    found = store.documents.get("docs", "a.md")
    assert found is not None
    assert (found.metadata, found.version) == ({"lang": "de"}, 2)


def test_lost_and_broken_sidecars_are_written_again(root: Path, store: FilesStore) -> None:
    put(store, "a.md", "text", lang="en")
    side = root / ".triptych" / "datasets" / "docs" / "sidecars" / "a.md.json"
    right = side.read_bytes()
    for broken in (None, b"<<<<<<< HEAD\n", b"{}", b'{"version": "x"}', b"[" * 100_000):
        side.unlink()
        if broken is not None:
            side.write_bytes(broken)
        assert versions(store) == {"a.md": 1}
        assert side.read_bytes() == right


def test_a_broken_sidecar_that_nothing_remembers_is_reported(root: Path) -> None:
    with FilesStore.open(root) as store:
        put(store, "a.md", "text")
        put(store, "b.md", "text")
    side = root / ".triptych" / "datasets" / "docs" / "sidecars" / "a.md.json"
    side.write_text("{")
    forget(root)
    with FilesStore.open(root) as store:
        assert versions(store) == {"b.md": 1}
        (told,) = store.problems()
        assert told.path.endswith("a.md.json")
        with pytest.raises(CorruptStoreError, match="not a sidecar"):
            store.documents.get("docs", "a.md")
        side.unlink()
        assert versions(store) == {"a.md": 1, "b.md": 1}


# The derived database


def test_everything_comes_back_when_the_derived_database_is_deleted(root: Path) -> None:
    with FilesStore.open(root) as store:
        put(store, "a.md", "one")
        put(store, "a.md", "two", lang="en")
        for text in "uvwxyz":
            put(store, "gone.md", text)
        store.documents.delete("docs", "gone.md")
        assert store.chunks.configure("docs", CONFIG, expected=None)
        for kind, name in (("L0", "a.md"), ("L1", ""), ("L0", "guide/")):
            assert store.layers.put(layer(store, name, f"{kind} of {name}\r\n", kind))
        store.documents.put("empty", NewDocument(name="a", content=""))
        store.documents.delete("empty", "a")
        before = store.documents.list("docs"), store.layers.list("docs")
    forget(root)
    with FilesStore.open(root) as store:
        assert (store.documents.list("docs"), store.layers.list("docs")) == before
        assert list(store.documents.list_datasets()) == ["docs", "empty"]
        assert store.chunks.config("docs") == CONFIG
        assert store.chunks.get_doc_sig("docs", "a.md") is None
        assert put(store, "new.md", "") == 7
        assert store.documents.put("empty", NewDocument(name="a", content="")).version == 2


def test_a_damaged_derived_database_is_made_again(root: Path) -> None:
    with FilesStore.open(root) as store:
        put(store, "a.md", "text")
    (root / ".triptych" / "derived" / "kb.db").write_bytes(b"no database" * 1000)
    with FilesStore.open(root) as store:
        assert versions(store) == {"a.md": 1}


def test_a_dataset_removed_with_the_derived_database_stays_removed(root: Path) -> None:
    with FilesStore.open(root) as store:
        put(store, "a.md", "one")
        put(store, "a.md", "two")
    forget(root)
    shutil.rmtree(root / "docs")
    with FilesStore.open(root) as store:
        assert list(store.documents.list_datasets()) == []
        assert put(store, "a.md", "again") == 3


def test_the_service_derives_again_and_tells_until_then(root: Path) -> None:
    with FilesStore.open(root) as store:
        kb = Service(store)
        kb.put_document("docs", "a.md", "cats sleep")
        assert kb.search("cats", dataset_id="docs").hits
    forget(root)
    with FilesStore.open(root) as store:
        kb = Service(store)
        assert kb.stats("docs")[0].stale == 1
        assert not kb.search("cats", dataset_id="docs").hits
        (root / "docs" / "a.md").write_text("dogs sleep")
        assert kb.rebuild(dataset_id="docs").rebuilt == 1
        (hit,) = kb.search("dogs", dataset_id="docs").hits
        assert (hit.sig.source_version, hit.stale) == (2, None)


# Layers


def test_a_layer_is_readable_and_an_edit_of_it_is_adopted(root: Path, store: FilesStore) -> None:
    put(store, "guide/a.md", "text")
    made = layer(store, "guide/a.md", "An abstract.")
    assert store.layers.put(made)
    file = root / "_layers" / "docs" / "guide" / "a.md.L0.md"
    text = file.read_text()
    assert text.startswith('---\ndataset: "docs"\ndocument: "guide/a.md"\nlayer: "L0"\n')
    assert text.endswith("---\n\nAn abstract.\n")
    file.write_text(text.replace("An abstract.", "A better one."))
    found = store.layers.get("docs", "guide/a.md", Layer.ABSTRACT)
    assert found is not None
    assert (found.content, found.sig) == ("A better one.", made.sig)
    file.unlink()
    assert store.layers.list("docs") == []


@pytest.mark.parametrize(
    "broken", ["no front matter", "---\nlayer: L0\n", '---\nlayer: "L7"\n---\n\n']
)
def test_a_broken_layer_is_reported_and_the_last_one_kept(
    root: Path, store: FilesStore, broken: str
) -> None:
    put(store, "a.md", "text")
    made = layer(store, "a.md", "kept")
    assert store.layers.put(made)
    (root / "_layers" / "docs" / "a.md.L0.md").write_text(broken)
    assert store.layers.get("docs", "a.md", Layer.ABSTRACT) == made
    assert [problem.path for problem in store.problems()] == ["_layers/docs/a.md.L0.md"]
    assert store.layers.put(made)
    assert store.problems() == ()


def test_a_layer_of_no_document_is_reported(root: Path, store: FilesStore) -> None:
    put(store, "a.md", "text")
    assert store.layers.put(layer(store, "a.md", "abstract"))
    folder = root / "_layers" / "docs"
    shutil.copy(folder / "a.md.L0.md", folder / "b.md.L0.md")
    assert [found.doc_name for found in store.layers.list("docs")] == ["a.md"]
    assert [problem.path for problem in store.problems()] == ["_layers/docs/b.md.L0.md"]


# Opening


def test_a_read_only_store_shows_what_was_adopted_last(root: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        FilesStore.open(root, read_only=True)
    with FilesStore.open(root) as store:
        put(store, "a.md", "text")
    (root / "docs" / "a.md").write_text("edited")
    with FilesStore.open(root, read_only=True) as store:
        assert mirrored(store) == ("text", 1)
        assert versions(store) == {"a.md": 1}
        for call in (
            lambda: put(store, "a.md", "x"),
            lambda: store.documents.delete("docs", "a.md"),
            lambda: store.documents.delete_dataset("docs"),
            lambda: store.layers.put(layer(store, "a.md", "x")),
            lambda: store.chunks.configure("docs", CONFIG, expected=None),
        ):
            with pytest.raises(StoreError, match="read-only"):
                call()
    # As an older version of Triptych made it.
    with closing(sqlite3.connect(root / ".triptych/derived/kb.db")) as driver, driver:
        driver.execute("DROP TABLE files_record")
    with pytest.raises(StoreError, match="open it for writing once"):
        FilesStore.open(root, read_only=True)
    forget(root)
    with pytest.raises(StoreError, match="open it for writing once"):
        FilesStore.open(root, read_only=True)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_a_folder_without_the_right_to_write_can_be_read(root: Path) -> None:
    with FilesStore.open(root) as store:
        put(store, "a.md", "text")
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        with FilesStore.open(root, read_only=True) as store:
            assert versions(store) == {"a.md": 1}
        with pytest.raises(StoreError):
            FilesStore.open(root)
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_what_cannot_be_a_store_is_refused(root: Path, tmp_path: Path) -> None:
    root.write_text("a file")
    with pytest.raises(StoreError, match="is a file"):
        FilesStore.open(root)
    with pytest.raises(StoreError, match="does not exist"):
        FilesStore.open(tmp_path / "no" / "kb")
    with pytest.raises(StoreError, match="no store"):
        FilesStore.open(tmp_path / "kb2", create=False)
    assert not (tmp_path / "kb2").exists()


def test_a_newer_layout_is_refused_and_a_broken_one_told(root: Path) -> None:
    FilesStore.open(root).close()
    layout = root / ".triptych" / "store.json"
    layout.write_text('{"layout": 2}')
    with pytest.raises(StoreError, match="layout 2"):
        FilesStore.open(root)
    layout.write_text("{")
    with pytest.raises(CorruptStoreError, match="damaged"):
        FilesStore.open(root)


def test_what_is_this_machines_alone_is_ignored_by_git(root: Path) -> None:
    FilesStore.open(root).close()
    lines = (root / ".triptych" / ".gitignore").read_text().splitlines()
    assert {"derived/", "journal/", "lock"} <= set(lines)


@pytest.mark.parametrize("known", [True, False], ids=["mirrored", "cloned"])
def test_an_empty_dataset_has_a_folder_and_outlives_it(root: Path, known: bool) -> None:
    with FilesStore.open(root) as store:
        assert store.documents.create_dataset("docs")
        assert (root / "docs").is_dir()
    (root / "docs").rmdir()  # as Git does, which keeps no empty folders
    if not known:
        forget(root)
    with FilesStore.open(root) as store:
        assert list(store.documents.list_datasets()) == ["docs"]
        assert versions(store) == {}
        assert not store.documents.create_dataset("docs")
        put(store, "a.md", "text")
        assert versions(store) == {"a.md": 1}
        store.documents.delete("docs", "a.md")
        assert store.documents.delete_dataset("docs")
        assert not (root / "docs").exists()
    with FilesStore.open(root) as store:
        assert list(store.documents.list_datasets()) == []


def test_a_folder_with_files_is_a_dataset_before_it_is_created(root: Path) -> None:
    with FilesStore.open(root) as store:
        (root / "docs").mkdir()
        assert list(store.documents.list_datasets()) == []
        (root / "docs" / "a.md").write_text("text")
        assert not store.documents.create_dataset("docs")
        assert versions(store) == {"a.md": 1}


def test_datasets_whose_folders_differ_in_case_alone_stay_apart(root: Path) -> None:
    with FilesStore.open(root) as store:
        assert store.documents.create_dataset("docs")
        assert store.documents.create_dataset("Docs")
        assert list(store.documents.list_datasets()) == ["Docs", "docs"]
        names = {path.name.casefold() for path in root.iterdir() if not path.name.startswith(".")}
        assert len(names) == 2


def test_an_orphan_layer_is_removed_with_its_file_unless_a_file_came(root: Path) -> None:
    with FilesStore.open(root) as store:
        put(store, "a.md", "text")
        for name in ("guide/", "full/"):
            assert store.layers.put(layer(store, name, f"of {name}"))
        (root / "docs" / "full").mkdir()
        (root / "docs" / "full" / "b.md").write_text("put by hand")
        names = ["guide/", "full/", "none/"]
        assert list(store.documents.delete_orphans("docs", names)) == ["guide/"]
        assert [each.doc_name for each in store.layers.list("docs")] == ["full/"]
        files = [path.name for path in (root / "_layers" / "docs").rglob("*.md")]
        assert len(files) == 1
