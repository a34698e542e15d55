"""What the projection reads of the store whose searches run in Qdrant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from attrs import frozen

from triptych.contracts import Capabilities
from triptych.records import DatasetStats
from triptych.text import get_analyzer
from triptych_backends.index import LogPosition
from triptych_backends.sql import Searcher, SqlChangeLog, SqlChunks, SqlDocuments, SqlLayers
from triptych_backends.sql.database import Database
from triptych_backends.sql.deferred import and_, bindparam, select, tables as t
from triptych_backends.sql.transaction import find_datasets

_DIMENSION = (
    select(t.space.c.dimension)
    .join(
        t.dataset,
        and_(
            t.dataset.c.id == t.space.c.dataset_id,
            t.space.c.kind == "dense",
            t.dataset.c.embed_sig == t.space.c.sig,
        ),
    )
    .where(t.dataset.c.name == bindparam("dataset"))
)


class SharedDatabase(Database, Protocol):
    """A database that lets one process at a time follow its log."""

    @property
    def lock_timeout(self) -> float:
        """Seconds that it waits for another writer."""
        ...

    def turn(self, name: str, *, wait: float | None = None) -> AbstractContextManager[None]:
        """The turn of one among all threads and processes that ask for that name.

        It waits ``wait`` seconds, `lock_timeout` by default. The turn of a killed process ends
        with it.

        Raises:
            StoreLockedError: another had it for longer.
        """
        ...


class TruthStore(Protocol):
    """A store over a SQL database, such as `SqliteStore` and `PostgresStore`."""

    @property
    def database(self) -> SharedDatabase: ...
    @property
    def searcher(self) -> Searcher: ...
    @property
    def documents(self) -> SqlDocuments: ...
    @property
    def chunks(self) -> SqlChunks: ...
    @property
    def layers(self) -> SqlLayers: ...
    @property
    def capabilities(self) -> Capabilities: ...

    def stats(
        self, dataset_id: str, *, chunker_sig: str, embed_sig: str
    ) -> DatasetStats | None: ...

    def get_setting(self, key: str) -> str | None: ...

    def list_settings(self, prefix: str = "") -> Mapping[str, str]: ...

    def close(self) -> None: ...


@frozen(kw_only=True)
class Layout:
    """How a dataset lies in Qdrant: by which analyzer, and in which space.

    ``dimension`` is 0 and ``space`` "" while the dataset has no vectors. What was laid out
    otherwise is laid out again.
    """

    language: str
    analyzer: str
    space: str
    dimension: int


class Truth:
    """The change log of a database, and how its datasets are to be laid out."""

    def __init__(self, database: SharedDatabase) -> None:
        self.database = database
        self.log = SqlChangeLog(database)

    def layout(self, dataset: str) -> Layout:
        """How the dataset is to be laid out now."""
        profile = self.log.profile(dataset)
        dimension = 0
        if profile.space:
            with self.database.reading() as session:
                row = session.one(_DIMENSION, dataset=dataset)
            dimension = row[0] if row else 0
        return Layout(
            language=profile.language,
            analyzer=get_analyzer(profile.language).signature,
            space=profile.space if dimension else "",
            dimension=dimension,
        )

    def has(self, position: LogPosition, head: LogPosition) -> bool:
        """Whether the log, whose newest entry is ``head``, has what a reader saw at ``position``.

        It has not when the truth went back in time, however far it has grown since.
        """
        if position.nonce != head.nonce or position.seq > head.seq:
            return False
        if position.seq == head.seq:
            return position.epoch == head.epoch
        return position.seq == 0 or self.log.epoch(position.seq) == position.epoch

    def live_datasets(self, names: Sequence[str]) -> set[str]:
        """Those of ``names`` that are there."""
        with self.database.reading() as session:
            return {found.name for found in find_datasets(session, names) if found.live}
