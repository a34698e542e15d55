"""From what a person types to a document: its dataset, its name, some of its lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from triptych.errors import NotFoundError, ValidationError

if TYPE_CHECKING:
    from triptych.service import Service
    from triptych_factory import Settings

__all__ = ["NamedDocument", "dataset_in_use", "find_document", "read_place"]

_PLACE = re.compile(r"(?P<name>.+?):(?P<line>\d{1,9})(?::(?P<count>\d{1,9}))?", re.DOTALL)


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
    from triptych.rules import missing_dataset
    from triptych_adapters.near_names import did_you_mean

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
    meant = did_you_mean(service, datasets, name)
    error = NotFoundError(f"{missing}{meant}")
    raise error if meant else error.hinted("`triptych list` shows the documents of a dataset")


def _has(service: Service, dataset: str, name: str) -> bool:
    # Of all names that begin so, the name itself is the first.
    return [each.name for each in service.list_documents(dataset, prefix=name, limit=1)] == [name]


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
