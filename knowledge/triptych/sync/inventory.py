"""Comparing the folders with the store for one dataset, and detecting renames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from triptych.errors import (
    ConflictError,
    NotAvailableError,
    NotFoundError,
    TriptychError,
    ValidationError,
)
from triptych.parsing.files import Skipped
from triptych.records import DocumentInfo, Failure
from triptych.records.values import check_document_name
from triptych.scan import FileStat
from triptych.sync.roots import Root, prefix_hint
from triptych.sync.scanner import Scan, Scanner
from triptych.sync.target import ChunkState, SyncTarget


@attrs.frozen(kw_only=True, slots=True)
class File:
    """A file that is taken, and the document it becomes."""

    root: Root
    relative: str
    name: str
    stat: FileStat
    hint: str = ""


@attrs.define(kw_only=True)
class Inventory:
    """One dataset's files and documents.

    ``infos`` and ``states`` are read before any file is, so that a write in between is noticed
    by the version it leaves.
    """

    dataset_id: str
    files: dict[str, File] = attrs.field(factory=dict)
    infos: Mapping[str, DocumentInfo] = attrs.field(factory=dict)
    states: Mapping[str, ChunkState] = attrs.field(factory=dict)
    scans: list[tuple[Root, Scan]] = attrs.field(factory=list)
    skipped: list[Skipped] = attrs.field(factory=list)
    failed: list[Failure] = attrs.field(factory=list)

    def gone(self) -> list[DocumentInfo]:
        """The documents of these roots whose file is not there any more, ordered by name."""
        failed = {failure.name for failure in self.failed}
        scans = {key: (root, scan) for root, scan in self.scans for key in root.keys}
        found = []
        for name, info in self.infos.items():
            if name in self.files or name in failed:
                continue
            if info.system.sync_root not in scans:
                continue
            root, scan = scans[info.system.sync_root]
            # Under another prefix than the root's of now, it has no file at all.
            relative = root.relative_of(name)
            if "" in scan.unlisted or (relative is not None and scan.hides(relative)):
                continue
            found.append(info)
        return found


def take_inventory(
    target: SyncTarget,
    dataset_id: str,
    roots: Sequence[tuple[Root, Scanner]],
    names: Sequence[str] | None = None,
) -> Inventory:
    """Look at all of the dataset's roots, or at the files of ``names`` alone."""
    found = Inventory(dataset_id=dataset_id)
    if names is None:
        found.infos = {info.name: info for info in target.infos(dataset_id)}
    else:
        infos = (target.info(dataset_id, name) for name in names)
        found.infos = {info.name: info for info in infos if info is not None}
    found.states = target.states(dataset_id, found.infos)
    for root, scanner in roots:
        if names is None:
            scan = scanner.scan()
        else:
            scan = scanner.look(*(path for n in names if (path := root.relative_of(n)) is not None))
        found.scans.append((root, scan))
        found.skipped += scan.skipped
        _fail(found, root, scan)
        for relative, stat in scan.files.items():
            _take(found, root, relative, stat, scan.hints.get(relative, ""))
    return found


def _take(found: Inventory, root: Root, relative: str, stat: FileStat, hint: str) -> None:
    name = root.name_of(relative)
    other = found.files.get(name)
    error: Exception | None = None
    try:
        if any("\ud800" <= letter <= "\udfff" for letter in relative):
            raise ValidationError(
                f"the name of the file {relative!r} is not UTF-8, which no document name can be: "
                "rename the file"
            )
        check_document_name(name)
    except ValidationError as raised:
        error = raised
    if other is not None:
        error = ConflictError(
            f"{other.root.file_at(other.relative)!r} has the name {name!r} already: "
            f"give the folder a prefix of its own, {prefix_hint(root)}, or another dataset"
        )
    if error is not None:
        found.failed.append(Failure(dataset_id=found.dataset_id, name=name, error=error))
        return
    found.files[name] = File(root=root, relative=relative, name=name, stat=stat, hint=hint)


def _fail(found: Inventory, root: Root, scan: Scan) -> None:
    for relative, error in scan.failed.items():
        path = root.file_at(relative) if relative else root.place
        if isinstance(error, TriptychError):
            name = root.name_of(relative) if relative else path
            found.failed.append(Failure(dataset_id=found.dataset_id, name=name, error=error))
            continue
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            told: Exception = NotFoundError(
                f"there is no folder {path!r}; its documents are kept until it is back"
            )
        else:
            told = NotAvailableError(f"{path!r} cannot be read: {error.strerror or error}")
        told.__cause__ = error
        name = root.name_of(relative) if relative else path
        found.failed.append(Failure(dataset_id=found.dataset_id, name=f"{name}/", error=told))


# Which content went to another name


def renames(
    gone: Iterable[DocumentInfo], added: Iterable[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    """Which names took the place of which, (old, new), by old name.

    ``added`` are new names with the SHA-256 of their content. Where several names hold one
    content, they are paired in order.
    """
    waiting: dict[str, list[str]] = {}
    for name, content in sorted(added, reverse=True):
        waiting.setdefault(content, []).append(name)
    return tuple(
        (info.name, names.pop())
        for info in sorted(gone, key=lambda info: info.name)
        if (names := waiting.get(info.content_sha256))
    )


def exchanges(put: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Whose content is another's now, (old, new), among documents that were put together.

    ``put`` are names with the SHA-256 of their content before, "" for none, and now.
    """
    documents = sorted(put)
    heirs: dict[str, list[str]] = {}
    for name, before, now in documents:
        if before != now:
            heirs.setdefault(now, []).append(name)
    return [
        (name, heir)
        for name, before, now in documents
        if before and before != now
        for heir in heirs.get(before, ())
    ]
