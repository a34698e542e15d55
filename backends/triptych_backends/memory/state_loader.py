"""Taking over what another store holds."""

from __future__ import annotations

from triptych import rules
from triptych.records import NameState, SourceDocument
from triptych.records.metadata import same_metadata
from triptych_backends.memory.truth import FIELDS, Truth

__all__ = ["load_state"]


def load_state(truth: Truth, dataset_id: str, state: NameState, *, replace: bool) -> None:
    """Store ``state`` in place of what the dataset has under its name: see `CopyableStore`."""
    name = state.name
    stored = truth.read(dataset_id).documents.get(name)
    current = stored.document if stored else None

    def is_stored(document: SourceDocument) -> bool:
        return current == document and same_metadata(current.metadata, document.metadata)

    version = current.version if current else 0
    new, replaces = rules.versions_to_load(
        dataset_id, state.versions, version, is_stored, replace=replace
    )
    truth.check_widths(dataset_id, [(unit.sig.embed_sig, unit.vector) for unit in state.units])
    if replaces:
        truth.remove(dataset_id, name)
    for document in new:
        truth.store_document(document)
    if state.versions:
        truth.drop_versions(dataset_id, name, below=state.versions[0].version)
    if state.sig is None:
        truth.remove_set(dataset_id, name)
    else:
        truth.store_set(dataset_id, name, state.chunks, state.sig, stored=True)
    kinds = {layer.layer for layer in state.layers}
    for kind in FIELDS:
        if kind not in kinds:
            truth.remove_layer(dataset_id, name, kind)
    for layer in state.layers:
        truth.store_layer(layer)
