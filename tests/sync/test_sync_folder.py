"""A folder becomes documents, and stays so."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

import triptych
from support.sync_folder import Desk, TextFiles, contents, desk as made_desk
from triptych import Progress
from triptych.errors import (
    CancelledError,
    ConflictError,
    DerivationError,
    ModelMismatchError,
    NotAvailableError,
    NotFoundError,
    ProviderError,
    ValidationError,
)
from triptych.parsing import ParsedFile
from triptych.records import NewDocument, RebuildScope
from triptych.sync import (
    DirectorySync,
    MetadataFunction,
    SourceFile,
    SyncOptions,
    SyncReport,
    SyncRoot,
)
from triptych_testing.fakes import FakeEmbedder


@pytest.fixture(params=["memory://", "kb.db"])
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    with made_desk(tmp_path, request.param) as made:
        yield made


class PickyParser(TextFiles):
    """Fails over texts with FAIL in them; its version can be raised; counts what it parses."""

    def __init__(self, version: int = 1) -> None:
        super().__init__()
        self.version = version
        self.parsed: list[str] = []

    def signature(self, name: str, data: bytes | None = None) -> str:
        return f"picky/{self.version}"

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        self.parsed.append(name)
        if b"FAIL" in data:
            raise RuntimeError("this cannot be parsed")
        parsed = super().parse(name, data)
        assert parsed is not None
        return attrs.evolve(parsed, content=parsed.content + f"\nv{self.version}\n")


def test_files_become_documents_with_their_metadata(desk: Desk) -> None:
    desk.write("guide/start.md", "---\ntitle: Start\ncategory: manual\n---\n# Start\n\nHow to.\n")
    desk.write("tasks/todo.txt", "买牛奶，还要面包。".encode("gb18030"))
    desk.write("logo.png", b"\x89PNG")
    desk.write("data.md", b"\0\1\2")
    report = desk.sync()
    assert (report.added, report.checked, report.failed) == (2, 3, ())
    assert {each.name: each.reason for each in report.skipped} == {
        "logo.png": "ends in .png, which --ocr reads",
        "data.md": "binary",
    }
    start = desk.kb.get_document("d", "guide/start.md")
    assert start.content.startswith("---\ntitle: Start\n")
    assert start.metadata == {"title": "Start", "category": "manual"}
    assert start.system.sync_root == "root"
    todo = desk.kb.get_document("d", "tasks/todo.txt")
    assert todo.content == "买牛奶，还要面包。"
    assert desk.kb.search("how to", dataset_id="d", mode="bm25").hits[0].doc_name == start.name


def test_a_function_adds_metadata_and_its_version_asks_it_again(desk: Desk) -> None:
    desk.write("a.md", "---\nlang: en\n---\ntext")

    def describe(file: SourceFile) -> dict[str, str]:
        return {"lang": "de", "size": str(len(file.content)), "file": file.path.name}

    desk.syncing(metadata=describe).sync()
    stored = desk.kb.get_document("d", "a.md").metadata
    assert (stored["lang"], stored["file"]) == ("de", "a.md")
    other = desk.syncing(metadata=lambda file: {"lang": "fr"}, metadata_sig="2")
    assert other.sync().updated == 1
    assert desk.kb.get_document("d", "a.md").metadata["lang"] == "fr"
    bad = desk.syncing(metadata=lambda file: {"n": None}, metadata_sig="3")
    (failure,) = bad.sync().failed
    assert isinstance(failure.error, ValidationError)
    assert desk.kb.get_document("d", "a.md").metadata["lang"] == "fr"


@pytest.mark.parametrize("function", [lambda file: 1 / 0, lambda file: None])
def test_a_metadata_function_that_fails_is_named(desk: Desk, function: MetadataFunction) -> None:
    desk.write("a.md", "text")
    (failure,) = desk.syncing(metadata=function).sync().failed
    assert "the metadata function" in str(failure.error)


def test_what_is_unchanged_is_neither_parsed_nor_embedded_nor_given_a_version(desk: Desk) -> None:
    for number in range(20):
        desk.write(f"{number}.md", f"# Part {number}\n\nText {number}.\n")
    parser = PickyParser()
    desk.syncing(parser=parser).sync()
    before = [desk.kb.get_document("d", name).version for name in desk.names]
    calls, parsed = desk.embedder.calls, len(parser.parsed)
    for name in desk.names[:5]:
        os.utime(desk.root / name)
    for _ in range(2):
        report = desk.syncing(parser=parser).sync()
        assert (report.unchanged, report.added, report.updated) == (20, 0, 0)
    assert (desk.embedder.calls, len(parser.parsed)) == (calls, parsed)
    assert [desk.kb.get_document("d", name).version for name in desk.names] == before


OPENED: list[str] = []


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str):
        OPENED.append(arguments[0])


@pytest.mark.parametrize("desk", ["memory://"], indirect=True)
def test_a_file_that_has_rested_is_not_even_opened(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two seconds are long.
    monkeypatch.setattr("triptych.scan.stats.RACY_NS", 200_000_000)
    for number in range(3):
        desk.write(f"{number}.md", f"text {number}")
    desk.write("binary.md", b"\0")
    desk.sync()
    time.sleep(0.3)  # a file that was written just before it was read is read once more
    desk.sync()
    sys.addaudithook(_note_opened)
    OPENED.clear()
    report = desk.sync()
    assert (report.unchanged, report.checked, len(report.skipped)) == (3, 4, 1)
    assert [path for path in OPENED if path.endswith(".md")] == []
    desk.write("1.md", "other")
    desk.sync()
    assert {Path(path).name for path in OPENED if path.endswith(".md")} == {"1.md"}
    assert desk.text("1.md") == "other"


@pytest.mark.parametrize("damage", ["lost", "empty", "cut", "changed"])
def test_a_state_that_is_lost_or_damaged_costs_no_model_call_and_no_version(
    desk: Desk, damage: str
) -> None:
    desk.write("a.md", "# A\n\none\n")
    desk.write("b.md", b"\xef\xbb\xbf# B\n\ntwo\n")
    desk.write("c.md", b"\0")
    desk.sync()
    calls = desk.embedder.calls
    (state,) = (desk.path / "state").iterdir()
    whole = state.read_bytes()
    if damage == "lost":
        state.unlink()
    else:
        cut = {"empty": b"", "cut": whole[:-9], "changed": whole.replace(b"1", b"2")}[damage]
        state.write_bytes(cut)
    assert desk.sync().unchanged == 2
    assert desk.embedder.calls == calls
    assert [desk.kb.get_document("d", name).version for name in desk.names] == [1, 1]
    desk.write("a.md", "# A\n\nother\n")
    assert desk.sync().updated == 1


def test_an_edit_that_keeps_size_and_time_is_seen(desk: Desk) -> None:
    file = desk.write("a.md", "one")
    os.utime(file, ns=(10**18, 10**18))
    desk.sync()
    for text in ("two", "six", "ten"):
        file.write_text(text)
        os.utime(file, ns=(10**18, 10**18))
        desk.sync()
        assert desk.text("a.md") == text


def test_a_rename_keeps_vectors_and_layers(desk: Desk) -> None:
    desk.write("old/a.md", "# A\n\nalpha\n\n## B\n\nbeta\n")
    desk.write("stays.md", "# C\n\ngamma\n")
    desk.sync()
    desk.kb.put_document_layer("d", "old/a.md", "L0", "About alpha.", prompt_sig="p")
    texts = list(desk.embedder.texts)
    (desk.root / "old").rename(desk.root / "new")
    plan = desk.syncing().plan()
    assert (plan.renamed, plan.embedded, plan.model_calls) == ((("old/a.md", "new/a.md"),), 0, 0)
    report = desk.sync()
    assert report.renamed == (("old/a.md", "new/a.md"),)
    assert (report.added, report.deleted, report.embedded) == (0, (), 0)
    assert desk.names == ["new/a.md", "stays.md"]
    layer = desk.kb.layer("d", "new/a.md", "L0")
    assert layer is not None
    assert (layer.content, layer.sig.prompt_sig, layer.stale) == ("About alpha.", "p", None)
    assert desk.kb.layer("d", "old/a.md", "L0") is None
    (hit,) = desk.kb.search("About alpha.", dataset_id="d", layer="L0", mode="vector").hits
    assert hit.doc_name == "new/a.md"
    # A store without a way to give a layer's vector embeds the layer's text again, and that alone.
    assert set(desk.embedder.texts[len(texts) :]) <= {"About alpha."}


def test_a_rename_that_was_cut_off_before_the_delete_keeps_the_layers(desk: Desk) -> None:
    desk.write("old.md", "# A\n\nalpha\n")
    desk.sync()
    desk.kb.put_document_layer("d", "old.md", "L1", "Overview.")
    (desk.root / "old.md").rename(desk.root / "new.md")
    desk.sync(delete=False)
    assert desk.names == ["new.md", "old.md"]
    assert desk.sync().deleted == ("old.md",)
    layer = desk.kb.layer("d", "new.md", "L1")
    assert layer is not None
    assert layer.content == "Overview."


def test_a_rename_onto_another_file_brings_its_layers_in_place_of_stale_ones(desk: Desk) -> None:
    desk.write("a.md", "# A\n\nalpha\n")
    desk.write("b.md", "# B\n\nbeta\n")
    desk.sync()
    for name in ("a.md", "b.md"):
        desk.kb.put_document_layer("d", name, "L0", f"About {name}.")
    (desk.root / "a.md").replace(desk.root / "b.md")
    desk.sync()
    layer = desk.kb.layer("d", "b.md", "L0")
    assert layer is not None
    assert (layer.content, layer.stale) == ("About a.md.", None)


def test_files_that_swap_names_cost_no_embedding(desk: Desk) -> None:
    desk.write("a.md", "# One\n\nfirst\n")
    desk.write("b.md", "# Two\n\nsecond\n")
    desk.sync()
    count = len(desk.embedder.texts)
    (desk.root / "a.md").rename(desk.root / "c")
    (desk.root / "b.md").rename(desk.root / "a.md")
    (desk.root / "c").rename(desk.root / "b.md")
    assert desk.sync().updated == 2
    assert len(desk.embedder.texts) == count
    assert contents(desk.kb) == {"a.md": "# Two\n\nsecond\n", "b.md": "# One\n\nfirst\n"}


@pytest.mark.parametrize(
    "moves",
    [
        {"a.md": "b.md", "b.md": "a.md"},
        {"a.md": "b.md", "b.md": "c.md", "c.md": "a.md"},
        {"a.md": "b.md", "b.md": "c.md", "c.md": "new.md"},
    ],
)
def test_layers_follow_contents_that_change_names(desk: Desk, moves: dict[str, str]) -> None:
    for name in ("a.md", "b.md", "c.md"):
        desk.write(name, f"# Text of {name}\n")
    desk.sync()
    for name in ("a.md", "b.md", "c.md"):
        desk.kb.put_document_layer("d", name, "L0", f"About {name}.", prompt_sig="p")
    for name in moves:
        (desk.root / name).rename(desk.path / name)
    for name, new in moves.items():
        (desk.path / name).rename(desk.root / new)
    desk.sync()
    for name, new in moves.items():
        layer = desk.kb.layer("d", new, "L0")
        assert layer is not None
        assert (layer.content, layer.stale) == (f"About {name}.", None)


def test_only_what_a_root_brought_in_is_deleted(desk: Desk) -> None:
    desk.kb.put_document("d", "mine.md", "put by hand")
    other = desk.path / "other"
    other.mkdir()
    (other / "theirs.md").write_text("of another root")
    desk.syncing(key="other", path=other).sync()
    desk.write("a.md", "text")
    desk.sync()
    (desk.root / "a.md").unlink()
    assert desk.sync().deleted == ("a.md",)
    assert desk.names == ["mine.md", "theirs.md"]


def test_a_document_put_by_hand_is_not_replaced_unless_adopted(desk: Desk) -> None:
    desk.kb.put_document("d", "a.md", "put by hand")
    desk.kb.put_document("d", "same.md", "the same text")
    desk.write("a.md", "from the folder")
    desk.write("same.md", "the same text")
    report = desk.sync()
    (failure,) = report.failed
    assert failure.name == "a.md"
    assert isinstance(failure.error, ConflictError)
    assert (report.updated, desk.text("a.md")) == (1, "put by hand")
    assert desk.sync(adopt=True).updated == 1
    assert desk.text("a.md") == "from the folder"
    (desk.root / "same.md").unlink()
    assert desk.sync().deleted == ("same.md",)


def test_two_roots_do_not_take_each_others_documents(desk: Desk) -> None:
    other = desk.path / "other"
    other.mkdir()
    for folder in (desk.root, other):
        (folder / "LICENSE.md").write_text("the same in both")
    desk.sync()
    second = desk.syncing(key="other", path=other)
    assert isinstance(second.sync().failed[0].error, ConflictError)
    assert desk.kb.get_document("d", "LICENSE.md").system.sync_root == "root"
    prefixed = desk.syncing(key="other", path=other, prefix="other/")
    assert prefixed.sync().added == 1
    assert desk.names == ["LICENSE.md", "other/LICENSE.md"]


def test_of_two_roots_in_one_sync_the_first_has_a_name(desk: Desk) -> None:
    other = desk.path / "other"
    other.mkdir()
    desk.write("a.md", "first")
    (other / "a.md").write_text("second")
    (other / "b.md").write_text("alone")
    roots = [
        SyncRoot(path=desk.root, dataset_id="d", key="one"),
        SyncRoot(path=other, dataset_id="d", key="two"),
        SyncRoot(path=other, dataset_id="e"),
    ]
    sync = DirectorySync(desk.kb, roots)
    report = sync.sync()
    assert [failure.name for failure in report.failed] == ["a.md"]
    assert contents(desk.kb) == {"a.md": "first", "b.md": "alone"}
    assert [info.name for info in desk.kb.list_documents("e")] == ["a.md", "b.md"]
    (desk.root / "a.md").unlink()
    assert sync.sync().failed == ()
    assert contents(desk.kb) == {"a.md": "second", "b.md": "alone"}


def test_roots_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        one = SyncRoot(path=tmp_path, dataset_id="d")
        with pytest.raises(ValidationError, match="one key"):
            DirectorySync(kb, [one, SyncRoot(path=tmp_path, dataset_id="d", prefix="p/")])
        with pytest.raises(ValidationError, match="no folder"):
            DirectorySync(kb, [])
        with pytest.raises(NotFoundError):
            DirectorySync(kb, [one]).rebuild(RebuildScope(dataset_id="other"))
    with pytest.raises(ValidationError):
        SyncRoot(path="")
    with pytest.raises(ValidationError):
        SyncOptions(workers=0)


def test_a_failing_file_stops_no_other_and_its_last_good_version_serves(desk: Desk) -> None:
    parser = PickyParser()
    desk.write("a.md", "good")
    desk.write("b.md", "good too")
    desk.syncing(parser=parser).sync()
    desk.write("a.md", "FAIL")
    desk.write("b.md", "better")
    for _ in range(2):
        report = desk.syncing(parser=parser).sync()
        (failure,) = report.failed
        assert failure.name == "a.md"
        assert "RuntimeError: this cannot be parsed" in str(failure.error)
        assert contents(desk.kb) == {"a.md": "good\nv1\n", "b.md": "better\nv1\n"}
    desk.write("a.md", "repaired")
    assert desk.syncing(parser=parser).sync().failed == ()
    assert desk.text("a.md") == "repaired\nv1\n"


def test_another_parser_parses_again(desk: Desk) -> None:
    desk.write("a.md", "text")
    desk.syncing(parser=PickyParser(1)).sync()
    assert desk.syncing(parser=PickyParser(2)).sync().updated == 1
    assert desk.text("a.md") == "text\nv2\n"


@contextmanager
def without_privileges(folder: Path) -> Iterator[None]:
    """As somebody to whom permissions apply, where the tests are run by root."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_cannot_be_read_keeps_its_documents() -> None:
    # Not below pytest's own folder, which is open to its owner alone.
    with tempfile.TemporaryDirectory() as name, made_desk(Path(name)) as desk:
        desk.write("a.md", "one")
        desk.write("deep/b.md", "two")
        desk.write("deep/down/c.md", "three")
        desk.sync()
        with without_privileges(Path(name)):
            (desk.root / "a.md").chmod(0)
            (desk.root / "deep").chmod(0)
            report = desk.sync()
            (desk.root / "deep").chmod(0o700)
            assert {failure.name for failure in report.failed} == {"a.md", "deep/"}
            assert all(isinstance(failure.error, NotAvailableError) for failure in report.failed)
            assert contents(desk.kb) == {
                "a.md": "one",
                "deep/b.md": "two",
                "deep/down/c.md": "three",
            }
            (desk.root / "deep" / "b.md").unlink()
            assert desk.sync().deleted == ("deep/b.md",)


