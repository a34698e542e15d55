"""Word, PowerPoint and Excel files: archives of XML, checked and read in a worker process."""

from __future__ import annotations

from typing import ClassVar

import attrs

from triptych.errors import ParseError
from triptych.parsing import ParsedFile, ParseLimits
from triptych_parsers.worker import run_isolated

_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@attrs.frozen(kw_only=True)
class _OfficeParser:
    _job: ClassVar[str]
    """Reads one: its module, beside this one, and its name."""
    _member: ClassVar[bytes]
    """The file in the package that tells what it is."""

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str
    endings: frozenset[str]

    def recognises(self, data: bytes) -> bool:
        """Whether it is a package of this kind."""
        # The names of a zip's files stand in its directory, at its end.
        return data.startswith(_ZIP) and self._member in data[-(1 << 16) :]

    def parse(self, name: str, data: bytes) -> ParsedFile:
        """What the worker's job makes of it."""
        if data.startswith(_OLE):
            raise ParseError(
                f"{name!r} is encrypted, or of the format that Office had before 2007: save a "
                "copy without a password in the current format"
            )
        if not data.startswith(_ZIP):
            raise ParseError(
                f"{name!r} is damaged, or no office file: open it in the program that made it, "
                "and save it again"
            )
        return run_isolated(
            f"triptych_parsers.{self._job}",
            name,
            data,
            self.limits,
            signature=self.signature,
        )


@attrs.frozen(kw_only=True)
class DocxParser(_OfficeParser):
    """Word documents in a worker process; see `read_docx`."""

    _job = "word:read_docx"
    _member = b"word/document.xml"
    signature: str = attrs.field(default="docx/3", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".docx", ".docm")), init=False)


@attrs.frozen(kw_only=True)
class PptxParser(_OfficeParser):
    """Presentations in a worker process; see `read_pptx`."""

    _job = "slides:read_pptx"
    _member = b"ppt/presentation.xml"
    signature: str = attrs.field(default="pptx/3", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".pptx", ".pptm")), init=False)


@attrs.frozen(kw_only=True)
class XlsxParser(_OfficeParser):
    """Workbooks in a worker process; see `read_xlsx`."""

    _job = "sheets:read_xlsx"
    _member = b"xl/workbook.xml"
    signature: str = attrs.field(default="xlsx/2", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".xlsx", ".xlsm")), init=False)
