"""Mapping texts to the numbers of their terms, for indexing."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby, pairwise
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from triptych.text.detection import NumberedClues
from triptych.text.escapes import expand

CACHE_RUNS: Final = 1 << 17
CACHE_RUN_LENGTH: Final = 64
CACHE_RUN_TERMS: Final = 16

_KEY: Final = 16
_ITEM: Final = np.dtype((np.void, _KEY))
_EMPTY: Final = -1
# What is below it stands for several terms.
_MANY: Final = -2
# There is a table for each small dataset: it begins small, and grows by what it holds.
_LEAST_SLOTS: Final = 1 << 6
_LEARNT_AT_ONCE: Final = 1 << 11
# Odd, and as good as random: the golden ratio's digits, and those of the square root of two.
_MULTIPLIERS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0x6A09E667F3BCC909))
_MASKS: Final = np.array(
    [[255] * size + [0] * (_KEY - size) for size in range(_KEY + 1)], np.uint8
).view(np.uint64)

FOREIGN: Final = ":"
"""The first character of terms in other languages than English, where texts are in several."""


@cache
def prefix_of(language: str) -> str:
    """What the terms of a language begin with; a dictionary that has such terms has it, too."""
    return f"{FOREIGN}{language[:2]}:"


IntArray = NDArray[Any]

Encoded = tuple[NDArray[np.int32], NDArray[np.int64]]
"""The numbers of texts' terms, one text after the other, and how many each has."""


Compiled = Callable[[tuple[IntArray, ...]], int]
"""The kernel ``runs`` of an index: it cuts a text in ASCII, and looks its runs up in a table."""


class Runs(Protocol):
    """The terms of runs of characters without a separator."""

    def __getitem__(self, run: str, /) -> tuple[str, ...]: ...

    def learn(self, runs: Iterable[str]) -> None:
        """Make ready for being asked for these."""
        ...


