"""Long operations in as many requests as they take: a server ends each of them in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from triptych import deadlines
from triptych.errors import CancelledError

_WITHOUT_PROGRESS: Final = 2
_WORK: Final = frozenset(
    {
        *("added", "updated", "chunks", "documents", "embedded", "encoded", "reused"),
        *("rebuilt", "removed", "expired", "made"),
    }
)
"""Counts of what is done once: none of them goes up in a request that got no further."""


def until_done(call: Callable[[], Any]) -> Any:
    """What ``call`` returns, once the server has not cut it off; its report counts all requests.

    Raises:
        CancelledError: the deadline around this call passed; or two requests after one another
            were cut off and got no further, such as where one text takes a model longer than the
            server allows.
    """
    before: dict[str, int] = {}
    futile = 0
    while True:
        try:
            return _whole(before, call())
        except CancelledError as error:
            deadlines.check("the call")
            counts: Mapping[str, int] = error.report or {}
            futile = 0 if _WORK & counts.keys() else futile + 1
            if futile == _WITHOUT_PROGRESS:
                raise CancelledError(
                    f"two requests after one another got no further: {error}", report=before
                ).hinted("start the server with a longer --timeout") from error
            for name in _WORK & counts.keys():
                before[name] = before.get(name, 0) + counts[name]


def _whole(before: Mapping[str, int], result: Any) -> Any:
    """The report ``result`` with what the requests ``before`` did."""
    if not before:
        return result
    if hasattr(result, "report"):
        return attrs.evolve(result, report=_whole(before, result.report))
    fields = {name: getattr(result, name) + n for name, n in before.items()}
    # What an earlier request stored is found as it should be by the last.
    for name, done in (("unchanged", ("added", "updated")), ("fresh", ("rebuilt",))):
        if any(each in before for each in done):
            fields[name] = max(0, getattr(result, name) - sum(before.get(each, 0) for each in done))
    return attrs.evolve(result, **fields)
