"""The options of semantic caches, and the digest of everything that decides an answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from triptych._internal.digests import digest
from triptych.contracts import Retriever
from triptych.errors import ValidationError
from triptych.records import Message
from triptych.records.values import number, whole
from triptych.search.request import SearchRequest
from triptych.search.syntax import TextConditions
from triptych.text import get_analyzer


@attrs.frozen(kw_only=True)
class SemanticCache:
    """The options of the semantic cache, which keeps the results of searches.

    Attributes:
        threshold: the minimum cosine, above 0, at which two questions count as the same. Below 0.85
            they rarely have the same meaning; above 0.95 they have nearly the same wording.
        hours: how long a result may be used at most; 0 until the next write to the store.
        entries: the maximum number of results; the oldest are dropped first.
    """

    threshold: float = attrs.field(
        default=0.90, validator=number("the threshold, a cosine,", above=True, most=1)
    )
    hours: float = attrs.field(default=24.0, validator=number(most=1e6))
    entries: int = attrs.field(default=1000, validator=whole(least=1, most=100_000))


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
                "its answers change: give it a text that changes with its results, or leave out "
                "the cache"
            )


_FORM = "2"  # of the answers as they are kept
_WORD = re.compile(r"\S+")
_AROUND = "\"'`*_([{«„“”‚‘’¿¡"  # what may open a word without being part of it
_BEHIND = "\"'`*_)]}»“”’.,;:!?…。，、？！"
_PLAIN = (str, bytes, int, float, bool, type(None), Enum)
_DEEPEST = 8


def describe(part: object, own: str, depth: int = 0) -> str:
    """Return a text that is equal for parts that work alike, and differs for others.

    A part with a text ``signature`` is its class and that. Records, plain values and objects of
    Triptych are described by what they hold. What any other object does is not known: it is its
    class and ``own``, a name that nothing else has.
    """
    kind = f"{type(part).__module__}.{type(part).__qualname__}"
    signature = getattr(part, "signature", None)
    if isinstance(part, _PLAIN):
        return repr(part)
    if isinstance(signature, str) and not isinstance(part, type):
        return f"{kind}={signature!r}"
    if depth > _DEEPEST:
        return f"{kind}#{own}"
    if isinstance(part, Mapping):
        items = sorted((repr(key), describe(value, own, depth + 1)) for key, value in part.items())
        return f"{{{', '.join(': '.join(each) for each in items)}}}"
    if isinstance(part, set | frozenset):
        return f"{{{', '.join(sorted(describe(each, own, depth + 1) for each in part))}}}"
    if isinstance(part, Sequence):
        return f"[{', '.join(describe(each, own, depth + 1) for each in part)}]"
    if type(part).__module__.partition(".")[0] == "triptych" or attrs.has(type(part)):
        held = {
            name: value
            for name, value in _fields(part).items()
            if not name.endswith(("_lock", "__weakref__"))
        }
        return f"{kind}{describe(held, own, depth + 1)}"
    return f"{kind}#{own}"


def _fields(part: object) -> dict[str, Any]:
    kind: Any = type(part)
    if attrs.has(kind):
        return {field.name: getattr(part, field.name) for field in attrs.fields(kind)}
    return vars(part)


def request_digest(
    request: SearchRequest, conversation: Sequence[Message], configuration: str
) -> str:
    """Return the digest of a request without its question's wording.

    The numbers and codes of the question (words with a digit, as they are spelt and in their order)
    are in it: two questions that differ by one of them are near to each other, and ask for
    different things.
    """
    query = attrs.evolve(request.query, text="", vectors={})
    codes = _codes(request.query.text)
    return digest(
        _FORM,
        get_analyzer("english").signature,
        configuration,
        request.target,
        repr(query),
        repr(request.conditions or TextConditions()),
        repr(sorted(request.fields.items())),
        repr(tuple(conversation)),
        repr(codes),
    )


def _codes(text: str) -> list[str]:
    """The words that hold a number, in order; a sign before or after one is part of it."""
    words = _WORD.findall(text.casefold())
    bare = [word.rstrip(_BEHIND).lstrip(_AROUND) for word in words]
    return [word for word in bare if any(_is_numeral(character) for character in word)]


def _is_numeral(character: str) -> bool:
    """Whether it is a digit, a fraction, a power or a Roman numeral; not a Chinese numeral, which
    is in many words that are none."""
    return unicodedata.category(character) in ("Nd", "Nl", "No")
