"""From a name to a language model: an explicit dict of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from triptych.contracts import LLM
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import Generation, Message
from triptych_factory.loading import load
from triptych_factory.provider_access import ProviderAccess, access_arguments, named_model

PROVIDERS: Mapping[str, str] = {
    "anthropic": "triptych_backends.providers:AnthropicLLM",
    "ollama": "triptych_backends.providers:OllamaLLM",
    "openai": "triptych_backends.providers:OpenAILLM",
}


@attrs.frozen
class PlannedLLM:
    """A model that is only named: enough to plan with, and never asked."""

    signature: str

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """Refuse.

        Raises:
            NotAvailableError: always.
        """
        raise NotAvailableError(f"{self.signature} is only planned with, and is not asked")

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        """Refuse.

        Raises:
            NotAvailableError: always.
        """
        raise NotAvailableError(f"{self.signature} is only planned with, and is not asked")


def planned_llm(llm: str) -> PlannedLLM | None:
    """What `build_llm` would make of a name, with neither a client nor a key; None for "none".

    Raises:
        ValidationError: no model has this name.
    """
    if llm == "none":
        return None
    provider, model = _known(llm)
    # Ollama takes a model without a tag for its latest.
    model = model.removesuffix(":latest") if provider == "ollama" else model
    return PlannedLLM(f"{provider}/{model}")


def build_llm(
    llm: LLM | str | None,
    *,
    access: Mapping[str, ProviderAccess] | None = None,
    environ: Mapping[str, str] | None = None,
    context: int | None = None,
    concurrency: int | None = None,
) -> LLM | None:
    """The language model meant: "provider:model" is built, an `LLM` passes, None and "none"
    are none.

    Args:
        llm: the name, the model, or None.
        access: keys and addresses by provider; what is missing comes from the environment.
        environ: the environment, None for the process's own.
        context: the tokens that a prompt and its answer may take. Ollama, which would cut
            what is longer without a word, is told to load the model with it.
        concurrency: how many calls may be under way at a time; None for 4.

    Raises:
        ValidationError: no model has this name, or its provider's key is missing.
        NotAvailableError: the extra ``http`` is not installed.
    """
    if llm is None or llm == "none":
        return None
    if not isinstance(llm, str):
        if isinstance(llm, type) or not callable(getattr(llm, "generate", None)):
            raise ValidationError(
                f"{llm!r} is not a language model: give a name ({_names()}), None, or an object "
                "with signature, generate and stream"
            )
        return llm
    provider, model = _known(llm)
    how = access_arguments(provider, (access or {}).get(provider), environ, concurrency=concurrency)
    if provider == "ollama" and context is not None:
        how["num_ctx"] = context
    made: LLM = load(PROVIDERS[provider])(model, **how)
    return made


def _known(llm: str) -> tuple[str, str]:
    """Provider and model of a name."""
    named = named_model(llm)
    if named is None or named[0] not in PROVIDERS:
        raise ValidationError(f"no language model is called {llm!r}: use one of {_names()}, none")
    return named


def _names() -> str:
    return ", ".join(f"{provider}:…" for provider in PROVIDERS)
