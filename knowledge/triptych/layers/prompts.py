"""The prompts for generating layers, and the messages that contain them.

A prompt has only instructions and no placeholder: the text follows as data between two marks that
do not occur in it. Any other string can be used as a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from triptych._internal.model_texts import FRAME, data_messages, fenced
from triptych.chunking.boundaries import align_left
from triptych.records import DocumentSummary, Message

__all__ = [
    "ABSTRACT_PROMPT",
    "CHILDREN_ABSTRACT_PROMPT",
    "CHILDREN_OVERVIEW_PROMPT",
    "DATASET_ABSTRACT_PROMPT",
    "DATASET_OVERVIEW_PROMPT",
    "DEFAULT_PROMPT_INPUT_LIMIT",
    "FRAME",
    "OVERVIEW_PROMPT",
    "PART_PROMPT",
    "data_messages",
    "document_messages",
    "fenced",
    "summaries_messages",
    "summary_lines",
]

DEFAULT_PROMPT_INPUT_LIMIT: Final = 8000
"""The maximum code points of a document, or of a dataset's abstracts, in a prompt."""

ABSTRACT_PROMPT: Final = """\
State in one sentence what this document is about, so that someone who sees only that sentence
can decide whether to open it. Name the subject itself and what the document says of it: a
decision, a procedure, a definition, figures. Keep the terms and names it uses. Use no more than
60 words and the document's own language. Do not open with "This document". Answer with the
sentence and nothing else."""

OVERVIEW_PROMPT: Final = """\
Write an overview of this document that can stand in for it when there is no room for the whole.
Use Markdown: first two or three sentences on its subject and purpose, then a section for each of
its main topics in the order of the document, with the facts, figures, names, conditions and
warnings that somebody would look for. Add nothing that the document does not say. Use no more
than 600 words, fewer for a short document, and the document's own language. Answer with the
overview and nothing else."""

DATASET_OVERVIEW_PROMPT: Final = """\
Each line is one document of a collection: its name, a colon, and what it says. Write an overview
of the collection in Markdown: first two or three sentences on what it covers, then a section for
each main subject, with the names of the documents to open for it. Group what belongs together
instead of repeating the list, and say what the documents say, no more. Use no more than 600 words
and the language that most of the lines are in. Answer with the overview and nothing else."""

DATASET_ABSTRACT_PROMPT: Final = """\
This is the overview of a collection of documents. State in one sentence what the collection
covers, so that someone who sees only that sentence can decide whether to search it. Keep the
terms and names that set it apart. Use no more than 60 words and the overview's own language.
Answer with the sentence and nothing else."""

CHILDREN_ABSTRACT_PROMPT: Final = """\
Each line is one document or folder of a collection: its name, a colon, and what it says. State in
one sentence what the collection as a whole covers, so that someone who sees only that sentence can
decide whether to look into it. Keep the terms and names that set it apart. Use no more than 60
words and the language that most of the lines are in. Answer with the sentence and nothing else."""

CHILDREN_OVERVIEW_PROMPT: Final = """\
Each line is one document or folder of a collection: its name, a colon, and what it says. Write an
overview of the collection in Markdown: first two or three sentences on what it covers, then a
section for each main subject, with the names of the documents or folders to open for it. Group
what belongs together instead of repeating the list, and say what the lines say, no more. Use no
more than 600 words and the language that most of the lines are in. Answer with the overview and
nothing else."""

PART_PROMPT: Final = """\
This is one part of a text that is too long to be read at once. Note in Markdown what it says, so
that someone who sees the notes on all parts, and nothing else, can write an overview of the whole:
its headings or subjects in their order, with the facts, figures, names, conditions and warnings in
them. Add nothing that the part does not say. Use no more than 300 words and the part's own
language. Answer with the notes and nothing else."""


def document_messages(prompt: str, text: str, limit: int) -> list[Message]:
    """Return the messages about a text, with its first ``limit`` code points.

    The cut does not split a combining sequence, emoji or flag; a note outside the marks mentions
    it.
    """
    if len(text) <= limit:
        return data_messages(prompt, text, "")
    shown = text[: align_left(text, limit, 1)]
    note = f"Only the first {len(shown):,} of {len(text):,} characters are shown."
    return data_messages(prompt, shown, note)


def summaries_messages(
    prompt: str, summaries: Iterable[DocumentSummary], limit: int
) -> list[Message]:
    """Return the messages about a dataset with its `summary_lines`; none without abstracts."""
    told = [summary for summary in summaries if summary.abstract.strip()]
    if not told:
        return []
    lines, shown = summary_lines(told, limit)
    left_out = shown < len(told)
    note = f"These are {shown:,} of {len(told):,} documents, spread evenly by name."
    return data_messages(prompt, lines, note if left_out else "")


def summary_lines(summaries: Iterable[DocumentSummary], limit: int) -> tuple[str, int]:
    """Return lines ``- name: abstract`` by name, at most ``limit`` code points, and their number.

    Blank abstracts are left out. If not all lines fit, the selected ones are spread evenly over the
    names, so that every folder is represented; a first line that is too long is cut.
    """
    lines = sorted(
        f"- {' '.join(summary.name.split())}: {' '.join(summary.abstract.split())}"
        for summary in summaries
        if summary.abstract.strip()
    )
    room = limit + 1  # a newline less than there are lines
    taken: list[int] = []
    for at in _spread(len(lines)):
        if len(lines[at]) + 1 <= room:
            taken.append(at)
            room -= len(lines[at]) + 1
    if lines and not taken:
        return lines[0][: align_left(lines[0], limit, 1)], 1
    return "\n".join(lines[at] for at in sorted(taken)), len(taken)


def _spread(count: int) -> Iterator[int]:
    """0 to ``count`` - 1, so ordered that every beginning of it is spread evenly.

    The van der Corput sequence in base 2: the numbers with their bits in reverse.
    """
    bits = max(count - 1, 0).bit_length()
    for number in range(1 << bits):
        reverse = int(f"{number:0{bits}b}"[::-1], 2) if bits else 0
        if reverse < count:
            yield reverse
