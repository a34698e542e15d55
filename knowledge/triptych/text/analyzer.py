"""The analyzer, which turns text into index terms for every backend.

All words are indexed, including stop words, and every term counts towards a text's length; stop
words are dropped from queries. So a query of only stop words ("to be or not to be") finds texts,
and ``analyze(text)`` has the length of the text.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any, Final

import Stemmer  # type: ignore[import-not-found]  # a C extension, which has no stubs

from triptych.text.detection import Clues, NumberedClues
from triptych.text.english import ENGLISH_STOP_WORDS, IRREGULAR_FORMS
from triptych.text.escapes import expand
from triptych.text.function_words import function_words, recognised_languages
from triptych.text.term_ids import (
    CACHE_RUN_LENGTH,
    CACHE_RUN_TERMS,
    CACHE_RUNS,
    Compiled,
    Numbering,
    prefix_of,
)
from triptych.text.words import (
    CHINESE_FUNCTION_CHARACTERS,
    MAX_WORD_LENGTH,
    index_terms,
    is_plain,
    normalize,
    query_terms,
    split_ascii,
    split_token,
    split_words,
)

ANALYZER_VERSION: Final = 3
"""The version, to be raised with every change of terms in all languages."""

_IRREGULAR_VERSION: Final = 2
"""The version of the irregular forms, to be raised with every change; only for English."""

NO_LANGUAGE: Final = "none"
AUTO: Final = "auto"
"""The name of the analyzer that finds each text's language: see :func:`get_analyzer`."""

_ENGLISH: Final = ("english", "porter", AUTO)

# Words in these scripts have the stemmer of the script's language in all datasets.
_SCRIPTS: Final = {
    "russian": re.compile("[\u0400-\u052f]"),
    "arabic": re.compile("[\u0620-\u06ff]"),
    "greek": re.compile("[\u0370-\u03ff\u1f00-\u1fff]"),
    "hindi": re.compile("[\u0900-\u097f]"),
}
_OF_A_SCRIPT: Final = frozenset((*_SCRIPTS, "serbian", "nepali", "persian"))

_LATIN: Final = re.compile("[a-z\u00df-\u024f\u1e00-\u1eff]+")

_CACHE_QUERY_RUNS: Final = 1 << 14

# ASCII that neither is part of a token nor binds its pieces separates runs, as white space does:
# "(word," and "word" then share a cache entry.
_SEPARATE: Final = bytes(
    code if chr(code).isalnum() or chr(code) in "_.'+#" else ord(" ") for code in range(256)
)
_KEPT: Final = [code != ord(" ") for code in _SEPARATE]


