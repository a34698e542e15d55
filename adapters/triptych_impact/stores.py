"""The impact of a change of documents in a store: of versions, and of what its log of changes
lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from triptych.errors import NotFoundError
from triptych.records import DocumentChange
from triptych.service import KnowledgeBase
from triptych_impact.changes import Changed
from triptych_impact.findings import Impact, impact
from triptych_impact.sources import Source


def version_impact(
    kb: KnowledgeBase,
    dataset_id: str,
    name: str,
    old: int | None = None,
    new: int | None = None,
    **options: Any,
) -> Impact:
    """Return what a change of a document may have made untrue in its dataset.

    ``old`` is by default the version that is kept before ``new``, and that the current one; of a
    first version nothing is untrue. ``options`` are those of `impact`.

    Raises:
        NotFoundError: there is no such document or version.
    """
    after = kb.get_document(dataset_id, name, version=new)
    old = old or _before(kb, dataset_id, name, after.version)
    before = kb.get_document(dataset_id, name, version=old).content if old else None
    changed = Changed(name=name, old=before, new=after.content)
    sources = {each.name: each for each in _documents(kb, dataset_id)}
    return impact([changed], [*(sources | {name: Source(name, after.content)}).values()], **options)


def changes_impact(
    kb: KnowledgeBase, dataset_id: str, changes: Iterable[DocumentChange], **options: Any
) -> Impact:
    """Return what the changes of a page of the log may have made untrue: its event.

    A document is compared with the version before its current one, as the log lists only its last
    change. Of one that was deleted only its name is left, and of one that was added nothing was
    removed. Changes of other datasets are skipped. ``options`` are those of `impact`.
    """
    changed = []
    for each in changes:
        if each.dataset_id != dataset_id or each.kind == "added":
            continue
        if each.kind == "deleted":
            changed.append(Changed(name=each.name, old="", new=None))
            continue
        try:
            old = _before(kb, dataset_id, each.name, each.version)
            texts = [
                kb.get_document(dataset_id, each.name, version=version).content
                for version in (old or each.version, each.version)
            ]
        except NotFoundError:
            continue  # it is gone by now: the log says so further on
        changed.append(Changed(name=each.name, old=texts[0], new=texts[1]))
    return impact(changed, _documents(kb, dataset_id) if changed else (), **options)


def _before(kb: KnowledgeBase, dataset_id: str, name: str, version: int) -> int | None:
    kept = [each.version for each in kb.history(dataset_id, name)]
    return max((each for each in kept if each < version), default=None)


def _documents(kb: KnowledgeBase, dataset_id: str) -> list[Source]:
    found = []
    for info in kb.list_documents(dataset_id):
        try:
            found.append(Source(info.name, kb.get_document(dataset_id, info.name).content))
        except NotFoundError:
            continue  # deleted since it was listed
    return found
