"""Reading and parsing files concurrently, for syncs and for single imports."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import attrs

from triptych._internal.concurrency import map_ordered
from triptych._open import every_format
from triptych.errors import (
    CancelledError,
    ConflictError,
    NotAvailableError,
    NotFoundError,
    ParseError,
    TriptychError,
    ValidationError,
)
from triptych.parsing import FileParsers, ParsedFile
from triptych.parsing.files import Skipped, name_of
from triptych.records import DocumentInfo, Failure, Metadata, NewDocument, SystemData
from triptych.records.documents import living_version
from triptych.records.metadata import same_metadata
from triptych.scan import FileStat, Tree, is_hidden, is_link
from triptych.signatures import content_sha256
from triptych.sync.inventory import File
from triptych.sync.roots import Root, SourceRoot, SyncOptions, SyncRoot, prefix_hint
from triptych.sync.scanner import Scanner
from triptych.sync.source import UNKNOWN, Fetched
from triptych.sync.state import LEFT_OUT, SyncRecord, outcome_of

_REVISION = "source_revision"


def read_file(root: Path, relative: str, max_bytes: int) -> tuple[bytes, FileStat | None]:
    """The bytes of the file, and its times; None for those where they are no proof of the bytes.

    Raises:
        OSError: it cannot be read, has left the root, is not a regular file, or has grown over
            ``max_bytes``.
    """
    with Tree.of(str(root)) as tree:
        try:
            return tree.read(relative.split("/"), max_bytes)
        except OSError as error:
            if not is_link(error):
                raise
        # It is a link, or below one; what it leads to is judged as in a scan.
        real = tree.resolve(relative)
        if not real or is_hidden(real):
            why = "out of the folder" if real is None else "to what is hidden"
            raise OSError(errno.ELOOP, f"it leads {why}", str(root / relative))
        try:
            return tree.read(real, max_bytes)
        except OSError as error:
            if is_link(error):
                error.strerror = "a link took its place while it was read"
            raise


@attrs.frozen(kw_only=True, slots=True)
class SourceFile:
    """A parsed file, the argument of a function that adds metadata.

    ``path`` is None for an entry of a source.
    """

    name: str
    path: Path | None
    content: str
    metadata: Metadata


MetadataFunction = Callable[[SourceFile], Metadata]
"""A function whose result is added to a file's metadata and overrides it. It is called from several
threads, and must return the same for the same file, so that a sync can detect changes."""


@attrs.frozen(kw_only=True, slots=True)
class Task:
    """A file, and what is known of it from before: in the store, and from the last sync.

    ``own_keys`` are those of the roots that are synced together: a file may take over from
    another of them.
    """

    file: File
    own_keys: frozenset[str]
    info: DocumentInfo | None
    fresh: bool
    known: SyncRecord | None


@attrs.frozen(kw_only=True, slots=True)
class ParsedCandidate:
    """What is to be done for a file.

    ``same`` says of what is to be put that it is what the store has: only its chunks, or what is
    known of its origin, may be behind. ``notes`` are the parser's.
    """

    task: Task
    outcome: Literal["unchanged", "left out", "put", "failed", "vanished"]
    known: SyncRecord | None = None
    document: NewDocument | None = None
    content_sha256: str = ""
    same: bool = False
    error: Exception | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The document's name."""
        return self.task.file.name


