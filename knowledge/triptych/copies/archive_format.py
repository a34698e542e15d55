"""Archives: a store, or some of its datasets, in one file (docs/reference/archive.md)."""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych._internal.files import open_regular
from triptych.copies.archive_checks import DamagedError, DatasetCheck, check_settings, parsed
from triptych.copies.report import Counts, count
from triptych.copies.states import DatasetHead, is_same_version, with_same_name
from triptych.errors import CorruptStoreError, NotFoundError, SchemaVersionError, ValidationError
from triptych.records import DocumentInfo, NameState
from triptych.records.serialization import from_dict
from triptych.signatures import document_info

T = TypeVar("T")

FORMAT: Final = "triptych-archive"
VERSION: Final = 1
HEADER: Final = "archive.json"
SETTINGS: Final = "settings.json"
MANIFEST: Final = "manifest.json"

_MEMBER: Final = re.compile(r"datasets/\d{6,}/(?:dataset\.json|names\.jsonl)", re.ASCII)
_IN_DATASET: Final = ("dataset.json", "names.jsonl")
_LONGEST_HEADER: Final = 1_000
_DIGEST: Final = 16
_ENCRYPTED: Final = 1
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    KeyError,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    struct.error,
    RuntimeError,  # too deep a nesting, a password, a compression that zipfile does not know
)
"""Errors of zipfile and json for invalid bytes."""


def dataset_folder(number: int) -> str:
    """The folder of the dataset of this number, from 1."""
    return f"datasets/{number:06}"


@attrs.frozen(kw_only=True, slots=True)
class DatasetSummary:
    """A dataset in the manifest: its id, the number of its names, and counts by kind."""

    dataset_id: str
    names: int
    counts: Counts


@attrs.frozen(kw_only=True, slots=True)
class ArchiveSummary:
    """The contents of an archive.

    ``removed`` are unfinished files of killed backups, which `write_archive` deleted.
    """

    datasets: tuple[DatasetSummary, ...] = ()
    settings: int = 0
    removed: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class _Member:
    size: int
    sha256: str


@attrs.frozen(kw_only=True, slots=True)
class _Manifest:
    members: Mapping[str, _Member]
    datasets: tuple[DatasetSummary, ...]


