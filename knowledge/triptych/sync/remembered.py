"""The folders that a store remembers, with their sync options.

They are one setting of the store (`SettingsStore`), changed by compare-and-set, so that concurrent
changes never lead to overlapping folders. A folder next to the store, or below that place, is
remembered by its relative path, so that both can be moved together; any other by its absolute path.
The key of the folder's documents is remembered too, and is kept when the folder moves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import attrs

from triptych.contracts import SettingsStore
from triptych.errors import (
    ConflictError,
    CorruptStoreError,
    NotAvailableError,
    NotFoundError,
    ValidationError,
)
from triptych.sync.roots import SyncOptions, SyncRoot

_KEY = "sync.roots"
_TRIES = 100
_KEPT = ("include", "exclude", "max_bytes", "all_folders", "delete", "adopt", "ocr")
"""The options to remember; the program sets the others."""


@attrs.frozen(kw_only=True, slots=True)
class RememberedRoot:
    """A folder that a store remembers.

    Attributes:
        root: the folder at its current path, with its sync options.
        relative: whether it is remembered by its path relative to the store.
        synced_at: when its last sync ended, None before the first.
        outside: whether it lies outside the store's own folder, wherever links lead.
        trusted: whether a sync may read it that does not name it: it is not outside, or somebody
            added it on this machine. A store that came from elsewhere may remember any folder.
    """

    root: SyncRoot
    relative: bool
    synced_at: datetime | None = None
    outside: bool = attrs.field(default=False, eq=False)
    trusted: bool = attrs.field(default=True, eq=False)

    @property
    def options(self) -> SyncOptions:
        """The sync options."""
        return self.root.options or SyncOptions()


class RememberedRoots:
    """The folders that a store remembers. Thread-safe; each change is atomic over processes."""

    def __init__(
        self,
        settings: SettingsStore | None,
        base: Path | None = None,
        *,
        own: Path | None = None,
        trusted: Callable[[Path], bool] = lambda path: True,
        trust: Callable[[Path], None] = lambda path: None,
    ) -> None:
        """Nothing is read yet.

        Args:
            settings: `Capabilities.settings` of the store.
            base: the folder of the store; None for a store without one: folders are then remembered
                by their absolute paths.
            own: the folder in which folders need nobody's trust; None for ``base``.
            trusted: whether somebody added this folder, which is not in ``own``, on this machine.
            trust: keep in mind that somebody just added it.

        Raises:
            NotAvailableError: the store keeps no settings.
        """
        if settings is None:
            raise NotAvailableError(
                "this store keeps no settings, so it cannot remember folders: name the folders in "
                "each sync"
            )
        self._settings = settings
        self._base = None if base is None else _plain(base)
        self._own = self._base if own is None else own
        self._trusted, self._trust = trusted, trust

    def all(self) -> Sequence[RememberedRoot]:
        """Return all folders, sorted by path and dataset.

        Raises:
            CorruptStoreError: the setting cannot be read.
        """
        return self._read(self._settings.get_setting(_KEY))

    def to_sync(self, dataset_id: str | None = None) -> list[SyncRoot]:
        """Return the folders that a sync reads which is asked for none by name.

        Raises:
            NotFoundError: there are none.
            ValidationError: one of them is not trusted.
        """
        found = [e for e in self.all() if dataset_id in (None, e.root.dataset_id)]
        if not found:
            where = "" if dataset_id is None else f" for the dataset {dataset_id!r}"
            raise NotFoundError(
                f"this store remembers no folders{where}: name one, or add one with `triptych add "
                "FOLDER`"
            )
        foreign = [str(each.root.path) for each in found if not each.trusted]
        if foreign:
            raise ValidationError(
                f"this store remembers folders that nobody added on this machine: "
                f"{', '.join(map(repr, foreign))}: if it may read them, run `triptych trust`; "
                "else name the folders to sync"
            )
        return [each.root for each in found]

    def at(self, path: str | os.PathLike[str], dataset_id: str | None = None) -> RememberedRoot:
        """Return the entry of this folder; ``dataset_id`` may be None if it is for one dataset
        only.

        Raises:
            NotFoundError: the folder is not remembered; the message names those that are.
            ValidationError: it is for several datasets, and ``dataset_id`` is None.
        """
        found = self.all_at(path, dataset_id)
        datasets = dict.fromkeys(each.root.dataset_id for each in found)
        if len(datasets) > 1:
            raise ValidationError(
                f"{str(found[0].root.path)!r} goes into several datasets, "
                f"{', '.join(map(repr, datasets))}: name one of them"
            )
        return found[0]

    def all_at(
        self, path: str | os.PathLike[str], dataset_id: str | None = None
    ) -> Sequence[RememberedRoot]:
        """Return every entry of this folder, for ``dataset_id`` or (None) all datasets.

        Older versions could remember a folder twice for a dataset, under two keys.

        Raises:
            NotFoundError: the folder is not remembered; the message names those that are.
        """
        place, all_of_them = SyncRoot(path=Path(path)).path, self.all()
        found = [
            each
            for each in all_of_them
            if _is_same(each.root.path, place) and dataset_id in (None, each.root.dataset_id)
        ]
        if not found:
            known = ", ".join(repr(str(each.root.path)) for each in all_of_them) or "none"
            raise NotFoundError(f"{str(place)!r} is not remembered; the folders are: {known}")
        return found

    def resolve(self, roots: Sequence[SyncRoot]) -> tuple[SyncRoot, ...]:
        """Return ``roots`` for a sync; remembered folders get their remembered key.

        Raises:
            ValidationError: one is remembered with other options, or overlaps a remembered one.
        """
        remembered = self.all()
        return tuple(_resolved(root, remembered) for root in roots)

    def add(self, roots: Sequence[SyncRoot]) -> tuple[RememberedRoot, ...]:
        """Remember all ``roots`` or, on an error, none; return the entries.

        A folder that is already remembered with this dataset and prefix gets the new options.

        Raises:
            ValidationError: a folder contains or is in another one of the same dataset, or is
                remembered with another prefix.
        """

        def change(remembered: list[RememberedRoot]) -> list[RememberedRoot]:
            for root in roots:
                old = next((each for each in remembered if _is_again(each.root, root)), None)
                if old is not None:
                    _check_prefix(root, old.root)
                    again = attrs.evolve(old.root, options=root.options)
                    remembered[remembered.index(old)] = attrs.evolve(old, root=again)
                    continue
                new = _with_free_key(_resolved(root, remembered), remembered)
                remembered.append(RememberedRoot(root=new, relative=self._is_near(new.path)))
            return remembered

        changed = self._change(change)
        for root in roots:
            self._trust(root.path)
        return tuple(next(e for e in changed if _is_again(e.root, root)) for root in roots)

    def move(self, old: SyncRoot, path: str | os.PathLike[str]) -> RememberedRoot:
        """Change the path of a folder to ``path``; it keeps its documents.

        If ``path`` is already remembered for the dataset, the two are merged, with the key and the
        options of ``old`` and the documents of both.

        Raises:
            NotFoundError: ``old`` is not remembered.
            ValidationError: ``path`` overlaps another folder of the dataset, or is remembered for
                it with another prefix.
        """
        new = attrs.evolve(old, path=Path(path), key=old.key)

        def change(remembered: list[RememberedRoot]) -> list[RememberedRoot]:
            found = [each for each in remembered if _is_again(each.root, old)]
            if not found:
                raise NotFoundError(f"{str(old.path)!r} is not remembered")
            # A folder that was added at its new place before it is said to have moved.
            same = [
                each
                for each in remembered
                if each is not found[0] and (_is_again(each.root, old) or _is_again(each.root, new))
            ]
            for each in same:
                _check_prefix(new, each.root)
            others = [e for e in remembered if e is not found[0] and e not in same]
            _resolved(new, others)
            keys = dict.fromkeys(key for each in (found[0], *same) for key in each.root.keys)
            keys.pop(old.key, None)
            root = attrs.evolve(new, former_keys=tuple(keys))
            moved = attrs.evolve(found[0], root=root, relative=self._is_near(root.path))
            return [*others, moved]

        changed = self._change(change)
        self._trust(new.path)
        return next(each for each in changed if _is_again(each.root, new))

    def forget(self, root: SyncRoot) -> bool:
        """Forget a folder, but keep its documents; return whether it was remembered."""
        forgotten = False

        def change(remembered: list[RememberedRoot]) -> list[RememberedRoot]:
            nonlocal forgotten
            left = [each for each in remembered if not _is_again(each.root, root)]
            forgotten = len(left) < len(remembered)
            return left

        self._change(change)
        return forgotten

    def note_synced(self, roots: Sequence[SyncRoot], when: datetime) -> None:
        """Record when these folders were synced; unknown folders are skipped."""

        def change(remembered: list[RememberedRoot]) -> list[RememberedRoot]:
            return [
                attrs.evolve(each, synced_at=when)
                if any(_is_again(each.root, root) for root in roots)
                else each
                for each in remembered
            ]

        self._change(change)

    def _change(
        self, change: Callable[[list[RememberedRoot]], list[RememberedRoot]]
    ) -> Sequence[RememberedRoot]:
        for _ in range(_TRIES):
            stored = self._settings.get_setting(_KEY)
            after = self._ordered(change(self._read(stored)))
            text = self._text(after) if after else None
            if text == stored or self._settings.set_setting(_KEY, text, expected=stored):
                return after
        raise ConflictError(
            f"others changed the remembered folders {_TRIES} times in a row: try again"
        )

    def _is_near(self, path: Path) -> bool:
        return self._base is not None and path.is_relative_to(self._base)

    def _read(self, text: str | None) -> list[RememberedRoot]:
        if text is None:
            return []
        try:
            found = json.loads(text)["roots"]
            return self._ordered([self._root(each) for each in found])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptStoreError(
                f"the folders that this store remembers cannot be read ({error}): they were "
                "written by a newer version of Triptych, or are damaged"
            ) from error

    def _root(self, fields: dict[str, Any]) -> RememberedRoot:
        path, relative = fields["path"], bool(fields["relative"])
        if relative:
            if self._base is None:
                raise ValueError(f"{path!r} is relative to a store that has no place")
            path = self._base.joinpath(*PurePosixPath(path).parts)
        options = {"ocr": None, **fields["options"]}  # older versions kept no ``ocr``
        root = SyncRoot(
            path=path,
            dataset_id=fields["dataset"],
            prefix=fields["prefix"],
            key=fields["key"],
            former_keys=fields.get("former_keys", ()),
            options=SyncOptions(**{name: options[name] for name in _KEPT}),
        )
        at = fields.get("synced_at")
        synced_at = None if at is None else datetime.fromisoformat(at)
        outside = not self._is_inside(root.path)
        return RememberedRoot(
            root=root,
            relative=relative,
            synced_at=synced_at,
            outside=outside,
            trusted=not outside or self._trusted(root.path),
        )

    def _is_inside(self, path: Path) -> bool:
        """Whether the folder lies in the store's; the user's home is no folder of a store."""
        own = None if self._own is None else Path(os.path.realpath(self._own))
        if own is None or Path(os.path.realpath(os.path.expanduser("~"))).is_relative_to(own):
            return False
        return Path(os.path.realpath(path)).is_relative_to(own)

    def _text(self, roots: Sequence[RememberedRoot]) -> str:
        rows = []
        for each in roots:
            path = str(each.root.path)
            if each.relative:
                assert self._base is not None
                path = each.root.path.relative_to(self._base).as_posix()
            rows.append(
                {
                    "path": path,
                    "relative": each.relative,
                    "dataset": each.root.dataset_id,
                    "prefix": each.root.prefix,
                    "key": each.root.key,
                    "former_keys": each.root.former_keys,
                    "options": {name: getattr(each.options, name) for name in _KEPT},
                    "synced_at": each.synced_at and each.synced_at.astimezone(UTC).isoformat(),
                }
            )
        return json.dumps({"roots": rows})

    @staticmethod
    def _ordered(roots: list[RememberedRoot]) -> list[RememberedRoot]:
        return sorted(roots, key=lambda each: (str(each.root.path), each.root.dataset_id))


def _resolved(root: SyncRoot, remembered: Sequence[RememberedRoot]) -> SyncRoot:
    """Return the remembered entry for ``root``, or ``root`` itself.

    Raises:
        ConflictError: it would give the documents of another root a second name, or rename them.
    """
    for each in remembered:
        if _is_again(each.root, root):
            _check_prefix(root, each.root)
            other = _differing(root.options or SyncOptions(), each.options)
            if other:
                raise ValidationError(
                    f"{str(root.path)!r} is remembered with {other}: sync it without options, "
                    "or add it again with the new options"
                )
            return attrs.evolve(root, key=each.root.key, former_keys=each.root.former_keys)
        if each.root.dataset_id == root.dataset_id and _overlap(each.root.path, root.path):
            raise ValidationError(
                f"{str(root.path)!r} overlaps {str(each.root.path)!r}, which is remembered for "
                f"the dataset {root.dataset_id!r}: its files would become documents twice. Sync "
                "that folder, remove it first, or name another dataset"
            )
    return root


def _with_free_key(root: SyncRoot, remembered: Sequence[RememberedRoot]) -> SyncRoot:
    """Return ``root`` with a unique key: a moved folder may have the default key of this path."""
    here = [each.root for each in remembered if each.root.dataset_id == root.dataset_id]
    taken = {key for each in here for key in each.keys}
    keys = (root.key, *(f"{root.key}-{number}" for number in range(2, len(taken) + 3)))
    return attrs.evolve(root, key=next(key for key in keys if key not in taken))


def _check_prefix(root: SyncRoot, old: SyncRoot) -> None:
    if root.prefix != old.prefix:
        raise ValidationError(
            f"{str(root.path)!r} is remembered with the prefix {old.prefix!r}, and the prefix "
            f"{root.prefix!r} would rename all its documents: leave the prefix out, or remove the "
            "folder first and keep its documents"
        )


def _differing(given: SyncOptions, kept: SyncOptions) -> str:
    return ", ".join(
        f"{name}={getattr(kept, name)!r}"
        for name in _KEPT
        if getattr(given, name) != getattr(kept, name)
    )


def _plain(path: Path) -> Path:
    """Return the absolute ``path``, without the two leading slashes that POSIX allows."""
    text = os.path.abspath(path)
    return Path(text[1:] if text.startswith("//") and os.sep == "/" else text)


def _is_again(one: SyncRoot, other: SyncRoot) -> bool:
    return one.dataset_id == other.dataset_id and _is_same(one.path, other.path)


def _is_same(one: Path, other: Path) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)


def _overlap(one: Path, other: Path) -> bool:
    first, second = Path(os.path.realpath(one)), Path(os.path.realpath(other))
    return first.is_relative_to(second) or second.is_relative_to(first)
