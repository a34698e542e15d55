"""Converting marked-up text to plain sentences."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import regex

from triptych.text.tokens import MOST_CHARACTERS, estimate_tokens

_CONTROL: Final = regex.compile(r"[\p{Cc}\p{Zl}\p{Zp}]+", regex.V1)
_SPACE: Final = regex.compile(r"\s+", regex.V1)
# Code spans and escaped signs: no mark-up is looked for in them.
_LITERAL: Final = regex.compile(
    r"``[^`](?:[^`]|`(?!`)){0,400}``|`[^`]{1,800}`"
    r"|\\([!\"\#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])",
    regex.V1,
)
_KEPT: Final = regex.compile(r"\x00(\d+)\x00", regex.V1)

# Brackets nest one deep in a link's text and in its target; whatever is stranger stays as it is.
_TEXT: Final = r"((?:[^\[\]]|\[[^\[\]]{0,200}\]){0,1000}+)"
_TARGET: Final = r"\((?:[^()]|\([^()]{0,200}\)){0,2000}+\)"
_ATTRIBUTES: Final = r"(?:\{[:.\#][^{}]{0,200}\})?"
_IMAGE: Final = regex.compile(
    rf"!\[{_TEXT}\](?:{_TARGET}|\[[^\[\]]{{0,200}}\]){_ATTRIBUTES}", regex.V1
)
_LINK: Final = regex.compile(rf"\[{_TEXT}\]{_TARGET}{_ATTRIBUTES}", regex.V1)
_REFERENCE: Final = regex.compile(
    r"\[\^[^\[\]\s]{1,100}\]|\[!\p{Lu}+\]|\[([^\[\]]{1,1000})\]\[[^\[\]]{0,200}\]", regex.V1
)
_AUTOLINK: Final = regex.compile(r"<((?:https?://|mailto:)[^<>\s]{1,2000})>", regex.V1)
_COMMENT: Final = regex.compile(r"<!--(?:[^-]|-(?!->))*+-->", regex.V1)
_NAMES: Final = (
    "a|abbr|address|article|aside|audio|b|big|blockquote|body|br|button|caption|center|cite|code"
    "|dd|del|details|dfn|div|dl|dt|em|embed|figcaption|figure|font|footer|form|h[1-6]|head|header"
    "|hr|html|i|iframe|img|input|ins|kbd|label|li|link|main|mark|meta|nav|ol|option|p|picture|pre"
    "|q|s|samp|script|section|select|small|source|span|strike|strong|style|sub|summary|sup|svg"
    "|table|tbody|td|textarea|tfoot|th|thead|title|tr|tt|u|ul|var|video|wbr"
)
# Known elements, closing tags and anything with an attribute: `Vec<String>` is not an element.
_TAG: Final = regex.compile(
    rf"</[A-Za-z][\w:.-]*\s*>|<(?:{_NAMES})(?:\s[^<>]{{0,2000}})?/?>"
    r"|<[A-Za-z][\w:.-]*\s[^<>=]{0,200}=[^<>]{0,2000}>",
    regex.V1 | regex.IGNORECASE,
)
_TEMPLATE: Final = regex.compile(
    r"\{%[^{}]{0,500}%\}|\{\{[^{}]{0,500}\}\}|\{\*[^{}]{0,500}\*\}", regex.V1
)
_STARS: Final = regex.compile(r"(\*{1,3}+)(?=\S)([^*]{1,2000}+)(?<=\S)\1", regex.V1)
_UNDERSCORES: Final = regex.compile(
    r"(?<!\w)(_{1,3}+)(?=\S)((?:[^_]|(?<=\w)_+(?=\w)){1,500}+)(?<=\S)\1(?!\w)", regex.V1
)
_STRIKE: Final = regex.compile(r"~~(?=\S)([^~]{1,500}+)~~", regex.V1)
_ENTITIES: Final = {"&nbsp;": " ", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&amp;": "&"}
_ENTITY: Final = regex.compile("|".join(_ENTITIES), regex.V1)


def visible_text(markdown: str) -> str:
    """The words of one block of Markdown, white space collapsed.

    Link and image targets, images, tags, comments, template directives, footnote marks and
    emphasis are gone; the text of a link stays, and code spans stay with their backticks, so
    that the text can be shown as Markdown again. Nothing is put in that was not there: all
    but white space, and the five entities that are decoded, comes from ``markdown``, in order.
    """
    text = _CONTROL.sub(" ", markdown)
    spans: list[str] = []

    def keep(found: regex.Match[str]) -> str:
        spans.append(found[1] or found[0])
        return f"\x00{len(spans) - 1}\x00"

    if "`" in text or "\\" in text:
        text = _LITERAL.sub(keep, text)
    if "<!--" in text:
        # Behind the last end no comment is whole: each that begins there would read the rest.
        last = text.rfind("-->") + 3
        text = _COMMENT.sub(" ", text[:last]) + text[last:]
    if "[" in text:
        text = _IMAGE.sub(" ", text)
        text = _LINK.sub(r"\1", text)
        text = _REFERENCE.sub(r"\1", text)
    if "<" in text:
        text = _AUTOLINK.sub(r"\1", text)
        text = _TAG.sub("", text)
    if "{" in text:
        text = _TEMPLATE.sub(" ", text)
    if "*" in text:
        for _ in range(2):
            text = _STARS.sub(r"\2", text)
    if "_" in text:
        for _ in range(2):
            text = _UNDERSCORES.sub(r"\2", text)
    if "~~" in text:
        text = _STRIKE.sub(r"\1", text)
    if "&" in text:
        text = _ENTITY.sub(lambda found: _ENTITIES[found[0]], text)
    if spans:
        text = _KEPT.sub(lambda found: spans[int(found[1])], text)
    return _SPACE.sub(" ", text).strip()


_CLAUSE: Final = regex.compile(r"[,;:—–)]\s|[，、；：）]", regex.V1)


def clip(sentence: str, max_tokens: int) -> str:
    """``sentence``, or its beginning and "…" when it is estimated above ``max_tokens`` tokens.

    The cut is after a clause if one ends in the second half of what fits, else between words,
    else between characters.
    """
    most = MOST_CHARACTERS * max_tokens
    # No text is estimated above its bytes.
    if len(sentence.encode()) <= max_tokens or estimate_tokens(sentence[: most + 1]) <= max_tokens:
        return sentence
    ends = range(1, min(len(sentence), most) + 1)
    low = bisect_left(
        ends, True, key=lambda end: estimate_tokens(sentence[:end] + "…") > max_tokens
    )
    room = sentence[:low]
    clauses = [found.start() for found in _CLAUSE.finditer(room)]
    if clauses and clauses[-1] >= low // 2:
        cut = clauses[-1]
    else:
        space = room.rfind(" ")
        cut = space if space >= low // 2 else low
    kept = room[:cut].rstrip(" ,;:—–，、；：([（")
    return (kept or room[:cut].rstrip()) + "…"
