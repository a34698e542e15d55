"""Golden questions as YAML for a person to complete, as `read_golden` reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from triptych.evaluation.collections import JudgedQuery
from triptych.search.question_log import LoggedQuestion

_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def golden_yaml(
    queries: Iterable[JudgedQuery],
    *,
    name: str = "",
    comments: Sequence[str] = (),
    notes: Mapping[str, str] | None = None,
) -> str:
    """The questions as YAML. ``comments`` come first, and ``notes`` above each query, by its id.

    A query that names no file and is not said to have no answer gets an empty ``expected_files``
    to fill in: until then `read_golden` refuses it.
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
    """Logged questions as a golden set to fill in."""
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
