"""Cursors of tools: what one says, sealed, so that only what was given is taken back.

A seal is no secret. It tells a cursor that a model has mangled, or that is of another call.
"""

from __future__ import annotations

import re

from triptych._internal.digests import digest
from triptych.errors import ValidationError


def seal(body: str, asked: str) -> str:
    """The cursor that says ``body`` of the call ``asked``."""
    sealed = f"{short(asked)}.{body}"
    return f"{short(sealed)}.{sealed}"


def unseal(cursor: str, asked: str, form: re.Pattern[str]) -> re.Match[str]:
    """What ``cursor`` says, which is of this form: anybody can make a seal.

    Raises:
        ValidationError: it is damaged, or of a call with other arguments.
    """
    mark, _, sealed = cursor.partition(".")
    of, dot, body = sealed.partition(".")
    said = form.fullmatch(body)
    if not dot or said is None or short(sealed) != mark:
        raise ValidationError(
            "the argument 'cursor' is damaged: give it exactly as the last answer had it, or "
            "leave it out to begin again"
        )
    if of != short(asked):
        raise ValidationError(
            "the argument 'cursor' belongs to a call with other arguments: repeat those of the "
            "call that answered it, or leave it out to begin again"
        )
    return said


def short(*parts: str) -> str:
    """A short digest."""
    return digest("cursor", *parts)[:8]
