"""Where everything is, relative to the store's root."""

from __future__ import annotations

from .naming import FALLBACK, LAYERS, fallback, is_path, path_of, shadow

__all__ = [
    "DATASETS",
    "DERIVED",
    "INTENT",
    "JOURNAL",
    "LOCK",
    "OWN",
    "STORE",
    "dataset_file",
    "document_file",
    "layer_file",
    "layer_paths",
    "layers_folder",
    "sidecar_file",
    "sidecars_folder",
]

OWN = ".triptych"
STORE = f"{OWN}/store.json"
LOCK = f"{OWN}/lock"
JOURNAL = f"{OWN}/journal"
INTENT = f"{JOURNAL}/intent.json"
DERIVED = f"{OWN}/derived"
DATASETS = f"{OWN}/datasets"


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
    return f"{sidecars_folder(folder)}/{shadow(path, '.json')}"


def layers_folder(folder: str) -> str:
    """All layers of the dataset in ``folder``."""
    return f"{LAYERS}/{folder}"


def layer_file(folder: str, path: str, layer: str) -> str:
    """A layer of the document at ``path``; or of a folder, whose path is `path_of` its name."""
    return f"{layers_folder(folder)}/{shadow(path, f'.{layer}.md')}"


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


def is_fallback(path: str) -> bool:
    """Whether ``path`` is one that `naming.fallback` makes."""
    return path.startswith(f"{FALLBACK}/")
