"""Adopting manual changes to the files of one document or layer.

An edited file gets the next version, a new one a version above all deleted ones, and a file that
is gone takes its document with it.
"""

from __future__ import annotations

from datetime import UTC, datetime

import attrs

from triptych.errors import CorruptStoreError
from triptych.records import DerivedLayer, SystemData
from triptych.records.metadata import same_metadata
from triptych_backends.filesystem.change_set import ChangeSet
from triptych_backends.filesystem.contents import (
    BEHIND,
    FileContent,
    Parsed,
    RejectedFile,
    find_content,
    find_layer,
    find_sidecar,
)
from triptych_backends.filesystem.formats import Sidecar
from triptych_backends.filesystem.layout import document_file, layer_paths
from triptych_backends.filesystem.stat_cache import TrackedFile


def adopt_document(
    change: ChangeSet, name: str, path: str, known: Sidecar | None
) -> RejectedFile | None:
    """Let ``change`` take over what happened to the files of a document by hand."""
    disk, folder = change.workspace.disk, change.home.folder
    file = find_content(disk, folder, path)
    if isinstance(file, RejectedFile):
        entry = None if file.reason.startswith(BEHIND) else disk.entry(file.path)
        if entry is not None:
            change.reject(file.path, entry)
        return file
    found = find_sidecar(disk, folder, path)
    side = found.value if isinstance(found, Parsed) else None
    if file is None:
        states = [state for state in (side, known) if state]
        if states:
            latest = max(states, key=lambda state: state.version)
            change.remove(attrs.evolve(latest, name=name, path=path), None)
        return None
    if side is not None and side.name != name:
        return RejectedFile(
            path=document_file(folder, path),
            reason=f"is the document {side.name!r} by its sidecar",
            remedy="rename the file, or remove the sidecar",
        )
    if isinstance(found, RejectedFile) and known is None:
        return found
    _merge(change, name, path, file, found if side else None, known)
    return None


def _merge(
    change: ChangeSet,
    name: str,
    path: str,
    file: FileContent,
    found: Parsed[Sidecar] | RejectedFile | None,
    mirrored: Sidecar | None,
) -> None:
    """What the file, its sidecar and the mirror say of a document, brought together."""
    side = found.value if isinstance(found, Parsed) else None
    fits = side if side is not None and side.sha256 == file.record.sha256 else None
    if fits and isinstance(found, Parsed):
        if mirrored is not None and fits.same(mirrored):
            change.remember(mirrored, file.record, found.file.record)
            return
        # A version that a checkout brought, or that the mirror has lost, is kept if it
        # cannot have been another one's here.
        if fits.version > max(mirrored.version if mirrored else 0, change.floor):
            change.take(fits, file.data, file.record, found.file.record)
            return
    if mirrored is not None and mirrored.sha256 == file.record.sha256:
        # The sidecar alone was lost, or was set back to an earlier one that says the same.
        base = side or mirrored
        alike = base.system == mirrored.system and same_metadata(base.metadata, mirrored.metadata)
        if alike and base.version <= mirrored.version:
            change.put(mirrored, file.data, file.record)
            return
    latest = side or mirrored
    used = [change.home.deleted_version, change.floor]
    used += [state.version for state in (side, mirrored) if state is not None]
    change.put(
        Sidecar(
            name=name,
            path=path,
            sha256=file.record.sha256,
            version=max(used) + 1,
            updated_at=datetime.now(UTC),
            metadata=latest.metadata if latest else {},
            original_sha256=fits.original_sha256 if fits else "",
            parser_sig=fits.parser_sig if fits else "",
            system=SystemData(
                outline=fits.system.outline if fits else "",
                sync_root=latest.system.sync_root if latest else "",
                expires_at=latest.system.expires_at if latest else None,
            ),
        ),
        file.data,
        file.record,
    )


def adopt_by_name(change: ChangeSet, name: str) -> RejectedFile | None:
    """`adopt_document` of the document of this name, wherever it stands."""
    workspace = change.workspace
    known = workspace.cache.document(change.home.id, name)
    path = known.path if known else workspace.find_path(change.home.folder, name)
    return None if path is None else adopt_document(change, name, path, known)


def adopt_now(change: ChangeSet, name: str) -> None:
    """Commit ``change`` with `adopt_by_name`.

    Raises:
        CorruptStoreError: the document's file cannot be taken.
    """
    problem = adopt_by_name(change, name)
    if problem is not None:
        raise problem.error(change.workspace.where)
    change.commit()


def adopt_layer(change: ChangeSet, path: str, known: TrackedFile | None) -> RejectedFile | None:
    """Let ``change`` take over what happened to a layer's file by hand."""
    found = find_layer(change.workspace.disk, path)
    if found is None:
        if known is not None:
            change.remove_layer(known)
        return None
    if isinstance(found, RejectedFile):
        return found
    layer = found.value
    problem = _misfiled(change, path, layer, known)
    if problem is not None:
        return problem
    try:
        mirrored = change.workspace.mirror.layers.get(change.home.id, layer.doc_name, layer.layer)
    except CorruptStoreError:
        mirrored = None  # the file has it
    if mirrored is not None and same_layer(mirrored, layer):
        change.remember_layer(layer, path, found.file.record)
    else:
        change.take_layer(layer, path, found.file.record)
    return None


def _misfiled(
    change: ChangeSet, path: str, layer: DerivedLayer, known: TrackedFile | None
) -> RejectedFile | None:
    name, kind, dataset = layer.doc_name, str(layer.layer), change.home.id
    document = change.workspace.cache.document(dataset, name)
    taken = change.pending(name) or document
    places = layer_paths(change.home.folder, name, kind, taken.path if taken else None)
    wrong = ""
    if layer.dataset_id != dataset or path not in places:
        wrong = f"says that it is layer {kind} of {name!r} in {layer.dataset_id!r}"
    elif known is not None and (known.name, known.kind) != (name, kind):
        wrong = f"was layer {known.kind} of {known.name!r}"
    elif name and not name.endswith("/") and taken is None:
        wrong = f"is of {name!r}, which does not exist"
    if not wrong:
        return None
    return RejectedFile(path=path, reason=wrong, remedy="put it right, or remove it")


def same_layer(mirrored: DerivedLayer, layer: DerivedLayer) -> bool:
    """Whether the mirror has the layer of a file, in whatever embedding space."""
    sig = attrs.evolve(mirrored.sig, embed_sig=layer.sig.embed_sig)
    return (sig, mirrored.content) == (layer.sig, layer.content)
