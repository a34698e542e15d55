"""The doctor's part that only the files can tell: themselves, their sidecars, the journal."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from triptych.doctor import Check, Tally
from triptych.records import Finding

from . import history, looks
from .disk import disk_errors
from .layout import INTENT, JOURNAL, OWN
from .problems import Problem
from .reading import Found, find_content
from .surveying import survey

if TYPE_CHECKING:
    from .store import FilesStore

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
            "the derived database holds other text than the file it was read from",
            "answers quote text that nobody wrote",
            repair="it is read from the file again",
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
    tally = Tally()
    for problem in survey(store.keeper):
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
    """Documents whose file, or whose mirrored content, is not what was adopted."""
    keeper = store.keeper
    folder = keeper.folder(dataset)
    if folder is None:
        return
    with keeper.sql.reading() as session:
        known = looks.find_documents(session, dataset)
    for each in known:
        look = each.look
        found = find_content(keeper.disk, folder, look.path)
        if found is None or isinstance(found, Problem) or found.seen != look.seen:
            continue  # edited or removed meanwhile, which is adopted; or told by the survey
        if found.digest != each.sidecar.sha256:
            yield "files.checksum", look.name
        elif _mirrored(store, dataset, look.name) != found.digest:
            yield "files.mirror", look.name


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
    """Finish what was begun, and read the mirror's content from the files again."""
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
    mended = 0
    with keeper.locked():
        folder = keeper.folder(dataset)
        with keeper.sql.reading() as session:
            known = looks.find_documents(session, dataset)
        for each in known:
            if folder is None or _mirrored(store, dataset, each.look.name) == each.sidecar.sha256:
                continue
            found = find_content(keeper.disk, folder, each.look.path)
            if isinstance(found, Found) and found.digest == each.sidecar.sha256:
                with store.sql.writing() as tx:
                    tx.driver.execute(
                        "UPDATE document SET content = ?, size = ? WHERE name = ? AND dataset_id "
                        "= (SELECT id FROM dataset WHERE name = ?)",
                        [found.data, len(found.data), each.look.name, dataset],
                    )
                mended += 1
    return [f"read {mended} documents of dataset {dataset!r} from their files again"]
