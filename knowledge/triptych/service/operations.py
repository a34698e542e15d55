"""The decorator that declares for each method of a Service whether it reads, writes or deletes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar, cast

import attrs

_Method = TypeVar("_Method", bound=Callable[..., Any])
_NAME = "__triptych_operation__"


class Effect(StrEnum):
    """The effect of an operation on the store."""

    READS = "reads"
    WRITES = "writes"
    DESTROYS = "destroys"
    """It deletes something that no other operation restores."""


@attrs.frozen(kw_only=True, slots=True)
class OperationTraits:
    """The properties of an operation that the command line, HTTP, MCP and access checks need.

    Attributes:
        effect: whether it reads, writes or destroys.
        embeds: whether it may embed texts that it stores.
        creates: whether it creates a missing store and dataset.
        long: whether it calls a model, embeds many texts, or reads a whole store.
    """

    effect: Effect
    embeds: bool = False
    creates: bool = False
    long: bool = False


def operation(
    effect: Effect, *, embeds: bool = False, creates: bool = False, long: bool = False
) -> Callable[[_Method], _Method]:
    """Declare the `OperationTraits` of a public method of a Service.

    A method without this decorator is not available to restricted callers, over HTTP or as a tool.
    The method raises `StoreError` if the Service is closed.
    """
    traits = OperationTraits(effect=effect, embeds=embeds, creates=creates, long=long)

    def mark(method: _Method) -> _Method:
        @functools.wraps(method)
        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            self._require_open()
            return method(self, *args, **kwargs)

        setattr(checked, _NAME, traits)
        return cast(_Method, checked)

    return mark


def operations_of(kind: type) -> Mapping[str, OperationTraits]:
    """Return the operations of a class and its bases by name, in method resolution order.

    An overriding method is an operation only if it is decorated itself.
    """
    found: dict[str, OperationTraits | None] = {}
    for each in kind.__mro__:
        for name, method in vars(each).items():
            found.setdefault(name, getattr(method, _NAME, None))
    return {name: traits for name, traits in found.items() if traits is not None}
