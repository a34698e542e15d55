"""What is in no chunk, and why: text that a chunker leaves out, and what a parser did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triptych._internal.plurals import counted
from triptych.chunking.line_ends import LineEnds
from triptych.diagnostics.checks import EXAMPLES
from triptych.records import DatasetConfig, DerivedChunk, DocumentInfo

_BY_PARSERS = {
    "csv": "the names of columns without values",
    "docx": "Word's tables of contents, page headers and footers, notes and comments",
    "html": "navigation, page headers and footers, scripts, forms and what is hidden",
    "notebook": "the outputs of cells",
    "pdf": "lines that most pages begin or end with, page numbers, and lines of a table of "
    "contents that bookmarks name",
    "rst": "comments, link targets, and directives such as contents, raw and toctree",
    "xlsx": "formulas, of which the value stays, charts and comments",
}
"""By the first part of a parser's signature, what it leaves out of a file's text."""


def unchunked(content: str, chunks: Sequence[DerivedChunk]) -> str:
    """How much text is in none of ``chunks`` and where it begins; "" for no visible text."""
    count = end = 0
    first = -1
    spans = sorted((chunk.start, chunk.end) for chunk in chunks)
    for start, following in [*spans, (len(content), len(content))]:
        missed = content[end:start].replace("\ufeff", "").strip()
        if missed:
            count += len(missed)
            first = content.index(missed[0], end) if first < 0 else first
        end = max(end, following)
    if not count:
        return ""
    line = LineEnds(content).between(0, first) + 1
    return f"{counted(count, 'character')} from line {line} on"


class LeftOut:
    """Collects, for one dataset, what is in no chunk."""

    def __init__(self, place: str, config: DatasetConfig | None) -> None:
        self._place = place
        self._chunker = config.chunker_sig if config else "in use"
        self._unchunked: list[str] = []
        self._parsed: dict[str, int] = {}

    def add(self, info: DocumentInfo, missed: str) -> None:
        """Take in a document, of whose text `unchunked` says that it ``missed`` some."""
        if missed:
            self._unchunked.append(f"{info.name!r}, {missed}")
        if info.original_sha256 not in ("", info.content_sha256):
            self._parsed[info.parser_sig] = self._parsed.get(info.parser_sig, 0) + 1

    def sentences(self) -> Iterator[str]:
        """One for each reason."""
        if self._unchunked:
            documents = counted(len(self._unchunked), "document")
            examples = "; ".join(self._unchunked[:EXAMPLES])
            yield f"{self._place}: of {documents}, by the chunker {self._chunker}: {examples}"
        for parser, count in sorted(self._parsed.items()):
            if reason := _BY_PARSERS.get(parser.split("/")[0]):
                documents = counted(count, "document")
                yield f"{self._place}: of {documents} made from files by {parser}: {reason}"