def test_a_root_that_is_not_there_keeps_its_documents(desk: Desk) -> None:
    desk.write("a.md", "one")
    desk.sync()
    desk.root.rename(desk.path / "away")
    report = desk.sync()
    assert isinstance(report.failed[0].error, NotFoundError)
    assert contents(desk.kb) == {"a.md": "one"}
    desk.root.mkdir()
    assert desk.sync().deleted == ("a.md",)


def test_what_is_ignored_or_binary_or_too_large_now_is_deleted(desk: Desk) -> None:
    for name in ("ignored.md", "binary.md", "large.md", "excluded.md", "stays.md"):
        desk.write(name, f"text {name}")
    desk.sync()
    desk.write(".gitignore", "ignored.md\n")
    desk.write("binary.md", b"\0")
    desk.write("large.md", "x" * 100)
    report = desk.sync(max_bytes=50, exclude=["excluded*"])
    assert sorted(report.deleted) == ["binary.md", "excluded.md", "ignored.md", "large.md"]
    assert desk.names == ["stays.md"]


def test_names_that_no_document_can_have_are_reported(desk: Desk) -> None:
    try:
        os.close(os.open(os.fsencode(desk.root) + b"/\xff.md", os.O_CREAT | os.O_WRONLY))
    except OSError:
        pytest.skip("the file system takes no such name")
    desk.write("with\nbreak.md", "text")
    desk.write("good.md", "text")
    report = desk.sync()
    assert report.added == 1
    assert len(report.failed) == 2
    assert all(isinstance(failure.error, ValidationError) for failure in report.failed)


