"""Checking and repairing files, sidecars and the journal."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

from triptych.diagnostics import Check, FindingCollector
from triptych.errors import CorruptStoreError
from triptych.records import DerivedLayer, Finding, Layer
from triptych_backends.filesystem import history, stat_cache
from triptych_backends.filesystem.adoption import same_layer
from triptych_backends.filesystem.contents import (
    FileContent,
    FileLayer,
    FileSidecar,
    RejectedFile,
    bad_name,
    duplicates,
    find_content,
    find_home,
    find_layer,
    find_sidecar,
    is_misplaced,
    is_utf8,
)
from triptych_backends.filesystem.disk import disk_errors
from triptych_backends.filesystem.formats import DatasetManifest
from triptych_backends.filesystem.layout import (
    DATASETS,
    INTENT,
    JOURNAL,
    LAYERS,
    OWN,
    document_file,
    id_of,
    layers_folder,
    name_of,
    sidecars_folder,
)
from triptych_backends.filesystem.reconcile import find_datasets
from triptych_backends.filesystem.stat_cache import FileRecord, TrackedFile
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sql.deferred import bindparam, select, tables as t, update


def list_problems(workspace: Workspace) -> tuple[RejectedFile, ...]:
    """Every problem, by path. Reads every file."""
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
            home = find_home(workspace.disk, folder)
            tell(home if not isinstance(home, DatasetManifest) else None)
            for problem in (*_documents(workspace, dataset, folder), *_layers(workspace, folder)):
                tell(problem)
    return tuple(found[path] for path in sorted(found))


def _documents(workspace: Workspace, dataset: str, folder: str) -> list[RejectedFile]:
    problems: list[RejectedFile | None] = []
    with workspace.database.reading() as session:
        known = {
            known.record.name: known.record.path
            for known in stat_cache.find_documents(session, dataset)
        }
    for place, entry in workspace.disk.walk(folder):
        path = place.removeprefix(f"{folder}/")
        if not is_utf8(place):
            problems.append(bad_name(place))
            continue
        if entry.kind != "file":
            problems.append(is_misplaced(place, entry))
            continue
        content = find_content(workspace.disk, folder, path)
        side = find_sidecar(workspace.disk, folder, path)
        name = side.sidecar.name if isinstance(side, FileSidecar) else name_of(path)
        if isinstance(content, RejectedFile):
            problems.append(content)
        elif name is None:
            problems.append(bad_name(place))
        elif known.get(name, path) != path:
            problems.append(duplicates(place, name, document_file(folder, known[name])))
        if isinstance(side, RejectedFile):
            problems.append(side)
    for place, entry in workspace.disk.walk(sidecars_folder(folder)):
        problems.append(is_misplaced(place, entry) if is_utf8(place) else bad_name(place))
    return [problem for problem in problems if problem is not None]


def _layers(workspace: Workspace, folder: str) -> list[RejectedFile]:
    problems: list[RejectedFile | None] = []
    for path, _ in workspace.disk.walk(layers_folder(folder)):
        if not is_utf8(path):
            problems.append(bad_name(path))
            continue
        layer = find_layer(workspace.disk, path)
        if isinstance(layer, FileLayer):
            with workspace.database.reading() as session:
                adopted = stat_cache.find_layers(
                    session, layer.layer.dataset_id, layer.layer.doc_name
                )
            if path not in {record.path for record in adopted}:
                problems.append(
                    RejectedFile(
                        path=path,
                        reason=f"says that it is layer {layer.layer.layer} of "
                        f"{layer.layer.doc_name!r} in {layer.layer.dataset_id!r}, which does not "
                        "exist or has its layer elsewhere",
                        remedy="put it right, or remove it",
                    )
                )
        else:
            problems.append(layer)
    return [problem for problem in problems if problem is not None]


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
            for kind, name in _differing(workspace, dataset):
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
    with workspace.database.reading() as session:
        known = stat_cache.find_documents(session, dataset)
        layers = stat_cache.find_layers(session, dataset)
    for each in known:
        record = each.record
        found = find_content(workspace.disk, folder, record.path)
        if found is None or isinstance(found, RejectedFile) or found.seen != record.seen:
            continue  # edited or removed meanwhile, which is adopted; or reported by the survey
        if found.digest != each.sidecar.sha256:
            yield "files.checksum", record.name
        elif _mirrored(workspace, dataset, record.name) != found.digest or not _told(
            workspace, folder, each
        ):
            yield "files.mirror", record.name
    for record in layers:
        layer = find_layer(workspace.disk, record.path)
        if not isinstance(layer, FileLayer) or layer.file.seen != record.seen:
            continue
        if layer.file.digest != record.digest:
            yield "files.checksum", record.path
        elif not _mirrors(workspace, dataset, record, layer.layer):
            yield "files.mirror", record.path


def _told(workspace: Workspace, folder: str, known: TrackedFile) -> bool:
    """Whether a document's mirror says what its sidecar says, as far as that was adopted."""
    side = find_sidecar(workspace.disk, folder, known.record.path)
    if not isinstance(side, FileSidecar) or side.seen != known.record.side:
        return True
    return side.sidecar.same(known.sidecar)


def _mirrors(workspace: Workspace, dataset: str, record: FileRecord, layer: DerivedLayer) -> bool:
    try:
        mirrored = workspace.mirror.layers.get(dataset, record.name, Layer(record.kind))
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
        with workspace.database.reading() as session:
            known = stat_cache.find_documents(session, dataset)
            layers = stat_cache.find_layers(session, dataset)
        change = writer.change(dataset)
        for each in known:
            side = find_sidecar(workspace.disk, folder, each.record.path)
            file = find_content(workspace.disk, folder, each.record.path)
            if not isinstance(side, FileSidecar) or not isinstance(file, FileContent):
                continue
            if not _told(workspace, folder, each) and side.sidecar.sha256 == file.digest:
                change.take(side.sidecar, file.data, file.seen, side.seen, file.looked)
                repaired += 1
        for record in layers:
            found = find_layer(workspace.disk, record.path)
            if isinstance(found, FileLayer) and not _mirrors(
                workspace, dataset, record, found.layer
            ):
                read = found.file
                change.take_layer(found.layer, record.path, read.digest, read.seen, read.looked)
                repaired += 1
        change.commit()
    return [f"read {repaired} documents and layers of dataset {dataset!r} from their files again"]


def _repair_contents(workspace: Workspace, dataset: str, folder: str) -> int:
    """Of how many documents the mirrored content was read again."""
    repaired = 0
    with workspace.database.reading() as session:
        known = stat_cache.find_documents(session, dataset)
    for each in known:
        if _mirrored(workspace, dataset, each.record.name) == each.sidecar.sha256:
            continue
        found = find_content(workspace.disk, folder, each.record.path)
        if isinstance(found, FileContent) and found.digest == each.sidecar.sha256:
            with workspace.database.writing() as tx:
                changed = tx.all(
                    _SET_CONTENT,
                    data=found.data,
                    length=len(found.data),
                    called=each.record.name,
                    in_dataset=dataset,
                )
                # The index may have been built from what was there.
                for owner, document in changed:
                    tx.log(owner, "document", document)
            repaired += 1
    return repaired
