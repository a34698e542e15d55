"""Parsing URLs and their options, and hiding their secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from triptych.errors import ValidationError

_HIDDEN: Final = "***"
_KEY: Final = "[key]"
_RUN: Final = 8
"""So many characters of a secret in a row are a part of it, and no chance."""

# Each of these matches in linear time: they meet whatever a server sends.
_WORD: Final = re.compile(r"[^\s'\"`<>()\[\]]+")
_MASK: Final = re.compile(r"\*\*|••|\.\.\.|…")
_PIECE: Final = re.compile(r"[^*•.…,:;=]{4,}")
_PARAMETER: Final = re.compile(r"([^&;=]*)(=?)[^&;]*")


def shown_url(url: str) -> str:
    """``url`` with ``***`` for its user and password, the values of its query and its fragment.

    It need be no valid URL: what is before the last "@" is hidden, whatever it is, unless the
    URL has no host (``files:///a@b``).
    """
    head, mark, rest = url.partition("://")
    if not mark:
        head, rest = "", url
    if not (mark and rest.startswith("/")):
        user, at, behind = rest.rpartition("@")
        if "?" in user or "#" in user:  # what follows may be the host, or a value
            return f"{head}{mark}{_HIDDEN}"
        rest = f"{_HIDDEN}@{behind}" if at else rest
    rest, hash_mark, _ = rest.partition("#")
    path, question, query = rest.partition("?")
    if query:
        path += question + _PARAMETER.sub(_without_value, query)
    return f"{head}{mark}{path}" + (f"#{_HIDDEN}" if hash_mark else "")


def _without_value(found: re.Match[str]) -> str:
    if not found.group():
        return ""
    return f"{found[1]}={_HIDDEN}" if found[2] else _HIDDEN


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """``text`` with ``[key]`` for each secret, whole, in part or masked.

    A part is a run of 8 or more of its characters; masked is a word with dots or stars in it
    of which 4 or more characters in a row are the secret's. It takes time in proportion to the
    length of ``text``.
    """
    for secret in secrets:
        if secret:
            text = _without_runs(text.replace(secret, _KEY), secret)
            text = _WORD.sub(partial(_unmasked, secret), text)
    return text


def _without_runs(text: str, secret: str) -> str:
    runs = {secret[at : at + _RUN] for at in range(len(secret) - _RUN + 1)}
    kept: list[str] = []
    hidden_to = 0
    for at, char in enumerate(text):
        if text[at : at + _RUN] in runs:
            if at >= hidden_to:
                kept.append(_KEY)
            hidden_to = at + _RUN
        if at >= hidden_to:
            kept.append(char)
    return "".join(kept)


def _unmasked(secret: str, found: re.Match[str]) -> str:
    word = found.group()
    if not _MASK.search(word):
        return word
    return _KEY if any(piece in secret for piece in _PIECE.findall(word)) else word


def split_url(url: str) -> SplitResult:
    """The parts of ``url``, which has a whole address and no fragment.

    Raises:
        ValidationError: it has not; the message shows no password.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValidationError(
            f"{shown_url(url)!r} has a part in brackets that is not an IPv6 address: write an "
            "address as [::1], and a bracket in a name or a password as %5B or %5D"
        ) from error
    if "#" in url:
        raise ValidationError(
            f"{shown_url(url)!r} has a '#', which starts a fragment: write %23 for a '#' in a "
            "name, a password or an option"
        )
    return parts


def url_options(url: str) -> list[tuple[str, str]]:
    """The names and values in the query of ``url``; a plus sign is itself, a space is ``%20``.

    Raises:
        ValidationError: see `split_url`; or an option is there twice.
    """
    found = parse_qsl(split_url(url).query.replace("+", "%2B"), keep_blank_values=True)
    seen: set[str] = set()
    for name, _ in found:
        if name in seen:
            raise ValidationError(f"{shown_url(url)!r} has the option {name!r} twice: give it once")
        seen.add(name)
    return found


def query_of(options: Iterable[tuple[str, str]]) -> str:
    """The query that `url_options` reads as ``options``."""
    return urlencode(list(options), quote_via=quote)
