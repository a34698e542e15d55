"""From what a person types to a document: its dataset, its name, some of its lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from triptych.service import Service
    from triptych_factory import Settings

__all__ = ["NamedDocument", "dataset_in_use", "find_document", "near_names", "read_place"]

_PLACE = re.compile(r"(?P<name>.+?):(?P<line>\d{1,9})(?::(?P<count>\d{1,9}))?", re.DOTALL)
_SUGGESTED = 3


@attrs.frozen(kw_only=True)
class NamedDocument:
    """A document that is there, and the lines that were asked for (None: all of it)."""

    dataset_id: str
    name: str
    line: int | None = None
    count: int | None = None


def read_place(text: str) -> tuple[str, int | None, int | None]:
    """``NAME``, ``NAME:LINE`` or ``NAME:LINE:COUNT``, as its parts."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return text, None, None
    count = found["count"]
    return found["name"], int(found["line"]), None if count is None else int(count)


def dataset_in_use(service: Service, named: str | None) -> str:
    """The dataset that is named, else ``default``, else the only one.

    Raises:
        ValidationError: none is named, and there are several without a ``default``.
    """
    from triptych.errors import ValidationError

    if named is not None:
        return named
    datasets = service.list_datasets()
    if "default" in datasets or not datasets:
        return "default"
    if len(datasets) == 1:
        return datasets[0]
    shown = ", ".join(map(repr, datasets[:10]))
    raise ValidationError(f"the store has several datasets ({shown}): name one with --dataset")


def find_document(
    service: Service, settings: Settings, text: str, dataset: str | None
) -> NamedDocument:
    """The document that ``text`` names: by its name, or by a file that was synced.

    Without ``dataset``, all are looked in.

    Raises:
        NotFoundError: there is none; the message names those that are near.
        ValidationError: several datasets have it.
    """
    from triptych.errors import NotFoundError, ValidationError
    from triptych.rules import missing_dataset

    datasets = list(service.list_datasets())
    if dataset is not None:
        if dataset not in datasets:
            raise missing_dataset(dataset, datasets)
        datasets = [dataset]
    name, line, count = read_place(text)
    asked = [(text, None, None), (name, line, count)]
    asked += [(each, line, count) for each in _names_of_file(service, settings, name)]
    for candidate, start, length in dict.fromkeys(asked):
        holding = [each for each in datasets if _has(service, each, candidate)]
        if len(holding) > 1:
            raise ValidationError(
                f"the datasets {', '.join(map(repr, holding))} all have {candidate!r}: name one "
                "with --dataset"
            )
        if holding:
            return NamedDocument(dataset_id=holding[0], name=candidate, line=start, count=length)
    missing = (
        f"there is no document {name!r}"
        if dataset is None
        else f"the dataset {dataset!r} has no document {name!r}"
    )
    near = near_names(service, datasets, name)
    meant = f": did you mean {' or '.join(map(repr, near))}?" if near else ""
    error = NotFoundError(f"{missing}{meant}")
    raise error if near else error.hinted("`triptych list` shows the documents of a dataset")


def near_names(service: Service, datasets: Sequence[str], text: str) -> list[str]:
    """Names that end with ``text``, or are spelt nearly so; at most three."""
    names = [info.name for each in datasets for info in service.list_documents(each)]
    ending = [name for name in names if name.endswith(f"/{text}")]
    if ending:
        return sorted(ending, key=lambda name: (len(name), name))[:_SUGGESTED]
    # The whole name, or its last part, where the folders were left out.
    last: dict[str, str] = {}
    for name in names:
        last.setdefault(_last_part(name), name)
    close = get_close_matches(text, names, n=_SUGGESTED, cutoff=0.75)
    close += [last[each] for each in get_close_matches(_last_part(text), last, cutoff=0.75)]
    return sorted(dict.fromkeys(close), key=lambda name: _distance(text, name))[:_SUGGESTED]


def _distance(text: str, name: str) -> tuple[float, str]:
    pairs = ((text, name), (_last_part(text), _last_part(name)))
    return -max(SequenceMatcher(None, *pair).ratio() for pair in pairs), name


def _has(service: Service, dataset: str, name: str) -> bool:
    # Of all names that begin so, the name itself is the first.
    return [each.name for each in service.list_documents(dataset, prefix=name, limit=1)] == [name]


def _last_part(name: str) -> str:
    return name.rpartition("/")[2]


def _names_of_file(service: Service, settings: Settings, text: str) -> list[str]:
    """The names that a file on disk has below the folders that were synced."""
    from triptych.search.file_location import synced_folders

    store = service.capabilities.settings
    path = Path(text).expanduser().absolute()
    if store is None or not path.is_file():
        return []
    return [
        prefix + path.relative_to(folder).as_posix()
        for folder, prefix in synced_folders(store).values()
        if path.is_relative_to(folder)
    ]
