"""Ranking hits in source code by what is known of code; docs/explanation/code.md has its worth."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

import attrs

from triptych.chunking import CODE_ENDINGS, is_code
from triptych.contracts import HitReader
from triptych.records import Hit, Layer, Mode, ResolvedQuery
from triptych.text import get_analyzer, label_of

POOL = 50
"""How many of the first hits are ranked, however many are asked for: so pages fit together."""

_WORST, _LEAST, _DIGITS = 0.25, 0.01, 9  # shares of the best score; as fused scores are rounded
_TEST, _RAISED, _LIFT, _FURTHER, _SAME = 0.3, 0.5, 0.3, 0.95, 0.5  # see `factors`
_QUOTED, _LONGEST = 3, 64  # words

_TEST_WORDS = (
    "bench benches benchmark benchmarks demo demos example examples fixture fixtures mock mocks "
    "sample samples spec specs test testdata tests"
)
_TESTS = frozenset(_TEST_WORDS.split())
_ENDINGS = tuple(CODE_ENDINGS)
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_WORD = re.compile(r"\w+")
_SYMBOL = re.compile(r"[\w$]+(?:(?:::|->|[.#/])[\w$]+)*(?:\(\))?")
_DEFINES = (
    r"\b(?:class|const|defmacro|defmodule|defp?|enum|extension|fn|fun|func|function|interface|let|"
    r"macro|module|namespace|object|protocol|record|struct|trait|type|typealias|typedef|union|val|"
    r"var)\s+(?:\([^)\n]*\)\s*)?(?:\w+(?:\.|::))*"
)


@attrs.frozen
class CodeRanking:
    """Ranks the hits in source code (`triptych.chunking.is_code`) among the first `POOL`.

    A Service does so by default. A code hit's share of the best score is multiplied by its
    `factors`, and the places of the code hits are filled in that order; ties keep theirs. A code
    hit takes the score of its place; ``Hit.scores["code"]`` is the product of its factors,
    ``Hit.scores["fused"]`` the score from before. All other hits keep their places and scores.
    """

    def depth(self, query: ResolvedQuery) -> int:
        """Return ``query.top_k``: the pipeline reads `POOL` hits where there is code among them."""
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits, those in code in their new order."""
        if not (places := code_places(hits)):
            return hits
        code = [hits[at] for at in places]
        products = [math.prod(each.values()) for each in factors(query, code)]
        shares = zip(_shares(code, query.mode), products, strict=True)
        values = [round(share * product, _DIGITS) for share, product in shares]
        ranked = list(hits)
        order = sorted(range(len(code)), key=lambda at: -values[at])
        for place, at in zip(places, order, strict=True):
            hit, product = code[at], round(products[at], _DIGITS)
            scores = {**hit.scores, "fused": hit.score, "code": product}
            ranked[place] = attrs.evolve(hit, score=hits[place].score, scores=scores)
        return ranked


def code_places(hits: Sequence[Hit]) -> list[int]:
    """Return the places of the hits in source code, among the first `POOL`."""
    return [
        at
        for at, hit in enumerate(hits[:POOL])
        if hit.layer is Layer.DETAIL
        and (hit.metadata or hit.doc_name.lower().endswith(_ENDINGS))  # most hits are no code
        and is_code(hit.doc_name, hit.metadata)
    ]


def factors(query: ResolvedQuery, hits: Sequence[Hit]) -> Sequence[Mapping[str, float]]:
    """Return the factors of each of ``hits``, which are all of code, by their reasons.

    - A test or an example: 0.3, unless the question has such a word.
    - The question's words in the path: 1.5 for all of them, less for some.
    - A definition, if the question is nothing but its name: 1.5.
    - Three or more words of the question in a row: 1.5 for all of them, less for some.
    - The best chunk of a file: up to 1.3, by how much all chunks of the file have together.
    - Others: 0.95 for each better chunk of the file, and 0.5 for each of the same definition.
    """
    text = query.text.strip()
    words = [word.lower() for word in _WORD.findall(text)[:_LONGEST]]
    asks_tests = not _TESTS.isdisjoint(map(str.lower, _PART.findall(text)))
    terms = frozenset(get_analyzer("english").analyze_query(text))
    symbol = _last_name(text.removesuffix("()")) if _SYMBOL.fullmatch(text) else ""
    found: list[dict[str, float]] = []
    for hit in hits:
        own: dict[str, float] = {}
        is_test, path_terms = _path(hit.doc_name)
        if is_test and not asks_tests:
            own["a test or an example"] = _TEST
        if shared := len(terms & path_terms):
            own["words of the question in its path"] = 1 + _RAISED * shared / len(terms)
        title = _last_name(hit.heading_path[-1]) if hit.heading_path else ""
        if symbol and (
            title == symbol or re.search(f"{_DEFINES}{re.escape(symbol)}(?!\\w)", hit.content)
        ):
            own["it defines the name"] = 1 + _RAISED
        if (run := _longest_run(words, hit.content)) >= _QUOTED:
            own["words of the question in a row"] = 1 + _RAISED * run / len(words)
        found.append(own)
    _weigh_files(hits, found, query.mode)
    return found


def _weigh_files(hits: Sequence[Hit], found: Sequence[dict[str, float]], mode: str) -> None:
    """Add the factors that come of the other chunks of a file."""
    owns = map(math.prod, map(dict.values, found))
    values = [share * own for share, own in zip(_shares(hits, mode), owns, strict=True)]
    files: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at in sorted(range(len(hits)), key=lambda at: -values[at]):
        files[hits[at].dataset_id, hits[at].doc_name].append(at)
    totals = {file: sum(values[at] for at in places) for file, places in files.items()}
    for file, (best, *others) in files.items():
        if others:
            found[best]["good chunks of its file"] = 1 + _LIFT * totals[file] / max(totals.values())
        same = Counter([hits[best].heading_path])
        for before, at in enumerate(others, start=1):
            path = hits[at].heading_path
            repeated = same[path] if path else 0
            found[at]["better chunks of its file"] = _FURTHER**before * _SAME**repeated
            same[path] += 1


def _shares(hits: Sequence[Hit], mode: str) -> list[float]:
    """Each hit's score as a share of the best, to a power: cosines fall slower than scores of
    keywords, and are squared; fused scores fall faster, and the worst keeps a quarter."""
    best = max((hit.score for hit in hits), default=0.0)
    if best <= 0:
        return [1.0] * len(hits)
    square = 2 if mode == Mode.VECTOR else 1
    shares = [max(hit.score / best, _LEAST) ** square for hit in hits]
    power = min(math.log(_WORST) / math.log(min(*shares, _WORST)), 1.0)
    return [share**power for share in shares]


@lru_cache(4096)
def _path(name: str) -> tuple[bool, frozenset[str]]:
    """Whether a folder or the file begins or ends with a word of tests; the terms of the path."""
    label = label_of(name)
    several = map(_PART.findall, label.split("/"))
    is_test = any(not _TESTS.isdisjoint((p[0].lower(), p[-1].lower())) for p in several if p)
    return is_test, frozenset(get_analyzer("english").analyze(label))


def _last_name(text: str) -> str:
    """The last name of a heading or a symbol: "Engine.Run", "impl Trait for Type"."""
    return re.split(r"\W+", text)[-1]


def _longest_run(words: Sequence[str], content: str) -> int:
    """How many of the words, one after the other, stand in the content."""
    text = f" {' '.join(_WORD.findall(content.lower()))} "
    start = longest = 0
    for end in range(1, len(words) + 1):
        while start < end and f" {' '.join(words[start:end])} " not in text:
            start += 1
        longest = max(longest, end - start)
    return longest
