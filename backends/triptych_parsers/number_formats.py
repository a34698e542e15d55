"""Numbers and dates as a spreadsheet shows them (ECMA-376, part 1, 18.8.30 and 18.8.31)."""

from __future__ import annotations

import datetime
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import TypeAlias

from triptych.parsing import one_line

_USUAL = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    11: "0.00E+00",
    14: "yyyy-mm-dd",
    15: "d-mmm-yy",
    16: "d-mmm",
    17: "mmm-yy",
    18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM",
    20: "h:mm",
    21: "h:mm:ss",
    22: "yyyy-mm-dd h:mm",
    37: "#,##0",
    38: "#,##0",
    39: "#,##0.00",
    40: "#,##0.00",
    45: "mm:ss",
    46: "[h]:mm:ss",
    47: "mm:ss.0",
    48: "0.0E+0",
    **dict.fromkeys((*range(27, 37), *range(50, 59)), "yyyy-mm-dd"),
}
# Excel's formats have 255 characters at most; the bounds keep a longer one linear.
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]{0,255}+)"|\\(?P<escaped>.)|_.|\*.'
    r"|\[\$(?P<currency>[^\]-]{0,255}+)[^\]]{0,255}+\]"
    r"|\[(?P<elapsed>h+|m+|s+)\]|(?P<condition>\[[<>=][^\]]{0,255}+\])|\[[^\]]{0,255}+\]"
    r"|(?P<date>AM/PM|A/P|y+|m+|d+|h+|s+(?:\.0+)?)"
    r"|(?P<code>General|E[+-]|[0#?.,%/@;])|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_PRECISE = Context(prec=400)

_EPOCH = datetime.datetime(1899, 12, 30)
_HALVES = ("AM/PM", "A/P")
_PLACES = (("code", "0"), ("code", "#"), ("code", "?"))
_KINDS = frozenset(("date", "elapsed", "code"))
_GENERAL = (("code", "General"), ("code", "@"), ("code", "/"))

_Token: TypeAlias = tuple[str, str]
"""Its kind ("text", "date", "elapsed" or "code") and what it says."""


def usual_format(number: int) -> str:
    """The format that a file names by this number, "" for the general one.

    14 and 22 are dates as each reader's own system has them: here in ISO's form.
    """
    return _USUAL.get(number, "")


def shown_number(text: str, code: str, *, from_1904: bool = False) -> str:
    """Return the saved number ``text`` as the format ``code`` shows it.

    A date in another form than ISO's is followed by that. What a format hides, fractions, and
    formats with conditions are shown in the general format; what is no number stays as it is.
    """
    try:
        value = float(text)
        plain = str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.15g}"
    except (ValueError, OverflowError):
        return text
    sections = _sections(code)
    if any(kind in ("date", "elapsed") for kind, _ in sections[0]):
        return _moment(value, sections[0], from_1904) or plain
    at = (value < 0) + 2 * (value == 0)
    own = at < len(sections)
    tokens = sections[at if own else 0]
    if any(token in tokens for token in _GENERAL):
        return plain
    shown = one_line(_number(abs(value), tokens))
    return (f"-{shown}" if value < 0 and not own else shown) or plain


@lru_cache(maxsize=1024)
def _sections(code: str) -> list[list[_Token]]:
    """The sections of a format: for numbers above, below and equal to zero."""
    sections: list[list[_Token]] = [[]]
    for match in _TOKEN.finditer(code or "General"):
        kind = match.lastgroup or ""
        text = match[kind] if kind else ""
        if kind == "condition":
            return _sections("General")
        if text == ";" and kind == "code":
            sections.append([])
        elif text:
            sections[-1].append((kind if kind in _KINDS else "text", text))
    return [_with_minutes(tokens) for tokens in sections]


def _with_minutes(tokens: list[_Token]) -> list[_Token]:
    """Mark by "n" the minutes: an m after hours or before seconds is no month."""
    times = [at for at, (kind, _) in enumerate(tokens) if kind in ("date", "elapsed")]
    found = list(tokens)
    for number, at in enumerate(times):
        before, after = times[max(number - 1, 0)], times[min(number + 1, len(times) - 1)]
        kind, text = tokens[at]
        near = tokens[before][1][0] in "hH" or tokens[after][1][0] in "sS"
        if kind == "date" and text in ("m", "mm", "M", "MM") and near:
            found[at] = (kind, "n" * len(text))
    return found


