"""Proposals: writes of agents that wait until a person approves or refuses them.

They are in the store's settings, where no search, list or feed of changes finds them.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from triptych.access.view import Access
from triptych.contracts import SettingsStore
from triptych.contracts.rules import plan_put
from triptych.derivation.erasure import PROPOSALS, proposal_settings
from triptych.derivation.living_documents import unified_diff
from triptych.errors import (
    AccessDeniedError,
    ConflictError,
    DerivationError,
    NotAvailableError,
    NotFoundError,
    PendingReviewError,
    TriptychError,
    ValidationError,
)
from triptych.records import NewDocument, SystemData, check_identifier
from triptych.records.serialization import from_dict, to_dict
from triptych.search.dataset_settings import set_at_last
from triptych.text.injection import suspicious

if TYPE_CHECKING:
    from triptych.service import Service

MOST_CHARACTERS: Final = 1_000_000
"""Of what one caller has waiting in a dataset; a store of files keeps its settings in one file."""
MOST_WAITING: Final = 200
"""Proposals of one caller in a dataset."""
MOST_DECIDED: Final = 200
"""Of the proposals of one caller in a dataset: so long is a refusal remembered."""
_REVIEWED: Final = "review/"
_ADDING: Final = threading.Lock()


@attrs.frozen(kw_only=True)
class Proposal:
    """A write of an agent.

    Attributes:
        what: "metadata" is a put of the same text.
        document: what is put; None for a deletion, and in a decided proposal.
        base: the version that it was made for, 0 for no document.
        made_by: the caller, in words.
        id: the same for the same write of the same caller, however often it is sent.
        decided_by, decided_at: who approved or refused it, and when.
    """

    dataset_id: str
    name: str
    what: Literal["put", "metadata", "deletion"]
    document: NewDocument | None = None
    base: int
    made_by: str
    made_at: datetime = attrs.field(factory=lambda: datetime.now(UTC))
    id: str = attrs.field()
    state: Literal["pending", "approved", "refused"] = "pending"
    decided_by: str = ""
    decided_at: datetime | None = None

    @id.default
    def _digest(self) -> str:
        same = [self.name, self.what, self.base, to_dict(self.document), self.made_by]
        return hashlib.sha256(json.dumps(same).encode()).hexdigest()[:32]

    @property
    def sources(self) -> Sequence[str]:
        """What the agent says it is from: the metadata's ``sources``."""
        given = ((self.document and self.document.metadata) or {}).get("sources", ())
        return list(map(str, given)) if isinstance(given, list | tuple) else [str(given)]

    @property
    def key(self) -> str:
        """The key of its setting."""
        return proposal_settings(self.dataset_id) + self.id

    @property
    def text(self) -> str:
        """The value of its setting."""
        return json.dumps(to_dict(self), ensure_ascii=False)


