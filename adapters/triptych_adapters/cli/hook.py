"""``triptych context --hook``: what the session hooks of coding agents read and print."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from triptych.errors import TriptychError, ValidationError
from triptych_adapters.cli.exits import Exit
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.values import conditions

BLOCKING = 2
"""The exit code by which a hook stops its host: this one never ends with it."""

_SPARE = 2.0  # seconds for what no deadline interrupts, such as loading a model


def run_hook(
    session: Session,
    *,
    refused: Mapping[str, object],
    where: Sequence[str],
    timeout: float,
    dataset_id: str | None,
    **options: Any,
) -> Exit:
    """Read the hook's JSON from stdin, and print what the host adds to the session.

    Nothing is printed where nothing is relevant, or where there is no ``prompt``. What fails is a
    line on stderr and the exit code 1, with which hosts go on. ``options`` are those of
    `context_hook`; what is ``refused`` must not be given.
    """
    for name, is_given in refused.items():
        if is_given:
            session.output.error(f"--hook takes no {name}: the prompt is read from stdin")
            return Exit.FAILED
    with _ended_after(timeout + _SPARE):
        try:
            options["where"] = conditions(where, "--where")
        except TriptychError as error:
            session.output.error(str(error))
            return Exit.FAILED
        try:
            given = _given()
            prompt, event = given.get("prompt"), given.get("hook_event_name")
            if not isinstance(prompt, str) or not prompt.strip():
                return Exit.OK
            from triptych_adapters.context_hook import context_hook

            failures: list[TriptychError] = []
            with session.service(dataset=dataset_id or "", preload=True) as service:
                hook = context_hook(
                    service,
                    dataset_id=dataset_id,
                    timeout=timeout,
                    on_error=failures.append,
                    **options,
                )
                encodable = prompt.encode("utf-8", "replace").decode("utf-8")
                text = hook([{"role": "user", "content": encodable}])
        except Exception as error:  # noqa: BLE001 - the host goes on, whatever it is
            return _fail(session, error)
        if failures:
            return _fail(session, failures[0])
        if text is not None:
            name = event if isinstance(event, str) and event else "UserPromptSubmit"
            said = {"hookEventName": name, "additionalContext": text}
            session.output.write(json.dumps({"hookSpecificOutput": said}) + "\n")
    return Exit.OK


def _given() -> Mapping[str, Any]:

    try:
        given = json.loads(sys.stdin.buffer.read().decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"--hook reads a JSON object from stdin: {error}") from None
    if not isinstance(given, dict):
        raise ValidationError(
            f"--hook reads a JSON object from stdin, not a {type(given).__name__}"
        )
    return given


def _fail(session: Session, error: Exception) -> Exit:
    session.output.error(f"no context for this turn: {error}")
    return Exit.FAILED


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End the process when the block takes longer: a host waits for its hooks."""
    timer = threading.Timer(seconds, _end, [seconds])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(seconds: float) -> NoReturn:
    os.write(2, f"error: no context for this turn: it took {seconds:g} seconds\n".encode())
    # Nothing of the store is half written: each change of it is one transaction.
    os._exit(int(Exit.FAILED))
