"""The layers of a source file: what it says of itself, and an outline of its definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from triptych.layers.code_outline import CodeOutline, Definition
from triptych.layers.inline import visible_text
from triptych.layers.sentences import clip
from triptych.text.sentences import split_sentences
from triptych.text.tokens import estimate_tokens

_PROSE_SHARE: Final = 0.4
"""Of an overview, what the file's own words may take before there are definitions."""
_SHORT_SENTENCE_TOKENS: Final = 12
"""A first sentence below that says little: the second comes with it."""
_MOST_NAMES: Final = 12
_SENTENCE_TOKENS: Final = 40


def code_abstract(outline: CodeOutline, *, max_tokens: int) -> str:
    """The first sentence of what the file says of itself, else its classes and functions.

    The second sentence comes with a short first one. A file that has one definition or one class
    for others is described by its comment. "" where there is nothing.
    """
    if opening := _opening(outline.comment, max_tokens):
        return opening
    main = _public([each for each in outline.definitions if each.depth == 0])
    types = [each for each in main if each.is_type]
    classes = [each for each in types if each.kind == "class"]
    for only in (main, classes):
        if len(only) == 1 and (opening := _opening(only[0].comment, max_tokens)):
            return opening
    plain = "Class Classes" if len(classes) == len(types) else "Type Types"
    said: list[str] = []
    for words, names in (
        (plain, _names(types)),
        ("Function Functions", _names([each for each in main if not each.is_type])),
    ):
        if names:
            word = words.split()[len(names) > 1]
            said.append(f"{word.lower() if said else word} {_listed(names)}")
    return clip("; ".join(said) + ".", max_tokens) if said else ""


def code_overview(outline: CodeOutline, *, max_tokens: int) -> str:
    """The file's own words, then its definitions as a list, each with its first sentence.

    Definitions come in by depth, public ones first, as long as there is room; a last line counts
    those that found none.
    """
    prose: list[str] = []
    room = int(max_tokens * _PROSE_SHARE)
    for paragraph in outline.comment.split("\n\n"):
        text = visible_text(paragraph)
        cost = estimate_tokens(text + "\n\n")
        if not text or cost > room:
            break
        prose.append(text)
        room -= cost
    if not prose and outline.comment:
        prose = [clip(visible_text(outline.comment.split("\n\n")[0]), room)]
    left = max_tokens - estimate_tokens("\n\n".join(prose)) - _cost("- and 1000 more")
    order = sorted(
        range(len(outline.definitions)),
        key=lambda at: (outline.definitions[at].depth, not outline.definitions[at].is_public, at),
    )
    lines: dict[int, str] = {}
    for at in order:
        line = _line(outline.definitions[at])
        if (cost := _cost(line)) > left:
            break
        lines[at] = line
        left -= cost
    listed = [lines[at] for at in sorted(lines)]
    missing = len(outline.definitions) - len(listed)
    if missing and listed:
        listed.append(f"- and {missing} more")
    return "\n\n".join([*prose, *(["\n".join(listed)] if listed else [])])


def _opening(comment: str, max_tokens: int) -> str:
    """The first sentence, and the second with a short one, of at most ``max_tokens``."""
    sentences = [
        sentence
        for paragraph in comment.split("\n\n")[:2]
        for sentence in split_sentences(visible_text(paragraph))
    ]
    if not sentences:
        return ""
    text = sentences[0]
    if len(sentences) > 1 and estimate_tokens(text) < _SHORT_SENTENCE_TOKENS:
        longer = f"{text} {sentences[1]}"
        text = longer if estimate_tokens(longer) <= max_tokens else text
    return clip(text, max_tokens)


def _first_sentence(comment: str) -> str:
    sentences = split_sentences(visible_text(comment.split("\n\n")[0]))
    return clip(sentences[0], _SENTENCE_TOKENS) if sentences else ""


def _public(definitions: Sequence[Definition]) -> list[Definition]:
    """Those that others use; where there are none, all."""
    return [each for each in definitions if each.is_public] or list(definitions)


def _names(definitions: Sequence[Definition]) -> list[str]:
    return list(dict.fromkeys(each.name for each in definitions))


def _listed(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[: _MOST_NAMES - 1])} and {len(names) - _MOST_NAMES + 1} more"
    return " and ".join([*([", ".join(names[:-1])] if names[:-1] else []), names[-1]])


def _line(definition: Definition) -> str:
    said = _first_sentence(definition.comment)
    header = definition.header.replace("`", "'")
    return f"{'  ' * definition.depth}- `{header}`" + (f": {said}" if said else "")


def _cost(line: str) -> int:
    return estimate_tokens(line + "\n")
