"""The local index: searches over what the truth says now."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import Lock

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych._internal.close_on_exit import CloseOnExit
from triptych._internal.one_state import held
from triptych._internal.turns import SEARCHES
from triptych.errors import TriptychError
from triptych.records import SparseVector
from triptych.text import Analyzer, CorpusStats, get_analyzer
from triptych_backends.index import bm25
from triptych_backends.index.bm25 import WordRanking
from triptych_backends.index.change_log import ChangeLog, Field, Scored
from triptych_backends.index.compact import Effort
from triptych_backends.index.dataset import DatasetIndex
from triptych_backends.index.folder import Folder
from triptych_backends.index.helper import IndexHelper
from triptych_backends.index.ranking import SLACK, Bar, RankedUnits, rank
from triptych_backends.index.segment import DamagedError, SegmentReader
from triptych_backends.index.selection import (
    Part,
    Selection,
    Snapshot,
    Stats,
    bounded,
    parts_of,
    stats,
)
from triptych_backends.index.vector_search import (
    RowScanner,
    best_documents,
    best_units,
    checked,
    nearest,
    nearest_documents,
)

# A process that ends with a smaller delta leaves it to the next one's replay: publishing costs
# several syncs of the disk, replaying so few units some milliseconds.
PUBLISH_AT_CLOSE = 200

logger = logging.getLogger("triptych.index")


@attrs.define(eq=False, slots=False)
class LocalIndex(CloseOnExit):
    """Keyword and vector search over a truth's change feed; see the package's docstring.

    Every search first replays the changes that it has not seen: what was committed before the
    search began is found. Thread-safe. `path` is the folder that the index may use, and that may
    be deleted at any time; None keeps all in memory. A `helper` publishes there during bulk writes
    (see `written`). With `keeps_words`, what a batch taught is
    kept for the next one, which takes memory. `feed` is the truth that it follows, `analyzers`
    gives what texts of a language are indexed with.
    """

    feed: ChangeLog
    _path: Path | None = None
    analyzers: Callable[[str], Analyzer] = attrs.field(default=get_analyzer, kw_only=True)
    _helper: IndexHelper | None = attrs.field(default=None, kw_only=True)
    _keeps_words: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self._begin()

    def bm25(
        self,
        datasets: Sequence[str],
        field: Field,
        query: str,
        *,
        limit: int,
        selection: Selection | None = None,
        corpus: Selection | None = None,
    ) -> WordRanking:
        """The units with the best BM25 scores, min(limit, matches) of them.

        Statistics are pooled over `datasets`; `selection`, which restricts to some units, does
        not touch them, and `corpus` names the units that they are of (None: all). Equal scores
        (rounded to 1e-6) rank by name, index, dataset.
        """
        snapshots = self.fresh(datasets)
        SEARCHES.pass_on("the search")
        views, corpora = bounded(snapshots, field, corpus)
        # Only where a text is in another language than English do terms have variants.
        languages = any(map(attrgetter("segment.text.vocabulary.prefixes_of_languages"), views))
        asked: dict[str, dict[str, int]] = {}
        variants: dict[str, Mapping[str, Sequence[str]]] = {}
        for name in dict.fromkeys(map(attrgetter("language"), snapshots.values())):
            analyzer, repeats = self.analyzers(name), dict[str, int]()
            for term in analyzer.analyze_query(query):
                repeats[term] = repeats.get(term, 0) + 1
            asked[name], plain = repeats, dict(zip(repeats, zip(repeats), strict=True))
            variants[name] = analyzer.variants(query) if languages else plain
        pooled = bm25.pooled(variants.values())
        if not pooled:
            return WordRanking([])
        numbers = bm25.find(views, sorted(set().union(*pooled.values())))
        statistics = bm25.statistics(views, numbers, corpora)
        pooled_stats = statistics if len(asked) == 1 else None
        if limit <= 0:
            return WordRanking([], variants=pooled, statistics=pooled_stats)
        SEARCHES.pass_on("the search")
        known = dict(zip(map(id, views), numbers, strict=True))
        weights, parts = {}, []
        for name, repeats in asked.items():
            weights[name] = bm25.weigh(statistics, repeats, variants[name])
        for dataset, snapshot in snapshots.items():
            of_words = weights[snapshot.language]
            for view in snapshot.views(field):
                # The most that a unit can score: each term's part is less than its weight.
                most = sum(map(of_words.terms.get, known[id(view)], repeat(0.0)))
                parts.append((most, dataset, view, of_words))
        found: list[RankedUnits] = []
        bar = Bar(limit)
        # First where the most can be found: many of the others then cannot reach it.
        for most, dataset, view, of_words in sorted(parts, key=itemgetter(0), reverse=True):
            if most <= max(bar.value - SLACK, 0.0):
                break
            allowed = None if selection is None else selection.units(dataset, view.segment)
            if allowed is not None and not len(allowed):
                continue
            SEARCHES.pass_on("the search")
            units, scores = bm25.top(
                view, known[id(view)], of_words, limit, allowed=allowed, bar=bar.value
            )
            found.append(RankedUnits(dataset, view, units, scores))
            if len(parts) > 1:
                bar.add(scores)
        return WordRanking(*rank(found, limit), pooled, found, known, pooled_stats)

    def corpus_stats(
        self,
        datasets: Sequence[str],
        field: Field,
        terms: Sequence[str],
        *,
        corpus: Selection | None = None,
    ) -> CorpusStats:
        """The statistics that `bm25` scores these terms by."""
        views, corpora = bounded(self.fresh(datasets), field, corpus)
        each = dict(zip(terms, zip(terms), strict=True))
        numbers = bm25.find(views, list(each))
        return bm25.statistics(views, numbers, corpora).corpus_stats(each)

    def vector(
        self,
        datasets: Sequence[str],
        field: Field,
        vector: NDArray[np.float32],
        *,
        limit: int,
        selection: Selection | None = None,
        space: str | None = None,
    ) -> list[Scored]:
        """The units whose vectors have the greatest dot product with `vector`.

        Datasets whose vectors are of another embedding space than `space` are left out (None:
        none are). Filters and ties are those of `bm25`.

        Raises ValidationError when `vector` is not finite, ModelMismatchError when it is not as
        wide as the datasets' vectors.
        """
        return self._nearest(nearest, datasets, field, vector, limit, selection, space)

    def document_vector(
        self,
        datasets: Sequence[str],
        vector: NDArray[np.float32],
        *,
        limit: int,
        selection: Selection | None = None,
        space: str | None = None,
    ) -> list[Scored]:
        """The documents with the nearest chunks: each once, with its best chunk's key and index.

        A document's score is the maximum over all of its chunks. Raises as `vector` does.
        """
        return self._nearest(nearest_documents, datasets, "chunk", vector, limit, selection, space)

    def _nearest(
        self,
        lane: Callable[..., list[RankedUnits]],
        datasets: Sequence[str],
        field: Field,
        vector: NDArray[np.float32],
        limit: int,
        selection: Selection | None,
        space: str | None,
    ) -> list[Scored]:
        parts = [
            part
            for dataset, snapshot in self.fresh(datasets).items()
            if space is None or snapshot.space == space
            for part in parts_of(dataset, snapshot.views(field), selection)
        ]
        query = checked(vector, parts)
        if limit <= 0:
            return []
        try:
            return rank(lane(parts, query, limit, self.feed.vectors, self._scanner), limit)[0]
        except DamagedError as error:
            for part in parts:
                if str(part.view.segment.file) in str(error):
                    self._dataset(part.dataset).forget(part.view, error)
                    (held(self, dict[str, Snapshot]) or {}).pop(part.dataset, None)
            return self._nearest(lane, datasets, field, vector, limit, selection, space)

    def sparse(
        self,
        datasets: Sequence[str],
        vector: SparseVector,
        *,
        limit: int,
        selection: Selection | None = None,
        space: str,
    ) -> list[Scored]:
        """The chunks whose sparse vectors have the greatest dot product with `vector`, exactly.

        Only those that share a term with it, in datasets whose sparse vectors are of the encoder
        `space`. Filters and ties are those of `bm25`.
        """
        parts = self._sparse_parts(datasets, selection, space) if limit > 0 else []
        return rank([best_units(part, vector, limit) for part in parts], limit)[0]

    def document_sparse(
        self,
        datasets: Sequence[str],
        vector: SparseVector,
        *,
        limit: int,
        selection: Selection | None = None,
        space: str,
    ) -> list[Scored]:
        """The documents with the best chunks: each once, with its best chunk's key and index."""
        parts = self._sparse_parts(datasets, selection, space) if limit > 0 else []
        return rank([best_documents(part, vector) for part in parts], limit)[0]

    def _sparse_parts(
        self, datasets: Sequence[str], selection: Selection | None, space: str
    ) -> list[Part]:
        return [
            part
            for dataset, snapshot in self.fresh(datasets).items()
            if snapshot.sparse == space
            for part in parts_of(dataset, snapshot.views("chunk"), selection)
            if part.view.segment.sparse
        ]

    def publish(self, dataset: str | None = None, effort: Effort = "usual") -> bool:
        """Merge the delta of one dataset, or of all, and write it to the folder.

        `effort` says what is merged with it; see `triptych_backends.index.compact.plan`.
        Happens by itself in a thread of its own when a delta has grown, and in `close`. False
        where another process was at it, or the folder cannot be written.
        """
        names = [dataset] if dataset is not None else list(self._datasets)
        self.fresh(names, publishes=False)
        done = True
        for name, index in list(self._datasets.items()):
            if dataset is None or name == dataset:
                done &= index.publish(effort) or not index.pending
        return done

    def sweep(self, dataset: str) -> None:
        """Remove the files that only what was published before refers to.

        A reader that is opening them opens what is published now.
        """
        self._dataset(dataset).sweep()

    def written(self, dataset: str, chunks: int) -> None:
        """Take note that so many chunks of a dataset were committed by this process.

        When many have been, and nobody searches them, the helper begins to publish them.
        """
        self._unseen[dataset] = self._unseen.get(dataset, 0) + chunks
        if self._helper is not None:
            self._helper.written(dataset, chunks)

    def stats(self, dataset: str) -> Stats:
        """What the index of a dataset is made of now."""
        snapshot = self.fresh([dataset])[dataset]
        return stats(snapshot, self._dataset(dataset).pending)

    @property
    def helper_process(self) -> int | None:
        """The id of the helper process that runs now, None without one."""
        return None if self._helper is None else self._helper.process_id

    def views(self, dataset: str, field: Field) -> Sequence[SegmentReader]:
        """The segments of one field as a search that starts now sees them."""
        return self.fresh([dataset])[dataset].views(field)

    def folder(self, dataset: str) -> Folder | None:
        """Where the dataset's index is published, None when it is kept in memory."""
        if self._path is None:
            return None
        # Any name is safe there, whatever characters it has.
        place = hashlib.sha256(dataset.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return Folder(self._path / place, dataset, partial(self.feed.vectors, dataset))

    def drop(self, dataset: str) -> None:
        """Forget a dataset, its files included; a later search builds its index again.

        Raises OSError when the files cannot be removed.
        """
        index = self._dataset(dataset)
        self._stop_helper()
        with self._lock:
            self._datasets.pop(dataset, None)
        index.drop()

    def erase(self) -> None:
        """Forget everything, and remove the folder; a later search builds the index again."""
        self.close(publish=False)
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)

    def fresh(self, datasets: Sequence[str], *, publishes: bool = True) -> dict[str, Snapshot]:
        """Snapshots that have all changes; ``publishes`` lets a thread publish one that grew.

        In `one_state` a dataset's is always the same, and of the state that the truth is read in
        after it. Where another thread replays, that state is newer than what was read before.
        """
        known = held(self, dict[str, Snapshot])
        if known is None:
            return self._caught_up(datasets, publishes)
        while missing := sorted(set(datasets).difference(known)):
            found = self._caught_up(missing, publishes)
            now = held(self, dict[str, Snapshot])
            if now is not None and now is not known:
                known = now  # an older state was let go of
            else:
                known.update(found)
        return dict(zip(datasets, map(known.__getitem__, datasets), strict=True))

    def _caught_up(self, datasets: Sequence[str], publishes: bool) -> dict[str, Snapshot]:
        head = self.feed.head()
        found = {}
        for name in dict.fromkeys(datasets):
            index = self._dataset(name)
            self._unseen.pop(name, None)
            before = index.snapshot
            if self._helper is not None and self._helper.searched(name):
                found[name] = index.adopt(head)
            else:
                found[name] = index.fresh(head)
            # Where there are too many segments, a helper is about to merge them.
            if (publishes and found[name] is not before) and (
                index.commit_due or (index.is_crowded and self.helper_process is None)
            ):
                self._publish_soon(index)
        return found

    def _dataset(self, name: str) -> DatasetIndex:
        if self._process != os.getpid():
            # Locks may be held by threads that the fork left behind: start again.
            self._begin()
        index = self._datasets.get(name)
        if index is None:
            with self._lock:
                made = DatasetIndex(
                    name,
                    self.feed,
                    self.analyzers,
                    self.folder(name),
                    keeps_words=self._keeps_words,
                )
                index = self._datasets.setdefault(name, made)
        return index

    def _begin(self) -> None:
        self._lock = Lock()
        self._datasets: dict[str, DatasetIndex] = {}
        self._scanner = RowScanner()
        self._publisher: ThreadPoolExecutor | None = None
        self._waiting: set[str] = set()
        # Chunks of each dataset that were committed here and that no search has met.
        self._unseen: dict[str, int] = {}
        # Last: another thread that sees it after a fork finds the rest of this process's own.
        self._process = os.getpid()

    def _publish_soon(self, index: DatasetIndex) -> None:
        with self._lock:
            if index.dataset in self._waiting:
                return
            self._waiting.add(index.dataset)
            if self._publisher is None:
                self._publisher = ThreadPoolExecutor(1, "triptych-publish")
            self._publisher.submit(self._publish_waiting, index)

    def _publish_waiting(self, index: DatasetIndex) -> None:
        self._waiting.discard(index.dataset)
        try:
            index.publish()
        except Exception:
            logger.exception("publishing the index of dataset %r failed", index.dataset)

    def close(self, *, publish: bool = True) -> None:
        """Publish what is worth it and give back what is held. Idempotent.

        What this process wrote in bulk is published as well, so that the next one's first search
        need not replay it; not after an interrupt, when somebody waits for the end.

        Without `publish`, for a truth that can no longer be asked, nothing is written. A search
        after it opens the index again.
        """
        if self._process != os.getpid():
            return
        if publish and self._path is not None and not _is_interrupted():
            self._take_in_bulk()
        self._stop_helper()
        with self._lock:
            datasets, self._datasets = list(self._datasets.values()), {}
            publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.shutdown()
        if publish and self._path is not None:
            for index in datasets:
                if index.pending >= PUBLISH_AT_CLOSE or index.is_crowded:
                    index.publish()
        self._scanner.close()

    def _take_in_bulk(self) -> None:
        """Take in what this process wrote in bulk."""
        written = [name for name, count in self._unseen.items() if count >= PUBLISH_AT_CLOSE]
        if not written:
            return
        try:
            self.fresh(written)
        except TriptychError as error:
            logger.warning("the next search indexes the written data: %s", error)

    def _stop_helper(self) -> None:
        """No file is written behind a caller who removes, or leaves, the folder."""
        if self._helper is not None:
            self._helper.stop()


def _is_interrupted() -> bool:
    """Whether this is called as the process is being ended."""
    error = sys.exception()
    return error is not None and not isinstance(error, Exception)
