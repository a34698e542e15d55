"""The layout of the store's folder, and mapping names to safe, readable, reversible paths.

A name's slashes are folders. In each component the characters that some system refuses or
changes are percent-encoded as in a URL, upper case. What cannot stand there even so (too long, or
in the way of another) goes to a path made from a digest, and its sidecar tells the name.

All paths here are relative, with ``/`` between their components.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from triptych.errors import ValidationError
from triptych.records import check_document_name, check_identifier

FALLBACK = "%-"
"""The folder of documents that cannot stand at their own path. No component is encoded so."""

LAYERS = "_layers"
"""The folder, beside those of datasets, that holds the layers."""

MAX_COMPONENT = 200
"""Bytes of UTF-8. Disks allow 255: the rest is for what sidecars and layers append."""

MAX_PATH = 400
"""Bytes of UTF-8. macOS allows 1,024 in all, the way to the store included."""

_EMPTY = "%"
_DEVICES = re.compile(
    r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$|clock\$) *(?:\.|$)", re.IGNORECASE
)
# Encoded wherever it stands: the escape itself, controls, what Windows refuses, noncharacters.
_UNSAFE = re.compile(
    '[%<>:"\\\\|?*/\x00-\x1f\x7f-\x9f\ufdd0-\ufdef'
    + "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
    + "]"
)
_ESCAPES = re.compile("(?:%[0-9A-F]{2})+")
_DROPPED = re.compile(r".*~|#.*#|.*\.swp|thumbs\.db|desktop\.ini", re.IGNORECASE | re.DOTALL)
_SUFFIXED = re.compile(r"\.(?:json|l[01]\.md)%*$", re.IGNORECASE)
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,10}$")


def is_ignored(component: str) -> bool:
    """Whether a file or folder of this name is what tools leave behind, and no document."""
    return component.startswith(".") or _DROPPED.fullmatch(component) is not None


def is_path(name: str) -> bool:
    """Whether a document's name, taken as it is, is a path that stays in its folder."""
    parts = name.split("/")
    return not any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts)


def encode(component: str) -> str:
    """One component of a name as a safe component of a path."""
    if not component:
        return _EMPTY
    if unicodedata.normalize("NFC", component) == component:
        safe = _UNSAFE.sub(lambda found: _escaped(found[0]), component)
    else:
        # Disks that normalise would make another name of it.
        safe = "".join(
            character if character.isascii() and not _UNSAFE.match(character)
            else _escaped(character)
            for character in component
        )  # fmt: skip
    if safe.startswith(".") or _DEVICES.match(safe):
        safe = _escaped(safe[0]) + safe[1:]
    if safe[-1] in ". " or _DROPPED.fullmatch(safe):
        safe = safe[:-1] + _escaped(safe[-1])
    return safe


def decode(path: str) -> str | None:
    """The name that `encode` made ``path`` from, component by component; None: it did not."""
    names = []
    for component in path.split("/"):
        if component == _EMPTY:
            names.append("")
            continue
        if "%" in _ESCAPES.sub("", component):
            return None
        try:
            names.append(_ESCAPES.sub(_unescaped, component))
        except UnicodeDecodeError:
            return None
    return "/".join(names)


def _escaped(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _unescaped(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode()


def path_of(name: str) -> str | None:
    """Where the document ``name`` (or the layer of a folder) stands by itself.

    None when it is too long for that.
    """
    components = [encode(component) for component in name.split("/")]
    path = "/".join(components)
    if any(len(component.encode()) > MAX_COMPONENT for component in components):
        return None
    return path if len(path.encode()) <= MAX_PATH else None


def fallback(name: str) -> str:
    """Where the document ``name`` goes when it cannot stand at `path_of`."""
    extension = _EXTENSION.search(name)
    return f"{FALLBACK}/{_digest(name)}{extension[0] if extension else ''}"


def name_of(path: str) -> str | None:
    """The name of a document that a person put at ``path``; None if there can be none.

    It is the one that `path_of` takes there, else the path as it is.
    """
    name = decode(path)
    for candidate in (name, path):
        if candidate is None or (candidate is not path and path_of(candidate) != path):
            continue
        try:
            return check_document_name(candidate)
        except ValidationError:
            continue
    return None


def folder_of(dataset_id: str) -> str | None:
    """The folder of a dataset, None when it is too long for one."""
    folder = encode(dataset_id)
    if fold(folder) == LAYERS:
        folder = _escaped(folder[0]) + folder[1:]
    return folder if len(folder.encode()) <= MAX_COMPONENT else None


def folder_fallback(dataset_id: str) -> str:
    """The folder of a dataset that cannot have its own."""
    return f"{FALLBACK}{_digest(dataset_id)}"


def id_of(folder: str) -> str | None:
    """The dataset of a folder that a person made; None if there can be none."""
    if fold(folder) == LAYERS or is_ignored(folder):
        return None
    name = decode(folder)
    if not name or folder_of(name) != folder:
        name = folder
    try:
        return check_identifier(name, "a dataset id")
    except ValidationError:
        return None


def fold(path: str) -> str:
    """What a disk that ignores case and Unicode forms takes ``path`` for."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def case_folded_path(path: str, suffix: str) -> str:
    """The path beside ``path`` in another tree, for a file that ends in ``suffix``.

    No folder there is named like such a file, so that no two are in each other's way.
    """
    *folders, last = path.split("/")
    folders = [f"{name}%" if _SUFFIXED.search(name) else name for name in folders]
    return "/".join([*map(_short, folders), f"{_short(last)}{suffix}"])


def _short(component: str) -> str:
    return component if len(component.encode()) <= 240 else f"{FALLBACK}{_digest(component)}"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


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
