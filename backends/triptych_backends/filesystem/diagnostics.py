"""All files of a store that are not taken for what they seem to be."""

from __future__ import annotations

from triptych_backends.filesystem import stat_cache
from triptych_backends.filesystem.contents import (
    FileLayer,
    FileSidecar,
    find_content,
    find_home,
    find_layer,
    find_sidecar,
    is_misplaced,
)
from triptych_backends.filesystem.disk import disk_errors
from triptych_backends.filesystem.formats import DatasetManifest
from triptych_backends.filesystem.layout import (
    DATASETS,
    document_file,
    layers_folder,
    sidecars_folder,
)
from triptych_backends.filesystem.names import LAYERS, id_of, name_of
from triptych_backends.filesystem.problems import RejectedFile
from triptych_backends.filesystem.reconcile import find_datasets, is_utf8
from triptych_backends.filesystem.workspace import Workspace


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
                    tell(_bad_name(path, "dataset"))
                elif entry.kind == "folder" and not top and name != LAYERS:
                    known = isinstance(find_home(workspace.disk, name), DatasetManifest)
                    tell(None if known or id_of(name) else _bad_name(path, "dataset"))
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
            known.look.name: known.look.path
            for known in stat_cache.find_documents(session, dataset)
        }
    for place, entry in workspace.disk.walk(folder):
        path = place.removeprefix(f"{folder}/")
        if not is_utf8(place):
            problems.append(_bad_name(place))
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
            problems.append(_bad_name(place))
        elif known.get(name, path) != path:
            problems.append(duplicates(place, name, document_file(folder, known[name])))
        if isinstance(side, RejectedFile):
            problems.append(side)
    for place, entry in workspace.disk.walk(sidecars_folder(folder)):
        problems.append(is_misplaced(place, entry) if is_utf8(place) else _bad_name(place))
    return [problem for problem in problems if problem is not None]


def _layers(workspace: Workspace, folder: str) -> list[RejectedFile]:
    problems: list[RejectedFile | None] = []
    for path, _ in workspace.disk.walk(layers_folder(folder)):
        if not is_utf8(path):
            problems.append(_bad_name(path))
            continue
        layer = find_layer(workspace.disk, path)
        if isinstance(layer, FileLayer):
            with workspace.database.reading() as session:
                adopted = stat_cache.find_layers(
                    session, layer.layer.dataset_id, layer.layer.doc_name
                )
            if path not in {look.path for look in adopted}:
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


def duplicates(place: str, name: str, other: str) -> RejectedFile:
    """Two files for one document."""
    return RejectedFile(
        path=place,
        reason=f"stands for the document {name!r}, as {other!r} does",
        remedy="rename or remove one of the two",
    )


def _bad_name(path: str, kind: str = "document") -> RejectedFile:
    return RejectedFile(
        path=path if is_utf8(path) else ascii(path),
        reason=f"has a name that no {kind} can have",
        remedy="rename it",
    )
