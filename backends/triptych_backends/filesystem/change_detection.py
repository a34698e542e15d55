"""Detecting changes by hand before a read, without the lock if there are none.

A search, which reads one state, looks at no file.
"""

from __future__ import annotations

from contextlib import suppress

from triptych._internal.one_state import is_one_state
from triptych_backends.filesystem.adoption import adopt_by_name, adopt_layer
from triptych_backends.filesystem.contents import RejectedFile
from triptych_backends.filesystem.disk import LinkError, disk_errors
from triptych_backends.filesystem.reconcile import (
    differences,
    find_datasets,
    is_current,
    reconcile,
)
from triptych_backends.filesystem.stat_cache import CONTENT, LAYER_KINDS, SIDECAR, TrackedFile
from triptych_backends.filesystem.writer import Writer


def refresh_document(writer: Writer, dataset: str, name: str) -> RejectedFile | None:
    """Adopt what was done to one document; why its file cannot be taken, if it cannot."""
    workspace = writer.workspace
    if workspace.database.read_only or is_one_state():
        return None
    with disk_errors(workspace.where):
        folder = workspace.folder(dataset)
        if folder is None:
            return None
        files = workspace.cache.files(dataset, name)
        own = [file for file in files if file.kind in (CONTENT, SIDECAR)]
        if not own and workspace.find_path(folder, name) is None:
            return None
        if own and all(is_current(workspace, file) for file in own):
            return None
    with writer.locked():
        change = writer.change(dataset)
        problem = adopt_by_name(change, name)
        change.commit()
        return problem


def refresh_layers(writer: Writer, dataset: str, name: str) -> None:
    """Adopt what was done to the layers under one name."""
    workspace = writer.workspace
    if workspace.database.read_only or is_one_state():
        return
    with disk_errors(workspace.where):
        folder = workspace.folder(dataset)
        if folder is None:
            return
        known = {file.kind: file for file in workspace.cache.layers(dataset, name)}
        document = workspace.cache.document(dataset, name)
        changed: list[tuple[str, TrackedFile | None]] = []
        for kind in LAYER_KINDS:
            file = known.get(kind)
            with suppress(LinkError):
                if file is not None:
                    if not is_current(workspace, file):
                        changed.append((file.path, file))
                elif place := workspace.find_layer_file(
                    folder, name, kind, document.path if document else None
                ):
                    changed.append((place, None))
    if changed:
        with writer.locked():
            change = writer.change(dataset)
            for place, file in changed:
                adopt_layer(change, place, file)
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
    if not found.is_empty:
        with writer.locked():
            reconcile(workspace, dataset)


def refresh_datasets(writer: Writer) -> None:
    """Adopt folders of datasets that came or went; what is in those that stay is not looked at."""
    workspace = writer.workspace
    if workspace.database.read_only:
        return
    with disk_errors(workspace.where):
        rows = workspace.cache.datasets()
        has_documents = {folder: full for _, folder, live, full in rows if live}
        standing = {name for name, stat in workspace.disk.names("") if stat.kind == "folder"}
        datasets = find_datasets(workspace)
    for dataset, folder in datasets.items():
        came = folder in standing and folder not in has_documents
        went = folder not in standing and has_documents.get(folder, False)
        if came or went:
            refresh_dataset(writer, dataset)


def refresh_all(writer: Writer) -> None:
    """Adopt everything: at opening."""
    workspace = writer.workspace
    with disk_errors(workspace.where):
        datasets = find_datasets(workspace)
    for dataset in sorted(datasets):
        refresh_dataset(writer, dataset)
