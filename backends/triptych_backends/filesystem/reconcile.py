"""Finding and adopting changes of files since they were last seen."""

from __future__ import annotations

import hashlib
import time

import attrs

from triptych_backends.filesystem import stat_cache
from triptych_backends.filesystem.adoption import adopt_document, adopt_layer
from triptych_backends.filesystem.change_set import ChangeSet
from triptych_backends.filesystem.contents import (
    RejectedFile,
    bad_name,
    duplicates,
    find_home,
    is_utf8,
)
from triptych_backends.filesystem.disk import Entry, FileStat, LinkError
from triptych_backends.filesystem.formats import DatasetManifest, FormatError, parse, read_sidecar
from triptych_backends.filesystem.layout import (
    DATASETS,
    LAYERS,
    document_file,
    id_of,
    layers_folder,
    sidecar_file,
    sidecars_folder,
)
from triptych_backends.filesystem.stat_cache import RACY, FileRecord, TrackedFile
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.sql.transaction import find_dataset

_NOTHING = (False, None, 0)


@attrs.define
class Diff:
    """Paths where something changed: of documents in their folder, of layers from the root.

    ``settled`` holds what was hashed although nothing had changed: the next look need not.
    """

    removed: list[TrackedFile] = attrs.field(factory=list)
    changed: list[TrackedFile] = attrs.field(factory=list)
    new: list[str] = attrs.field(factory=list)
    layers: dict[str, FileRecord | None] = attrs.field(factory=dict)
    gone: list[str] = attrs.field(factory=list)
    settled: list[FileRecord] = attrs.field(factory=list)
    home: bool = False

    def __bool__(self) -> bool:
        return bool(
            self.removed or self.changed or self.new or self.layers or self.gone or self.home
        )


def is_current(workspace: Workspace, folder: str, known: TrackedFile) -> bool:
    """Whether a document's files are as they were last seen."""
    record = known.record
    place = document_file(folder, record.path)
    side = sidecar_file(folder, record.path)
    try:
        return _is_current(
            workspace, folder, known, workspace.disk.entry(place), workspace.disk.entry(side)
        )
    except LinkError:
        return False


def _is_current(
    workspace: Workspace, folder: str, known: TrackedFile, file: Entry | None, side: Entry | None
) -> bool:
    record = known.record
    if file is None or side is None or (file.kind, side.kind) != ("file", "file"):
        return False
    if (file.seen, side.seen) != (record.seen, record.side):
        return False
    return not (
        (
            record.is_racy(file.seen)
            and not _holds(workspace, document_file(folder, record.path), record)
        )
        or (record.is_racy(side.seen) and not _tells(workspace, folder, known))
    )


def is_current_layer(workspace: Workspace, record: FileRecord, entry: Entry | None) -> bool:
    """Whether a layer's file is as it was last seen."""
    if entry is None or entry.kind != "file" or entry.seen != record.seen:
        return False
    return not record.is_racy(entry.seen) or _holds(workspace, record.path, record)


def _holds(workspace: Workspace, path: str, record: FileRecord) -> bool:
    try:
        data, _ = workspace.disk.read(path)
    except (OSError, LinkError):
        return False
    return hashlib.sha256(data).hexdigest() == record.digest


def _tells(workspace: Workspace, folder: str, known: TrackedFile) -> bool:
    try:
        data, _ = workspace.disk.read(sidecar_file(folder, known.record.path))
        return read_sidecar(data, known.record.path).same(known.sidecar)
    except (OSError, LinkError, FormatError):
        return False


