"""Golden sets: questions and the files that answer them, in YAML.

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
set, says that no person has looked at it yet: `golden_yaml` writes such sets to be completed.

nadir's files are golden sets: ``query`` may stand for ``question``; ``notes`` and
``expected_headers`` are not scored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from triptych_evaluation.collections import (
    Collection,
    JudgedPassage,
    JudgedQuery,
    MalformedFileError,
    read_file,
)

if TYPE_CHECKING:
    from yaml.nodes import Node

    from triptych.question_log import LoggedQuestion
    from triptych_evaluation.yaml_nodes import NodeReader

_T = TypeVar("_T")
_TOP = ("name", "reviewed", "queries")
_QUERY = (
    *("id", "question", "expected_files", "relevance", "passages", "expected_answer"),
    *("expected_keywords", "answerable", "reviewed", "query", "notes", "expected_headers"),
)
_PASSAGE = ("file", "text", "grade")
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def read_golden(path: str | os.PathLike[str]) -> Collection:
    """Read the golden set in a YAML file; the default ``id`` of a query is its position from 1.

    Raises:
        NotFoundError: the file does not exist.
        MalformedFileError: the file is not a golden set; the error names the line.
    """
    file = Path(path)
    try:
        text = read_file(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedFileError(f"not UTF-8 (byte {error.start})", file=str(file)) from error
    from triptych_evaluation.yaml_nodes import NodeReader  # PyYAML is imported where it is used

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
    asked = [fields[name] for name in ("question", "query") if name in fields]
    if len(asked) != 1:
        raise reader.wrong("a query needs the field 'question' or 'query', and one only", node)

    def given(field: str, read: Callable[[Node, str], _T], default: _T) -> _T:
        return read(fields[field], field) if field in fields else default

    def items(field: str) -> list[Node]:
        return reader.items(fields[field], field) if field in fields else []

    grades = {reader.file(each): 1 for each in items("expected_files")}
    graded: dict[str, int] = {}
    pairs = reader.pairs(fields["relevance"], "relevance") if "relevance" in fields else []
    for key, value in pairs:
        file = reader.file(key)
        if file in graded:
            raise reader.wrong(f"{file!r} is graded twice", key)
        graded[file] = reader.grade(value)
    grades |= graded
    passages = tuple(_passage(reader, each) for each in items("passages"))
    for passage in passages:
        grades.setdefault(passage.document, passage.grade)
    unanswerable = not given("answerable", reader.truth, True)
    if unanswerable and any(grade > 0 for grade in grades.values()):
        raise reader.wrong("answerable is false, and the query names files that answer it", node)
    if not grades and not unanswerable:
        raise reader.wrong(
            "a query needs expected_files, relevance or passages: say which files answer it, or "
            "answerable: false where none does",
            node,
        )
    return JudgedQuery(
        query_id=given("id", reader.text, str(number)),
        text=reader.text(asked[0], "question"),
        grades=grades,
        passages=passages,
        answer=given("expected_answer", reader.text, ""),
        keywords=tuple(reader.text(each, "a keyword") for each in items("expected_keywords")),
        unanswerable=unanswerable,
        reviewed=given("reviewed", reader.truth, reviewed),
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


def golden_yaml(
    queries: Iterable[JudgedQuery],
    *,
    name: str = "",
    comments: Sequence[str] = (),
    notes: Mapping[str, str] | None = None,
) -> str:
    """Format the questions as YAML, with ``comments`` at the top and ``notes`` by query id.

    A query without files that is not marked as unanswerable gets an empty ``expected_files`` to
    fill in; until then `read_golden` refuses it.
    """
    queries = list(queries)
    lines = [f"# {each}" for each in comments]
    lines += [f"name: {_quoted(name)}"] if name else []
    if not all(query.reviewed for query in queries):
        lines.append("reviewed: false")
    lines.append("queries:")
    for query in queries:
        if note := (notes or {}).get(query.query_id):
            lines.append(f"  # {' '.join(note.split())}")
        lines.append(f"  - id: {_quoted(query.query_id)}")
        lines.append(f"    question: {_quoted(query.text)}")
        if query.unanswerable:
            lines.append("    answerable: false")
        elif not query.grades:
            lines.append("    expected_files: []")
        else:
            lines.append("    relevance:")
            lines += [f"      {_quoted(file)}: {grade}" for file, grade in query.grades.items()]
        if query.passages:
            lines.append("    passages:")
            for passage in query.passages:
                lines.append(f"      - file: {_quoted(passage.document)}")
                lines.append(f"        text: {_quoted(passage.text)}")
                lines.append(f"        grade: {passage.grade}")
        if query.answer:
            lines.append(f"    expected_answer: {_quoted(query.answer)}")
        if query.keywords:
            lines.append(f"    expected_keywords: [{', '.join(map(_quoted, query.keywords))}]")
    return "\n".join(lines) + "\n"


def logged_yaml(questions: Iterable[LoggedQuestion]) -> str:
    """Format logged questions as a golden set to fill in."""
    queries, notes = [], {}
    for number, logged in enumerate(questions, start=1):
        query = JudgedQuery(query_id=f"asked-{number}", text=logged.text, reviewed=False)
        queries.append(query)
        found = ", ".join(logged.found) or "no document"
        notes[query.query_id] = (
            f"asked {logged.times} times, last {logged.asked_at:%Y-%m-%d}, of "
            f"{', '.join(logged.dataset_ids)}; {logged.answerability}: found {found}"
        )
    return golden_yaml(
        queries,
        comments=[
            "Questions that were not answered. For each, name the files that answer it under",
            "expected_files, or put 'answerable: false' in its place; then remove",
            "'reviewed: false'.",
        ],
        notes=notes,
    )


def _quoted(text: str) -> str:
    """A string of JSON is one of YAML, but for characters that YAML wants escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
