"""The doctor's part that only the files can tell: themselves, their sidecars, the journal."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from triptych.diagnostics import Check, FindingCollector
from triptych.errors import CorruptStoreError
from triptych.records import DerivedLayer, Finding, Layer
from triptych_backends.filesystem import history, stat_cache as looks
from triptych_backends.filesystem.contents import (
    FileContent,
    FileLayer,
    FileSidecar,
    find_content,
    find_layer,
    find_sidecar,
)
from triptych_backends.filesystem.diagnostics import list_problems
from triptych_backends.filesystem.disk import disk_errors
from triptych_backends.filesystem.layout import INTENT, JOURNAL, OWN
from triptych_backends.filesystem.problems import RejectedFile
from triptych_backends.filesystem.stat_cache import CachedStat, TrackedFile
from triptych_backends.filesystem.workspace import same_layer

if TYPE_CHECKING:
    from triptych_backends.filesystem.store import FilesStore
    from triptych_backends.filesystem.workspace import Workspace

__all__ = ["CHECKS", "examine_files", "mend_files"]

CHECKS = {
    check.name: check
    for check in (
        Check(
            "files.unadopted",
            "a file in the store's folder cannot be taken for what it stands for",
            "the document or layer keeps its last good state, or is not there at all",
        ),
        Check(
            "files.checksum",
            "files hold other bytes than were adopted, though their time and size say otherwise",
            "what is searched is not what is in the file: the disk or a tool changed it unseen",
            remedy="put the old text back (`triptych get NAME` prints it), or touch the file, "
            "which adopts what is in it now",
        ),
        Check(
            "files.mirror",
            "the derived database says otherwise than the files that it was read from",
            "answers quote text that nobody wrote, or go by metadata that nobody gave",
            repair="it is read from the files again",
        ),
        Check(
            "history.orphans",
            "old versions of documents that are gone were left behind",
            "they keep what was deleted",
            repair="they are removed",
        ),
        Check(
            "journal.left",
            "a writer that ended early left files behind",
            "they take room; what it had begun to write is finished by the next write",
            repair="what was begun is finished, and the rest is removed",
        ),
    )
}


def examine_files(store: FilesStore, dataset_ids: Collection[str]) -> Iterator[Finding]:
    """What is wrong with the files. Reads every one; adopts and writes nothing."""
    tally = FindingCollector()
    for problem in list_problems(store.keeper):
        check = CHECKS["files.unadopted"]
        place = f"{problem.path}: {problem.reason}"
        tally.add(check, place, remedy=problem.remedy)
    with disk_errors(store.keeper.where):
        for dataset in dataset_ids:
            for kind, name in _differing(store, dataset):
                tally.add(CHECKS[kind], f"dataset {dataset!r}", name, dataset_id=dataset)
        if not store.sql.read_only:
            for name in _left(store):
                tally.add(CHECKS["journal.left"], store.keeper.where, name)
            for folder in _orphans(store):
                tally.add(CHECKS["history.orphans"], store.keeper.where, folder)
    yield from tally.findings()


def _differing(store: FilesStore, dataset: str) -> Iterator[tuple[str, str]]:
    """Documents and layers of which a file, or what is mirrored of it, is not what was adopted."""
    keeper = store.keeper
    folder = keeper.folder(dataset)
    if folder is None:
        return
    with keeper.sql.reading() as session:
        known = looks.find_documents(session, dataset)
        layers = looks.find_layers(session, dataset)
    for each in known:
        look = each.look
        found = find_content(keeper.disk, folder, look.path)
        if found is None or isinstance(found, RejectedFile) or found.seen != look.seen:
            continue  # edited or removed meanwhile, which is adopted; or told by the survey
        if found.digest != each.sidecar.sha256:
            yield "files.checksum", look.name
        elif _mirrored(store, dataset, look.name) != found.digest or not _told(
            keeper, folder, each
        ):
            yield "files.mirror", look.name
    for look in layers:
        layer = find_layer(keeper.disk, look.path)
        if not isinstance(layer, FileLayer) or layer.file.seen != look.seen:
            continue
        if layer.file.digest != look.digest:
            yield "files.checksum", look.path
        elif not _mirrors(store, dataset, look, layer.layer):
            yield "files.mirror", look.path


def _told(keeper: Workspace, folder: str, known: TrackedFile) -> bool:
    """Whether a document's mirror says what its sidecar says, as far as that was adopted."""
    side = find_sidecar(keeper.disk, folder, known.look.path)
    if not isinstance(side, FileSidecar) or side.seen != known.look.side:
        return True
    return side.sidecar.same(known.sidecar)


