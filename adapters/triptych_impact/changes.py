"""What a change took away or replaced: names, values, numbers, paths, addresses and messages."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import Final, Literal

import attrs

from triptych.text import matching_blocks
from triptych_impact.sources import (
    NUMBER,
    QUOTED,
    TOKEN,
    UNNAMED,
    WORD,
    Source,
    is_shaped,
)

ChangeKind = Literal["name", "member", "option", "value", "number", "path", "url", "message"]

_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_LONG: Final = re.compile(r"[^\W\d_]{3,}")
_HOLES: Final = re.compile(r"\{[^{}]*\}|%\(?\w*\)?[sdrif]")
_TEST: Final = re.compile(
    r"(?:^|/)(?:tests?|testing|conftest\.py|test_[^/]*|[^/]*[._]test\.\w+)(?:/|$)"
)
_ASSIGNED: Final = re.compile(r"[ \t]+\w+(?:, ?\w+)* = |[ \t]+for \w")
PAST: Final = re.compile(
    r"\b(?:deprecat\w+|removed?|no longer|previously|formerly|renamed|replaced|used to|until|"
    r"legacy|since|starting with|added in|new in|introduced|as of|versionchanged|versionadded|"
    r"instead of|before version)\b",
    re.IGNORECASE,
)
_LARGEST: Final = 400_000
_LONGEST: Final = 300


@attrs.frozen(kw_only=True)
class Changed:
    """A document before and after; None where there is none. ``renamed`` is its new name."""

    name: str
    old: str | None
    new: str | None
    renamed: str = ""


@attrs.frozen(kw_only=True)
class Change:
    """Something that a document no longer says.

    Attributes:
        kind: what it is.
        name: what was removed, or of a value what has it.
        old, new: what it was and is; of a name, what stands in its place. "" is nothing.
        document, line: where it stood, in the old text.
        text, instead: that line, and the one in its place ("").
        owners: what it belonged to, the nearest last: a function or class, else the file.
        weight: how surely sentences that hold it are wrong, 0 to 1.
        words: of a number, the words beside it.
    """

    kind: ChangeKind
    name: str
    old: str = ""
    new: str = ""
    document: str
    line: int
    text: str = ""
    instead: str = ""
    owners: tuple[str, ...] = ()
    weight: float
    words: tuple[str, ...] = ()


def _kind(token: str) -> ChangeKind:
    if token.startswith("--"):
        return "option"
    return "url" if "://" in token else "path" if "/" in token else "name"


def is_test(name: str) -> bool:
    """Whether a document is a test, by its name."""
    return _TEST.search(name) is not None


def is_too_large(changed: Changed) -> bool:
    """Whether a document is too large to be compared."""
    return max(len(changed.old or ""), len(changed.new or "")) > _LARGEST


def parts_of(name: str) -> frozenset[str]:
    """The words of an identifier in small letters, those of one or two letters apart."""
    return frozenset(each.lower() for each in _PARTS.findall(name) if len(each) > 2)


class _Pair:
    """A document before and after."""

    def __init__(self, changed: Changed) -> None:
        self.changed = changed
        self.old = Source(changed.name, changed.old or "")
        self.new = Source(changed.renamed or changed.name, changed.new or "")

    @cached_property
    def instead(self) -> Mapping[int, str]:
        """By the numbers of old lines, those that replaced them."""
        return {number: new for number, _, new in self.replaced}

    @cached_property
    def hunks(self) -> list[tuple[int, Sequence[str], Sequence[str]]]:
        """The lines that were removed, from the index of the first, and those in their place."""
        old, new = self.old.lines, self.new.lines
        found: list[tuple[int, Sequence[str], Sequence[str]]] = []
        a, b = 0, 0
        for block in (*matching_blocks(old, new), None):
            end, until = (len(old), len(new)) if block is None else (block.a, block.b)
            if end > a or until > b:
                found.append((a, old[a:end], new[b:until]))
            if block is not None:
                a, b = block.a + block.size, block.b + block.size
        return found

    @cached_property
    def replaced(self) -> list[tuple[int, str, str]]:
        """Lines that were replaced by similar ones, each with its number and what it became.

        The most similar pairs first, of equal ones the nearest; a line that is left over became one
        that has its pair already.
        """
        found = []
        for start, old, new in self.hunks:
            if len(old) * len(new) > 2500:
                continue
            mine, its = ([Counter(TOKEN.findall(line)) for line in lines] for lines in (old, new))
            shares = [
                (-2 * (mine[i] & its[j]).total() / (mine[i] + its[j]).total(), abs(i - j), i, j)
                for i in range(len(old))
                for j in range(len(new))
                if mine[i] and its[j]
            ]
            similar = sorted(each for each in shares if each[0] <= -0.5)
            pairs: dict[int, int] = {}
            for _, _, i, j in similar:
                if i not in pairs and j not in pairs.values():
                    pairs[i] = j
            for _, _, i, j in similar:
                pairs.setdefault(i, j)
            found += [(start + i + 1, old[i], new[j]) for i, j in sorted(pairs.items())]
        return found

    @cached_property
    def swaps(self) -> Mapping[str, Counter[str]]:
        """What stands in the place of tokens, in lines that are else similar."""
        found: dict[str, Counter[str]] = {}
        for _, old, new in self.replaced:
            a, b = TOKEN.findall(old), TOKEN.findall(new)
            for tag, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
                if tag == "replace" and j - i == m - k:
                    for before, after in zip(a[i:j], b[k:m], strict=True):
                        found.setdefault(before, Counter())[after] += 1
        return found

    def swapped(self, token: str) -> str:
        """What most often stands in the place of a token, "" if nothing does."""
        found = self.swaps.get(token)
        return min(found, key=lambda each: (-found[each], each)) if found else ""


class Tree:
    """The documents of the new state, and what their code names."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = list(sources)
        self.names = {each.name for each in self.sources}
        self._living: dict[str, bool] = {}

    @cached_property
    def _code(self) -> list[Source]:
        return [e for e in self.sources if e.is_code and not is_test(e.name)]

    def has(self, token: str) -> bool:
        """Whether code that is no test names it."""
        if token not in self._living:
            words = WORD.findall(token)
            self._living[token] = any(
                all(word in each.words for word in words) and token in each.tokens
                for each in self._code
            )
        return self._living[token]

    def defines(self, name: str) -> bool:
        """Whether code that is no test defines a name."""
        return any(
            name in each.words and any(name == one.name for one in each.definitions)
            for each in self._code
        )

    def says(self, text: str) -> bool:
        """Whether code holds a text."""
        words = WORD.findall(text)[1:-1]
        return any(
            all(word in each.words for word in words) and text in each.text for each in self._code
        )

    def has_member(self, owner: str, name: str) -> bool:
        """Whether something of this name has such a parameter or method."""
        return any(
            owner in each.words and name in each.words and (owner, name) in each.members
            for each in self._code
        )


