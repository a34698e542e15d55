"""Vectors that are not dense, by space and digest, in memory. All of it happens under the truth's
lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import Any, TypeAlias

import attrs

from triptych.records import AnySpace, SpaceKind, StoredSpace, VectorSpace
from triptych.records.spaces import vector_of_text, vector_text

_Key: TypeAlias = tuple[AnySpace, str]  # space and digest
Entries: TypeAlias = Mapping[_Key, Any]
Plain: TypeAlias = Mapping[SpaceKind, Mapping[str, Mapping[str, str]]]
"""Vectors as text, by kind, signature and digest."""


@attrs.define
class TextVectors:
    """The vectors of one dataset that are not dense, by space and digest.

    ``uses`` are those that a document's set has the text of, and ``references`` counts them.
    ``waits`` are the serving spaces of which a document's set lacks vectors, by name, in no order.
    """

    entries: dict[_Key, Any] = attrs.field(factory=dict)
    uses: dict[str, frozenset[_Key]] = attrs.field(factory=dict)
    references: Counter[_Key] = attrs.field(factory=Counter)
    waits: dict[str, frozenset[AnySpace]] = attrs.field(factory=dict)

    def __copy__(self) -> TextVectors:
        return TextVectors(*(copy(getattr(self, name)) for name in attrs.fields_dict(TextVectors)))

    def bind(
        self,
        name: str,
        digests: frozenset[str],
        serving: Sequence[AnySpace],
        new: Entries | None = None,
        *,
        keeps_old: bool = False,
    ) -> frozenset[AnySpace]:
        """Give a set the vectors of its texts in the ``serving`` spaces, those of ``new`` too, and
        no others; the spaces of which it waits no longer.

        ``keeps_old`` says that the set is the one it was: vectors of another space stay until it
        has all of the one of their kind that serves.
        """
        new = new or {}
        if not (serving or self.entries or self.waits or new):
            return frozenset()
        wanted = {space: {(space, digest) for digest in digests} for space in serving}
        there = {key for keys in wanted.values() for key in keys}
        found = {key for key in there if key in self.entries or key in new}
        lacks = frozenset(space for space, keys in wanted.items() if not keys <= found)
        before = self.uses.get(name, frozenset())
        if keeps_old:
            done = {space.kind for space in serving if space not in lacks}
            found |= {key for key in before if key[0].kind not in done}
        self.keep(name, found, new)
        self._drop(before - found)
        self._set(name, frozenset(found))
        waited = self.waits.pop(name, frozenset())
        if lacks:
            self.waits[name] = lacks
        return waited.intersection(serving) - lacks

    def keep(self, name: str, keys: Collection[_Key], new: Entries) -> None:
        """Let a set have these vectors, which are there or in ``new``, beside its own."""
        before = self.uses.get(name, frozenset())
        for key in frozenset(keys) - before:
            if key not in self.entries:
                self.entries[key] = new[key]
            self.references[key] += 1
        self._set(name, before.union(keys))

    def remove(self, name: str) -> None:
        """Forget what a set had, and that it waits."""
        self.waits.pop(name, None)
        self._drop(self.uses.pop(name, frozenset()))

    def waiting(self, space: AnySpace) -> Collection[str]:
        """The documents with a set that waits for vectors of a space that serves."""
        return [name for name, spaces in self.waits.items() if space in spaces]

    def _set(self, name: str, uses: frozenset[_Key]) -> None:
        if uses:
            self.uses[name] = uses
        else:
            self.uses.pop(name, None)

    def _drop(self, keys: Collection[_Key]) -> None:
        for key in keys:
            self.references[key] -= 1
            if not self.references[key]:
                del self.references[key], self.entries[key]

    def counts(self) -> list[StoredSpace]:
        """See `VectorRepo.further_spaces`."""
        found: dict[AnySpace, list[Any]] = {}
        for (space, _), vector in self.entries.items():
            found.setdefault(space, []).append(vector)
        return [
            StoredSpace(
                kind=space.kind,
                sig=space.sig,
                vectors=len(vectors),
                size=sum(len(each.to_bytes()) for each in vectors),
            )
            for space, vectors in sorted(found.items(), key=lambda each: attrs.astuple(each[0]))
        ]

    def plain(self) -> dict[SpaceKind, dict[str, dict[str, str]]]:
        """The vectors as text."""
        found: dict[SpaceKind, dict[str, dict[str, str]]] = {}
        for (space, digest), vector in self.entries.items():
            by_digest = found.setdefault(space.kind, {}).setdefault(space.sig, {})
            by_digest[digest] = vector_text(vector)
        return found


def read_plain(plain: Plain) -> Entries:
    """The vectors that `TextVectors.plain` wrote down.

    Raises:
        ValueError: it is something else, or damaged.
    """
    return {
        (VectorSpace(kind, sig), digest): vector_of_text(kind, text)
        for kind, spaces in plain.items()
        for sig, entries in spaces.items()
        for digest, text in entries.items()
    }
