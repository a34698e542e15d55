"""What is synced: a folder, the dataset it goes into, and which of its files are taken."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from triptych._internal.digests import digest
from triptych.errors import ValidationError
from triptych.records import check_identifier, check_text, check_whole


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
    """Which files are taken, and how they are worked on.

    Attributes:
        include: patterns as in a ``.gitignore``; when given, files that match, or lie in a folder
            that does, are taken, and no others. Of a file and the folders it lies in, the nearest
            that a pattern matches decides; among patterns, the last. Without any, the parser says
            by a file's name whether it takes it.
        exclude: patterns of files and folders that are left out.
        exclude_paths: files and folders, by their place, that are left out: those of the store
            itself, where it lies below a root.
        max_bytes: larger files are left out.
        all_folders: whether folders of installed or generated files (`generated_kind`) are
            taken. Without it they are left out and named in the report, unless a negated pattern
            of an ignore file, such as ``!dist/``, keeps them.
        delete: whether the document of a file that is gone, or no longer taken, is deleted.
        delete_most: whether more than half of a root's documents may go in one pass without
            being confirmed. For folders whose files come and go as a matter of course.
        adopt: whether a document that was not brought in by these roots is replaced by a file
            of its name. Without it the file fails, unless both hold the same text.
        workers: how many files are read and parsed at a time.
    """

    include: tuple[str, ...] = attrs.field(default=(), converter=_patterns)
    exclude: tuple[str, ...] = attrs.field(default=(), converter=_patterns)
    exclude_paths: tuple[Path, ...] = attrs.field(default=(), converter=_folders)
    max_bytes: int = 16 * 1024 * 1024
    all_folders: bool = False
    delete: bool = True
    delete_most: bool = False
    adopt: bool = False
    workers: int = 8

    def __attrs_post_init__(self) -> None:
        check_whole(self.max_bytes, "max_bytes", least=1)
        if not isinstance(self.all_folders, bool):
            raise ValidationError(f"all_folders is True or False, not {self.all_folders!r:.60}")
        check_whole(self.workers, "workers", least=1, most=64)


@attrs.frozen(kw_only=True, slots=True)
class SyncRoot:
    """A folder whose files become documents of a dataset.

    Attributes:
        path: the folder; kept absolute. It need not exist yet.
        dataset_id: where its documents go.
        prefix: put before each document's name, as it is: the path below the folder.
        key: what distinguishes its documents: their `SystemData.sync_root`. By default
            the folder's name with a digest of its path; give one to keep the documents of a
            folder that may move as a whole.
        former_keys: other keys whose documents are this folder's too; a sync gives them ``key``.
        options: which of its files are taken, and how; None takes the sync's. Two roots that
            differ in this alone are equal.

    Raises:
        ValidationError: a field is invalid.
    """

    path: Path = attrs.field(converter=_folder)
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
            # Some names of folders are no text; the digest alone then stands for them.
            name = self.path.name.encode("utf-8", "replace").decode()
            path = os.fsencode(self.path).hex()
            object.__setattr__(self, "key", f"{name}-{digest('root', path)[:12]}")
        for key in self.keys:
            check_identifier(key, "a root's key")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its documents: ``key`` and the former ones."""
        return (self.key, *self.former_keys)

    def name_of(self, relative: str) -> str:
        """The document name of the file at this path below the folder."""
        return self.prefix + relative

    def relative_of(self, name: str) -> str | None:
        """The path below the folder that a document of this name stands for, None for none."""
        relative = name.removeprefix(self.prefix) if name.startswith(self.prefix) else ""
        parts = relative.split("/")
        return None if any(part in ("", ".", "..") for part in parts) else relative


def prefix_hint(root: SyncRoot) -> str:
    """What to type for a prefix to the names of a folder."""
    path = shlex.quote(str(root.path))
    return (
        f"`triptych add {path} --prefix {shlex.quote(root.path.name)}/` (if it is remembered, "
        f"after `triptych remove {path} --keep`)"
    )


def check_roots(roots: Sequence[SyncRoot]) -> tuple[SyncRoot, ...]:
    """``roots`` themselves, at least one, and none of a dataset under the key of another.

    Raises:
        ValidationError: there are none, or two cannot be distinguished.
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