class Proposals:
    """The proposals of a store, and which of its datasets are reviewed."""

    def __init__(self, settings: SettingsStore) -> None:
        self._settings = settings

    @classmethod
    def of(cls, service: Service) -> Proposals:
        """Those of a Service's store.

        Raises:
            NotAvailableError: the store keeps no settings.
        """
        settings = unrestricted(service)[0].capabilities.settings
        if settings is None:
            raise NotAvailableError("this store keeps no settings, and so no proposals")
        return cls(settings)

    def is_reviewed(self, dataset_id: str) -> bool:
        """Whether writes of agents wait in this dataset, which need not exist."""
        return self._settings.get_setting(_REVIEWED + dataset_id) is not None

    def set_reviewed(self, dataset_id: str, reviewed: bool) -> None:
        """Let further writes of agents wait in this dataset, or no longer."""
        key = _REVIEWED + check_identifier(dataset_id, "dataset_id")
        set_at_last(self._settings, key, "true" if reviewed else None)

    def reviewed(self) -> set[str]:
        """The datasets where they wait."""
        found = self._settings.list_settings(_REVIEWED)
        return {key.removeprefix(_REVIEWED) for key in found}

    def list(
        self, dataset_id: str | None = None, *, waiting_of: str | None = None
    ) -> Sequence[Proposal]:
        """All of a dataset, or of all of them, the oldest first; or what a caller has waiting."""
        prefix = PROPOSALS if dataset_id is None else proposal_settings(dataset_id)
        found = map(_read, self._settings.list_settings(prefix).values())
        # "a" and "a/b" may both be datasets.
        of = [each for each in found if dataset_id in (None, each.dataset_id)]
        if waiting_of is not None:
            of = [each for each in of if (each.made_by, each.state) == (waiting_of, "pending")]
        return sorted(of, key=lambda each: (each.made_at, each.id))

    def find(self, proposal_id: str, dataset_id: str | None = None) -> Proposal:
        """The proposal of an id, in a dataset or in any.

        Raises:
            NotFoundError: there is none.
            ValidationError: several datasets have one: the same write was sent to each.
        """
        found = [each for each in self.list(dataset_id) if each.id == proposal_id]
        if not found:
            where = "" if dataset_id is None else f" in {dataset_id!r}"
            raise NotFoundError(f"there is no proposal {proposal_id!r:.60}{where}")
        if len(found) > 1:
            several = ", ".join(repr(each.dataset_id) for each in found)
            raise ValidationError(f"{several} have a proposal {proposal_id!r}: name the dataset")
        return found[0]

    def decided(self, dataset_id: str) -> Sequence[Proposal]:
        """Those that were approved or refused, the last decision first."""
        found = [each for each in self.list(dataset_id) if each.decided_at]
        return sorted(found, key=lambda each: each.decided_at or each.made_at, reverse=True)

    def add(self, proposals: Sequence[Proposal]) -> Sequence[TriptychError]:
        """Keep proposals of one dataset; the error that the agent gets for each.

        That is a `PendingReviewError` if the proposal waits. The same one waits only once.
        """
        with _ADDING:
            return self._add_all(proposals) if proposals else []

    def _add_all(self, proposals: Sequence[Proposal]) -> Sequence[TriptychError]:
        dataset_id, caller = proposals[0].dataset_id, proposals[0].made_by
        own = self._sizes(dataset_id, caller)
        before = set(own)
        errors: list[TriptychError] = []
        for each in proposals:
            room = MOST_CHARACTERS - sum(own.values()) if len(own) < MOST_WAITING else 0
            errors.append(self._add(each, has_room=len(each.text) <= room))
            if isinstance(errors[-1], PendingReviewError):
                own[each.key] = len(each.text)
        # Other processes may have found the same room: who sees too much takes back its own.
        now = self._sizes(dataset_id, caller) if own.keys() - before else {}
        for at, each in reversed([*enumerate(proposals)]):
            if len(now) <= MOST_WAITING and sum(now.values()) <= MOST_CHARACTERS:
                break
            if each.key not in before and self._settings.set_setting(
                each.key, None, expected=each.text
            ):
                now.pop(each.key, None)
                errors[at] = _no_room(dataset_id)
        decided = [each for each in self.decided(dataset_id) if each.made_by == caller]
        for each in decided[MOST_DECIDED:]:
            set_at_last(self._settings, each.key, None)
        return errors

    def _sizes(self, dataset_id: str, caller: str) -> dict[str, int]:
        return {each.key: len(each.text) for each in self.list(dataset_id, waiting_of=caller)}

    def _add(self, new: Proposal, *, has_room: bool) -> TriptychError:
        while True:
            before = self._settings.get_setting(new.key)
            state = None if before is None else _read(before).state
            if state == "refused":
                return AccessDeniedError(f"the same {new.what} of {new.name!r} was refused before")
            if state in (None, "approved"):
                if not has_room:
                    return _no_room(new.dataset_id)
                if not self._settings.set_setting(new.key, new.text, expected=before):
                    continue
            return PendingReviewError(
                f"the {new.what} of {new.name!r} waits for review as proposal {new.id}: nothing "
                "has changed, and no search finds it until a person approves it. Do not send it "
                "again",
                proposals={new.name: new.id},
            )

    def approve(self, service: Service, dataset_id: str, proposal_id: str, by: str) -> Proposal:
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
        proposal = _read(self._text(dataset_id, proposal_id))
        if proposal.state == "refused":
            raise ConflictError(f"this proposal was refused before, by {proposal.decided_by}")
        try:
            if proposal.state == "pending":
                _carry_out(service, proposal)
        except DerivationError:
            self._decide(dataset_id, proposal_id, "approved", by)
            raise
        return self._decide(dataset_id, proposal_id, "approved", by)

    def refuse(self, service: Service, dataset_id: str, proposal_id: str, by: str) -> Proposal:
        """Refuse a proposal, as ``by``; the proposal as it is then.

        Raises:
            AccessDeniedError, NotFoundError: as `approve`.
            ConflictError: it was approved.
        """
        check_reviewer(service, dataset_id)
        return self._decide(dataset_id, proposal_id, "refused", by)

    def _text(self, dataset_id: str, proposal_id: str) -> str:
        text = self._settings.get_setting(proposal_settings(dataset_id) + proposal_id)
        # With a slash in an id it would be one of another dataset.
        if text is None or "/" in proposal_id:
            raise NotFoundError(f"there is no proposal {proposal_id!r:.60} in {dataset_id!r}")
        return text

    def _decide(
        self, dataset_id: str, proposal_id: str, state: Literal["approved", "refused"], by: str
    ) -> Proposal:
        while (old := _read(before := self._text(dataset_id, proposal_id))).state != state:
            if old.state == "approved":
                raise ConflictError(f"this proposal was approved before, by {old.decided_by}")
            # What was carried out is approved, also if somebody refused it at that moment.
            now = datetime.now(UTC)
            new = attrs.evolve(old, state=state, document=None, decided_by=by, decided_at=now)
            if self._settings.set_setting(old.key, new.text, expected=before):
                return new
        return old


