"""Reading and writing collections, judgements and runs in the formats of BEIR and TREC.

BEIR's is a folder or a zip file: ``corpus.jsonl`` has one ``{"_id", "title", "text"}`` a line,
``queries.jsonl`` one ``{"_id", "text"}``, ``qrels/SPLIT.tsv`` a head and then ``query-id corpus-id
score`` (Thakur et al. 2021, NeurIPS, arXiv 2104.08663).

A line of TREC's qrels is ``query 0 document grade``, a line of a run ``query Q0 document rank score
tag``, separated by white space, which ids therefore cannot hold. trec_eval ignores the ranks of a
run: it sorts by score in single precision, then by document id descending.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import IO, Any

import attrs
import numpy as np

from triptych.errors import NotFoundError, ValidationError
from triptych.records import NewDocument
from triptych.resources import open_regular, write_bytes
from triptych_evaluation.collections import (
    Collection,
    JudgedQuery,
    MalformedFileError,
    read_file,
    whole_grade,
)
from triptych_evaluation.metrics import in_trec_order


def read_beir(path: str | os.PathLike[str], *, split: str = "test") -> Collection:
    """Read the collection in a folder or zip file: the judged queries of ``split``, in file order.

    As in BEIR's evaluation, a document with the id of the query is removed from its ranking (in
    ArguAna queries are documents themselves), unless it is judged relevant.

    The corpus is read later, by the collection's ``documents``: their content is title and text,
    their metadata the title.

    Raises:
        NotFoundError: the file or folder does not exist, or a part of it is missing.
        MalformedFileError: a line is malformed; the error names it.
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


Scored = tuple[str, float]
_SPACE = re.compile(r"[ \t\n\r\f\v]")


def read_qrels(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """Read grades by query and document, in file order.

    Raises:
        NotFoundError: the file cannot be read.
        MalformedFileError: a line is malformed; the error names it.
    """
    grades: dict[str, dict[str, int]] = {}
    for line, (query, _, document, written) in _rows(path, ("query", "0", "document", "grade")):
        try:
            grade = whole_grade(written)
        except ValueError as error:
            raise MalformedFileError(str(error), file=str(path), line=line) from None
        if document in grades.setdefault(query, {}):
            raise MalformedFileError(
                f"{document!r} is judged twice for the query {query!r}", file=str(path), line=line
            )
        grades[query][document] = grade
    return grades


def write_qrels(path: str | os.PathLike[str], judgements: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgements in their order; queries without judgements are omitted.

    Raises:
        ValidationError: an id contains white space or is empty. Nothing was written.
    """
    lines = [
        f"{_id(query)} 0 {_id(document)} {grade}\n"
        for query, grades in judgements.items()
        for document, grade in grades.items()
    ]
    write_bytes(path, "".join(lines).encode("utf-8"))


def read_run(path: str | os.PathLike[str]) -> dict[str, list[Scored]]:
    """Read each query's documents with their scores, in the order of trec_eval.

    Raises:
        NotFoundError: the file cannot be read.
        MalformedFileError: a line is malformed; the error names it.
    """
    run: dict[str, dict[str, float]] = {}
    columns = ("query", "Q0", "document", "rank", "score", "tag")
    for line, (query, _, document, _, written, _) in _rows(path, columns):
        try:
            score = float(written)
        except ValueError:
            score = float("nan")
        if not isfinite(score):
            raise MalformedFileError(
                f"the score {written!r} is not a finite number", file=str(path), line=line
            )
        if document in run.setdefault(query, {}):
            raise MalformedFileError(
                f"{document!r} comes twice for the query {query!r}", file=str(path), line=line
            )
        run[query][document] = score
    return {
        query: [(document, scores[document]) for document in in_trec_order(scores)]
        for query, scores in run.items()
    }


def write_run(
    path: str | os.PathLike[str], run: Mapping[str, Sequence[Scored]], *, tag: str = "triptych"
) -> None:
    """Write each query's documents with their scores, best first, so that trec_eval keeps the
    order.

    Triptych breaks ties by document name ascending, trec_eval by id descending. So a score that is
    not below the previous one in single precision is lowered to the next number that is. All other
    scores are unchanged. Queries without documents are omitted.

    Raises:
        ValidationError: an id or the tag contains white space or is empty, a document occurs twice,
            or a score is not a finite number. Nothing was written.
    """
    lines: list[str] = []
    for query, ranking in run.items():
        seen: set[str] = set()
        before = np.float32(np.inf)
        for rank, (document, score) in enumerate(ranking, start=1):
            if document in seen:
                raise ValidationError(f"{document!r} comes twice for the query {query!r}")
            seen.add(document)
            written, before = _below(before, score, document)
            lines.append(f"{_id(query)} Q0 {_id(document)} {rank} {written!r} {_id(tag)}\n")
    write_bytes(path, "".join(lines).encode("utf-8"))


def _below(before: np.float32, score: float, document: str) -> tuple[float, np.float32]:
    """``score``, or the number just below ``before``; and what trec_eval makes of it."""
    with np.errstate(over="ignore"):
        single = np.float32(score)
    if not isfinite(score) or not np.isfinite(single):
        raise ValidationError(
            f"the score of {document!r}, {score!r}, is not a finite number in single precision"
        )
    if single < before:
        return float(score), single
    single = np.nextafter(before, np.float32(-np.inf))
    return float(single), single


def _id(name: str) -> str:
    if not name or _SPACE.search(name):
        raise ValidationError(
            f"{name!r} cannot stand in a TREC file, whose columns are separated by white space: "
            "name documents and queries without it"
        )
    return name


def _rows(
    path: str | os.PathLike[str], columns: tuple[str, ...]
) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_file(path).split(b"\n"), start=1):
        try:
            found = [each for each in _SPACE.split(line.decode("utf-8")) if each]
        except UnicodeDecodeError as error:
            raise MalformedFileError(
                f"not UTF-8 (byte {error.start})", file=str(path), line=number
            ) from error
        if not found:
            continue
        if len(found) != len(columns):
            raise MalformedFileError(
                f"{len(found)} columns, where {len(columns)} are expected: {' '.join(columns)}",
                file=str(path),
                line=number,
            )
        yield number, found