def test_chunks_that_an_embedder_failed_over_are_made_by_the_next_sync(desk: Desk) -> None:
    desk.write("a.md", "# A\n\nalpha\n")
    desk.embedder.failures = {call: ProviderError("no answer") for call in range(1, 9)}
    (failure,) = desk.sync().failed
    assert isinstance(failure.error, DerivationError)
    plan = desk.syncing().plan()
    assert (plan.repaired, plan.embedded) == (("a.md",), 1)
    desk.embedder.failures = {}
    report = desk.sync()
    assert (report.unchanged, report.repaired, report.embedded) == (1, 1, 1)
    assert desk.sync().repaired == 0


def test_a_dry_run_writes_nothing_and_foretells_the_cost(desk: Desk) -> None:
    desk.write("a.md", "# A\n\nalpha\n\n# B\n\nbeta\n")
    desk.write("b.md", "# A\n\nalpha\n")
    desk.write("gone.md", "soon")
    desk.sync()
    desk.write("a.md", "# A\n\nalpha\n\n# B\n\nother\n")
    desk.write("c.md", "# C\n\nnew\n")
    desk.write("bad.md", "FAIL")
    (desk.root / "gone.md").unlink()
    before, calls = contents(desk.kb), desk.embedder.calls
    plan = desk.syncing().plan()
    assert (plan.added, plan.updated, plan.deleted) == (("bad.md", "c.md"), ("a.md",), ("gone.md",))
    assert (contents(desk.kb), desk.embedder.calls) == (before, calls)
    texts = len(desk.embedder.texts)
    report = desk.sync()
    assert (plan.chunks, plan.embedded) == (report.chunks, report.embedded)
    assert len(desk.embedder.texts) - texts == plan.embedded
    assert desk.embedder.calls - calls == plan.model_calls


