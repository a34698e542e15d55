"""The writes of agents that wait for a person, as settings of a store keep them.

`triptych.proposals` carries them out.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import attrs

from triptych.contracts import SettingsStore
from triptych.derivation.erasure import PROPOSALS, proposal_settings
from triptych.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    PendingReviewError,
    TriptychError,
    ValidationError,
)
from triptych.records import NewDocument, check_identifier
from triptych.records.serialization import from_dict, to_dict
from triptych.search.dataset_settings import set_at_last

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

    @classmethod
    def of(cls, text: str) -> Proposal:
        """The proposal that a setting keeps."""
        return from_dict(cls, json.loads(text))

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


class KeptProposals:
    """The proposals of a store, and which of its datasets are reviewed."""

    def __init__(self, settings: SettingsStore) -> None:
        self._settings = settings

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
        found = map(Proposal.of, self._settings.list_settings(prefix).values())
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
            state = None if before is None else Proposal.of(before).state
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

    def _text(self, dataset_id: str, proposal_id: str) -> str:
        text = self._settings.get_setting(proposal_settings(dataset_id) + proposal_id)
        # With a slash in an id it would be one of another dataset.
        if text is None or "/" in proposal_id:
            raise NotFoundError(f"there is no proposal {proposal_id!r:.60} in {dataset_id!r}")
        return text

    def _decide(
        self, dataset_id: str, proposal_id: str, state: Literal["approved", "refused"], by: str
    ) -> Proposal:
        while (old := Proposal.of(before := self._text(dataset_id, proposal_id))).state != state:
            if old.state == "approved":
                raise ConflictError(f"this proposal was approved before, by {old.decided_by}")
            # What was carried out is approved, also if somebody refused it at that moment.
            now = datetime.now(UTC)
            new = attrs.evolve(old, state=state, document=None, decided_by=by, decided_at=now)
            if self._settings.set_setting(old.key, new.text, expected=before):
                return new
        return old


def _no_room(dataset_id: str) -> AccessDeniedError:
    return AccessDeniedError(
        f"too many proposals of this caller wait in {dataset_id!r} (at most {MOST_WAITING}, of "
        f"{MOST_CHARACTERS:,} characters): a person must decide on some first"
    )
