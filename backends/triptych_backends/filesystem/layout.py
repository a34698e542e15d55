"""Where everything is, relative to the store's root."""

from __future__ import annotations

import hashlib

from triptych_backends.filesystem.names import (
    LAYERS,
    case_folded_path,
    fallback,
    is_path,
    path_of,
)

OWN = ".triptych"
STORE = f"{OWN}/store.json"
LOCK = f"{OWN}/lock"
SETTINGS = f"{OWN}/settings.json"
JOURNAL = f"{OWN}/journal"
INTENT = f"{JOURNAL}/intent.json"
DERIVED = f"{OWN}/derived"
DATASETS = f"{OWN}/datasets"
HISTORY = f"{OWN}/history"


def dataset_file(folder: str) -> str:
    """What is known of the dataset in ``folder``."""
    return f"{DATASETS}/{folder}/dataset.json"


def document_file(folder: str, path: str) -> str:
    """A document's content; ``path`` is relative to the dataset's folder."""
    return f"{folder}/{path}"


def sidecars_folder(folder: str) -> str:
    """All sidecars of the dataset in ``folder``."""
    return f"{DATASETS}/{folder}/sidecars"


def sidecar_file(folder: str, path: str) -> str:
    """The sidecar of the document at ``path``."""
    return f"{sidecars_folder(folder)}/{case_folded_path(path, '.json')}"


def history_folder(folder: str) -> str:
    """The old versions of all documents of the dataset in ``folder``."""
    return f"{HISTORY}/{folder}"


def versions_folder(folder: str, name: str) -> str:
    """The old versions of one document, by a digest: they stay put where its file is moved."""
    return f"{history_folder(folder)}/{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def version_file(folder: str, name: str, version: int) -> str:
    """An old version of a document."""
    return f"{versions_folder(folder, name)}/{version}.json.gz"


def layers_folder(folder: str) -> str:
    """All layers of the dataset in ``folder``."""
    return f"{LAYERS}/{folder}"


def layer_file(folder: str, path: str, layer: str) -> str:
    """A layer of the document at ``path``; or of a folder, whose path is `path_of` its name."""
    return f"{layers_folder(folder)}/{case_folded_path(path, f'.{layer}.md')}"


def layer_paths(folder: str, name: str, layer: str, path: str | None = None) -> list[str]:
    """Where a layer under ``name`` may stand, first the readable place.

    ``path`` is its document's, if it is known.
    """
    bases = [path, path_of(name), fallback(name)]
    if is_path(name) and path_of(name) != name:
        bases.append(name)
    found: list[str] = []
    for base in bases:
        if base is not None:
            place = layer_file(folder, base, layer)
            if place not in found:
                found.append(place)
    return found