def test_a_rebuild_of_one_document_looks_at_its_file_alone(desk: Desk) -> None:
    desk.write("a.md", "one")
    desk.write("b.md", "two")
    sync = desk.syncing(prefix="p/")
    sync.sync()
    desk.write("a.md", "new one")
    desk.write("b.md", "new two")
    report = sync.rebuild(RebuildScope(dataset_id="d", doc_name="p/a.md"))
    assert (report.checked, report.rebuilt) == (1, 1)
    assert contents(desk.kb) == {"p/a.md": "new one", "p/b.md": "two"}
    (desk.root / "b.md").unlink()
    assert sync.rebuild(RebuildScope(dataset_id="d", doc_name="p/b.md")).removed == 1
    assert sync.rebuild(RebuildScope(dataset_id="d", doc_name="elsewhere.md")).checked == 0
    assert sync.rebuild(RebuildScope()).checked == 1
    assert contents(desk.kb) == {"p/a.md": "new one"}


def test_a_file_behind_a_link_takes_its_other_names_along(desk: Desk) -> None:
    desk.write("v1.md", "one")
    os.symlink("v1.md", desk.root / "latest.md")
    sync = desk.syncing()
    sync.sync()
    desk.write("v1.md", "two")
    sync.rebuild(RebuildScope(dataset_id="d", doc_name="v1.md"))
    assert contents(desk.kb) == {"latest.md": "two", "v1.md": "two"}


