"""Three hundred calls on a fresh store, drawn from a seed, and their answers as lines of JSON.

Run it on two trees, and on two stores, and compare what they print: `diff` shows what a change
of the code changed for a caller. The calls are the owner's, those of restricted callers, of named
pipelines and of a second process, at present or as of a moment between two earlier calls; copies
are made and read between them. Moments, durations and random ids are left out.

    python tools/recorded_calls.py memory:// > memory.jsonl
    python tools/recorded_calls.py sqlite:////tmp/kb.db --seed 2 > sqlite.jsonl
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import json
import multiprocessing
import random
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import attrs
import numpy as np

import triptych
from triptych.access import Access
from triptych.copies import copy_store
from triptych.records import Generation, NewDocument, SparseVector, Usage
from triptych.search.pipeline_record import Pipeline

WORDS = (
    *("tea", "water", "kettle", "harbour", "boat", "mooring", "rope", "anchor", "tide", "wind"),
    *("storm", "sail", "fee", "price", "list", "berth", "captain", "crew", "engine", "fuel"),
    *("chart", "light", "night", "morning", "rule", "fire", "alarm", "exit", "plan", "repair"),
)
DATASETS = ("notes", "rules", "none")
NAMES = tuple(f"{folder}{letter}.md" for folder in ("", "port/", "port/old/") for letter in "abcd")
SKIPPED = re.compile(
    r"(_at|_ms|seconds|took|moment|duration|cursor|receipt|epoch|secret|fence|trace|mark|count|conversation|sent|prompt)$"
)


class Sparse:
    """The words of a text as terms, by how often they stand in it."""

    signature = "words"
    vocabulary_size = len(WORDS)

    def encode(self, texts: Sequence[str], *, kind: Any) -> Sequence[SparseVector]:
        counts = [[text.lower().count(word) for word in WORDS] for text in texts]
        held = [[at for at, count in enumerate(each) if count] for each in counts]
        return [
            SparseVector(np.array(terms, np.uint32), np.array(each, np.float32)[terms])
            for terms, each in zip(held, counts, strict=True)
        ]


class Model:
    """Cites the first source for whatever it is asked."""

    signature = "first"

    def generate(self, messages: Sequence[Any], *, max_tokens: int) -> Generation:
        return Generation(
            "It is as the first source says [1].", Usage(input_tokens=1, output_tokens=1)
        )

    def stream(self, messages: Sequence[Any], *, max_tokens: int) -> Iterator[str]:
        yield self.generate(messages, max_tokens=max_tokens).text


CALLERS = {
    "reader of red": Access(where={"colour": "red"}),
    "writer of port": Access(can_write=True, where={"doc_prefix": "port/"}),
    "writer of rules": Access(can_write=True, dataset_ids=["rules"]),
    "agent": Access(can_write=True, agent=True, dataset_ids=DATASETS[:2]),
}
PIPELINES = (
    Pipeline(name="short", search={"top_k": 2, "mode": "hybrid"}, token_budget=60),
    Pipeline(name="large", datasets=["notes"], search={"where": {"size": {"$gte": 5}}}),
    Pipeline(name="words", lanes=["bm25"], ranker=triptych.RRFRanker(k=10)),
)
OF_A_PIPELINE = ("search", "search_documents", "context", "ask", "explain")


def opened(url: str) -> Any:
    sparse = None if url.startswith("qdrant") else Sparse()
    return triptych.open(
        url, embedder="hash", llm=Model(), sparse_encoder=sparse, pipelines=PIPELINES
    )


MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+(?:Z|\+00:00)")
"""What a difference of versions says of when one expires."""


def plain(value: Any) -> Any:
    """``value`` as JSON: records by their fields, sets in order, numbers to nine digits."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, str):
        return MOMENT.sub("moment", value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, datetime):
        return "moment"
    if isinstance(value, bytes):
        return value.hex()
    if attrs.has(type(value)):
        names = [each.name for each in attrs.fields(type(value)) if not each.name.startswith("_")]
        return {name: plain(getattr(value, name)) for name in names if not SKIPPED.search(name)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in sorted(value.items(), key=str)}
    if isinstance(value, set | frozenset):
        return sorted((plain(each) for each in value), key=str)
    if isinstance(value, Sequence):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    return type(value).__name__


