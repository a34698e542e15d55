"""Which sentences a change may have made untrue, the likeliest first."""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import attrs

from triptych.errors import ValidationError
from triptych.records import check_whole
from triptych_impact.changes import (
    PAST,
    Change,
    Changed,
    Tree,
    changes_of,
    is_test,
    is_too_large,
    parts_of,
)
from triptych_impact.sources import WORD, Place, Sentence, Source, is_shaped

LEAST: Final = 0.3
"""The score from which a finding is an alarm: docs/explanation/impact.md has what that is worth."""
_HISTORY: Final = re.compile(
    r"(?:^|/)[^/]*(?:change|history|release|news|migrat|upgrad|whats.?new|authors)[^/]*(/|$)",
    re.IGNORECASE,
)
_VERSION: Final = re.compile(r"^\W{0,9}(?:[A-Za-z]+ ){0,2}v?\d+\.\d+", re.MULTILINE)
_QUOTED: Final = re.compile(r"``(.+?)``|(?<!`)`([^`\n]+)`(?!`)|[\"“]([^\"”\n]+)[\"”]")
_LINK: Final = re.compile(r"\]\(<?([^)>#\s]*)|(?<![\w./%-])[\w./%-]*[\w%-]\.\w{1,8}\b")
_PLACES: Final[Mapping[Place, float]] = {"prose": 1.0, "example": 0.9, "comment": 0.8}
_AGAIN, _BESIDE = 0.92, 0.98  # what a further sentence of the same thing, and document, keeps


@attrs.frozen(kw_only=True)
class Finding:
    """A sentence that a change may have made untrue.

    Attributes:
        document, line, sentence, place: where it is, what it says, and what it is a part of.
        change: what changed.
        score: 0 to 1, for an order; no probability.
        why: what ties the sentence to the change.
    """

    document: str
    line: int
    sentence: str
    place: Place
    change: Change
    score: float
    why: str


@attrs.frozen(kw_only=True)
class Impact:
    """What a change may have made untrue.

    Attributes:
        findings: the likeliest first.
        more: how many sentences beside them have such a score by themselves; of one thing, or in
            one document, each further one counts for less.
        changes: how many things were removed or replaced.
        history: documents that tell the past, such as changelogs, in which nothing was looked for.
        too_large: changed documents that are too large to be compared.
    """

    findings: Sequence[Finding]
    more: int
    changes: int
    history: Sequence[str]
    too_large: Sequence[str]


def impact(
    changed: Sequence[Changed],
    documents: Iterable[Source],
    *,
    top_k: int = 20,
    least: float = LEAST,
) -> Impact:
    """Return the sentences of ``documents``, the state after a change, that it may make untrue.

    Neither tests nor documents that tell the past are searched, nor are lines that the change
    wrote. ``top_k`` is the most findings, each with a score of at least ``least``.

    Raises:
        ValidationError: an argument is out of its range.
    """
    check_whole(top_k, "top_k", least=1)
    if not 0 <= least <= 1:
        raise ValidationError(f"least is a score from 0 to 1, not {least!r}")
    tree = Tree(documents)
    changes = changes_of(changed, tree)
    before = {line for each in changed for line in (each.old or "").split("\n")}
    written = {
        each.renamed or each.name: frozenset((each.new or "").split("\n")) - before
        for each in changed
    }
    past = [each for each in tree.sources if _tells_past(each)]
    told = {each.name for each in past}
    looked = [e for e in tree.sources if e.name not in told and not is_test(e.name)]
    best: dict[tuple[str, int, str], Finding] = {}
    for change in changes:
        for found in _scored(change, list(_holding(change, looked, written))):
            key = found.document, found.line, found.sentence
            if key not in best or _likelier(found) < _likelier(best[key]):
                best[key] = found
    shown = [each for each in _spread(best.values()) if each.score >= least][:top_k]
    return Impact(
        findings=shown,
        more=sum(each.score >= least for each in best.values()) - len(shown),
        changes=len(changes),
        history=[each.name for each in past if each.is_prose],
        too_large=[each.name for each in changed if is_too_large(each)],
    )


def _tells_past(source: Source) -> bool:
    """Whether a document is a changelog or the like: by its folder; or by its name, and lines that
    begin with a version."""
    named = _HISTORY.search(source.name)
    return bool(named and (named[1] or _VERSION.search(source.text)))


def _order(each: Finding) -> tuple[float, str, int, str, str, str]:
    change = each.change
    return -each.score, each.document, each.line, change.name, change.old, change.document


def _likelier(each: Finding) -> tuple[float | int | str, ...]:
    """For the order of what may make the same sentence untrue: of equal scores, first what shares
    most words with it, in its line and in what it belonged to."""
    change = each.change
    words = {part for text in (change.text, *change.owners) for part in parts_of(text)}
    return -each.score, -len(words & parts_of(each.sentence)), *_order(each)[1:], change.line


def _spread(found: Iterable[Finding]) -> list[Finding]:
    """Each further sentence that holds the same thing, or is in the same document, later."""
    seen: Counter[tuple[str, str]] = Counter()
    ranked = []
    for each in sorted(found, key=_order):
        thing, place = (each.change.name, each.change.old), (each.document, "")
        kept = each.score * _AGAIN ** seen[thing] * _BESIDE ** seen[place]
        ranked.append(attrs.evolve(each, score=round(kept, 3)))
        seen.update((thing, place))
    return sorted(ranked, key=_order)