def test_a_write_of_another_in_between_is_never_overwritten_by_an_older_file(desk: Desk) -> None:
    file = desk.write("a.md", "one")

    class Racing(TextFiles):
        raced = False

        def parse(self, name: str, data: bytes) -> ParsedFile | None:
            if not self.raced:
                self.raced = True
                file.write_text("two")
                assert desk.syncing().sync().added == 1
            return super().parse(name, data)

        def signature(self, name: str, data: bytes | None = None) -> str:
            return "text/1"

    report = desk.syncing(parser=Racing()).sync()
    assert report.failed == ()
    assert contents(desk.kb) == {"a.md": "two"}


def test_a_file_that_goes_away_during_the_sync_is_no_failure(desk: Desk) -> None:
    for number in range(30):
        desk.write(f"{number:02}.md", f"text {number}")
    desk.sync()
    for number in range(30):
        desk.write(f"{number:02}.md", f"other text {number}")

    class Removing(TextFiles):
        """The first file that is read takes away the oldest, whose turn comes last."""

        def parse(self, name: str, data: bytes) -> ParsedFile | None:
            (desk.root / "00.md").unlink(missing_ok=True)
            if (desk.root / "01.md").exists():
                (desk.root / "01.md").rename(desk.root / "30.md")
            return super().parse(name, data)

    for number in range(30):
        os.utime(desk.root / f"{number:02}.md", (number, number))
    report = desk.syncing(parser=Removing(), options={"workers": 1}).sync()
    assert report.failed == ()
    assert report.deleted == ("00.md", "01.md")
    assert desk.sync().added == 1
    assert desk.names[:1] == ["02.md"]
    assert desk.names[-2:] == ["29.md", "30.md"]


