"""From rows of the server to one ranked list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from triptych_backends.index import Field, Scored
from triptych_backends.index.top_k import DECIMALS

_DOCUMENTS = "SELECT id, name FROM document"
_LAYERS = "SELECT id, doc_name AS name FROM layer"
NAMES: Mapping[Field, str] = {
    "chunk": _DOCUMENTS,
    "document": _DOCUMENTS,
    "abstract": _LAYERS,
    "overview": _LAYERS,
}
"""The names of the owners of each kind of unit."""


def scored(rows: Sequence[Sequence[Any]], datasets: Mapping[int, str]) -> list[Scored]:
    """Rows of key, owner, position, dataset, score and name."""
    rounded = np.round([row[4] for row in rows], DECIMALS).tolist()
    return [
        Scored(-score, row[5], row[2], datasets[row[3]], row[0], row[1])
        for score, row in zip(rounded, rows, strict=True)
    ]


def best(found: Iterable[Scored], limit: int) -> list[Scored]:
    """The ``limit`` best: by score rounded to 1e-6, name, index, dataset."""
    return sorted(found)[: max(limit, 0)]


def best_of_owner(found: Iterable[Scored]) -> list[Scored]:
    """Only the best unit of each owner, the first of equal ones."""
    kept: dict[int, Scored] = {}
    for row in found:
        other = kept.get(row.owner)
        if other is None or row < other:
            kept[row.owner] = row
    return list(kept.values())