@attrs.frozen(eq=False)
class FileReader:
    """Decides, for one file after the other, what a sync has to do. Thread-safe; writes nothing."""

    _parser_of: Callable[[SyncOptions], FileParsers]
    _metadata: MetadataFunction | None
    _metadata_sig: str
    _options: SyncOptions

    def settled(self, task: Task) -> ParsedCandidate | None:
        """What is known without reading the file; None when it has to be read."""
        known = task.known
        if known is None or known.stat != task.file.stat:
            return None
        if known.signature != self._signature(task.file):
            return None
        return self._as_before(task, known)

    def prepare(self, task: Task) -> ParsedCandidate:
        """Read the file, and parse it if its bytes are new."""
        try:
            return self._prepare(task)
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - one file's failure is its own
            told = file_error(task.file.root.file_at(task.file.relative), error)
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)
            return ParsedCandidate(task=task, outcome="vanished" if gone else "failed", error=told)

    def _prepare(self, task: Task) -> ParsedCandidate:
        file, info = task.file, task.info
        signature = self._signature(file)
        fetched, stat, before = self._read(task, signature)
        if fetched is None:
            assert before is not None
            return before
        data, parsed_as = fetched.data, fetched.hint or file.hint or file.name
        sha256 = hashlib.sha256(data).hexdigest()
        if task.known is not None and (task.known.sha256, task.known.signature) == (
            sha256,
            signature,
        ):
            before = self._as_before(task, attrs.evolve(task.known, stat=stat))
            if before is not None:
                return before
        elif self._came_of(task, sha256, self._signature(file, parsed_as, data)):
            assert info is not None
            outcome = outcome_of(info.content_sha256, info.metadata, info.system)
            return ParsedCandidate(
                task=task, outcome="unchanged", known=SyncRecord(stat, sha256, signature, outcome)
            )
        parsed = self._parser_for(file).parse(parsed_as, data)
        if parsed is None:
            known = SyncRecord(stat, sha256, signature, LEFT_OUT)
            return ParsedCandidate(task=task, outcome="left out", known=known)
        metadata = self._metadata_of(file, fetched, parsed)
        system = SystemData(outline=parsed.outline, sync_root=file.root.key)
        document = NewDocument(
            name=file.name,
            content=parsed.content,
            metadata=metadata,
            if_version=living_version(info),
            original_sha256=sha256,
            parser_sig=self._signature(file, parsed_as, data),
            outline=system.outline,
            sync_root=system.sync_root,
        )
        content = content_sha256(document.content)
        self._check_owner(task, content)
        return ParsedCandidate(
            task=task,
            outcome="put",
            known=SyncRecord(stat, sha256, signature, outcome_of(content, metadata, system)),
            document=document,
            content_sha256=content,
            same=info is not None
            and (info.content_sha256, info.system) == (content, system)
            and same_metadata(info.metadata, metadata),
            notes=parsed.notes,
        )

    def _metadata_of(self, file: File, fetched: Fetched, parsed: ParsedFile) -> Metadata:
        metadata = dict(parsed.metadata)
        if fetched.url:
            metadata["source_url"] = fetched.url
        if fetched.revision:
            metadata[_REVISION] = fetched.revision
        if self._metadata is not None:
            shown = SourceFile(
                name=file.name,
                path=file.root.path / file.relative if isinstance(file.root, SyncRoot) else None,
                content=parsed.content,
                metadata=dict(metadata),
            )
            metadata |= _described(self._metadata, shown)
        return metadata

    def _read(
        self, task: Task, signature: str
    ) -> tuple[Fetched | None, FileStat | None, ParsedCandidate | None]:
        """The bytes and the stat that proves them (None for none); without bytes, what is done."""
        file = task.file
        root, most = file.root, self._options_of(file.root).max_bytes
        if isinstance(root, SyncRoot):
            data, stat = read_file(root.path, file.relative, most)
            return Fetched(data=data), stat, None
        assert isinstance(root, SourceRoot)
        before, revision, stat = None, "", None if file.stat == UNKNOWN else file.stat
        if task.known is not None and task.known.signature == signature:
            before = self._as_before(task, attrs.evolve(task.known, stat=stat))
        if before is not None and task.info is not None:
            revision = str(task.info.metadata.get(_REVISION, ""))
        fetched = root.source.fetch(file.relative, revision)
        if fetched is None and not revision:
            raise ValidationError(
                f"{root.file_at(file.relative)!r} was reported as unchanged, and nothing of it is "
                "stored: correct the fetch of this source"
            )
        if fetched is not None and len(fetched.data) > most:
            raise ParseError(
                f"{root.file_at(file.relative)!r} has more than {most:,} bytes: raise max_bytes"
            )
        return fetched, stat, before

    def _as_before(self, task: Task, known: SyncRecord) -> ParsedCandidate | None:
        if known.outcome == LEFT_OUT:
            return ParsedCandidate(task=task, outcome="left out", known=known)
        info = task.info
        if info is None or not task.fresh:
            return None
        if known.outcome != outcome_of(info.content_sha256, info.metadata, info.system):
            return None
        return ParsedCandidate(task=task, outcome="unchanged", known=known)

    @staticmethod
    def _came_of(task: Task, sha256: str, signature: str) -> bool:
        """Whether the stored document was made of these bytes, by this parser, for this root."""
        info = task.info
        return (
            info is not None
            and task.fresh
            and info.original_sha256 == sha256
            and info.parser_sig == signature
            and info.system.sync_root == task.file.root.key
        )

    def _check_owner(self, task: Task, content: str) -> None:
        info = task.info
        if info is None or self._options_of(task.file.root).adopt:
            return
        owner = info.system.sync_root
        if not owner and info.content_sha256 == content:
            return
        if owner and owner in task.own_keys:
            return
        whose = (
            f"of the folder or source {owner!r}" if owner else "put by itself, with another text"
        )
        raise ConflictError(
            f"the dataset {info.dataset_id!r} has a document {info.name!r} already, {whose}: "
            "delete it, adopt it by --adopt, or give this one a prefix, "
            f"{prefix_hint(task.file.root)}, or another dataset",
            expected=0,
            actual=info.version,
        )

    def _options_of(self, root: Root) -> SyncOptions:
        return root.options or self._options

    def _parser_for(self, file: File) -> FileParsers:
        return self._parser_of(self._options_of(file.root))

    def _signature(self, file: File, parsed_as: str = "", data: bytes | None = None) -> str:
        # How an entry of a source is parsed is known once it is fetched: any parser may do it.
        name = parsed_as or (file.name if isinstance(file.root, SyncRoot) else "")
        signature = self._parser_for(file).signature(name, data)
        return f"{signature} {self._metadata_sig}".rstrip()


