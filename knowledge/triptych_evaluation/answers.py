"""Collecting the answers of `ask` to golden questions, and scoring abstentions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from triptych import ProgressCallback
from triptych.contracts import LLM
from triptych.errors import ProviderError
from triptych.question_log import unlogged
from triptych_evaluation.collections import Collection, one_by_one
from triptych_evaluation.rag import RagSample

if TYPE_CHECKING:
    from triptych.service import KnowledgeBase


@attrs.frozen(kw_only=True, slots=True)
class AbstentionScore:
    """How often abstentions are correct.

    Attributes:
        abstained: the number of abstentions.
        unanswerable: the number of questions without an answer.
        precision: the share of abstentions whose question has no answer; None without any.
        recall: the share of questions without an answer that were abstained; None without any.
    """

    abstained: int
    unanswerable: int
    precision: float | None
    recall: float | None

    @classmethod
    def of(cls, collection: Collection, abstained: Mapping[str, str]) -> AbstentionScore:
        """Compute the score of these abstentions by query id."""
        without = {query.query_id for query in collection.queries if query.unanswerable}
        right = len(without & abstained.keys())
        return cls(
            abstained=len(abstained),
            unanswerable=len(without),
            precision=right / len(abstained) if abstained else None,
            recall=right / len(without) if without else None,
        )


@attrs.frozen(kw_only=True, slots=True)
class CollectedAnswers:
    """The collected answers of `ask`.

    Attributes:
        samples: the answers with their contexts, for judging.
        abstained: the reason of each abstention by query id: "nothing", "weak", "model".
        failures: the error of the model by query id.
        score: the score of abstentions; None if every question has an answer.
        warnings: the distinct warnings of `ask`, without those of single claims.
    """

    samples: tuple[RagSample, ...]
    abstained: Mapping[str, str]
    failures: Mapping[str, str]
    score: AbstentionScore | None
    warnings: tuple[str, ...] = ()


@unlogged()
def collect_answers(
    answering: KnowledgeBase,
    collection: Collection,
    *,
    dataset_id: str,
    llm: LLM | None = None,
    token_budget: int | None = None,
    max_tokens: int = 1_024,
    progress: ProgressCallback | None = None,
) -> CollectedAnswers:
    """Ask every question in order; failures of the model are counted.

    Raises:
        NotAvailableError: no language model is configured.
        ProviderError: the model failed for every question.
    """
    options: dict[str, Any] = {} if token_budget is None else {"token_budget": token_budget}
    samples: list[RagSample] = []
    abstained: dict[str, str] = {}
    failures: dict[str, str] = {}
    warned: list[str] = []
    last: ProviderError | None = None
    for query in one_by_one(collection.queries, "answering questions", "answering", progress):
        try:
            answer = answering.ask(
                query.text, dataset_id=dataset_id, llm=llm, max_tokens=max_tokens, **options
            )
        except ProviderError as error:
            failures[query.query_id], last = str(error), error
        else:
            claims = set(map(str, answer.proof))
            warned += (each for each in answer.warnings if each not in claims)
            if answer.abstained:
                abstained[query.query_id] = answer.reason
            else:
                samples.append(
                    RagSample(
                        query_id=query.query_id,
                        question=query.text,
                        answer=answer.text,
                        contexts=_contexts(answer.pack.pieces),
                        reference=query.answer,
                    )
                )
    if last is not None and len(failures) == len(collection.queries):
        raise last
    some = any(query.unanswerable for query in collection.queries)
    return CollectedAnswers(
        samples=tuple(samples),
        abstained=abstained,
        failures=failures,
        score=AbstentionScore.of(collection, abstained) if some else None,
        warnings=tuple(dict.fromkeys(warned)),
    )


def _contexts(pieces: Sequence[Any]) -> tuple[str, ...]:
    """The texts that the model was shown, best first."""
    return tuple(piece.text for piece in sorted(pieces, key=lambda piece: piece.number))
