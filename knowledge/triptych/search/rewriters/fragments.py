"""The fragments of a question, each searched for by itself."""

from __future__ import annotations

import re
from typing import Final

from triptych.errors import ValidationError
from triptych.records import Query, QueryVariant, check_whole
from triptych.search.rewriting import MAX_VARIANTS

FRAGMENT_ENDS: Final = r"[.?;\u3002\uff0e\uff1f\uff1b]+\s*"
"""What separates fragments: full stop, question mark, semicolon, also those of Chinese."""


def fragments(text: str, pattern: str = FRAGMENT_ENDS) -> list[str]:
    """Return the parts of ``text`` between the matches of ``pattern``, each once.

    A part without a letter or digit is left out; white space around the others is not kept.
    """
    parts = (part.strip() for part in re.split(pattern, text))
    return list(dict.fromkeys(part for part in parts if any(map(str.isalnum, part))))


class FragmentRewriter:
    """Each fragment of a question is a search of its own; a chunk keeps its best score.

    "How do I install it? Which ports are open; who may log in" has three fragments. A question of
    one fragment stays as it is. No model is asked.

    Scores of several fragments are compared as the ranker gives them. With `ZScoreRanker` a score
    says how far a chunk stands above the rest of its own ranking, so a fragment that only a few
    chunks match outweighs one that many match a little. With `RRFRanker` the first chunks of all
    fragments have one score. In a single mode the lane's own scores are compared.
    """

    def __init__(
        self, pattern: str = FRAGMENT_ENDS, *, maximum: int = 8, include_question: bool = False
    ) -> None:
        """Take the rule of the split.

        Args:
            pattern: a regular expression of what separates fragments. The default splits
                "triptych.toml", too: ``r"[.?;]+\\s+"`` does not.
            maximum: the most fragments, 1 to 31; the last one holds the rest of the question.
            include_question: whether the whole question is searched for besides.

        Raises:
            ValidationError: the pattern is no regular expression, or ``maximum`` is out of range.
        """
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValidationError(
                f"the pattern of FragmentRewriter is no regular expression ({error})"
            ) from error
        if not 1 <= check_whole(maximum, "maximum") < MAX_VARIANTS:
            raise ValidationError(f"maximum is {maximum}: give a number from 1 to 31")
        self._pattern = pattern
        self._maximum = maximum
        self._include_question = include_question

    def rewrite(self, query: Query) -> list[QueryVariant]:
        """Return a variant for each fragment, each a group of its own."""
        parts = fragments(query.text, self._pattern)
        if len(parts) < 2:
            return [QueryVariant(text=query.text)]
        if len(parts) > self._maximum:
            parts[self._maximum - 1 :] = [". ".join(parts[self._maximum - 1 :])]
        if self._include_question:
            parts.insert(0, query.text)
        return [QueryVariant(text=part, group=f"{at}") for at, part in enumerate(parts)]
