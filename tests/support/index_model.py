"""A truth in dictionaries for the tests of the local index, and an oracle that shares no code."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from attrs import define, evolve, field
from numpy.typing import NDArray

from triptych.records import SparseVector
from triptych_backends.index import Change, Field, IndexConfig, LogPosition, Rows, Scored, Unit


class WordAnalyzer:
    """Words between spaces, case folded; a language marks its own terms."""

    def __init__(self, language: str = "english") -> None:
        self.language = language
        self.signature = f"words:{language}"
        self._suffix = "" if language == "english" else f"+{language}"

    def analyze_query(self, text: str) -> list[str]:
        return [word.casefold() + self._suffix for word in text.split()]

    def variants(self, text: str) -> dict[str, tuple[str, ...]]:
        return {term: (term,) for term in self.analyze_query(text)}

    def numbering(self, terms: dict[str, int], compiled: object = None) -> WordNumbering:
        return WordNumbering(self, terms)


@define
class WordNumbering:
    analyzer: WordAnalyzer
    terms: dict[str, int]

    def encode_all(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        every = [self.analyzer.analyze_query(text) for text in texts]
        numbers = [self.terms.setdefault(word, len(self.terms)) for one in every for word in one]
        return np.array(numbers, np.int32), np.array(list(map(len, every)), np.int64)

    def in_language(self, texts, known, labels, of_labels):
        return known, of_labels


@define
class Owner:
    name: str
    units: list[Unit] = field(factory=list)


class MemoryChangeLog:
    """The truth of many datasets. `calls` counts what the index asked for."""

    def __init__(self, nonce: str = "first") -> None:
        self.nonce = nonce
        self.seq = 0
        self.held: dict[tuple[str, Field], dict[int, Owner]] = {}
        self.log: dict[str, dict[tuple[Field | None, int], int]] = {}
        self.profiles: dict[str, IndexConfig] = {}
        self.by_key: dict[int, Unit] = {}
        self.epochs: list[tuple[int, str]] = [(0, "first")]
        self.calls: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._next = 0

    def put(
        self,
        dataset: str,
        owner: int,
        name: str,
        texts: Sequence[str],
        *,
        vectors: Sequence[np.ndarray | None] | None = None,
        headings: Sequence[tuple[str, ...]] | None = None,
        sparse: Sequence[SparseVector | None] | None = None,
        labels: Sequence[str] = (),
        field: Field = "chunk",
    ) -> None:
        with self._lock:
            units = []
            for at, text in enumerate(texts):
                self._next += 1
                unit = Unit(
                    owner=owner,
                    key=self._next,
                    name=name,
                    index=at if field == "chunk" else -1,
                    text=text,
                    label=labels[at] if labels else "",
                    headings=headings[at] if headings else (),
                    vector=vectors[at] if vectors else None,
                    sparse=sparse[at] if sparse else None,
                )
                units.append(unit)
            self._forget(dataset, field, owner)
            self.by_key.update((unit.key, unit) for unit in units)
            self.held.setdefault((dataset, field), {})[owner] = Owner(name, units)
            self._log(dataset, field, owner)

    def delete(self, dataset: str, owner: int, *, field: Field = "chunk") -> None:
        with self._lock:
            self._forget(dataset, field, owner)
            if self.held.get((dataset, field), {}).pop(owner, None) is not None:
                self._log(dataset, field, owner)

    def reset(self, dataset: str) -> None:
        with self._lock:
            for (of, name), owners in self.held.items():
                if of == dataset:
                    for owner in owners:
                        self._log(dataset, name, owner)
            self._log(dataset, None, 0)

    def set_profile(
        self, dataset: str, *, language: str = "english", space: str = "", sparse: str = ""
    ) -> None:
        with self._lock:
            self.profiles[dataset] = IndexConfig(language=language, space=space, sparse=sparse)
            self.reset(dataset)

    def _forget(self, dataset: str, field: Field, owner: int) -> None:
        known = self.held.get((dataset, field), {}).get(owner)
        for unit in known.units if known else ():
            del self.by_key[unit.key]

    def _log(self, dataset: str, field: Field | None, owner: int) -> None:
        self.seq += 1
        entries = self.log.setdefault(dataset, {})
        entries.pop((field, owner), None)  # what changed last comes last
        entries[field, owner] = self.seq

    def live(self, dataset: str, field: Field = "chunk") -> list[Unit]:
        with self._lock:
            owners = self.held.get((dataset, field), {})
            return [unit for owner in owners.values() for unit in owner.units]

    def copy(self) -> MemoryChangeLog:
        """The same truth as of now."""
        other = MemoryChangeLog(self.nonce)
        other.seq, other._next = self.seq, self._next
        other.held = {
            place: {number: evolve(owner) for number, owner in owners.items()}
            for place, owners in self.held.items()
        }
        other.log = {dataset: dict(entries) for dataset, entries in self.log.items()}
        other.profiles = dict(self.profiles)
        other.by_key = dict(self.by_key)
        other.epochs = list(self.epochs)
        return other

    def restore(self, copy: MemoryChangeLog) -> None:
        """Become `copy`, beneath whoever reads."""
        with self._lock:
            vars(self).update({**vars(copy.copy()), "_lock": self._lock, "calls": self.calls})

    def begin_epoch(self, mark: str) -> None:
        """What every truth does that is opened to be written to."""
        self.epochs.append((self.seq + 1, mark))

    # What the index calls.

    def head(self) -> LogPosition:
        with self._lock:
            return LogPosition(nonce=self.nonce, seq=self.seq, epoch=self.epoch(self.seq) or "")

    def changes(self, dataset: str, after: int) -> list[Change]:
        with self._lock:
            self.calls["changes"] += 1
            found = []
            for (field, owner), seq in reversed(self.log.get(dataset, {}).items()):
                if seq <= after:
                    break
                found.append(Change(seq=seq, field=field, owner=owner))
            return found[::-1]

    def owners(self, dataset: str, field: Field, after: int, limit: int) -> list[int]:
        with self._lock:
            every = sorted(self.held.get((dataset, field), {}))
        return [owner for owner in every if owner > after][:limit]

    def units(self, dataset: str, field: Field, owners: Sequence[int]) -> Iterator[Unit]:
        with self._lock:
            self.calls["units"] += 1
            known = self.held.get((dataset, field), {})
            found = [unit for owner in owners if owner in known for unit in known[owner].units]
        return iter(found)

    def vectors(self, dataset: str, keys: Sequence[int]) -> Rows:
        with self._lock:
            self.calls["vectors"] += 1
            found = [self.by_key[key] for key in keys if key in self.by_key]
            kept = [(unit.key, unit.vector) for unit in found if unit.vector is not None]
        rows = np.stack([row for _, row in kept]) if kept else np.empty((0, 0), np.float32)
        return Rows([key for key, _ in kept], rows)

    def profile(self, dataset: str) -> IndexConfig:
        return self.profiles.get(dataset, IndexConfig(language="english", space=""))

    def epoch(self, seq: int) -> str | None:
        return next(mark for first, mark in reversed(self.epochs) if first <= seq)

    def flush(self) -> None:
        self.calls["settle"] += 1


def bm25_scores(
    corpora: dict[str, list[Unit]], query: str, analyzer: WordAnalyzer
) -> dict[tuple[str, int], float]:
    """Lucene's BM25 in plain Python: (dataset, key) -> score of every unit that matches.

    A word of a label is half a word, so that words are counted in halves, and k1 is as well.
    """
    texts = {
        (dataset, unit.key): [*unit.text.casefold().split() * 2, *unit.label.casefold().split()]
        for dataset, units in corpora.items()
        for unit in units
    }
    if not any(texts.values()):
        return {}
    average = sum(map(len, texts.values())) / len(texts)
    frequency = Counter(term for words in texts.values() for term in set(words))
    terms = sorted(analyzer.analyze_query(query))
    scores = {}
    for place, words in texts.items():
        counts = Counter(words)
        score = 0.0
        for term in terms:
            if counts[term]:
                idf = math.log(1 + (len(texts) - frequency[term] + 0.5) / (frequency[term] + 0.5))
                weight = 2 * 1.2 * (0.25 + 0.75 * len(words) / average)
                score += idf * counts[term] / (counts[term] + weight)
        if any(counts[term] for term in terms):
            scores[place] = score
    return scores


def assert_ranked_as(
    found: list[Scored],
    expected: dict[tuple[str, int], float],
    corpora: dict[str, list[Unit]],
    limit: int,
) -> None:
    """`found` is the `limit` best of `expected`, ties by name, index, dataset."""
    units = {(dataset, unit.key): unit for dataset, some in corpora.items() for unit in some}
    assert len(found) == min(limit, len(expected))
    places = [(hit.dataset, hit.key) for hit in found]
    assert len(set(places)) == len(places)
    for hit, place in zip(found, places, strict=True):
        unit = units[place]
        assert (hit.owner, hit.name, hit.index) == (unit.owner, unit.name, unit.index)
        assert abs(hit.score - expected[place]) <= 0.51e-6
    order = [(-hit.score, hit.name, hit.index, hit.dataset) for hit in found]
    assert order == sorted(order)
    for place in expected.keys() - set(places):
        unit, score = units[place], expected[place]
        assert score <= found[-1].score + 0.51e-6
        # A score within rounding of a boundary may fall on either side of it.
        if not _near_half(score):
            assert (-round(score, 6), unit.name, unit.index, place[0]) > order[-1]


def _near_half(score: float) -> bool:
    return abs((score * 1e6) % 1 - 0.5) < 1e-3