def test_the_newest_files_are_put_first_and_the_total_is_known(desk: Desk) -> None:
    for at, name in enumerate(("c.md", "a.md", "b.md")):
        desk.write(name, f"text of {name}")
        os.utime(desk.root / name, (1_000_000 + at, 1_000_000 + at))
    seen: list[Progress] = []
    desk.syncing().sync(progress=seen.append)
    puts = [at for at in seen if at.phase == "documents"]
    assert [(at.done, at.total) for at in puts] == [(0, 3), (3, 3)]
    assert all(at.total is not None for at in seen)
    infos = sorted(desk.kb.list_documents("d"), key=lambda info: info.updated_at)
    if len({info.updated_at for info in infos}) == 3:
        assert [info.name for info in infos] == ["b.md", "a.md", "c.md"]


def test_vectors_that_an_earlier_sync_left_are_made_without_reading_the_files(desk: Desk) -> None:
    desk.write("a.md", "text of a")
    desk.write("b.md", "text of b")
    desk.embedder.failures = {call: ProviderError("no answer") for call in range(1, 9)}
    assert len(desk.sync().failed) == 2
    desk.embedder.failures = {}
    plan = desk.syncing().plan()
    assert (plan.repaired, plan.embedded, plan.model_calls) == (("a.md", "b.md"), 2, 1)

    class Unread(TextFiles):
        def parse(self, name: str, data: bytes) -> ParsedFile | None:
            raise AssertionError("what is chunked is not parsed again")

    report = desk.syncing(parser=Unread()).sync()
    assert (report.failed, report.repaired, report.embedded, report.pending) == ((), 2, 2, 0)
    assert desk.kb.stats("d")[0].pending == 0


