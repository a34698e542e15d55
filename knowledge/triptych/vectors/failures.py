"""The error for a stored document that could not be derived."""

from __future__ import annotations

from triptych.errors import DerivationError
from triptych.records import SourceDocument


def derivation_error(
    document: SourceDocument, error: Exception, *, found: bool = False
) -> DerivationError:
    """The error of a stored document; ``found`` where its chunks are stored and only wait for
    vectors."""
    what, rest = (
        ("embedded", "it is found by keyword, and its vectors are pending: embed them")
        if found
        else ("derived", "what was derived before keeps serving: put it again or rebuild")
    )
    wrapped = DerivationError(
        f"{document.name!r} is stored as version {document.version} of {document.dataset_id!r}, "
        f"but its chunks could not be {what} ({type(error).__name__}: {error}); {rest} once the "
        "cause is fixed",
        document=document,
    )
    wrapped.__cause__ = error
    return wrapped
