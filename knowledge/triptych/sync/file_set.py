"""Files that are put once: named one by one, or found below folders as a sync finds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from triptych._internal.concurrency import map_ordered
from triptych._open import every_format
from triptych.errors import CancelledError, NotFoundError, TriptychError, ValidationError
from triptych.parsing import FileParsers, ParsedFile
from triptych.parsing.files import Skipped, name_of
from triptych.records import Failure, Metadata, NewDocument
from triptych.sync.read_ahead import file_error, read_file
from triptych.sync.roots import SyncOptions
from triptych.sync.scanner import Scanner


@attrs.frozen(kw_only=True, slots=True)
class _File:
    """A file and its document's name; ``root`` is the folder it was found in, None where it was
    named itself."""

    name: str
    path: Path
    root: Path | None = None


class FileSet:
    """Files, and the documents they become: the same as a sync makes of them, but for the mark of
    its root.

    Reading does not stop at a file that fails. What became of the files is known once `documents`
    has been read to its end.

    Attributes:
        skipped: what was skipped, and why.
        failed: what could not be read, by document name; of a folder, it ends in a slash.
        notes: remarks on files that were read: an encoding that was guessed, for one.
    """

    def __init__(
        self,
        dataset_id: str = "",
        *,
        parser: FileParsers | None = None,
        options: SyncOptions | None = None,
    ) -> None:
        """No files yet.

        Args:
            dataset_id: for the entries of ``failed``.
            parser: makes documents of files; None takes every format that is installed.
            options: which files of folders are taken, and how many are read at a time.
        """
        self._dataset_id = dataset_id
        self._parser = every_format() if parser is None else parser
        self._options = options or SyncOptions()
        self._files: dict[str, _File] = {}
        self.skipped: list[Skipped] = []
        self.failed: list[Failure] = []
        self.notes: list[str] = []

    def __len__(self) -> int:
        return len(self._files)

    @property
    def paths(self) -> Mapping[str, Path]:
        """The files by the names of their documents, in the order in which they are read."""
        return {file.name: file.path for file in self._files.values()}

    def add(self, path: Path, name: str | None = None) -> None:
        """Add a file, whatever its ending, or the files of a folder that a sync would take.

        A file is named by ``name``, else by the path from the current directory; one outside of
        it, by its last part. A file of a folder is named by its path from there.

        Raises:
            NotFoundError: there is no such file or folder.
            ValidationError: two files would get one name, or ``name`` is given for a folder.
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
        """The documents, in order; ``metadata`` goes over what the files say."""
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
