"""Detecting changes by hand before a read, without the lock if there are none."""

from __future__ import annotations

from triptych_backends.filesystem import stat_cache
from triptych_backends.filesystem.adoption import adopt_by_name, adopt_layer
from triptych_backends.filesystem.contents import RejectedFile, is_utf8
from triptych_backends.filesystem.disk import LinkError, disk_errors
from triptych_backends.filesystem.layout import LAYERS, id_of
from triptych_backends.filesystem.reconcile import (
    differences,
    find_datasets,
    is_current,
    is_current_layer,
    reconcile,
)
from triptych_backends.filesystem.writer import Writer


def refresh_document(writer: Writer, dataset: str, name: str) -> RejectedFile | None:
    """Adopt what was done to one document; why its file cannot be taken, if it cannot."""
    workspace = writer.workspace
    if workspace.database.read_only:
        return None
    with disk_errors(workspace.where):
        known = workspace.known(dataset, name)
        folder = workspace.folder(dataset)
        if folder is None:
            return None
        if known is None:
            if workspace.find_path(folder, name) is None:
                return None
        elif is_current(workspace, folder, known):
            return None
    with writer.locked():
        change = writer.change(dataset)
        problem = adopt_by_name(change, name)
        change.commit()
        return problem


def refresh_layers(writer: Writer, dataset: str, name: str) -> None:
    """Adopt what was done to the layers under one name."""
    workspace = writer.workspace
    if workspace.database.read_only:
        return
    with disk_errors(workspace.where):
        folder = workspace.folder(dataset)
        if folder is None:
            return
        with workspace.database.reading() as session:
            known = {
                record.kind: record for record in stat_cache.find_layers(session, dataset, name)
            }
        document = workspace.known(dataset, name)
        path = document.record.path if document else None
        changed: list[str] = []
        for kind in ("L0", "L1"):
            record = known.get(kind)
            try:
                if record is not None:
                    if not is_current_layer(workspace, record, workspace.disk.entry(record.path)):
                        changed.append(record.path)
                elif place := workspace.find_layer_file(folder, name, kind, path):
                    changed.append(place)
            except LinkError:
                continue
    if changed:
        with writer.locked():
            change = writer.change(dataset)
            for place in changed:
                with workspace.database.reading() as session:
                    found = stat_cache.find_layers(session, dataset, name)
                adopt_layer(
                    change, place, next((record for record in found if record.path == place), None)
                )
            change.commit()


def refresh_dataset(writer: Writer, dataset: str) -> None:
    """Adopt all that was done in one dataset's folders."""
    workspace = writer.workspace
    if workspace.database.read_only:
        return
    with disk_errors(workspace.where):
        folder = workspace.folder(dataset)
        if folder is None:
            return
        found = differences(workspace, dataset, folder)
    if found or found.settled:
        with writer.locked():
            reconcile(workspace, dataset)


def refresh_datasets(writer: Writer) -> None:
    """Adopt folders of datasets that came or went; what is in those that stay is not looked at."""
    workspace = writer.workspace
    if workspace.database.read_only:
        return
    with disk_errors(workspace.where):
        with workspace.database.reading() as session:
            known = {folder: rest for _, folder, *rest in stat_cache.datasets(session)}
            names = {folder: dataset for dataset, folder, _, _ in stat_cache.datasets(session)}
        stand = {
            name
            for name, entry in workspace.disk.names("")
            if entry.kind == "folder" and name != LAYERS and is_utf8(name)
        }
        changed = []
        for folder in stand:
            live = folder in known and known[folder][0]
            dataset = None if live else names.get(folder) or id_of(folder)
            if dataset is not None:
                changed.append(dataset)
        changed += [
            names[folder] for folder, (live, full) in known.items()
            if live and full and folder not in stand
        ]  # fmt: skip
    for dataset in changed:
        refresh_dataset(writer, dataset)


def refresh_all(writer: Writer) -> None:
    """Adopt everything: at opening."""
    workspace = writer.workspace
    with disk_errors(workspace.where):
        datasets = find_datasets(workspace)
    for dataset in sorted(datasets):
        refresh_dataset(writer, dataset)
