"""The methods that write, refused: tables of others are read."""

from __future__ import annotations

from typing import Any, NoReturn

from triptych.errors import NotAvailableError

__all__ = ["ReadOnlyChunks", "ReadOnlyDocuments", "ReadOnlyLayers"]


def _refuse(*_: Any, **__: Any) -> NoReturn:
    """Raises `NotAvailableError`: nothing is written to what is searched in place."""
    raise NotAvailableError(
        "what a pipeline searches in place is only read: write to it by what it belongs to, or "
        "follow it into a dataset of your own"
    )


class ReadOnlyDocuments:
    """The writes of `DocumentRepo`."""

    put = put_many = load = create_dataset = staticmethod(_refuse)
    delete = delete_many = delete_dataset = delete_orphans = staticmethod(_refuse)


class ReadOnlyChunks:
    """The writes of `ChunkRepo`."""

    configure = replace = replace_many = add_vectors = staticmethod(_refuse)
    update_source_version = delete_by_doc = delete_by_dataset = staticmethod(_refuse)


class ReadOnlyLayers:
    """The writes of `LayerRepo`."""

    put = delete_by_doc = delete_by_dataset = staticmethod(_refuse)
