"""The shared parts of ``sync``, ``watch`` and ``add``: options, and the `DirectorySync`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs

from triptych._internal.wording import counted
from triptych.errors import ConflictError, NotFoundError, ValidationError
from triptych_adapters.cli.command import argument, option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych._internal.progress import ProgressCallback
    from triptych.parsing.files import Skipped
    from triptych.records import Failure
    from triptych.service import KnowledgeBase
    from triptych.sync import (
        DirectorySync,
        RememberedRoot,
        RememberedRoots,
        Root,
        SourceSync,
        SyncPlan,
        SyncReport,
        SyncRoot,
    )
    from triptych_adapters.cli.output import Output
    from triptych_factory import Settings
    from triptych_sources import RememberedSource

NOT_TOLD = ("hidden", "ignored", "excluded", "the store itself", "settings of Triptych")
"""Reasons that the owner of a file gave for skipping it."""

_NAMED = 5
"""How many of the folders that are left out a remark names."""


AllFolders = Annotated[
    bool | None,
    option(
        "--all-folders/--no-all-folders",
        "Take folders of installed or generated files too: node_modules, virtual "
        "environments, build outputs.",
        show_default=False,
    ),
]


Ocr = Annotated[
    bool | None,
    option(
        "--ocr/--no-ocr",
        "Read pictures and scanned pages by character recognition. By default as the setting ocr "
        "says.",
        show_default=False,
    ),
]


@attrs.frozen(kw_only=True)
class Folders:
    """The folders and options of a command; None is what was not given."""

    paths: Annotated[
        list[str] | None,
        argument("PATH", "Folders, Git URLs or web sites; by default all that `triptych add` has."),
    ] = None
    dataset: Annotated[
        str | None,
        option(
            "--dataset -d",
            "The dataset of the documents. By default the remembered one, else 'default'.",
        ),
    ] = None
    include: Annotated[
        list[str] | None,
        option("--include PATTERN", "Take only files that match, as in a .gitignore. Repeatable."),
    ] = None
    exclude: Annotated[
        list[str] | None,
        option("--exclude PATTERN", "Skip files and folders that match. Repeatable."),
    ] = None
    all_folders: AllFolders = None
    ocr: Ocr = None
    prefix: Annotated[
        list[str] | None,
        option(
            "--prefix",
            "Prefix of the documents' names, such as docs/. Give it once for all folders, or once "
            "for each in order.",
        ),
    ] = None
    key: Annotated[
        str | None,
        option(
            "--key NAME",
            "Identifies the folder instead of its path and machine, if these change between runs, "
            "as in CI. For one folder.",
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        option("--max-bytes N", "Skip larger files. By default 16 MiB.", min=1),
    ] = None
    delete: Annotated[
        bool | None,
        option("--delete/--no-delete", "Delete documents whose file is gone. By default yes."),
    ] = None
    adopt: Annotated[
        bool | None,
        option(
            "--adopt/--no-adopt", "Replace documents of the same name that came from elsewhere."
        ),
    ] = None
    yes: Annotated[
        bool,
        option(
            "--yes -y", "Delete even if more than half of a folder's documents would be deleted."
        ),
    ] = False

    private: Annotated[
        bool | None,
        option(
            "--private/--no-private",
            "Let a web site have addresses of this machine and of private networks.",
            show_default=False,
        ),
    ] = None
    max_pages: Annotated[
        int | None, option("--max-pages N", "Of a web site. By default 10,000.", min=1)
    ] = None
    max_seconds: Annotated[
        int | None,
        option("--max-seconds N", "For one sync of a web site. By default 3,600.", min=1),
    ] = None
    delay: Annotated[
        float | None,
        option("--delay SECONDS", "Between two requests to a web site. By default 1.", min=0),
    ] = None

    @property
    def folders(self) -> list[Path]:
        """The folders among the paths."""
        return [Path(each) for each in self.paths or () if not is_location(each)]

    @property
    def locations(self) -> list[str]:
        """The locations of sources among the paths."""
        return [each for each in self.paths or () if is_location(each)]

    def check(self) -> None:
        """Refuse what is neither a folder nor a source, before a store is created.

        Raises:
            NotFoundError, ValidationError: a path is not there, or not a folder; a location is
                invalid; or the options are for what was not named.
        """
        paths, prefixes = self.paths or (), self.prefix or ()
        for each in self.locations:
            from triptych_sources import open_source

            open_source(each, **self.limits(each))
        if self.limits() and not any(self.limits(each) for each in self.locations):
            raise ValidationError(
                f"{', '.join(self.limits())}: these options are for web sites, and none is named"
            )
        for path in self.folders:
            if not path.exists():
                raise NotFoundError(f"there is no folder {str(path)!r}")
            if not path.is_dir():
                raise ValidationError(f"{str(path)!r} is not a folder: `triptych put` takes files")
        if not paths and (prefixes or self._given()):
            raise ValidationError(
                "these options need a FOLDER: `triptych add FOLDER` changes the options of a "
                "remembered folder"
            )
        if self.key is not None and (len(paths) != 1 or self.locations):
            raise ValidationError("--key is for one named folder: sync the others separately")
        if len(prefixes) > 1 and len(prefixes) != len(paths):
            raise ValidationError(
                f"there are {len(prefixes)} prefixes for {len(paths)} folders: give one for all, "
                "or one for each in order"
            )

    def chosen(self, remembered: RememberedRoots | None, *, remote: bool = False) -> list[SyncRoot]:
        """The folders to sync: those that are named, else all that are remembered.

        Raises:
            NotFoundError: none is named, and none is remembered.
            ValidationError: one is remembered with other options, overlaps one that is, or is not
                trusted.
        """
        if not self.paths:
            assert remembered is not None  # as `opened` does
            return remembered.to_sync(self.dataset)
        if not self.folders:
            return []
        known = [] if remembered is None else list(remembered.all())
        asked = self.roots(known, remote=remote)
        return asked if remembered is None else list(remembered.resolve(asked))

    def roots(
        self,
        known: Sequence[RememberedRoot],
        *,
        remote: bool = False,
        beside: KnowledgeBase | None = None,
    ) -> list[SyncRoot]:
        """The folders that are named. What is not given is as it is remembered.

        A ``remote`` store knows a folder by its machine, too. Of several without a prefix in a
        dataset of ``beside``, the second and later ones get the names of their folders.
        """
        from triptych.sync import SyncOptions, SyncRoot
        from triptych_factory.syncing import remote_key

        found: list[SyncRoot] = []
        for number, text in enumerate(self.paths or ()):
            if is_location(text):
                continue
            path = Path(text)
            old = self._remembered(path, known)
            options = SyncOptions() if old is None else old.options
            prefix = "" if old is None else old.root.prefix
            if self.prefix:
                prefix = self.prefix[number if len(self.prefix) > 1 else 0]
            dataset = self.dataset or ("default" if old is None else old.root.dataset_id)
            if beside is not None and old is None and not self.prefix:
                others = [each.root for each in known] + found
                prefix = _free_prefix(beside, SyncRoot(path=path, dataset_id=dataset), others)
            found.append(
                SyncRoot(
                    path=path,
                    dataset_id=dataset,
                    prefix=prefix,
                    key=self.key or (remote_key(path) if remote else ""),
                    options=attrs.evolve(options, **self._given()),
                )
            )
        return found

    def sources(self, known: Sequence[RememberedSource]) -> list[RememberedSource]:
        """The sources that are named. What is not given is as it is remembered; names begin with
        the repository's or the host's by default."""
        from triptych.sync import SyncOptions
        from triptych_sources import RememberedSource, open_source

        found: list[RememberedSource] = []
        for number, text in enumerate(self.paths or ()):
            if not is_location(text):
                continue
            place = open_source(text).location
            same = [
                e for e in known if e.location == place and self.dataset in (None, e.dataset_id)
            ]
            dataset = self.dataset or (same[0].dataset_id if len(same) == 1 else "default")
            old = next((e for e in same if e.dataset_id == dataset), None)
            options, limits = (SyncOptions(), {}) if old is None else (old.options, old.limits)
            prefix = f"{_name_of(place)}/" if old is None else old.prefix
            if self.prefix:
                prefix = self.prefix[number if len(self.prefix) > 1 else 0]
            found.append(
                RememberedSource(
                    location=place,
                    limits={**limits, **self.limits(place)},
                    dataset_id=dataset,
                    prefix=prefix,
                    options=attrs.evolve(options, **self._given()),
                )
            )
        return found

    def limits(self, location: str = "https://") -> dict[str, Any]:
        """The options for web sites that were given; none for a repository."""
        names = ("private", "max_pages", "max_seconds", "delay")
        found = {name: given for name in names if (given := getattr(self, name)) is not None}
        if found:
            from triptych_sources import is_git

            return {} if is_git(location) else found
        return found

    def _remembered(self, path: Path, known: Sequence[RememberedRoot]) -> RememberedRoot | None:
        found = [
            each
            for each in known
            if os.path.realpath(each.root.path) == os.path.realpath(path.expanduser())
            and self.dataset in (None, each.root.dataset_id)
        ]
        return found[0] if len(found) == 1 else None

    def _given(self) -> dict[str, Any]:
        given = {
            "include": None if self.include is None else tuple(self.include),
            "exclude": None if self.exclude is None else tuple(self.exclude),
            "all_folders": self.all_folders,
            "ocr": self.ocr,
            "max_bytes": self.max_bytes,
            "delete": self.delete,
            "adopt": self.adopt,
        }
        return {name: value for name, value in given.items() if value is not None}

    @contextmanager
    def opened(
        self,
        session: Session,
        *,
        dry: bool = False,
        add: bool = False,
        moved_from: Path | None = None,
    ) -> Iterator[Syncing]:
        """The sync over the Service in force; ``dry`` leaves no store behind where none is.

        ``add`` lets the store remember the folders first; ``moved_from`` is where the one folder
        was before.
        """
        from triptych.sync import SyncOptions
        from triptych_factory import wire
        from triptych_factory.backends import check_local, store_exists
        from triptych_factory.locations import is_server, parse_location
        from triptych_factory.syncing import directory_sync, remembered_roots

        settings = session.settings().without_llm()
        remote = is_server(settings.url)
        if add or not self.paths:
            check_local(settings, "what is known of folders")
        exists = remote or store_exists(parse_location(settings.url))
        new = dry and not exists and bool(self.paths)
        opening = attrs.evolve(settings, url="memory://", sources={}) if new else settings
        create = bool(self.paths) and not dry
        with wire(opening, create=create, dataset_id=self.dataset or "") as service:
            remembered = None
            if service.capabilities.settings is not None or add or not self.paths:
                remembered = remembered_roots(service, opening)
            if add:
                assert remembered is not None
                if moved_from is not None:
                    old = remembered.at(moved_from, self.dataset)
                    remembered.move(old.root, self.folders[0])
                added = remembered.add(self.roots(remembered.all(), beside=service))
                roots = [each.root for each in added]
                sources = self._chosen_sources(service, settings, add=True)
            else:
                sources = self._chosen_sources(service, settings, add=False)
                try:
                    roots = self.chosen(remembered, remote=remote)
                except NotFoundError:
                    if not sources:
                        raise
                    roots = []
            options = SyncOptions(delete_most=self.yes)
            directory = None
            if roots:
                directory = directory_sync(
                    service, settings, [_confirming(root, self.yes) for root in roots], options
                )
            yield Syncing(
                directory=directory,
                sources=_source_syncs(service, settings, sources, keep=not new),
                delete_most=self.yes,
                service=service,
                remembered=remembered,
                settings=settings,
            )
            if not dry:
                session.tell_embedder(service, settings)

    def _chosen_sources(
        self, service: KnowledgeBase, settings: Settings, *, add: bool
    ) -> list[RememberedSource]:
        """The sources to sync: those that are named, else all that are remembered."""
        if self.paths and not self.locations:
            return []
        from triptych_factory.sources import check_trusted, remembered_sources, trust_source

        if service.capabilities.settings is None:
            return self.sources(())
        remembered = remembered_sources(service)
        if not self.paths:
            found = remembered.all(self.dataset)
            check_trusted(settings, found)
            return found
        named = self.sources(remembered.all())
        for each in named if add else ():
            remembered.add(each)
            trust_source(settings, each)
        return named


@attrs.frozen(kw_only=True)
class AddedFolders(Folders):
    """Folders and sources to remember: they must be named."""

    paths: Annotated[list[str], argument("PATH", "Folders, Git URLs or web sites.")]


@attrs.frozen(kw_only=True)
class Syncing:
    """An opened sync of folders and sources, and where the store keeps what it remembers of
    folders."""

    directory: DirectorySync | None
    sources: Sequence[SourceSync]
    delete_most: bool
    service: KnowledgeBase
    remembered: RememberedRoots | None
    settings: Settings

    @property
    def roots(self) -> list[Root]:
        """The folders and sources."""
        folders = () if self.directory is None else self.directory.roots
        return [*folders, *(each.root for each in self.sources)]

    @property
    def datasets(self) -> list[str]:
        """Their distinct datasets."""
        return list(dict.fromkeys(root.dataset_id for root in self.roots))

    def sync(self, progress: ProgressCallback | None) -> SyncReport:
        """Sync all of them; the report of all."""
        from triptych.sync import SyncReport

        report = SyncReport()
        if self.directory is not None:
            report += self.directory.sync(progress=progress)
        for each in self.sources:
            report += each.sync(progress=progress, delete_most=self.delete_most)
        return report

    def plan(self) -> SyncPlan:
        """What `sync` would do."""
        from triptych.sync import SyncPlan

        plan = SyncPlan()
        if self.directory is not None:
            plan += self.directory.plan()
        for each in self.sources:
            plan += each.plan(delete_most=self.delete_most)
        return plan

    def moves(self, failed: Iterable[Failure]) -> list[tuple[Path, Path]]:
        """Folders that look moved, old and new: files of the new one failed, as their documents
        are of a remembered folder that is not there any more."""
        from triptych.service import service_of
        from triptych.sync import SyncRoot

        known = [] if self.remembered is None else self.remembered.all()
        lost = [each.root for each in known if not each.root.path.is_dir()]
        here = [root for root in self.roots if isinstance(root, SyncRoot) and root.exists()]
        found: dict[tuple[Path, Path], None] = {}
        for failure in failed if lost and here else ():
            if not isinstance(failure.error, ConflictError):
                continue
            documents = service_of(self.service, "moving a folder").documents
            info = documents.get_info(failure.dataset_id, failure.name)
            for old in lost:
                if info is None or info.system.sync_root not in old.keys:
                    continue
                for new in here:
                    relative = new.relative_of(failure.name)
                    mine = (new.dataset_id, new.prefix) == (info.dataset_id, old.prefix)
                    if mine and relative and (new.path / relative).exists():
                        found[old.path, new.path] = None
        return list(found)

    def twice(self) -> Iterator[tuple[SyncRoot, SyncRoot, int]]:
        """Remembered folders of which one is in the other, or the same in another dataset, where a
        folder of this sync is one: the outer, or the one that was there before; the inner, or that
        of this sync; and how many documents of the second's files the first brought in."""
        from triptych.sync import documents_of

        known = [] if self.remembered is None else [each.root for each in self.remembered.all()]
        folders = () if self.directory is None else self.directory.roots
        mine = {(root.path, root.dataset_id) for root in folders}
        for outer, inner in permutations(known, 2):
            both = [(each.path, each.dataset_id) in mine for each in (outer, inner)]
            if outer.path == inner.path and both == [False, True]:
                names = {inner.relative_of(each.name) for each in documents_of(self.service, inner)}
                infos = documents_of(self.service, outer)
                if count := sum(outer.relative_of(each.name) in names for each in infos):
                    yield outer, inner, count
            if not any(both) or outer.path not in inner.path.parents:
                continue
            below = f"{outer.prefix}{inner.path.relative_to(outer.path).as_posix()}/"
            infos = documents_of(self.service, outer)
            if count := sum(info.name.startswith(below) for info in infos):
                yield outer, inner, count

    def forget_unread(self, *, failed: bool) -> list[Root]:
        """Forget the sources of which nothing was ever read, such as misspelt ones, or nothing is
        stored where the sync ``failed``; those."""
        if not self.sources:
            return []
        from triptych.sync import documents_of
        from triptych_factory.sources import forget_source, remembered_sources

        kept = {(e.location, e.dataset_id): e for e in remembered_sources(self.service).all()}
        unread: list[Root] = []
        for root in (each.root for each in self.sources):
            known = kept.get((root.place, root.dataset_id))
            unread_yet = known is not None and (failed or known.synced_at is None)
            if known and unread_yet and not documents_of(self.service, root):
                forget_source(self.service, self.settings, known)
                unread.append(root)
        return unread

    def note_synced(self, failed: Sequence[Failure] = ()) -> None:
        """Remember when what is remembered was synced: now, unless it could not be listed."""
        from triptych_factory.syncing import note_synced

        if self.remembered is None or self.settings.read_only:
            return
        if self.directory is not None:
            note_synced(self.remembered, self.directory)
        if not self.sources:
            return
        from triptych_factory.sources import note_sources_synced

        note_sources_synced(self.service, self.sources, failed)


