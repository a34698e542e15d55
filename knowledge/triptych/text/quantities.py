"""Figures and dates in a text, read as numbers: 1,000 is 1000, 2.5bar is 2.5 bar, 12% is 0.12."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from triptych.text.english import ENGLISH_STOP_WORDS
from triptych.text.function_words import function_words, recognised_languages
from triptych.text.patterns import late


class Quantity(NamedTuple):
    """A figure or a date in a text.

    Attributes:
        start, end: its span.
        values: its possible values as written: where the language is unknown, 1.000 has two.
        unit: the dimension of its unit, "date" of a date, "" without one.
        factor: by which a value becomes one in the dimension's base unit.
        date: year, month and day of a date, 0 where it has none.
    """

    start: int
    end: int
    values: tuple[float, ...]
    unit: str = ""
    factor: float = 1.0
    date: tuple[int, int, int] = (0, 0, 0)

    def is_said_by(self, other: Quantity, numbers: frozenset[float] = frozenset()) -> bool:
        """Whether ``other``, of a source that has ``numbers``, says the same."""
        if self.unit == "date" or other.unit == "date":
            return self.unit == other.unit and all(
                not mine or mine == its or (not its and mine in numbers)
                for mine, its in zip(self.date, other.date, strict=True)
            )
        if self.unit and other.unit and self.unit != other.unit:
            return False
        ways = [(self.factor, other.factor)] if self.unit and other.unit else [(1.0, 1.0)]
        if "ratio" in (self.unit, other.unit):
            ways.append((self.factor, other.factor))
        return any(
            math.isclose(mine * by, its * its_by, rel_tol=1e-12)
            for by, its_by in ways
            for mine in self.values
            for its in other.values
        )


@cache
def _names() -> dict[str, dict[str, float]]:
    """The value of each name by the row of quantities.tsv."""
    text = files("triptych.text").joinpath("quantities.tsv").read_text(encoding="utf-8")
    table: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        row, entries = line.split("\t")
        split = (entry.split() for entry in entries.split(";"))
        table[row] = {name: float(value) for value, *names in split for name in names}
    return table


@cache
def _units() -> dict[str, tuple[str, float]]:
    """The dimension of each unit, and its factor."""
    return {
        name: (row, factor)
        for row, names in _names().items()
        if row not in ("powers", "cardinals", "months_of_year")
        for name, factor in names.items()
    }


_LARGE: Final = frozenset("DGHMST")
"""Letters that raise a number or name a unit by their case alone: no unit by itself."""
_LETTER: Final = r"[\p{Latin}\p{Cyrillic}\p{Greek}_]"
_SPACE: Final = r"[ \u00a0\u202f\u2009\n]"
_NUMBER: Final = late(
    rf"(?<!{_LETTER})(?<!{_LETTER}[-./@'’+])(?<!\p{{Nd}}[.,:/]?)"
    r"(?P<money>[$€£¥] ?)?(?P<sign>(?<![\p{L}\p{N})\]%])[-−])?"
    r"(?P<digits>\p{Nd}{1,3}(?:[ \u00a0\u202f\u2009'’]\p{Nd}{3})+(?:[.,]\p{Nd}+)?"
    r"|\p{Nd}++(?:[.,]\p{Nd}++)*|\.\p{Nd}++)(?![.,:/]?\p{Nd})"
    r"(?:[eE](?P<exponent>[-+]?\d{1,2})"
    r"|\ ?[x×·*]\ ?10(?:\^\{?(?P<raised>[-−]?\d{1,2})|(?P<small>⁻?[⁰¹²³⁴-⁹]{1,2})))?"
)
_NEXT: Final = late(
    r"(?P<gap>\*{0,3}[ \u00a0\u202f\u2009\n]?\*{0,3}(?:[-‑]|d['’]|de )?)"
    r"(?P<word>[%％‰€$£¥]|[°℃℉µμ]?[\p{L}°]+)"
)
_RANGE: Final = late(
    rf"{_SPACE}?(?:[-–—‑~～]|to|bis|à|a|up to|и|до|至|到){_SPACE}?(?=[$€£¥]?[-−]?\p{{Nd}})"
)
_IDEOGRAPHS: Final = "⺀"
_WORDS: Final = frozenset(
    ("a", "an", "d", "go", "mo", "t", "to")
)  # after a blank, they are no units
_SMALL: Final = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")
_WORD: Final = late(r"[\p{Latin}\p{M}\p{Cyrillic}]+|[一二两三四五六七八九十百千](?!\p{Han}{3})")
_POINTED: Final = late(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
_COMMAED: Final = late(r"\p{Cyrillic}")
_DATE: Final = late(
    r"(?<![\p{L}\p{N}.,/:-])(?:"
    r"(?P<y>\d{4})(?P<sep>[-/.])(?P<m>\d{1,2})(?P=sep)(?P<d>\d{1,2})(?=T\d|[^\d\p{Latin}-]|$)"
    r"|(?P<one>\d{1,2})(?P<mark>[./-])(?P<two>\d{1,2})(?P=mark)(?P<year>\d{4})(?![\p{L}\d-])"
    rf"|(?P<first>\p{{L}}{{3,10}})\.?{_SPACE}(?P<then>\d{{1,2}})(?:st|nd|rd|th)?"
    rf"(?!\d|{_SPACE}?[:%]|[.,]\d)"
    rf"(?:,?{_SPACE}(?P<last>\d{{4}})(?![\d\p{{L}}]))?"
    rf"|(?:(?P<day>\d{{1,2}})(?:\.|st|nd|rd|th|er|º|ª)?{_SPACE}(?:of |de |du )?)?"
    rf"(?P<name>\p{{L}}{{3,10}})\.?"
    rf"(?:,?{_SPACE}(?:de |del )?(?P<after>\d{{4}})(?![\d\p{{L}}]))?)"
    r"|(?<![\w./-])(?P<iso>\d{4})-(?P<of>\d\d)(?![\w/-])"
    r"|(?<!\d)(?:(?P<cy>\d{4}) ?[年년] ?)?(?P<cm>\d{1,2}) ?[月월](?: ?(?P<cd>\d{1,2}) ?[日일号])?"
)


def dates_of(text: str) -> Iterator[Quantity]:
    """The dates of a text; where day and month may be either, both readings."""
    at = 0
    while found := _DATE.search(text, at):
        read = list(_read_date(found.groupdict()))
        at = found.end() if read else found.start() + 1
        for date in read:
            yield Quantity(*found.span(), (), "date", 1.0, date)


def _read_date(part: dict[str, str | None]) -> Iterator[tuple[int, int, int]]:
    def whole(*names: str) -> int:
        return next((int(said) for name in names if (said := part[name])), 0)

    name = part["name"] or part["first"] or ""
    month = int(_names()["months_of_year"].get(name.lower(), 0)) if name else whole("m", "cm", "of")
    if part["first"] in ("may", "march", "mar", "mars"):
        month = 0  # a verb or a planet
    year, day = whole("y", "year", "after", "last", "cy", "iso"), whole("d", "day", "then", "cd")
    ways = [(month, day)]
    if part["one"]:
        one, two = whole("one"), whole("two")
        ways = (
            [(two, one)] if part["mark"] == "." else list(dict.fromkeys([(two, one), (one, two)]))
        )
    for month, day in ways:
        if 1 <= month <= 12 and day <= 31 and (day or 1000 < year < 2200):
            yield year, month, day


def language_of(text: str) -> str:
    """The language whose function words a short text has, "english" among them; "" if unclear."""
    words = {found.group().lower() for found in _WORD.finditer(text)}
    counted = {"english": len(words & ENGLISH_STOP_WORDS)} | {
        language: len(words & function_words(language)) + len(letters & set(text))
        for language, letters in recognised_languages().items()
    }
    best, second, *_ = sorted(counted, key=lambda each: (-counted[each], each != "english"))
    return best if counted[best] > counted[second] or (best == "english" and counted[best]) else ""


def decimal_mark(text: str) -> str:
    """The decimal mark of a text's language; "" if unclear."""
    language = language_of(text)
    if language == "english" or _POINTED.search(text):
        return "."
    return "," if language or _COMMAED.search(text) else ""


