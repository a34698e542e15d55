"""Finding and adopting changes of files since they were last seen."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

import attrs

from triptych.scan import FileStat, compare
from triptych_backends.filesystem.adoption import adopt_document, adopt_layer
from triptych_backends.filesystem.change_set import ChangeSet
from triptych_backends.filesystem.contents import (
    RejectedFile,
    bad_name,
    duplicates,
    find_home,
    find_sidecar,
    is_misplaced,
    is_utf8,
)
from triptych_backends.filesystem.disk import LinkError
from triptych_backends.filesystem.formats import (
    DatasetManifest,
    FormatError,
    Sidecar,
    parse,
    state_of,
)
from triptych_backends.filesystem.layout import (
    DATASETS,
    LAYERS,
    document_file,
    id_of,
    layers_folder,
    sidecar_file,
    sidecars_folder,
)
from triptych_backends.filesystem.stat_cache import CONTENT, REJECT, TrackedFile
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.sql.transaction import find_dataset


@attrs.define
class Diff:
    """What a person changed in the folders of a dataset.

    Attributes:
        removed, changed: documents by name.
        new: paths below the dataset's folder that may be documents.
        layers: files of layers by path; None where none was known.
        rejected: paths of files that are no documents, as before.
        gone: paths of such files that are not there any more.
        confirmed: files that were read again, and have the bytes that they had.
        home: whether what is known of the dataset itself changed.
        misnamed: what is there under names that are no text, or is no file of the store's.
    """

    removed: list[str] = attrs.field(factory=list)
    changed: list[str] = attrs.field(factory=list)
    new: list[str] = attrs.field(factory=list)
    layers: dict[str, TrackedFile | None] = attrs.field(factory=dict)
    rejected: list[str] = attrs.field(factory=list, eq=False)
    gone: list[str] = attrs.field(factory=list)
    confirmed: list[TrackedFile] = attrs.field(factory=list)
    home: bool = False
    misnamed: list[RejectedFile | None] = attrs.field(factory=list, eq=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to take over, and nothing to remember."""
        return self == Diff()


def is_current(workspace: Workspace, file: TrackedFile) -> bool:
    """Whether a file has the bytes that it had when it was last read."""
    try:
        stat = workspace.disk.entry(file.path)
    except LinkError:
        return False
    return stat is not None and (stat == file.stat or _confirm(workspace, file, stat) is not None)


def _confirm(workspace: Workspace, file: TrackedFile, stat: FileStat) -> TrackedFile | None:
    """The record of a file that no stat proved to have its bytes, and that has them; else None."""
    if file.stat is not None or stat.kind != "file":
        return None
    try:
        data, proof = workspace.disk.read(file.path)
    except (OSError, LinkError):
        return None
    same = hashlib.sha256(data).hexdigest() == file.sha256
    return attrs.evolve(file, stat=proof) if same else None


def differences(workspace: Workspace, dataset: str, folder: str) -> Diff:
    """What a person changed in the dataset's folders since they were last looked through."""
    tops = (folder, sidecars_folder(folder), layers_folder(folder))
    tracked = workspace.cache.files(dataset)
    files = {file.path: file for file in tracked if file.kind != REJECT}
    rejects = {file.path: file.stat for file in tracked if file.kind == REJECT}
    stats = {path: stat for top in tops for path, stat in workspace.disk.walk(top)}
    compared = compare({path: file.stat for path, file in files.items()}, stats)
    diff = Diff(
        rejected=[path for path, stat in rejects.items() if path in stats and stats[path] == stat],
        gone=[path for path in rejects if path not in stats],
        home=_home_changed(workspace, dataset, folder),
    )
    rejected = set(diff.rejected)
    removed = {files[path].name for path in compared.removed if files[path].kind == CONTENT}
    changed: dict[str, None] = {}
    for path in (*compared.changed, *compared.removed):
        file = files[path]
        if path in stats:
            if path in rejected:
                continue
            same = _confirm(workspace, file, stats[path])
            if same is not None:
                diff.confirmed += [same] if same.stat else []
                continue
        if file.is_layer:
            diff.layers[path] = file
        elif file.name not in removed:
            changed[file.name] = None
    diff.removed, diff.changed = sorted(removed), list(changed)
    for path in compared.new:
        if path not in rejected:
            _add_new(workspace, folder, path, stats, diff)
    return diff


def _add_new(
    workspace: Workspace, folder: str, path: str, stats: Mapping[str, FileStat], diff: Diff
) -> None:
    if not is_utf8(path):
        diff.misnamed.append(bad_name(path))
    elif path.startswith(f"{folder}/"):
        diff.new.append(path.removeprefix(f"{folder}/"))
    elif path.startswith(f"{layers_folder(folder)}/"):
        diff.layers[path] = None
    else:
        diff.misnamed.append(is_misplaced(path, stats[path]))
        # A sidecar without a file: the document was removed while nothing remembered it.
        alone = _path_in(workspace, path)
        if (
            alone is not None
            and sidecar_file(folder, alone) == path
            and document_file(folder, alone) not in stats
        ):
            diff.new.append(alone)


