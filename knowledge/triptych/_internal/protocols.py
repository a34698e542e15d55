"""Whether an object has what a Protocol names, asked alike on every interpreter."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["conforms"]

P = TypeVar("P")


def conforms(part: object, protocol: Callable[..., P]) -> TypeIs[P]:
    """Whether ``part`` has each public member of the class ``protocol``, by whatever way.

    From Python 3.12 on `isinstance` overlooks what ``__getattr__`` gives: an object that wraps
    another would lose what the other can do. A member that is None is not there.
    """
    return all(getattr(part, name, None) is not None for name in _members(protocol))


@cache
def _members(protocol: type) -> frozenset[str]:
    return frozenset(
        name for kind in protocol.__mro__ for name in vars(kind) if not name.startswith("_")
    )