class Archive(CloseOnExit):
    """An archive open for reading: a source for `copy_store`. Use it as a context manager.

    Opening it reads the whole file and checks every digest and record, before anything is copied.
    If the file changes later, reading raises an error.

    Raises:
        NotFoundError: the file does not exist.
        ValidationError: it is not an archive of Triptych.
        SchemaVersionError: a newer version of Triptych wrote it.
        CorruptStoreError: it is truncated or damaged, or was not written by Triptych.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._zip = _opened(self.path)
        self._is_checked = False
        self._datasets: dict[str, str] = {}
        self._heads: dict[str, DatasetHead] = {}
        self._names: dict[str, list[str]] = {}
        self._lines: dict[str, bytes] = {}
        """By dataset, the digests of the lines that were checked."""
        try:
            with self._damage("the file"):
                self._check_members()
            manifest = self._read(MANIFEST, _Manifest)
            self._check_digests(manifest)
            for at, each in enumerate(manifest.datasets, start=1):
                self._check_dataset(each, dataset_folder(at))
            with self._damage(SETTINGS):
                self._settings = check_settings(self._json(SETTINGS))
            self.summary: ArchiveSummary = ArchiveSummary(
                datasets=manifest.datasets, settings=len(self._settings)
            )
            self._is_checked = True
        except BaseException:
            self._zip.close()
            raise

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._zip.close()

    # As a source

    def check_finished(self, datasets: Sequence[str]) -> None:
        """See `StateSource.check_finished`: an archive is always complete."""

    def datasets(self) -> Sequence[str]:
        """See `StateSource.datasets`."""
        return list(self._datasets)

    def head(self, dataset_id: str) -> DatasetHead:
        """See `StateSource.head`."""
        return self._heads[dataset_id]

    def names(self, dataset_id: str) -> Sequence[str]:
        """See `StateSource.names`."""
        return self._names[dataset_id]

    def states(self, dataset_id: str) -> Iterator[NameState]:
        """See `StateSource.states`.

        Raises:
            CorruptStoreError: the file was changed since it was checked.
        """
        known, at = self._lines[dataset_id], 0
        for line, state in self._states(dataset_id):
            if _digest(line) != known[at : at + _DIGEST]:
                raise self._changed(f"{state.name!r:.80} of dataset {dataset_id!r:.80}")
            at += _DIGEST
            yield state
        if at != len(known):
            raise self._changed(f"the end of dataset {dataset_id!r:.80}")

    def _states(self, dataset_id: str) -> Iterator[tuple[bytes, NameState]]:
        member = f"{self._datasets[dataset_id]}/names.jsonl"
        with self._damage(member), self._zip.open(member) as lines:
            for number, line in enumerate(lines, start=1):
                with self._damage(f"line {number:,} of {member}"):
                    state = from_dict(NameState, parsed(line))
                yield line, state

    def other_histories(self, dataset_id: str, infos: Iterable[DocumentInfo]) -> Iterator[str]:
        """See `StateSource.other_histories`."""
        states = (each for each in self.states(dataset_id) if each.versions)
        for state, theirs in with_same_name(states, infos, lambda each: each.name):
            versions = map(document_info, reversed(state.versions))
            if not any(is_same_version(each, theirs) for each in versions):
                yield state.name

    def settings(self) -> Mapping[str, str]:
        """See `StateSource.settings`."""
        return self._settings

    # Checks

    def _check_members(self) -> None:
        infos = self._zip.infolist()
        names = [info.filename for info in infos]
        if not names or names[0] != HEADER:
            raise ValidationError(f"{self.path} is not an archive of Triptych")
        if infos[0].flag_bits & _ENCRYPTED or infos[0].file_size > _LONGEST_HEADER:
            raise DamagedError(f"its member {HEADER} is encrypted or too long")
        header = self._json(HEADER)
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise ValidationError(f"{self.path} is not an archive of Triptych")
        version = header.get("version")
        if version != VERSION:
            raise SchemaVersionError(
                f"{self.path} is an archive of version {version!r}, and this version of Triptych "
                f"reads version {VERSION}: update triptych"
            )
        for info in infos:
            known = info.filename in (HEADER, SETTINGS, MANIFEST)
            if not known and not _MEMBER.fullmatch(info.filename):
                raise DamagedError(f"it has a member {info.filename!r:.80}, which no archive has")
            stored = info.compress_type == zipfile.ZIP_STORED
            is_longer = info.compress_size != info.file_size
            if not stored or is_longer or info.flag_bits & _ENCRYPTED:
                raise DamagedError(f"its member {info.filename} is compressed or encrypted")
        if len(set(names)) < len(names):
            raise DamagedError("a member comes twice")
        # Members that overlap could be of any size together.
        if sum(info.file_size for info in infos) > self.path.stat().st_size:
            raise DamagedError("its members are longer than the file")

    def _check_digests(self, manifest: _Manifest) -> None:
        found = {info.filename: info for info in self._zip.infolist()}
        datasets = [each.dataset_id for each in manifest.datasets]
        if datasets != sorted(set(datasets)):
            raise self._corrupt("its datasets are not in order")
        folders = [dataset_folder(at) for at in range(1, len(datasets) + 1)]
        wanted = {f"{folder}/{member}" for folder in folders for member in _IN_DATASET}
        wanted |= {HEADER, SETTINGS}
        if not wanted == manifest.members.keys() == found.keys() - {MANIFEST}:
            raise self._corrupt("its manifest does not list the members that it has")
        for name, member in manifest.members.items():
            digest = hashlib.sha256()
            with self._damage(name), self._zip.open(name) as stream:
                while data := stream.read(1 << 20):
                    digest.update(data)
            same = (found[name].file_size, digest.hexdigest()) == (member.size, member.sha256)
            if not same:
                raise self._corrupt(f"{name} fails its digest")

    def _check_dataset(self, summary: DatasetSummary, folder: str) -> None:
        dataset_id, counts = summary.dataset_id, Counts()
        names: list[str] = []
        digests = bytearray()
        self._datasets[dataset_id] = folder
        head = self._read(f"{folder}/dataset.json", DatasetHead)
        with self._damage(f"dataset {dataset_id!r:.80}"):
            if head.dataset_id != dataset_id:
                raise DamagedError("its head is of another dataset")
            check = DatasetCheck(head)
            for line, state in self._states(dataset_id):
                with self._damage(f"{state.name!r:.80} of dataset {dataset_id!r:.80}"):
                    check.add(state)
                names.append(state.name)
                digests += _digest(line)
                counts += count(state)
            check.end()
        if (len(names), counts) != (summary.names, summary.counts):
            raise self._corrupt(f"dataset {dataset_id!r} holds other numbers than its manifest")
        self._heads[dataset_id] = head
        self._names[dataset_id] = names
        self._lines[dataset_id] = bytes(digests)

    # Reading

    def _json(self, member: str) -> Any:
        return parsed(self._zip.read(member))

    def _read(self, member: str, kind: type[T]) -> T:
        with self._damage(member):
            return from_dict(kind, self._json(member))

    @contextmanager
    def _damage(self, what: str) -> Iterator[None]:
        try:
            yield
        except (SchemaVersionError, CorruptStoreError):
            raise
        except DamagedError as error:
            raise self._corrupt(f"{what}: {error}") from None
        except ValidationError as error:
            if what == "the file":
                raise
            raise self._corrupt(f"{what}: {error}") from error
        except _UNREADABLE as error:
            raise self._corrupt(f"{what}: {error}") from error

    def _corrupt(self, what: str) -> CorruptStoreError:
        if self._is_checked:
            return self._changed(what)
        return CorruptStoreError(
            f"the archive {self.path} is damaged ({what}): nothing was read from it. Take another "
            "copy of it, or an earlier archive"
        )

    def _changed(self, what: str) -> CorruptStoreError:
        return CorruptStoreError(
            f"the archive {self.path} was changed since it was checked ({what}): take another copy "
            "of it"
        )


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=_DIGEST).digest()


def _opened(path: Path) -> zipfile.ZipFile:
    if not path.exists():
        raise NotFoundError(f"there is no file {path}: check the path")
    if path.is_dir():
        raise ValidationError(f"{path} is a folder, not an archive of Triptych")
    open_regular(path).close()
    try:
        return zipfile.ZipFile(path)
    except _UNREADABLE as error:
        with path.open("rb") as stream:
            begins = stream.read(4)
        if begins == b"PK\x03\x04":
            raise CorruptStoreError(
                f"the archive {path} is cut short or damaged ({error}): nothing was read from it. "
                "Take another copy of it, or an earlier archive"
            ) from error
        raise ValidationError(f"{path} is not an archive of Triptych") from error