def changes_of(changed: Iterable[Changed], tree: Tree) -> list[Change]:
    """What is gone or has another value, each once; what only moved is not among it."""
    found: dict[tuple[object, ...], Change] = {}
    for each in changed:
        if is_too_large(each):
            continue
        pair = _Pair(each)
        for change in (*_paths(pair, tree), *_in_code(pair, tree), *_in_prose(pair, tree)):
            key = (change.kind, change.name, change.old, change.owners, change.words)
            if key not in found or change.weight > found[key].weight:
                found[key] = attrs.evolve(
                    change,
                    text=pair.old.lines[change.line - 1].strip()[:_LONGEST],
                    instead=pair.instead.get(change.line, "").strip()[:_LONGEST],
                )
    return list(found.values())


def _paths(pair: _Pair, tree: Tree) -> Iterator[Change]:
    name, new = pair.changed.name, pair.new.name
    if pair.changed.old is None or name in tree.names:
        return
    moved = new if new != name else ""
    yield Change(kind="path", name=name, old=name, new=moved, document=name, line=1, weight=1.0)


def _in_code(pair: _Pair, tree: Tree) -> Iterator[Change]:
    old, new, name = pair.old, pair.new, pair.old.name
    if not old.is_code or is_test(name):
        return
    defined = {each.name: each.start for each in old.definitions}
    file = (posixpath.splitext(posixpath.basename(name))[0],)

    def change(kind: ChangeKind, name: str, at: int, weight: float, was: str, now: str) -> Change:
        owners = tuple(each for each in old.owners(at) if each != name) or file
        return Change(
            kind=kind, name=name, old=was, new=now, document=old.name, line=old.line(at),
            owners=owners, weight=weight,
        )  # fmt: skip

    gone, still = set(), {each.name for each in new.definitions}
    for token, at in old.tokens.items():
        if token in new.tokens or len(token) < 3 or NUMBER.match(token):
            continue
        alive = tree.has(token) and (token not in defined or tree.defines(token))
        if token.rpartition(".")[0] and token.rpartition(".")[2] in gone:
            continue  # its last part says the same
        if alive and not (pair.swapped(token) and (is_shaped(token) or "/" in token)):
            continue
        if not alive:
            gone.add(token)
        at = defined.get(token, at)
        weight = 0.5 if alive else 1.0 if token in defined or token.startswith("--") else 0.8
        if token.startswith("_") or (old.owners(at) and _ASSIGNED.match(old.code, _start(old, at))):
            weight *= 0.5  # private, or a local variable
        yield change(_kind(token), token, at, weight, token, pair.swapped(token))
    for (owner, member), at in old.members.items():
        if member in gone or (owner, member) in new.members or tree.has_member(owner, member):
            continue
        if owner not in still or owner.startswith("_"):
            continue  # it was renamed, or moved, as a whole
        yield attrs.evolve(
            change("member", member, at, 0.9, member, pair.swapped(member)),
            owners=(owner,),
        )
    for place, (value, at) in old.settings.items():
        its, setting = new.settings.get(place), place[-1]
        if its is None or its[0] == value or not value.strip() or setting in gone:
            continue
        yield change("value", setting, at, 1.0, value, its[0])
    yield from _numbers(pair, file)
    for found in QUOTED.finditer(old.code):
        for piece in _HOLES.split(found[2]):
            text = piece.strip()
            if len(_LONG.findall(text)) >= 3 and text not in new.text and not tree.says(text):
                yield change("message", text, found.start(), 0.8, text, "")


