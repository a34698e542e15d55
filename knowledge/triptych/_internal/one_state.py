"""What one search reads is of one state: what stores hold for it until it ends.

A store holds a read transaction, an index its segments of the same change. They are let go of when
the search writes, or meets what is newer: what it reads after that is of another state.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from threading import RLock
from typing import Any, TypeVar

import attrs

from triptych._internal.forks import in_child

T = TypeVar("T")


@attrs.define(eq=False)
class _Call:
    """What is held for one call and the threads that have a copy of its context, by owner."""

    lock: RLock = attrs.field(factory=RLock)
    held: dict[object, tuple[Any, Callable[[Any], object] | None]] = attrs.field(factory=dict)
    is_over: bool = False  # a thread may still have the context


_CALL: ContextVar[_Call | None] = ContextVar("one_state", default=None)
in_child(lambda: _CALL.set(None))  # what is held is the parent's


class one_state:  # noqa: N801 - it is called as a function
    """Have all that the block reads be of one state, of each store that can."""

    _begun: tuple[_Call, Token[_Call | None]] | None = None

    def __enter__(self) -> None:
        call = _CALL.get()
        if call is None or call.is_over:
            call = _Call()
            self._begun = call, _CALL.set(call)

    def __exit__(self, *error: object) -> None:
        if self._begun is not None:
            call, token = self._begun
            with call.lock:
                call.is_over = True
            let_go()
            _CALL.reset(token)


def held(
    owner: object, take: Callable[[], T], release: Callable[[T], object] | None = None
) -> T | None:
    """Return what is held for ``owner`` in this call, from ``take`` the first time, until it is
    let go of by ``release``; None outside of `one_state`."""
    call = _CALL.get()
    if call is None or call.is_over:
        return None
    found = call.held.get(owner)
    if found is None:
        with call.lock:
            if not is_one_state():  # it has ended since
                return None
            found = call.held.get(owner)
            if found is None:
                found = call.held[owner] = take(), release
    thing: T = found[0]
    return thing


def holding(owner: object) -> Any:
    """What `held` has taken for ``owner`` in this call, None for nothing."""
    call = _CALL.get()
    return None if call is None else call.held.get(owner, (None,))[0]


def is_one_state() -> bool:
    """Whether this call reads one state."""
    call = _CALL.get()
    return call is not None and not call.is_over


def let_go() -> None:
    """Hold nothing any more: what this call reads next is of a newer state."""
    call = _CALL.get()
    if call is None:
        return
    for owner in list(call.held):
        thing, release = call.held.pop(owner, (None, None))
        if release is not None:
            release(thing)