def _number(value: float, tokens: list[_Token]) -> str:
    """``value``, from 0 on, in a section's digits, separators and text."""
    codes = "".join(text if kind == "code" else " " for kind, text in tokens)
    whole, _, fraction = codes.partition(".")
    decimals = re.sub("[^0#?]", "", fraction.upper().partition("E")[0])
    if "E" in codes.upper():
        return f"{value:.{len(decimals)}E}"
    end = codes.rstrip(" %")
    scaled = len(end) - len(end.rstrip(","))
    number = Decimal(repr(value)).scaleb(2 * codes.count("%") - 3 * scaled)
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP, _PRECISE)
    before, _, after = f"{rounded:f}".partition(".")
    least = len(decimals.rstrip("#?"))
    after = after[:least] + after[least:].rstrip("0")
    before = before.lstrip("0").zfill(whole.count("0"))
    if "," in whole.rstrip(" %,"):
        first = len(before) % 3 or 3
        groups = [before[:first], *(before[at : at + 3] for at in range(first, len(before), 3))]
        before = ",".join(groups)
    return _filled(tokens, before, f".{after}" if after else "")


def _filled(tokens: list[_Token], before: str, after: str) -> str:
    """The digits in the places of a section; the first place takes all that go before."""
    point = next((at for at, token in enumerate(tokens) if token == ("code", ".")), len(tokens))
    places = [at for at in range(point) if tokens[at] in _PLACES]
    if not places or all(kind == "code" for kind, _ in tokens[places[0] : places[-1]]):
        places = places[:1]  # no text stands between the digits
    shown = ""
    for at, (kind, text) in enumerate(tokens):
        if kind == "text" or text == "%":
            shown += text
        elif at == point:
            shown += after
        elif at in places:
            left = len(places) - places.index(at) - 1
            begin = 0 if at == places[0] else max(len(before) - left - 1, 0)
            shown += before[begin : max(len(before) - left, 0)]
    return shown


def _moment(value: float, tokens: list[_Token], from_1904: bool) -> str:
    """``value``, in days, as a date, a time or a duration; "" for what is none."""
    days = value + (1462 if from_1904 else 0) + (0 < value < 60 and not from_1904)
    try:
        moment = _EPOCH + datetime.timedelta(seconds=round(days * 86_400, 3))
    except OverflowError:
        return ""
    if moment < _EPOCH:
        return ""
    dates = [text[0].lower() if kind == "date" else "" for kind, text in tokens]
    of_day = [at for at, code in enumerate(dates) if code in ("y", "m", "d")]
    if of_day and moment.time() == datetime.time():  # a date that is saved as its midnight
        tokens = tokens[: of_day[-1] + 1]
    half = any(text.upper() in _HALVES for kind, text in tokens if kind == "date")
    parts = (_part(kind, text, moment, value, half) for kind, text in tokens)
    shown = one_line("".join(parts))
    iso = moment.date().isoformat()
    return f"{shown} ({iso})" if of_day and iso not in shown else shown


def _part(kind: str, text: str, moment: datetime.datetime, days: float, half: bool) -> str:
    code = text.lower()
    if kind == "elapsed":
        unit = {"h": 24, "m": 1440, "s": 86_400}[code[0]]
        return str(int(round(days * 86_400, 3) * unit // 86_400)).zfill(len(code))
    if kind != "date":
        return text
    if text.upper() in _HALVES:
        return moment.strftime("%p")[: len(text) // 2]
    if code in ("mmm", "mmmm", "mmmmm", "ddd", "dddd"):
        name = moment.strftime("%B" if code[0] == "m" else "%A")
        return name if len(code) == 4 else name[: 1 if len(code) == 5 else 3]
    if code[0] == "y":
        return str(moment.year) if len(code) > 2 else f"{moment.year % 100:02}"
    hour = (moment.hour % 12 or 12) if half else moment.hour
    number = {"m": moment.month, "d": moment.day, "h": hour, "n": moment.minute}
    code, point, decimals = code.partition(".")
    shown = str(number.get(code[0], moment.second)).zfill(min(len(code), 2))
    return shown + point + f"{moment.microsecond:06}"[: len(decimals)]
