"""What is searched where it is, whatever database it is in: the spec, rows, keywords by BM25."""

from triptych_backends.in_place.counts import Counts
from triptych_backends.in_place.distinct import DistinctRows
from triptych_backends.in_place.follow import OVERLAP, FollowedRows, source_row
from triptych_backends.in_place.keyword_lane import Part, Text, find_by_keyword
from triptych_backends.in_place.layers import NoLayers
from triptych_backends.in_place.pairs import found_in_pairs
from triptych_backends.in_place.query_words import QueryWord, query_words
from triptych_backends.in_place.read_only import ReadOnlyChunks, ReadOnlyDocuments
from triptych_backends.in_place.rows import EPOCH, ROW_VERSION, Row, best_of
from triptych_backends.in_place.source import InPlaceSource
from triptych_backends.in_place.spec import (
    ColumnPair,
    Distance,
    Keywords,
    TableSpec,
    parse_name,
    split_name,
)

__all__ = [
    "EPOCH",
    "OVERLAP",
    "ROW_VERSION",
    "ColumnPair",
    "Counts",
    "Distance",
    "DistinctRows",
    "FollowedRows",
    "InPlaceSource",
    "Keywords",
    "NoLayers",
    "Part",
    "QueryWord",
    "ReadOnlyChunks",
    "ReadOnlyDocuments",
    "Row",
    "TableSpec",
    "Text",
    "best_of",
    "find_by_keyword",
    "found_in_pairs",
    "parse_name",
    "query_words",
    "source_row",
    "split_name",
]
