"""Which chunker a document gets: by its kind."""

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from triptych.chunking.default import DefaultChunker
from triptych.chunking.markdown import MarkdownChunker
from triptych.chunking.outlined import OutlinedChunker
from triptych.chunking.specs import ChunkConfig, Chunker
from triptych.records.metadata import Metadata, text_of

MARKDOWN = "markdown"
TEXT = "text"
_MARKDOWN_ENDINGS = (".md", ".markdown", ".mdx")


def kind_of(name: str, metadata: Metadata) -> str:
    """Return a document's kind: `metadata["kind"]` if that is text, else by its name's ending.

    "markdown" for .md, .markdown and .mdx in any case, else "text".
    """
    if metadata and (declared := text_of(metadata, "kind")):
        return declared
    return MARKDOWN if name.lower().endswith(_MARKDOWN_ENDINGS) else TEXT


def _read_only(chunkers: Mapping[str, Chunker]) -> Mapping[str, Chunker]:
    return MappingProxyType(dict(sorted(chunkers.items())))


@attrs.frozen(kw_only=True)
class ChunkerSet:
    """A chunker for each kind of document; kinds that are not named get `default`."""

    by_kind: Mapping[str, Chunker] = attrs.field(converter=_read_only, factory=dict)
    default: Chunker = attrs.field(factory=DefaultChunker)

    @property
    def signature(self) -> str:
        """One signature over all of the set: any chunker's change changes it."""
        parts = [f"{kind!r}={chunker.signature}" for kind, chunker in self.by_kind.items()]
        return ";".join([*parts, f"*={self.default.signature}"])

    def for_document(self, name: str, metadata: Metadata, outline: str = "") -> Chunker:
        """Return the chunker of the document's kind (`kind_of`), under the document's outline
        where it has one (`triptych.chunking.outline`)."""
        chunker = self.by_kind.get(kind_of(name, metadata), self.default)
        if outline:
            return OutlinedChunker(base=chunker, outline=outline)
        return chunker


def default_chunkers(
    config: ChunkConfig | None = None, markdown: MarkdownChunker | None = None
) -> ChunkerSet:
    """Return the set that serves when none is given: Markdown by sections, else windows."""
    return ChunkerSet(
        by_kind={MARKDOWN: markdown or MarkdownChunker()},
        default=DefaultChunker(config=config or ChunkConfig()),
    )
