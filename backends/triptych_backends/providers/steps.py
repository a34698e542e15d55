"""Calls that take several requests: who decides yields them, who does the I/O sends the answers.

A text over the limit of the model is thrown in as an `InputTooLongError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from triptych_backends.providers.errors import InputTooLongError

__all__ = ["Request", "Steps", "answered", "answered_async"]

T = TypeVar("T")
Request: TypeAlias = Mapping[str, Any]
Steps: TypeAlias = Generator[Request, Any, T]


def answered(steps: Steps[T], post: Callable[[Request], Any]) -> T:
    """What ``steps`` come to, each request sent by a call that blocks."""
    go_on: Callable[[], Request] = partial(next, steps)
    try:
        while True:
            request = go_on()
            try:
                answer = post(request)
            except InputTooLongError as error:
                go_on = partial(steps.throw, error)
            else:
                go_on = partial(steps.send, answer)
    except StopIteration as done:
        result: T = done.value
        return result


async def answered_async(steps: Steps[T], post: Callable[[Request], Awaitable[Any]]) -> T:
    """`answered`, each request awaited."""
    go_on: Callable[[], Request] = partial(next, steps)
    try:
        while True:
            request = go_on()
            try:
                answer = await post(request)
            except InputTooLongError as error:
                go_on = partial(steps.throw, error)
            else:
                go_on = partial(steps.send, answer)
    except StopIteration as done:
        result: T = done.value
        return result
