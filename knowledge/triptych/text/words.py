"""Word segmentation: splitting text into normalised words, independent of the language.

A *run* is text between white space. A *token* is a maximal stretch of letters, marks and digits
inside a run, together with what binds them (``foo.bar``, ``don't``, ``C++``). A *word* is what a
token gives: the token itself, normalised, and its parts.

Chinese, Japanese, Korean, Thai and others put no spaces between words. Their runs are indexed as
all pairs of neighbouring characters, and every Han character or Hangul
syllable by itself, so that a query of one character finds each text that holds it. A run of Han
characters also gives the words of more than two characters that jieba sees in it; its words of
two are pairs already. A query asks for pairs and jieba's words, and for single characters only
where they are a word: where jieba sees one, for a Han character between kana (車を), and for the
first of two Hangul syllables, after which a particle stands (책을).
"""

from __future__ import annotations

import importlib
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from typing import Final

from triptych.text.patterns import late

MAX_WORD_LENGTH: Final = 255
"""Code points after which a stretch of letters is cut, so that terms stay bounded."""

# Scripts that are written without spaces between words, and the marks they share. Hangul has
# spaces, but glues particles to its words.
_UNSPACED: Final = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\u3005-\u3007\u30FC"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
)
_LETTER: Final = rf"[\w--[{_UNSPACED}]]"
_STRETCH: Final = rf"{_LETTER}{{1,{MAX_WORD_LENGTH}}}+"

# Group 1: a run of an unspaced script. Group 2: any other token. At most 16 bound pieces, so that
# the longest token is bounded as well.
_TOKEN: Final = late(
    rf"([{_UNSPACED}][{_UNSPACED}\p{{M}}]*+)"
    rf"|({_STRETCH}(?:[.'’]{_STRETCH}){{0,15}}+(?:(?:\+\+|\#)(?![\w+\#]))?+)",
)
# getUserName -> get User Name, HTTPServer -> HTTP Server, utf8 -> utf 8; the plural of an
# abbreviation (URLs) is one part. Finding is several times faster than splitting between.
_PART: Final = late(
    r"(?:\p{Lu}\p{M}*+)+(?:s(?!\p{Ll}))?+(?!\p{Ll})|\p{Lu}?+[^\p{Lu}\p{N}_]++|\p{N}++"
)
# Letters and digits that belong together, in a name of several parts: s3_bucket -> s3, getE2ETests
# -> E2E. Group 1; without it, what is passed by.
_MIXED: Final = late(
    r"((?:(?:\p{Lu}\p{M}*+)+(?!\p{Ll})|\p{Lu}?+[^\p{Lu}\p{N}_]++)?+\p{N}++"
    r"(?:[^\p{Lu}\p{N}_]++|(?:\p{Lu}\p{M}*+)+(?!\p{Ll})|\p{N}++)*+)"
    r"|(?:\p{Lu}\p{M}*+)+(?!\p{Ll})|\p{Lu}?+[^\p{Lu}\p{N}_]++"
)
_HEAD: Final = re.compile(r"([^\W\d_]+[0-9]+)[^\W\d_]{2}")  # base64url -> base64
_MAX_PARTS: Final = 12
# The same two for ASCII, in which most words are: less than half of the time.
_ASCII_TOKEN: Final = re.compile(
    rf"\w{{1,{MAX_WORD_LENGTH}}}+(?:[.']\w{{1,{MAX_WORD_LENGTH}}}+){{0,15}}+"
    r"(?:(?:\+\+|\#)(?![\w+\#]))?+",
    re.ASCII,
)
_ASCII_PART: Final = re.compile(r"[A-Z]+(?:s(?![a-z]))?+(?![a-z])|[A-Z]?+[a-z]++|[0-9]++|\n")
_ASKED: Final = late(rf"[{_UNSPACED}]{{1,2}}|{_LETTER}++")
_is_mixed: Final = re.compile(r"[0-9][A-Za-z]|[A-Za-z][0-9]").search
# At most 16 pieces, as a token has.
_ASCII_NAMES: Final = re.compile(r"\w++(?:\.\w++){0,15}", re.ASCII)
# Groups of three digits: 1_000, 1'234.5, 1.234.567.
_GROUPED: Final = re.compile(
    r"[0-9]{1,3}(?:(?P<sign>['_])[0-9]{3}(?:(?P=sign)[0-9]{3}){0,5}(?:\.[0-9]+)?"
    r"|(?:\.[0-9]{3}){2,6})"
)
_NUMBER: Final = late(r"[vV]?(\d+(?:\.\d+)+)")
_INITIALS: Final = late(r"\p{L}\p{M}*(?:\.\p{L}\p{M}*)+")
_LONG_MARKS: Final = late(r"\p{M}{30}+(?=\p{M})")

