"""What a purge erases and cannot erase, and erasing the responses kept for repeated requests."""

from __future__ import annotations

import json
from typing import Final

from triptych.contracts import SettingsStore, Store, VersionReader
from triptych.question_log import QuestionLog
from triptych.records import PurgeReceipt

BEYOND: Final = (
    "copies: copy again with --replace, and purge a dataset there too",
    "a file that it was synced from: delete it, or the next sync puts it back",
    "backups, snapshots of Qdrant, Git's history: purge there too",
    "what syncs from other machines remember of it, until their next one",
    "memory of other processes, free memory and free blocks of the disk, until it is overwritten",
    "logs and terminals of programs that printed it",
    "providers of models that were sent its text",
    "golden questions about it, here and in files: people wrote them",
)
"""What no store can erase."""

DAMAGED: Final = "counts of what could not be read: it was damaged"


def count_held(
    store: Store, versions: VersionReader | None, dataset_id: str, name: str | None
) -> PurgeReceipt:
    """What the store holds of a document, or of a dataset (None)."""
    names = [name] if name is not None and store.documents.get_info(dataset_id, name) else []
    if name is None:
        names = [each.name for each in store.documents.list(dataset_id)]
    found = store.chunks.iter_chunks(dataset_id, name, vectors=True)
    has_vector = [each.vector is not None for each in found]
    old = 0 if versions is None else sum(len(versions.versions(dataset_id, n)) - 1 for n in names)
    layers = sum(name in (None, each.doc_name) for each in store.layers.list(dataset_id))
    return PurgeReceipt(
        dataset_id=dataset_id,
        name=name,
        documents=len(names),
        versions=old,
        chunks=len(has_vector),
        vectors=sum(has_vector),
        layers=layers,
    )


KEPT_REQUESTS: Final = "http.idempotency."
"""What the names of these settings begin with. They may hold whole documents."""
BODIES: Final = f"{KEPT_REQUESTS}body."
STATES: Final = f"{KEPT_REQUESTS}state."
PLACE: Final = "-"
"""How a body that is not there yet begins; no base64 does."""


def forget_requests(settings: SettingsStore | None, dataset_id: str, name: str | None) -> int:
    """Remove the answers that may hold a document, or one of a dataset (None), and the places of
    those to come; how many answers there were.

    A state says which dataset and document its request was about; without them, it may be any. A
    request that was under way finds its place gone, and its answer is not kept.
    """
    if settings is None:
        return 0
    answers = 0
    kept = settings.list_settings(KEPT_REQUESTS)
    for key in kept:
        about = json.loads(kept.get(STATES + key.rpartition(".")[2], "{}"))
        if about.get("dataset_id", dataset_id) != dataset_id:
            continue
        if name is not None and about.get("name", name) != name:
            continue
        while (value := settings.get_setting(key)) is not None:
            if settings.set_setting(key, None, expected=value):
                answers += key.startswith(BODIES) and not value.startswith(PLACE)
                break
    return answers


def forget_questions(settings: SettingsStore | None, dataset_id: str, name: str | None) -> int:
    """Remove the logged questions of a dataset, or only that a document was found; how many."""
    log = QuestionLog(settings)
    asked = log.count(dataset_id) if name is None else 0
    return log.erase(dataset_id, name) or asked


PROPOSALS: Final = "proposal/"
"""What the names of these settings begin with: `triptych.access.proposals`."""


def proposal_settings(dataset_id: str) -> str:
    """What the names of a dataset's proposals begin with."""
    return f"{PROPOSALS}{dataset_id}/"


def forget_proposals(settings: SettingsStore | None, dataset_id: str, name: str | None) -> None:
    """Remove the proposals of a document, or of a dataset (None), decided ones too."""
    if settings is None:
        return
    for key in settings.list_settings(proposal_settings(dataset_id)):
        while (text := settings.get_setting(key)) is not None:
            about = json.loads(text)
            is_another = about["dataset_id"] != dataset_id or name not in (None, about["name"])
            if is_another or settings.set_setting(key, None, expected=text):
                break
