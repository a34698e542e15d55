"""HyDE: search for hypothetical documents that a model writes, which resemble an answer.

Source: Gao et al., "Precise Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from triptych._internal.concurrency import map_ordered
from triptych._internal.model_texts import check_prompt
from triptych.contracts import LLM, QueryProbe
from triptych.contracts.models import check_llm
from triptych.errors import ProviderError, ValidationError
from triptych.records import Mode, Query, QueryVariant, Rewriting, check_whole
from triptych.records.values import check_number
from triptych.search.model_rewriters import ModelCalls, as_it_came, check_seconds

HYDE_PROMPT: Final = """\
Somebody asks a question of a collection of documents. Write the passage of such a document that
answers it: one paragraph of 60 to 120 words, in the style of a manual, an article or notes. If you
do not know the answer, write what such a passage is likely to say. Use the terms that its author
would use, and the language of the question. Do not repeat the question, and do not speak of
yourself or of the passage. Write the passage and nothing else."""

_TAIL: Final = """ Use the language of the question. If you do not know the answer, write what is
likely to stand there. Do not repeat the question, and do not speak of yourself. Write the text and
nothing else."""

HYDE_PROMPTS: Final = (
    "Somebody asks a question of a collection of documents. Write a factual passage that answers "
    "it, as an encyclopedia would: plain statements with names, figures and conditions, in one "
    f"paragraph of 60 to 120 words.{_TAIL}",
    "Somebody asks a question of a collection of documents. List the key facts that an answer to "
    "it consists of: four to eight short lines, each one statement, with the terms and values "
    f"that documents on the subject use.{_TAIL}",
    "Somebody asks a question of a collection of documents. Explain the answer as an expert of the "
    "field does to a colleague: causes, mechanism and consequences in the technical terms of the "
    f"field, in one paragraph of 60 to 120 words.{_TAIL}",
    "Somebody asks a question of a collection of documents. Define the main term or thing that the "
    "question is about, and place it: what it belongs to, what it is used for, how it differs from "
    f"what is near to it. Write one paragraph of 60 to 120 words.{_TAIL}",
    "Somebody asks a question of a collection of documents. Answer it by a concrete example: a "
    "case, a command, a calculation or a dialogue as a tutorial would show it, with a sentence "
    f"that says what it shows. Write 60 to 120 words.{_TAIL}",
)
"""Factual passage, key facts, expert explanation, contextual definition, example."""

DEFAULT_HYDE_THRESHOLD: Final = 0.50
_MOST: Final = 16
_MAX_TOKENS: Final = 256
_WORKERS: Final = 4


class HyDE:
    """A query rewriter: vector lanes search for hypothetical documents, keyword lanes for the
    question.

    A model writes ``documents`` texts concurrently. Vector lanes search for the mean of their unit
    vectors, scaled to unit length. Without vectors (``mode="bm25"``) the model is not called. If
    some texts cannot be written, the others are used; if none can, the original question is
    searched for. Both add a warning.

    If the model is deterministic, all texts are equal: use ``varied``.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        documents: int = 1,
        adaptive: bool = False,
        threshold: float = DEFAULT_HYDE_THRESHOLD,
        varied: bool = False,
        prompts: Sequence[str] | None = None,
        include_question: bool = False,
        max_tokens: int = _MAX_TOKENS,
        timeout: float | None = None,
    ) -> None:
        """Set the model and the options.

        Args:
            llm: the model, called once for each document.
            documents: the number of documents, 1 to 16.
            adaptive: whether to call the model only if the best score of the vector lane for the
                question itself is below ``threshold``.
            threshold: a cosine, -1 to 1. 0.50 suits models such as all-MiniLM; the cosines of
                multilingual-e5 lie between 0.70 and 0.93, and need a threshold in between.
            varied: whether to alternate between five kinds of documents, `HYDE_PROMPTS`; best with
                3 documents or more. Source: arXiv 2509.16369.
            prompts: your own prompts, used in turn instead of these.
            include_question: whether the mean includes the vector of the question.
            max_tokens: the maximum length of a document in tokens.
            timeout: see `FollowUpRewriter`.

        Raises:
            ValidationError: an argument is invalid.
        """
        check_llm(llm)
        check_whole(documents, "documents", least=1, most=_MOST)
        check_number(threshold, "the threshold, a cosine,", least=-1, most=1)
        if prompts is not None and varied:
            raise ValidationError("prompts are already used in turn: leave out varied")
        if prompts is None:
            prompts = HYDE_PROMPTS if varied else (HYDE_PROMPT,)
        elif isinstance(prompts, str) or not prompts:
            raise ValidationError("prompts takes one prompt or more: give a list")
        for prompt in prompts:
            check_prompt(prompt, "a prompt of HyDE")
        self._llm = llm
        self._prompts = [prompts[at % len(prompts)] for at in range(documents)]
        self._adaptive = adaptive
        self._threshold = threshold
        self._include_question = include_question
        self._max_tokens = check_whole(max_tokens, "max_tokens", least=1)
        self._timeout = check_seconds(timeout)

    def rewrite(self, query: Query) -> Rewriting:
        """Return the question with documents to embed; ``adaptive`` has no effect here."""
        if query.mode not in (None, Mode.HYBRID, Mode.VECTOR):
            return Rewriting(variants=(QueryVariant(text=query.text),))
        return self._written(query)

    def rewrite_probing(self, query: Query, probe: QueryProbe) -> Rewriting:
        """Return the question, with documents to embed unless ``adaptive`` finds them
        unnecessary."""
        plain = Rewriting(variants=(QueryVariant(text=query.text),))
        if not probe.searches_vectors:
            return plain
        if self._adaptive:
            best = probe.best_vector_score(query.text)
            if best is not None and best >= self._threshold:
                return plain
        return self._written(query)

    def _written(self, query: Query) -> Rewriting:
        calls = ModelCalls(self._llm, self._timeout)

        def write(prompt: str) -> str | ProviderError:
            try:
                return calls.ask(prompt, query.text, max_tokens=self._max_tokens, whole=False)
            except ProviderError as error:
                return error

        answers = list(map_ordered(write, self._prompts, _WORKERS))
        errors = [each for each in answers if isinstance(each, ProviderError)]
        texts = tuple(dict.fromkeys(each for each in answers if isinstance(each, str)))
        if not texts:
            return as_it_came(query.text, "HyDE", errors[0], calls)
        warnings: tuple[str, ...] = ()
        if errors:
            warnings = (
                f"HyDE has {len(answers) - len(errors)} of {len(answers)} documents "
                f"({type(errors[0]).__name__}: {errors[0]})",
            )
        variant = QueryVariant(
            text=query.text,
            embed_texts=texts,
            embed_kind="document",
            embed_own_text=self._include_question,
        )
        return Rewriting(variants=(variant,), warnings=warnings, usage=(calls.usage,))
