"""Words of a query that begin with a minus: ``triptych search failed -draft``.

To a shell's ear ``-draft`` is ``-d raft``. After ``--`` everything is words, so what can only be an
exclusion is moved after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["excluded_words_last"]

_COMMANDS = frozenset(("ask", "context", "search"))
_WITH_VALUE = frozenset(
    [
        "-s",
        "--store",
        "--embedder",
        "-d",
        "--dataset",
        "--mode",
        "-l",
        "--layer",
        "-k",
        "-n",
        "--top-k",
        "--threshold",
        "-w",
        "--where",
        "--per-document",
        "--offset",
        "--ranker",
        "--reranker",
        "-b",
        "--budget",
        "-f",
        "--format",
        "--llm",
        "--max-tokens",
        "--conversation",
        "--timeout",
        "--price-input",
        "--price-output",
        "--pipeline",
    ]
)
_EXCLUDED = re.compile(r'-(?![A-Za-z]\d+$)(?:[^\W\d]\w+\*?|"[^"]+"|[^-\s].*\s.*)', re.DOTALL)


def excluded_words_last(arguments: Sequence[str]) -> list[str]:
    """``arguments`` of the command with the exclusions of a query after ``--``.

    ``-k3`` and ``-wlang=en`` stay options; ``-draft``, ``-dra*``, ``-"a phrase"`` and an argument
    with a space are words.
    """
    given = list(arguments)
    place = _command_at(given)
    if place is None or given[place] not in _COMMANDS or "--" in given:
        return given
    words = [
        at
        for at in range(place + 1, len(given))
        if given[at - 1] not in _WITH_VALUE and _EXCLUDED.fullmatch(given[at])
    ]
    if not words:
        return given
    kept = [each for at, each in enumerate(given) if at not in set(words)]
    return [*kept, "--", *(given[at] for at in words)]


def _command_at(arguments: Sequence[str]) -> int | None:
    for at, each in enumerate(arguments):
        if not each.startswith("-") and (at == 0 or arguments[at - 1] not in _WITH_VALUE):
            return at
    return None
