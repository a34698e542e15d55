"""Where text may be cut: never inside a user-perceived character, preferably after a sentence."""

import re
import unicodedata

BYTE_ORDER_MARK = "\ufeff"


def unify_line_ends(content: str) -> str:
    """Return `content` with every line ended by `\\n`, each code point at its old offset.

    CRLF becomes a space and `\\n`; a lone CR becomes `\\n`. A leading byte order mark becomes
    an empty line, so that what follows it stands at the start of a line.
    """
    if "\r" in content:
        content = content.replace("\r\n", " \n").replace("\r", "\n")
    if content.startswith(BYTE_ORDER_MARK):
        content = "\n" + content[1:]
    return content


ZERO_WIDTH_JOINER = "\u200d"
# A cluster longer than this is an attack or a test; it may be cut, or time stops being linear.
CLUSTER_LIMIT = 64

# Nothing joins what ends a line or is not a character to be seen (rule GB4).
_ENDS = frozenset(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF]))

SENTENCE_END = r"""(?:[.!?…]["'”’)\]]*+\s|[。！？；…][」』”’）)]*+)"""
_LAST_SENTENCE_END = re.compile(r".*" + SENTENCE_END, re.DOTALL)
_LAST_SPACE = re.compile(r".*\s", re.DOTALL)
_SENTENCE_BREAK = re.compile(SENTENCE_END + r"\s*+")
_VISIBLE = re.compile(r"\S")
_SPACE = re.compile(r"\s")


def next_visible(content: str, position: int) -> int:
    """Return where the first visible character at or after `position` begins, or -1.

    A space under a combining mark begins one.
    """
    found = _VISIBLE.search(content, position)
    if found is None:
        return -1
    start = found.start()
    return start - 1 if start > position and splits_character(content, start) else start


def trimmed_end(content: str, start: int, end: int) -> int:
    """Return `end` moved left over trailing whitespace, not below `start`."""
    if end > start and content[end - 1].isspace():
        return start + len(content[start:end].rstrip())
    return end


def _extends(character: str) -> bool:
    if character < "\u0300":
        return False
    return (
        character == ZERO_WIDTH_JOINER
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
        or unicodedata.category(character)[0] == "M"
    )


def _is_regional_indicator(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def splits_character(content: str, position: int) -> bool:
    """Whether a cut at `position` parts a CRLF pair, a combining sequence, an emoji or a flag.

    A cheap subset of Unicode's grapheme cluster boundaries (UAX 29): conjoining Hangul jamo and
    Indic conjuncts are not joined, and of a run of flags only the nearest 64 letters are seen.
    """
    if position <= 0 or position >= len(content):
        return False
    after = content[position]
    before = content[position - 1]
    if after == "\n":
        return before == "\r"
    if before in _ENDS:
        return False
    if after < "\u0300":
        return before == ZERO_WIDTH_JOINER and not after.isspace()
    if _extends(after) or before == ZERO_WIDTH_JOINER:
        return True
    if not (_is_regional_indicator(after) and _is_regional_indicator(before)):
        return False
    first = position
    lowest = max(0, position - CLUSTER_LIMIT)
    while first > lowest and _is_regional_indicator(content[first - 1]):
        first -= 1
    return (position - first) % 2 == 1


def align_left(content: str, position: int, lowest: int) -> int:
    """Return the nearest cut at or left of `position` that parts no character.

    Looks no further than `lowest` and 64 code points; finding none, returns `position`.
    """
    lowest = max(lowest, position - CLUSTER_LIMIT)
    candidate = position
    while splits_character(content, candidate):
        candidate -= 1
        if candidate < lowest:
            return position
    return candidate


def break_before(text: str, lowest: int, limit: int) -> int:
    """Return the best place to cut in `[lowest, limit]` of a text whose lines end in `\\n`.

    After the last blank line, else the last sentence, else the last line, else the last word,
    else at `limit`; moved left where that would part a user-perceived character.
    """
    # "\n \n" is what unified line ends make of the blank line between two CRLF.
    at = max(
        text.rfind("\n\n", max(0, lowest - 2), limit) + 2,
        text.rfind("\n \n", max(0, lowest - 3), limit) + 3,
    )
    if at >= lowest:
        return at
    found = _LAST_SENTENCE_END.match(text, max(0, lowest - 1), limit)
    if found is not None and found.end() >= lowest:
        return align_left(text, found.end(), lowest)
    at = text.rfind("\n", max(0, lowest - 1), limit)
    if at >= 0:
        return at + 1
    found = _LAST_SPACE.match(text, max(0, lowest - 1), limit)
    if found is not None:
        return align_left(text, found.end(), lowest)
    return align_left(text, limit, lowest)


def windows(content: str, start: int, end: int, size: int) -> list[tuple[int, int]]:
    """Cut `[start, end)` into visible spans of at most `size` code points, without overlap."""
    spans: list[tuple[int, int]] = []
    while True:
        start = next_visible(content, start)
        if start < 0 or start >= end:
            return spans
        if end - start <= size:
            cut = end
        else:
            cut = break_before(content, start + size - size // 4, start + size)
        spans.append((start, trimmed_end(content, start, cut)))
        start = cut


def sentences(content: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the sentences of `[start, end)` without the whitespace around them."""
    spans: list[tuple[int, int]] = []
    for found in _SENTENCE_BREAK.finditer(content, start, end):
        if found.end() < end:
            spans.append((start, trimmed_end(content, start, found.end())))
            start = found.end()
    spans.append((start, trimmed_end(content, start, end)))
    return spans


def overlap_start(text: str, earliest: int, start: int) -> int:
    """Return the start of the first word at or after `earliest`, at most `start`.

    Where there is no space before `start`, as in Chinese, the first whole character.
    """
    if earliest > 0 and not text[earliest - 1].isspace():
        space = _SPACE.search(text, earliest, start)
        if space is not None:
            earliest = space.start()
    while earliest < start and splits_character(text, earliest):
        earliest += 1
    return min(next_visible(text, earliest), start)
