"""The options of a semantic cache, and what it asks of the parts of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from triptych.contracts import Retriever
from triptych.errors import ValidationError


@attrs.frozen(kw_only=True)
class SemanticCache:
    """How answers are kept and found again.

    Attributes:
        threshold: the least cosine of two questions that are taken for one, above 0. Below 0.85
            questions are rarely the same; above 0.95 they are nearly alike in wording.
        hours: how long an answer is served; 0 for as long as it holds.
        entries: how many answers are kept; the oldest go first.
    """

    threshold: float = 0.90
    hours: float = 24.0
    entries: int = 1000

    def __attrs_post_init__(self) -> None:
        if not (_is_number(self.threshold) and 0 < self.threshold <= 1):
            raise ValidationError(
                f"the threshold of a semantic cache is a cosine above 0, at most 1, not "
                f"{self.threshold!r:.60}"
            )
        if not (_is_number(self.hours) and 0 <= self.hours <= 1e6):
            raise ValidationError(
                f"hours is a number from 0 (answers do not expire) up, not {self.hours!r:.60}"
            )
        whole = isinstance(self.entries, int) and not isinstance(self.entries, bool)
        if not whole or not 1 <= self.entries <= 100_000:
            raise ValidationError(
                f"entries is a whole number from 1 to 100,000, not {self.entries!r:.60}"
            )


def to_cache(value: object) -> SemanticCache | None:
    """Return the options that ``value`` means: True, False, None, a mapping or a `SemanticCache`.

    Raises:
        ValidationError: it means none.
    """
    if value is None or value is False:
        return None
    if value is True:
        return SemanticCache()
    if isinstance(value, Mapping):
        known = [field.name for field in attrs.fields(SemanticCache)]
        for name in value:
            if name not in known:
                raise ValidationError(
                    f"a semantic cache has no option {name!r:.60}: its options are "
                    f"{', '.join(known)}"
                )
        return SemanticCache(**value)
    if isinstance(value, SemanticCache):
        return value
    raise ValidationError(
        f"semantic_cache is True, False or SemanticCache(threshold=…, hours=…), not {value!r:.60}"
    )


def own_lanes(retrievers: Sequence[Retriever]) -> list[Retriever]:
    """Return the lanes that are not Triptych's."""
    return [each for each in retrievers if type(each).__module__.partition(".")[0] != "triptych"]


def check_lanes(retrievers: Sequence[Retriever]) -> None:
    """Refuse lanes whose answers may change without the store, and that do not say so.

    Raises:
        ValidationError: a lane that is not Triptych's has no text ``signature``.
    """
    for each in own_lanes(retrievers):
        if not isinstance(getattr(each, "signature", None), str):
            raise ValidationError(
                f"the lane {each.name!r} has no signature, so a semantic cache cannot tell when "
                "its answers change: give it a text that changes with them, or leave the cache out"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
