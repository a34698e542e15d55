"""Checking and repairing files, sidecars and the journal."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

from triptych.diagnostics import Check, FindingCollector
from triptych.errors import CorruptStoreError
from triptych.records import DerivedLayer, Finding, Layer
from triptych_backends.filesystem import history
from triptych_backends.filesystem.adoption import same_layer
from triptych_backends.filesystem.contents import (
    FileContent,
    Parsed,
    RejectedFile,
    bad_name,
    find_content,
    find_home,
    find_layer,
    find_sidecar,
    is_misplaced,
    is_utf8,
)
from triptych_backends.filesystem.disk import LinkError, disk_errors
from triptych_backends.filesystem.formats import (
    DatasetManifest,
    FormatError,
    Sidecar,
    read_layer,
    read_sidecar,
)
from triptych_backends.filesystem.layout import (
    DATASETS,
    INTENT,
    JOURNAL,
    LAYERS,
    OWN,
    id_of,
)
from triptych_backends.filesystem.reconcile import find_datasets, survey
from triptych_backends.filesystem.stat_cache import CONTENT, REJECT, SIDECAR, TrackedFile
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sql.deferred import bindparam, select, tables as t, update


def list_problems(workspace: Workspace) -> tuple[RejectedFile, ...]:
    """Every problem, by path."""
    found: dict[str, RejectedFile] = {}

    def tell(problem: RejectedFile | None) -> None:
        if problem is not None:
            found.setdefault(problem.path, problem)

    with disk_errors(workspace.where):
        for top in ("", DATASETS, LAYERS):
            for name, entry in workspace.disk.names(top):
                path = f"{top}/{name}" if top else name
                if entry.kind not in ("folder", "file"):
                    tell(is_misplaced(path, entry))
                elif entry.kind == "folder" and not is_utf8(name):
                    tell(bad_name(path, "dataset"))
                elif entry.kind == "folder" and not top and name != LAYERS:
                    known = isinstance(find_home(workspace.disk, name), DatasetManifest)
                    tell(None if known or id_of(name) else bad_name(path, "dataset"))
        for dataset, folder in find_datasets(workspace).items():
            for problem in survey(workspace, dataset, folder):
                tell(problem)
    return tuple(found[path] for path in sorted(found))


_DATASET = select(t.dataset.c.id).where(t.dataset.c.name == bindparam("in_dataset"))
_OF_DOCUMENT = (
    t.document.c.name == bindparam("called"),
    t.document.c.dataset_id == _DATASET.scalar_subquery(),
)
_CONTENT = select(t.document.c.content).where(*_OF_DOCUMENT)
_SET_CONTENT = (
    update(t.document)
    .where(*_OF_DOCUMENT)
    .values(content=bindparam("data"), size=bindparam("length"))
    .returning(t.document.c.dataset_id, t.document.c.id)
)

CHECKS = {
    check.name: check
    for check in (
        Check(
            "files.unadopted",
            "a file in the store's folder is invalid for its name",
            "the document or layer keeps its last valid state, or does not exist",
        ),
        Check(
            "files.checksum",
            "files have changed since they were adopted, with the same time and size",
            "searches find other text than the file has: the disk or a tool changed it without a "
            "trace",
            remedy="put the old text back (`triptych get NAME` prints it), or touch the file, "
            "which adopts what is in it now",
        ),
        Check(
            "files.mirror",
            "the derived database differs from its files",
            "answers use text or metadata that nobody wrote",
            repair="it is read from the files again",
        ),
        Check(
            "history.orphans",
            "old versions of deleted documents were left behind",
            "they contain deleted data",
            repair="they are removed",
        ),
        Check(
            "journal.left",
            "a writer that ended early left files behind",
            "they take space; the next write finishes the interrupted one",
            repair="what was begun is finished, and the rest is removed",
        ),
    )
}


def check_files(writer: Writer, dataset_ids: Collection[str]) -> Iterator[Finding]:
    """What is wrong with the files. Reads every one; adopts and writes nothing."""
    tally = FindingCollector()
    workspace = writer.workspace
    for problem in list_problems(workspace):
        check = CHECKS["files.unadopted"]
        place = f"{problem.path}: {problem.reason}"
        tally.add(check, place, remedy=problem.remedy)
    with disk_errors(workspace.where):
        for dataset in dataset_ids:
            for kind, name in dict.fromkeys(_differing(workspace, dataset)):
                tally.add(CHECKS[kind], f"dataset {dataset!r}", name, dataset_id=dataset)
        if not workspace.database.read_only:
            for name in _left(writer):
                tally.add(CHECKS["journal.left"], workspace.where, name)
            for folder in _orphans(writer):
                tally.add(CHECKS["history.orphans"], workspace.where, folder)
    yield from tally.findings()


def _differing(workspace: Workspace, dataset: str) -> Iterator[tuple[str, str]]:
    """Documents and layers of which a file, or what is mirrored of it, is not what was adopted."""
    folder = workspace.folder(dataset)
    if folder is None:
        return
    documents = workspace.cache.documents(dataset)
    for file in workspace.cache.files(dataset):
        if file.kind == REJECT:
            continue
        try:
            data, _ = workspace.disk.read(file.path)
        except (OSError, LinkError):
            continue  # removed meanwhile, which is adopted; or reported by the survey
        known = documents.get(file.name)
        if hashlib.sha256(data).hexdigest() != file.sha256:
            # With another stat it was edited meanwhile, which is adopted.
            if file.stat is not None and workspace.disk.entry(file.path) == file.stat:
                yield "files.checksum", file.name if file.kind == CONTENT else file.path
        elif not _mirrors(workspace, dataset, file, known, data):
            yield "files.mirror", file.path if file.is_layer else file.name


def _mirrors(
    workspace: Workspace, dataset: str, file: TrackedFile, known: Sidecar | None, data: bytes
) -> bool:
    """Whether the mirror has what the ``data`` of a file says, as far as that was adopted."""
    if file.kind == CONTENT:
        return _mirrored(workspace, dataset, file.name) == file.sha256
    try:
        if file.kind == SIDECAR:
            return known is None or read_sidecar(data, known.path).same(known)
        return _mirrors_layer(workspace, dataset, file, read_layer(data))
    except FormatError:
        return True


def _mirrors_layer(
    workspace: Workspace, dataset: str, file: TrackedFile, layer: DerivedLayer
) -> bool:
    try:
        mirrored = workspace.mirror.layers.get(dataset, file.name, Layer(file.kind))
    except CorruptStoreError:
        return False  # its file has it
    return mirrored is not None and same_layer(mirrored, layer)


def _mirrored(workspace: Workspace, dataset: str, name: str) -> str:
    with workspace.database.reading() as session:
        row = session.one(_CONTENT, in_dataset=dataset, called=name)
    if row is None or not isinstance(row[0], bytes):
        return ""
    return hashlib.sha256(row[0]).hexdigest()


def _left(writer: Writer) -> list[str]:
    workspace = writer.workspace
    with writer.lock.held():
        left = [f"{JOURNAL}/{name}" for name, _ in workspace.disk.names(JOURNAL)]
        drafts = [
            f"{OWN}/{name}"
            for name, found in workspace.disk.names(OWN)
            if name.endswith(".tmp") and found.kind == "file"
        ]
    return [*left, *drafts]


def _orphans(writer: Writer) -> list[str]:
    workspace = writer.workspace
    if not history.orphans(workspace):
        return []
    with writer.lock.held():  # what another is deleting just now is none
        return sorted(history.orphans(workspace))


def repair_files(
    writer: Writer, checks: Collection[str], dataset_ids: Collection[str]
) -> list[str]:
    """Finish what was begun, and read what the mirror has otherwise from the files again."""
    done: list[str] = []
    workspace = writer.workspace
    if "journal.left" in checks:
        with writer.locked():
            assert workspace.disk.entry(INTENT) is None
            workspace.journal.clear()
            for name, found in workspace.disk.names(OWN):
                if name.endswith(".tmp") and found.kind == "file":
                    workspace.disk.remove(f"{OWN}/{name}")
        done.append("finished interrupted writes, and removed leftover files")
    if "history.orphans" in checks:
        with writer.locked():
            done.append(f"removed the old versions of {history.sweep(workspace)} deleted documents")
    if "files.mirror" in checks:
        for dataset in dataset_ids:
            done += _repair_mirror(writer, dataset)
    return done


def _repair_mirror(writer: Writer, dataset: str) -> list[str]:
    workspace = writer.workspace
    with writer.locked():
        folder = workspace.folder(dataset)
        if folder is None:
            return []
        repaired = _repair_contents(workspace, dataset, folder)
        change = writer.change(dataset)
        for each in workspace.cache.documents(dataset).values():
            side = find_sidecar(workspace.disk, folder, each.path)
            file = find_content(workspace.disk, folder, each.path)
            if not isinstance(side, Parsed) or not isinstance(file, FileContent):
                continue
            if not side.value.same(each) and side.value.sha256 == file.record.sha256:
                change.take(side.value, file.data, file.record, side.file.record)
                repaired += 1
        for tracked in workspace.cache.layers(dataset):
            found = find_layer(workspace.disk, tracked.path)
            if isinstance(found, Parsed) and not _mirrors_layer(
                workspace, dataset, tracked, found.value
            ):
                change.take_layer(found.value, tracked.path, found.file.record)
                repaired += 1
        change.commit()
    return [f"read {repaired} documents and layers of dataset {dataset!r} from their files again"]


def _repair_contents(workspace: Workspace, dataset: str, folder: str) -> int:
    """Of how many documents the mirrored content was read again."""
    repaired = 0
    for each in workspace.cache.documents(dataset).values():
        if _mirrored(workspace, dataset, each.name) == each.sha256:
            continue
        found = find_content(workspace.disk, folder, each.path)
        if isinstance(found, FileContent) and found.record.sha256 == each.sha256:
            with workspace.database.writing() as tx:
                changed = tx.all(
                    _SET_CONTENT,
                    data=found.data,
                    length=len(found.data),
                    called=each.name,
                    in_dataset=dataset,
                )
                # The index may have been built from what was there.
                for owner, document in changed:
                    tx.log(owner, "document", document)
            repaired += 1
    return repaired
