"""Vectors of other embedding spaces than the one that serves, in memory.

All of it happens under the truth's lock.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Mapping
from copy import copy
from typing import TypeAlias

import attrs
import numpy as np

from triptych.records import DerivedChunk, DerivedLayer, Vector
from triptych.signatures import embedding_input_sig

__all__ = ["KeptState", "Owner", "owner_of", "read_plain", "texts_of"]

Owner: TypeAlias = tuple[str, str]
"""Who has an entry: a name, and "" for its chunk set or a kind of layer."""

_Key = tuple[str, str]  # space and digest


def texts_of(unit: Collection[DerivedChunk] | DerivedLayer) -> frozenset[str]:
    """The digests of a set's or a layer's texts; a chunk without one has no entry."""
    if isinstance(unit, DerivedLayer):
        return frozenset([embedding_input_sig(unit.content)])
    return frozenset(chunk.sig.input_sig for chunk in unit) - {""}


def owner_of(layer: DerivedLayer) -> Owner:
    """The owner that a layer is."""
    return (layer.doc_name, str(layer.layer))


@attrs.define
class KeptState:
    """The entries of one dataset, by space and digest; None where a text has no vector.

    ``uses`` are those that a set or layer has the text of, and ``references`` counts them.
    """

    entries: dict[_Key, Vector | None] = attrs.field(factory=dict)
    uses: dict[Owner, frozenset[_Key]] = attrs.field(factory=dict)
    references: Counter[_Key] = attrs.field(factory=Counter)

    def __copy__(self) -> KeptState:
        return KeptState(copy(self.entries), copy(self.uses), copy(self.references))

    @property
    def spaces(self) -> set[str]:
        """The spaces that have entries."""
        return {space for space, _ in self.entries}

    def bind(
        self, owner: Owner, digests: frozenset[str], new: Mapping[_Key, Vector | None] | None = None
    ) -> None:
        """Give a set or a layer the entries of its texts, those of ``new`` too, and no others."""
        new = new or {}
        if not self.entries and not new:
            return
        keys = {
            (space, digest) for space in {*self.spaces, *(k[0] for k in new)} for digest in digests
        }
        found = frozenset(key for key in keys if key in self.entries or key in new)
        before = self.uses.get(owner, frozenset())
        for key in found - before:
            self.entries.setdefault(key, new.get(key))
            self.references[key] += 1
        self._drop(before - found)
        self._set(owner, found)

    def remove(self, owner: Owner) -> None:
        """Forget what a set or a layer had."""
        self._drop(self.uses.pop(owner, frozenset()))

    def lacks(self, owner: Owner, space: str, digests: Collection[str]) -> bool:
        """Whether one of these texts of an owner has no entry that belongs to it."""
        uses = self.uses.get(owner, frozenset())
        return any((space, digest) not in uses for digest in digests)

    def take(self, space: str) -> dict[str, Vector | None]:
        """The entries of a space, by digest, which are kept no longer."""
        taken = {digest: each for (of, digest), each in self.entries.items() if of == space}
        for owner, uses in list(self.uses.items()):
            self._set(owner, frozenset(key for key in uses if key[0] != space))
        for digest in taken:
            key = (space, digest)
            del self.entries[key], self.references[key]
        return taken

    def _set(self, owner: Owner, uses: frozenset[_Key]) -> None:
        if uses:
            self.uses[owner] = uses
        else:
            self.uses.pop(owner, None)

    def _drop(self, keys: Collection[_Key]) -> None:
        for key in keys:
            self.references[key] -= 1
            if not self.references[key]:
                del self.references[key], self.entries[key]

    def plain(self) -> dict[str, dict[str, str]]:
        """The vectors as base64, by space and digest; "" where there is none."""
        found: dict[str, dict[str, str]] = {}
        for (space, digest), vector in self.entries.items():
            data = b"" if vector is None else vector.astype("<f4").tobytes()
            found.setdefault(space, {})[digest] = base64.b64encode(data).decode("ascii")
        return found


def read_plain(plain: Mapping[str, Mapping[str, str]]) -> dict[_Key, Vector | None]:
    """The entries that `KeptState.plain` wrote down.

    Raises:
        ValueError: it is something else, or damaged.
    """
    return {
        (space, digest): np.frombuffer(base64.b64decode(data, validate=True), "<f4")
        if data
        else None
        for space, entries in plain.items()
        for digest, data in entries.items()
    }
