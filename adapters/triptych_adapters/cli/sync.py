"""``triptych sync``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from triptych_adapters.cli.exits import Exit, exit_after
from triptych_adapters.cli.folders import (
    MAX_BYTES,
    NOT_TOLD,
    Adopt,
    AllFolders,
    DatasetOption,
    Delete,
    Exclude,
    Folders,
    FoldersArgument,
    Include,
    MaxBytes,
    Prefix,
    tell_generated,
    tell_notes,
)
from triptych_adapters.cli.session import Session, command, examples

if TYPE_CHECKING:
    from triptych.parsing.files import Skipped
    from triptych.sync import SyncPlan, SyncReport


def register(app: typer.Typer) -> None:
    """Add ``sync``."""
    command(
        app,
        "sync",
        epilog=examples(
            "triptych sync docs/                      mirror the folder",
            "triptych sync docs/ --dry-run            what that would do, and cost",
            "triptych sync . --exclude 'drafts/'      all but one folder",
            "triptych sync src/ --include '*.py'      these, and no others",
        ),
    )(sync)


def sync(
    session: Session,
    paths: FoldersArgument,
    dataset: DatasetOption = "default",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", "-n", help="Show what would be done, and what it would cost."),
    ] = False,
    include: Include = None,
    exclude: Exclude = None,
    all_folders: AllFolders = False,
    prefix: Prefix = "",
    max_bytes: MaxBytes = MAX_BYTES,
    delete: Delete = True,
    adopt: Adopt = False,
) -> Exit:
    """Mirror folders into a dataset: add, update, rename and delete documents to match the files.

    Reads files of every format that has a parser, at any depth, in any common encoding. Each
    document is named by its path from the folder. Hidden, binary and ignored files (.gitignore,
    .triptychignore) are skipped, and so are folders of installed or generated files, such as
    node_modules or a virtual environment. Unchanged files cost nothing. Documents that did not
    come from these folders are neither deleted nor replaced. A file that fails is listed, and
    tried again next time.
    """
    from triptych_adapters.cli.progress import shown

    folders = Folders(
        paths=paths,
        dataset=dataset,
        prefix=prefix,
        include=include or (),
        exclude=exclude or (),
        all_folders=all_folders,
        max_bytes=max_bytes,
        delete=delete,
        adopt=adopt,
    )
    folders.check()
    with folders.opened(session, dry=dry_run) as directory, shown(session.output, "files") as bar:
        report = directory.plan() if dry_run else directory.sync(progress=bar)
    _tell(session, dataset, report)
    done = report.checked - len(report.failed)
    return exit_after([failure.error for failure in report.failed], done=done)


def _tell(session: Session, dataset: str, report: SyncPlan | SyncReport) -> None:
    from triptych.sync import SyncPlan
    from triptych_adapters.wire.schema import to_json

    output = session.output
    for failure in report.failed:
        output.warn(f"{failure.name}: {failure.error}")
    _tell_skipped(session, report.skipped)
    tell_generated(output, report.skipped)
    tell_notes(output, report.notes)
    planned = isinstance(report, SyncPlan)
    fields = to_json(report)
    if output.as_json:
        output.emit({"dataset": dataset, "dry_run": planned, **fields})
        return
    if isinstance(report, SyncPlan):
        for line in _lines(report):
            output.say(line)
    if planned or not output.quiet:
        output.table(("", dataset), list(fields["counts"].items()))


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
