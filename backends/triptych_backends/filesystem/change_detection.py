"""Seeing what was changed by hand, before an answer is given: without the lock if nothing was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_backends.filesystem import stat_cache as looks
from triptych_backends.filesystem.disk import LinkError, disk_errors
from triptych_backends.filesystem.names import LAYERS, id_of
from triptych_backends.filesystem.problems import RejectedFile
from triptych_backends.filesystem.reconcile import (
    differences,
    find_datasets,
    is_current,
    is_current_layer,
    is_utf8,
    reconcile,
)

if TYPE_CHECKING:
    from triptych_backends.filesystem.workspace import Workspace

__all__ = [
    "refresh_all",
    "refresh_dataset",
    "refresh_datasets",
    "refresh_document",
    "refresh_layers",
]


def refresh_document(keeper: Workspace, dataset: str, name: str) -> RejectedFile | None:
    """Adopt what was done to one document; why its file cannot be taken, if it cannot."""
    if keeper.sql.read_only:
        return None
    with disk_errors(keeper.where):
        known = keeper.known(dataset, name)
        folder = keeper.folder(dataset)
        if folder is None:
            return None
        if known is None:
            if keeper.find_path(folder, name) is None:
                return None
        elif is_current(keeper, folder, known):
            return None
    with keeper.locked():
        change = keeper.change(dataset)
        problem = keeper.look_by_name(change, name)
        change.commit()
        return problem


def refresh_layers(keeper: Workspace, dataset: str, name: str) -> None:
    """Adopt what was done to the layers under one name."""
    if keeper.sql.read_only:
        return
    with disk_errors(keeper.where):
        folder = keeper.folder(dataset)
        if folder is None:
            return
        with keeper.sql.reading() as session:
            known = {look.kind: look for look in looks.find_layers(session, dataset, name)}
        document = keeper.known(dataset, name)
        path = document.look.path if document else None
        changed: list[str] = []
        for kind in ("L0", "L1"):
            look = known.get(kind)
            try:
                if look is not None:
                    if not is_current_layer(keeper, look, keeper.disk.entry(look.path)):
                        changed.append(look.path)
                elif place := keeper.find_layer_file(folder, name, kind, path):
                    changed.append(place)
            except LinkError:
                continue
    if changed:
        with keeper.locked():
            change = keeper.change(dataset)
            for place in changed:
                with keeper.sql.reading() as session:
                    found = looks.find_layers(session, dataset, name)
                keeper.look_layer(
                    change, place, next((look for look in found if look.path == place), None)
                )
            change.commit()


def refresh_dataset(keeper: Workspace, dataset: str) -> None:
    """Adopt all that was done in one dataset's folders."""
    if keeper.sql.read_only:
        return
    with disk_errors(keeper.where):
        folder = keeper.folder(dataset)
        if folder is None:
            return
        found = differences(keeper, dataset, folder)
    if found or found.settled:
        with keeper.locked():
            reconcile(keeper, dataset)


def refresh_datasets(keeper: Workspace) -> None:
    """Adopt folders of datasets that came or went; what is in those that stay is not looked at."""
    if keeper.sql.read_only:
        return
    with disk_errors(keeper.where):
        with keeper.sql.reading() as session:
            known = {folder: rest for _, folder, *rest in looks.datasets(session)}
            names = {folder: dataset for dataset, folder, _, _ in looks.datasets(session)}
        stand = {
            name
            for name, entry in keeper.disk.names("")
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
        refresh_dataset(keeper, dataset)


def refresh_all(keeper: Workspace) -> None:
    """Adopt everything: at opening."""
    with disk_errors(keeper.where):
        datasets = find_datasets(keeper)
    for dataset in sorted(datasets):
        refresh_dataset(keeper, dataset)
