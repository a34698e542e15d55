"""What the truth offers to its search index: a change log, and the units behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from triptych.records import SparseVector

Field = Literal["chunk", "document", "abstract", "overview"]
FIELDS: tuple[Field, ...] = ("chunk", "document", "abstract", "overview")


@frozen(kw_only=True)
class LogPosition:
    """The newest entry of the truth's change log.

    `nonce` names the log itself and is renewed when a log is lost or replaced; `seq` is the
    greatest sequence number committed, over all datasets. `epoch` is what `ChangeLog.epoch`
    says of `seq` in the same moment, "" where that is None.
    """

    nonce: str
    seq: int
    epoch: str


@frozen(kw_only=True)
class Change:
    """One owner's units of one field changed at `seq`.

    `field` None, which is of no owner, means that everything the dataset had is void.
    """

    seq: int
    field: Field | None
    owner: int


@frozen(kw_only=True)
class IndexConfig:
    """How a dataset is indexed: analyzer language, embedding space ("" when it has none), the
    encoder of its sparse vectors (likewise).

    A dataset's profile never changes without an entry in the change log.
    """

    language: str
    space: str
    sparse: str = ""


@frozen(kw_only=True, eq=False)
class Unit:
    """One searchable text: a chunk, a whole document or a layer.

    `label` is what `triptych.text.label_of` says of it, "" for a layer.
    `owner` is the truth's id of the document or layer, `key` its id of this very state of the
    unit, never used again. `index` is the chunk's index, -1 for what is not a chunk. `vector` is
    a float32 row of unit length, shape (dimension,), or None; `vector_key` is its id, where the
    truth keeps vectors apart from units, else None: it goes by the unit's key. `sparse` is its
    sparse vector of the dataset's encoder, None while the unit's owner waits for it.
    """

    owner: int
    key: int
    name: str
    index: int
    text: str
    label: str = ""
    headings: tuple[str, ...] = ()
    vector: NDArray[np.float32] | None = field(default=None, repr=False)
    vector_key: int | None = None
    sparse: SparseVector | None = field(default=None, repr=False)


class Rows(NamedTuple):
    """Exact vectors: their ids, and float32 of shape (len(keys), dimension) in the same order."""

    keys: Sequence[int]
    vectors: NDArray[np.float32]


ExactVectors = Callable[[Sequence[int]], Rows]


class ChangeLog(Protocol):
    """The truth as its search index sees it. All methods are thread-safe."""

    def head(self) -> LogPosition:
        """The newest sequence number. Called before every search: tens of microseconds.

        Sequence numbers are committed in order: once `seq` is visible, nothing at or below it
        appears later.
        """
        ...

    def changes(self, dataset: str, after: int) -> Sequence[Change]:
        """The dataset's changes with `seq > after`, ascending, at most one a (field, owner).

        `after=0` gives every live owner. An unknown dataset has none.
        """
        ...

    def owners(self, dataset: str, field: Field, after: int, limit: int) -> Sequence[int]:
        """The first `limit` owners above `after` that the log has, ascending; gone ones too."""
        ...

    def units(self, dataset: str, field: Field, owners: Sequence[int]) -> Iterator[Unit]:
        """The current units of `owners`; an owner that is gone yields nothing.

        The units of one owner come together and from one state. They may be newer than the
        change that named the owner: a later change then repeats it.
        """
        ...

    def vectors(self, dataset: str, keys: Sequence[int]) -> Rows:
        """Exact vectors by the units' vector keys; keys that are gone are left out."""
        ...

    def profile(self, dataset: str) -> IndexConfig:
        """How the dataset is indexed now."""
        ...

    def epoch(self, seq: int) -> str | None:
        """Names the stretch of the log that `seq` is in, None when it is not known (any more).

        A truth that lost its newest changes (a restored copy, a power cut) gives their sequence
        numbers out again, in another epoch. So the pair of a number and its epoch tells whether
        the log still has what a reader saw then: a log that has grown past the number again
        names another epoch.
        """
        ...

    def flush(self) -> None:
        """Make all changes so far survive a power cut. Called before they are published.

        Raises OSError.
        """
        ...


class Scored(NamedTuple):
    """One ranked unit: a row of `triptych.records.Candidates`, and the unit's owner.

    The score, rounded to 1e-6, stands first and negated, so that rows sort best first. `name` is
    the document's.
    """

    negative: float
    name: str
    index: int  # type: ignore[assignment]  # tuple.index is of no use here
    dataset: str
    key: int
    owner: int

    @property
    def score(self) -> float:
        """The unit's score, rounded to 1e-6."""
        return -self.negative
