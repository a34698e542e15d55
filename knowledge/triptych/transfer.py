"""Streaming import of documents from JSON Lines and Parquet, and export to JSON Lines.

A line of an export is a JSON object with ``name``, ``content``, ``metadata``, ``version``,
``updated_at`` (ISO 8601), ``expires_at`` if it expires, and ``original_sha256``, ``parser_sig`` and
``outline`` (the structure of the text) if a parser made the content. `import_jsonl` reads these
lines, and other JSON objects whose fields you name.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, Literal

import attrs

from triptych._internal.progress import ProgressCallback
from triptych.contracts.pages import documents_of
from triptych.errors import NotFoundError, ValidationError
from triptych.installation import lacking
from triptych.records import Failure, NewDocument, PutReport, SourceDocument
from triptych.records.metadata import DATE, metadata_to_plain
from triptych.service import KnowledgeBase

_ROWS_AT_ONCE: Final = 1_024


def _names(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValidationError(f"metadata is the names of fields, or None, not {value!r:.60}")
    return tuple(map(str, value))


@attrs.frozen(kw_only=True)
class ImportFields:
    """The fields of an imported row that make a document.

    Attributes:
        name: the field with the document's name; a number is converted to text.
        content: the field with the text.
        metadata: the fields that become metadata under the same names; ("*",) takes all other
            fields. None takes the object in the field "metadata", if any.
    """

    name: str = "name"
    content: str = "content"
    metadata: tuple[str, ...] | None = attrs.field(default=None, converter=_names)

    def document(self, row: object) -> NewDocument:
        """Convert ``row`` to a document.

        Raises:
            ValidationError: it is not an object, lacks a field, or has an invalid value.
        """
        if not isinstance(row, Mapping):
            raise ValidationError(f"a row is a JSON object, not {type(row).__name__}")
        name, content = self._field(row, self.name), self._field(row, self.content)
        if isinstance(name, int) and not isinstance(name, bool):
            name = str(name)
        if not isinstance(content, str):
            raise ValidationError(
                f"the field {self.content!r} is text, not {type(content).__name__}"
            )
        return NewDocument(
            name=name,
            content=content,
            metadata=self._metadata(row),
            original_sha256=_text(row.get("original_sha256")),
            parser_sig=_text(row.get("parser_sig")),
            outline=_text(row.get("outline")) or None,
            expires_at=self._expires_at(row),
        )

    def _expires_at(self, row: Mapping[Any, Any]) -> datetime | Literal["never"] | None:
        """Return the expiry of an exported row; None if the field has another form."""
        text = row.get("expires_at")
        if self.metadata is not None or not isinstance(text, str):
            return None
        if text == "never":
            return "never"
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        return moment if moment.tzinfo else None

    def _field(self, row: Mapping[Any, Any], field: str) -> Any:
        if row.get(field) is None:
            fields = ", ".join(map(repr, list(row)[:8])) or "none"
            raise ValidationError(
                f"there is no field {field!r}; the row has {fields}: name the field to take"
            )
        return row[field]

    def _metadata(self, row: Mapping[Any, Any]) -> dict[str, Any] | None:
        if self.metadata is None:
            given = row.get("metadata")
            if given is None:
                return None
            if not isinstance(given, Mapping):
                raise ValidationError(
                    f"the field 'metadata' is an object, not {type(given).__name__}"
                )
        elif self.metadata == ("*",):
            given = {key: row[key] for key in row if key not in (self.name, self.content)}
        else:
            given = {key: row.get(key) for key in self.metadata}
        return {
            str(key): metadata_value(value)
            for key, value in given.items()
            # Tables write what is missing as no number.
            if value is not None and not (isinstance(value, float) and math.isnan(value))
        }


def metadata_value(value: Any) -> Any:
    """Convert a value of a row to a metadata value.

    Text, numbers, bools, dates and lists of these are unchanged. ``{"$date": …}`` becomes a date, a
    decimal a number, and any other value, such as an object, its JSON text.
    """
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        raise ValidationError("a field of metadata holds bytes: leave it out, or write it as text")
    items = value if isinstance(value, list | tuple) else [value]
    if any(
        item is None or isinstance(item, list | tuple | Decimal) or _is_object(item)
        for item in items
    ):
        return _json(value)
    return value


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) != {DATE}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# In


def import_jsonl(
    service: KnowledgeBase,
    dataset_id: str,
    lines: Iterable[bytes | str],
    *,
    fields: ImportFields | None = None,
    progress: ProgressCallback | None = None,
) -> PutReport:
    """Store a document for each of ``lines``, such as a file opened in binary mode; streamed.

    An invalid line is in the report's ``failed``, named by its number from 1 ("line 12"), and does
    not stop the others. Empty lines are skipped. Several lines with the same name become versions,
    in order.

    Raises:
        TriptychError: as `Service.put_documents`.
    """
    return _put(service, dataset_id, _json_rows(lines), "line", fields, progress)


def import_parquet(
    service: KnowledgeBase,
    dataset_id: str,
    file: str | os.PathLike[str],
    *,
    fields: ImportFields | None = None,
    progress: ProgressCallback | None = None,
) -> PutReport:
    """Store a document for each row of a Parquet file, read some thousand rows at a time.

    An invalid row is in the report's ``failed``, named by its number from 1 ("row 12").

    Raises:
        NotAvailableError: the extra ``parquet`` is not installed.
        NotFoundError: the file does not exist.
        ValidationError: it is not a Parquet file.
        TriptychError: as `Service.put_documents`.
    """
    return _put(service, dataset_id, _parquet_rows(Path(file)), "row", fields, progress)


def _put(
    service: KnowledgeBase,
    dataset_id: str,
    rows: Iterable[tuple[int, Callable[[], object]]],
    unit: str,
    fields: ImportFields | None,
    progress: ProgressCallback | None,
) -> PutReport:
    taken = fields or ImportFields()
    bad: list[Failure] = []

    def documents() -> Iterator[NewDocument]:
        for number, read in rows:
            try:
                document = taken.document(read())
            except ValidationError as error:
                bad.append(Failure(dataset_id=dataset_id, name=f"{unit} {number}", error=error))
            else:
                yield document

    report = service.put_documents(dataset_id, documents(), progress=progress)
    return attrs.evolve(report, failed=(*bad, *report.failed))


def _json_rows(lines: Iterable[bytes | str]) -> Iterator[tuple[int, Callable[[], object]]]:
    for number, line in enumerate(lines, start=1):
        if line.strip() and line.strip() not in (b"\xef\xbb\xbf", "\ufeff"):
            yield number, partial(_json_row, line)


def _same(row: object) -> object:
    return row


def _json_row(line: bytes | str) -> object:
    try:
        text = line.decode("utf-8-sig") if isinstance(line, bytes) else line.removeprefix("\ufeff")
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise ValidationError(f"it is not UTF-8 (byte {error.start + 1} of the line)") from error
    except RecursionError as error:
        raise ValidationError("it is nested too deeply") from error
    except ValueError as error:
        raise ValidationError(f"it is not JSON: {error}") from error


def _parquet_rows(path: Path) -> Iterator[tuple[int, Callable[[], object]]]:
    try:
        parquet: Any = import_module("pyarrow.parquet")
        arrow: Any = import_module("pyarrow")
    except ImportError as error:
        raise lacking("reading Parquet needs pyarrow, which is not installed", "parquet") from error
    try:
        file = parquet.ParquetFile(path)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path}: check the path") from error
    except (arrow.ArrowException, OSError) as error:
        raise ValidationError(f"{path} is no Parquet file: {error}") from error
    with file:
        number = 0
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                yield number, partial(_same, row)


# Out


def iter_exported(
    service: KnowledgeBase, dataset_id: str, *, versions: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the documents of a dataset, sorted by name, each as the object of an exported line.

    With ``versions`` the kept versions of each document precede it, oldest first. Documents that
    are deleted meanwhile are left out.

    Raises:
        NotFoundError: the dataset does not exist.
        NotAvailableError: ``versions`` is true, but the store keeps no old versions.
    """
    for info in documents_of(service.list_documents, dataset_id):
        yield from _exported(service, dataset_id, info.name, versions)


