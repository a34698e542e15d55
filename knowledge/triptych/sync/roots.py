"""The roots of syncs: folders with their dataset and options."""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from triptych._internal.digests import digest
from triptych.errors import ValidationError
from triptych.records import check_identifier, check_text, check_whole
from triptych.sync.source import Source


def _folder(path: Any) -> Path:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValidationError(f"a folder to sync is named by a path, not {path!r:.80}")
    return Path(os.path.abspath(Path(text).expanduser()))


def _folders(paths: Any) -> tuple[Path, ...]:
    return tuple(_folder(path) for path in paths)


def _patterns(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValidationError(f"include and exclude are lists of patterns, not {value!r:.80}")
    return tuple(check_text(pattern, "a pattern") for pattern in value)


def _keys(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValidationError(f"a root's former keys are a list of keys, not {value!r:.80}")
    return tuple(value)


@attrs.frozen(kw_only=True, slots=True)
class SyncOptions:
    """The options of a sync.

    Attributes:
        include: patterns as in a ``.gitignore``. If given, only files are included that match or
            are in a matching folder. The most specific match of a file and its folders decides; of
            several patterns the last. Without patterns the parser decides by the file's name.
        exclude: patterns of files and folders to skip.
        exclude_paths: paths of files and folders to skip, such as those of the store itself.
        max_bytes: skip larger files.
        all_folders: whether to include folders of installed or generated files (`generated_kind`).
            Otherwise they are skipped and named in the report, unless a negated pattern of an
            ignore file, such as ``!dist/``, includes them.
        ocr: whether pictures and scanned pages are read by character recognition; None is as the
            settings say. A parser that is given decides itself.
        delete: whether to delete the documents of files that are gone or no longer included.
        delete_most: whether one pass may delete more than half of a root's documents without
            confirmation, for folders with frequently changing files.
        adopt: whether a file may replace a document of its name that is not from these roots.
            Otherwise the file fails, unless both have the same text.
        workers: the number of files to read and parse concurrently.
    """

    include: tuple[str, ...] = attrs.field(default=(), converter=_patterns)
    exclude: tuple[str, ...] = attrs.field(default=(), converter=_patterns)
    exclude_paths: tuple[Path, ...] = attrs.field(default=(), converter=_folders)
    max_bytes: int = 16 * 1024 * 1024
    all_folders: bool = False
    ocr: bool | None = None
    delete: bool = True
    delete_most: bool = False
    adopt: bool = False
    workers: int = 8

    def __attrs_post_init__(self) -> None:
        check_whole(self.max_bytes, "max_bytes", least=1)
        if not isinstance(self.all_folders, bool):
            raise ValidationError(f"all_folders is True or False, not {self.all_folders!r:.60}")
        if self.ocr not in (None, True, False):
            raise ValidationError(f"ocr is True, False or None, not {self.ocr!r:.60}")
        check_whole(self.workers, "workers", least=1, most=64)


@attrs.frozen(kw_only=True, slots=True)
class Root(ABC):
    """What becomes documents of a dataset: a folder (`SyncRoot`) or a `SourceRoot`.

    Attributes:
        dataset_id: the dataset of its documents.
        prefix: a prefix of the documents' names, before the path below the root.
        key: identifies its documents: their `SystemData.sync_root`.
        former_keys: earlier keys of its documents; a sync changes them to ``key``.
        options: its options; None uses the sync's. Comparisons ignore them.

    Raises:
        ValidationError: a field is invalid.
    """

    dataset_id: str = "default"
    prefix: str = ""
    key: str = ""
    former_keys: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    options: SyncOptions | None = attrs.field(default=None, eq=False)

    def __attrs_post_init__(self) -> None:
        check_identifier(self.dataset_id, "dataset_id")
        check_text(self.prefix, "a prefix")
        if self.prefix:
            check_identifier(self.prefix, "a prefix")
        if not self.key:
            object.__setattr__(self, "key", self._default_key())
        for key in self.keys:
            check_identifier(key, "a root's key")

    @abstractmethod
    def _default_key(self) -> str: ...

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is, as messages name it: a path, or the location of a source."""

    @abstractmethod
    def file_at(self, relative: str) -> str:
        """Return how messages name the file at this path below the root."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether it is there."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its documents: ``key`` and the former ones."""
        return (self.key, *self.former_keys)

    def name_of(self, relative: str) -> str:
        """Return the document name of the file at this path below the root."""
        return self.prefix + relative

    def relative_of(self, name: str) -> str | None:
        """Return the path below the root for a document of this name, None if it has another
        prefix."""
        relative = name.removeprefix(self.prefix) if name.startswith(self.prefix) else ""
        parts = relative.split("/")
        return None if any(part in ("", ".", "..") for part in parts) else relative


@attrs.frozen(kw_only=True, slots=True)
class SyncRoot(Root):
    """A folder whose files become documents of a dataset.

    Attributes:
        path: the folder, converted to an absolute path. It need not exist.
        key: as in `Root`. The default is the folder's name with a digest of its path; set a key if
            the folder may move.

    Raises:
        ValidationError: a field is invalid.
    """

    path: Path = attrs.field(converter=_folder)

    def _default_key(self) -> str:
        # Some names of folders are no text; the digest alone then stands for them.
        name = self.path.name.encode("utf-8", "replace").decode()
        return f"{name}-{digest('root', os.fsencode(self.path).hex())[:12]}"

    @property
    def place(self) -> str:
        """The path of the folder."""
        return str(self.path)

    def file_at(self, relative: str) -> str:
        """Return the path of a file below the folder."""
        return str(self.path / relative)

    def exists(self) -> bool:
        """Return whether the folder is there."""
        return os.path.isdir(self.path)


@attrs.frozen(kw_only=True, slots=True)
class SourceRoot(Root):
    """A source, such as a Git repository or a web site, that becomes documents of a dataset.

    Attributes:
        source: where the documents come from. Comparisons ignore it.
        key: as in `Root`. The default is a digest of the source's location.

    Raises:
        ValidationError: a field is invalid.
    """

    source: Source = attrs.field(eq=False)

    def _default_key(self) -> str:
        return f"source-{digest('source', self.source.location)[:16]}"

    @property
    def place(self) -> str:
        """The location of the source."""
        return self.source.location

    def file_at(self, relative: str) -> str:
        """Return the name of an entry, with the location."""
        return f"{relative} of {self.place}"

    def exists(self) -> bool:
        """Return True: a source that is away fails when it is listed."""
        return True


def prefix_hint(root: Root) -> str:
    """Return the option to type for a prefix to the names of a root."""
    path = shlex.quote(root.place)
    name = root.path.name if isinstance(root, SyncRoot) else "source"
    return (
        f"`triptych add {path} --prefix {shlex.quote(name)}/` (if it is remembered, "
        f"after `triptych remove {path} --keep`)"
    )


def check_roots(roots: Sequence[SyncRoot]) -> tuple[SyncRoot, ...]:
    """Check that there is a root and that the keys within a dataset are unique; return ``roots``.

    Raises:
        ValidationError: there are none, or two have the same key.
    """
    if not roots:
        raise ValidationError("there is no folder to sync: give at least one SyncRoot")
    seen: dict[tuple[str, str], SyncRoot] = {}
    for root in roots:
        if not isinstance(root, SyncRoot):
            raise ValidationError(f"roots are SyncRoot records, not {type(root).__name__}")
        for key in root.keys:
            other = seen.setdefault((root.dataset_id, key), root)
            if other is not root:
                raise ValidationError(
                    f"{str(other.path)!r} and {str(root.path)!r} go into the dataset "
                    f"{root.dataset_id!r} under one key, {key!r}: give one of them another key"
                )
    return tuple(roots)
