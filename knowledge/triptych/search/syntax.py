"""The query language: phrases, exclusions, prefixes and fields in a query's text.

``"exact words"`` must be in the text, ``-word`` and ``-"exact words"`` must not be, ``word*`` asks
for a word that begins so, and ``field:value`` for a document with this metadata. Everything else
is words, as without the language. It is off unless ``Query.syntax`` asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from math import isfinite
from typing import Any, Final

import attrs

from triptych.errors import ValidationError
from triptych.records import Query, check_text
from triptych.search.query import check_length
from triptych.text.escapes import decode, readings
from triptych.text.patterns import late
from triptych.text.words import normalize

MOST_CONDITIONS: Final = 64
"""Phrases, prefixes and exclusions of one query, together."""

FIELDS: Final[Mapping[str, str]] = {
    "name": "doc_name",
    "prefix": "doc_prefix",
    "in": "doc_prefix",
    "heading": "heading",
    "section": "heading",
}
"""Short names of the reserved keys of ``where``; any other field is a key of the metadata."""

_OWN: Final = {"doc_name": "$name", "doc_prefix": "$prefix", "heading": "$heading"}
_NUMBER: Final = late(r"-?[0-9]{1,30}+(?:\.[0-9]{1,30}+)?")
_EXACT: Final = 1 << 53
_SIGNS: Final = frozenset('"-*:')  # without any, a query is words
_LONELY: Final = late(r'(?<!\w)"|(?<!\d)"(?!\w)')
_QUOTE_IS: Final = (
    "the quote at {!r:.60} has no partner, so that it makes no phrase: its words were searched as "
    "plain words"
)
_STAR: Final = late(r"[^\s*]*\w[^\s*\w]*\*[,;:!?.)\]]*")
_STAR_IS: Final = (
    "the star at {!r:.60} makes no prefix, which is two characters or more and then the star: it "
    "was ignored"
)
_MINUS: Final = late(r"-\d\w*[^\s\w]\S*")
_MINUS_IS: Final = (
    "{!r:.60} was searched as a number: to leave it out, put it into quotes after the minus"
)
_AFTER_WORDS: Final = ".,;:!?()[]{}"
_QUOTES: Final = str.maketrans("“”„«»", '"' * 5)

# One item after another, each up to white space. Every part is possessive or ends where the next
# cannot begin, so that no text makes it try again.
_ITEM: Final = late(
    r"""(?x)
    (?P<minus>-)?+"(?P<phrase>[^"]++)"
    | (?P<field>[^\W\d][\w.\-]*+):(?:"(?P<quoted>[^"]++)"|(?P<value>[^\s"/:\\][^\s"]*+))(?!\S)
    | -(?P<excluded>[.@\#]?+[^\W\d]\S*+|\d[^\s"*]++\*[,;:!?.)\]]*+(?!\S))
    | (?P<prefix>[\w.@\#][^\s"*]++)\*[,;:!?.)\]]*+(?!\S)
    | (?P<word>\S++)
    """
)

# As in `triptych.text`, dots and apostrophes bind what stands on both sides of them. Underscores
# around words are emphasis, those inside are part of a name.
_BEFORE: Final = r"(?<![^\W_]_{0,4}(?:[.'’]_{0,4})?)"
_AFTER: Final = r"(?!_{0,4}(?:[.'’]_{0,4})?[^\W_])"
_EMPHASIS: Final = r"[*_~`]{0,4}"
_UNSPACED: Final = late(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)


@attrs.frozen(kw_only=True, slots=True)
class TextConditions:
    """What a text must hold, and what it must not.

    Words are compared as a reader sees them (`triptych.text.escapes`), without regard to case: no
    stemming. A phrase is a sequence of words with anything that is not a word between them, and a
    star makes a word of it a prefix. Words end where a letter, digit or inner underscore ends; in
    scripts without spaces a phrase may stand anywhere.

    Attributes:
        phrases: each must be in the text.
        prefixes: for each the text must hold a word that begins so.
        excluded: phrases that must not be in the text.
        excluded_prefixes: no word of the text may begin so.
    """

    phrases: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    excluded_prefixes: tuple[str, ...] = ()
    _prefixes: tuple[Any, ...] = attrs.field(init=False, eq=False, repr=False)
    _required: tuple[Any, ...] = attrs.field(init=False, eq=False, repr=False)
    _forbidden: tuple[Any, ...] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        prefixes = tuple(map(_prefix, self.prefixes))
        required = (*map(_phrase, self.phrases), *prefixes)
        forbidden = (*map(_phrase, self.excluded), *map(_prefix, self.excluded_prefixes))
        object.__setattr__(self, "_prefixes", prefixes)
        object.__setattr__(self, "_required", required)
        object.__setattr__(self, "_forbidden", forbidden)

    def __bool__(self) -> bool:
        return bool(self._required or self._forbidden)

    def admits(self, text: str) -> bool:
        """Return whether every condition holds for ``text``."""
        folded = _folded(text)

        def holds(each: Any) -> bool:
            return any(map(each.search, folded))

        return all(map(holds, self._required)) and not any(map(holds, self._forbidden))

    def words_of(self, text: str) -> Iterable[str]:
        """Return the words of ``text`` that begin with one of ``prefixes``, folded."""
        for prefix in self._prefixes:
            seen: set[str] = set()
            for folded in _folded(text):
                words = [found[0].rstrip("_") for found in prefix.finditer(folded)]
                yield from (word for word in words if word not in seen)
                seen.update(words)


@attrs.frozen(kw_only=True, slots=True)
class ParsedQuery:
    """What the text of a query asks for.

    Attributes:
        text: the words to rank by: plain words, those of the phrases, and the prefixes.
        conditions: what a found text must and must not hold.
        where: the fields, as `Query.where` takes them.
        warnings: what was probably meant otherwise.
    """

    text: str
    conditions: TextConditions = attrs.field(factory=TextConditions)
    where: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    warnings: tuple[str, ...] = ()


def parse_query(query: Query) -> ParsedQuery:
    """Read the text of ``query`` as a query of the language.

    A field given twice allows either value. A quote without its partner, a minus before a digit
    or alone, and an address such as ``http://…`` are plain words. The quote has a warning, unless
    it stands for inches or inside a word; so have a star that makes no prefix and ``-3.11``.

    Raises:
        ValidationError: the text is invalid or too long, has no words to look for, or more than
            `MOST_CONDITIONS` phrases, prefixes and exclusions.
    """
    check_length(query.text)
    text = check_text(query.text, "the query").translate(_QUOTES)
    if text.isascii() and text.isprintable() and _SIGNS.isdisjoint(text):
        return ParsedQuery(text=" ".join(text.split()))
    items = _Items()
    for item in _ITEM.finditer(text):
        items.add(item)
    _check_count(
        sum(map(len, (items.phrases, items.prefixes, items.excluded, items.excluded_prefixes)))
    )
    if text.strip() and not items.words:
        raise items.without_words(query.text)
    return ParsedQuery(
        text=" ".join(items.words),
        conditions=TextConditions(
            phrases=tuple(items.phrases),
            prefixes=tuple(items.prefixes),
            excluded=tuple(items.excluded),
            excluded_prefixes=tuple(items.excluded_prefixes),
        ),
        where={key: tuple(values) for key, values in items.where.items()},
        warnings=tuple(said.format(item) for said, item in items.lonely.items()),
    )


@attrs.define
class _Items:
    """The items of a query by what they ask for, and the first of each kind of `lonely` sign."""

    words: list[str] = attrs.field(factory=list)
    phrases: list[str] = attrs.field(factory=list)
    prefixes: list[str] = attrs.field(factory=list)
    excluded: list[str] = attrs.field(factory=list)
    excluded_prefixes: list[str] = attrs.field(factory=list)
    where: dict[str, list[str]] = attrs.field(factory=dict)
    lonely: dict[str, str] = attrs.field(factory=dict)

    def add(self, item: Any) -> None:
        """Add a match of `_ITEM`."""
        if phrase := item["phrase"]:
            if not _is_words(phrase):
                self.words.append(item[0])  # signs alone ask for nothing
            elif item["minus"]:
                self.excluded.append(phrase)
            else:
                self.phrases.append(phrase)
                self.words.append(phrase)
        elif field := item["field"]:
            values = self.where.setdefault(FIELDS.get(field, field), [])
            values.append(item["quoted"] or item["value"])
        elif (word := item["excluded"]) and _is_words(word):
            word = word.rstrip(_AFTER_WORDS)
            stem = word.removesuffix("*")
            if stem != word and len(stem) > 1:
                self.excluded_prefixes.append(stem)
            else:
                self.excluded.append(word)
                if stem != word:
                    self.lonely.setdefault(_STAR_IS, item[0])
        elif (prefix := item["prefix"]) and _is_words(prefix):
            self.prefixes.append(prefix)
            self.words.append(prefix)
        else:
            self._add_word(item[0])

    def _add_word(self, word: str) -> None:
        self.words.append(word)
        if word.count('"') % 2 and _LONELY.search(word):
            self.lonely.setdefault(_QUOTE_IS, word)
        if _STAR.fullmatch(word):
            self.lonely.setdefault(_STAR_IS, word)
        if _MINUS.fullmatch(word):
            self.lonely.setdefault(_MINUS_IS, word)

    def without_words(self, text: str) -> ValidationError:
        """The error that the query ``text`` has no words."""
        does = ["names fields"] if self.where else []
        does += ["excludes"] if self.excluded or self.excluded_prefixes else []
        instead = ""
        if self.where:
            key, (value, *_) = next(iter(self.where.items()))
            instead = f"; or list all that match, by `where` (--where) {key:.60}={value!r:.60}"
            instead += " without a query"
        return ValidationError(
            f"the query {text!r:.80} only {' and '.join(does)}: add a word or a phrase to "
            f"search for{instead}"
        )


def _check_count(conditions: int) -> None:
    # Each is looked for in every text that a lane finds.
    if conditions > MOST_CONDITIONS:
        raise ValidationError(
            f"the query has {conditions:,} phrases, prefixes and exclusions; the maximum is "
            f"{MOST_CONDITIONS}: leave some out, or search without syntax"
        )


def merge_where(
    where: Mapping[str, Any], fields: Mapping[str, tuple[str, ...]]
) -> Mapping[str, Any]:
    """Return ``where`` with the fields of a query: both must hold.

    A value of a query is a text; it stands for a number, a boolean or a date as well where it is
    written as one, and for a list that holds it.
    """
    asked = [
        {_OWN[key]: {"$in": list(values)}}
        if key in _OWN
        else is_or_holds(key, [reading for value in values for reading in _readings(value)])
        for key, values in fields.items()
    ]
    both = [where, *asked] if where else asked
    return both[0] if len(both) == 1 else {"$and": both}


def is_or_holds(key: str, values: list[Any]) -> dict[str, Any]:
    """Return the ``where`` for metadata that is one of ``values``, or a list with one of them."""
    holds = {"$or": [{key: {"$contains": value}} for value in values]}
    # In a text, $contains finds a part of it, which is not asked for. Texts, and no other kind of
    # value, are ordered after "".
    a_list = {"$and": [holds, {"$not": {key: {"$gte": ""}}}]}
    return {"$or": [{key: {"$in": values}}, a_list]}


def _readings(text: str) -> list[str | int | float | bool | date]:
    """What a value may mean: the text, and what a person writes in the same way."""
    found: list[str | int | float | bool | date] = [text]
    if text.lower() in ("true", "false"):
        found.append(text.lower() == "true")
    if _NUMBER.fullmatch(text):
        number = float(text)
        if text.lstrip("-").isdigit() and abs(number) < _EXACT:
            found.append(int(text))
        elif isfinite(number):
            found.append(number)
    with suppress(ValueError):
        found.append(date.fromisoformat(text))
    return found


def fold(text: str) -> str:
    """Return ``text`` as conditions compare it: NFKC, without case."""
    folded = normalize(text).casefold()
    return folded if folded.isascii() else normalize(folded.replace("i\u0307", "i"))


def _folded(text: str) -> list[str]:
    return [fold(each) for each in readings(text)]


def _is_words(text: str) -> bool:
    return any(character.isalnum() for character in decode(text))


def _phrase(text: str) -> Any:
    import regex  # most queries have no conditions

    ways = "|".join(_words_in_order(folded.split()) for folded in _folded(text))
    return regex.compile(ways, regex.V1)


def _words_in_order(pieces: Sequence[str]) -> str:
    import regex

    middle = ""
    for at, piece in enumerate(pieces):
        if at:
            # What begins with a sign of its own must not lose it to what stands between words.
            own = not regex.match(r"\w", piece)
            middle += rf"{_EMPHASIS}\s++{_EMPHASIS}" if own else r"_{0,4}\W++(?:_{1,4}\W++)?_{0,4}"
        stem = piece.removesuffix("*")
        starred = stem != piece and regex.search(r"\w\w", stem)
        middle += rf"{regex.escape(stem)}(?:\*|\w*+)" if starred else regex.escape(piece)
    before = "" if _UNSPACED.match(pieces[0][0]) else _BEFORE
    after = "" if _UNSPACED.match(pieces[-1][-1]) else _AFTER
    return before + middle + after


def _prefix(text: str) -> Any:
    import regex

    ways = []
    for folded in _folded(text):
        before = "" if _UNSPACED.match(folded[0]) else _BEFORE
        # The rest of a version is part of its word: 3.11* is 3.11.2.
        ways.append(before + regex.escape(folded) + r"\w*+(?:(?<=\d)\.\d++)*+")
    return regex.compile("|".join(ways), regex.V1)
