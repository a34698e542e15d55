"""The parts of a URL, and the options in its query: pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from triptych._internal.redaction import shown_url
from triptych.errors import ValidationError


def split_url(url: str) -> SplitResult:
    """The parts of ``url``, which has a whole address and no fragment.

    Raises:
        ValidationError: it has not; the message shows no password.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValidationError(
            f"{shown_url(url)!r} has a part in brackets that is not an IPv6 address: write it "
            "as [::1], and a bracket that belongs to a name or a password as %5B or %5D"
        ) from error
    if "#" in url:
        raise ValidationError(
            f"{shown_url(url)!r} has a '#', after which a URL says nothing more: write %23 for one "
            "that belongs to a name, a password or an option"
        )
    return parts


def url_options(url: str, *, repeatable: Iterable[str] = ()) -> list[tuple[str, str]]:
    """The names and values in the query of ``url``; a plus sign is itself, a space is ``%20``.

    Raises:
        ValidationError: see `split_url`; or an option that is not ``repeatable`` is there twice.
    """
    found = parse_qsl(split_url(url).query.replace("+", "%2B"), keep_blank_values=True)
    seen: set[str] = set()
    for name, _ in found:
        if name in seen and name not in repeatable:
            raise ValidationError(f"{shown_url(url)!r} has the option {name!r} twice: give it once")
        seen.add(name)
    return found


def query_of(options: Iterable[tuple[str, str]]) -> str:
    """The query that `url_options` reads as ``options``."""
    return urlencode(list(options), quote_via=quote)
