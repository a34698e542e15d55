"""What stands in the store's folder, and where: the truth in files, beside its mirror.

The mirror is an SQL store in ``.triptych/derived``: all reads and searches are its, and it
remembers what every file looked like when it was last read.
"""

from __future__ import annotations

from collections.abc import Mapping

from triptych_backends.filesystem.contents import Parsed, RejectedFile, find_home, find_sidecar
from triptych_backends.filesystem.disk import Disk, LinkError
from triptych_backends.filesystem.formats import DatasetManifest
from triptych_backends.filesystem.journal import Journal
from triptych_backends.filesystem.layout import (
    DATASETS,
    OWN,
    document_file,
    fallback,
    fold,
    folder_fallback,
    folder_of,
    id_of,
    layer_file,
    layer_paths,
    name_of,
    path_of,
    sidecar_file,
)
from triptych_backends.filesystem.stat_cache import StatCache
from triptych_backends.sqlite import SqliteStore

Nodes = Mapping[str, tuple[str, bool]]
"""By folded path: how it is spelt, and whether it is a folder."""


class Workspace:
    """Holds ``disk`` and ``mirror`` together, and of each document ``history`` old versions.

    Its methods look things up and change nothing.
    """

    def __init__(self, disk: Disk, mirror: SqliteStore, *, history: int) -> None:
        self.disk = disk
        self.mirror = mirror
        self.database = mirror.database
        self.cache = StatCache(mirror.database)
        self.journal = Journal(disk)
        self.where = disk.root
        self.history = history

    # Datasets

    def folder(self, dataset: str) -> str | None:
        """The dataset's folder, None if it has none yet."""
        known = self.cache.folder(dataset)
        if known is not None:
            return known
        for folder in (folder_of(dataset), folder_fallback(dataset), dataset):
            if folder is None or not _is_component(folder):
                continue
            home = find_home(self.disk, folder)
            if isinstance(home, RejectedFile):
                raise home.error(self.where)
            if isinstance(home, DatasetManifest):
                if home.id == dataset:
                    return folder
            elif (
                home is None
                and id_of(folder) == dataset
                and self.disk.is_folder(folder)
                and self._is_spelt(folder)
            ):
                return folder
        return None

    def new_folder(self, dataset: str) -> str:
        """The folder for a dataset that has none yet."""
        folder = folder_of(dataset)
        return folder if folder and self._is_free(folder) else folder_fallback(dataset)

    # Documents

    def find_path(self, folder: str, name: str) -> str | None:
        """Where a document that is not mirrored stands, file or sidecar; None if nowhere."""
        paths = [path_of(name), name if name_of(name) == name else None, fallback(name)]
        for path in dict.fromkeys(path for path in paths if path is not None):
            if not all(map(_is_component, path.split("/"))):
                continue
            try:
                if self._stands(folder, path) and (
                    path == path_of(name) or self.name_at(folder, path) == name
                ):
                    return path
            except LinkError:
                return path
        return None

    def _stands(self, folder: str, path: str) -> bool:
        """Whether a document's file is there; or, without one, its sidecar."""
        for place in (document_file(folder, path), sidecar_file(folder, path)):
            entry = self.disk.entry(place)
            if entry is not None:
                return entry.kind != "folder" and self._is_spelt(place)
        return False

    def name_at(self, folder: str, path: str) -> str | None:
        """The name of the document at ``path``: its sidecar tells it, else the path itself."""
        side = find_sidecar(self.disk, folder, path)
        return side.value.name if isinstance(side, Parsed) else name_of(path)

    def new_path(self, folder: str, name: str, planned: Nodes) -> str:
        """Where a document that does not exist yet goes; ``planned`` is what is about to be made.

        Raises:
            LinkError: a symbolic link stands in the way.
        """
        path = path_of(name)
        if path is not None and self._is_free(document_file(folder, path), planned):
            return path
        return fallback(name)

    def _is_free(self, path: str, planned: Nodes | None = None) -> bool:
        """Whether ``path`` can be made without another being in its way, on any disk.

        Without ``planned``, which a file has, it is a dataset's folder.
        """
        parts = path.split("/")
        known = self.cache.datasets() if planned is None else ()
        datasets = {fold(folder): (folder, True) for _, folder, _, _ in known}
        for end in range(1, len(parts) + 1):
            way = "/".join(parts[:end])
            is_folder = end < len(parts) or planned is None
            entry = self.disk.entry(way)
            if entry is not None and entry.kind == "link":
                raise self.disk.refused(way)
            made = planned.get(fold(way)) if planned else None
            if made is not None and (made != (way, True) or not is_folder):
                return False
            node = self.cache.spelling(way) or datasets.get(fold(way))
            is_taken = node is not None and (node != (way, is_folder) or not is_folder)
            # A folder that is spelt otherwise may be gone.
            if node and is_taken and (not node[1] or self.disk.is_folder(node[0])):
                return False
            if entry is None:
                continue
            if entry.kind != "folder" or not is_folder:
                return False
            if node is None and not self._is_spelt(way):
                return False
        return True

    def stands_otherwise(self, path: str) -> bool:
        """Whether a disk that ignores case finds a file at ``path`` that is spelt otherwise."""
        try:
            return self.disk.entry(path) is not None and not self._is_spelt(path)
        except LinkError:
            return False

    def _is_spelt(self, path: str) -> bool:
        """Whether what stands at ``path`` is spelt so, all the way.

        A disk that ignores case finds it under another spelling as well.
        """
        while path:
            folder, _, name = path.rpartition("/")
            if folder != OWN and name not in {found for found, _ in self.disk.names(folder)}:
                return False
            path = "" if folder in (OWN, DATASETS) else folder
        return True

    # Layers

    def layer_place(self, dataset: str, folder: str, name: str, kind: str, planned: Nodes) -> str:
        """The file for a layer; ``planned`` is what is about to be made."""
        for file in self.cache.layers(dataset, name):
            if file.kind == kind:
                return file.path
        known = self.cache.document(dataset, name)
        paths = layer_paths(folder, name, kind, known.path if known else None)
        return (
            paths[0]
            if self._is_free(paths[0], planned)
            else layer_file(folder, fallback(name), kind)
        )

    def find_layer_file(self, folder: str, name: str, kind: str, path: str | None) -> str | None:
        """Where a layer that is not mirrored stands; None if nowhere."""
        for place in layer_paths(folder, name, kind, path):
            entry = self.disk.entry(place)
            if entry is not None and entry.kind != "folder":
                return place
        return None


def _is_component(text: str) -> bool:
    return text not in ("", ".", "..") and not any(c in text for c in "/\\\0")
