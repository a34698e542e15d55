"""What is wrong with what is searched in place: tables that are missing, or do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from triptych.errors import ModelMismatchError, NotFoundError, StoreError, ValidationError
from triptych.records import Finding
from triptych_backends.in_place.source import InPlaceSource

__all__ = ["MANY", "checked"]

T = TypeVar("T")

MANY: Final = 20_000
"""From so many rows on a search without an index takes noticeably long."""


def checked(
    source: InPlaceSource,
    where: str,
    load: Callable[[str], T],
    examine: Callable[[T], Iterator[Finding]],
) -> Iterator[Finding]:
    """The findings about each table: that it cannot be loaded, or what ``examine`` finds."""
    for name in source.names:
        try:
            table = load(name)
        except (ValidationError, NotFoundError, ModelMismatchError) as error:
            yield Finding(
                check="tables.columns",
                place=f"table {source.specs[name].table}",
                detail=str(error),
                why="searches of the pipeline fail",
                remedy="correct the pipeline's tables in triptych.toml",
                dataset_id=name,
            )
            continue
        except StoreError as error:
            yield Finding(
                check="tables.database",
                place=where,
                detail=str(error),
                why="searches of the pipeline fail",
                remedy="correct the pipeline's url, or the rights of its user",
                dataset_id=name,
            )
            continue
        yield from examine(table)
