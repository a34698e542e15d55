"""Suggestions of similar document names for unknown names."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches
from posixpath import splitext

from triptych.service import KnowledgeBase

_SUGGESTED = 3


def did_you_mean(
    service: KnowledgeBase, datasets: Sequence[str], text: str, *, most: int | None = None
) -> str:
    """Return the suggestion for an error's message, "" if no document has a similar name.

    ``most`` is the maximum number of names to compare for a dataset, None for all.
    """
    names = [info.name for each in datasets for info in service.list_documents(each, limit=most)]
    near = _near(names, text)[:_SUGGESTED]
    return f": did you mean {' or '.join(map(repr, near))}?" if near else ""


def _near(names: Sequence[str], text: str) -> list[str]:
    """Return the names that end with ``text``, ignoring case, or are spelt similarly.

    A name ends with "law" if it ends with "law.md".
    """
    folded = text.casefold()
    ending = [name for name in names if _ends(f"/{name.casefold()}", f"/{folded}")]
    if ending:
        return sorted(ending, key=lambda name: (len(name), name))
    # The whole name, or its last part, where the folders were left out.
    last: dict[str, str] = {}
    for name in names:
        last.setdefault(_last_part(name), name)
    close = get_close_matches(text, names, n=_SUGGESTED, cutoff=0.75)
    close += [last[each] for each in get_close_matches(_last_part(text), last, cutoff=0.75)]
    return sorted(dict.fromkeys(close), key=lambda name: _distance(text, name))


def _ends(name: str, text: str) -> bool:
    return name.endswith(text) or splitext(name)[0].endswith(text)


def _distance(text: str, name: str) -> tuple[float, str]:
    pairs = ((text, name), (_last_part(text), _last_part(name)))
    return -max(SequenceMatcher(None, *pair).ratio() for pair in pairs), name


def _last_part(name: str) -> str:
    return name.rpartition("/")[2]