def answered(of: Any, name: str, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The answer of a call and its warnings, both plain."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if name == "copy":
                answer = copied(of, *args)
            else:
                answer = plain(getattr(of, name)(*args, **options))
        except triptych.TriptychError as error:
            answer = {"error": type(error).__name__, "message": plain(str(error))}
    return answer, sorted(str(each.message) for each in caught)


def copied(kb: Any, words: str) -> Any:
    """What is found in a copy, beside what it holds."""
    with opened("memory://") as copy:
        report = [
            plain(attrs.evolve(each, digest=""))
            for each in copy_store(kb.store, copy.store).datasets
        ]
        documents = [copy.list_documents(each) for each in copy.list_datasets()]
        found = copy.search(words, scope="all")
        return plain([report, documents, copy.stats(), copy.changes(limit=3), found])


_in_second: list[Any] = []


def _begin_second(url: str) -> None:
    _in_second.append(opened(url))


def _answer_in_second(name: str, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    return answered(_in_second[0], name, args, options)


@contextlib.contextmanager
def second_process(url: str) -> Iterator[Any]:
    """What answers a call in another process that has the store open, if the store allows two."""
    if url.startswith("memory"):
        yield None
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, _begin_second, (url,)) as pool:
        yield lambda *call: pool.submit(_answer_in_second, *call).result()


class Calls:
    """One drawn call after another; the same seed draws the same ones.

    ``second`` answers the calls of the second process; None: this process does.
    """

    def __init__(self, kb: Any, seed: int, second: Any = None) -> None:
        self._kb = kb
        self._random = random.Random(seed)
        self._moments: list[datetime] = []
        self._cursor: str | None = None
        self._second = second or partial(answered, kb)
        kinds: dict[Callable[[], tuple[str, tuple[Any, ...], dict[str, Any]]], int] = {
            self._put: 8, self._bulk: 3, self._search: 14, self._context: 4, self._read: 6,
            self._listed: 6, self._metadata: 3, self._delete: 3, self._layer: 3, self._ask: 2,
            self._upkeep: 4, self._dataset: 1, self._explain: 2, self._changes: 2, self._copy: 1,
        }  # fmt: skip
        self._kinds, self._weights = list(kinds), list(kinds.values())
        for dataset_id in DATASETS[:2]:
            kb.create_dataset(dataset_id)
        self._restricted = {name: kb.restricted(access) for name, access in CALLERS.items()}

    def next(self) -> dict[str, Any]:
        name, args, options = self._random.choices(self._kinds, self._weights)[0]()
        caller = self._caller(name)
        # A moment must lie after what the call before wrote, and before what this one writes.
        time.sleep(0.002)
        self._moments.append(datetime.now(UTC))
        time.sleep(0.002)
        if caller == "second process":
            answer, said = self._second(name, args, options)
        else:
            answer, said = answered(self._of(caller), name, args, options)
        if name == "changes" and caller == "owner" and "error" not in answer:
            self._cursor = self._kb.changes(*args, **options).cursor
        shown = [each is not None for each in args] if name == "changes" else args
        call = [name, plain(shown), plain(options)]
        return {"by": caller, "call": call, "answer": answer, "warnings": said}

    def _caller(self, name: str) -> str:
        draw = self._random
        drawn = draw.choices(["owner", "restricted", "pipeline", "second process"], [12, 5, 3, 3])
        if drawn == ["restricted"] and name != "copy":
            return draw.choice(list(CALLERS))
        if drawn == ["pipeline"] and name in OF_A_PIPELINE:
            return draw.choice([each.name for each in PIPELINES])
        return "second process" if drawn == ["second process"] else "owner"

    def _of(self, caller: str) -> Any:
        if caller == "owner":
            return self._kb
        return self._restricted.get(caller) or self._kb.pipeline(caller)

    def _text(self) -> str:
        draw = self._random
        lengths = [draw.randint(3, 60) for _ in range(draw.randint(1, 4))]
        passages = [" ".join(draw.choices(WORDS, k=length)) for length in lengths]
        return "\n\n".join(f"# {draw.choice(WORDS)}\n\n{each}." for each in passages)

    def _given(self) -> dict[str, Any]:
        draw = self._random
        given: dict[str, Any] = {
            "metadata": {"colour": draw.choice(["red", "blue"]), "size": draw.randint(1, 9)}
        }
        if draw.random() < 0.15:
            days = draw.choice([-1, 30])
            given["expires_at"] = datetime.now(UTC) + timedelta(days=days)
        return given

    def _where(self) -> dict[str, Any]:
        draw = self._random
        wheres: list[Any] = [None] * 4 + [
            {"colour": "red"}, {"size": {"$gt": 4}}, {"$name": {"$gte": "port/"}},
            {"$or": [{"colour": "blue"}, {"size": {"$in": [1, 2]}}]},
            {"colour": {"$exists": False}},
        ]  # fmt: skip
        where = draw.choice(wheres)
        return {} if where is None else {"where": where}

    def _place(self) -> tuple[str, str]:
        return self._random.choice(DATASETS[:2]), self._random.choice(NAMES)

    def _put(self) -> Any:
        return "put_document", (*self._place(), self._text()), self._given()

    def _bulk(self) -> Any:
        names = self._random.sample(NAMES, 3)
        documents = [
            NewDocument(name=name, content=self._text(), **self._given()) for name in names
        ]
        return "put_documents", (self._random.choice(DATASETS[:2]), documents), {}

    def _options(self) -> dict[str, Any]:
        draw = self._random
        one, several = draw.choice(DATASETS), list(DATASETS[:2])
        options: dict[str, Any] = draw.choice(
            [{"dataset_id": one}, {"dataset_ids": several}, {"scope": "all"}]
        )
        if draw.random() < 0.12 and self._moments:
            options["as_of"] = draw.choice(self._moments)
        return {**options, **self._where()}

    def _search(self) -> Any:
        draw = self._random
        options = {**self._options(), "top_k": draw.choice([1, 3, 10])}
        options["mode"] = draw.choice(["bm25", "vector", "hybrid"])
        name = draw.choice(["search", "search", "search", "search_documents"])
        if name == "search" and draw.random() < 0.2:
            options["layer"] = draw.choice(["L0", "L1"])
        return name, (" ".join(draw.choices(WORDS, k=draw.randint(1, 4))),), options

    def _context(self) -> Any:
        query = " ".join(self._random.choices(WORDS, k=3))
        options = {**self._options(), "counter": str.__len__}
        return "context", (query, self._random.choice([40, 400, 2000])), options

    def _ask(self) -> Any:
        return (
            "ask",
            (" ".join(self._random.choices(WORDS, k=3)),),
            {**self._options(), "counter": str.__len__},
        )

    def _explain(self) -> Any:
        draw = self._random
        words = " ".join(draw.choices(WORDS, k=2))
        dataset_id, doc_name = self._place()
        return "explain", (words, doc_name), {"dataset_id": dataset_id, **self._where()}

    def _changes(self) -> Any:
        since = self._random.choice([None, self._cursor])
        return "changes", (since,), {"limit": self._random.choice([2, 50])}

    def _copy(self) -> Any:
        return "copy", (self._random.choice(WORDS),), {}

    def _read(self) -> Any:
        name = self._random.choice(["get_document", "get_document", "history", "layer", "diff"])
        after: tuple[Any, ...] = {"layer": ("L0",), "diff": (1,)}.get(name, ())
        return name, (*self._place(), *after), {}

    def _listed(self) -> Any:
        draw = self._random
        name = draw.choice(["list_documents", "count_documents", "stats", "layers"])
        options = self._where() if name.endswith("documents") else {}
        if name == "list_documents" and draw.random() < 0.5:
            options = {**options, "sort": draw.choice(["-$name", "size"]), "limit": 4}
        return name, (draw.choice(DATASETS),), options

    def _metadata(self) -> Any:
        changes = {"colour": self._random.choice(["red", "green", None])}
        options = self._where() or {"names": [self._place()[1]]}
        return "update_metadata", (self._random.choice(DATASETS[:2]), changes), options

    def _delete(self) -> Any:
        name = self._random.choice(["delete_document", "purge", "restore", "remove_expired"])
        if name == "restore":
            return name, (*self._place(), self._random.randint(1, 3)), {}
        return name, (self._place()[0],) if name == "remove_expired" else self._place(), {}

    def _layer(self) -> Any:
        layer = self._random.choice(["L0", "L1"])
        return (
            "put_document_layer",
            (*self._place(), layer, f"Of {self._random.choice(WORDS)}."),
            {},
        )

    def _upkeep(self) -> Any:
        name = self._random.choice(["rebuild", "doctor", "embed_pending", "list_datasets"])
        if name == "rebuild":
            return name, (), {"dataset_id": DATASETS[0]}
        return name, (DATASETS[0],) if name == "embed_pending" else (), {}

    def _dataset(self) -> Any:
        name = self._random.choice(["create_dataset", "configure_dataset"])
        return name, (self._random.choice(DATASETS[:2]),), {"language": "english"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with opened(options.url) as kb, second_process(options.url) as second:
        calls = Calls(kb, options.seed, second)
        for _ in range(options.calls):
            sys.stdout.write(json.dumps(calls.next(), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
