"""Checking the arguments of providers, and importing httpx2 or httpx.

No other module knows which of the two is installed: they are one client, of which httpx2 is kept
up. All names used here are in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from triptych.errors import ValidationError
from triptych.installation import lacking
from triptych.records import check_whole
from triptych.resources import shown_url

# Each imports its httpcore at the first request, which would be within that one's deadline.
if TYPE_CHECKING:
    import httpx2

    httpx = httpx2  # by this name it is exported
else:
    try:
        import httpcore2  # noqa: F401  # loaded now, not at the first request
        import httpx2 as httpx
    except ModuleNotFoundError as missing:
        try:
            import httpcore  # noqa: F401  # loaded now, not at the first request
            import httpx
        except ModuleNotFoundError:
            raise lacking(
                "model providers need the package httpx2 (or httpx), which is not installed",
                "http",
            ) from missing


N = TypeVar("N", int, "int | None")


def checked_key(key: str | None, *, advice: str, required: bool) -> str:
    """``key``, "" for none.

    Raises:
        ValidationError: it is required and missing, or cannot stand in a header. The message
            does not show it.
    """
    if key is None or key == "":
        if required:
            raise ValidationError(f"there is no key: {advice}")
        return ""
    if not isinstance(key, str) or not all("!" <= c <= "~" for c in key):
        raise ValidationError(
            "the key has a space, a line break or a non-ASCII character, which keys never have: "
            f"copy it again ({advice})"
        )
    return key


def checked_base_url(base_url: str) -> str:
    """``base_url`` without a slash at its end.

    Raises:
        ValidationError: it is not an http or https URL, or carries a password, a query or a
            fragment.
    """
    try:
        parts = urlsplit(base_url)
        _ = parts.port
        known = parts.scheme in ("http", "https") and parts.hostname
        httpx.URL(base_url)
    except (ValueError, TypeError, AttributeError, httpx.InvalidURL):
        known = None
        parts = urlsplit("")
    if parts.username is not None or parts.password is not None:
        raise ValidationError(
            "base_url carries a user or a password: give the key as api_key, or a transport "
            "that adds it"
        )
    if not known or parts.query or parts.fragment:
        raise ValidationError(
            f"base_url is {shown_url(str(base_url))[:60]!r}: give a URL such as "
            "http://localhost:8000/v1, without query or fragment"
        )
    return base_url.rstrip("/")


def checked_model(model: str) -> str:
    """``model``.

    Raises:
        ValidationError: it is not a name.
    """
    if not isinstance(model, str) or not model.strip() or not model.isprintable():
        raise ValidationError(f"the model is a name such as 'nomic-embed-text', not {model!r:.60}")
    return model


def checked_count(name: str, value: N) -> N:
    """``value``, the argument ``name``; None where it was left out.

    Raises:
        ValidationError: it is not a whole number from 1 up.
    """
    if value is not None:
        check_whole(value, name, least=1)
    return value