def _home_changed(workspace: Workspace, dataset: str, folder: str) -> bool:
    home = find_home(workspace.disk, folder)
    with workspace.database.reading() as session:
        mirrored = find_dataset(session, dataset)
    written = home if isinstance(home, DatasetManifest) else None
    if mirrored is None:
        return written not in (None, DatasetManifest(id=dataset, folder=folder))
    return state_of(written) != state_of(mirrored)


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


def reconcile(workspace: Workspace, dataset: str) -> None:
    """Take over all that a person changed in the dataset. For who holds the lock."""
    change = ChangeSet.of(workspace, dataset)
    folder = change.home.folder
    diff = differences(workspace, dataset, folder)
    if diff.is_empty:
        return
    documents = workspace.cache.documents(dataset)
    adopt_documents(change, diff, documents)
    is_gone = workspace.disk.entry(folder) is None and (diff.removed or diff.new)
    if is_gone or _ended_elsewhere(change, diff, documents):
        _end(workspace, change)
        return
    change.commit()
    change = ChangeSet.of(workspace, dataset)
    for path, file in diff.layers.items():
        adopt_layer(change, path, file)
    change.confirm(diff.confirmed)
    change.commit()


def survey(workspace: Workspace, dataset: str, folder: str) -> list[RejectedFile]:
    """The files of the dataset that `reconcile` would not take over; it takes over none."""
    home = find_home(workspace.disk, folder)
    if isinstance(home, RejectedFile):
        return [home]
    change = ChangeSet.of(workspace, dataset)
    diff = differences(workspace, dataset, folder)
    diff.new += [path.removeprefix(f"{folder}/") for path in diff.rejected]
    documents = workspace.cache.documents(dataset)
    # Others may write meanwhile.
    diff.removed = [name for name in diff.removed if name in documents]
    diff.changed = [name for name in diff.changed if name in documents]
    sides = [find_sidecar(workspace.disk, folder, documents[name].path) for name in diff.changed]
    problems = [*diff.misnamed, *adopt_documents(change, diff, documents)]
    problems += [side for side in sides if isinstance(side, RejectedFile)]
    problems += [adopt_layer(change, path, file) for path, file in diff.layers.items()]
    return [problem for problem in problems if problem is not None]


def adopt_documents(
    change: ChangeSet, diff: Diff, documents: Mapping[str, Sidecar]
) -> list[RejectedFile | None]:
    """Let ``change`` take over what happened to documents; why some files cannot be taken."""
    problems: list[RejectedFile | None] = []
    for name in diff.removed:
        known = documents[name]
        if change.workspace.stands_otherwise(document_file(change.home.folder, known.path)):
            change.remove(known, None)
        else:
            problems.append(adopt_document(change, name, known.path, known))
    problems += [
        adopt_document(change, name, documents[name].path, documents[name]) for name in diff.changed
    ]
    removed = set(diff.removed)
    problems += [_adopt_new(change, path, documents, removed) for path in diff.new]
    for path in diff.gone:
        change.forget_rejected(path)
    return problems


def _ended_elsewhere(change: ChangeSet, diff: Diff, documents: Mapping[str, Sidecar]) -> bool:
    """Whether a checkout brought a dataset's end: its file says so, and no document is left."""
    home = find_home(change.workspace.disk, change.home.folder)
    if not isinstance(home, DatasetManifest) or home.live or not change.home.live or diff.new:
        return False
    return len(documents) == len(diff.removed)


def _adopt_new(
    change: ChangeSet, path: str, documents: Mapping[str, Sidecar], removed: Collection[str]
) -> RejectedFile | None:
    workspace, place = change.workspace, document_file(change.home.folder, path)
    name = workspace.name_at(change.home.folder, path)
    problem = bad_name(place)
    if name is not None:
        known = documents.get(name)
        other = change.pending(name) or (known if name not in removed else None)
        if other is None or other.path == path:
            own = known if known and known.path == path else None
            return adopt_document(change, name, path, own)
        problem = duplicates(place, name, document_file(change.home.folder, other.path))
    stat = workspace.disk.entry(place)
    if stat is not None:
        change.reject(place, stat)
    return problem


def _end(workspace: Workspace, change: ChangeSet) -> None:
    cache, dataset = workspace.cache, change.home.id
    change.end(cache.documents(dataset).values(), cache.layers(dataset))
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
    found = {dataset: folder for dataset, folder, _, _ in workspace.cache.datasets()}
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
