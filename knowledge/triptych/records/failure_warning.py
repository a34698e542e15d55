"""A warning that says why something failed, and can say it without the reason."""

from __future__ import annotations

from typing import Self


class FailureWarning(str):
    """The text of a warning that ends with an error's message: ``what: reason``.

    A message of a model's provider or of a driver may name hosts and files: who must not see them
    is shown ``what`` alone.
    """

    __slots__ = ("what",)
    what: str

    def __new__(cls, what: str, error: object, *, kind: bool = False) -> Self:
        """``kind`` names the error's class too, in brackets."""
        text = f"{what} ({type(error).__name__}: {error})" if kind else f"{what}: {error}"
        made = super().__new__(cls, text)
        made.what = what
        return made


def public_warning(warning: str) -> str:
    """``warning`` without what an error said."""
    return warning.what if isinstance(warning, FailureWarning) else warning
