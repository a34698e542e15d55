"""What an agent writes in datasets that are reviewed: proposals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from triptych.access.documents import AccessDocuments, failed_put
from triptych.access.proposals import KeptProposals, Proposal
from triptych.contracts.rules import check_delete, document_of, plan_put
from triptych.errors import PendingReviewError, TriptychError
from triptych.records import NewDocument, PutOutcome, SourceDocument
from triptych.records.documents import has_expired, living_version


@attrs.frozen(eq=False)
class ReviewedDocuments(AccessDocuments):
    """The `AccessDocuments` of an agent.

    Where a dataset is reviewed, each put and deletion becomes a proposal and fails with
    `PendingReviewError`. A put that changes nothing, and the deletion of what has expired, are
    done. All that the access's filter or ``if_version`` refuses is refused as it is elsewhere.
    """

    _proposals: KeptProposals

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        if not self._waits(dataset_id):
            return super().put(dataset_id, document)
        return document_of(self.put_many(dataset_id, [document])[0])

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        if not self._waits(dataset_id):
            return super().put_many(dataset_id, documents)
        outcomes: dict[int, PutOutcome] = {}
        unchanged: dict[int, NewDocument] = {}
        waiting: dict[int, Proposal] = {}
        for at, new in enumerate(documents):
            try:
                made = self._proposed(dataset_id, new)
            except TriptychError as error:
                outcomes[at] = failed_put(new, error)
            else:
                if isinstance(made, NewDocument):
                    unchanged[at] = made
                else:
                    waiting[at] = made
        answers = self._proposals.add(list(waiting.values()))
        for at, answer in zip(waiting, answers, strict=True):
            outcomes[at] = failed_put(documents[at], answer)
        done = super().put_many(dataset_id, list(unchanged.values()))
        outcomes |= zip(unchanged, done, strict=True)
        return [outcomes[at] for at in range(len(documents))]

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        if not self._waits(dataset_id):
            return super().delete(dataset_id, name, if_version=if_version)
        while (info := self._view.info(dataset_id, name)) is not None:
            check_delete(dataset_id, name, if_version, info.version)
            if self.delete_many(dataset_id, {name: info.version}):
                return True
        check_delete(dataset_id, name, if_version, 0)
        return False

    def delete_many(self, dataset_id: str, versions: Mapping[str, int]) -> Sequence[str]:
        """See `DocumentRepo.delete_many`.

        Raises:
            PendingReviewError: some of these deletions wait for review.
        """
        if not self._waits(dataset_id):
            return super().delete_many(dataset_id, versions)
        found = self._view.infos(dataset_id, list(versions)).values()
        there = [each for each in found if each.version == versions[each.name]]
        ended = {each.name: each.version for each in there if has_expired(each)}
        living = [
            self._made(dataset_id, each.name, "deletion", each.version)
            for each in there
            if each.name not in ended
        ]
        done = super().delete_many(dataset_id, ended)
        waiting: dict[str, str] = {}
        for error in self._proposals.add(living):
            if len(living) == 1 or not isinstance(error, PendingReviewError):
                raise error
            waiting |= error.proposals
        if waiting:
            raise PendingReviewError(
                f"the deletions of {len(waiting)} documents wait for review: nothing has changed "
                "until a person approves them. Do not send them again",
                proposals=waiting,
            )
        return done

    def _waits(self, dataset_id: str) -> bool:
        self._view.check_write(dataset_id)
        return self._view.reviews(dataset_id)

    def _proposed(self, dataset_id: str, new: NewDocument) -> Proposal | NewDocument:
        """The proposal of a put; if it would change nothing, what puts it over this version."""
        self._ready(dataset_id, new)
        stored = self._view.store.documents.get(dataset_id, new.name)
        if plan_put(dataset_id, new, stored, 0) is stored and stored is not None:
            return attrs.evolve(new, if_version=living_version(stored))
        living = None if has_expired(stored) else stored
        same = living is not None and living.content == new.content
        what: Literal["put", "metadata"] = "metadata" if same else "put"
        document = attrs.evolve(new, if_version=None)
        return self._made(dataset_id, new.name, what, living_version(living), document)

    def _made(
        self,
        dataset_id: str,
        name: str,
        what: Literal["put", "metadata", "deletion"],
        base: int,
        document: NewDocument | None = None,
    ) -> Proposal:
        return Proposal(
            dataset_id=dataset_id,
            name=name,
            what=what,
            base=base,
            document=document,
            made_by=self._view.access.caller,
        )