class _Held(NamedTuple):
    """A sentence that holds what changed: whether as code, and how much of its context."""

    source: Source
    sentence: Sentence
    coded: bool = True
    shared: float = 1.0


def _needle(change: Change) -> re.Pattern[str]:
    """What finds the changed thing in a sentence."""
    text = re.escape(change.old if change.kind == "number" else change.name)
    ends = {
        "number": r"(?!\w|\.\d)",
        "url": r"(?![\w-]|[/.]\w)",
        "option": r"(?![\w-])",
    }
    starts = {"number": r"(?<![\w.-])v?", "option": r"(?<![\w.-])"}
    begins = starts.get(change.kind, r"(?<!\w)")
    return re.compile(begins + text + ends.get(change.kind, r"s?(?!\w)"))


def _holding(
    change: Change, sources: Sequence[Source], written: Mapping[str, frozenset[str]]
) -> Iterator[_Held]:
    pattern = _needle(change)
    words = WORD.findall(change.name)
    if change.kind == "number":
        words = WORD.findall(change.old)[1:]  # the first may be written as v3
    elif change.kind == "message":
        words = words[1:-1]
    elif change.kind == "path":
        words = WORD.findall(posixpath.basename(change.name))
    if change.kind == "number":
        whole = WORD.findall(change.old)[:1]
        either = [*whole, *(f"v{each}" for each in whole)]
    else:  # a single word, or the last one, may be in the plural
        either = [words[0], f"{words[0]}s"] if words else []
    for source in sources:
        if not source.words.issuperset(words):
            continue
        fresh = written.get(source.name, frozenset())
        for sentence in source.holding(either):
            held = _held(change, pattern, source, sentence)
            if held and fresh.isdisjoint(source.lines[sentence.line - 1 : sentence.last]):
                yield held


def _held(
    change: Change, pattern: re.Pattern[str], source: Source, sentence: Sentence
) -> _Held | None:
    said = sentence.text
    if change.kind == "path" and change.name == change.document:
        return _Held(source, sentence) if change.name in _cited(source.name, said) else None
    if pattern.search(said) is None:
        return None
    if change.kind == "number":
        words = {word.lower() for word in WORD.findall(said)}
        words |= {part for word in WORD.findall(said) for part in parts_of(word)}
        shared, name = len(words.intersection(change.words)), parts_of(change.name)
        full = bool(name) and name <= words
        kept = 1.0 if full else min(0.8, 0.4 + 0.2 * shared)
        return _Held(source, sentence, True, kept) if shared else None
    if change.kind == "value":
        value = re.search(rf"(?<![\w.]){re.escape(change.old)}(?!\w|\.\d)", said)
        return _Held(source, sentence) if value else None
    return _Held(source, sentence, _is_code(change, pattern, sentence))


def _is_code(change: Change, pattern: re.Pattern[str], sentence: Sentence) -> bool:
    """Whether a sentence holds a name as that of code, and not as a word."""
    if change.kind in ("message", "url", "path") or is_shaped(change.name):
        return True
    said, form = sentence.text, pattern.pattern
    for each in _QUOTED.finditer(said):
        quoted = each[3] if sentence.place != "example" else None
        if pattern.search(each[1] or each[2] or quoted or ""):
            return True
    return re.search(rf"{form}(?:[(=]|\.\w)|\.{form}|\bimport {form}", said) is not None


def _cited(name: str, said: str) -> set[str]:
    """The paths that a sentence of a document may name: from its folder, or the top."""
    found = set()
    for each in _LINK.finditer(said):
        target = each[1] or each[0]
        found.add(posixpath.normpath(posixpath.join(posixpath.dirname(name), target)))
        found.add(posixpath.normpath(target.lstrip("/")))
    return found


def _scored(change: Change, held: Sequence[_Held]) -> Iterator[Finding]:
    thing = change.name or change.old
    plain = sum(not each.coded for each in held)
    coded = len(held) - plain
    # What is rare says more, and a name that is also a word of prose less.
    rarity = 1 / (1 + 0.1 * math.log2(max(1, len(held))))
    clarity = coded / (coded + 2 * plain) if held else 0.0
    for source, sentence, _, shared in (each for each in held if each.coded):
        score = change.weight * rarity * clarity * shared * _PLACES[sentence.place]
        why = [f"holds {thing}" if change.kind != "number" else f"holds {change.old}"]
        if change.kind == "value":
            why.append(f"and its old value {change.old}")
        tie, tied = 0.75, ""
        for owner in (each for each in change.owners if len(each) > 2):
            whole = rf"(?<!\w){re.escape(owner)}(?!\w)"
            for kept, text, note in (
                (1.0, sentence.text, f"names {owner}"),
                (0.95, sentence.around, f"stands beside {owner}"),
                (0.85, source.text if owner in source.words else "", f"in a text on {owner}"),
            ):
                if kept > tie and re.search(whole, text):
                    tie, tied = kept, note
        if change.kind == "member" and tie < 0.95:
            tie *= 0.5  # another thing may have a parameter of this name
        if change.new and re.search(rf"(?<!\w){re.escape(change.new)}(?!\w)", sentence.text):
            score, tied = score * 0.5, f"{tied}, but says {change.new} as well".lstrip(", ")
        if PAST.search(sentence.text):
            score, tied = score * 0.4, f"{tied}, but tells the past".lstrip(", ")
        yield Finding(
            document=source.name,
            line=sentence.line,
            sentence=sentence.text,
            place=sentence.place,
            change=change,
            score=score * tie,
            why="; ".join(filter(None, (*why, tied))),
        )