def _described(function: MetadataFunction, file: SourceFile) -> Metadata:
    try:
        found = function(file)
    except TriptychError:
        raise
    except Exception as error:
        raise ValidationError(
            f"the metadata function failed for {str(file.path or file.name)!r} "
            f"({type(error).__name__}: {error}): fix it"
        ) from error
    if not isinstance(found, Mapping):
        raise ValidationError(
            f"the metadata function gave {type(found).__name__} for "
            f"{str(file.path or file.name)!r}: return a "
            "mapping, an empty one for nothing"
        )
    return found


def file_error(path: Path | str, error: Exception) -> TriptychError:
    """The error to report of the file at ``path`` whose reading or parsing raised ``error``."""
    if isinstance(error, TriptychError):
        return error
    if isinstance(error, OSError):
        told: TriptychError = NotAvailableError(
            f"{str(path)!r} cannot be read: {error.strerror or error}"
        )
    else:
        told = ValidationError(f"{str(path)!r} cannot be parsed ({type(error).__name__}: {error})")
    told.__cause__ = error
    return told


@attrs.frozen(kw_only=True, slots=True)
class _File:
    """A file and its document's name; ``root`` is the folder it was found in, None where it was
    named itself."""

    name: str
    path: Path
    root: Path | None = None


class FileSet:
    """Files and their documents, as a sync makes them, but without the key of a root.

    A file that fails does not stop the others. The attributes are complete once `documents` has
    been read to its end.

    Attributes:
        skipped: skipped files, and why.
        failed: failures by document name, or by folder name with a final slash.
        notes: notes on files that were read, such as a guessed encoding.
    """

    def __init__(
        self,
        dataset_id: str = "",
        *,
        parser: FileParsers | None = None,
        options: SyncOptions | None = None,
    ) -> None:
        """Start without files.

        Args:
            dataset_id: the dataset in the entries of ``failed``.
            parser: parses files; None parses every format whose library is installed.
            options: which files of folders to include, and how many to read concurrently.
        """
        self._dataset_id = dataset_id
        self._options = options or SyncOptions()
        self._parser = every_format(self._options.ocr) if parser is None else parser
        self._files: dict[str, _File] = {}
        self.skipped: list[Skipped] = []
        self.failed: list[Failure] = []
        self.notes: list[str] = []

    def __len__(self) -> int:
        return len(self._files)

    @property
    def paths(self) -> Mapping[str, Path]:
        """The files by document name, in the order in which they are read."""
        return {file.name: file.path for file in self._files.values()}

    def add(self, path: Path, name: str | None = None) -> None:
        """Add a file, whatever its extension, or the files of a folder that a sync would include.

        A single file's name is ``name``, else its path relative to the current directory, or only
        the file name outside of it. Files of a folder have their path relative to the folder.

        Raises:
            NotFoundError: the file or folder does not exist.
            ValidationError: two files would have the same name, or ``name`` is for a folder.
        """
        if path.is_dir():
            if name is not None:
                raise ValidationError(f"a name is for one file, and {str(path)!r} is a folder")
            self._add_folder(path)
        elif path.exists():
            self._add(_File(name=name_of(path) if name is None else name, path=path))
        else:
            raise NotFoundError(f"there is no file or folder {str(path)!r}")

    def _add_folder(self, path: Path) -> None:
        root = path.absolute()
        scan = Scanner(root, self._options, self._parser.takes).scan()
        for relative in sorted(scan.files):
            self._add(_File(name=relative, path=path / relative, root=root))
        self.skipped += scan.skipped
        self.failed += [
            self._failure(f"{relative or path}/", path / relative, error)
            for relative, error in scan.failed.items()
        ]

    def _add(self, file: _File) -> None:
        other = self._files.setdefault(file.name, file)
        if other is not file:
            raise ValidationError(
                f"{str(other.path)!r} and {str(file.path)!r} would both be named "
                f"{file.name!r}: give one of them another name, or put them into two datasets"
            )

    def documents(
        self, metadata: Metadata | None = None, *, if_version: int | None = None
    ) -> Iterator[NewDocument]:
        """Yield the documents in order; ``metadata`` overrides the metadata of the files."""
        work = map_ordered(self._read, self._files.values(), self._options.workers)
        for file, (parsed, error) in zip(self._files.values(), work, strict=True):
            if error is None and parsed is not None:
                try:
                    document = parsed.document(file.name, metadata, if_version=if_version)
                except ValidationError as refused:
                    error = refused  # a name that no document can have
                else:
                    self.notes += parsed.notes
                    yield document
                    continue
            if error is None:
                self.skipped.append(Skipped(name=file.name, reason="binary"))
            else:
                self.failed.append(self._failure(file.name, file.path, error))
        self.skipped.sort(key=lambda each: each.name)

    def _read(self, file: _File) -> tuple[ParsedFile | None, Exception | None]:
        try:
            if file.root is None:
                return self._parser.parse_path(file.path), None
            data, _ = read_file(file.root, file.name, self._options.max_bytes)
            return self._parser.parse(str(file.path), data), None
        except CancelledError:
            raise
        except (OSError, TriptychError) as error:
            return None, error

    def _failure(self, name: str, path: Path, error: Exception) -> Failure:
        return Failure(dataset_id=self._dataset_id, name=name, error=file_error(path, error))