_GRAPHEME_JOINER: Final = "\u034f"
# Soft hyphen, grapheme joiner, zero-width (non-)joiner, word joiner, byte-order mark: they shape
# how a word looks, not which word it is.
_INVISIBLE: Final[dict[int, None]] = dict.fromkeys((0xAD, 0x34F, 0x200C, 0x200D, 0x2060, 0xFEFF))

WORD_CHARACTER: Final = r"[\w+#\\&;{}\xAD\u034F\u200C\u200D\u2060\uFEFF]"
"""Pattern of the characters that a token may hold beyond its inner dots and apostrophes.

Backslashes, ampersands, semicolons and braces belong to escapes (`triptych.text.escapes`).

Text cut where neither neighbour matches has the terms of its two halves, one after the other.
"""


def count_words(text: str) -> int:
    """Return about how many different words ``text`` has. Of scripts without spaces, each two
    characters are one; a token with parts is one."""
    return len(set(_ASKED.findall(text)))


def normalize(text: str) -> str:
    """Return ``text`` in NFKC, without invisible characters.

    More than 30 combining marks in a row are broken up first (the stream-safe format of Unicode
    Standard Annex 15, section 13): canonical ordering takes quadratic time over such a row.
    """
    if text.isascii():
        return text
    if len(text) > 30:
        text = _LONG_MARKS.sub(lambda row: row[0] + _GRAPHEME_JOINER, text)
    return unicodedata.normalize("NFKC", text).translate(_INVISIBLE)


def fold(word: str) -> str:
    """Return ``word`` without case: full case folding, then NFKC again for what it took apart.

    The dot that folding leaves above the Turkish capital İ is dropped, so that İstanbul meets
    istanbul; the dotless ı stays a letter of its own.
    """
    folded = word.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFKC", folded.replace("i\u0307", "i"))
    return folded[:MAX_WORD_LENGTH]


def split_words(text: str) -> list[tuple[str, str]]:
    """Return the words of normalised ``text`` as pairs (unspaced run, other), one of them empty."""
    found: list[tuple[str, str]] = _TOKEN.findall(text)
    return found


def is_plain(token: str) -> bool:
    """Say whether ``token`` is letters alone, with no inner capital that would begin a part."""
    rest = token[1:]
    return token.isalpha() and (rest == rest.lower() or token.isupper())


def split_token(token: str) -> list[str]:
    """Return the folded words that ``token`` stands for: the whole first, then its parts.

    ``getUserName`` gives ``getusername get user name``; ``snake_case`` gives ``snake_case snake
    case``; ``utf8`` gives ``utf8 utf``; ``s3_bucket`` gives ``s3_bucket bucket s3``; ``foo.bar``
    gives ``foo.bar foo bar``; ``C++`` gives ``c++ c``; ``v1.2`` gives ``v1.2 1.2``; ``3.14`` stays
    whole; ``1_000`` gives ``1_000 1000``; ``U.S.A`` gives ``usa``; ``O'Reilly`` gives ``o'reilly
    reilly``. Parts of one character say too little to be terms.
    """
    if is_plain(token):
        return [fold(token)]
    whole = token.replace("’", "'").strip("_")
    joined = []
    if grouped := _GROUPED.fullmatch(whole):
        joined = [whole.replace(grouped["sign"] or ".", "")]
    if "." in whole:
        if number := _NUMBER.fullmatch(whole):
            return list(dict.fromkeys((fold(whole), fold(number[1]), *joined)))
        if _INITIALS.fullmatch(whole):
            return [fold(whole.replace(".", ""))]
    name = whole.rstrip("+#")
    pieces = [piece.strip("_") for piece in name.split(".")]
    words = [whole, name, *pieces, *joined]
    for piece in pieces:
        if "'" in piece:
            words += [part for part in piece.split("'") if len(part) > 2]
        else:
            words += _parts(piece)
    return [fold(word) for word in dict.fromkeys(words) if word]


def _parts(name: str) -> list[str]:
    if is_plain(name):
        return []
    parts = (_ASCII_PART if name.isascii() else _PART).findall(name)
    # What falls into very many parts is a hash or noise, not a name that somebody made of words.
    if len(parts) > _MAX_PARTS:
        return []
    return [part for part in parts if len(part) > 1] + _mixed(name)


def _mixed(name: str) -> list[str]:
    """The parts of ``name`` that have letters and digits."""
    found = []
    for part in _MIXED.findall(name):
        if part and not part.isdigit():
            found.append(part)
            if head := _HEAD.match(part):
                found.append(head[1])
    return found


