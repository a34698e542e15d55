"""Vectors by space and digest in memory, but for those that chunks have in the space that serves.

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

from triptych.records import (
    AnySpace,
    AnyVector,
    DerivedChunk,
    DerivedLayer,
    SpaceCount,
    SparseVector,
    VectorSpace,
)
from triptych.signatures import embedding_input_sig

Owner: TypeAlias = tuple[str, str]
"""Who has an entry: a name, and "" for its chunk set or a kind of layer."""

_Key: TypeAlias = tuple[AnySpace, str]  # space and digest
Entries: TypeAlias = Mapping[_Key, AnyVector | None]


def texts_of(unit: Collection[DerivedChunk] | DerivedLayer) -> frozenset[str]:
    """The digests of a set's or a layer's texts; a chunk without one has no entry."""
    if isinstance(unit, DerivedLayer):
        return frozenset([embedding_input_sig(unit.content)])
    return frozenset(chunk.sig.input_sig for chunk in unit) - {""}


def owner_of(layer: DerivedLayer) -> Owner:
    """The owner that a layer is."""
    return (layer.doc_name, str(layer.layer))


@attrs.define
class VectorState:
    """The entries of one dataset, by space and digest; None where a text has no vector.

    ``uses`` are those that a set or layer has the text of, and ``references`` counts them.
    ``waiting`` are the documents whose sets wait for vectors of the sparse space that serves, in no
    order. ``spaces`` are those that have entries, with how many.
    """

    entries: dict[_Key, AnyVector | None] = attrs.field(factory=dict)
    uses: dict[Owner, frozenset[_Key]] = attrs.field(factory=dict)
    references: Counter[_Key] = attrs.field(factory=Counter)
    waiting: dict[str, None] = attrs.field(factory=dict)
    spaces: Counter[AnySpace] = attrs.field(factory=Counter)

    def __copy__(self) -> VectorState:
        return VectorState(*(copy(getattr(self, name)) for name in attrs.fields_dict(VectorState)))

    def bind(
        self,
        owner: Owner,
        digests: frozenset[str],
        new: Entries | None = None,
        *,
        sparse: AnySpace | None = None,
        keeps_old: bool = False,
    ) -> bool:
        """Give a set or a layer the entries of its texts, those of ``new`` too, and no others;
        whether a set ends its waiting for those of ``sparse``, which serves.

        ``keeps_old`` says that the set is the one it was: vectors of another sparse space stay
        until it has all of this one.
        """
        new = new or {}
        if sparse is None and not (self.entries or self.waiting or new):
            return False
        serving = frozenset((sparse, digest) for digest in digests) if sparse else frozenset()
        dense = {
            (space, digest)
            for space in {*self.spaces, *(space for space, _ in new)}
            for digest in digests
            if space.kind == "dense"
        }
        found = frozenset(k for k in {*dense, *serving} if k in self.entries or k in new)
        whole = serving <= found
        before = self.uses.get(owner, frozenset())
        if keeps_old and not (whole and sparse):
            found |= frozenset(key for key in before if key[0].kind == "sparse")
        self.keep(owner, {key: new.get(key) for key in found - before})
        self._drop(before - found)
        self._set(owner, found)
        waited = owner[0] in self.waiting
        if owner[1]:
            return False
        if whole:
            self.waiting.pop(owner[0], None)
        else:
            self.waiting[owner[0]] = None
        return whole and waited

    def keep(self, owner: Owner, entries: Entries) -> None:
        """Let a set have these entries beside its own, of spaces that do not serve."""
        before = self.uses.get(owner, frozenset())
        for key in entries.keys() - before:
            if key not in self.entries:
                self.entries[key] = entries[key]
                self.spaces[key[0]] += 1
            self.references[key] += 1
        self._set(owner, before | entries.keys())

    def remove(self, owner: Owner) -> None:
        """Forget what a set or a layer had, and that a set waits."""
        if not owner[1]:
            self.waiting.pop(owner[0], None)
        self._drop(self.uses.pop(owner, frozenset()))

    def lacks(self, owner: Owner, space: AnySpace, digests: Collection[str]) -> bool:
        """Whether one of these texts of an owner has no entry that belongs to it."""
        uses = self.uses.get(owner, frozenset())
        return any((space, digest) not in uses for digest in digests)

    def sparse_vector(self, space: AnySpace | None, digest: str) -> SparseVector | None:
        """The vector of a text in a sparse space; None for no space."""
        found = None if space is None else self.entries.get((space, digest))
        return found if isinstance(found, SparseVector) else None

    def take(self, space: AnySpace) -> dict[str, AnyVector | None]:
        """The entries of a space, by digest, which are kept no longer."""
        taken = {digest: each for (of, digest), each in self.entries.items() if of == space}
        for owner, uses in list(self.uses.items()) if taken else ():
            self._set(owner, frozenset(key for key in uses if key[0] != space))
        for digest in taken:
            key = (space, digest)
            del self.entries[key], self.references[key]
        self.spaces.pop(space, None)
        return taken

    def clear_dense(self) -> None:
        """Forget all entries of dense spaces."""
        for space in list(self.spaces):
            if space.kind == "dense":
                self.take(space)

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
                self.spaces[key[0]] -= 1
                if not self.spaces[key[0]]:
                    del self.spaces[key[0]]

    def counts(self, widths: Mapping[str, int]) -> list[SpaceCount]:
        """See `VectorRepo.vector_spaces`; ``widths`` are those of dense spaces."""
        found: dict[AnySpace, list[AnyVector]] = {}
        for (space, _), vector in self.entries.items():
            found.setdefault(space, []).extend([] if vector is None else [vector])
        return [
            SpaceCount(
                space=space,
                vectors=len(found[space]),
                dimension=widths.get(space.sig, 0) if space.kind == "dense" else 0,
                size=sum(
                    len(each.to_bytes()) for each in found[space] if isinstance(each, SparseVector)
                ),
            )
            for space in sorted(found, key=lambda each: (each.kind, each.sig))
        ]

    def plain(self) -> dict[str, dict[str, dict[str, str]]]:
        """The entries as base64, by kind, signature and digest; "" where there is none."""
        found: dict[str, dict[str, dict[str, str]]] = {}
        for (space, digest), vector in self.entries.items():
            if isinstance(vector, SparseVector):
                data = vector.to_bytes()
            else:
                data = b"" if vector is None else vector.astype("<f4").tobytes()
            by_sig = found.setdefault(space.kind, {}).setdefault(space.sig, {})
            by_sig[digest] = base64.b64encode(data).decode("ascii")
        return found


def read_plain(plain: Mapping[str, Mapping[str, Mapping[str, str]]]) -> Entries:
    """The entries that `VectorState.plain` wrote down.

    Raises:
        ValueError: it is something else, or damaged.
    """
    found: dict[_Key, AnyVector | None] = {}
    for kind, spaces in plain.items():
        if kind not in ("dense", "sparse"):
            raise ValueError(f"there are no vectors of kind {kind!r}")
        for sig, entries in spaces.items():
            space: AnySpace = VectorSpace("dense" if kind == "dense" else "sparse", sig)
            for digest, text in entries.items():
                data = base64.b64decode(text, validate=True)
                if kind == "sparse":
                    found[space, digest] = SparseVector.from_bytes(data)
                else:
                    found[space, digest] = np.frombuffer(data, "<f4") if data else None
    return found