def differences(workspace: Workspace, dataset: str, folder: str) -> Diff:
    """What a person changed in the dataset's folders since they were last seen."""
    found = Diff()
    now = time.time_ns()
    with workspace.database.reading() as session:
        documents = {
            known.record.path: known for known in stat_cache.find_documents(session, dataset)
        }
        layers = {record.path: record for record in stat_cache.find_layers(session, dataset)}
        rejects = {record.path: record for record in stat_cache.find_rejects(session, dataset)}
    files = dict(workspace.disk.walk(folder))
    sides = dict(workspace.disk.walk(sidecars_folder(folder)))
    for path, known in documents.items():
        place, side = document_file(folder, path), sidecar_file(folder, path)
        file = files.pop(place, None)
        told = sides.pop(side, None)
        if file is None:
            found.removed.append(known)
        elif not _is_current(workspace, folder, known, file, told):
            if not _was_rejected(rejects, place, file):
                found.changed.append(known)
        elif told is not None and _has_settled(known.record, now, file.seen, told.seen):
            found.settled.append(attrs.evolve(known.record, looked=now))
    for place, file in files.items():
        if not _was_rejected(rejects, place, file):
            found.new.append(place.removeprefix(f"{folder}/"))
    # A sidecar without a file: the document was removed while nothing remembered it.
    for side in sides:
        alone = _path_in(workspace, side)
        if alone is None or sidecar_file(folder, alone) != side:
            continue
        if document_file(folder, alone) not in files:
            found.new.append(alone)
    _find_layers(workspace, folder, layers, rejects, found, now)
    found.gone = [path for path in rejects if not _there(workspace, path)]
    found.home = _home_changed(workspace, dataset, folder)
    return found


def _home_changed(workspace: Workspace, dataset: str, folder: str) -> bool:
    home = find_home(workspace.disk, folder)
    with workspace.database.reading() as session:
        mirrored = find_dataset(session, dataset)
    if mirrored is None:
        return isinstance(home, DatasetManifest) and home != DatasetManifest(
            id=dataset, folder=folder
        )
    told = (
        (home.live, home.config, home.deleted_version)
        if isinstance(home, DatasetManifest)
        else _NOTHING
    )
    return told != (mirrored.live, mirrored.config, mirrored.deleted_version)


def _find_layers(
    workspace: Workspace,
    folder: str,
    layers: dict[str, FileRecord],
    rejects: dict[str, FileRecord],
    found: Diff,
    now: int,
) -> None:
    stand = dict(workspace.disk.walk(layers_folder(folder)))
    for path, record in layers.items():
        entry = stand.pop(path, None)
        if entry is None or not is_current_layer(workspace, record, entry):
            if entry is None or not _was_rejected(rejects, path, entry):
                found.layers[path] = record
        elif _has_settled(record, now, entry.seen):
            found.settled.append(attrs.evolve(record, looked=now))
    for path, entry in stand.items():
        if not _was_rejected(rejects, path, entry):
            found.layers[path] = None


def _has_settled(record: FileRecord, now: int, *seen: FileStat) -> bool:
    """Whether a look now would be the first that need not be doubted."""
    return any(map(record.is_racy, seen)) and all(one.mtime < now - RACY for one in seen)


def _was_rejected(rejects: dict[str, FileRecord], path: str, entry: Entry) -> bool:
    record = rejects.get(path)
    # What is doubtful is read again: it may have become a document.
    return record is not None and record.seen == entry.seen and not record.is_racy(entry.seen)


def _there(workspace: Workspace, path: str) -> bool:
    try:
        return workspace.disk.entry(path) is not None
    except LinkError:
        return False


def _path_in(workspace: Workspace, side: str) -> str | None:
    """The path that a sidecar tells of itself."""
    try:
        path = parse(workspace.disk.read(side)[0]).get("path")
    except (OSError, LinkError, FormatError):
        return None
    if not isinstance(path, str) or not is_utf8(path):
        return None
    if any(part in ("", ".", "..") for part in path.split("/")):
        return None
    return path


