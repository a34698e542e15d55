"""Whatever happens to a folder and to those who sync it, the store ends as a fresh sync of it.

`TRIPTYCH_SYNC_EXAMPLES=500 pytest -m slow tests/sync/test_sync_machine.py` runs longer.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import triptych
from support.forked import context, started
from support.sync_child import PickyParser, sync_for_ever
from support.sync_folder import Desk, state_of
from triptych.records import RebuildScope
from triptych_testing.fakes import FakeEmbedder

pytestmark = pytest.mark.process

NAMES = st.sampled_from(["a.md", "b.md", "c.txt", "d/a.md", "d/b.md", "d/e/f.md", "g/h.md"])
FOLDERS = st.sampled_from(["d", "g", "d/e", "i"])
TEXTS = st.sampled_from(
    [
        b"",
        b"# One\n\nfirst text\n",
        b"# One\n\nfirst text\n\n# Two\n\nsecond text\n",
        b"# Two\n\nsecond text\n",
        b"---\ntitle: Named\n---\n# One\n\nfirst text\n",
        "\N{CJK UNIFIED IDEOGRAPH-4E2D}文的文本，很短。".encode("gb18030"),
        b"\xff\xfeu\0t\0f\0",
        b"\0binary",
        b"FAIL",
        b"# Long\n\n" + b"word " * 400,
    ]
)


class FolderMachine(RuleBasedStateMachine):
    """Edits, renames, deletes, permissions, links, ignore files; syncs, and syncs cut short."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="sync-machine-"))
        # A link that leads out, and goes up with a folder that is renamed, stays in here.
        self.path = self.place / "of" / "its" / "own"
        self.root = self.path / "root"
        self.root.mkdir(parents=True)
        with self.opened() as kb:
            kb.put_document("d", "mine.md", "put by hand")

    def opened(self) -> triptych.Service:
        return triptych.open(self.path / "kb.db", embedder=FakeEmbedder())

    def file(self, name: str) -> Path | None:
        """Where to write the file, None where a file is in a folder's place."""
        file = self.root / name
        for folder in (file.parent, *file.parent.parents):
            if folder == self.root:
                break
            if os.path.lexists(folder) and not folder.is_dir():
                return None
        if file.is_dir():
            return None
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def lands_here(self, file: Path) -> bool:
        """Whether what is written to the file lands in this place: a link may lead out, or round
        and round."""
        try:
            file.stat()
        except FileNotFoundError:
            pass  # what a link leads to may be made
        except OSError:
            return False
        real = Path(os.path.realpath(file))
        return real.is_relative_to(os.path.realpath(self.place)) and real.parent.is_dir()

    # What happens to the folder

    @rule(name=NAMES, text=TEXTS)
    def write(self, name: str, text: bytes) -> None:
        if (file := self.file(name)) is not None and self.lands_here(file):
            file.write_bytes(text)

    @rule(name=NAMES, text=TEXTS)
    def save_by_rename(self, name: str, text: bytes) -> None:
        if (file := self.file(name)) is not None:
            temporary = file.with_name(".saving")
            temporary.write_bytes(text)
            temporary.replace(file)

    @rule(name=NAMES)
    def edit_under_the_same_time_and_size(self, name: str) -> None:
        file = self.root / name
        if file.is_file() and not file.is_symlink() and file.stat().st_size:
            before, data = file.stat(), file.read_bytes()
            file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if os.path.lexists(self.root / name) and not (self.root / name).is_dir():
            (self.root / name).unlink()

    @rule(old=NAMES, new=NAMES)
    def rename(self, old: str, new: str) -> None:
        source = self.root / old
        if source.is_file() and (target := self.file(new)) is not None:
            source.replace(target)

    @rule(old=FOLDERS, new=FOLDERS)
    def rename_folder(self, old: str, new: str) -> None:
        source, target = self.root / old, self.root / new
        there = source.is_dir() and target.parent.is_dir() and not os.path.lexists(target)
        if there and not target.is_relative_to(source):
            source.rename(target)

    @rule(folder=FOLDERS)
    def delete_folder(self, folder: str) -> None:
        if (self.root / folder).is_dir():
            shutil.rmtree(self.root / folder)

    @rule(name=NAMES, mode=st.sampled_from([0o000, 0o400, 0o644, 0o755]))
    def change_permissions(self, name: str, mode: int) -> None:
        if (self.root / name).is_file() and self.lands_here(self.root / name):
            (self.root / name).chmod(mode)

    @rule(name=NAMES, to=st.sampled_from(["a.md", "d", ".", "..", "/etc/hostname", "none.md"]))
    def link(self, name: str, to: str) -> None:
        file = self.file(name)
        if file is not None and not os.path.lexists(file):
            os.symlink(os.path.relpath(self.root / to, file.parent), file)

    @rule(lines=st.sampled_from(["", "a.md\n", "d/\n", "*.txt\n!c.txt\n", "/b.md\n"]))
    def ignore(self, lines: str) -> None:
        (self.root / ".triptychignore").write_text(lines)

    @rule()
    def lose_the_state(self) -> None:
        shutil.rmtree(self.path / "state", ignore_errors=True)

    # What happens to the store

    @rule()
    def sync(self) -> None:
        with self.opened() as kb:
            report = self.desk(kb).syncing(parser=PickyParser()).sync()
            assert {failure.name for failure in report.failed} <= self.failing()

    @rule(name=NAMES)
    def sync_one(self, name: str) -> None:
        with self.opened() as kb:
            sync = self.desk(kb).syncing(parser=PickyParser())
            sync.rebuild(RebuildScope(dataset_id="d", doc_name=name))

    @rule(name=NAMES)
    def delete_from_the_store(self, name: str) -> None:
        with self.opened() as kb:
            kb.delete_document("d", name)

    @rule(delay=st.floats(0, 0.06))
    def sync_is_killed(self, delay: float) -> None:
        ours, theirs = context().Pipe(duplex=False)
        child = started(sync_for_ever, str(self.path), theirs)
        theirs.close()
        with ours:
            assert ours.recv() == "begun"
            time.sleep(delay)
            child.kill()
            child.join()
        child.close()

    # What has to come of it

    def desk(self, kb: triptych.Service) -> Desk:
        return Desk(self.path, kb, FakeEmbedder())

    def failing(self) -> frozenset[str]:
        """The documents whose file fails, now."""
        failing = set()
        folders = [(self.root, False)]
        while folders:
            folder, linked = folders.pop()
            for file in folder.iterdir():
                through_link = file.is_symlink()
                if through_link and not self.leads_inside(file):
                    continue
                if file.is_dir():
                    # Links are followed one deep, as a sync does: they may lead round and round.
                    if not (linked and through_link):
                        folders.append((file, linked or through_link))
                elif not os.access(file, os.R_OK) or file.read_bytes() == b"FAIL":
                    failing.add(file.relative_to(self.root).as_posix())
        return frozenset(failing)

    def leads_inside(self, link: Path) -> bool:
        """Whether a sync follows the link: to what is in the root, and not hidden there."""
        try:
            real = link.resolve(strict=True).relative_to(self.root.resolve())
        except (OSError, RuntimeError, ValueError):
            return False
        return not any(part.startswith(".") for part in real.parts)

    def teardown(self) -> None:
        try:
            failing = self.failing()
            with self.opened() as kb, triptych.open("memory://", embedder=FakeEmbedder()) as new:
                before = state_of(kb)
                self.desk(kb).syncing(parser=PickyParser()).sync()
                self.desk(new).syncing(parser=PickyParser(), state=None).sync()
                new.put_document("d", "mine.md", "put by hand")
                after = state_of(kb)
                assert state_of(kb, failing) == state_of(new, failing)
                # The last good version of what fails is still there; its chunks are in order
                # again if a sync was killed before it had made them, see below.
                assert {n: before[n][:2] for n in failing & before.keys()} == {
                    n: after[n][:2] for n in failing & after.keys()
                }
                calls = kb.options.embedder.calls  # type: ignore[union-attr]  # it has one
                again = self.desk(kb).syncing(parser=PickyParser()).sync()
                assert (again.added, again.updated, again.repaired, again.deleted) == (0, 0, 0, ())
                assert kb.options.embedder.calls == calls  # type: ignore[union-attr]  # as above
                assert all(
                    name == "mine.md" or kb.get_document("d", name).system.sync_root == "root"
                    for name in after
                )
                assert kb.health().problems == ()
        finally:
            shutil.rmtree(self.place)


def check(examples: int) -> None:
    run_state_machine_as_test(
        FolderMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX processes and permissions")
def test_the_store_ends_as_a_fresh_sync_of_the_folder() -> None:
    check(6)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX processes and permissions")
def test_nothing_is_written_through_a_link_that_leads_out_or_to_itself() -> None:
    def outside() -> tuple[bytes, int] | None:
        file = Path("/etc/hostname")
        return (file.read_bytes(), file.stat().st_mode) if file.exists() else None

    machine, before = FolderMachine(), outside()
    try:
        machine.link(name="a.md", to="a.md")
        machine.link(name="b.md", to="/etc/hostname")
        machine.link(name="c.txt", to="none.md")
        for name in ("a.md", "b.md", "c.txt"):
            machine.write(name=name, text=b"written")
            machine.change_permissions(name=name, mode=0o644)
        assert (machine.root / "none.md").read_bytes() == b"written"
        assert outside() == before
    finally:
        machine.teardown()


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX processes and permissions")
def test_the_store_ends_as_a_fresh_sync_of_the_folder_many_times() -> None:
    check(int(os.environ.get("TRIPTYCH_SYNC_EXAMPLES", "200")))
