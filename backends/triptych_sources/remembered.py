"""The sources that a store remembers, so that each sync brings them up to date."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from triptych.contracts import SettingsStore
from triptych.errors import ConflictError, CorruptStoreError, NotFoundError, ValidationError
from triptych.records import check_identifier
from triptych.sync import SourceRoot, SyncOptions
from triptych_sources.git import GitSource, is_git
from triptych_sources.web import WebSource

_KEY = "sync.sources"
_TRIES = 100
_KEPT = ("include", "exclude", "max_bytes", "delete", "adopt", "ocr")
"""The options to remember; the program sets the others."""


def open_source(
    location: str, *, mirrors: Path | None = None, **limits: Any
) -> GitSource | WebSource:
    """Return the source at ``location``: a Git repository or a web site, by its form.

    Args:
        location: see `GitSource` and `WebSource`. An address over HTTP is a repository if it ends
            in ``.git`` or begins with ``git+``, else a web site.
        mirrors: the folder for the mirrors of repositories.
        limits: arguments of `WebSource`; of them, a repository takes none but ``max_bytes``.

    Raises:
        ValidationError: it is neither, or an argument is invalid.
    """
    if is_git(location):
        if others := sorted(limits.keys() - {"max_bytes"}):
            raise ValidationError(f"{', '.join(others)} is for web sites, not for a repository")
        source = GitSource(location)
        kept = None if mirrors is None else mirrors / SourceRoot(source=source).key
        return GitSource(location, mirror=kept)
    return WebSource(location, **limits)


@attrs.frozen(kw_only=True, slots=True)
class RememberedSource:
    """A source that a store remembers.

    Attributes:
        location: its location.
        limits: what was given of ``private``, ``delay``, ``max_pages`` and ``max_seconds``.
        dataset_id, prefix, options: as in `triptych.sync.SourceRoot`.
        synced_at: when its last sync ended, None before the first.
    """

    location: str
    limits: Mapping[str, Any] = attrs.field(factory=dict)
    dataset_id: str = attrs.field(
        default="default", validator=lambda _, a, v: check_identifier(v, a.name)
    )
    prefix: str = ""
    options: SyncOptions = attrs.field(factory=SyncOptions)
    synced_at: datetime | None = None

    def root(self, mirrors: Path | None) -> SourceRoot:
        """Return it as the root of a sync; ``mirrors`` as for `open_source`."""
        limits = {**self.limits, "max_bytes": self.options.max_bytes}
        return SourceRoot(
            source=open_source(self.location, mirrors=mirrors, **limits),
            dataset_id=self.dataset_id,
            prefix=self.prefix,
            options=self.options,
        )

    @property
    def told(self) -> str:
        """What is trusted when it is: where it reads, and within which limits."""
        return f"{self.location} {json.dumps(dict(self.limits), sort_keys=True)}"


class RememberedSources:
    """The sources that a store remembers. Thread-safe; each change is atomic over processes."""

    def __init__(self, settings: SettingsStore) -> None:
        """Nothing is read yet. ``settings`` is `Capabilities.settings` of the store."""
        self._settings = settings

    def all(self, dataset_id: str | None = None) -> list[RememberedSource]:
        """Return all sources, or those of a dataset, sorted by location and dataset.

        Raises:
            CorruptStoreError: the setting cannot be read.
        """
        found = _read(self._settings.get_setting(_KEY))
        return [each for each in found if dataset_id in (None, each.dataset_id)]

    def at(self, location: str, dataset_id: str | None = None) -> RememberedSource:
        """Return the entry of this location, which is for one dataset or for ``dataset_id``.

        Raises:
            NotFoundError: it is not remembered; the message names those that are.
            ValidationError: it is for several datasets, and ``dataset_id`` is None.
        """
        own = open_source(location).location
        found = [each for each in self.all(dataset_id) if each.location == own]
        if len(found) > 1:
            raise ValidationError(f"{location!r} goes into several datasets: name one of them")
        if not found:
            known = ", ".join(repr(each.location) for each in self.all()) or "none"
            raise NotFoundError(f"{location!r} is not remembered; the sources are: {known}")
        return found[0]

    def add(self, new: RememberedSource) -> RememberedSource:
        """Remember a source, or give one that is remembered other options; return the entry.

        Raises:
            ValidationError: it is invalid, or is remembered with another prefix, or another source
                of the dataset has its prefix.
        """
        new = attrs.evolve(new, location=new.root(None).source.location)

        def change(known: list[RememberedSource]) -> list[RememberedSource]:
            others = [each for each in known if not _is_again(each, new)]
            for old in known:
                same, mine = _is_again(old, new), old.prefix == new.prefix
                if same and not mine:
                    raise ValidationError(
                        f"{new.location!r} is remembered with the prefix {old.prefix!r}: leave the "
                        "prefix out, or remove the source first"
                    )
                if mine and not same and old.dataset_id == new.dataset_id:
                    raise ValidationError(
                        f"{old.location!r} has the prefix {new.prefix!r} already: give another one"
                    )
            return [*others, new]

        self._change(change)
        return new

    def forget(self, old: RememberedSource) -> None:
        """Forget a source, but keep its documents."""
        self._change(lambda known: [each for each in known if not _is_again(each, old)])

    def note_synced(self, root: SourceRoot, when: datetime) -> None:
        """Record when a source was synced; nothing if it is not remembered."""

        def change(known: list[RememberedSource]) -> list[RememberedSource]:
            place = root.place, root.dataset_id
            return [
                attrs.evolve(e, synced_at=when) if (e.location, e.dataset_id) == place else e
                for e in known
            ]

        self._change(change)

    def _change(self, change: Callable[[list[RememberedSource]], list[RememberedSource]]) -> None:
        for _ in range(_TRIES):
            stored = self._settings.get_setting(_KEY)
            after = sorted(change(_read(stored)), key=lambda e: (e.location, e.dataset_id))
            text = json.dumps([_fields(each) for each in after]) if after else None
            if text == stored or self._settings.set_setting(_KEY, text, expected=stored):
                return
        raise ConflictError(f"others changed the sources {_TRIES} times in a row: try again")


def _is_again(one: RememberedSource, other: RememberedSource) -> bool:
    return (one.location, one.dataset_id) == (other.location, other.dataset_id)


def _read(text: str | None) -> list[RememberedSource]:
    try:
        return [_entry(**fields) for fields in json.loads(text or "[]")]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptStoreError(
            f"the sources that this store remembers cannot be read ({error}): they were written by "
            "a newer version of Triptych, or are damaged"
        ) from error


def _entry(options: dict[str, Any], synced_at: str | None, **fields: Any) -> RememberedSource:
    at = None if synced_at is None else datetime.fromisoformat(synced_at)
    return RememberedSource(options=SyncOptions(**options), synced_at=at, **fields)


def _fields(each: RememberedSource) -> dict[str, Any]:
    return {
        **attrs.asdict(each, recurse=False),
        "limits": dict(each.limits),
        "options": {name: getattr(each.options, name) for name in _KEPT},
        "synced_at": each.synced_at and each.synced_at.astimezone(UTC).isoformat(),
    }
