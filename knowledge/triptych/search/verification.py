"""What a query's text conditions do in a search: candidates are kept by their text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence

import attrs

from triptych import deadlines
from triptych.contracts import Store
from triptych.records import NO_CHUNK, Candidate, ChunkPlace
from triptych.search.engine import Target
from triptych.search.request import SearchRequest

MAX_EXPANSIONS = 1000
"""The most words that the prefixes of one query stand for."""

_BATCH = 512  # texts that are held at a time


class TextVerifier:
    """Says which candidates of one search have a text that its conditions admit.

    Each text is read once, however many lanes bring it. An old text is never taken for a new one,
    since a key names one state.
    """

    def __init__(self, store: Store, request: SearchRequest) -> None:
        self._store = store
        self._target: Target = request.target
        self._conditions = request.conditions
        self._known: dict[tuple[str, Hashable], bool] = {}

    def __call__(self, candidates: Sequence[Candidate]) -> Collection[int]:
        """Return the places of the candidates that may stay, in order."""
        keys = [_key(each) for each in candidates]
        new = [at for at, key in enumerate(keys) if key not in self._known]
        for start in range(0, len(new), _BATCH):
            deadlines.check("the search")
            self._read([candidates[at] for at in new[start : start + _BATCH]])
        return [at for at, key in enumerate(keys) if self._known[key]]

    def _read(self, candidates: Sequence[Candidate]) -> None:
        by_key = [each for each in candidates if each.key is not None]
        if self._target == "chunk":
            units = self._store.chunks.fetch([each.key for each in by_key])
            texts = {key: unit.chunk.content for key, unit in units.items() if unit.chunk}
        elif self._target == "layer":
            layers = self._store.layers.fetch([each.key for each in by_key])
            texts = {key: unit.layer.content for key, unit in layers.items() if unit.layer}
        else:
            texts = {}
        for each in candidates:
            text = texts.get(each.key)
            if text is None and self._target != "layer" and each.key not in texts:
                text = self._text_at(each)
            # What has vanished stays: the pipeline knows that it did, and asks once more.
            self._known[_key(each)] = text is None or self._conditions.admits(text)

    def _text_at(self, candidate: Candidate) -> str | None:
        """The text of a whole document, or of a chunk that its lane names by its place."""
        if candidate.index == NO_CHUNK:
            document = self._store.documents.get(candidate.dataset_id, candidate.doc_name)
            return None if document is None else document.content
        if candidate.key is not None and not isinstance(candidate.key, ChunkPlace):
            return None
        for chunk in self._store.chunks.iter_chunks(candidate.dataset_id, candidate.doc_name):
            if chunk.index == candidate.index:
                return chunk.content
        return None


def expand_prefixes(store: Store, request: SearchRequest) -> SearchRequest:
    """The request with keyword lanes that look for the words that its prefixes stand for.

    The words are those of the datasets' chunks, which are all read. Of more than `MAX_EXPANSIONS`
    the most frequent are taken, and a warning says so.
    """
    conditions = request.conditions
    counts: Counter[str] = Counter()
    for dataset_id in request.query.dataset_ids:
        for chunk in store.chunks.iter_chunks(dataset_id):
            counts.update(conditions.words_of(chunk.content))
        deadlines.check("the search")
    warnings = request.warnings
    words = sorted(counts, key=lambda word: (-counts[word], word))
    if len(words) > MAX_EXPANSIONS:
        asked = ", ".join(f"{prefix}*" for prefix in conditions.prefixes)
        warnings += (
            f"{asked} stands for {len(words):,} words: the {MAX_EXPANSIONS:,} most frequent are "
            "looked for; a longer prefix stands for fewer",
        )
    added = " ".join(sorted(words[:MAX_EXPANSIONS]))
    if not added:
        return attrs.evolve(request, warnings=warnings)

    def widened(text: str) -> str:
        return f"{text} {added}"

    return attrs.evolve(
        request,
        warnings=warnings,
        query=attrs.evolve(request.query, text=widened(request.query.text)),
        variants=[
            attrs.evolve(each, text=widened(each.text), embed_text=each.embed_text or each.text)
            for each in request.variants
        ],
    )


def _key(candidate: Candidate) -> tuple[str, Hashable]:
    if candidate.key is not None:
        return candidate.dataset_id, candidate.key
    return candidate.dataset_id, (candidate.doc_name, candidate.index)
