"""Converting pieces and hits to ``search_result`` blocks of Anthropic's Messages API, and back.

The provider cites a block by the numbers of its text blocks. Each paragraph is a text block, so
that a citation identifies lines of a document. Source:
https://platform.claude.com/docs/en/build-with-claude/search-results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

from triptych.answers.pieces import Citation, Piece
from triptych.errors import ValidationError
from triptych.records import Hit, Layer, Result, check_whole
from triptych.search.result_formats import line_ends, shown_lines, shown_text

_GAP: Final = re.compile(r"(?:\r\n?|\n)[^\S\r\n]*(?:\r\n?|\n)\s*")


class _Pieces(Protocol):
    @property
    def pieces(self) -> Sequence[Piece]: ...


Shown = _Pieces | Result | Iterable[Hit]
"""A context, its prefix, or the hits of a search."""


def as_search_results(shown: Shown) -> list[dict[str, Any]]:
    """Convert the pieces of a context or the hits of a search to content blocks for a message or a
    tool result.

    ``source`` names dataset, document, lines and version; ``title`` names the section and says if
    the text is stale. Blank texts are left out, because the provider refuses them.

    Raises:
        ValidationError: ``shown`` has another type.
    """
    return [
        {
            "type": "search_result",
            "source": _source(cited),
            "title": _title(cited),
            "content": [
                {"type": "text", "text": cited.text[start:end]}
                for start, end in _paragraphs(cited.text)
            ],
            "citations": {"enabled": True},
        }
        for cited in _citations(shown)
    ]


def cited_passage(citation: Any, shown: Shown) -> Citation:
    """Return the passage that a provider's citation refers to, for `Service.verify`.

    ``citation`` is a ``search_result_location`` of the answer (a mapping or the SDK's object),
    ``shown`` the argument of `as_search_results`. The passage is the cited text if it occurs in the
    cited paragraphs, else these paragraphs.

    Raises:
        ValidationError: it is another kind of citation, or not of ``shown``.
    """
    given = citation if isinstance(citation, Mapping) else getattr(citation, "__dict__", {})
    try:
        at, source = given["search_result_index"], given["source"]
        first, last = given["start_block_index"], given["end_block_index"]
    except KeyError as error:
        raise ValidationError(
            f"a search_result_location has {error}: this is {citation!r:.80}"
        ) from None
    for each in (at, first, last):
        check_whole(each, f"an index of the citation {citation!r:.80}")
    shown_ones = _citations(shown)
    # The provider counts the results of the whole request.
    same = [each for each in shown_ones if _source(each) == source]
    if at < len(shown_ones) and _source(shown_ones[at]) == source:
        same = [shown_ones[at]]
    blocks = _paragraphs(same[0].text)[first : max(last, first + 1)] if same else []
    if not blocks:
        raise ValidationError(f"the citation's source is not in the given results: {source!r:.80}")
    start, end = blocks[0][0], blocks[-1][1]
    quoted = given.get("cited_text") or ""
    found = same[0].text.find(quoted.strip(), start, end) if quoted.strip() else -1
    if found >= 0:
        start, end = found, found + len(quoted.strip())
    return _part(same[0], start, end)


def _citations(shown: Shown) -> list[Citation]:
    """What was shown, as citations, in its order."""
    if isinstance(shown, Result | Iterable):
        found = list(map(_of_hit, shown.hits if isinstance(shown, Result) else shown))
    elif hasattr(shown, "pieces"):
        found = [piece.citation for piece in shown.pieces]
    else:
        raise ValidationError(f"a context or hits can be shown, not {type(shown).__name__}")
    return [each for each in found if each.text.strip()]


def _of_hit(hit: Any) -> Citation:
    if not isinstance(hit, Hit):
        raise ValidationError(f"pieces and hits can be shown, not {type(hit).__name__}")
    text = shown_text(hit)
    start = hit.start if hit.window is None or hit.window_start is None else hit.window_start
    return Citation(
        dataset_id=hit.dataset_id,
        doc_name=hit.doc_name,
        layer=hit.layer or Layer.DETAIL,
        version=hit.sig.source_version,
        start=start,
        end=start + len(text),
        lines=shown_lines(hit),
        heading_path=hit.heading_path,
        locator=hit.locator,
        stale=hit.stale,
        text=text,
    )


def _source(cited: Citation) -> str:
    place = str(attrs.evolve(cited, heading_path=(), stale=None))
    return f"{place} v{cited.version}" if cited.version else place


def _title(cited: Citation) -> str:
    title = " > ".join(cited.heading_path) or cited.doc_name or cited.dataset_id
    return f"{title} (stale: {cited.stale})" if cited.stale else title


def _paragraphs(text: str) -> Sequence[tuple[int, int]]:
    """The spans between blank lines."""
    gaps = [(gap.start(), gap.end()) for gap in _GAP.finditer(text)]
    starts, ends = [0, *(end for _, end in gaps)], [*(start for start, _ in gaps), len(text)]
    spans = zip(starts, ends, strict=True)
    return [(start, end) for start, end in spans if text[start:end].strip()]


def _part(cited: Citation, start: int, end: int) -> Citation:
    text = cited.text[start:end]
    lines = cited.lines
    if lines is not None:
        first = lines[0] + line_ends(cited.text[:start])
        lines = first, first + line_ends(text)
    return attrs.evolve(
        cited, start=cited.start + start, end=cited.start + end, lines=lines, text=text
    )
