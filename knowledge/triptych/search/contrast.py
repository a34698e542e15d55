"""Whether two questions of nearly the same words ask for different things.

Embedders put "safe" beside "unsafe", and hardly see the order of words. What is compared here are
the words alone: negations, opposites, and the same words in another order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import cache, lru_cache
from itertools import chain
from typing import Final

from triptych.text import get_analyzer
from triptych.text.english import ENGLISH_STOP_WORDS
from triptych.text.words import normalize

_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*[+#]*")
_CONTRACTED: Final = {word for word in ENGLISH_STOP_WORDS if word.endswith("n't")}
_NEGATING: Final = """
not no never none nothing nobody nowhere neither without cannot except excluding hardly lack
nicht kein keine keinen keinem keiner nichts nie niemals niemand ohne pas sans jamais aucun
aucune rien sin nunca nada ningún ninguna não sem senza nessun
"""
_NEGATIONS: Final = frozenset(_NEGATING.split()) | {
    form for word in _CONTRACTED for form in (word, word.replace("'", ""))
}
_CHINESE_NEGATIONS: Final = re.compile("[不没無无未勿]")

_PREFIXES: Final = ("un", "in", "im", "il", "ir", "non", "dis", "de", "anti", "mis")
_SHORTEST: Final = 3  # letters of a stem that a prefix may turn round: "into" is not "to"

# What stands left of a slash is the opposite of what stands right of it.
_OPPOSITES: Final = """
on in/off out; before/after; enable activate allow permit grant accept approve/disable forbid deny
block reject refuse ban prohibit revoke; open start begin launch resume/close shut stop end finish
pause quit; first initial/last final; minimum min least minimal less few fewer/maximum max most
maximal more many; small little tiny short/large big huge long tall; low cheap/high expensive
costly; increase raise grow rise gain expand maximize/decrease reduce lower fall drop lose shrink
minimize; up/down; above over/below under beneath; inside internal into indoor/outside external
outdoor; left/right; right correct true good/wrong incorrect false bad; better best/worse worst;
top/bottom; front forward/back backward rear; near close/far distant; early/late; old ancient past
former/new modern young future recent current; hot warm heat/cold cool; wet/dry; fast quick/slow;
strong/weak; hard difficult/easy soft simple; heavy dark black/light bright white; day/night;
morning/evening; add insert create make/remove delete subtract destroy drop; plus/minus;
multiply/divide; attach/detach; join enter arrive arrival /leave exit depart departure; push send
upload deliver/pull receive download; import/export; read/write; input/output; encrypt/decrypt;
encode/decode; show visible/hide hidden; find win profit/lose loss miss; buy purchase/sell;
borrow/lend; deposit/withdraw; debit/credit; give/take receive; pass succeed success/fail failure;
love/hate; for pro/against con; benefit advantage/risk drawback; include/exclude; always
often/never rarely seldom; all every everybody/none some; public/private; local/remote;
online/offline; active/passive; positive/negative; alive/dead; male man boy father husband son
brother he him king/female woman girl mother wife daughter sister she her queen;
employer/employee; buyer/seller; lender/borrower; landlord/tenant; client/server; parent/child;
teacher/student; sender/recipient receiver; host/guest; north northern/south southern; east
eastern/west western; horizontal/vertical; ascend/descend; next/previous; presence present/absence
absent; full fill/empty; thick wide/thin narrow; deep/shallow; rich/poor; free/paid; sick
ill/healthy; clean/dirty; sweet/sour bitter; loud/quiet; tight tighten/loose loosen; melt/freeze;
hire/fire; marry/divorce; remember/forget; save/spend; attack/defend; guilty/innocent;
confirm/cancel; upgrade promote/downgrade demote; merge combine/split separate; wake/sleep;
question/answer; cause/prevent cure effect; single/multiple; singular/plural; same
similar/different; synchronous sync/asynchronous async; serial/parallel; mandatory
required/optional; odd/even; natural/artificial; major/minor; superior/inferior; summer/winter;
mount lock connect/unmount unlock disconnect; harmful useful/harmless useless
"""
_DIRECTING: Final = "to into from than before after by over under against"
_DIRECTIONS: Final = frozenset(_DIRECTING.split())


def contrast(one: str, other: str) -> str:
    """Say by what two questions differ that asks for something else.

    Returns:
        "negation", "opposites" or "order", the first that is found; "" if there is none. Names and
        numbers are not compared.
    """
    first, second = _words(one), _words(other)
    if _negations(first, one) != _negations(second, other):
        return "negation"
    only, only_there = _beside(first, second), _beside(second, first)
    turned = {(group, not side) for group, side in _sides_of(only)}
    if not turned.isdisjoint(_sides_of(only_there)) or _has_prefixed(only, only_there):
        return "opposites"
    orders = [[word for word, _ in each] for each in (first, second)]
    if sorted(orders[0]) != sorted(orders[1]):
        if _DIRECTIONS.isdisjoint(chain(*orders)):
            return ""
        orders = [
            [stem for word, stem in each if word not in ENGLISH_STOP_WORDS]
            for each in (first, second)
        ]
    return "order" if _is_reordered(*orders) else ""


def _words(text: str) -> list[tuple[str, str]]:
    """The words of a question, each with its stem."""
    text = normalize(text).casefold().replace("’", "'")
    return [(word, _stem(word)) for word in _WORD.findall(text)]


@lru_cache(maxsize=1 << 14)
def _stem(word: str) -> str:
    if word.endswith(("ee", "ees")):  # an employee is no employer
        return word.removesuffix("s")
    # The stems of "safe" and "unsafe" differ by this letter, too.
    return [*get_analyzer("english").analyze(word), word][0].removesuffix("e")


def _negations(words: Sequence[tuple[str, str]], text: str) -> int:
    return sum(word in _NEGATIONS for word, _ in words) + len(_CHINESE_NEGATIONS.findall(text))


def _beside(words: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]]) -> Set[str]:
    """The words whose stems ``others`` do not hold, and these stems."""
    there = {stem for _, stem in others}
    return {form for pair in words if pair[1] not in there for form in pair}


def _is_reordered(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether these are the same words in an order that differs by more than one moved beginning.

    Of two words, the beginning is the first: "Paris Rome" is "Rome Paris" reordered.
    """
    if Counter(one) != Counter(other):
        return False
    turned = one if len(one) < 3 else (*one, *one)
    return f" {' '.join(other)} " not in f" {' '.join(turned)} "


