"""What making layers cost, what could not be made, and what was made half-way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from triptych.errors import ValidationError
from triptych.records import Layer, ModelUsage, QuarantinedLayer
from triptych_backends.sql.deferred import bindparam, delete, select, tables as t
from triptych_backends.sql.dialect import Upsert
from triptych_backends.sql.errors import DAMAGE, corrupt
from triptych_backends.sql.repository import Repository
from triptych_backends.sql.transaction import find_dataset

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNTS = 2**63
_MICROSECOND = timedelta(microseconds=1)
_p, _u, _n = t.layer_parked.c, t.layer_usage.c, t.layer_note.c

_PARK = Upsert(t.layer_parked, ("dataset_id", "doc_name", "layer"))
_UNPARK = delete(t.layer_parked).where(
    _p.dataset_id == bindparam("dataset"),
    _p.doc_name == bindparam("name"),
    _p.layer == bindparam("layer"),
)
_PARKED = (
    select(_p.doc_name, _p.layer, _p.input_sig, _p.prompt_sig, _p.reason, _p.message, _p.parked_at)
    .join(t.dataset, t.dataset.c.id == _p.dataset_id)
    .where(t.dataset.c.name == bindparam("dataset"))
    .order_by(_p.doc_name, _p.layer)
)
_CHARGE = Upsert(t.layer_usage, ("dataset_id", "model"), add=True)
_USAGE = (
    select(_u.model, _u.calls, _u.failures, _u.input_tokens, _u.output_tokens, _u.cost)
    .join(t.dataset, t.dataset.c.id == _u.dataset_id)
    .where(t.dataset.c.name == bindparam("dataset"))
    .order_by(_u.model)
)
_PUT_NOTE = Upsert(t.layer_note, ("dataset_id", "doc_name", "digest"))
_NOTES = (
    select(_n.digest, _n.content)
    .join(t.dataset, t.dataset.c.id == _n.dataset_id)
    .where(t.dataset.c.name == bindparam("dataset"), _n.doc_name == bindparam("name"))
)
_DROP_NOTE = delete(t.layer_note).where(
    _n.dataset_id == bindparam("dataset"),
    _n.doc_name == bindparam("name"),
    _n.digest == bindparam("key"),
)


class SqlLayerJournal(Repository):
    """`LayerJournal` over a `Database`. Each write is durable: calls cost money."""

    def quarantine(self, quarantined: QuarantinedLayer) -> None:
        """See `LayerJournal.quarantine`."""
        when = (quarantined.quarantined_at - _EPOCH) // _MICROSECOND
        with self.database.writing() as tx:
            row = (
                tx.dataset(quarantined.dataset_id).id,
                quarantined.doc_name,
                str(quarantined.layer),
                quarantined.input_sig,
                quarantined.prompt_sig,
                quarantined.reason,
                quarantined.message.encode(),
                when,
            )
            tx.run_many(_PARK, [row])

    def release_quarantined(self, dataset_id: str, doc_name: str, layer: Layer) -> None:
        """See `LayerJournal.release_quarantined`."""
        with self.database.writing() as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is not None:
                tx.run(_UNPARK, dataset=dataset.id, name=doc_name, layer=str(layer))

    def quarantined(self, dataset_id: str) -> Sequence[QuarantinedLayer]:
        """See `LayerJournal.quarantined`."""
        with self.database.reading() as session:
            rows = session.all(_PARKED, dataset=dataset_id)
        try:
            return [
                QuarantinedLayer(
                    dataset_id=dataset_id,
                    doc_name=name,
                    layer=layer,
                    input_sig=input_sig,
                    prompt_sig=prompt_sig,
                    reason=reason,
                    message=message.decode(),
                    quarantined_at=_EPOCH + when * _MICROSECOND,
                )
                for name, layer, input_sig, prompt_sig, reason, message, when in rows
            ]
        except DAMAGE as error:
            raise corrupt(self.where, f"what is quarantined of {dataset_id!r}: {error}") from error

    def record_usage(self, dataset_id: str, usage: ModelUsage) -> None:
        """See `LayerJournal.record_usage`."""
        for name in ("calls", "failures", "input_tokens", "output_tokens"):
            count = getattr(usage, name)
            if not 0 <= count < _COUNTS:
                raise ValidationError(f"{name} of {usage.model} is {count}: it must fit 64 bits")
        with self.database.writing() as tx:
            row = (
                tx.dataset(dataset_id).id,
                usage.model,
                usage.calls,
                usage.failures,
                usage.input_tokens,
                usage.output_tokens,
                usage.cost,
            )
            tx.run_many(_CHARGE, [row])

    def usage(self, dataset_id: str) -> Sequence[ModelUsage]:
        """See `LayerJournal.usage`."""
        with self.database.reading() as session:
            rows = session.all(_USAGE, dataset=dataset_id)
        return [
            ModelUsage(
                model=model,
                calls=calls,
                failures=failures,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cost=cost,
            )
            for model, calls, failures, input_tokens, output_tokens, cost in rows
        ]

    def put_checkpoint(self, dataset_id: str, doc_name: str, key: str, content: str) -> None:
        """See `LayerJournal.put_checkpoint`."""
        with self.database.writing() as tx:
            row = (tx.dataset(dataset_id).id, doc_name, key, content.encode())
            tx.run_many(_PUT_NOTE, [row])

    def checkpoints(self, dataset_id: str, doc_name: str) -> Mapping[str, str]:
        """See `LayerJournal.checkpoints`."""
        with self.database.reading() as session:
            rows = session.all(_NOTES, dataset=dataset_id, name=doc_name)
        try:
            return {key: content.decode() for key, content in rows}
        except DAMAGE as error:
            raise corrupt(self.where, f"a note on {doc_name!r}: {error}") from error

    def prune_checkpoints(self, dataset_id: str, doc_name: str, keys: Collection[str]) -> None:
        """See `LayerJournal.prune_checkpoints`."""
        gone = [key for key in self.checkpoints(dataset_id, doc_name) if key not in keys]
        if not gone:
            return
        with self.database.writing() as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is not None:
                for key in gone:
                    tx.run(_DROP_NOTE, dataset=dataset.id, name=doc_name, key=key)
