"""The names of documents that a name which is not there may have meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches

from triptych.service import Service

_SUGGESTED = 3


def did_you_mean(
    service: Service, datasets: Sequence[str], text: str, *, most: int | None = None
) -> str:
    """The question that ends an error's message, "" where no name of a document is near.

    ``most`` is how many names of a dataset are looked at, None for all.
    """
    names = [info.name for each in datasets for info in service.list_documents(each, limit=most)]
    near = _near(names, text)[:_SUGGESTED]
    return f": did you mean {' or '.join(map(repr, near))}?" if near else ""


def _near(names: Sequence[str], text: str) -> list[str]:
    """Those that end with ``text``, whatever its capitals, or are spelt nearly so."""
    folded = text.casefold()
    ending = [name for name in names if f"/{name.casefold()}".endswith(f"/{folded}")]
    if ending:
        return sorted(ending, key=lambda name: (len(name), name))
    # The whole name, or its last part, where the folders were left out.
    last: dict[str, str] = {}
    for name in names:
        last.setdefault(_last_part(name), name)
    close = get_close_matches(text, names, n=_SUGGESTED, cutoff=0.75)
    close += [last[each] for each in get_close_matches(_last_part(text), last, cutoff=0.75)]
    return sorted(dict.fromkeys(close), key=lambda name: _distance(text, name))


def _distance(text: str, name: str) -> tuple[float, str]:
    pairs = ((text, name), (_last_part(text), _last_part(name)))
    return -max(SequenceMatcher(None, *pair).ratio() for pair in pairs), name


def _last_part(name: str) -> str:
    return name.rpartition("/")[2]