def _has_prefixed(forms: Set[str], others: Set[str]) -> bool:
    """Whether a form in one set is that in another with a prefix that turns it round."""
    return any(
        len(rest := form.removeprefix(prefix)) >= _SHORTEST and rest != form and rest in there
        for these, there in ((forms, others), (others, forms))
        for form in these
        for prefix in _PREFIXES
    )


def _sides_of(forms: Set[str]) -> Set[tuple[int, bool]]:
    """The groups of opposites that hold a form, or what it compares (older, old), with the side."""
    sides, found = _sides(), set[tuple[int, bool]]()
    for form in forms:
        compared = form.removesuffix("er").removesuffix("est")
        bases = (form,) if compared == form else (form, compared, compared[:-1])  # bigger
        found |= next((sides[base] for base in bases if base in sides), frozenset())
    return found


@cache
def _sides() -> Mapping[str, frozenset[tuple[int, bool]]]:
    """By stem: the groups that hold it, each with the side."""
    found: dict[str, frozenset[tuple[int, bool]]] = {}
    for number, group in enumerate(" ".join(_OPPOSITES.split()).split(";")):
        for side, words in enumerate(group.split("/")):
            for word in words.split():
                found[_stem(word)] = found.get(_stem(word), frozenset()) | {(number, bool(side))}
    return found
