"""Regular expressions that are compiled at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import regex


class _Late:
    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self._pattern, self._ignore_case = pattern, ignore_case

    def __getattr__(self, name: str) -> Any:
        import regex

        flags = regex.V1 | (regex.IGNORECASE if self._ignore_case else 0)
        value = getattr(regex.compile(self._pattern, flags), name)
        setattr(self, name, value)  # from now on it is found without a call
        return value


def late(pattern: str, *, ignore_case: bool = False) -> regex.Pattern[str]:
    """``pattern`` in the first version of `regex`'s syntax, compiled when it is first used."""
    return cast("regex.Pattern[str]", _Late(pattern, ignore_case))