def _start(source: Source, at: int) -> int:
    return source.text.rfind("\n", 0, at) + 1


def _numbers(pair: _Pair, file: tuple[str, ...]) -> Iterator[Change]:
    """Numbers that were replaced in lines that are else similar."""
    starts = [0]
    for line in pair.old.lines:
        starts.append(starts[-1] + len(line) + 1)
    kept, told = Counter(pair.new.lines), set(NUMBER.findall(pair.new.text))
    replaced = {number for number, _, _ in pair.replaced}
    forms = {NUMBER.sub("0", line.strip()) for line in pair.new.lines}
    removed = [
        (start + at + 1, line, None)
        for start, lines, _ in pair.hunks
        for at, line in enumerate(lines)
        if start + at + 1 not in replaced
    ]
    for number, line, new in (*pair.replaced, *removed):
        if kept[line] or PAST.search(line):
            continue
        mine, its = NUMBER.findall(line), NUMBER.findall(new or "")
        for found in NUMBER.finditer(line):
            value = found[0]
            if value in its or (len(value) == 1 and len(its) != len(mine)):
                continue
            if new is None and (value in told or NUMBER.sub("0", line.strip()) not in forms):
                continue  # not one of a list of which others are left
            named = [t for t in TOKEN.findall(line[: found.start()]) if t not in UNNAMED]
            name = next((each for each in reversed(named) if not NUMBER.match(each)), "")
            words = {part for each in TOKEN.findall(line) for part in parts_of(each)}
            other = its[mine.index(value)] if len(its) == len(mine) else ""
            yield Change(
                kind="number", name=name, old=value, new=other, document=pair.old.name,
                line=number, owners=pair.old.owners(starts[number - 1] + found.start()) or file,
                weight=0.9, words=tuple(sorted(words)),
            )  # fmt: skip


def _in_prose(pair: _Pair, tree: Tree) -> Iterator[Change]:
    """What prose now says in other words: addresses, options, paths, names as code, numbers."""
    if not pair.old.is_prose:
        return
    new = set(TOKEN.findall(pair.new.text))
    for number, line, _ in pair.replaced:
        for token in dict.fromkeys(TOKEN.findall(line)):
            after = pair.swapped(token)
            if token in new or not after or not (is_shaped(token) or "/" in token):
                continue
            if tree.has(token):
                continue
            yield Change(
                kind=_kind(token), name=token, old=token, new=after, document=pair.old.name,
                line=number, weight=0.6,
            )  # fmt: skip
    for each in _numbers(pair, ()):
        yield attrs.evolve(each, weight=0.7)
