"""Parsing picture files by character recognition."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any

import attrs

from triptych.errors import ParseError
from triptych.parsing import PICTURES, ParsedFile, ParseLimits
from triptych_parsers.worker import Reading, run_isolated

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FIRST_BYTES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*")
_FORMATS = ("BMP", "JPEG", "PNG", "TIFF", "WEBP")
_MOST_PIXELS = 100_000_000
"""Of a picture before it is made smaller: A3 at 700 dpi."""
_MOST_PAGES = 20_000


@attrs.frozen(kw_only=True)
class PictureParser:
    """Picture files, read by character recognition in a worker process.

    Locators are pages: a TIFF file may have several.
    """

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="picture/1+ocr/1", init=False)
    endings: frozenset[str] = attrs.field(default=PICTURES, init=False)

    def recognises(self, data: bytes) -> bool:
        """Return whether ``data`` starts like a PNG, JPEG or TIFF file."""
        return data.startswith(_FIRST_BYTES)

    def parse(self, name: str, data: bytes) -> ParsedFile:
        """Return the text that is read in the pictures."""
        job = "triptych_parsers.pictures:read_picture_file"
        return run_isolated(
            job, name, data, self.limits, signature=self.signature, extra="ocr", ocr=True
        )


def read_picture_file(reading: Reading) -> None:
    """The worker's job."""
    image_module: Any = import_module("PIL.Image")
    from triptych_parsers.ocr import read_pages

    name = reading.name
    image_module.MAX_IMAGE_PIXELS = None  # `_shown` has a limit of its own
    try:
        image = image_module.open(BytesIO(reading.data), formats=_FORMATS)
    except (OSError, ValueError, SyntaxError) as error:
        raise ParseError(
            f"{name!r} is no picture, or a damaged one: open it in a viewer, and save it again"
        ) from error
    pages = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
    if pages > _MOST_PAGES:
        raise ParseError(f"{name!r} has more than {_MOST_PAGES:,} pages: split it")
    texts = read_pages(
        reading,
        ((at + 1, partial(_shown, image, name, at)) for at in range(pages)),
    )
    for number, text in texts.items():
        reading.builder.add(text, "page", number)
    if not reading.builder.content:
        reading.no_text = "character recognition found no text in it that it is sure of"


def _shown(image: Any, name: str, page: int) -> NDArray[np.uint8]:
    """A page of a picture as a viewer shows it, made smaller, in BGR.

    Raises:
        ParseError: it is damaged, or has too many pixels.
    """
    import numpy as np

    try:
        image.seek(page)
        if fits := image.width * image.height <= _MOST_PIXELS:
            shown = _small(image)
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise ParseError(
            f"{name!r} is a damaged picture: open it in a viewer, and save it again"
        ) from error
    if not fits:
        raise ParseError(
            f"{name!r} has {image.width:,} by {image.height:,} pixels: make it smaller, to at most "
            f"{_MOST_PIXELS:,}"
        )
    return np.ascontiguousarray(np.asarray(shown)[:, :, ::-1])


def _small(image: Any) -> Any:
    """A picture in RGB on white, the way up that it is shown, no larger than `MAX_SIDE`."""
    image_module, operations = import_module("PIL.Image"), import_module("PIL.ImageOps")
    from triptych_parsers.ocr import MAX_SIDE

    image.draft("RGB", (MAX_SIDE, MAX_SIDE))  # of a JPEG, no more than needed is decoded
    shown = image.convert("L") if image.mode in ("1", "I;16", "I", "F") else image.copy()
    if "A" in shown.mode or "transparency" in shown.info:
        shown = shown.convert("RGBA")
        white = image_module.new("RGBA", shown.size, "white")
        shown = image_module.alpha_composite(white, shown)
    elif shown.mode == "P":
        shown = shown.convert("RGB")
    shown.thumbnail((MAX_SIDE, MAX_SIDE))
    return operations.exif_transpose(shown).convert("RGB")
