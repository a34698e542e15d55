"""A folder that is suddenly empty does not empty the knowledge base."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sync_folder import Desk, desk as made_desk, until
from triptych.errors import DeletionHeldError, NotFoundError
from triptych.events import EventReloader, RebuildRecord, ReloaderOptions
from triptych.records import RebuildScope
from triptych.sync import PollingNotifier, SyncReport
from triptych.sync.report import WAVE, DeletionGuard

GUARDED = {"delete_most": False}


@pytest.fixture(params=["memory://", "kb.db", "files"])
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    url = request.param
    with made_desk(tmp_path, f"files:///{tmp_path}/kb" if url == "files" else url) as made:
        yield made


def filled(desk: Desk, count: int = 4) -> None:
    for number in range(count):
        desk.write(f"{number}.md", f"text number {number}")
    assert guarded(desk).added == count


def guarded(desk: Desk, **options: object) -> SyncReport:
    return desk.syncing(options={**GUARDED, **options}).sync()


def empty(desk: Desk) -> None:
    shutil.rmtree(desk.root)
    desk.root.mkdir()


def test_an_empty_folder_deletes_nothing_and_says_so(desk: Desk) -> None:
    filled(desk)
    versions = {name: desk.kb.get_document("d", name).version for name in desk.names}
    empty(desk)
    report = guarded(desk)
    (held,) = report.held
    assert (report.deleted, report.failed) == ((), ())
    assert (held.names, held.documents) == (("0.md", "1.md", "2.md", "3.md"), 4)
    error = held.failure.error
    assert isinstance(error, DeletionHeldError)
    assert str(desk.root) in str(error)
    assert (error.names, error.documents) == (held.names, 4)
    assert {name: desk.kb.get_document("d", name).version for name in desk.names} == versions


def test_a_confirmed_pass_deletes(desk: Desk) -> None:
    filled(desk)
    empty(desk)
    guarded(desk)
    report = desk.syncing(options=GUARDED).sync(delete_most=True)
    assert (len(report.deleted), report.held, desk.names) == (4, (), [])


def test_half_of_the_documents_may_go_and_one_more_may_not(desk: Desk) -> None:
    filled(desk, 6)
    for name in ("0.md", "1.md", "2.md"):
        (desk.root / name).unlink()
    assert guarded(desk).deleted == ("0.md", "1.md", "2.md")
    for name in ("3.md", "4.md"):
        (desk.root / name).unlink()
    assert guarded(desk).held[0].names == ("3.md", "4.md")
    assert desk.names == ["3.md", "4.md", "5.md"]


def test_what_else_a_held_pass_finds_is_done(desk: Desk) -> None:
    filled(desk)
    for name in ("0.md", "1.md", "2.md"):
        (desk.root / name).unlink()
    desk.write("3.md", "changed")
    desk.write("new.md", "new")
    report = guarded(desk)
    assert (report.added, report.updated, len(report.held[0].names)) == (1, 1, 3)
    assert desk.text("3.md") == "changed"
    assert desk.names == ["0.md", "1.md", "2.md", "3.md", "new.md"]


@pytest.mark.parametrize("is_restarted", [True, False])
def test_what_is_held_stays_so_whatever_comes_meanwhile(desk: Desk, is_restarted: bool) -> None:
    filled(desk)
    for name in ("0.md", "1.md", "2.md"):
        (desk.root / name).unlink()
    for name in ("5.md", "6.md", "7.md"):
        desk.write(name, f"text of {name}")
    one = desk.syncing(options=GUARDED)
    for more in range(8, 13):
        report = one.sync()
        assert (report.held[0].names, report.deleted) == (("0.md", "1.md", "2.md"), ())
        assert report.held[0].documents == 4
        desk.write(f"{more}.md", "more")
        assert one.plan().deleted == ()
        if is_restarted:
            one = desk.syncing(options=GUARDED)
    assert len(one.sync(delete_most=True).deleted) == 3
    (desk.root / "5.md").unlink()
    assert one.sync().deleted == ("5.md",)  # the guard is as it was


def test_what_is_held_ends_when_enough_files_are_back(desk: Desk) -> None:
    filled(desk)
    for name in ("0.md", "1.md", "2.md"):
        (desk.root / name).unlink()
    assert desk.syncing(options=GUARDED).sync().held
    desk.write("0.md", "text number 0")
    desk.write("1.md", "text number 1")
    assert desk.syncing(options=GUARDED).sync().deleted == ("2.md",)
    for number in range(5, 15):
        desk.write(f"{number}.md", f"text number {number}")
    desk.syncing(options=GUARDED).sync()
    for number in range(5, 10):
        (desk.root / f"{number}.md").unlink()
    assert len(desk.syncing(options=GUARDED).sync().deleted) == 5


def test_files_that_have_moved_are_not_lost(desk: Desk) -> None:
    filled(desk)
    (desk.root / "all").mkdir()
    for number in range(4):
        (desk.root / f"{number}.md").rename(desk.root / "all" / f"{number}.md")
    report = guarded(desk)
    assert (len(report.renamed), report.held) == (4, ())
    assert desk.names == [f"all/{number}.md" for number in range(4)]


def test_files_that_are_back_end_it(desk: Desk) -> None:
    filled(desk)
    desk.root.rename(desk.path / "away")
    desk.root.mkdir()
    assert guarded(desk).held
    desk.root.rmdir()
    (desk.path / "away").rename(desk.root)
    report = guarded(desk)
    assert (report.unchanged, report.held, report.added) == (4, (), 0)


def test_a_root_that_has_vanished_deletes_nothing(desk: Desk) -> None:
    filled(desk)
    shutil.rmtree(desk.root)
    report = desk.syncing(options=GUARDED).sync(delete_most=True)
    (failure,) = report.failed
    assert isinstance(failure.error, NotFoundError)
    assert (report.deleted, report.held, len(desk.names)) == ((), (), 4)


def test_a_pattern_that_leaves_most_files_out_deletes_nothing(desk: Desk) -> None:
    filled(desk)
    report = guarded(desk, exclude=["*.md"])
    assert (len(report.held[0].names), len(desk.names)) == (4, 4)


def test_each_root_is_counted_by_itself(desk: Desk) -> None:
    filled(desk, 10)
    other = desk.path / "other"
    other.mkdir()
    for number in range(3):
        (other / f"{number}.md").write_text(f"another text {number}")
    second = desk.syncing(path=other, key="other", prefix="o/", options=GUARDED)
    assert second.sync().added == 3
    shutil.rmtree(other)
    other.mkdir()
    assert len(second.sync().held[0].names) == 3
    assert guarded(desk).unchanged == 10


def test_a_plan_says_what_would_be_held(desk: Desk) -> None:
    filled(desk)
    empty(desk)
    plan = desk.syncing(options=GUARDED).plan()
    assert (plan.deleted, len(plan.held[0].names)) == ((), 4)
    confirmed = desk.syncing(options=GUARDED).plan(delete_most=True)
    assert (len(confirmed.deleted), confirmed.held) == (4, ())


def test_deletions_that_come_a_few_at_a_time_count_together(desk: Desk) -> None:
    filled(desk, 10)
    sync = desk.syncing(options=GUARDED)
    sync.sync()
    failed = []
    for number in range(10):
        (desk.root / f"{number}.md").unlink()
        scope = RebuildScope(dataset_id="d", doc_names=(f"{number}.md",))
        failed += sync.rebuild(scope).failed
    assert len(desk.names) == 5
    assert all(isinstance(failure.error, DeletionHeldError) for failure in failed)
    assert len(failed) == 5


def test_a_wave_ends_when_nothing_was_deleted_for_a_while() -> None:
    now = 0.0
    guard = DeletionGuard(lambda: now)
    assert guard.holds("r", 5, lambda: 10) is None
    guard.deleted("r", 5)
    now = WAVE
    assert guard.holds("r", 1, lambda: 5) is not None
    now = 2 * WAVE + 1
    assert guard.holds("r", 1, lambda: 5) is None


def test_a_watched_folder_that_is_emptied_is_held_and_goes_on_when_files_are_back(
    desk: Desk,
) -> None:
    filled(desk, 6)
    sync = desk.syncing(options=GUARDED)
    records: list[RebuildRecord] = []
    options = ReloaderOptions(debounce=0.02, max_delay=0.5, backoff_initial=0.05, backoff_max=0.2)
    notifier = PollingNotifier(sync, every=0.05)
    with EventReloader(sync, notifier, options, on_rebuild=records.append) as reloader:
        thread = threading.Thread(target=reloader.run)
        thread.start()
        until(lambda: records)
        shutil.move(desk.root, desk.path / "away")
        desk.root.mkdir()
        until(lambda: any(_held(record) for record in records))
        for number in range(6):
            shutil.copy(desk.path / "away" / f"{number}.md", desk.root)
        desk.write("new.md", "new")
        until(lambda: "new.md" in desk.names and records[-1].report and not _held(records[-1]))
        reloader.close()
        thread.join()
    assert len(desk.names) == 7


def _held(record: RebuildRecord) -> bool:
    failed = record.report.failed if record.report else ()
    return any(isinstance(failure.error, DeletionHeldError) for failure in failed)
