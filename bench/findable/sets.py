"""A set of questions, each with the lines or documents that answer it, and its file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

SEED = 26


@attrs.frozen(kw_only=True)
class Asked:
    """A question and its answers: documents, each with the lines that answer, if not all do.

    ``passages`` are what a context must hold: documents, first and last code point.
    """

    text: str
    answers: Mapping[str, Sequence[int]]
    passages: Sequence[tuple[str, int, int]] = ()


@attrs.frozen(kw_only=True)
class QuestionSet:
    """Documents and the questions that are asked of them.

    Attributes:
        name: the row's name; "identifiers networkx" belongs to the group "identifiers".
        metric: "mrr" over chunks or "ndcg" over documents, both of ten, "strength" or "context".
        texts: the documents by name.
        titles: titles of documents, which are put as their metadata.
        asked: the questions.
        foreign: questions that nothing here answers.
        embedder: what embeds the set.
    """

    name: str
    metric: str
    texts: Mapping[str, str]
    asked: Sequence[Asked]
    titles: Mapping[str, str] = attrs.field(factory=dict)
    foreign: Sequence[str] = ()
    embedder: str = "local"


def unanswered(made: QuestionSet, other: QuestionSet, most: int = 150) -> QuestionSet:
    """Questions that have answers, those of another set, and again those whose answers are gone."""
    return attrs.evolve(
        made,
        name=f"unanswered {made.name.replace('code ', '')}",
        metric="strength",
        asked=made.asked[:most],
        foreign=[each.text for each in other.asked[:most]],
    )


def write_set(path: Path, made: QuestionSet) -> None:
    """Write a set; a reader never sees half of it."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(attrs.asdict(made), ensure_ascii=False), encoding="utf-8")
    unfinished.replace(path)


def read_set(path: Path) -> QuestionSet:
    """The set that `write_set` wrote."""
    plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    plain["asked"] = [Asked(**each) for each in plain["asked"]]
    return QuestionSet(**plain)