def add_folder(
    settings: Settings,
    service: KnowledgeBase,
    path: Path,
    dataset: str,
    progress: ProgressCallback | None,
) -> SyncReport:
    """Remember a folder and sync it into the opened ``service``, as `triptych add` does."""
    from triptych_factory.syncing import directory_sync, note_synced, remembered_roots

    folders = Folders(paths=[str(path)], dataset=dataset)
    folders.check()
    remembered = remembered_roots(service, settings)
    added = remembered.add(folders.roots(remembered.all(), beside=service))
    directory = directory_sync(service, settings, [each.root for each in added])
    report = directory.sync(progress=progress)
    note_synced(remembered, directory)
    return report


def _free_prefix(service: KnowledgeBase, root: SyncRoot, others: Sequence[SyncRoot]) -> str:
    """What names of a new folder begin with, so that they are not those of others: "" alone, else
    the folder's name, with those above it where it is taken."""
    from triptych.sync import documents_of

    same = [each for each in others if each.dataset_id == root.dataset_id]
    taken = {each.prefix for each in same}
    # One that is not there any more may have become this one, which takes its names.
    plain = any(each.prefix == "" and each.path.is_dir() for each in same)
    if not plain or documents_of(service, root):
        return ""
    parts = root.path.parts
    names = ("/".join(parts[-count:]) + "/" for count in range(1, len(parts)))
    return next((name for name in names if name not in taken), "")