def _mirrors(store: FilesStore, dataset: str, look: CachedStat, layer: DerivedLayer) -> bool:
    try:
        mirrored = store.sql.layers.get(dataset, look.name, Layer(look.kind))
    except CorruptStoreError:
        return False  # its file has it
    return mirrored is not None and same_layer(mirrored, layer)


def _mirrored(store: FilesStore, dataset: str, name: str) -> str:
    with store.sql.reading() as session:
        row = session.driver.execute(
            "SELECT x.content FROM document x JOIN dataset d ON d.id = x.dataset_id "
            "WHERE d.name = ? AND x.name = ?",
            [dataset, name],
        ).fetchone()
    if row is None or not isinstance(row[0], bytes):
        return ""
    return hashlib.sha256(row[0]).hexdigest()


def _left(store: FilesStore) -> list[str]:
    keeper = store.keeper
    with keeper.lock.held():
        left = [f"{JOURNAL}/{name}" for name, _ in keeper.disk.names(JOURNAL)]
        drafts = [
            f"{OWN}/{name}"
            for name, found in keeper.disk.names(OWN)
            if name.endswith(".tmp") and found.kind == "file"
        ]
    return [*left, *drafts]


def _orphans(store: FilesStore) -> list[str]:
    keeper = store.keeper
    if not history.orphans(keeper):
        return []
    with keeper.lock.held():  # what another is deleting just now is none
        return sorted(history.orphans(keeper))


def mend_files(
    store: FilesStore, checks: Collection[str], dataset_ids: Collection[str]
) -> list[str]:
    """Finish what was begun, and read what the mirror has otherwise from the files again."""
    done: list[str] = []
    keeper = store.keeper
    if "journal.left" in checks:
        with keeper.locked():
            assert keeper.disk.entry(INTENT) is None
            keeper.journal.clear()
            for name, found in keeper.disk.names(OWN):
                if name.endswith(".tmp") and found.kind == "file":
                    keeper.disk.remove(f"{OWN}/{name}")
        done.append("finished what was begun, and removed what was left")
    if "history.orphans" in checks:
        with keeper.locked():
            done.append(f"removed the old versions of {history.sweep(keeper)} deleted documents")
    if "files.mirror" in checks:
        for dataset in dataset_ids:
            done += _mend_mirror(store, dataset)
    return done


def _mend_mirror(store: FilesStore, dataset: str) -> list[str]:
    keeper = store.keeper
    with keeper.locked():
        folder = keeper.folder(dataset)
        if folder is None:
            return []
        repaired = _mend_contents(store, dataset, folder)
        with keeper.sql.reading() as session:
            known = looks.find_documents(session, dataset)
            layers = looks.find_layers(session, dataset)
        change = keeper.change(dataset)
        for each in known:
            side = find_sidecar(keeper.disk, folder, each.look.path)
            file = find_content(keeper.disk, folder, each.look.path)
            if not isinstance(side, FileSidecar) or not isinstance(file, FileContent):
                continue
            if not _told(keeper, folder, each) and side.sidecar.sha256 == file.digest:
                change.take(side.sidecar, file.data, file.seen, side.seen, file.looked)
                repaired += 1
        for look in layers:
            found = find_layer(keeper.disk, look.path)
            if isinstance(found, FileLayer) and not _mirrors(store, dataset, look, found.layer):
                read = found.file
                change.take_layer(found.layer, look.path, read.digest, read.seen, read.looked)
                repaired += 1
        change.commit()
    return [f"read {repaired} documents and layers of dataset {dataset!r} from their files again"]


def _mend_contents(store: FilesStore, dataset: str, folder: str) -> int:
    """Of how many documents the mirrored content was read again."""
    keeper = store.keeper
    repaired = 0
    with keeper.sql.reading() as session:
        known = looks.find_documents(session, dataset)
    for each in known:
        if _mirrored(store, dataset, each.look.name) == each.sidecar.sha256:
            continue
        found = find_content(keeper.disk, folder, each.look.path)
        if isinstance(found, FileContent) and found.digest == each.sidecar.sha256:
            with store.sql.writing() as tx:
                changed = tx.driver.execute(
                    "UPDATE document SET content = ?, size = ? WHERE name = ? AND dataset_id "
                    "= (SELECT id FROM dataset WHERE name = ?) RETURNING dataset_id, id",
                    [found.data, len(found.data), each.look.name, dataset],
                ).fetchall()
                # The index may have been built from what was there.
                for owner, document in changed:
                    tx.log(owner, "document", document)
            repaired += 1
    return repaired