class Numbering(dict[str, "int | tuple[int, ...]"]):
    """Turns texts into the numbers of their terms, with one look-up a run.

    A run of one term, as most are, is kept as a number alone, which spares a look into a tuple.
    Not thread-safe.

    Args:
        runs: what is in a run.
        terms: the number of each term; new ones are added.
        split: cuts a text into runs.
        kept: for each byte whether it belongs to a run in an ASCII text, shape (256,).
        foreign: gives what numbers the texts in a language.
        clues: what tells the language of a text; None if all are in one.
        compiled: the kernel that cuts texts and looks their runs up; None for NumPy.
    """

    __slots__ = ("_clues", "_compiled", "_foreign", "_kept", "_runs", "_split", "_table", "_terms")

    def __init__(
        self,
        runs: Runs,
        terms: dict[str, int],
        split: Callable[[str], list[str]],
        kept: Sequence[bool],
        foreign: Callable[[str], Numbering],
        clues: NumberedClues | None,
        compiled: Compiled | None,
    ) -> None:
        super().__init__()
        self._compiled = compiled
        self._foreign = foreign
        self._clues = clues
        self._runs = runs
        self._terms = terms
        self._split = split
        self._kept = np.array(kept, np.bool_)
        self._table = _RunTable()

    def _encode(self, text: str) -> array[int]:
        """The numbers of one text."""
        found = list(map(self.__getitem__, self._split(text)))
        numbers = array("i")
        try:
            numbers.fromlist(found)  # type: ignore[arg-type]  # raises where there is a tuple
        except TypeError:
            for one in found:
                if isinstance(one, int):
                    numbers.append(one)
                else:
                    numbers.extend(one)
        return numbers

    def in_language(
        self, texts: Sequence[str], known: Encoded, labels: Sequence[str], of_labels: Encoded
    ) -> tuple[Encoded, Encoded]:
        """Return the numbers of texts and their labels, each in the language of the text.

        ``known`` and ``of_labels`` are those of `encode_all`.
        """
        found = self._clues.languages(*known) if self._clues else {}
        if not found:
            return known, of_labels
        into = [split_encoded(known), split_encoded(of_labels)]
        for language in sorted(set(found.values())):
            self._terms.setdefault(prefix_of(language), len(self._terms))
            places = [at for at, each in found.items() if each == language]
            for each, some in zip((texts, labels), into, strict=True):
                encoded = self._foreign(language).encode_all([each[at] for at in places])
                for at, numbers in zip(places, split_encoded(encoded), strict=True):
                    some[at] = numbers
        return join_encoded(into[0]), join_encoded(into[1])

    def encode_all(self, texts: Sequence[str]) -> Encoded:
        """Return the numbers of each text's terms, one text after the other, and how many it has.

        They are those of ``analyze(text, "english")`` where the language is "auto", else those of
        ``analyze(text)``; a new term gets the next free number. Lines in ASCII
        are cut and looked up all at once, in arrays: a dictionary of many words fits no
        processor's cache, and one look-up after another then waits for memory.
        """
        pieces: list[str] = []
        counts: list[int] = []
        for text in map(expand, texts):
            if text.isascii():
                some = [text]
            else:
                # Code is ASCII but for a few lines; no run goes on in the next line.
                some = ["\n".join(of) for _, of in groupby(text.split("\n"), str.isascii)]
            pieces += some
            counts.append(len(some))
        plain = [piece for piece in pieces if piece.isascii()]
        numbers, sizes = self._encode_ascii(plain)
        if len(plain) == len(texts) == len(pieces):
            return numbers, sizes
        known = (numbers[start:end] for start, end in pairwise([0, *np.cumsum(sizes).tolist()]))
        found = [
            next(known) if piece.isascii() else np.array(self._encode(piece), np.int32)
            for piece in pieces
        ]
        ends = np.cumsum([0, *map(len, found)])[np.cumsum([0, *counts])]
        return np.concatenate([*found, numbers[:0]]), np.diff(ends)

    def _encode_ascii(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        # The longest key may be read after the last run.
        joined = "\n".join(["", *texts, "\0" * _KEY])
        data = np.frombuffer(joined.encode("ascii"), np.uint8)
        starts, ends, values = self._cut(data)
        missing = np.flatnonzero(values == _EMPTY)
        keys = _keys(data, starts[missing], ends[missing])
        # What the first ones teach the table, the others find there.
        most = _LEARNT_AT_ONCE
        while len(missing):
            self._learn(joined, keys[:most], values, starts, ends, missing[:most])
            missing, keys = missing[most:], keys[most:]
            found = self._table.find(keys, np.flatnonzero((ends - starts)[missing] <= _KEY))
            values[missing] = found
            missing, keys = missing[found == _EMPTY], keys[found == _EMPTY]
            most *= 2
        text_ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
        runs = np.searchsorted(starts, text_ends + 1)
        numbers, run_ends = self._table.expanded(values)
        bounds = np.concatenate(([0], run_ends))[np.concatenate(([0], runs))]
        return numbers, np.diff(bounds)

    def _cut(self, data: NDArray[np.uint8]) -> tuple[IntArray, IntArray, NDArray[np.int32]]:
        """Where each run starts and ends, and what the table has for it."""
        if self._compiled is not None:
            room = len(data) // 2 + 1
            starts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
            values = np.empty(room, np.int32)
            count = self._compiled((data, self._kept, *self._table.arrays, starts, ends, values))
            return starts[:count], ends[:count], values[:count]
        kept = self._kept[data]
        edges = np.flatnonzero(kept[1:] != kept[:-1]) + 1
        starts, ends = edges[0::2], edges[1::2]
        short = np.flatnonzero(ends - starts <= _KEY)
        return starts, ends, self._table.find(_keys(data, starts, ends), short)

    def _learn(
        self,
        joined: str,
        keys: NDArray[np.uint64],
        values: NDArray[np.int32],
        starts: IntArray,
        ends: IntArray,
        missing: IntArray,
    ) -> None:
        """Work out the values of the runs that are ``missing``, whose keys these are."""
        pairs = zip(starts[missing].tolist(), ends[missing].tolist(), strict=True)
        runs = [joined[start:end] for start, end in pairs]
        new = dict(zip(runs, range(len(runs)), strict=True))
        self._runs.learn([run for run in new if run not in self])
        value_of = {run: self._value(run) for run in new}
        learnt = np.array([value_of[run] for run in runs], np.int32)
        values[missing] = learnt
        places = np.array([at for run, at in new.items() if len(run) <= _KEY], np.int64)
        self._table.add(keys[places], learnt[places])

    def _value(self, run: str) -> int:
        # A run that the table holds is not kept here as well.
        found = self[run] if len(run) > _KEY else self._numbers(run)
        return found if isinstance(found, int) else self._table.number_of(found)

    def __missing__(self, run: str) -> int | tuple[int, ...]:
        kept = self._numbers(run)
        if len(run) <= CACHE_RUN_LENGTH and (isinstance(kept, int) or len(kept) <= CACHE_RUN_TERMS):
            if len(self) >= CACHE_RUNS:
                self.clear()
            self[run] = kept
        return kept

    def _numbers(self, run: str) -> int | tuple[int, ...]:
        terms, found = self._terms, self._runs[run]
        if len(found) == 1:
            return terms.setdefault(found[0], len(terms))
        return tuple([terms.setdefault(term, len(terms)) for term in found])


def _keys(data: NDArray[np.uint8], starts: IntArray, ends: IntArray) -> NDArray[np.uint64]:
    """The first 16 bytes of each run, filled up with zeros, shape (runs, 2)."""
    # Each place's next 16 bytes are an item of their own, which is copied at once.
    windows = np.ndarray((len(data) - _KEY,), _ITEM, data, strides=(1,))
    keys = windows[starts].view(np.uint64).reshape(-1, 2)
    keys &= _MASKS[np.minimum(ends - starts, _KEY)]
    return keys


def split_encoded(encoded: Encoded) -> list[NDArray[np.int32]]:
    """The numbers of each text."""
    numbers, sizes = encoded
    ends = np.cumsum(sizes).tolist()
    return [numbers[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]


def join_encoded(pieces: Sequence[NDArray[np.int32]]) -> Encoded:
    """The texts with these numbers, one after the other."""
    return np.concatenate(pieces), np.array([len(piece) for piece in pieces], np.int64)


class _RunTable:
    """A hash table of runs of at most 16 bytes, asked for many at once; linear probing.

    The keys are the runs themselves, filled up with zeros: no two runs share one.
    """

    def __init__(self) -> None:
        self._clear(_LEAST_SLOTS)
        self._count = 0
        self._numbers: dict[tuple[int, ...], int] = {}
        self._terms = array("i")
        self._bounds = array("q", [0])

    @property
    def arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """The keys of all slots, shape (slots, 2), and their values."""
        return self._keys, self._values

    def _clear(self, slots: int) -> None:
        self._keys = np.zeros((slots, 2), np.uint64)
        self._values = np.full(slots, _EMPTY, np.int32)
        self._shift = np.uint64(64 - (slots.bit_length() - 1))
        self._mask = slots - 1

    def number_of(self, terms: tuple[int, ...]) -> int:
        """What stands for several terms, or for none."""
        number = self._numbers.get(terms)
        if number is None:
            number = self._numbers[terms] = _MANY - len(self._numbers)
            self._terms.extend(terms)
            self._bounds.append(len(self._terms))
        return number

    def expanded(self, values: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The terms that the values stand for, and where those of each end."""
        several = np.flatnonzero(values <= _MANY)
        if not len(several):
            return values, np.arange(1, len(values) + 1)
        bounds = np.array(self._bounds)
        which = _MANY - values[several]
        first, sizes = bounds[which], bounds[which + 1] - bounds[which]
        counts = np.ones(len(values), np.int64)
        counts[several] = sizes
        ends = np.cumsum(counts)
        out = np.repeat(values, counts)
        # The place within each of those runs, one run after the other.
        inner = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        terms = np.array(self._terms, np.int32)
        out[np.repeat(ends[several] - sizes, sizes) + inner] = terms[
            np.repeat(first, sizes) + inner
        ]
        return out, ends

    def _slots(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        mixed = keys[:, 0] * _MULTIPLIERS[0]
        mixed ^= keys[:, 1] * _MULTIPLIERS[1]
        mixed *= _MULTIPLIERS[0]
        mixed >>= self._shift
        return mixed.astype(np.int64)

    def find(self, keys: NDArray[np.uint64], asked: IntArray) -> NDArray[np.int32]:
        """The value of each of the keys that are ``asked`` for; `_EMPTY` for one without."""
        found = np.full(len(keys), _EMPTY, np.int32)
        slots = self._slots(keys)
        items, table = keys.view(_ITEM)[:, 0], self._keys.view(_ITEM)[:, 0]
        while len(asked):
            at = slots[asked]
            differ = table[at].view(np.uint64)
            differ ^= items[asked].view(np.uint64)
            same = (differ[0::2] | differ[1::2]) == 0
            values = self._values[at]
            found[asked[same]] = values[same]
            asked = asked[~same & (values != _EMPTY)]
            slots[asked] = (slots[asked] + 1) & self._mask
        return found

    def add(self, keys: NDArray[np.uint64], values: NDArray[np.int32]) -> None:
        """Keys that are not there yet, each once."""
        self._count += len(keys)
        if self._count > CACHE_RUNS:
            # Bounded like the dictionary; what is asked for again comes again.
            self._clear(_LEAST_SLOTS)
            self._count = len(keys)
        if 2 * self._count > len(self._values):
            held = np.flatnonzero(self._values != _EMPTY)
            keys = np.concatenate([self._keys[held], keys])
            values = np.concatenate([self._values[held], values])
            self._clear(1 << (4 * self._count - 1).bit_length())
        slots = self._slots(keys)
        left = np.arange(len(keys))
        while len(left):
            at = slots[left]
            free = self._values[at] == _EMPTY
            # Of several that want one slot the last gets it; the others go on.
            self._keys[at[free]] = keys[left[free]]
            self._values[at[free]] = values[left[free]]
            left = left[(self._keys[at] != keys[left]).any(axis=1)]
            slots[left] = (slots[left] + 1) & self._mask
