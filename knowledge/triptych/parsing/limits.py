"""How much of a file's work is done before it is refused."""

from __future__ import annotations

from typing import Any

import attrs

from triptych.errors import ValidationError


def _positive(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValidationError(f"{attribute.name} must be a number above 0, not {value!r:.60}")


@attrs.frozen(kw_only=True, slots=True)
class ParseLimits:
    """The most that one file may be, and cost.

    ``max_bytes`` is the file's size, ``max_characters`` that of the extracted text (code
    points), ``max_depth`` how deep JSON and HTML may nest. Of a packed file (DOCX, PPTX, XLSX):
    ``max_members`` files in it, ``max_unpacked`` bytes when unpacked, and ``max_ratio`` times
    as large as packed. ``seconds`` are what one file may take; the worker process that reads a
    PDF or office file has ``memory`` bytes of address space (on Linux).
    """

    max_bytes: int = attrs.field(default=64 << 20, validator=_positive)
    max_characters: int = attrs.field(default=16_000_000, validator=_positive)
    max_depth: int = attrs.field(default=500, validator=_positive)
    max_members: int = attrs.field(default=10_000, validator=_positive)
    max_unpacked: int = attrs.field(default=512 << 20, validator=_positive)
    max_ratio: float = attrs.field(default=200, validator=_positive)
    seconds: float = attrs.field(default=60, validator=_positive)
    memory: int = attrs.field(default=2 << 30, validator=_positive)
