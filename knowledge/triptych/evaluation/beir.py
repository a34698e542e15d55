"""Collections in BEIR's layout, in a folder or a zip file.

``corpus.jsonl`` has one ``{"_id", "title", "text"}`` a line, ``queries.jsonl`` one ``{"_id",
"text"}``, ``qrels/SPLIT.tsv`` a head and then ``query-id corpus-id score`` (Thakur et al. 2021,
NeurIPS, arXiv 2104.08663).
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

import attrs

from triptych._internal.files import open_regular
from triptych.errors import NotFoundError, ValidationError
from triptych.evaluation.collections import (
    Collection,
    JudgedQuery,
    MalformedFileError,
    whole_grade,
)
from triptych.records import NewDocument


def read_beir(path: str | os.PathLike[str], *, split: str = "test") -> Collection:
    """The collection in a folder or zip file: the judged queries of ``split``, in file order.

    As in BEIR's own evaluation, a document of the query's own id is taken out of its ranking
    (in ArguAna queries are documents themselves), unless it is judged relevant.

    The corpus is not read here, but by the collection's ``documents``: their content is title
    and text, their metadata the title.

    Raises:
        NotFoundError: there is no such file or folder, or a part of the layout is missing.
        MalformedFileError: a line is not what it should be; it is named.
    """
    folder = _Folder.open(Path(path))
    texts = {}
    for at, row in folder.rows("queries.jsonl"):
        query_id = folder.field(row, "_id", at)
        if query_id in texts:
            raise folder.wrong(f"the query id {query_id!r} comes twice", at)
        texts[query_id] = folder.field(row, "text", at)
    grades = _judgements(folder, f"qrels/{split}.tsv", texts)
    folder.require("corpus.jsonl")
    queries = tuple(
        JudgedQuery(
            query_id=query_id,
            text=text,
            grades=grades[query_id],
            excluded=() if grades[query_id].get(query_id, 0) > 0 else (query_id,),
        )
        for query_id, text in texts.items()
        if query_id in grades
    )
    return Collection(name=folder.name, queries=queries, documents=lambda: _documents(folder))


def _judgements(folder: _Folder, member: str, texts: dict[str, str]) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for number, line in folder.lines(member):
        at = (member, number)
        columns = line.split("\t")
        if len(columns) != 3:
            raise folder.wrong(
                f"{len(columns)} columns, where query id, document id and grade are expected, "
                "separated by tabs",
                at,
            )
        query_id, document, written = (column.strip() for column in columns)
        try:
            grade = whole_grade(written)
        except ValueError as error:
            if number == 1 and query_id not in texts:
                continue  # the head
            raise folder.wrong(str(error), at) from None
        if query_id not in texts:
            raise folder.wrong(f"the query {query_id!r} is not in queries.jsonl", at)
        if grades.setdefault(query_id, {}).setdefault(document, grade) != grade:
            raise folder.wrong(
                f"{document!r} is judged twice for the query {query_id!r}, and not alike", at
            )
    if not grades:
        raise folder.wrong("no judgements", (member, 0))
    return grades


def _documents(folder: _Folder) -> Iterator[NewDocument]:
    seen: set[str] = set()
    for at, row in folder.rows("corpus.jsonl"):
        name = folder.field(row, "_id", at)
        if name in seen:
            raise folder.wrong(f"the document id {name!r} comes twice", at)
        seen.add(name)
        title = folder.field(row, "title", at) if row.get("title") is not None else ""
        text = folder.field(row, "text", at)
        try:
            yield NewDocument(
                name=name,
                content="\n\n".join(filter(None, (title, text))),
                metadata={"title": title} if title else {},
            )
        except ValidationError as error:
            raise folder.wrong(str(error), at) from error


At = tuple[str, int]
"""A member of the layout and a line of it, from 1."""


@attrs.frozen
class _Folder:
    """The layout's files, wherever they lie."""

    path: Path
    inner: str  # the folder within a zip file
    zipped: bool

    @classmethod
    def open(cls, path: Path) -> _Folder:
        if path.is_dir():
            return cls(path, "", zipped=False)
        if not path.exists():
            raise NotFoundError(f"there is no collection at {str(path)!r}")
        try:
            open_regular(path).close()
            with zipfile.ZipFile(path) as archive:
                names = [PurePosixPath(name) for name in archive.namelist()]
        except (OSError, zipfile.BadZipFile) as error:
            raise MalformedFileError(
                f"neither a folder nor a readable zip file ({error})", file=str(path)
            ) from error
        roots = sorted({str(name.parent) for name in names if name.name == "corpus.jsonl"})
        if len(roots) != 1:
            raise NotFoundError(
                f"{str(path)!r} must hold one corpus.jsonl and holds {len(roots)}: a collection "
                "in BEIR's layout has corpus.jsonl, queries.jsonl and qrels/test.tsv"
            )
        return cls(path, "" if roots[0] == "." else f"{roots[0]}/", zipped=True)

    @property
    def name(self) -> str:
        return self.path.stem if self.zipped else self.path.resolve().name

    def require(self, member: str) -> None:
        if self.zipped:
            with zipfile.ZipFile(self.path) as archive:
                there = f"{self.inner}{member}" in archive.namelist()
        else:
            there = (self.path / member).is_file()
        if not there:
            raise NotFoundError(
                f"{str(self.path)!r} has no {member}: a collection in BEIR's layout has "
                "corpus.jsonl, queries.jsonl and qrels/test.tsv"
            )

    def lines(self, member: str) -> Iterator[tuple[int, str]]:
        """Every line that is not blank, with its number."""
        self.require(member)
        if self.zipped:
            with (
                zipfile.ZipFile(self.path) as archive,
                archive.open(f"{self.inner}{member}") as stream,
            ):
                yield from self._decoded(stream, member)
        else:
            with (self.path / member).open("rb") as stream:
                yield from self._decoded(stream, member)

    def _decoded(self, stream: IO[bytes], member: str) -> Iterator[tuple[int, str]]:
        # By bytes: a line of JSON may hold what str.splitlines takes for a line's end.
        for number, line in enumerate(stream, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise self.wrong(f"not UTF-8 (byte {error.start})", (member, number)) from error
            if text.strip():
                yield number, text.rstrip("\r\n")

    def rows(self, member: str) -> Iterator[tuple[At, dict[str, Any]]]:
        for number, line in self.lines(member):
            at = (member, number)
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise self.wrong(f"not JSON ({error})", at) from error
            if not isinstance(row, dict):
                raise self.wrong("not a JSON object", at)
            yield at, row

    def field(self, row: dict[str, Any], key: str, at: At) -> str:
        value = row.get(key)
        if not isinstance(value, str):
            said = "is missing" if value is None else f"is not a string but {value!r:.60}"
            raise self.wrong(f"the field {key!r} {said}", at)
        return value

    def wrong(self, message: str, at: At) -> MalformedFileError:
        member, line = at
        return MalformedFileError(message, file=str(self.path / self.inner / member), line=line)
