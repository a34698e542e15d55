"""A document's outline, and how what is made of it was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from triptych.chunking import HEADINGS, heading_text, kind_of, read_outline, scan, unify_line_ends
from triptych.records import DerivedLayer, Hit, SourceDocument, StaleReason

LISTED: Final = 300
"""Headings of an outline that are listed; of more, a sentence says so."""
_DEEPEST: Final = 6
_WHY: Final[dict[StaleReason, str]] = {
    "source": "the text has changed",
    "chunker": "the chunker has other settings now",
    "prompt": "the prompt has changed",
    "embedder": "its vectors are of another model",
    "vector": "its vectors are missing",
    "input": "what it sums up has changed",
}
_OF_VECTORS: Final = ("embedder", "vector")
_OF_TEXTS: Final = tuple(why for why in _WHY if why not in _OF_VECTORS)
_LAYERS: Final = {"L0": "abstract", "L1": "overview"}


@attrs.frozen
class Heading:
    """A line of an outline: its level from 1, its text, and where it begins in the document."""

    level: int
    title: str
    start: int


def outline_of(document: SourceDocument, drawn: int) -> list[Heading]:
    """The headings in the first ``drawn`` code points, as the chunker sees them.

    They are the parts that a parser found, such as definitions, or the headings of Markdown.
    """
    outline = read_outline(document.system.outline, document.content)
    if outline is not None and outline.parts:
        return [
            Heading(min(each.depth + 1, _DEEPEST), each.title, each.start)
            for each in outline.parts
            if each.start < drawn
        ]
    if kind_of(document.name, document.metadata) != "markdown":
        return []
    text = unify_line_ends(document.content[:drawn])
    return [
        Heading(kind, heading_text(text, start, end), start)
        for kind, start, end in scan(text)
        if kind in HEADINGS
    ]


@attrs.frozen(kw_only=True)
class Derived:
    """A row of the table: what it is, from which versions and by what it was made, its state."""

    name: str
    versions: Sequence[int] = ()
    by: Sequence[str] = ()
    state: str = "fresh"


def derived_of(
    current: SourceDocument, chunks: Sequence[Hit], layers: Mapping[str, DerivedLayer | None]
) -> Iterator[Derived]:
    """How a document's text, chunks, vectors and layers were made, as far as stores record it."""
    original = current.original_sha256
    yield Derived(
        name="Text",
        versions=[current.version],
        by=[*filter(None, [current.parser_sig]), *([f"sha256:{original}"] if original else [])],
        state="read from a file" if original else "as it was put",
    )
    for name, reasons in (("Chunks", _OF_TEXTS), ("Vectors", _OF_VECTORS)):
        sigs = [each.sig for each in chunks]
        by = {each.chunker_sig if name == "Chunks" else each.embed_sig for each in sigs}
        stale = Counter(each.stale for each in chunks if each.stale in reasons)
        told = [f"{count} of {len(chunks)} stale: {_WHY[why]}" for why, count in stale.items()]
        versions = sorted({each.source_version for each in sigs})
        made = bool(chunks) and (name == "Chunks" or any(by))
        yield Derived(
            name=name,
            versions=versions if made else [],
            by=sorted(filter(None, by)),
            state="; ".join(told) or ("fresh" if made else "not made"),
        )
    for layer, found in layers.items():
        name = f"{layer} {_LAYERS[layer]}"
        if found is None:
            yield Derived(name=name, state="not made")
            continue
        sig = found.sig
        yield Derived(
            name=name,
            versions=[sig.source_version],
            by=[sig.prompt_sig or "a person", *filter(None, [sig.embed_sig])],
            state=f"stale: {_WHY[found.stale]}" if found.stale else "fresh",
        )
