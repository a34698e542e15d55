"""If-Match and If-None-Match over versions (RFC 9110, section 13), and the ETags they name.

The ETag of a document is its version and a digest of the answer: ``"3-9f86d081"``. A write under
If-Match holds where the document is at the version of one of the tags. It is checked in the write
itself, by ``if_version``, so that nobody comes between.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from starlette.requests import Request

from triptych.errors import ConflictError, NotFoundError
from triptych.service import Service
from triptych_adapters.http.problems import ProblemError

T = TypeVar("T")

CONDITIONAL: Final = frozenset({"put_document", "delete_document", "restore"})
"""Operations on one document that take ``if_version``."""

_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
_OWN: Final = re.compile(r"(\d{1,18})-[0-9a-f]+")
_ATTEMPTS: Final = 5


def etag(body: bytes, version: int | None = None) -> str:
    """The ETag of an answer of these bytes, of a document with its version."""
    digest = hashlib.sha256(body).hexdigest()[:20]
    return f'"{digest}"' if version is None else f'"{version}-{digest}"'


def is_unchanged(request: Request, tag: str) -> bool:
    """Whether If-None-Match names ``tag``: the client has this answer."""
    given = request.headers.get("if-none-match", "")
    return given.strip() == "*" or any(f'"{each[1]}"' == tag for each in _TAG.findall(given))


def guarded(
    request: Request, service: Service, arguments: dict[str, Any], run: Callable[..., T]
) -> T:
    """``run(**arguments)`` under the request's preconditions, if it has any.

    Raises:
        ProblemError: 412, they do not hold; nothing was written.
    """
    match, none = request.headers.get("if-match"), request.headers.get("if-none-match")
    if match is None and none is None:
        return run(**arguments)
    if "if_version" in arguments or (match is not None and none is not None):
        raise ProblemError(
            400, "INVALID_REQUEST", "give one of If-Match, If-None-Match and if_version"
        )
    for attempt in range(_ATTEMPTS):
        version = _wanted(service, arguments, match, none)
        try:
            return run(**arguments, if_version=version)
        except ConflictError as error:
            # Another writer came between. Only "*" holds for whatever that one wrote.
            if match is None or match.strip() != "*" or attempt == _ATTEMPTS - 1:
                raise _failed(str(error)) from None
    raise AssertionError("the last attempt returns or raises")


def _wanted(
    service: Service, arguments: dict[str, Any], match: str | None, none: str | None
) -> int:
    if match is None:
        if none is not None and none.strip() != "*":
            raise ProblemError(
                400, "INVALID_REQUEST", "If-None-Match of a write is *: only if there is none"
            )
        return 0
    try:
        stored = service.get_document(arguments["dataset_id"], arguments["name"]).version
    except NotFoundError as error:
        raise _failed(str(error)) from None
    if match.strip() == "*":
        return stored
    tags = [own for weak, tag in _TAG.findall(match) if not weak and (own := _OWN.fullmatch(tag))]
    if stored not in {int(own[1]) for own in tags}:
        raise _failed(f"the document is at version {stored}, which If-Match does not name")
    return stored


def _failed(message: str) -> ProblemError:
    return ProblemError(
        412, "PRECONDITION_FAILED", message, hint="get the document again, and its ETag"
    )
