"""Words that documents hold, near to a query's words that none holds."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from triptych.contracts import ChunkRepo, DocLevelSearcher
from triptych.records import ChunkQuery, Filter, Mode
from triptych.search.request import SearchRequest
from triptych.text import get_analyzer

_WORD = re.compile(r"[^\W\d_]+")
_LETTERS = 4, 6, 24  # a word has them at least, at least in a question, and at most
_FEW = 2  # words of a query that is no question
_WORDS = 3  # of a query, whose neighbours are looked for
_TERMS = 4  # of the neighbours of a word, that are looked up in texts
_TEXTS = 16  # in which the words of a term are looked for
_NEAR = 0.75  # of difflib's ratio, for a form of a near term


def near_words(
    statistics: DocLevelSearcher,
    chunks: ChunkRepo,
    request: SearchRequest,
    unknown: Sequence[str],
) -> Iterator[str]:
    """Say which word is meant, for words of a query whose ``unknown`` terms no chunk holds.

    A word is near if it is one edit away (Norvig, "How to Write a Spelling Corrector"): a letter
    more, less, or another, or two exchanged. What is one edit away is asked for by its terms, so
    that the work depends on the length of the word and not on how many words documents hold. The
    word that is named stands in a text that the caller can read.
    """
    datasets, within = request.query.dataset_ids, request.query.filter.within
    languages = dict.fromkeys(request.languages.get(each, "english") for each in datasets)
    analyzers = [get_analyzer(each) for each in languages]

    def terms_of(word: str) -> set[str]:
        return {term for analyzer in analyzers for term in analyzer.analyze_query(word)}

    asked = dict.fromkeys(_WORD.findall(request.query.text))
    least = _LETTERS[len(asked) > _FEW]
    strange = (
        word
        for word in asked
        if least <= len(word) <= _LETTERS[2] and not terms_of(word).isdisjoint(unknown)
    )
    for word in islice(strange, _WORDS):
        own = terms_of(word)
        edits: dict[str, str] = {}
        for edit in _edits(word.lower()):
            for term in terms_of(edit):
                edits.setdefault(term, edit)
        stats = statistics.corpus_stats(datasets, [*own, *edits], within=within)
        counts = stats.document_frequencies
        if not own.isdisjoint(counts):
            continue
        near = sorted(counts, key=lambda term: (edits[term][0] != word[0].lower(), -counts[term]))
        for term in near[:_TERMS]:
            query = ChunkQuery(
                dataset_ids=tuple(datasets),
                mode=Mode.BM25,
                text=edits[term],
                top_k=_TEXTS,
                filter=Filter().bounded(within),
            )
            forms = [each for each in _words(chunks, query) if term in terms_of(each)]
            if nearest := difflib.get_close_matches(word.lower(), forms, n=1, cutoff=_NEAR):
                yield f"no document holds {word!r}; did you mean {nearest[0]!r}?"
                break


def _edits(word: str) -> Iterator[str]:
    """The words that are one edit away, in the letters of the blocks that the word is from."""
    starts = dict.fromkeys(ord(letter) & ~127 for letter in word)
    alphabet = [chr(code) for start in starts for code in range(start, start + 128)]
    letters = [letter for letter in alphabet if letter.islower()]
    for at in range(len(word) + 1):
        left, right = word[:at], word[at:]
        yield from (f"{left}{letter}{right}" for letter in letters)
        if right:
            yield left + right[1:]
            yield from (f"{left}{letter}{right[1:]}" for letter in letters)
        if len(right) > 1:
            yield left + right[1] + right[0] + right[2:]


def _words(chunks: ChunkRepo, query: ChunkQuery) -> dict[str, None]:
    """The words of the texts that a query finds, and of what stands above them."""
    found = chunks.fetch([each.key for each in chunks.search(query) if each.key is not None])
    words: dict[str, None] = {}
    for unit in found.values():
        if unit.chunk is not None and unit.document is not None:
            title = str(unit.document.metadata.get("title", ""))
            label = (unit.document.name, title, *unit.chunk.heading_path)
            words |= dict.fromkeys(_WORD.findall(" ".join((unit.chunk.content, *label)).lower()))
    return words
