"""A mixin that closes an object at the end of a ``with`` block."""

from __future__ import annotations

from typing import Protocol, Self


class _HasClose(Protocol):
    def close(self) -> None: ...


class CloseOnExit:
    """A context manager over the ``close`` of the class that inherits it."""

    def __enter__(self) -> Self:
        """The object itself."""
        return self

    def __exit__(self: _HasClose, *_: object) -> None:
        """Close."""
        self.close()


def close_model(model: object) -> None:
    """Close a model that holds something until it is closed: one that has a ``close``."""
    close = getattr(model, "close", None)
    if close is not None:
        close()
