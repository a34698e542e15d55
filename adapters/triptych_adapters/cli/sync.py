"""``triptych sync``."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Annotated

from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit, exit_after
from triptych_adapters.cli.folders import NOT_TOLD, Folders, tell_generated, tell_notes
from triptych_adapters.cli.options import option
from triptych_adapters.cli.output import counts_of, summary_line
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.parsing.files import Skipped
    from triptych.sync import DirectorySync, SyncPlan, SyncReport
    from triptych_adapters.cli.folders import Syncing

_COUNTED = (
    *("added", "updated", "renamed", "deleted", "unchanged", "repaired", "failed", "skipped"),
    *("chunks", "embedded", "reused", "pending", "expired", "model_calls"),
)


@command(
    "triptych sync docs/                      mirror the folder",
    "triptych sync                            all folders that `triptych add` has",
    "triptych sync docs/ --dry-run            what that would do, and cost",
    "triptych sync . --exclude 'drafts/'      all but one folder",
    "triptych sync src/ --include '*.py'      these, and no others",
)
def sync(
    session: Session,
    folders: Folders,
    dry_run: Annotated[
        bool, option("--dry-run -n", "Show what would be done, and what it would cost.")
    ] = False,
) -> Exit:
    """Mirror folders into a dataset: add, update, rename and delete documents to match the files.

    Without a folder, all that the store remembers are synced (see add). Reads files of every
    format that has a parser, at any depth, in any common encoding. Each document is named by its
    path from the folder. Hidden, binary and ignored files (.gitignore, .triptychignore) are
    skipped, and so are folders of installed or generated files, such as node_modules or a
    virtual environment. Unchanged files cost nothing. Documents that did not come from these
    folders are neither deleted nor replaced. A file that fails is listed, and tried again next
    time. If more than half of a folder's documents would be deleted, none is without --yes.
    """
    folders.check()
    with folders.opened(session, dry=dry_run) as syncing:
        return run(session, syncing, dry=dry_run)


def run(session: Session, syncing: Syncing, *, dry: bool = False) -> Exit:
    """Sync, or plan it, and tell of it."""
    directory = syncing.directory
    with session.output.progress("files") as bar:
        report: SyncPlan | SyncReport
        if dry:
            report = directory.plan()
        else:
            report = directory.sync(progress=bar)
            syncing.note_synced()
    _tell(session, directory, report)
    for old, new in syncing.moves(report.failed):
        session.output.warn(
            f"{old} is not there any more: if it is {new} now, `triptych add "
            f"{shlex.quote(str(new))} --moved-from {shlex.quote(str(old))}` keeps its documents"
        )
    if report.held:
        return Exit.PARTIAL
    done = report.checked - len(report.failed)
    return exit_after(report.failed, done=done)


def _tell(session: Session, directory: DirectorySync, report: SyncPlan | SyncReport) -> None:
    from triptych.sync import SyncPlan

    output = session.output
    output.warn_of(report.failed)
    for each in report.held:
        output.warn(f"{each.failure.error} (--yes deletes the documents)")
    _tell_skipped(session, report.skipped)
    tell_generated(output, report.skipped)
    tell_notes(output, report.notes)
    planned = isinstance(report, SyncPlan)
    datasets = directory.datasets
    summary = summary_line(counts_of(report, _COUNTED))
    roots = [
        {"path": str(root.path), "dataset_id": root.dataset_id, "prefix": root.prefix}
        for root in directory.roots
    ]
    output.show(
        {
            "dataset_id": datasets[0] if len(datasets) == 1 else None,
            "roots": roots,
            "dry_run": planned,
        },
        report,
        lines=[*_lines(report), f"would be: {summary}"]
        if isinstance(report, SyncPlan)
        else [summary],
        unless_quiet=not planned,
    )


def _lines(plan: SyncPlan) -> list[str]:
    return [
        *(f"add {name}" for name in plan.added),
        *(f"update {name}" for name in plan.updated),
        *(f"repair {name}" for name in plan.repaired),
        *(f"rename {old} to {new}" for old, new in plan.renamed),
        *(f"delete {name}" for name in plan.deleted),
    ]


def _tell_skipped(session: Session, skipped: tuple[Skipped, ...]) -> None:
    from triptych.parsing.generated_folders import GENERATED

    not_told = GENERATED.union(NOT_TOLD)
    reasons = Counter(each.reason for each in skipped if each.reason not in not_told)
    if reasons:
        some = ", ".join(f"{count} ({reason})" for reason, count in reasons.most_common(5))
        session.output.note(f"skipped {some}; --json names them, --include takes others")
