"""What the shell offers at a Tab: datasets, and names of documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from triptych.service import Service

__all__ = ["complete_dataset", "complete_document"]

_MOST = 200
"""Names that are offered; a shell asks before it lists as many."""


def complete_dataset(ctx: typer.Context, incomplete: str) -> list[str]:
    """The datasets that begin so; none where there is no store, or it cannot be opened."""
    with _service(ctx) as service:
        if service is None:
            return []
        return [name for name in service.list_datasets() if name.startswith(incomplete)]


def complete_document(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of documents that begin so, in the dataset that is named or in all of them."""
    with _service(ctx) as service:
        if service is None:
            return []
        named = ctx.params.get("dataset")
        datasets: Sequence[str] = [named] if named else service.list_datasets()
        found = {
            info.name
            for each in datasets
            for info in service.list_documents(each, prefix=incomplete, limit=_MOST)
        }
        return sorted(found)[:_MOST]


@contextmanager
def _service(ctx: typer.Context) -> Iterator[Service | None]:
    """The store of the command line, read only; None for any trouble: a Tab shows no errors."""
    from triptych.errors import TriptychError
    from triptych_factory import Settings, wire

    store = ctx.params.get("store") or ctx.find_root().params.get("store")
    try:
        settings = Settings.resolve(
            {"url": store, "embedder": "none", "llm": "none", "read_only": True}
        )
        service = wire(settings, create=False)
    except (TriptychError, OSError):
        yield None
        return
    with service:
        yield service
