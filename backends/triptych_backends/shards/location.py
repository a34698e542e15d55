"""What the URL of a store on several servers says."""

from __future__ import annotations

from typing import Final

from triptych._internal.redaction import shown_url
from triptych.errors import ValidationError

__all__ = ["SCHEME", "first_url"]

SCHEME: Final = "postgresql+shards"


def first_url(url: str) -> str:
    """The URL of the first server of ``url``: ``postgresql+shards://user@host:5432/database``.

    The options are those of every server: see `triptych_backends.postgres.location.parse_url`.

    Raises:
        ValidationError: it is not such a URL.
    """
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.lower() != SCHEME:
        raise ValidationError(f"{shown_url(url)!r} is not a {SCHEME}:// URL")
    return f"postgresql+psycopg://{rest}"
