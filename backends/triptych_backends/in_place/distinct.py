"""`DistinctRows`: one hit of each row, and of each text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from triptych.contracts import HitReader
from triptych.records import Hit, ResolvedQuery
from triptych.search.query import MAX_TOP_K

_OVERSAMPLED: Final = 3


@attrs.frozen
class DistinctRows:
    """The best hit of each row, whichever of its columns was found, and of each text.

    ``homes`` names the table of each dataset: two datasets may be of one table. Texts that differ
    in white space only are equal. It chooses from three times as many hits as are asked for.
    """

    homes: Mapping[str, str] = attrs.field(factory=dict)

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits it chooses from."""
        return min(_OVERSAMPLED * query.top_k, MAX_TOP_K)

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits in their order, without what an earlier one shows."""
        rows: set[tuple[str, str]] = set()
        texts: set[str] = set()
        kept = []
        for hit in hits:
            row = self.homes.get(hit.dataset_id, hit.dataset_id), hit.doc_name
            text = " ".join(hit.content.split())
            if row not in rows and text not in texts:
                kept.append(hit)
            rows.add(row)
            texts.add(text)
        return kept
