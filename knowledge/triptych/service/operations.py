"""What declares an operation: whether it reads, writes or deletes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

import attrs

_Method = TypeVar("_Method", bound=Callable[..., Any])
TRAITS: Final = "__triptych_operation__"


class Effect(StrEnum):
    """The effect of an operation on the store."""

    READS = "reads"
    WRITES = "writes"
    DESTROYS = "destroys"
    """It deletes something that no other operation restores."""


@attrs.frozen(slots=True)
class OperationTraits:
    """The properties of an operation that the command line, HTTP, MCP and access checks need.

    It declares a method of `Operations`, as its decorator: a method without one is not available
    over HTTP or as a tool. The method has no body: its call is one of ``_run``.

    Attributes:
        effect: whether it reads, writes or destroys.
        embeds: whether it may embed texts that it stores.
        creates: whether it creates a missing store and dataset.
        writes_if: the argument that says whether it writes at all; "" if it always does.
        long: whether it calls a model, embeds many texts, or reads a whole store.
    """

    effect: Effect
    embeds: bool = False
    creates: bool = False
    writes_if: str = ""
    long: bool = False

    def __call__(self, method: _Method) -> _Method:
        @functools.wraps(method)
        def call(kb: Any, *args: Any, **kwargs: Any) -> Any:
            return kb._run(method, args, kwargs)

        setattr(call, TRAITS, self)
        return cast(_Method, call)


operation = OperationTraits


def operations_of(kind: type) -> Mapping[str, OperationTraits]:
    """Return the operations of a class and its bases by name, in method resolution order.

    An overriding method is an operation only if it is decorated itself.
    """
    found: dict[str, OperationTraits | None] = {}
    for each in kind.__mro__:
        for name, method in vars(each).items():
            found.setdefault(name, getattr(method, TRAITS, None))
    return {name: traits for name, traits in found.items() if traits is not None}
