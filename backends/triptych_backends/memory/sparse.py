"""Sparse vectors in memory: what a dataset has, who needs it, and which sets wait.

All of it happens under the truth's lock.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Mapping
from copy import copy

import attrs

from triptych.records import DerivedChunk, SparseSpace, SparseVector

__all__ = ["SparseState", "digests_of", "read_plain"]

_Key = tuple[str, str]  # encoder and digest


def digests_of(chunks: Collection[DerivedChunk]) -> frozenset[str]:
    """The digests of the chunks' texts; a chunk without one has no sparse vector."""
    return frozenset(chunk.sig.input_sig for chunk in chunks) - {""}


@attrs.define
class SparseState:
    """The sparse vectors of one dataset.

    ``vectors`` are by encoder and digest, ``uses`` those that a document's chunks need, and
    ``references`` counts the documents that need one. ``waiting`` are the documents whose sets
    wait, in no order.
    """

    vectors: dict[_Key, SparseVector] = attrs.field(factory=dict)
    uses: dict[str, frozenset[_Key]] = attrs.field(factory=dict)
    references: Counter[_Key] = attrs.field(factory=Counter)
    waiting: dict[str, None] = attrs.field(factory=dict)

    def __copy__(self) -> SparseState:
        return SparseState(
            copy(self.vectors), copy(self.uses), copy(self.references), copy(self.waiting)
        )

    def known(self, sparse_sig: str, digests: Collection[str]) -> dict[str, SparseVector]:
        """The vectors of this encoder under those of ``digests`` that have one."""
        found = {digest: self.vectors.get((sparse_sig, digest)) for digest in digests}
        return {digest: vector for digest, vector in found.items() if vector is not None}

    def bind(
        self,
        name: str,
        sparse_sig: str,
        digests: frozenset[str],
        new: Mapping[str, SparseVector] | None = None,
        *,
        keeps_old: bool = False,
    ) -> bool:
        """Give a document's set the vectors that are known or ``new``; whether it ends a wait.

        ``keeps_old`` says that the set is the one it was: vectors of another encoder stay until it
        has all of this one.
        """
        new = new or {}
        keys = [(sparse_sig, digest) for digest in digests] if sparse_sig else []
        found = frozenset(key for key in keys if key in self.vectors or key[1] in new)
        whole = len(found) == len(keys)
        before = self.uses.get(name, frozenset())
        for key in found - before:
            if key not in self.vectors:
                self.vectors[key] = new[key[1]]
            self.references[key] += 1
        is_done = whole and sparse_sig != ""
        kept = found | before if keeps_old and not is_done else found
        self._drop(before - kept)
        if kept:
            self.uses[name] = kept
        else:
            self.uses.pop(name, None)
        waited = name in self.waiting
        if whole:
            self.waiting.pop(name, None)
        else:
            self.waiting[name] = None
        return whole and waited

    def keep(self, name: str, sparse_sig: str, vectors: Mapping[str, SparseVector]) -> None:
        """Let a document's set have vectors of an encoder that is not the dataset's."""
        keys = frozenset((sparse_sig, digest) for digest in vectors)
        for key in keys:
            self.vectors.setdefault(key, vectors[key[1]])
            self.references[key] += 1
        self.uses[name] = self.uses.get(name, frozenset()) | keys

    def remove(self, name: str) -> None:
        """Forget what a document's set needed, and that it waits."""
        self.waiting.pop(name, None)
        self._drop(self.uses.pop(name, frozenset()))

    def _drop(self, keys: Collection[_Key]) -> None:
        for key in keys:
            self.references[key] -= 1
            if not self.references[key]:
                del self.references[key], self.vectors[key]

    def spaces(self) -> list[SparseSpace]:
        """See `SparseRepo.sparse_spaces`."""
        counts: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for (sparse_sig, _), vector in self.vectors.items():
            counts[sparse_sig] += 1
            sizes[sparse_sig] += len(vector.to_bytes())
        return [
            SparseSpace(sparse_sig=sig, vectors=counts[sig], size=sizes[sig])
            for sig in sorted(counts)
        ]

    def plain(self) -> dict[str, dict[str, str]]:
        """The vectors as base64, by encoder and digest."""
        found: dict[str, dict[str, str]] = {}
        for (sparse_sig, digest), vector in self.vectors.items():
            data = base64.b64encode(vector.to_bytes()).decode("ascii")
            found.setdefault(sparse_sig, {})[digest] = data
        return found


def read_plain(plain: Mapping[str, Mapping[str, str]]) -> dict[_Key, SparseVector]:
    """The vectors that `SparseState.plain` wrote down.

    Raises:
        ValueError: it is something else, or damaged.
    """
    return {
        (sparse_sig, digest): SparseVector.from_bytes(base64.b64decode(data, validate=True))
        for sparse_sig, vectors in plain.items()
        for digest, data in vectors.items()
    }
