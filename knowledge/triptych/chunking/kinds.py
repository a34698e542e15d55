"""Choosing the chunker of a document by its kind and its outline."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs

from triptych.chunking.boundaries import next_visible, trimmed_end
from triptych.chunking.markdown import MarkdownChunker
from triptych.chunking.outline import Part, read_outline
from triptych.chunking.specs import ChunkConfig, Chunker, ChunkSpec
from triptych.chunking.windows import DefaultChunker
from triptych.records.metadata import Metadata, text_of

_WORDLESS = 16
"""Shorter text without letters or digits, such as a closing brace, is not a separate chunk."""
_LEAD = 80
"""A shorter single line before the first inner part, such as "class A:", is joined to that part."""


@attrs.frozen(kw_only=True)
class OutlinedChunker:
    """Applies the chunker ``base`` to the parts of a document's ``outline`` (`write_outline`).

    No chunk crosses the boundary of a part (a definition, a key), and its heading path starts with
    the enclosing parts. Its locator is its position in the original file, if the outline has it.
    Without an outline, or with the outline of another text, the chunks are those of ``base``.
    """

    base: Chunker
    outline: str

    @property
    def signature(self) -> str:
        """The signature of ``base``: the outline is input, not configuration."""
        return self.base.signature

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of ``content``."""
        outline = read_outline(self.outline, content)
        if outline is None:
            return self.base.chunk(content)
        regions = _regions(content, outline.parts) if outline.parts else [(0, len(content), ())]
        found = [
            (spec, start, path)
            for start, end, path in regions
            for spec in self.base.chunk(content[start:end])
        ]
        places: Iterable[str | None] = (spec.locator for spec, _, _ in found)
        if outline.locators:
            spans = ((spec.start + start, spec.end + start) for spec, start, _ in found)
            places = outline.locate_all(content, spans)
        return [
            ChunkSpec(
                index=index,
                start=spec.start + start,
                end=spec.end + start,
                heading_path=path + spec.heading_path,
                window_start=None if spec.window_start is None else spec.window_start + start,
                window_end=None if spec.window_end is None else spec.window_end + start,
                locator=place,
            )
            for index, ((spec, start, path), place) in enumerate(zip(found, places, strict=True))
        ]


def _regions(content: str, parts: tuple[Part, ...]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """The text between the ends of parts, in order, each with the titles around it.

    Together they hold every visible character. One without words joins the one before.
    """
    held: tuple[int, int, tuple[str, ...]] | None = None
    for start, end, path in _pieces(len(content), parts):
        visible = next_visible(content, start)
        if visible < 0 or visible >= end:
            continue
        text = content[visible : trimmed_end(content, visible, end)]
        if held is None:
            held = (visible, end, path)
        elif len(text) < _WORDLESS and not any(each.isalnum() for each in text):
            held = (held[0], end, held[2])
        elif held[2] and held[2] == path[:-1] and _is_lead(content[held[0] : held[1]]):
            held = (held[0], end, path)
        else:
            yield held
            held = (start, end, path)
    if held is not None:
        yield held


def _is_lead(text: str) -> bool:
    return len(text) < _LEAD and "\n" not in text.strip()


def _pieces(length: int, parts: tuple[Part, ...]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    around: list[int] = []
    titles: tuple[str, ...] = ()
    at = 0
    for part in parts:
        while len(around) > part.depth:
            yield at, around[-1], titles
            at = around.pop()
            titles = titles[:-1]
        yield at, part.start, titles
        at = part.start
        around.append(part.end)
        titles = (*titles, part.title)
    while around:
        yield at, around[-1], titles
        at = around.pop()
        titles = titles[:-1]
    yield at, length, ()


MARKDOWN = "markdown"
TEXT = "text"
_MARKDOWN_ENDINGS = (".md", ".markdown", ".mdx")


def kind_of(name: str, metadata: Metadata) -> str:
    """Return a document's kind: `metadata["kind"]` if it is text, else by the name's extension.

    "markdown" for .md, .markdown and .mdx in upper or lower case, else "text". The kinds "md" and
    "mdx" are "markdown", too.
    """
    if metadata and (declared := text_of(metadata, "kind")):
        return _canonical(declared)
    return MARKDOWN if name.lower().endswith(_MARKDOWN_ENDINGS) else TEXT


_CODE = (
    ".bash .c .cc .cjs .cpp .cs .css .cts .cxx .dart .ex .exs .go .graphql .h .hh .hpp .hs .hxx "
    ".java .js .jsx .kt .lua .mjs .mts .php .pl .proto .ps1 .py .pyi .r .rb .rs .scala .scss .sh "
    ".sql .swift .tf .toml .ts .tsx .vue .zsh"
)
CODE_ENDINGS = frozenset(_CODE.split())
"""The extensions of source code."""


def is_code(name: str, metadata: Metadata) -> bool:
    """Return whether a document is source code: its `metadata["kind"]` is "code", as the parser of
    code files sets it, or it has none and its name ends as in `CODE_ENDINGS`."""
    if metadata and (declared := text_of(metadata, "kind")):
        return declared == "code"
    return name[max(name.rfind("."), 0) :].lower() in CODE_ENDINGS


def _canonical(kind: str) -> str:
    return MARKDOWN if f".{kind.lower()}" in _MARKDOWN_ENDINGS else kind


def _read_only(chunkers: Mapping[str, Chunker]) -> Mapping[str, Chunker]:
    kinds = sorted((_canonical(kind), chunker) for kind, chunker in chunkers.items())
    return MappingProxyType(dict(kinds))


@attrs.frozen(kw_only=True)
class ChunkerSet:
    """A chunker for each kind of document; other kinds use `default`."""

    by_kind: Mapping[str, Chunker] = attrs.field(converter=_read_only, factory=dict)
    default: Chunker = attrs.field(factory=DefaultChunker)

    @property
    def signature(self) -> str:
        """The combined signature of all chunkers, and that names are embedded
        (`embedding_text`)."""
        parts = [f"{kind!r}={chunker.signature}" for kind, chunker in self.by_kind.items()]
        return ";".join([*parts, f"*={self.default.signature}", "named"])

    def for_document(self, name: str, metadata: Metadata, outline: str = "") -> Chunker:
        """Return the chunker of the document's kind (`kind_of`), with its outline, if any
        (`triptych.chunking.outline`)."""
        chunker = self.by_kind.get(kind_of(name, metadata), self.default)
        if outline:
            if isinstance(chunker, MarkdownChunker):  # two pages in one chunk have no place
                chunker = attrs.evolve(chunker, joins=False)
            return OutlinedChunker(base=chunker, outline=outline)
        return chunker


def default_chunkers(
    config: ChunkConfig | None = None, markdown: MarkdownChunker | None = None
) -> ChunkerSet:
    """Return the default set: Markdown by sections, other text in windows."""
    return ChunkerSet(
        by_kind={MARKDOWN: markdown or MarkdownChunker()},
        default=DefaultChunker(config=config or ChunkConfig()),
    )