def test_a_dataset_of_another_model_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.md").write_text("text")
    roots = [SyncRoot(path=tmp_path / "root", dataset_id="d")]
    with triptych.open(tmp_path / "kb.db", embedder=FakeEmbedder("one")) as kb:
        DirectorySync(kb, roots).sync()
    (tmp_path / "root" / "a.md").write_text("changed")
    with triptych.open(tmp_path / "kb.db", embedder=FakeEmbedder("two")) as kb:
        with pytest.raises(ModelMismatchError):
            DirectorySync(kb, roots).sync()
        assert contents(kb) == {"a.md": "text"}
        kb.rebuild(dataset_id="d")
        assert DirectorySync(kb, roots).sync().updated == 1


def test_a_deadline_ends_a_sync_and_the_next_one_goes_on(desk: Desk) -> None:
    for number in range(30):
        desk.write(f"{number}.md", f"text {number}")
    sync = desk.syncing()
    with pytest.raises(CancelledError), triptych.deadline(0):
        sync.sync()
    assert desk.sync().added == 30


def test_a_sync_that_ends_while_it_embeds_has_deleted_before(desk: Desk) -> None:
    """A killed sync, too: what is gone is not found until all vectors are made."""
    desk.write("kept.md", "text")
    desk.write("gone.md", "a secret")
    desk.embedder.failures = {call: ProviderError("no answer") for call in range(1, 9)}
    assert desk.sync().pending == 2
    desk.embedder.failures = {}
    (desk.root / "gone.md").unlink()

    def end(progress: triptych.Progress) -> None:
        assert progress.phase == "embedding"
        raise CancelledError("enough")

    with pytest.raises(CancelledError):
        desk.syncing().sync(progress=end)
    assert desk.names == ["kept.md"]


