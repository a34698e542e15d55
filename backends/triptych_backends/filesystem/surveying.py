"""All files of a store that are not taken for what they seem to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import looks
from .disk import disk_errors
from .formats import Home
from .layout import DATASETS, document_file, layers_folder, sidecars_folder
from .naming import LAYERS, id_of, name_of
from .problems import Problem
from .reading import (
    FoundLayer,
    FoundSidecar,
    find_content,
    find_home,
    find_layer,
    find_sidecar,
    misplaced,
)
from .scanning import find_datasets, is_utf8

if TYPE_CHECKING:
    from .keeper import Keeper

__all__ = ["survey"]


def survey(keeper: Keeper) -> tuple[Problem, ...]:
    """Every problem, by path. Reads every file."""
    found: dict[str, Problem] = {}

    def tell(problem: Problem | None) -> None:
        if problem is not None:
            found.setdefault(problem.path, problem)

    with disk_errors(keeper.where):
        for top in ("", DATASETS, LAYERS):
            for name, entry in keeper.disk.names(top):
                path = f"{top}/{name}" if top else name
                if entry.kind not in ("folder", "file"):
                    tell(misplaced(path, entry))
                elif entry.kind == "folder" and not is_utf8(name):
                    tell(_bad_name(path, "dataset"))
                elif entry.kind == "folder" and not top and name != LAYERS:
                    known = isinstance(find_home(keeper.disk, name), Home)
                    tell(None if known or id_of(name) else _bad_name(path, "dataset"))
        for dataset, folder in find_datasets(keeper).items():
            home = find_home(keeper.disk, folder)
            tell(home if not isinstance(home, Home) else None)
            for problem in (*_documents(keeper, dataset, folder), *_layers(keeper, folder)):
                tell(problem)
    return tuple(found[path] for path in sorted(found))


def _documents(keeper: Keeper, dataset: str, folder: str) -> list[Problem]:
    problems: list[Problem | None] = []
    with keeper.sql.reading() as session:
        known = {
            known.look.name: known.look.path for known in looks.find_documents(session, dataset)
        }
    for place, entry in keeper.disk.walk(folder):
        path = place.removeprefix(f"{folder}/")
        if not is_utf8(place):
            problems.append(_bad_name(place))
            continue
        if entry.kind != "file":
            problems.append(misplaced(place, entry))
            continue
        content = find_content(keeper.disk, folder, path)
        side = find_sidecar(keeper.disk, folder, path)
        name = side.sidecar.name if isinstance(side, FoundSidecar) else name_of(path)
        if isinstance(content, Problem):
            problems.append(content)
        elif name is None:
            problems.append(_bad_name(place))
        elif known.get(name, path) != path:
            problems.append(twice(place, name, document_file(folder, known[name])))
        if isinstance(side, Problem):
            problems.append(side)
    for place, entry in keeper.disk.walk(sidecars_folder(folder)):
        problems.append(misplaced(place, entry) if is_utf8(place) else _bad_name(place))
    return [problem for problem in problems if problem is not None]


def _layers(keeper: Keeper, folder: str) -> list[Problem]:
    problems: list[Problem | None] = []
    for path, _ in keeper.disk.walk(layers_folder(folder)):
        if not is_utf8(path):
            problems.append(_bad_name(path))
            continue
        layer = find_layer(keeper.disk, path)
        if isinstance(layer, FoundLayer):
            with keeper.sql.reading() as session:
                adopted = looks.find_layers(session, layer.layer.dataset_id, layer.layer.doc_name)
            if path not in {look.path for look in adopted}:
                problems.append(
                    Problem(
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


def twice(place: str, name: str, other: str) -> Problem:
    """Two files for one document."""
    return Problem(
        path=place,
        reason=f"stands for the document {name!r}, as {other!r} does",
        remedy="rename or remove one of the two",
    )


def _bad_name(path: str, kind: str = "document") -> Problem:
    return Problem(
        path=path if is_utf8(path) else ascii(path),
        reason=f"has a name that no {kind} can have",
        remedy="rename it",
    )