def _readings(digits: str, decimal: str) -> tuple[float, ...]:
    plain = "".join(each for each in digits if each.isdecimal() or each in ".,")
    marks = [each for each in plain if each in ".,"]
    if not marks:
        return (float(plain),)
    head, tail = plain.rsplit(marks[-1], 1)
    whole = float((head + tail).replace(",", "").replace(".", ""))
    parted = float(head.replace(",", "").replace(".", "") + "." + tail)
    if len(marks) > 1:
        return (whole,) if marks[0] == marks[-1] else (parted,)
    if len(tail) != 3 or not 0 < len(head) < 4 or head[0] == "0":
        return (parted,)
    return (whole, parted) if not decimal else (parted,) if decimal == marks[0] else (whole,)


class _Unit(NamedTuple):
    """What follows a number: its end, the dimension, the factor, and a power such as a million."""

    end: int
    name: str = ""
    factor: float = 1.0
    power: float = 1.0


def _unit_at(text: str, at: int) -> _Unit | None:
    """The unit at ``at``; None where the number is a part of an identifier."""
    power, end = 1.0, at
    for _ in range(2):
        found = _NEXT.match(text, end)
        if found is None:
            break
        word, start = found["word"].replace("μ", "µ"), found.start("word")
        if word in ("MW", "MWh"):  # mW is less
            name, factor = _units()["k" + word[1:].lower()]
            return _Unit(found.end(), name, factor * 1000, power)
        names = _forms(word)
        known = next((name for name in names if name in _units()), "")
        if known and word not in _LARGE and not (found["gap"] and word in _WORDS):
            return _Unit(
                start + (len(known) if word[0] >= _IDEOGRAPHS else len(word)),
                *_units()[known],
                power,
            )
        raised = next((name for name in names if name in _names()["powers"]), "")
        if not raised:
            if end == at and not found["gap"] and word.isalpha() and word[0] < _IDEOGRAPHS:
                return None
            break
        power *= _names()["powers"][raised]
        end = start + (len(raised) if word[0] >= _IDEOGRAPHS else len(word))
    return _Unit(end, power=power)


