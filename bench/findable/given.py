"""Sets of questions from zips that are given: collections in BEIR layout and two documentations."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from build_collections import QUESTIONS, Made, fastapi, rust_book
from findable.sets import SEED, Asked, QuestionSet
from triptych_evaluation import read_beir

MOST = 500
_KNOWN: Mapping[str, Callable[[Path], Made]] = {"fastapi-docs": fastapi, "rust-book": rust_book}


def given(path: Path) -> QuestionSet:
    """The set of a zip, which has the zip's name."""
    if path.stem in _KNOWN:
        made = _KNOWN[path.stem](path.parent)
        asked = [
            Asked(text=text, answers=dict.fromkeys(made.answers[each], ()))
            for each, text in made.queries.items()
        ]
        return QuestionSet(name=path.stem, metric="ndcg", texts=made.documents, asked=asked)
    collection = read_beir(path)
    assert collection.documents is not None
    documents = list(collection.documents())
    queries = [each for each in collection.queries if any(g > 0 for g in each.grades.values())]
    chosen = random.Random(SEED).sample(queries, min(MOST, len(queries)))
    return QuestionSet(
        name=path.stem,
        metric="ndcg",
        texts={each.name: each.content for each in documents},
        titles={
            each.name: str(each.metadata["title"])
            for each in documents
            if each.metadata.get("title")
        },
        asked=[
            Asked(text=each.text, answers={name: () for name, g in each.grades.items() if g > 0})
            for each in chosen
        ],
    )


def contexts(path: Path) -> QuestionSet:
    """The questions on FastAPI with the passages that answer them."""
    made = _KNOWN[path.stem](path.parent)
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    asked = [
        Asked(
            text=row["question"],
            answers={},
            passages=[(each["document"], each["start"], each["end"]) for each in row["evidence"]],
        )
        for row in rows
    ]
    return QuestionSet(
        name=f"context {path.stem}", metric="context", texts=made.documents, asked=asked
    )


def chinese_pages(path: Path) -> QuestionSet:
    """The English questions on FastAPI, asked of the Chinese pages alone."""
    folder = "fastapi-zh/docs/zh/docs/"
    with zipfile.ZipFile(path) as files:
        texts = {
            each.removeprefix(folder): files.read(each).decode("utf-8")
            for each in files.namelist()
            if each.startswith(folder) and each.endswith(".md")
        }
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    asked = []
    for row in rows:
        pages = {each["document"] for each in row["evidence"]} & texts.keys()
        if pages:
            asked.append(Asked(text=row["question"], answers=dict.fromkeys(sorted(pages), ())))
    return QuestionSet(
        name="languages en-zh-pages multilingual",
        metric="ndcg",
        texts=texts,
        asked=asked,
        embedder="local-multilingual",
    )