def split_ascii(runs: Iterable[str]) -> list[list[list[str]]]:
    """What `split_token` gives for each token of each run of ASCII; names are split all at once.

    Words that fold to the same may be there twice.
    """
    split: list[list[list[str]]] = []
    names: list[str] = []
    words_of: list[list[str]] = []

    def words_in(token: str) -> list[str]:
        whole = token.strip("_")
        if not whole or not _ASCII_NAMES.fullmatch(token) or (whole[0] <= "9" and "_" in whole):
            return split_token(token)
        words = [whole.lower()]
        pieces = [whole]
        if "." in whole:
            if whole[-1].isdigit() or whole[1:2] == ".":
                return split_token(token)
            pieces = [piece for each in whole.split(".") if (piece := each.strip("_"))]
            words += map(str.lower, pieces)
        for piece in pieces:
            names.append(piece)
            words_of.append(words)
        return words

    for run in runs:
        token = run.strip(".'")
        tokens_of_run = [token] if _ASCII_NAMES.fullmatch(token) else _ASCII_TOKEN.findall(run)
        split.append(list(map(words_in, tokens_of_run)))
    found = "\0".join(_ASCII_PART.findall("\n".join(names))).lower().split("\0\n\0")
    for name, words, some in zip(names, words_of, found, strict=False):
        parts = some.split("\0")
        if len(parts) <= _MAX_PARTS:
            words += [part for part in parts if len(part) > 1]
            if _is_mixed(name):
                words += map(str.lower, _mixed(name))
    return split


_HAN: Final = late(r"\p{Han}")
_KANA: Final = late(r"[\p{Hiragana}\p{Katakana}\u30FC]")
_SYLLABLE: Final = late(r"[\p{Han}\p{Hangul}]")
_LONE: Final = late(r"(?<!\p{Han})\p{Han}(?!\p{Han})")
_TWO_SYLLABLES: Final = late(r"\p{Hangul}{2}")

# Particles, pronouns, prepositions and copulas that are a word by themselves.
CHINESE_FUNCTION_CHARACTERS: Final = frozenset(
    "的了是在和与及或也都就而之于为以将被把从对向等着过吗呢吧啊呀这那其此该我你他她它们个有不没"
)


@cache
def chinese_segmenter() -> Callable[[str], list[str]]:
    """Return the function that cuts Chinese text into words, loading its dictionary once.

    jieba's dictionary segmentation without its hidden Markov model: words that are guessed rather
    than known cost precision. rjieba and jieba give the same words; rjieba is faster. Words that
    the program adds to either package change nothing here, so that all processes find the same.

    Raises:
        ModuleNotFoundError: neither rjieba nor jieba is installed.
    """
    try:
        jieba = importlib.import_module("rjieba")
    except ModuleNotFoundError:
        return _pure_python_segmenter()
    cut: Callable[[str, bool], list[str]] = jieba.Jieba().cut
    return lambda run: cut(run, False)


def _pure_python_segmenter() -> Callable[[str], list[str]]:
    try:
        with warnings.catch_warnings():  # of its syntax, where nothing is compiled yet
            warnings.simplefilter("ignore")
            jieba = importlib.import_module("jieba")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Chinese text needs a word segmenter: install rjieba, or jieba where rjieba has no "
            "wheel"
        ) from error
    made = jieba.Tokenizer()
    # Its own way would take whatever dictionary it finds in the folder for temporary files.
    made.FREQ, made.total = made.gen_pfdict(made.get_dict_file())
    made.initialized = True
    lcut: Callable[..., list[str]] = made.lcut
    return lambda run: lcut(run, HMM=False)


def chinese_words(run: str) -> list[str]:
    """Return jieba's words of ``run``; none when it holds kana (it is Japanese) or no Han."""
    if _KANA.search(run) or not _HAN.search(run):
        return []
    return chinese_segmenter()(run)


def index_terms(run: str) -> list[str]:
    """Return the terms under which ``run`` is found: characters, pairs, longer Chinese words."""
    if len(run) == 1:
        return [run]
    terms: list[str] = _SYLLABLE.findall(run)
    terms += pairs(run)
    terms += [word for word in chinese_words(run) if len(word) > 2]
    return terms


def query_terms(run: str) -> list[str]:
    """Return the terms by which a query that holds ``run`` searches; all are index terms."""
    if len(run) == 1:
        return [run]
    terms = pairs(run)
    for word in chinese_words(run):
        # The segmenter gives back what is not Han one by one.
        if len(word) > 2 or (len(word) == 1 and _HAN.match(word)):
            terms.append(word)
    if _KANA.search(run):
        terms += _LONE.findall(run)
    elif _TWO_SYLLABLES.fullmatch(run):
        terms.append(run[0])
    return terms


def pairs(run: str) -> list[str]:
    """Return every two neighbouring characters of ``run``."""
    return [first + second for first, second in pairwise(run)]
