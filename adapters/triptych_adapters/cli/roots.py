"""``triptych sync``, ``init``, ``add`` and ``remove``: folders that a store remembers."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from triptych._internal.wording import counted
from triptych.errors import NotFoundError, SourceError, ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.folders import (
    AddedFolders,
    Folders,
    is_location,
    tell_generated,
    tell_notes,
    unexpected,
)
from triptych_adapters.cli.names import shown_path
from triptych_adapters.cli.options import Language
from triptych_adapters.cli.output import counts_of, summary_line
from triptych_adapters.cli.session import Exit, Session, exit_after, uncovered

if TYPE_CHECKING:
    from triptych._internal.progress import Progress, ProgressCallback
    from triptych.parsing.files import Skipped
    from triptych.records import Failure
    from triptych.service import KnowledgeBase
    from triptych.sync import RememberedRoot, Root, SyncPlan, SyncReport
    from triptych_adapters.cli.folders import Syncing
    from triptych_sources import RememberedSource

_COUNTED = (
    *("added", "updated", "renamed", "deleted", "unchanged", "repaired", "failed", "skipped"),
    *("chunks", "embedded", "reused", "pending", "expired", "model_calls"),
)

_MANY = 100
"""Texts whose embedding somebody may want not to wait for."""

_MANY_ALIKE = 4
"""So many failures of sources for one reason share a line."""

_VARYING = re.compile(r"https?://\S+")
"""What differs from page to page in a failure."""


@command(
    "triptych sync docs/                      mirror the folder",
    "triptych sync                            all folders that `triptych add` has",
    "triptych sync docs/ --dry-run            what that would do, and cost",
    "triptych sync . --exclude 'drafts/'      all but one folder",
    "triptych sync src/ --include '*.py'      these, and no others",
    "triptych sync https://host/name.git#v2   the files of a Git tag",
)
def sync(
    session: Session,
    folders: Folders,
    dry_run: Annotated[
        bool, option("--dry-run -n", "Show what the sync would do and cost; write nothing.")
    ] = False,
    language: Language = None,
) -> Exit:
    """Mirror folders, Git repositories and web sites into a dataset: add, update, rename and
    delete documents to match their files and pages.

    By default it syncs all remembered folders (see `triptych add`). It reads files of every format
    with a parser, at any depth, in any common encoding. A document's name is its path relative to
    the folder. Hidden, binary and ignored files (.gitignore, .triptychignore) are skipped, and so
    are folders of installed or generated files, such as node_modules or a virtual environment.
    Unchanged files cost nothing. Documents from elsewhere are neither deleted nor replaced. A file
    that fails is listed, and tried again by the next sync. If more than half of a folder's
    documents would be deleted, none is deleted without --yes.
    """
    folders.check()
    with folders.opened(session, dry=dry_run) as syncing:
        return run(session, syncing, dry=dry_run, language=language)


def run(
    session: Session, syncing: Syncing, *, dry: bool = False, language: str | None = None
) -> Exit:
    """Sync, or plan it, and tell of it; the datasets get the language first."""
    if language is not None and not dry:
        for dataset in syncing.datasets:
            syncing.service.configure_dataset(dataset, language=language)
    with session.output.progress("files") as bar:
        report: SyncPlan | SyncReport
        if dry:
            report = syncing.plan()
        else:
            report = syncing.sync(progress=bar and _telling(session, bar))
            syncing.note_synced(report.failed)
            for dataset in syncing.datasets:
                session.output.warn(*uncovered(syncing.service, dataset, report))
    _tell(session, syncing, report)
    for old, new in syncing.moves(report.failed):
        session.output.warn(
            f"{old} does not exist any more: if it is {new} now, `triptych add "
            f"{shlex.quote(str(new))} --moved-from {shlex.quote(str(old))}` keeps its documents"
        )
    if report.held:
        return Exit.PARTIAL
    done = report.checked - len(report.failed)
    return exit_after(report.failed, done=done)


def _telling(session: Session, bar: ProgressCallback) -> ProgressCallback:
    """``bar``, and a remark once many texts are embedded: who watches need not wait for them."""
    is_told = False

    def move(progress: Progress) -> None:
        nonlocal is_told
        if (progress.phase, is_told) == ("embedding", False) and (progress.total or 0) >= _MANY:
            is_told = True
            session.output.note(
                "what is read is found by keyword already; embedding finds it by meaning, too, and "
                "goes on with the next sync where you stop it"
            )
        bar(progress)

    return move


def _alike(failed: Sequence[Failure]) -> tuple[list[Failure], list[list[Failure]]]:
    """The failures, and apart from them groups of those whose sources fail for one reason.

    Every page of a site that is busy, or asks for a login, fails alike, but for its address.
    """
    groups: dict[str, list[Failure]] = {}
    apart: list[Failure] = []
    for each in failed:
        if isinstance(each.error, SourceError):
            groups.setdefault(_VARYING.sub("…", str(each.error)), []).append(each)
        else:
            apart.append(each)
    few = [each for group in groups.values() if len(group) < _MANY_ALIKE for each in group]
    return [*few, *apart], [group for group in groups.values() if len(group) >= _MANY_ALIKE]


def _tell(session: Session, syncing: Syncing, report: SyncPlan | SyncReport) -> None:
    from triptych.sync import SyncPlan

    output = session.output
    apart, alike = _alike(report.failed)
    for group in alike:
        first = group[0]
        output.warn(
            f"{len(group)} documents fail alike (--json lists them), such as {first.name}: "
            f"{first.error}"
        )
    output.warn_of(apart, most=20 if syncing.sources else None)
    for each in report.held:
        output.warn(f"{each.failure.error} (--yes deletes the documents)")
    seen = unexpected(report.skipped)
    _tell_skipped(session, seen)
    tell_generated(output, report.skipped)
    tell_notes(output, report.notes)
    if report.renamed:
        output.note("a document that is renamed keeps no earlier versions")
    planned = isinstance(report, SyncPlan)
    datasets = syncing.datasets
    summary = summary_line({**counts_of(report, _COUNTED), "skipped": len(seen)})
    roots = [
        {"path": root.place, "dataset_id": root.dataset_id, "prefix": root.prefix}
        for root in syncing.roots
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


def _tell_skipped(session: Session, skipped: Sequence[Skipped]) -> None:
    if reasons := Counter(each.reason for each in skipped):
        first = reasons.most_common(5)
        some = ", ".join(f"{count} ({reason})" for reason, count in first)
        if others := reasons.total() - sum(count for _, count in first):
            some += f", {others} for other reasons"
        session.output.note(f"skipped {some}; --json names them, --include includes others")


@command("triptych init", "triptych init ~/notes && cd ~/notes")
def init(
    session: Session,
    folder: Annotated[Path, argument("FOLDER", "The folder.", show_default=False)] = Path(),
) -> None:
    """Create a store for a folder; commands in or below the folder then use it.

    The store is in FOLDER/.triptych, which Git ignores. Without init, commands use your user's
    store in any folder. An existing store is not changed.
    """
    from triptych_factory import Settings, wire
    from triptych_factory.locations import (
        STORE_FILE,
        STORE_FOLDER,
        find_store,
        parse_location,
        store_in,
    )

    if not folder.is_dir():
        raise NotFoundError(f"there is no folder {str(folder)!r}: make it first")
    folder = folder.absolute()
    found = store_in(folder)
    outer = find_store(folder.parent)
    url = found or str(folder / STORE_FOLDER / STORE_FILE)
    if found is None:
        settings = Settings.resolve({"url": url, "embedder": "none", "llm": "none"})
        with wire(settings):
            pass
    path = parse_location(url).path
    assert path is not None  # neither form lies in memory
    made = f"made the store {shown_path(path)}; next: triptych add FOLDER"
    above = outer and parse_location(outer).path
    covered = [f"here it takes the place of the store {shown_path(above)}"] if above else []
    session.output.show(
        {"store": str(path), "created": found is None},
        note=[f"there is a store already: {shown_path(path)}"] if found else [made, *covered],
    )


@command(
    "triptych add notes/                            remember it, and sync it now",
    "triptych add notes/ docs/ --prefix notes/ --prefix docs/",
    "triptych add handbook/ --dataset team --exclude 'drafts/'",
    "triptych add https://host/name.git#main        a Git repository",
    "triptych add https://docs.example.org/         a web site, by its sitemap",
)
def add(
    session: Session,
    folders: AddedFolders,
    moved_from: Annotated[
        Path | None,
        option(
            "--moved-from PATH",
            "The folder's old path; it keeps its documents.",
        ),
    ] = None,
    language: Language = None,
) -> Exit:
    """Remember folders, Git repositories and web sites with their options and sync them, so that
    `triptych sync` needs no path.

    The folders are remembered in the store. A folder next to the store, or below that place, is
    remembered by its relative path, so that both can be moved together; any other by its absolute
    path. A document's name is its path below the first folder of the dataset; names from further
    folders start with the folder's name, those of repositories and sites with the repository's or
    the host's, unless you give --prefix. Adding a folder again changes
    only the options that you give.
    """
    if moved_from is not None and (len(folders.paths) != 1 or folders.locations):
        raise ValidationError("--moved-from is the old path of one folder: name one folder")
    folders.check()
    with folders.opened(session, add=True, moved_from=moved_from) as syncing:
        assert syncing.remembered is not None
        mine = {(root.place, root.dataset_id) for root in syncing.roots}
        for each in syncing.remembered.all():
            if (each.root.place, each.root.dataset_id) in mine:
                session.output.note(f"remembered {_told(each)}")
        ended = Exit.FAILED
        try:
            ended = run(session, syncing, language=language)
        finally:
            unread = syncing.forget_unread(failed=ended is not Exit.OK)
            for source in (each.root for each in syncing.sources):
                session.output.note(
                    f"not remembered, since nothing was read of it: {source.place}"
                    if source in unread
                    else f"remembered {source.place} for the dataset {source.dataset_id!r}, its "
                    f"documents named {source.prefix}…"
                )
        for outer, inner, count in syncing.twice():
            twice = f"{counted(count, 'document')} of {inner.path}: stored twice, since the dataset"
            if outer.path == inner.path:
                session.output.note(
                    f"{twice} {outer.dataset_id!r} reads it, too. To leave it out there: `triptych "
                    f"remove {shlex.quote(str(outer.path))} -d {shlex.quote(outer.dataset_id)}`"
                )
                continue
            out = f"/{inner.path.relative_to(outer.path).as_posix()}/"
            excluded = [*(outer.options.exclude if outer.options else ()), out]
            leaving = " ".join(f"--exclude {shlex.quote(each)}" for each in excluded)
            session.output.note(
                f"{twice} {outer.dataset_id!r} reads {outer.path}. To leave the folder out there: "
                f"`triptych add {shlex.quote(str(outer.path))} {leaving}`"
            )
        return ended


def _told(each: RememberedRoot) -> str:
    how = "by its path from the store" if each.relative else "by its absolute path"
    names = f", its documents named {each.root.prefix}…" if each.root.prefix else ""
    return f"{each.root.path} for the dataset {each.root.dataset_id!r}, {how}{names}"


def list_folders(session: Session, dataset: str | None) -> None:
    """List the folders that the store remembers, and when each was last synced."""
    from triptych_factory.backends import check_local
    from triptych_factory.sources import remembered_sources
    from triptych_factory.syncing import remembered_roots

    settings = attrs.evolve(session.settings().without_llm(), embedder="none")
    check_local(settings, "what is known of folders")
    with session.service(settings=settings) as service:
        found = remembered_roots(service, settings).all()
        rows = [_fields(service, e) for e in found if dataset in (None, e.root.dataset_id)]
        sources = remembered_sources(service).all(dataset)
        rows += [_source_fields(service, each) for each in sources]
    shown = (
        (
            *(row[name] for name in ("path", "dataset_id", "prefix", "documents")),
            row["synced_at"] or "never",
            "" if row["found"] else "not there",
        )
        for row in rows
    )
    session.output.show(
        {"roots": rows},
        table=(("path", "dataset", "prefix", "documents", "last sync", ""), shown),
        note="" if rows else "this store remembers no folders: `triptych add FOLDER` adds one",
    )


def _fields(service: KnowledgeBase, each: RememberedRoot) -> dict[str, Any]:
    return _row(service, each, each.root) | {
        "found": each.root.exists(),
        "relative": each.relative,
    }


def _source_fields(service: KnowledgeBase, each: RememberedSource) -> dict[str, Any]:
    return _row(service, each, each.root(None)) | {"found": True, "limits": dict(each.limits)}


def _row(
    service: KnowledgeBase, each: RememberedRoot | RememberedSource, root: Root
) -> dict[str, Any]:
    from triptych.sync import documents_of

    options = each.options
    return {
        "path": root.place,
        "dataset_id": root.dataset_id,
        "prefix": root.prefix,
        "documents": len(documents_of(service, root)),
        "synced_at": each.synced_at and each.synced_at.isoformat(timespec="seconds"),
        "include": list(options.include),
        "exclude": list(options.exclude),
        "all_folders": options.all_folders,
        "ocr": options.ocr,
        "max_bytes": options.max_bytes,
        "delete": options.delete,
        "adopt": options.adopt,
    }


@command(
    "triptych remove notes/ --keep      forget the folder, keep its documents",
    "triptych remove notes/ --delete    and delete its documents",
)
def remove(
    session: Session,
    paths: Annotated[list[str], argument("PATH", "Folders, Git URLs or web sites.")],
    dataset: Annotated[str | None, option("--dataset -d", "The dataset of the folders.")] = None,
    delete: Annotated[
        bool | None, option("--delete/--keep", "Whether to delete or keep the documents.")
    ] = None,
) -> Exit:
    """Forget folders and sources, and keep or delete their documents; files are not changed.

    On a terminal it asks whether to keep the documents; scripts must give --keep or --delete.
    """
    from triptych.sync import delete_documents_of, documents_of
    from triptych_factory.backends import check_local
    from triptych_factory.sources import forget_source, remembered_sources
    from triptych_factory.syncing import remembered_roots

    settings = attrs.evolve(session.settings().without_llm(), embedder="none")
    lines: list[str] = []
    rows: list[dict[str, Any]] = []
    failed: list[Failure] = []
    check_local(settings, "what is known of folders")
    with session.service(settings=settings) as service:
        remembered = remembered_roots(service, settings)
        sources = remembered_sources(service)
        found: list[tuple[list[Root], Callable[[], object]]] = []
        for path in paths:
            if is_location(path):
                one = sources.at(path, dataset)
                found.append(([one.root(None)], partial(forget_source, service, settings, one)))
            else:
                named = remembered.at(path, dataset).root
                also = remembered.all_at(named.path, named.dataset_id)
                found.append(([e.root for e in also], partial(remembered.forget, named)))
        for same, forget in found:
            count = sum(len(documents_of(service, root)) for root in same)
            unasked = delete if count else False
            gone = _asked(same[0], count) if unasked is None else unasked
            deleted: list[str] = []
            not_deleted: list[Failure] = []
            for root in same if gone else ():
                names, failures = delete_documents_of(service, root)
                deleted += names
                not_deleted += failures
            failed += not_deleted
            if not not_deleted:
                forget()
            path, kept = same[0].place, count - len(deleted)
            rows.append({"path": path, "deleted": len(deleted), "documents": count})
            done = counted(len(deleted), "document")
            done = f"{done} deleted, {kept} kept" if count else "it had no documents"
            lines.append(f"forgotten: {path}, {done}" if not not_deleted else f"{path}: {done}")
    return session.finish(failed, {"removed": rows}, done=len(found), note=lines)


def _asked(root: Root, count: int) -> bool:
    if not sys.stdin.isatty():
        raise ValidationError(
            f"keep or delete the documents of {root.place!r}? Give --keep or --delete"
        )
    plural = "its document" if count == 1 else f"its {count} documents"
    return typer.confirm(f"Delete {plural} too?", err=True)
