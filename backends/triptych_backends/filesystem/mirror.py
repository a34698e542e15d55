"""What a repository over files leaves to the repository of its mirror."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


class HasMirror(Protocol[M_co]):
    """A repository beside the one of the derived database."""

    @property
    def mirror(self) -> M_co:
        """The repository of the derived database."""
        ...


def mirrored(
    method: Callable[Concatenate[M, P], R],
) -> Callable[Concatenate[HasMirror[M], P], R]:
    """``method``, called on the mirror."""

    @functools.wraps(method)
    def call(self: HasMirror[M], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self.mirror, *args, **kwargs)

    return call
