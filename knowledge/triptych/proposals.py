"""Proposals: writes of agents that wait until a person approves or refuses them.

They are in the store's settings, where no search, list or feed of changes finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from triptych.access.proposals import KeptProposals, Proposal as Proposal
from triptych.access.view import Access
from triptych.contracts.rules import plan_put
from triptych.derivation.versions import unified_diff
from triptych.errors import (
    AccessDeniedError,
    ConflictError,
    DerivationError,
    NotAvailableError,
    NotFoundError,
)
from triptych.records import SystemData
from triptych.service import KnowledgeBase
from triptych.text.injection import suspicious


class Proposals(KeptProposals):
    """The proposals of a store, and which of its datasets are reviewed."""

    @classmethod
    def of(cls, service: KnowledgeBase) -> Proposals:
        """Those of a Service's store.

        Raises:
            NotAvailableError: the store keeps no settings.
        """
        settings = unrestricted(service)[0].capabilities.settings
        if settings is None:
            raise NotAvailableError("this store keeps no settings, and so no proposals")
        return cls(settings)

    def approve(
        self, service: KnowledgeBase, dataset_id: str, proposal_id: str, by: str
    ) -> Proposal:
        """Carry out a proposal over ``service``, as ``by``, and once; the proposal as it is then.

        Raises:
            AccessDeniedError: ``service`` is an agent's, or not of all of the dataset.
            NotFoundError: there is no such proposal.
            ConflictError: it was refused; or the document has changed since it was made, and the
                proposal still waits.
            TriptychError: as the put or the deletion; the proposal still waits, unless the
                document is stored (`DerivationError`).
        """
        check_reviewer(service, dataset_id)
        proposal = Proposal.of(self._text(dataset_id, proposal_id))
        if proposal.state == "refused":
            raise ConflictError(f"this proposal was refused before, by {proposal.decided_by}")
        try:
            if proposal.state == "pending":
                _carry_out(service, proposal)
        except DerivationError:
            self._decide(dataset_id, proposal_id, "approved", by)
            raise
        return self._decide(dataset_id, proposal_id, "approved", by)

    def refuse(
        self, service: KnowledgeBase, dataset_id: str, proposal_id: str, by: str
    ) -> Proposal:
        """Refuse a proposal, as ``by``; the proposal as it is then.

        Raises:
            AccessDeniedError, NotFoundError: as `approve`.
            ConflictError: it was approved.
        """
        check_reviewer(service, dataset_id)
        return self._decide(dataset_id, proposal_id, "refused", by)


def unrestricted(service: Any) -> tuple[KnowledgeBase, Sequence[Access]]:
    """The Service that a restricted one is made of, at last, and the accesses in between."""
    accesses = []
    while service.access is not None:
        accesses.append(service.access)
        service = service.base
    return service, accesses


def decides(service: KnowledgeBase, dataset_id: str) -> bool:
    """Whether who uses ``service`` may decide on a dataset's proposals."""
    accesses = unrestricted(service)[1]
    return all(each.can_write and not each.agent and each.is_whole(dataset_id) for each in accesses)


def sees(service: KnowledgeBase, proposal: Proposal) -> bool:
    """Whether a proposal is shown to who uses ``service``: whoever decides on it or made it."""
    made = {each.caller for each in unrestricted(service)[1]} - {""}
    return proposal.made_by in made or decides(service, proposal.dataset_id)


def check_reviewer(service: KnowledgeBase, dataset_id: str) -> None:
    """Raise AccessDeniedError for who may not decide on a dataset's proposals."""
    if not decides(service, dataset_id):
        raise AccessDeniedError(
            "whoever decides on proposals may write, sees the whole dataset, and is no agent"
        )


def changes_of(service: KnowledgeBase, proposal: Proposal) -> tuple[int, str]:
    """The version of a proposal's document now, 0 for none, and what would change, as ``diff -u``.

    There is no difference where the document is as proposed, and of a decided proposal.
    """
    try:
        stored = service.get_document(proposal.dataset_id, proposal.name)
    except NotFoundError:
        stored = None
    version = 0 if stored is None else stored.version
    new = proposal.document
    after = None if new is None else plan_put(proposal.dataset_id, new, stored, 0)
    some = after or stored
    if some is None or proposal.state != "pending":
        return version, ""
    none = attrs.evolve(some, content="", metadata={}, version=0, system=SystemData())
    none = attrs.evolve(none, original_sha256="", parser_sig="")
    return version, unified_diff(stored or none, after or none, whole=True)


def is_synced(service: KnowledgeBase, proposal: Proposal) -> bool:
    """Whether the document comes from a folder or a source, whose next sync overwrites it."""
    try:
        return service.get_document(proposal.dataset_id, proposal.name).system.sync_root != ""
    except NotFoundError:
        return False


def missing_sources(service: KnowledgeBase, proposal: Proposal) -> set[str]:
    """The sources that a proposal names and no document of its dataset is."""
    named = set(proposal.sources)
    try:
        where = {"$name": {"$in": sorted(named)}}
        found = service.list_documents(proposal.dataset_id, where=where) if named else ()
    except NotFoundError:
        found = ()
    return named - {info.name for info in found}


def signs_of(proposal: Proposal) -> Sequence[str]:
    """The kinds of signs (`Hit.signs`) in all that would be stored of a proposal."""
    new = proposal.document
    if new is None:
        return ()
    texts = [new.content, new.name]
    for key, value in (new.metadata or {}).items():
        texts += [key, *map(str, value if isinstance(value, list | tuple) else [value])]
    return tuple(dict.fromkeys(sign.kind for each in texts for sign in suspicious(each)))


def _carry_out(service: KnowledgeBase, proposal: Proposal) -> None:
    dataset_id, name, base = proposal.dataset_id, proposal.name, proposal.base
    try:
        if proposal.document is None:
            service.delete_document(dataset_id, name, if_version=base)
            return
        document = attrs.evolve(proposal.document, if_version=base)
        for failure in service.put_documents(dataset_id, [document]).failed:
            raise failure.error
    except ConflictError as error:
        if error.actual is None:
            raise
        if not _is_done(service, proposal):
            raise ConflictError(
                f"the document {name!r} has changed since this was proposed (version {base} then, "
                f"{error.actual} now): the proposal still waits. Refuse it, or ask for another",
                expected=base,
                actual=error.actual,
            ) from error


def _is_done(service: KnowledgeBase, proposal: Proposal) -> bool:
    """Whether the document is as proposed: another approval was faster, or was cut off."""
    try:
        stored = service.get_document(proposal.dataset_id, proposal.name)
    except NotFoundError:
        return proposal.document is None
    new = proposal.document
    return new is not None and plan_put(proposal.dataset_id, new, stored, 0) is stored
