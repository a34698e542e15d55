"""Building language models and rerankers from names and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import attrs

from triptych.contracts import LLM, Reranker
from triptych.contracts.models import check_llm, how_to_set
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import Message
from triptych_factory.provider_access import (
    Origin,
    ProviderAccess,
    access_arguments,
    load,
    named_model,
    with_ca_file,
)
from triptych_factory.settings import Settings

PROVIDERS: Mapping[str, str] = {
    "anthropic": "triptych_providers:AnthropicLLM",
    "ollama": "triptych_providers:OllamaLLM",
    "openai": "triptych_providers:OpenAILLM",
}


@attrs.frozen
class PlannedLLM:
    """A model with only a name, for planning; it cannot be called."""

    signature: str

    def _refuse(self, messages: Sequence[Message], *, max_tokens: int) -> NoReturn:
        raise NotAvailableError(f"{self.signature} is only for planning, and cannot be called")

    generate = stream = _refuse


def planned_llm(llm: str) -> PlannedLLM | None:
    """Return a placeholder for the model of a name, without a client or key; None for "none".

    Raises:
        ValidationError: the name is unknown.
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
    """Build the language model "provider:model"; return an `LLM` unchanged, and None for None and
    "none".

    Args:
        llm: the name, the model, or None.
        access: keys and addresses by provider; missing ones come from the environment.
        environ: the environment variables; None for those of the process.
        context: the maximum tokens of a prompt and its response. Ollama, which would silently cut
            longer prompts, loads the model with it.
        concurrency: the maximum number of concurrent calls; None for 4.

    Raises:
        ValidationError: the name is unknown, or its provider's key is missing.
        NotAvailableError: the extra ``http`` is not installed.
    """
    if llm is None or llm == "none":
        return None
    if not isinstance(llm, str):
        return check_llm(llm)
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


RERANKERS: Mapping[str, str] = {
    "cohere": "triptych_providers:CohereReranker",
    "jina": "triptych_providers:JinaReranker",
    "voyage": "triptych_providers:VoyageReranker",
}
"""Providers whose names include a model."""

RERANK_SERVERS: Mapping[str, str] = {
    "llamacpp": "triptych_providers:LlamaCppReranker",
    "tei": "triptych_providers:TEIReranker",
}
"""Servers with one model, whose names include an address."""


def build_reranker(
    reranker: str,
    *,
    llm: LLM | None = None,
    origin: Origin = "argument",
    source: str = "the argument reranker",
    environ: Mapping[str, str] | None = None,
) -> Reranker | None:
    """Build the reranker of a name; None for "none".

    Args:
        reranker: "provider:model", "tei:URL", "llamacpp:URL", "onnx:FOLDER", "llm" for the language
            model ``llm``, or "none".
        llm: the configured language model, if any.
        origin: the origin of the name and of an address in it.
        source: the source of the name for messages.
        environ: the environment variables; None for those of the process.

    Raises:
        ValidationError: the name is unknown, its provider's key is missing, its folder has no
            model, or it is "llm" without a configured language model.
        NotAvailableError: the extra ``http`` or ``local`` is not installed.
    """
    if reranker == "none":
        return None
    if reranker == "llm":
        if llm is None:
            raise ValidationError(f"the reranker 'llm' needs a language model: {how_to_set('llm')}")
        from triptych.search.model_steps import LLMReranker

        return LLMReranker(llm)
    named = named_model(reranker)
    if named is not None:
        kind, what = named
        if kind == "onnx":
            made: Reranker = load("triptych_models.rerankers:CrossEncoder")(Path(what).expanduser())
            return made
        if kind in RERANK_SERVERS:
            given = ProviderAccess(base_url=what, base_url_origin=origin, base_url_source=source)
            made = load(RERANK_SERVERS[kind])(**access_arguments(kind, given, environ))
            return made
        if kind in RERANKERS:
            made = load(RERANKERS[kind])(what, **access_arguments(kind, None, environ))
            return made
    models = [f"{provider}:MODEL" for provider in RERANKERS]
    servers = [f"{server}:URL" for server in RERANK_SERVERS]
    known = ", ".join([*models, *servers, "onnx:FOLDER", "llm", "none"])
    raise ValidationError(f"no reranker is called {reranker!r}: use one of {known}")


def settings_llm(settings: Settings, name: str) -> LLM | None:
    """Build the language model of this name with the settings for its provider.

    Raises:
        ValidationError: the name is unknown, or its provider's key is missing.
        NotAvailableError: the extra ``http`` is not installed.
    """
    provider = settings.llm.partition(":")[0]
    given = ProviderAccess(
        api_key=settings.llm_api_key,
        base_url=settings.llm_base_url,
        api_key_origin=settings.origin("llm_api_key"),
        base_url_origin=settings.origin("llm_base_url"),
        base_url_source=settings.place("llm_base_url"),
    )
    return build_llm(
        name,
        access={provider: given},
        environ=with_ca_file(settings.ca_file),
        context=settings.llm_context,
        concurrency=settings.llm_concurrency,
    )


def settings_reranker(
    settings: Settings, name: str, llm: LLM | None, setting: str = "reranker"
) -> Reranker | None:
    """Build the reranker of this name from ``setting``; "llm" uses ``llm``.

    Raises:
        ValidationError, NotAvailableError: as `build_reranker`.
    """
    origin, source = settings.origin(setting), settings.place(setting)
    environ = with_ca_file(settings.ca_file)
    return build_reranker(name, llm=llm, origin=origin, source=source, environ=environ)
