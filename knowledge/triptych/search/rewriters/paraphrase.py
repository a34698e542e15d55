"""Paraphrases of a question by a language model, fused with the question itself."""

from __future__ import annotations

import re
from typing import Final

from triptych.contracts import LLM
from triptych.errors import ProviderError, UnusableAnswerError, ValidationError
from triptych.records import Query, QueryVariant, Rewriting, check_whole
from triptych.search.rewriters.model import (
    ModelCalls,
    as_it_came,
    check_model,
    check_seconds,
    one_line,
)
from triptych.search.rewriting import MAX_VARIANTS

PARAPHRASE_PROMPT: Final = """\
Write {n} other wordings of a question that somebody asks of a collection of documents. Each asks
for the same thing in other words: synonyms, the technical term for an everyday word, the everyday
word for a technical term. Keep names, codes and numbers as they are. Use the language of the
question. Do not answer it. Write one wording in each line, without numbers, and nothing else."""

_TOKENS_EACH: Final = 80
_BULLET = re.compile(r"^\s*(?:[-*\u2022]|\(?\d{1,2}[.):])\s*")


class ParaphraseRewriter:
    """The question, and other wordings of it by a model: the rankings of all are fused."""

    def __init__(
        self,
        llm: LLM,
        n: int = 3,
        *,
        weight: float = 1.0,
        max_tokens: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Take the model and how many wordings it writes.

        Args:
            llm: the model; one call a query.
            n: how many wordings are asked for, 1 to 31. Fewer may come.
            weight: how much each counts in fusion; the question counts 1.
            max_tokens: the most that the model may write; None is 80 for each wording.
            timeout: see `FollowUpRewriter`.
        """
        check_model(llm, "ParaphraseRewriter")
        if not 1 <= check_whole(n, "n") < MAX_VARIANTS:
            raise ValidationError(f"n is {n}: give a number of wordings from 1 to 31")
        self._llm = llm
        self._n = n
        self._weight = QueryVariant(text="a", weight=weight).weight
        self._max_tokens = (
            _TOKENS_EACH * n
            if max_tokens is None
            else check_whole(max_tokens, "max_tokens", least=1)
        )
        self._timeout = check_seconds(timeout)

    def rewrite(self, query: Query) -> Rewriting:
        """Return the question and its other wordings."""
        calls = ModelCalls(self._llm, self._timeout)
        prompt = PARAPHRASE_PROMPT.format(n=self._n)
        try:
            said = calls.ask(prompt, query.text, max_tokens=self._max_tokens, whole=False)
            wordings = _wordings(said, query.text)[: self._n]
            if not wordings:
                raise UnusableAnswerError(f"the model wrote no other wording: {said[:60]!r}")
        except ProviderError as error:
            return as_it_came(query.text, "ParaphraseRewriter", error, calls)
        others = [QueryVariant(text=each, weight=self._weight) for each in wordings]
        return Rewriting(variants=(QueryVariant(text=query.text), *others), usage=(calls.usage,))


def _wordings(said: str, question: str) -> list[str]:
    """The lines of an answer that are wordings: each once, and none of them the question."""
    longest = 4 * len(question) + 200  # what is longer is an answer or an explanation
    found: dict[str, str] = {}
    for line in said.splitlines():
        wording = one_line(_BULLET.sub("", line))
        plain = " ".join(re.findall(r"\w+", wording.casefold()))
        if plain and len(wording) <= longest and not wording.endswith(":"):
            found.setdefault(plain, wording)
    found.pop(" ".join(re.findall(r"\w+", question.casefold())), None)
    return list(found.values())