def test_an_empty_folder_makes_no_dataset(desk: Desk) -> None:
    desk.write("binary.md", b"\0")
    assert desk.sync() == SyncReport(checked=1, skipped=desk.sync().skipped)
    assert desk.kb.list_datasets() == []


def test_the_last_good_version_of_a_file_that_fails_is_derived_if_it_was_not(desk: Desk) -> None:
    file = desk.write("a.md", "# A\n\nold\n")
    desk.syncing(parser=PickyParser()).sync()
    # As a process leaves it that is killed between storing a document and deriving it.
    stored = desk.kb.get_document("d", "a.md")
    desk.kb.documents.put(
        "d", NewDocument(name="a.md", content="# A\n\nnew\n", metadata=stored.metadata)
    )
    file.write_text("FAIL")
    (behind,) = desk.kb.health().problems
    assert "1 of 1 document stale" in behind.detail
    plan = desk.syncing(parser=PickyParser()).plan()
    report = desk.syncing(parser=PickyParser()).sync()
    assert plan.repaired == ("a.md",)
    assert (plan.chunks, plan.embedded, plan.unchanged) == (report.chunks, report.embedded, 1)
    assert (report.repaired, report.updated, [f.name for f in report.failed]) == (1, 0, ["a.md"])
    (hit,) = desk.kb.search("new", dataset_id="d", mode="bm25").hits
    assert (hit.stale, desk.text("a.md")) == (None, "# A\n\nnew\n")
    assert desk.kb.health().problems == ()
    again = desk.syncing(parser=PickyParser()).sync()
    assert (again.repaired, again.embedded, len(again.failed)) == (0, 0, 1)


def test_a_put_leaves_a_document_with_its_folder_unless_it_says_otherwise(desk: Desk) -> None:
    desk.write("a.md", "# A\n")
    desk.sync()
    desk.kb.put_document("d", "a.md", "by hand")
    assert desk.sync().updated == 1
    assert desk.text("a.md") == "# A\n"
    assert desk.kb.get_document("d", "a.md", 2).content == "by hand"
    desk.kb.put_document("d", "a.md", "by hand again", {"triptych.sync_root": ""})
    assert desk.sync().updated == 1
    assert (desk.text("a.md"), desk.kb.get_document("d", "a.md").metadata) == ("# A\n", {})
    desk.kb.put_documents("d", [NewDocument(name="a.md", content="taken away", sync_root="")])
    (failure,) = desk.sync().failed
    assert isinstance(failure.error, ConflictError)
    assert desk.text("a.md") == "taken away"


def test_a_rebuild_of_several_documents_looks_at_their_files_alone(desk: Desk) -> None:
    for name in ("a.md", "b.md", "c.md", "gone.md"):
        desk.write(name, f"text of {name}")
    sync = desk.syncing()
    sync.sync()
    desk.kb.put_document_layer("d", "gone.md", "L0", "about it", prompt_sig="p")
    (desk.root / "gone.md").rename(desk.root / "new.md")
    desk.write("a.md", "new text of a.md")
    desk.write("c.md", "not looked at")
    report = sync.rebuild(
        RebuildScope(dataset_id="d", doc_names=["a.md", "b.md", "gone.md", "new.md", "none.md"])
    )
    assert (report.checked, report.rebuilt, report.fresh, report.removed) == (3, 2, 1, 1)
    assert contents(desk.kb) == {
        "a.md": "new text of a.md",
        "b.md": "text of b.md",
        "c.md": "text of c.md",
        "new.md": "text of gone.md",
    }
    layer = desk.kb.layer("d", "new.md", "L0")
    assert layer is not None
    assert (layer.content, layer.stale) == ("about it", None)
    assert sync.rebuild(RebuildScope(dataset_id="d", doc_names=["a.md", "root/"])).rebuilt == 1
    assert desk.text("c.md") == "not looked at"