class Analyzer:
    """Turns text into terms, for one language. Thread-safe; get it from :func:`get_analyzer`.

    Attributes:
        language: a Snowball algorithm, "none" (no stemming, no stop words), or "auto".
        signature: everything that affects the terms; texts indexed with another signature must be
            indexed again.
    """

    __slots__ = (
        "_clues",
        "_foreign",
        "_irregular",
        "_local",
        "_prefix",
        "_query_runs",
        "_runs",
        "_scripts",
        "_stop_words",
        "language",
        "signature",
    )

    def __init__(self, language: str, *, prefix: str = "") -> None:
        if language not in languages():
            raise ValueError(
                f"unknown language {language!r}: choose one of {', '.join(languages())}"
            )
        self.language: str = language
        self._local = threading.local()
        self._runs = _RunCache(self)
        self._query_runs: dict[str, tuple[list[str], list[str]]] = {}
        stemmer = "none" if language == NO_LANGUAGE else f"snowball-{Stemmer.version()}"
        self._irregular = _irregular(language)
        if self._irregular:
            stemmer += f"+irregular-{_IRREGULAR_VERSION}"
        self.signature: str = f"triptych-text-{ANALYZER_VERSION}/{language}/{stemmer}/jieba+pairs"
        self._stop_words = _stop_words(language)
        # A language with a script of its own stems that script itself.
        self._scripts = {} if language in _OF_A_SCRIPT else _SCRIPTS
        self._prefix = prefix
        self._foreign: dict[str, Analyzer] = {}
        self._clues: Clues | None = None
        if language == AUTO:
            self._clues = Clues(lambda word: self._stem_each([word])[0])
            self._foreign = {
                name: Analyzer(name, prefix=prefix_of(name)) for name in recognised_languages()
            }

    def __repr__(self) -> str:
        return f"Analyzer({self.signature!r})"

    def analyze(self, text: str, language: str | None = None) -> list[str]:
        """Return the index terms of ``text`` in order, with duplicates.

        If a text is split between two characters outside of words (see
        :data:`triptych.text.WORD_CHARACTER`), its terms are those of its halves in order.

        The analyzer "auto" finds the language of the text, unless it is given: a label has that of
        the text below (`language_of`). Others ignore ``language``.
        """
        terms = list(chain.from_iterable(map(self._runs.__getitem__, _runs(expand(text)))))
        if self._clues is not None:
            language = language or self._clues.language(Counter(terms))
            if language in self._foreign:
                return self._foreign[language].analyze(text)
        return terms

    def language_of(self, text: str) -> str:
        """Return the language in which ``text`` is analysed: for "auto", "english" if not clear."""
        if self._clues is None:
            return self.language
        return self._clues.language(Counter(self.analyze(text, "english"))) or "english"

    def analyze_query(self, text: str) -> list[str]:
        """Return the terms of the query ``text`` in order, with duplicates.

        Stop words are dropped unless there is nothing else. Queries in scripts without spaces have
        fewer terms than indexed texts (:mod:`triptych.text.words`). Texts in other languages than
        English hold the `variants` of the terms if the analyzer is "auto".
        """
        return list(_query_terms(self, text))

    def _query_terms(self, text: str) -> list[str]:
        terms: list[str] = []
        wanted: list[str] = []
        for run in _runs(expand(text)):
            asked, kept = self._query_runs.get(run) or self._analyze_query_run(run)
            terms += asked
            wanted += kept
        return wanted or terms

    def variants(self, text: str) -> dict[str, tuple[str, ...]]:
        """Return the terms of the query ``text``, each with all index terms that it stands for.

        These are the term, and for "auto" the terms of its words in each language. A text has the
        terms of one language only, so that no word counts twice. In the statistics of BM25, texts
        hold a term if they hold any of its variants.
        """
        return _variants(self, text)

    def _variants(self, text: str) -> dict[str, tuple[str, ...]]:
        found = {term: {term: None} for term in self.analyze_query(text)}
        if not self._foreign:
            return {term: (term,) for term in found}
        for run in _runs(expand(text)):
            for term, others in _in_each_language(self, run):
                if term in found:
                    found[term].update(dict.fromkeys(others))
        return {term: tuple(some) for term, some in found.items()}

    def _analyze_query_run(self, run: str) -> tuple[list[str], list[str]]:
        """All terms of a run of a query, and those that are no stop words."""
        terms: list[str] = []
        wanted: list[str] = []
        plain = run.isascii() and len(run) <= MAX_WORD_LENGTH and is_plain(run)
        if plain:  # as below: the run is one word
            terms = self._stem([run.lower()])
            wanted = [] if run.lower() in self._stop_words else terms
        for unspaced_run, token in () if plain else split_words(normalize(run)):
            if unspaced_run:
                asked = query_terms(unspaced_run)
                kept = [term for term in asked if term not in self._stop_words]
            else:
                words = split_token(token)
                asked = self._stem(words)
                # A stop word goes with its parts (don't, don), a part by itself.
                kept = (
                    self._stem([word for word in words if word not in self._stop_words])
                    if words and words[0] not in self._stop_words
                    else []
                )
            terms += asked
            wanted += kept
        if len(run) <= CACHE_RUN_LENGTH:
            if len(self._query_runs) >= _CACHE_QUERY_RUNS:
                self._query_runs.clear()
            self._query_runs[run] = terms, wanted
        return terms, wanted

    def numbering(
        self,
        terms: dict[str, int],
        compiled: Compiled | None = None,
    ) -> Numbering:
        """Return an encoder of texts as numbers of ``terms``, to which it adds new terms.

        Two threads must not use the same ``terms`` at the same time. ``compiled`` is the kernel
        ``runs`` of an index, which makes it faster.
        """
        clues = None if self._clues is None else NumberedClues(self._clues, terms)
        foreign = cache(lambda language: self._foreign[language].numbering(terms, compiled))
        return Numbering(self._runs, terms, _runs, _KEPT, foreign, clues, compiled)

    def _analyze_run(self, run: str) -> tuple[str, ...]:
        word = run.strip(".'")
        if word.isascii() and len(word) <= MAX_WORD_LENGTH and is_plain(word):
            return tuple(self._stem([word.lower()]))
        terms: list[str] = []
        for unspaced_run, token in split_words(normalize(run)):
            if unspaced_run:
                terms += index_terms(unspaced_run)
            else:
                terms += self._stem(split_token(token))
        return tuple(terms)

    def _stem(self, words: list[str]) -> list[str]:
        # A word and its part that share a stem are one occurrence: dog's, dog.
        stems = self._stem_each(words)
        return stems if len(stems) < 2 else list(dict.fromkeys(stems))

    def _stem_each(self, words: list[str]) -> list[str]:
        if self.language == NO_LANGUAGE:
            return words
        if base_of := self._irregular:
            words = [base_of.get(word, word) for word in words]
        language = "english" if self.language == AUTO else self.language
        stems: list[str] = self._stemmer(language).stemWords(words)
        for at, word in enumerate(words):
            if not word.isascii():
                for language, is_of in self._scripts.items():
                    if is_of.match(word):
                        stems[at] = self._stemmer(language).stemWord(word)
        if "" in stems:  # of a word that is all vowel signs
            stems = [stem or word for stem, word in zip(stems, words, strict=True)]
        if self._prefix:
            # Numbers, names with signs and other scripts have one term in all texts.
            plain = get_analyzer(AUTO)._stem_each(words)
            return [
                self._prefix + stem if _LATIN.fullmatch(word) else term
                for word, stem, term in zip(words, stems, plain, strict=True)
            ]
        return stems

    def _stemmer(self, language: str) -> Any:
        stemmer = getattr(self._local, language, None)
        if stemmer is None:  # A stemmer keeps its state in itself: one for each thread.
            stemmer = Stemmer.Stemmer(language)
            stemmer.maxCacheSize = 0
            setattr(self._local, language, stemmer)
        return stemmer


