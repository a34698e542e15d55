"""What a driver gives: a table that is open for reading, by which rows are read and found."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import attrs

from triptych.records import FilterTree, Vector
from triptych_backends.in_place.query_words import QueryWord
from triptych_backends.in_place.rows import Row
from triptych_backends.in_place.spec import TableSpec

T = TypeVar("T")


class Near(NamedTuple):
    """A row that was found by a vector: its key, its name, and the cosine."""

    key: Hashable
    name: str
    score: float


@attrs.frozen
class Text:
    """A text of a row: the row's name, the number of its pair of columns, and the row's key."""

    dataset_id: str
    name: str
    index: int
    key: Hashable
    content: str = attrs.field(eq=False, repr=False)


class WantedWord(NamedTuple):
    """A word that is looked for: its weight, and how many texts hold it."""

    word: QueryWord
    weight: float
    held: int


class OpenTable(Protocol):
    """One table or collection, open for reading: in one transaction where the database has them.

    A pair is the number of a pair of columns in ``spec.columns``. A key finds a row again. ``tree``
    is a filter of the caller, None for all rows; the table's own filter holds always.
    """

    @property
    def spec(self) -> TableSpec:
        """How the table is searched."""
        ...

    @property
    def size(self) -> float:
        """About how many rows there are, -1 where the database does not know."""
        ...

    def has_vector(self, pair: int) -> bool:
        """Whether the pair is searched by vector."""
        ...

    def has_text_index(self, pair: int) -> bool:
        """Whether an index of the database finds words in the pair's text."""
        ...

    def names(self) -> Sequence[str]:
        """The names of all rows, ordered, each once."""
        ...

    def rows(self, keys: Sequence[Hashable], tree: FilterTree | None) -> Mapping[Hashable, Row]:
        """The rows of these keys that pass."""
        ...

    def rows_named(self, names: Sequence[str]) -> Sequence[Row]:
        """The rows of these names, in any order."""
        ...

    def rows_in_order(self, tree: FilterTree | None, limit: int | None) -> Sequence[Row]:
        """The first ``limit`` rows that pass, by name; None: all."""
        ...

    def count(self, tree: FilterTree | None) -> int:
        """How many rows pass; without ``tree`` it may be an estimate."""
        ...

    def count_texts(self, pair: int, tree: FilterTree | None, word: QueryWord | None = None) -> int:
        """How many texts there are, or hold ``word``; it may be an estimate."""
        ...

    def best_texts(
        self, pair: int, words: Sequence[WantedWord], tree: FilterTree | None, limit: int
    ) -> Sequence[Text]:
        """The ``limit`` texts that pass and hold most of ``words`` by weight."""
        ...

    def nearest(
        self, pair: int, vector: Vector, tree: FilterTree | None, limit: int
    ) -> Sequence[Near]:
        """The ``limit`` rows that pass, have a text, and are nearest to ``vector``.

        Raises:
            ModelMismatchError: the vector is not as wide as those of the table.
            ValidationError: it is not one row of finite numbers.
        """
        ...

    def nearest_texts(
        self, pair: int, vector: Vector, tree: FilterTree | None, limit: int
    ) -> Sequence[Text]:
        """The texts of `nearest`."""
        ...

    def attempt(self, ask: Callable[[], T]) -> T:
        """What ``ask`` reads. If it fails, as a TriptychError, more can be read."""
        ...