def _forms(word: str) -> list[str]:
    """What a word may be in quantities.tsv: its singular, or its beginning without blanks."""
    if word[0] >= _IDEOGRAPHS:
        return [word[:size] for size in (3, 2, 1)]
    plain = word.lower()
    ends = (plain[-1] in "sne" and len(plain) > 3, len(plain) > 4)
    return [plain, *(plain[:-cut] for cut, may in enumerate(ends, 1) if may)]


def figures_of(text: str, decimal: str) -> list[Quantity]:
    """The figures of a text, which writes its decimals with ``decimal`` ("": unclear).

    Numbers in identifiers are none, such as those of UTF-8, 3.11.2 and H2O. Both ends of a range
    have its unit.
    """
    figures: list[Quantity] = []
    for found in _NUMBER.finditer(text):
        marks = {each for each in found["digits"] if each in ".,"}
        parts = found["digits"].replace(",", ".").split(".")
        if len(parts) > 2 and len(marks) == 1 and any(len(each) != 3 for each in parts[1:]):
            continue  # a version, an address
        after = _unit_at(text, found.end())
        if after is None:
            continue
        unit, factor, power = after.name, after.factor, after.power
        if found["money"]:
            unit, factor = _units()[found["money"].strip()]
        raised = found["exponent"] or found["raised"] or found["small"]
        power *= 10.0 ** int(raised.translate(_SMALL)) if raised else 1.0
        power *= -1.0 if found["sign"] else 1.0
        values = tuple(value * power for value in _readings(found["digits"], decimal))
        if figures and not figures[-1].unit:
            joined = _RANGE.match(text, figures[-1].end)
            if joined is not None and joined.end() == found.start():
                figures[-1] = figures[-1]._replace(unit=unit, factor=factor)
        figures.append(Quantity(found.start(), after.end, values, unit, factor))
    return figures


def counts_of(text: str) -> Iterator[Quantity]:
    """The numbers that a source writes as words."""
    for found in _WORD.finditer(text):
        word = found.group().lower()
        value = _names()["cardinals"].get(word)
        if (
            value is None
            and len(word) > 3
            and not text[found.start() - 2 : found.start()].rstrip()[-1:].isdecimal()
        ):
            value = _names()["powers"].get(word)  # "a million"
        if value is not None:
            unit = _unit_at(text, found.end()) or _Unit(found.end())
            yield Quantity(*found.span(), (value * unit.power,), unit.name, unit.factor)
