"""Any interleaving of writes, publications, merges, reopenings and processes answers correctly."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from support.index_model import MemoryChangeLog, WordAnalyzer, assert_ranked_as, bm25_scores
from triptych.records import SparseVector
from triptych_backends.index import LocalIndex, OwnedBy, Under, compact
from triptych_backends.index.selection import both

pytestmark = pytest.mark.property

WORDS = ["a", "b", "c", "dd", "täg", "標題", "abcdefghi", "abcdefghj"]
HEADINGS = ["Intro", "intro", "Straße", "End"]
QUERY = "a dd 標題 a abcdefghj"
WIDTH = 4
UPSETS = ["reset", "space", "encoder", "german", "english", "log", "drop", "folder"]
datasets = st.sampled_from(["x", "x", "y/\u0000z"])
owners = st.integers(1, 9)
chunks = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
        st.lists(st.sampled_from(HEADINGS), max_size=2).map(tuple),
        st.one_of(st.none(), st.integers(0, 5)),
        st.one_of(st.none(), st.integers(0, 5)),
    ),
    max_size=4,
)


def row(seed: int | None) -> np.ndarray | None:
    if seed is None:
        return None
    vector = np.random.default_rng(seed).normal(size=WIDTH)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def sparse(seed: int | None) -> SparseVector | None:
    """Some terms of few, so that vectors share them; a seed of 0 has none."""
    if seed is None:
        return None
    generator = np.random.default_rng(seed)
    terms = generator.choice([0, 1, 2, 7, 2**16, 2**32 - 1], min(seed, 4), replace=False)
    return SparseVector.of(terms, generator.random(len(terms)).astype(np.float32))


class Complaints(logging.Handler):
    """Keeps what is logged: an index that heals itself must not have had to."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


class IndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.complaints = Complaints()
        logging.getLogger("triptych.index").addHandler(self.complaints)

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.feed = MemoryChangeLog()
        self.backup = self.feed.copy()
        self.restored = 0
        # Small classes: merges happen after a few publications.
        self.limits = (compact.FAN_IN, compact.ONE_SEGMENT)
        compact.FAN_IN, compact.ONE_SEGMENT = 2, 3
        self.indexes = [self.opened(), self.opened(), LocalIndex(self.feed, analyzers=WordAnalyzer)]

    def opened(self) -> LocalIndex:
        return LocalIndex(self.feed, self.folder, analyzers=WordAnalyzer)

    def teardown(self) -> None:
        logging.getLogger("triptych.index").removeHandler(self.complaints)
        assert self.complaints.messages == []
        if hasattr(self, "feed"):
            compact.FAN_IN, compact.ONE_SEGMENT = self.limits
            for index in self.indexes:
                index.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    @rule(dataset=datasets, owner=owners, units=chunks, renamed=st.booleans())
    def put(self, dataset, owner, units, renamed) -> None:
        texts, headings, seeds, terms = zip(*units, strict=True) if units else ((), (), (), ())
        vectors = [row(seed) for seed in seeds]
        weights = [sparse(seed) for seed in terms]
        name = f"{owner % 4}-{owner}{'-new' if renamed else ''}"
        self.feed.put(
            dataset,
            owner,
            name,
            texts,
            vectors=vectors,
            headings=headings,
            sparse=weights,
            labels=texts[::-1],
        )
        self.feed.put(dataset, owner, name, [" ".join(texts)], field="document")

    @rule(dataset=datasets, owner=owners)
    def delete(self, dataset, owner) -> None:
        self.feed.delete(dataset, owner)
        self.feed.delete(dataset, owner, field="document")

    @rule(dataset=datasets, kind=st.sampled_from(UPSETS), which=st.integers(0, 2))
    def upset(self, dataset, kind, which) -> None:
        match kind:
            case "reset":
                self.feed.reset(dataset)
            case "space" | "encoder" | "german" | "english":
                space = "s" if kind == "space" else ""
                encoder = "e" if kind == "encoder" else ""
                language = "german" if kind == "german" else "english"
                self.feed.set_profile(dataset, space=space, language=language, sparse=encoder)
            case "log":
                self.feed.nonce += "'"
            case "drop":
                self.indexes[which].drop(dataset)
            case "folder":
                shutil.rmtree(self.folder, ignore_errors=True)

    @rule()
    def back_up(self) -> None:
        self.backup = self.feed.copy()

    @rule(since=st.lists(st.tuples(datasets, owners, chunks), max_size=6), live=st.booleans())
    def restore(self, since, live) -> None:
        self.indexes[0].publish()
        if live:
            self.feed.restore(self.backup)
        else:
            for index in self.indexes:
                index.close()
            self.feed = self.backup.copy()
        self.restored += 1
        self.feed.begin_epoch(str(self.restored))
        for dataset, owner, units in since:
            self.put(dataset, owner, units, renamed=True)
        if live:
            return
        self.indexes = [self.opened(), self.opened(), LocalIndex(self.feed, analyzers=WordAnalyzer)]

    @rule(which=st.integers(0, 2), dataset=st.one_of(st.none(), datasets))
    def publish(self, which, dataset) -> None:
        self.indexes[which].publish(dataset)

    @rule(which=st.integers(0, 1), publish=st.booleans())
    def reopen(self, which, publish) -> None:
        if publish:
            self.indexes[which].publish()
        self.indexes[which].close()
        self.indexes[which] = self.opened()
        self.compare_words(self.indexes[which], ["x"], 3, None, None)

    @rule(
        which=st.integers(0, 2),
        among=st.sampled_from([["x"], ["y/\u0000z"], ["x", "y/\u0000z"]]),
        limit=st.integers(1, 8),
        heading=st.one_of(st.none(), st.sampled_from(["INTRO", "STRASSE", "none"])),
        allowed=st.one_of(st.none(), st.sets(owners)),
    )
    def compare(self, which, among, limit, heading, allowed) -> None:
        index = self.indexes[which]
        self.compare_words(index, among, limit, heading, allowed)
        self.compare_vectors(index, among, limit, heading, allowed)
        self.compare_sparse(index, among, limit, heading, allowed)

    @invariant()
    def each_answers(self) -> None:
        if hasattr(self, "indexes"):
            for index in self.indexes[:2]:
                self.compare_words(index, ["x"], 3, None, None)

    def filters(self, among, heading, allowed):
        ids = np.array(sorted(allowed or ()), np.int64)
        owned = None if allowed is None else OwnedBy(dict.fromkeys(among, ids))
        under = None if heading is None else Under((heading.casefold(),))
        if owned is None or under is None:
            return {"selection": owned or under}
        return {"selection": both(owned, under)}

    def compare_words(self, index, among, limit, heading, allowed) -> None:
        if len({self.feed.profile(dataset).language for dataset in among}) > 1:
            return
        analyzer = WordAnalyzer()
        for field in ("chunk", "document"):
            corpora = {dataset: self.feed.live(dataset, field) for dataset in among}
            expected = bm25_scores(corpora, QUERY, analyzer)
            kept = {
                (dataset, unit.key)
                for dataset, units in corpora.items()
                for unit in units
                if passes(unit, heading, allowed)
            }
            expected = {place: score for place, score in expected.items() if place in kept}
            found = index.bm25(
                among, field, QUERY, limit=limit, **self.filters(among, heading, allowed)
            ).rows
            assert_ranked_as(found, expected, corpora, limit)

    def compare_vectors(self, index, among, limit, heading, allowed) -> None:
        query = row(77)
        corpora = {dataset: self.feed.live(dataset) for dataset in among}
        expected = {
            (dataset, unit.key): float(unit.vector.astype(np.float64) @ query.astype(np.float64))
            for dataset, units in corpora.items()
            for unit in units
            if unit.vector is not None and passes(unit, heading, allowed)
        }
        found = index.vector(
            among, "chunk", query, limit=limit, **self.filters(among, heading, allowed)
        )
        assert_ranked_as(found, expected, corpora, limit)

    def compare_sparse(self, index, among, limit, heading, allowed) -> None:
        query = SparseVector([0, 2, 7, 2**32 - 1], [0.5, 1.5, 0.25, 3.0])
        for encoder in ("", "e"):
            corpora = {
                dataset: self.feed.live(dataset)
                for dataset in among
                if self.feed.profile(dataset).sparse == encoder
            }
            scores = {
                (dataset, unit.key): unit.sparse.dot(query)
                for dataset, units in corpora.items()
                for unit in units
                if unit.sparse is not None and passes(unit, heading, allowed)
            }
            expected = {place: score for place, score in scores.items() if score > 0}
            chosen = self.filters(among, heading, allowed)
            found = index.sparse(among, query, limit=limit, space=encoder, **chosen)
            assert_ranked_as(found, expected, corpora, limit)
            best = {}
            for (dataset, key), score in expected.items():
                owner = next(u.owner for u in corpora[dataset] if u.key == key)
                best[dataset, owner] = max(score, best.get((dataset, owner), 0.0))
            whole = index.document_sparse(among, query, limit=99, space=encoder, **chosen)
            assert {(hit.dataset, hit.owner): hit.score for hit in whole} == {
                place: float(np.round(score, 6)) for place, score in best.items()
            }


def passes(unit, heading, allowed) -> bool:
    under = heading is None or heading.casefold() in {one.casefold() for one in unit.headings}
    return under and (allowed is None or unit.owner in allowed)


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(deadline=None, max_examples=25, stateful_step_count=30)
