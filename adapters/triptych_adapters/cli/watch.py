"""``triptych watch``: syncing folders until interrupted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import attrs

from triptych.errors import DeletionHeldError, ValidationError
from triptych_adapters.cli.command import command, option
from triptych_adapters.cli.folders import Folders, tell_generated, tell_notes
from triptych_adapters.cli.output import Output
from triptych_adapters.cli.session import Exit, Session, until_stopped

if TYPE_CHECKING:
    from triptych.contracts import EventNotifier
    from triptych.events import RebuildRecord
    from triptych.parsing.files import Skipped
    from triptych.sync import DirectorySync

_GRACE = 0.8
"""Seconds from a signal to the end. A call of a model cannot be interrupted, and need not be
waited for: no write is under way during one, and one that is cut off leaves no half state."""

_NAMED = 5
"""How many failures of one rebuild are named."""


@command(
    "triptych watch docs/              sync now, and at each change, until Ctrl-C",
    "triptych watch                    the folders that `triptych add` has",
    "triptych watch /mnt/share --poll 10   on a network disk: look every 10 seconds",
)
def watch(
    session: Session,
    folders: Folders,
    poll: Annotated[
        float | None,
        option(
            "--poll SECONDS",
            "Check for changes this often, for disks that do not report them, such as network "
            "disks.",
        ),
    ] = None,
    debounce: Annotated[
        float, option("--debounce SECONDS", "Sync after this long without a further change.")
    ] = 0.5,
) -> Exit:
    """Sync folders now and after each change, until interrupted. It reads the same files as sync.

    By default it watches all remembered folders. If more than half of a folder's documents would be
    deleted, it deletes none until the files are back or `triptych sync --yes` confirms it.

    Each sync with changes prints a line: its scope, documents, embedded chunks and seconds; with
    --json, a JSON object. Failures, such as an unreachable embedder, are reported and retried,
    after a second at first and then with growing pauses.
    """
    from triptych.events import EventReloader, ReloaderOptions

    # No time limit: the first sync of a large folder takes what it takes, and can be stopped.
    options = ReloaderOptions(debounce=debounce, max_delay=max(5.0, debounce), rebuild_timeout=None)
    folders.check()
    with until_stopped(session.output, _GRACE) as on_stop, folders.opened(session) as syncing:
        directory = syncing.directory
        if directory is None or folders.locations:
            raise ValidationError(
                "repositories and web sites report no changes: ask them by `triptych sync`, from "
                "cron as often as you want"
            )
        if syncing.sources:
            places = ", ".join(each.root.place for each in syncing.sources)
            session.output.note(
                f"not watched: {places}; `triptych sync` asks them, from cron as often as you want"
            )
        notifier = _notifier(directory, poll)
        log = _Log(session.output, directory, syncing.note_synced)
        with EventReloader(directory, notifier, options, on_rebuild=log) as reloader:
            on_stop(reloader.close)
            watched = ", ".join(str(root.path) for root in directory.roots)
            session.output.note(f"watching {watched}; Ctrl-C ends it")
            reloader.run()
    session.output.note("stopped")
    return Exit.OK


def _notifier(directory: DirectorySync, poll: float | None) -> EventNotifier:
    if poll is not None:
        from triptych.sync import PollingNotifier

        return PollingNotifier(directory, every=poll)
    from triptych_backends.watching import WatchfilesNotifier

    return WatchfilesNotifier(directory)


@attrs.define(eq=False)
class _Log:
    """Prints each rebuild that did something, or failed."""

    _output: Output
    _directory: DirectorySync
    _note_synced: Callable[[], None]
    _left_out: tuple[Skipped, ...] = ()
    _told: tuple[str, ...] = ()
    _first: bool = True

    def __call__(self, record: RebuildRecord) -> None:
        problems = self._problems(record)
        report = record.report
        if self._directory.left_out != self._left_out:
            self._left_out = self._directory.left_out
            tell_generated(self._output, self._left_out)
        if report is not None:
            tell_notes(self._output, self._directory.notes)
        worked = report is not None and (report.rebuilt or report.removed)
        if worked:
            self._note_synced()
        # A failure that repeats is printed once, and so is its end.
        if worked or self._first or problems != self._told:
            self._tell(record, problems)
        self._told = problems
        self._first = self._first and report is None

    @staticmethod
    def _problems(record: RebuildRecord) -> tuple[str, ...]:
        if record.error is not None:
            return (f"{type(record.error).__name__}: {record.error}",)
        failed = record.report.failed if record.report else ()
        return tuple(f"{each.name}: {each.error}{_confirm(each.error)}" for each in failed)

    def _tell(self, record: RebuildRecord, problems: tuple[str, ...]) -> None:
        output = self._output
        if output.as_json:
            output.emit({**_json(record), "notes": list(self._directory.notes)})
            return
        output.warn(*problems[:_NAMED])
        if len(problems) > _NAMED:
            output.warn(f"and {len(problems) - _NAMED} more")
        if record.report is not None:
            output.say(_line(record))
        if record.retry_in is not None:
            output.warn(f"retrying in {record.retry_in:.1f} s, or at the next change")


def _confirm(error: Exception) -> str:
    return " (`triptych sync --yes` confirms it)" if isinstance(error, DeletionHeldError) else ""


def _line(record: RebuildRecord) -> str:
    report = record.report
    assert report is not None  # the caller has looked
    scope = record.scope
    where = "/".join(part for part in (scope.dataset_id, scope.doc_name) if part)
    if len(scope.doc_names) > 1:
        where += f", {len(scope.doc_names)} documents"
    held = [each.error for each in report.failed if isinstance(each.error, DeletionHeldError)]
    parts = [
        f"{count} {what}"
        for count, what in (
            (report.rebuilt, "written"),
            (report.removed, "deleted"),
            (len(report.failed) - len(held), "failed"),
            (sum(len(each.names) for each in held), "not deleted yet"),
        )
        if count
    ]
    done = ", ".join(parts) or f"nothing to do, {report.fresh} documents are fresh"
    cost = f"{report.embedded} chunks embedded, {report.reused} reused"
    now = datetime.now().astimezone().strftime("%H:%M:%S")
    return f"{now} {where or 'everything'}: {done}; {cost}; {record.duration:.2f} s"


def _json(record: RebuildRecord) -> dict[str, Any]:
    from triptych.records.serialization import to_json

    now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    return {"time": now, **to_json(record)}
