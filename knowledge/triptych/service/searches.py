"""Searches of a Service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from triptych.records import (
    Query,
    Result,
)
from triptych.records.queries import SearchOptions
from triptych.search.query import check_queries, query_of
from triptych.service.base import ServiceBase
from triptych.service.operations import Effect, operation


class Searches(ServiceBase):
    """How a Service searches."""

    @operation(Effect.READS)
    def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """Find chunks (L2), abstracts (L0) or overviews (L1).

        ``query`` is a `Query`, or its text. ``options`` are the other fields of `Query`:
        ``dataset_id`` (or ``scope="all"``), ``mode``, ``layer``, ``top_k`` (10), ``threshold``,
        ``min_scores``, ``where``, ``fresh_only`` and ``keyword_boost``; see `SearchOptions`. All
        hits are read in one snapshot.

        Raises:
            ValidationError: a field of the query is invalid.
            NotFoundError: there is no such dataset.
            NotAvailableError: the mode cannot be served (in hybrid mode a warning).
            ModelMismatchError: vector mode over vectors of another model.
        """
        return self._main.first.search(query_of(query, options))

    @operation(Effect.READS)
    def search_documents(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """Find whole documents: scored over their full text, and by the nearest of their chunks.

        As `search`, but ``layer`` plays no role: hits have ``layer`` None, and their content
        is the document's opening.
        """
        return self._main.first.search_documents(query_of(query, options))

    @operation(Effect.READS, long=True)
    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> list[Result]:
        """`search` for each query, in order; their texts are embedded in one batch.

        When the batch fails, each text is embedded by itself, and a query whose text still
        fails ends as it does in `search`: with a warning in hybrid mode, else with the error.
        """
        several = check_queries(queries)
        searches = self._main.first
        return searches.search_many([query_of(query, options) for query in several])
