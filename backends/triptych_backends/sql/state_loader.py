"""Taking over what another store holds, as it is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from triptych.contracts import rules
from triptych.errors import ConflictError, ModelMismatchError
from triptych.records import DerivedChunk, DerivedLayer, DerivedSig, NameState
from triptych_backends.sql.chunk_sets import load_set
from triptych_backends.sql.database import Database, HasDatabase
from triptych_backends.sql.deferred import bindparam, select, tables as t
from triptych_backends.sql.deletes import (
    raise_floor,
    remove_chunk_set,
    remove_document,
    remove_layers,
)
from triptych_backends.sql.document_writes import DocumentRow, read_rows
from triptych_backends.sql.layers import write_layer
from triptych_backends.sql.transaction import FIELD_OF_LAYER, Dataset, Session, Transaction
from triptych_backends.sql.versions import drop_versions, write_and_keep

_STATES_AT_ONCE = 64
_CHARACTERS_AT_ONCE = 4_000_000
_WIDTHS = (
    select(t.space.c.sig, t.space.c.dimension)
    .join(t.dataset, t.dataset.c.id == t.space.c.dataset_id)
    .where(t.dataset.c.name == bindparam("dataset"), t.space.c.dimension > 0)
)


class SqlStateLoader:
    """`CopyableStore` of a store over a `Database`, for the store to inherit."""

    def load_states(
        self: HasDatabase, dataset_id: str, states: Sequence[NameState], *, replace: bool = False
    ) -> None:
        """See `CopyableStore.load_states`; so many at a time are committed at once."""
        for batch in batched(states):
            try:
                _load_at_once(self.database, dataset_id, batch, replace=replace)
            except (ConflictError, ModelMismatchError):
                # Those before it are stored.
                for state in batch:
                    _load_at_once(self.database, dataset_id, [state], replace=replace)

    def use_up_versions(self: HasDatabase, dataset_id: str, version: int) -> None:
        """See `CopyableStore.use_up_versions`."""
        with self.database.writing(dataset_id) as tx:
            raise_floor(tx, tx.dataset(dataset_id).id, version)


def batched(states: Sequence[NameState]) -> Iterator[Sequence[NameState]]:
    """``states`` in their order, so many at a time that their transaction stays short."""
    batch: list[NameState] = []
    size = 0
    for state in states:
        batch.append(state)
        size += sum(len(document.content) for document in state.versions)
        if len(batch) >= _STATES_AT_ONCE or size >= _CHARACTERS_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _load_at_once(
    database: Database, dataset_id: str, states: Sequence[NameState], *, replace: bool
) -> None:
    with database.writing(dataset_id) as tx:
        for state in states:
            _load(tx, dataset_id, state, database.where, database.history, replace=replace)


def _load(
    tx: Transaction, dataset_id: str, state: NameState, where: str, history: int, *, replace: bool
) -> None:
    dataset = tx.dataset(dataset_id, live=bool(state.versions))
    row = read_rows(tx, dataset, [state.name], where).get(state.name)
    new, replaces = rules.versions_to_load(
        dataset_id,
        state.versions,
        row.version if row else 0,
        lambda document: row is not None and row.is_of(dataset_id, document),
        replace=replace,
    )
    if replaces:
        remove_document(tx, dataset, state.name)
        row = None
    for document in new:
        row = row or DocumentRow.new(tx, state.name)
        row.load(tx, dataset.id, document)
    if row is not None:
        write_and_keep(tx, dataset.id, [row], history)
        drop_versions(tx, row.id, below=state.versions[0].version if state.versions else 0)
        load_or_remove_set(tx, dataset, row.id, state.name, state.chunks, state.sig)
    _load_layers(tx, dataset.id, state.name, state.layers)


def check_widths(
    session: Session, dataset_id: str, units: Iterable[DerivedChunk | DerivedLayer]
) -> None:
    """Refuse vectors that are not as wide as their spaces' others, before anything is written.

    Raises:
        ModelMismatchError: one is not.
    """
    widths = dict(session.all(_WIDTHS, dataset=dataset_id))
    rules.check_widths(widths, [(unit.sig.embed_sig, unit.vector) for unit in units])


def load_or_remove_set(
    tx: Transaction,
    dataset: Dataset,
    document: int,
    name: str,
    chunks: Sequence[DerivedChunk],
    sig: DerivedSig | None,
) -> None:
    """Let a document have this chunk set, or none where ``sig`` is None."""
    if sig is None:
        remove_chunk_set(tx, dataset.id, document)
    else:
        load_set(tx, dataset, document, name, chunks, sig)


def _load_layers(tx: Transaction, dataset: int, name: str, layers: Iterable[DerivedLayer]) -> None:
    """Let ``name`` have these layers and no other."""
    kinds = set()
    for layer in layers:
        kinds.add(layer.layer)
        write_layer(tx, dataset, layer)
    for kind in FIELD_OF_LAYER:
        if kind not in kinds:
            remove_layers(tx, dataset, name, kind=str(kind))
