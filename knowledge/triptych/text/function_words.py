"""Function words by language: queries leave them out, and they show a text's language.

function_words.tsv has for each language its letters beyond ASCII and its articles, pronouns,
prepositions, conjunctions and auxiliaries, after the lists of the Snowball project
(https://snowballstem.org/algorithms/; NOTICE has the licence): the French one is nearly whole,
others are shortened to what is frequent. Its line of English has those of other languages that
occur in English, in names or in code, or share a stem with words that do: they hardly show one.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def _table() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    text = files("triptych.text").joinpath("function_words.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines())
    return {name: (frozenset(letters), frozenset(words.split())) for name, letters, words in rows}


@cache
def recognised_languages() -> dict[str, frozenset[str]]:
    """The letters beyond ASCII of each language that is recognised."""
    return {name: letters for name, (letters, _) in _table().items() if name != "english"}


def function_words(language: str) -> frozenset[str]:
    """The function words of a language, none for most; for English, those of others."""
    return _table().get(language, (frozenset[str](), frozenset[str]()))[1]