# A search asks several times.
_query_terms = lru_cache(256)(Analyzer._query_terms)
_variants = lru_cache(256)(Analyzer._variants)


@lru_cache(_CACHE_QUERY_RUNS)
def _in_each_language(analyzer: Analyzer, run: str) -> list[tuple[str, tuple[str, ...]]]:
    """The English term of each word of a run, and those in the other languages."""
    words = [word for _, token in split_words(normalize(run)) for word in split_token(token)]
    words = list(filter(_LATIN.fullmatch, words))
    stems = [
        [each._prefix + stem for stem in each._stemmer(each.language).stemWords(words)]
        for each in analyzer._foreign.values()
    ]
    return list(zip(analyzer._stem_each(words), zip(*stems, strict=True), strict=True))


class _RunCache(dict[str, tuple[str, ...]]):
    """Terms by run, computed when missing; emptied when full, so that memory stays bounded."""

    __slots__ = ("_analyzer",)

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__()
        self._analyzer = analyzer

    def learn(self, runs: Iterable[str]) -> None:
        """Take in those of ``runs`` that are ASCII: their words are stemmed all at once."""
        new = [run for run in runs if run.isascii() and len(run) <= CACHE_RUN_LENGTH]
        new = [run for run in new if run not in self]
        if len(self) + len(new) > CACHE_RUNS:
            self.clear()
            new = new[:CACHE_RUNS]
        plain = [run for run in new if run.islower() and run.isalpha()]
        stem_each = self._analyzer._stem_each
        self.update(zip(plain, zip(stem_each(plain)), strict=True))
        if len(plain) == len(new):
            return
        rest = [run for run in new if run not in self]
        split = split_ascii(rest)
        words = chain.from_iterable(split)
        stems = iter(stem_each(list(chain.from_iterable(words))))
        for run, tokens_of_run in zip(rest, split, strict=True):
            terms: list[str] = []
            for token in tokens_of_run:
                terms += dict.fromkeys(islice(stems, len(token)))
            if len(terms) <= CACHE_RUN_TERMS:
                self[run] = tuple(terms)

    def __missing__(self, run: str) -> tuple[str, ...]:
        terms = self._analyzer._analyze_run(run)
        if len(run) <= CACHE_RUN_LENGTH and len(terms) <= CACHE_RUN_TERMS:
            if len(self) >= CACHE_RUNS:
                self.clear()
            self[run] = terms
        return terms


@cache
def _irregular(language: str) -> dict[str, str]:
    if language not in _ENGLISH:
        return {}
    # The stemmer would drop the ending of a possessive only after it is too late: mice's.
    possessives = {f"{form}'s": base for form, base in IRREGULAR_FORMS.items()}
    return IRREGULAR_FORMS | possessives


def _stop_words(language: str) -> frozenset[str]:
    if language == NO_LANGUAGE:
        return frozenset()
    own = ENGLISH_STOP_WORDS if language in _ENGLISH else function_words(language)
    return own | CHINESE_FUNCTION_CHARACTERS


def _runs(text: str) -> list[str]:
    if text.isascii():
        text = text.encode("ascii").translate(_SEPARATE).decode("ascii")
    return text.split()


@cache
def languages() -> tuple[str, ...]:
    """Return the languages that :func:`get_analyzer` supports, sorted."""
    return tuple(sorted((*Stemmer.algorithms(), NO_LANGUAGE, AUTO)))


@cache
def get_analyzer(language: str = "english") -> Analyzer:
    """Return the analyzer of ``language``; the same object for the same name.

    "english" is Porter's second stemmer, "porter" the first. Both handle irregular forms: "bought"
    has the term of "buy" (:mod:`triptych.text.english`).

    "auto" finds the language of each text (:mod:`triptych.text.detection`). Terms of English texts,
    and of texts in no clear language, are those of "english"; words in other languages have the
    language's prefix, `:ge:haus`. All but "none" stem words in Cyrillic, Arabic, Greek and
    Devanagari by their script.

    Raises:
        ValueError: ``language`` is not one of :func:`languages`.
    """
    return Analyzer(language)
