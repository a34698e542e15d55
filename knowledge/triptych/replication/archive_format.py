"""An archive: a store, or some of its datasets, in one file (docs/reference/archive.md)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import attrs
import numpy as np

from triptych.errors import (
    CorruptStoreError,
    NotFoundError,
    SchemaVersionError,
    ValidationError,
)
from triptych.records import (
    DocumentInfo,
    NameState,
    NewDocument,
    SparseVector,
    check_identifier,
)
from triptych.records.serialization import from_dict
from triptych.replication.report import Counts, count
from triptych.replication.states import DatasetHead, is_same_version, with_same_name
from triptych.signatures import document_info

T = TypeVar("T")

__all__ = [
    "FORMAT",
    "HEADER",
    "MANIFEST",
    "SETTINGS",
    "VERSION",
    "Archive",
    "ArchiveSummary",
    "DatasetSummary",
    "dataset_folder",
]

FORMAT: Final = "triptych-archive"
VERSION: Final = 1
HEADER: Final = "archive.json"
SETTINGS: Final = "settings.json"
MANIFEST: Final = "manifest.json"

_MEMBER: Final = re.compile(r"datasets/\d{6}/(?:dataset\.json|names\.jsonl)", re.ASCII)
_SMALL: Final = 64_000_000
"""Most bytes of a member that is read at once."""


def dataset_folder(number: int) -> str:
    """The folder of the dataset of this number, from 1."""
    return f"datasets/{number:06}"


@attrs.frozen(kw_only=True, slots=True)
class DatasetSummary:
    """What the manifest says of a dataset: its id, how many names it has, and of what how many."""

    dataset_id: str
    names: int
    counts: Counts


@attrs.frozen(kw_only=True, slots=True)
class ArchiveSummary:
    """What an archive holds."""

    datasets: tuple[DatasetSummary, ...] = ()
    settings: int = 0


@attrs.frozen(kw_only=True, slots=True)
class _Member:
    size: int
    sha256: str


@attrs.frozen(kw_only=True, slots=True)
class _Manifest:
    members: Mapping[str, _Member]
    datasets: tuple[DatasetSummary, ...]


class Archive:
    """An archive to be read: a source for `copy_store`. A context manager.

    Opening it reads all of it and checks every digest and every record, before anything is copied.

    Raises:
        NotFoundError: there is no such file.
        ValidationError: it is not an archive of Triptych.
        SchemaVersionError: a newer version of Triptych wrote it.
        CorruptStoreError: it is cut short or damaged, or was not written by Triptych.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._zip = _opened(self.path)
        try:
            with self._damage("the file"):
                self._check_members()
            manifest = self._read(MANIFEST, _Manifest)
            self._check_digests(manifest)
            self._datasets = {
                each.dataset_id: dataset_folder(at)
                for at, each in enumerate(manifest.datasets, start=1)
            }
            self._names: dict[str, list[str]] = {}
            for each in manifest.datasets:
                self._check_dataset(each)
            with self._damage(SETTINGS):
                self._settings = _texts(self._json(SETTINGS))
            self.summary: ArchiveSummary = ArchiveSummary(
                datasets=manifest.datasets, settings=len(self._settings)
            )
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        """The archive itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._zip.close()

    # As a source

    def datasets(self) -> Sequence[str]:
        """See `StateSource.datasets`."""
        return list(self._datasets)

    def head(self, dataset_id: str) -> DatasetHead:
        """See `StateSource.head`."""
        return self._read(f"{self._datasets[dataset_id]}/dataset.json", DatasetHead)

    def names(self, dataset_id: str) -> Sequence[str]:
        """See `StateSource.names`."""
        return self._names[dataset_id]

    def states(self, dataset_id: str) -> Iterator[NameState]:
        """See `StateSource.states`."""
        member = f"{self._datasets[dataset_id]}/names.jsonl"
        with self._damage(member), self._zip.open(member) as lines:
            for number, line in enumerate(lines, start=1):
                with self._damage(f"line {number:,} of {member}"):
                    yield from_dict(NameState, json.loads(line))

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
                raise _DamagedError(f"it has a member {info.filename!r:.80}, which no archive has")
            stored = info.compress_type == zipfile.ZIP_STORED
            if not stored or info.compress_size != info.file_size or info.flag_bits & 1:
                raise _DamagedError(f"its member {info.filename} is compressed or encrypted")
        if len(set(names)) < len(names):
            raise _DamagedError("a member comes twice")
        # Members that overlap could be of any size together.
        if sum(info.file_size for info in infos) > self.path.stat().st_size:
            raise _DamagedError("its members are longer than the file")

    def _check_digests(self, manifest: _Manifest) -> None:
        found = {info.filename: info for info in self._zip.infolist()}
        if {*manifest.members, MANIFEST} != found.keys():
            raise self._corrupt("its manifest does not list the members that it has")
        for name, member in manifest.members.items():
            digest = hashlib.sha256()
            with self._damage(name), self._zip.open(name) as stream:
                while data := stream.read(1 << 20):
                    digest.update(data)
            same = (found[name].file_size, digest.hexdigest()) == (member.size, member.sha256)
            if not same:
                raise self._corrupt(f"{name} fails its digest")

    def _check_dataset(self, summary: DatasetSummary) -> None:
        dataset_id, counts = summary.dataset_id, Counts()
        names: list[str] = []
        head = self.head(dataset_id)
        with self._damage(f"dataset {dataset_id!r:.80}"):
            check_identifier(dataset_id, "dataset_id")
            if head.dataset_id != dataset_id:
                raise _DamagedError("its head is of another dataset")
        for state in self.states(dataset_id):
            with self._damage(f"{state.name!r:.80} of dataset {dataset_id!r:.80}"):
                if names and state.name <= names[-1]:
                    raise _DamagedError("the names are not in order")
                _check_state(dataset_id, state)
            names.append(state.name)
            counts += count(state)
        if (len(names), counts) != (summary.names, summary.counts):
            raise self._corrupt(f"dataset {dataset_id!r} holds other numbers than its manifest")
        self._names[dataset_id] = names

    # Reading

    def _json(self, member: str) -> Any:
        info = self._zip.getinfo(member)
        if info.file_size > _SMALL or info.compress_type != zipfile.ZIP_STORED:
            raise _DamagedError(f"{member} is too long")
        return json.loads(self._zip.read(member))

    def _read(self, member: str, kind: type[T]) -> T:
        with self._damage(member):
            return from_dict(kind, self._json(member))

    @contextmanager
    def _damage(self, what: str) -> Iterator[None]:
        try:
            yield
        except (SchemaVersionError, CorruptStoreError):
            raise
        except _DamagedError as error:
            raise self._corrupt(f"{what}: {error}") from None
        except ValidationError as error:
            if what == "the file":
                raise
            raise self._corrupt(f"{what}: {error}") from error
        except (
            zipfile.BadZipFile,
            KeyError,
            OSError,
            EOFError,
            ValueError,
            RecursionError,
            NotImplementedError,  # a compression that zipfile does not know
        ) as error:
            raise self._corrupt(f"{what}: {error}") from error

    def _corrupt(self, what: str) -> CorruptStoreError:
        return CorruptStoreError(
            f"the archive {self.path} is damaged ({what}): nothing was read from it. Take another "
            "copy of it, or an earlier archive"
        )


class _DamagedError(Exception):
    """What is wrong with an archive, in words."""


def _opened(path: Path) -> zipfile.ZipFile:
    if not path.exists():
        raise NotFoundError(f"there is no file {path}: check the path")
    if path.is_dir():
        raise ValidationError(f"{path} is a folder, not an archive of Triptych")
    try:
        return zipfile.ZipFile(path)
    # NotImplementedError is what zipfile raises for a compression that it does not know.
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        with path.open("rb") as stream:
            begins = stream.read(4)
        if begins == b"PK\x03\x04":
            raise CorruptStoreError(
                f"the archive {path} is cut short or damaged ({error}): nothing was read from it. "
                "Take another copy of it, or an earlier archive"
            ) from error
        raise ValidationError(f"{path} is not an archive of Triptych") from error


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise _DamagedError("settings are texts by their keys")
    return value


def _check_state(dataset_id: str, state: NameState) -> None:
    """Refuse what no store would have taken.

    Raises:
        ValidationError, ValueError, _DamagedError: it is not what a store can hold.
    """
    name = state.name
    for document in state.versions:
        NewDocument(name=document.name, content=document.content, metadata=document.metadata)
    places = {(each.dataset_id, each.name) for each in state.versions}
    places |= {(each.dataset_id, each.doc_name) for each in state.units}
    places |= {(each.dataset_id, each.doc_name) for each in state.quarantined}
    if places - {(dataset_id, name)}:
        raise _DamagedError("something in it is of another name")
    if (state.sig is not None or state.chunks) and not state.versions:
        raise _DamagedError("it has chunks and no document")
    numbers = [each.version for each in state.versions]
    if numbers != sorted(set(numbers)) or any(number < 1 for number in numbers):
        raise _DamagedError("its versions are not in order")
    if any(each.updated_at.tzinfo is None for each in state.versions):
        raise _DamagedError("a version has a time without an offset")
    if [chunk.index for chunk in state.chunks] != list(range(len(state.chunks))):
        raise _DamagedError("its chunks are not in order")
    for unit in state.units:
        if unit.vector is not None and not (unit.vector.size and np.isfinite(unit.vector).all()):
            raise _DamagedError("a vector has numbers that are not finite")
    for data in state.sparse.values():
        SparseVector.from_bytes(base64.b64decode(data, validate=True))