def unrestricted(service: Any) -> tuple[Service, Sequence[Access]]:
    """The Service that a restricted one is made of, at last, and the accesses in between."""
    accesses = []
    while service.access is not None:
        accesses.append(service.access)
        service = service.base
    return service, accesses


def decides(service: Service, dataset_id: str) -> bool:
    """Whether who uses ``service`` may decide on a dataset's proposals."""
    accesses = unrestricted(service)[1]
    return all(each.can_write and not each.agent and each.is_whole(dataset_id) for each in accesses)


def sees(service: Service, proposal: Proposal) -> bool:
    """Whether a proposal is shown to who uses ``service``: whoever decides on it or made it."""
    made = {each.caller for each in unrestricted(service)[1]} - {""}
    return proposal.made_by in made or decides(service, proposal.dataset_id)


def check_reviewer(service: Service, dataset_id: str) -> None:
    """Raise AccessDeniedError for who may not decide on a dataset's proposals."""
    if not decides(service, dataset_id):
        raise AccessDeniedError(
            "whoever decides on proposals may write, sees the whole dataset, and is no agent"
        )


def changes_of(service: Service, proposal: Proposal) -> tuple[int, str]:
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


def signs_of(proposal: Proposal) -> Sequence[str]:
    """The kinds of signs (`Hit.signs`) in all that would be stored of a proposal."""
    new = proposal.document
    if new is None:
        return ()
    texts = [new.content, new.name]
    for key, value in (new.metadata or {}).items():
        texts += [key, *map(str, value if isinstance(value, list | tuple) else [value])]
    return tuple(dict.fromkeys(sign.kind for each in texts for sign in suspicious(each)))


def _no_room(dataset_id: str) -> AccessDeniedError:
    return AccessDeniedError(
        f"too many proposals of this caller wait in {dataset_id!r} (at most {MOST_WAITING}, of "
        f"{MOST_CHARACTERS:,} characters): a person must decide on some first"
    )


def _carry_out(service: Service, proposal: Proposal) -> None:
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


def _is_done(service: Service, proposal: Proposal) -> bool:
    """Whether the document is as proposed: another approval was faster, or was cut off."""
    try:
        stored = service.get_document(proposal.dataset_id, proposal.name)
    except NotFoundError:
        return proposal.document is None
    new = proposal.document
    return new is not None and plan_put(proposal.dataset_id, new, stored, 0) is stored


def _read(text: str) -> Proposal:
    return from_dict(Proposal, json.loads(text))
