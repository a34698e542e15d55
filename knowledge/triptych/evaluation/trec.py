"""TREC's files: judgements (qrels) and runs.

A line of qrels is ``query 0 document grade``, a line of a run ``query Q0 document rank score
tag``, separated by white space, which ids therefore cannot hold. trec_eval ignores the ranks of a
run: it sorts by score in single precision, then by document id descending.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

import numpy as np

from triptych._internal.files import read_regular, write_bytes
from triptych.errors import NotFoundError, ValidationError
from triptych.evaluation.collections import MalformedFileError, whole_grade
from triptych.evaluation.metrics import in_trec_order

Scored = tuple[str, float]
_SPACE = re.compile(r"[ \t\n\r\f\v]")


def read_qrels(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """Grades by query and document, in file order.

    Raises:
        NotFoundError: the file cannot be read.
        MalformedFileError: a line is not one of qrels; it is named.
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
    """Write judgements, in their order; a query without any leaves no trace.

    Raises:
        ValidationError: an id holds white space, or is empty. Nothing was written.
    """
    lines = [
        f"{_id(query)} 0 {_id(document)} {grade}\n"
        for query, grades in judgements.items()
        for document, grade in grades.items()
    ]
    write_bytes(path, "".join(lines).encode("utf-8"))


def read_run(path: str | os.PathLike[str]) -> dict[str, list[Scored]]:
    """Each query's documents with their scores, in the order that trec_eval gives them.

    Raises:
        NotFoundError: the file cannot be read.
        MalformedFileError: a line is not one of a run; it is named.
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
    """Write each query's documents with their scores, best first, so that the order is kept.

    Triptych breaks ties by document name ascending, trec_eval by id descending. So a score that
    is not below the one before it in single precision is lowered to the next number that is:
    whoever reads the file ranks as it was ranked here. All other scores are written as they
    are. A query without documents leaves no trace.

    Raises:
        ValidationError: an id or the tag holds white space or is empty, a document comes twice,
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
    try:
        data = read_regular(path)
    except OSError as error:
        raise NotFoundError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    for number, line in enumerate(data.split(b"\n"), start=1):
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
