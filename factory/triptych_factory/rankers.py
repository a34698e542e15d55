"""From a name to a ranker, or to a reranker: explicit dicts of classes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from triptych.contracts import LLM, Ranker, Reranker
from triptych.errors import ValidationError
from triptych.search.fusion import RANKERS
from triptych.search.model_steps import LLMReranker
from triptych_factory.loading import load
from triptych_factory.provider_access import Origin, ProviderAccess, access_arguments, named_model

RERANKERS: Mapping[str, str] = {
    "cohere": "triptych_backends.providers:CohereReranker",
    "jina": "triptych_backends.providers:JinaReranker",
    "voyage": "triptych_backends.providers:VoyageReranker",
}
"""Providers that are named with a model."""

RERANK_SERVERS: Mapping[str, str] = {
    "llamacpp": "triptych_backends.providers:LlamaCppReranker",
    "tei": "triptych_backends.providers:TEIReranker",
}
"""Servers that have one model, and are named with their address."""


def build_ranker(ranker: Ranker | str, weights: Mapping[str, float] | None = None) -> Ranker:
    """Return the ranker meant: a name is built, with ``weights`` by lane, a `Ranker` passes.

    Raises:
        ValidationError: no ranker has this name, or a weight is not a number from 0 up.
    """
    if not isinstance(ranker, str):
        return ranker
    if ranker not in RANKERS:
        raise ValidationError(f"no ranker is called {ranker!r}: use one of {', '.join(RANKERS)}")
    return RANKERS[ranker](weights=weights or {})


def build_reranker(
    reranker: Reranker | str | None,
    *,
    llm: LLM | None = None,
    access: Mapping[str, ProviderAccess] | None = None,
    origin: Origin = "argument",
    source: str = "the argument reranker",
    environ: Mapping[str, str] | None = None,
) -> Reranker | None:
    """Return the reranker meant: a name is built, a `Reranker` passes, None and "none" are none.

    Args:
        reranker: "provider:model", "tei:URL", "llamacpp:URL", "onnx:FOLDER", "llm" for the
            language model ``llm``, a reranker, or None.
        llm: the language model that is wired, if any.
        access: keys and addresses by provider; what is missing comes from the environment.
        origin: where the name, and the address in it, comes from.
        source: how a message names that place.
        environ: the environment, None for the process's own.

    Raises:
        ValidationError: no reranker has this name, its provider's key is missing, its folder has
            no model, or "llm" is named and there is no language model.
        NotAvailableError: the extra ``http`` or ``local`` is not installed.
    """
    if reranker is None or reranker == "none":
        return None
    if not isinstance(reranker, str):
        return reranker
    if reranker == "llm":
        if llm is None:
            raise ValidationError(
                "the reranker 'llm' asks the language model, and there is none: set llm too, such "
                'as llm = "ollama:llama3.2"'
            )
        return LLMReranker(llm)
    named = named_model(reranker)
    if named is not None:
        kind, what = named
        if kind == "onnx":
            made: Reranker = load("triptych_backends.rerankers:CrossEncoder")(
                Path(what).expanduser()
            )
            return made
        if kind in RERANK_SERVERS:
            given = ProviderAccess(base_url=what, base_url_origin=origin, base_url_source=source)
            made = load(RERANK_SERVERS[kind])(**access_arguments(kind, given, environ))
            return made
        if kind in RERANKERS:
            how = access_arguments(kind, (access or {}).get(kind), environ)
            made = load(RERANKERS[kind])(what, **how)
            return made
    models = [f"{provider}:MODEL" for provider in RERANKERS]
    servers = [f"{server}:URL" for server in RERANK_SERVERS]
    known = ", ".join([*models, *servers, "onnx:FOLDER", "llm", "none"])
    raise ValidationError(f"no reranker is called {reranker!r}: use one of {known}")