def _source_syncs(
    service: KnowledgeBase, settings: Settings, sources: Sequence[RememberedSource], *, keep: bool
) -> list[SourceSync]:
    if not sources:
        return []
    from triptych_factory.sources import source_sync

    return [source_sync(service, settings, each, keep=keep) for each in sources]


_LOCATION = re.compile(r"[A-Za-z][\w+.-]+://|\w[\w.-]*@\w[\w.-]*:[^\\]")


def is_location(text: str) -> bool:
    """Whether a path is no path but the location of a source: a URL, or user@host:path."""
    return _LOCATION.match(text) is not None and not os.path.exists(text)


def _name_of(location: str) -> str:
    """The name of a repository, or the host of a site."""
    from triptych_sources import is_git

    plain = location.partition("#")[0].rstrip("/")
    if is_git(location):
        return re.split("[/:]", plain)[-1].removesuffix(".git") or "repository"
    return plain.partition("://")[2].partition("/")[0].replace(":", "-")


def _confirming(root: SyncRoot, yes: bool) -> SyncRoot:
    if root.options is None or not yes:
        return root
    return attrs.evolve(root, options=attrs.evolve(root.options, delete_most=True))


def tell_notes(output: Output, notes: Sequence[str]) -> None:
    """Print the first remarks on files that were read."""
    tell_first(output, notes, "--json")


def tell_first(output: Output, notes: Sequence[str], more: str) -> None:
    """Print the first ``notes``, and that ``more`` lists the others."""
    for note in notes[:_NAMED]:
        output.note(note)
    if len(notes) > _NAMED:
        output.note(f"and {len(notes) - _NAMED} more such notes; {more} lists them all")


def unexpected(skipped: Iterable[Skipped]) -> list[Skipped]:
    """What was skipped although its owner gave no reason for it: what a summary counts."""
    from triptych.parsing.files import GENERATED

    expected = GENERATED.union(NOT_TOLD)
    return [each for each in skipped if each.reason not in expected]


def tell_generated(output: Output, skipped: Iterable[Skipped]) -> None:
    """A remark that names the folders of installed or generated files that were left out."""
    from triptych.parsing.files import GENERATED

    found = [f"{each.name} ({each.reason})" for each in skipped if each.reason in GENERATED]
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        folders = counted(len(found), "folder")
        some = ", ".join(found[:_NAMED])
        output.note(f"skipped {folders}: {some}{more}; --all-folders includes them")
