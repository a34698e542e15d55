"""What every embedder asks of its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from triptych.errors import ValidationError


def checked_texts(texts: Sequence[str], kind: str) -> list[str]:
    """``texts`` as a list.

    Raises:
        ValidationError: ``kind`` is neither "document" nor "query", ``texts`` is a bare
            string, or one of them is not a string or holds a lone surrogate.
    """
    if kind not in ("document", "query"):
        raise ValidationError(f"kind is 'document' or 'query', not {kind!r}")
    if isinstance(texts, str):
        raise ValidationError("texts is a sequence of strings, not one string: pass [text]")
    checked = list(texts)
    for position, text in enumerate(checked):
        if not isinstance(text, str):
            raise ValidationError(f"texts[{position}] is a {type(text).__name__}, not a str")
        if not text.isascii():
            _refuse_lone_surrogate(text, position)
    return checked


def _refuse_lone_surrogate(text: str, position: int) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"U+{ord(text[error.start]):04X}"
        raise ValidationError(
            f"texts[{position}] holds the lone surrogate {found} at index {error.start}: "
            "decode the text with errors='replace' first"
        ) from error
