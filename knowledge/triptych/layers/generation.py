"""Functions that generate abstracts and overviews with a language model.

They only call the model: they do not store, cache or retry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from triptych import deadlines, signatures, telemetry
from triptych._internal.digests import digest
from triptych._internal.model_texts import check_prompt, is_prompt
from triptych._internal.thoughts import without_thoughts
from triptych.contracts import LLM
from triptych.contracts.models import check_llm
from triptych.derivation.folder_tree import check_summaries
from triptych.errors import CancelledError, DerivationError, ValidationError
from triptych.layers.prompts import (
    ABSTRACT_PROMPT,
    DATASET_ABSTRACT_PROMPT,
    DATASET_OVERVIEW_PROMPT,
    DEFAULT_PROMPT_INPUT_LIMIT,
    FRAME,
    OVERVIEW_PROMPT,
    document_messages,
    summaries_messages,
)
from triptych.records import (
    DatasetContext,
    DocumentContext,
    DocumentSummary,
    Generation,
    Message,
    check_text,
    check_whole,
)
from triptych.records.values import whole

# Twice what the prompts ask for: a ceiling is there for answers that do not end.
ABSTRACT_MAX_TOKENS: Final = 256
OVERVIEW_MAX_TOKENS: Final = 2048


def generate_document_context(
    llm: LLM,
    content: str,
    *,
    abstract_prompt: str = ABSTRACT_PROMPT,
    overview_prompt: str = OVERVIEW_PROMPT,
    input_limit: int = DEFAULT_PROMPT_INPUT_LIMIT,
    abstract_max_tokens: int = ABSTRACT_MAX_TOKENS,
    overview_max_tokens: int = OVERVIEW_MAX_TOKENS,
) -> DocumentContext:
    """Generate a document's abstract, then its overview, with a call of the model for each.

    For a long document the prompt has the first ``input_limit`` code points, and says so. An
    abstract is one line; both are stripped of white space. A blank document has an empty context
    and needs no call.

    Raises:
        ValidationError: an argument is invalid; the model was not called.
        DerivationError: the model failed, returned nothing, or reached its token limit. ``partial``
            is the context so far: empty, or with the abstract.
        CancelledError: the deadline passed, before or between the calls.
    """
    check_llm(llm)
    check_text(content, "content")
    settings = _Settings(
        abstract_prompt=abstract_prompt,
        overview_prompt=overview_prompt,
        input_limit=input_limit,
        abstract_max_tokens=abstract_max_tokens,
        overview_max_tokens=overview_max_tokens,
    )
    made = DocumentContext()
    if not content.strip():
        return made
    messages = document_messages(abstract_prompt, content, input_limit)
    abstract = _ask(llm, messages, settings, "abstract", made)
    made = DocumentContext(abstract=abstract)
    messages = document_messages(overview_prompt, content, input_limit)
    overview = _ask(llm, messages, settings, "overview", made)
    return attrs.evolve(made, overview=overview)


def generate_dataset_context(
    llm: LLM,
    summaries: Iterable[DocumentSummary],
    *,
    overview_prompt: str = DATASET_OVERVIEW_PROMPT,
    abstract_prompt: str = DATASET_ABSTRACT_PROMPT,
    input_limit: int = DEFAULT_PROMPT_INPUT_LIMIT,
    abstract_max_tokens: int = ABSTRACT_MAX_TOKENS,
    overview_max_tokens: int = OVERVIEW_MAX_TOKENS,
) -> DatasetContext:
    """Generate a dataset's overview from its documents' abstracts, then its abstract from that.

    The prompt has lines ``- name: abstract``, sorted by name. If they are longer than
    ``input_limit`` code points, it has an evenly spread selection, and says so. Without a non-blank
    abstract the context is empty and needs no call.

    Raises:
        ValidationError, CancelledError: as `generate_document_context`.
        DerivationError: likewise; ``partial`` is empty or has the overview.
    """
    check_llm(llm)
    below = check_summaries(summaries)
    settings = _Settings(
        abstract_prompt=abstract_prompt,
        overview_prompt=overview_prompt,
        input_limit=input_limit,
        abstract_max_tokens=abstract_max_tokens,
        overview_max_tokens=overview_max_tokens,
    )
    made = DatasetContext()
    messages = summaries_messages(overview_prompt, below, input_limit)
    if not messages:
        return made
    overview = _ask(llm, messages, settings, "overview", made)
    made = DatasetContext(overview=overview)
    messages = document_messages(abstract_prompt, overview, input_limit)
    abstract = _ask(llm, messages, settings, "abstract", made)
    return attrs.evolve(made, abstract=abstract)


def prompt_sig(llm: LLM, *prompts: str, input_limit: int = DEFAULT_PROMPT_INPUT_LIMIT) -> str:
    """Return the signature of a generated layer: of its model, prompts and input limit.

    A layer made in two steps, such as a dataset's abstract, includes both prompts in order.

    Raises:
        ValidationError: no prompt is given, a prompt is blank, or ``llm`` is not an `LLM`.
    """
    check_llm(llm)
    if not prompts:
        raise ValidationError("prompt_sig needs the prompt that the layer was made with")
    for prompt in prompts:
        check_prompt(prompt, "prompt")
    check_whole(input_limit, "input_limit", least=1)
    return signatures.prompt_sig(digest(FRAME, str(input_limit), *prompts), llm.signature)


@attrs.frozen(kw_only=True, slots=True)
class _Settings:
    """The keywords of both generators, checked."""

    abstract_prompt: str = attrs.field(validator=is_prompt)
    overview_prompt: str = attrs.field(validator=is_prompt)
    input_limit: int = attrs.field(validator=whole(least=1))
    abstract_max_tokens: int = attrs.field(validator=whole(least=1))
    overview_max_tokens: int = attrs.field(validator=whole(least=1))


def _ask(
    llm: LLM,
    messages: Sequence[Message],
    settings: _Settings,
    what: str,
    made: DocumentContext | DatasetContext,
) -> str:
    """One layer; ``made`` rides on the error."""
    deadlines.check(f"generating the {what}")
    ceiling = settings.abstract_max_tokens if what == "abstract" else settings.overview_max_tokens
    try:
        with telemetry.operation("generate", model=llm.signature):
            answer = llm.generate(messages, max_tokens=ceiling)
            telemetry.note_usage(answer)
    except CancelledError:
        raise
    except Exception as error:
        raise DerivationError(
            f"the {what} could not be generated by {llm.signature!r} "
            f"({type(error).__name__}: {error}): `partial` has what was generated before",
            partial=made,
        ) from error
    if not isinstance(answer, Generation):
        raise DerivationError(
            f"{llm.signature!r} answered the {what} with a value of type "
            f"{type(answer).__name__}: its generate must return a Generation",
            partial=made,
        )
    if answer.truncated:
        raise DerivationError(
            f"the {what} by {llm.signature!r} did not end within {ceiling} tokens: allow more "
            f"with {what}_max_tokens, or request less in the prompt",
            partial=made,
        )
    try:
        check_text(answer.text, "its text")
    except ValidationError as error:
        raise DerivationError(
            f"the {what} by {llm.signature!r} cannot be stored ({error})", partial=made
        ) from error
    said = without_thoughts(answer.text)
    text = " ".join(said.split()) if what == "abstract" else said.strip()
    if not text:
        raise DerivationError(
            f"the {what} that {llm.signature!r} gave is blank: check the prompt, and whether the "
            "model refuses the text",
            partial=made,
        )
    return text