def _exported(
    service: KnowledgeBase, dataset_id: str, name: str, versions: bool
) -> Iterator[dict[str, Any]]:
    try:
        kept: Sequence[int | None] = (
            [each.version for each in service.history(dataset_id, name)][::-1]
            if versions
            else [None]
        )
    except NotFoundError:
        return
    expires = False
    for version in kept:
        try:
            document = service.get_document(dataset_id, name, version)
        except NotFoundError:
            continue
        line = _line(document)
        if document.system.expires_at is not None:
            expires, line["expires_at"] = True, document.system.expires_at.isoformat()
        elif expires:  # the line before it did: without a word the import would keep that
            line["expires_at"] = "never"
        yield line


def _line(document: SourceDocument) -> dict[str, Any]:
    made = {
        "original_sha256": document.original_sha256,
        "parser_sig": document.parser_sig,
        "outline": document.system.outline,
    }
    return {
        "name": document.name,
        "content": document.content,
        "metadata": metadata_to_plain(document.metadata),
        "version": document.version,
        "updated_at": document.updated_at.isoformat(),
        **{key: value for key, value in made.items() if value},
    }


def export_jsonl(
    service: KnowledgeBase, dataset_id: str, stream: IO[bytes], *, versions: bool = False
) -> int:
    """Write the documents of a dataset to ``stream`` as lines of UTF-8; return the number of lines.

    `import_jsonl` reads them back, with the same names, contents and metadata.

    Raises:
        NotFoundError, NotAvailableError: as `iter_exported`.
    """
    count = 0
    for line in iter_exported(service, dataset_id, versions=versions):
        stream.write(json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n")
        count += 1
    return count