def reconcile(workspace: Workspace, dataset: str) -> list[RejectedFile]:
    """Take over all that a person changed in the dataset. For who holds the lock."""
    change = ChangeSet.of(workspace, dataset)
    folder = change.home.folder
    found = differences(workspace, dataset, folder)
    if not found and not found.settled:
        return []
    is_gone = workspace.disk.entry(folder) is None
    problems: list[RejectedFile | None] = []
    for known in found.removed:
        name, path = known.record.name, known.record.path
        if workspace.stands_otherwise(document_file(folder, path)):
            change.remove(name, path, known.sidecar.version, None)
        else:
            problems.append(adopt_document(change, name, path, known))
    problems += [
        adopt_document(change, known.record.name, known.record.path, known)
        for known in found.changed
    ]
    problems += [_adopt_new(workspace, change, path, found.removed) for path in found.new]
    for path in found.gone:
        change.forget(path, stat_cache.REJECT)
    if (is_gone and (found.removed or found.new)) or _ended_elsewhere(workspace, change, found):
        _end(workspace, change)
        return []
    change.commit()
    change = ChangeSet.of(workspace, dataset)
    for path, record in found.layers.items():
        problems.append(adopt_layer(change, path, record))
    change.settle(found.settled)
    change.commit()
    return [problem for problem in problems if problem is not None]


def _ended_elsewhere(workspace: Workspace, change: ChangeSet, found: Diff) -> bool:
    """Whether a checkout brought a dataset's end: its file says so, and no document is left."""
    home = find_home(workspace.disk, change.home.folder)
    if not isinstance(home, DatasetManifest) or home.live or not change.home.live or found.new:
        return False
    with workspace.database.reading() as session:
        documents = stat_cache.find_documents(session, change.home.id)
    return len(documents) == len(found.removed)


def _adopt_new(
    workspace: Workspace, change: ChangeSet, path: str, removed: list[TrackedFile]
) -> RejectedFile | None:
    place = document_file(change.home.folder, path)
    name = workspace.name_at(change.home.folder, path) if is_utf8(path) else None
    if name is None:
        problem = bad_name(path)
        entry = workspace.disk.entry(place) if is_utf8(path) else None
        if entry is not None:
            change.reject(place, entry.seen, problem.reason)
        return problem
    known = workspace.known(change.home.id, name)
    pending = change.pending(name)
    other = pending.path if pending else known.record.path if known else path
    if other != path and (pending or known not in removed):
        problem = duplicates(place, name, other)
        entry = workspace.disk.entry(place)
        if entry is not None:
            change.reject(place, entry.seen, problem.reason)
        return problem
    return adopt_document(change, name, path, known if other == path else None)


def _end(workspace: Workspace, change: ChangeSet) -> None:
    with workspace.database.reading() as session:
        documents = stat_cache.find_documents(session, change.home.id)
        layers = stat_cache.find_layers(session, change.home.id)
    change.end(documents, layers)
    change.commit()


def delete_dataset(workspace: Workspace, dataset: str) -> bool:
    """Delete the dataset with all that stands in its folders; whether there was one."""
    reconcile(workspace, dataset)
    change = ChangeSet.of(workspace, dataset)
    with workspace.database.reading() as session:
        mirrored = find_dataset(session, dataset)
    if mirrored is None:
        return False
    _end(workspace, change)
    return mirrored.live


def find_datasets(workspace: Workspace) -> dict[str, str]:
    """Ids of every dataset that a folder or the store knows, with their folders."""
    with workspace.database.reading() as session:
        found = {dataset: folder for dataset, folder, _, _ in stat_cache.datasets(session)}
    taken = set(found.values())
    for top in ("", DATASETS, LAYERS):
        for folder, entry in workspace.disk.names(top):
            if entry.kind != "folder" or folder in taken or not is_utf8(folder):
                continue
            home = find_home(workspace.disk, folder)
            dataset = home.id if isinstance(home, DatasetManifest) else id_of(folder)
            if dataset is not None and dataset not in found:
                found[dataset] = folder
                taken.add(folder)
    return found
