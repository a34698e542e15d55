"""What DOCX, PPTX and XLSX have in common: a zip archive of XML, looked at before it is read."""

from __future__ import annotations

import io
import zipfile

import attrs

from triptych.errors import ParseError
from triptych.parsing.limits import ParseLimits
from triptych.parsing.parsed import ParsedFile
from triptych_backends.parsing.worker import Reading
from triptych_backends.parsing.worker_process import run_isolated

_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SMALL = 1 << 20  # what unpacks to less is harmless at any ratio
_DOCTYPES = tuple("<!DOCTYPE".encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be"))


@attrs.frozen(kw_only=True)
class _OfficeParser:
    limits: ParseLimits = attrs.field(factory=ParseLimits)

    def _recognises(self, data: bytes, folder: bytes) -> bool:
        # The names of a zip's files stand in its directory, at its end.
        return data.startswith(_ZIP) and folder in data[-(1 << 16) :]

    def _run(self, name: str, data: bytes, module: str, signature: str) -> ParsedFile:
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
            f"triptych_backends.parsing.{module}:read_{module}",
            name,
            data,
            self.limits,
            signature=signature,
            extra="office",
        )


@attrs.frozen(kw_only=True)
class DocxParser(_OfficeParser):
    """Word documents by python-docx, in a worker process; see `triptych_backends.parsing.docx`."""

    signature: str = attrs.field(default="docx/2", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".docx", ".docm")), init=False)

    def recognises(self, data: bytes) -> bool:
        """Whether it is a package with a Word document."""
        return self._recognises(data, b"word/document.xml")

    def parse(self, name: str, data: bytes) -> ParsedFile:
        """Headings, paragraphs, lists and tables; locators are pages or paragraphs."""
        return self._run(name, data, "docx", self.signature)


@attrs.frozen(kw_only=True)
class PptxParser(_OfficeParser):
    """Presentations by python-pptx, in a worker process."""

    signature: str = attrs.field(default="pptx/2", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".pptx", ".pptm")), init=False)

    def recognises(self, data: bytes) -> bool:
        """Whether it is a package with a presentation."""
        return self._recognises(data, b"ppt/presentation.xml")

    def parse(self, name: str, data: bytes) -> ParsedFile:
        """Titles, text, tables and notes; locators are the slides."""
        return self._run(name, data, "pptx", self.signature)


@attrs.frozen(kw_only=True)
class XlsxParser(_OfficeParser):
    """Workbooks by openpyxl, in a worker process."""

    signature: str = attrs.field(default="xlsx/1", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".xlsx", ".xlsm")), init=False)

    def recognises(self, data: bytes) -> bool:
        """Whether it is a package with a workbook."""
        return self._recognises(data, b"xl/workbook.xml")

    def parse(self, name: str, data: bytes) -> ParsedFile:
        """The cells' values row by row; locators are sheet and row."""
        return self._run(name, data, "xlsx", self.signature)


def check_package(reading: Reading) -> None:
    """Refuse an archive that unpacks to too much, or whose XML declares entities.

    zipfile reads no more of a member than its directory entry says, so that the sizes there
    hold whatever the packed data is. ECMA-376 (part 2) forbids document type declarations.
    """
    name, limits = reading.name, reading.limits
    try:
        archive = zipfile.ZipFile(io.BytesIO(reading.data))
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise ParseError(
            f"{name!r} is damaged, or no office file ({error}): open it in the program that made "
            "it, and save it again"
        ) from error
    members = archive.infolist()
    if len(members) > limits.max_members:
        raise ParseError(f"{name!r} holds {len(members):,} files, more than {limits.max_members:,}")
    if sum(member.file_size for member in members) > limits.max_unpacked:
        raise ParseError(
            f"{name!r} unpacks to more than {limits.max_unpacked:,} bytes: split it, or raise "
            "max_unpacked of ParseLimits"
        )
    for member in members:
        if member.flag_bits & 1:
            raise ParseError(f"{name!r} is encrypted: save a copy without a password")
        if member.file_size > max(_SMALL, limits.max_ratio * member.compress_size):
            raise ParseError(
                f"{name!r} is packed as a zip bomb is: {member.filename!r} unpacks to "
                f"{member.file_size:,} bytes from {member.compress_size:,}. If it can be "
                "trusted, raise max_ratio of ParseLimits"
            )
    for member in members:
        if member.filename.lower().endswith((".xml", ".rels", ".vml")):
            head = archive.read(member)
            if any(mark in head for mark in _DOCTYPES):
                raise ParseError(
                    f"{name!r} declares a document type in {member.filename!r}, as no office "
                    "program does: it is not read"
                )
