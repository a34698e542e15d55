"""From what a person types to a document: its dataset, its name, some of its lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from triptych.errors import CorruptStoreError, NotFoundError, ValidationError

if TYPE_CHECKING:
    from triptych.records import DocumentInfo
    from triptych.service import Service

_PLACE = re.compile(r"(?P<name>.+?):(?P<first>\d{1,9})(?P<to>-(?P<last>\d{1,9})?)?", re.DOTALL)


@attrs.frozen(kw_only=True)
class NamedDocument:
    """A document that is there, and the lines that were asked for.

    ``first`` is None for all of it, ``last`` for all from ``first`` on.
    """

    dataset_id: str
    name: str
    first: int | None = None
    last: int | None = None


def read_place(text: str) -> tuple[str, int | None, int | None]:
    """``NAME``, ``NAME:LINE``, ``NAME:FIRST-LAST`` or ``NAME:FIRST-`` as name, first and last."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return text, None, None
    first, last = int(found["first"]), found["last"]
    if found["to"] is None:
        return found["name"], first, first
    return found["name"], first, None if last is None else int(last)


def dataset_in_use(service: Service, named: str | None) -> str:
    """The dataset that is named, else ``default``, else the only one.

    Raises:
        ValidationError: none is named, and there are several without a ``default``.
    """
    from triptych.contracts.rules import only_dataset

    if named is not None:
        return named
    datasets = service.list_datasets()
    return "default" if "default" in datasets or not datasets else only_dataset(datasets)


def find_document(service: Service, text: str, dataset: str | None) -> NamedDocument:
    """The document that ``text`` names: by its name, its file, or as ``DATASET/NAME``.

    ``text`` may be a place in it, as a search prints it. Without ``dataset``, all are looked in.

    Raises:
        NotFoundError: there is none; the message names those that are near.
        ValidationError: it names several documents.
    """
    from triptych.contracts.rules import missing_dataset
    from triptych_adapters.near_names import did_you_mean

    datasets = list(service.list_datasets())
    if dataset is not None:
        if dataset not in datasets:
            raise missing_dataset(dataset, datasets)
        datasets = [dataset]
    place = read_place(text)
    # A name may look like a place.
    for typed, first, last in dict.fromkeys([(text, None, None), place]):
        found = list(dict.fromkeys(_documents(service, datasets, typed)))
        if len(found) > 1:
            may_be = " or ".join(repr("/".join(each)) for each in found)
            raise ValidationError(
                f"{typed!r} names several documents: say which, as dataset and name: {may_be}"
            )
        for dataset_id, name in found:
            return NamedDocument(dataset_id=dataset_id, name=name, first=first, last=last)
    missing = "there is no" if dataset is None else f"the dataset {dataset!r} has no"
    meant = did_you_mean(service, datasets, place[0])
    error = NotFoundError(f"{missing} document {place[0]!r}{meant}")
    raise error if meant else error.hinted("`triptych list` shows the documents of a dataset")


def find_documents(
    service: Service, names: Sequence[str], dataset: str | None
) -> tuple[str, dict[str, str], list[str]]:
    """The documents that ``names`` name: their one dataset, what each is called in it, by what was
    typed, and what names none.

    Raises:
        ValidationError: they are of several datasets, or one names several documents.
    """
    found: dict[str, NamedDocument] = {}
    missing: list[str] = []
    for text in names:
        try:
            found[text] = find_document(service, text, dataset)
        except (NotFoundError, CorruptStoreError):  # what is damaged can be deleted
            missing.append(text)
    datasets = {each.dataset_id: text for text, each in found.items()}
    if len(datasets) > 1:
        shown = ", ".join(f"{text!r} of {dataset_id!r}" for dataset_id, text in datasets.items())
        raise ValidationError(f"name documents of one dataset at a time: here are {shown}")
    target = next(iter(datasets), dataset or "default")
    return target, {text: each.name for text, each in found.items()}, missing


def first_names(service: Service, dataset: str, where: Mapping[str, Any] | None) -> list[str]:
    """Some documents that pass a filter: enough to see whether they are of synced folders."""
    with suppress(CorruptStoreError):
        return [each.name for each in service.list_documents(dataset, where=where, limit=100)]
    return []


def _documents(service: Service, datasets: Sequence[str], text: str) -> Iterator[tuple[str, str]]:
    """The documents that ``text`` may mean, each as its dataset and its name."""
    for each in datasets:
        for name in dict.fromkeys((text, text.removeprefix(f"{each}/"))):
            if name and _info(service, each, name):
                yield each, name
    if service.options.locate is None:
        return
    file_of = service.options.locate()
    for name in names_of_file(service, text):
        for each in datasets:
            info = _info(service, each, name)
            path = None if info is None else file_of(info)
            if path is not None and path.samefile(Path(text).expanduser()):
                yield each, name


def _info(service: Service, dataset: str, name: str) -> DocumentInfo | None:
    # Of all names that begin so, the name itself is the first.
    found = service.list_documents(dataset, prefix=name, limit=1)
    return found[0] if found and found[0].name == name else None


def names_of_file(service: Service, text: str) -> list[str]:
    """The names that a file on disk has below the folders that were synced."""
    from triptych.search.file_location import synced_folders

    store = service.capabilities.settings
    path = Path(text).expanduser()
    if store is None or not path.is_file():
        return []
    return [
        prefix + seen.relative_to(below).as_posix()
        for folder, prefix in synced_folders(store).values()
        # The folder may have been named over a link, and so may the file.
        for seen, below in (
            (Path(os.path.abspath(path)), folder),
            (Path(os.path.realpath(path)), Path(os.path.realpath(folder))),
        )
        if seen.is_relative_to(below)
    ]
