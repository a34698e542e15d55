"""How many lines end in a span of a text."""

_STEP = 4096


class LineEnds:
    """Counts the line ends of ``content``: \\n, \\r\\n or \\r, each as one.

    Counts are kept at every few thousand characters, as far as they were asked for, so that a
    question about a far place does not read all that stands before it.
    """

    def __init__(self, content: str) -> None:
        self._content = content
        self._counts = [0]

    def between(self, start: int, end: int) -> int:
        """How many lines end in ``content[start:end]`` (code points); 0 where it is empty."""
        return self._before(end) - self._before(start) if start < end else 0

    def _before(self, at: int) -> int:
        counts = self._counts
        while len(counts) * _STEP <= at:
            upto = len(counts) * _STEP
            counts.append(counts[-1] + self._count(upto - _STEP, upto))
        held = at // _STEP
        return counts[held] + self._count(held * _STEP, at)

    def _count(self, start: int, end: int) -> int:
        text = self._content
        pairs = text.count("\r\n", max(start - 1, 0), end)
        return text.count("\n", start, end) + text.count("\r", start, end) - pairs
