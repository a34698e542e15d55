"""A golden set: questions and the files that answer them, kept by hand in YAML.

    name: manual
    queries:
      - id: rollback
        question: How do I roll a release back?
        expected_files: [guide/rollback.md]
        relevance: {guide/rollback.md: 3, api/deploy.md: 1}
        passages:
          - {file: guide/rollback.md, text: "Run deploy --to and the old version.", grade: 3}
        expected_answer: With deploy --to and the version.
        expected_keywords: [deploy, --to]
      - id: refunds
        question: How do I get a refund?
        answerable: false

``question`` is needed, and one of ``expected_files`` (grade 1), ``relevance`` (grades, which
win over it) and ``passages`` (their files have their grade, unless one is given), or ``answerable:
false``: no document answers it. A file is named by the end of its path. ``expected_keywords`` are
words and phrases that the text which answers holds. ``reviewed: false``, of a query or of the whole
set, says that no person has looked at it yet.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from triptych._internal.files import read_regular
from triptych.errors import NotFoundError
from triptych.evaluation.collections import (
    Collection,
    JudgedPassage,
    JudgedQuery,
    MalformedFileError,
)

if TYPE_CHECKING:
    from yaml.nodes import Node

    from triptych.evaluation.yaml_nodes import NodeReader

_TOP = ("name", "reviewed", "queries")
_QUERY = (
    *("id", "question", "expected_files", "relevance", "passages", "expected_answer"),
    *("expected_keywords", "answerable", "reviewed"),
)
_PASSAGE = ("file", "text", "grade")


def read_golden(path: str | os.PathLike[str]) -> Collection:
    """The golden set in a YAML file; a query without ``id`` is named by its place, from 1.

    Raises:
        NotFoundError: there is no such file.
        MalformedFileError: the file is not a golden set; it names the line.
    """
    file = Path(path)
    try:
        text = read_regular(file).decode("utf-8")
    except OSError as error:
        raise NotFoundError(f"{str(file)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MalformedFileError(f"not UTF-8 (byte {error.start})", file=str(file)) from error
    from triptych.evaluation.yaml_nodes import NodeReader  # PyYAML is imported where it is used

    reader = NodeReader(str(file))
    root = reader.parse(text)
    reviewed = True
    if reader.is_list(root):
        name, queries = file.stem, root
    else:
        top = reader.mapping(root, _TOP, "the golden set")
        name = reader.text(top["name"], "name") if "name" in top else file.stem
        if "queries" not in top:
            raise reader.wrong("the field 'queries' is missing", root)
        if "reviewed" in top:
            reviewed = reader.truth(top["reviewed"], "reviewed")
        queries = top["queries"]
    judged: dict[str, JudgedQuery] = {}
    for number, node in enumerate(reader.items(queries, "queries"), start=1):
        query = _query(reader, node, number, reviewed)
        if query.query_id in judged:
            raise reader.wrong(f"the id {query.query_id!r} comes twice", node)
        judged[query.query_id] = query
    if not judged:
        raise reader.wrong("no queries", queries)
    return Collection(name=name, queries=tuple(judged.values()), by_suffix=True)


def _query(reader: NodeReader, node: Node, number: int, reviewed: bool) -> JudgedQuery:
    fields = reader.mapping(node, _QUERY, "a query")
    if "question" not in fields:
        raise reader.wrong("a query needs the field 'question'", node)
    grades: dict[str, int] = {}
    if "expected_files" in fields:
        for each in reader.items(fields["expected_files"], "expected_files"):
            grades[reader.file(each)] = 1
    if "relevance" in fields:
        graded: dict[str, int] = {}
        for key, value in reader.pairs(fields["relevance"], "relevance"):
            file = reader.file(key)
            if file in graded:
                raise reader.wrong(f"{file!r} is graded twice", key)
            graded[file] = reader.grade(value)
        grades |= graded
    passages = tuple(
        _passage(reader, each)
        for each in (reader.items(fields["passages"], "passages") if "passages" in fields else ())
    )
    for passage in passages:
        grades.setdefault(passage.document, passage.grade)
    unanswerable = "answerable" in fields and not reader.truth(fields["answerable"], "answerable")
    if unanswerable and any(grade > 0 for grade in grades.values()):
        raise reader.wrong("answerable is false, and the query names files that answer it", node)
    if not grades and not unanswerable:
        raise reader.wrong(
            "a query needs expected_files, relevance or passages: say which files answer it, or "
            "answerable: false where none does",
            node,
        )
    return JudgedQuery(
        query_id=reader.text(fields["id"], "id") if "id" in fields else str(number),
        text=reader.text(fields["question"], "question"),
        grades=grades,
        passages=passages,
        answer=reader.text(fields["expected_answer"], "expected_answer")
        if "expected_answer" in fields
        else "",
        keywords=tuple(
            reader.text(each, "a keyword")
            for each in reader.items(fields["expected_keywords"], "expected_keywords")
        )
        if "expected_keywords" in fields
        else (),
        unanswerable=unanswerable,
        reviewed=reader.truth(fields["reviewed"], "reviewed") if "reviewed" in fields else reviewed,
    )


def _passage(reader: NodeReader, node: Node) -> JudgedPassage:
    fields = reader.mapping(node, _PASSAGE, "a passage")
    for needed in ("file", "text"):
        if needed not in fields:
            raise reader.wrong(f"a passage needs the field {needed!r}", node)
    return JudgedPassage(
        document=reader.file(fields["file"]),
        text=reader.text(fields["text"], "text"),
        grade=reader.grade(fields["grade"]) if "grade" in fields else 1,
    )
