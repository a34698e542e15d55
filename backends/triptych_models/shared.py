"""Shared parts of local models: arguments, packages, files and threads.

One text a call, one thread a text. A model that splits the arithmetic of one text over threads pays
for waking them at every layer, and one that pads texts into a batch may round differently with each
batch. Running each text alone on one thread makes a vector depend on its text and nothing else, and
keeps every core busy with a text of its own.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych.errors import NotAvailableError, ValidationError
from triptych.installation import lacking
from triptych_models.lazy import Lazy


def checked_texts(texts: Sequence[str], kind: str) -> list[str]:
    """``texts`` as a list.

    Raises:
        ValidationError: ``kind`` is neither "document" nor "query", ``texts`` is a bare
            string, or one of them is not a string or holds a lone surrogate.
    """
    if kind not in ("document", "query"):
        raise ValidationError(f"kind is 'document' or 'query', not {kind!r}")
    if isinstance(texts, str):
        raise ValidationError("texts is a sequence of strings, not one string: pass [text]")
    checked = list(texts)
    for position, text in enumerate(checked):
        if not isinstance(text, str):
            raise ValidationError(f"texts[{position}] is a {type(text).__name__}, not a str")
        if not text.isascii():
            _refuse_lone_surrogate(text, position)
    return checked


def checked_question(query: str, texts: Sequence[str]) -> tuple[str, list[str]]:
    """What a reranker is asked: a query, and texts as a list.

    Raises:
        ValidationError: the query is blank, or as `checked_texts`.
    """
    (asked,) = checked_texts([query], "query")
    checked = checked_texts(texts, "document")
    if not asked.strip():
        raise ValidationError("the query is blank: there is nothing to compare with")
    return asked, checked


def _refuse_lone_surrogate(text: str, position: int) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"U+{ord(text[error.start]):04X}"
        raise ValidationError(
            f"texts[{position}] holds the lone surrogate {found} at index {error.start}: "
            "decode the text with errors='replace' first"
        ) from error


def _missing(package: str, extra: str, user: str) -> NotAvailableError:
    return lacking(f"{user} needs the package {package}, which is not installed", extra)


def require(module: str, *, extra: str, user: str) -> ModuleType:
    """Import ``module`` for the embedder ``user``.

    Raises:
        NotAvailableError: it is not installed; the message names ``extra``.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _missing(module, extra, user) from error


def package_file(module: str, name: str, *, extra: str, user: str) -> Path:
    """The path of the data file ``name`` inside the installed package ``module``.

    Raises:
        NotAvailableError: the package is not installed, or has no such file.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise _missing(module, extra, user)
    return Path(spec.origin).parent / name


def verified_bytes(path: Path, sha256: str, *, user: str) -> bytes:
    """The bytes of ``path``, whose SHA-256 is ``sha256``.

    What is checked is what is returned: a file swapped after the check changes nothing.

    Raises:
        NotAvailableError: the file cannot be read, or is another one.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotAvailableError(
            f"{user} cannot read {path.name} ({error.strerror}): reinstall its package"
        ) from error
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise NotAvailableError(
            f"{user} refuses {path.name}: its SHA-256 is {actual}, expected {sha256}; "
            "reinstall its package in the pinned version"
        )
    return data


T = TypeVar("T")
OneText = Callable[[str], NDArray[np.float32]]


class TextWorkers:
    """Applies a function to texts on up to ``threads`` threads, the caller's among them.

    ``threads`` None means the number of cores. ``asked`` is what was given: a copy of the model
    in a process on another machine counts the cores there.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ValidationError(f"threads is a number from 1 up, not {threads}")
        self.asked: int | None = threads
        self._threads = threads or os.cpu_count() or 1
        self._pool = Lazy(self._make_pool, ThreadPoolExecutor.shutdown)

    def _make_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads - 1, thread_name_prefix="triptych-embed")

    def rows(self, function: OneText, texts: Sequence[str], dimension: int) -> NDArray[np.float32]:
        """Row ``i`` is ``function(texts[i])``; shape (len(texts), dimension).

        The deadline around the call is asked between texts. The first error is raised once
        no thread works for this call any more.
        """
        rows = np.empty((len(texts), dimension), dtype=np.float32)

        def fill(position: int) -> None:
            rows[position] = function(texts[position])

        self.each(fill, texts, "embedding")
        return rows

    def each(self, function: Callable[[int], None], texts: Sequence[str], doing: str) -> None:
        """Call ``function`` for the place of each text; errors as in `rows`.

        Long texts first, so that no thread is left alone with one at the end.
        """
        self.run(function, sorted(range(len(texts)), key=lambda i: (-len(texts[i]), i)), doing)

    def run(self, function: Callable[[T], None], items: Sequence[T], doing: str) -> None:
        """Call ``function`` for each of ``items``, begun in their order; errors as in `rows`.

        ``doing`` names the work where the deadline passes.
        """
        order = iter(items)
        taking = threading.Lock()
        stop = threading.Event()
        nothing = object()

        def take() -> Any:
            with taking:
                return nothing if stop.is_set() else next(order, nothing)

        def work(check: Callable[[], None]) -> None:
            try:
                while (item := take()) is not nothing:
                    check()
                    function(item)
            except BaseException:
                stop.set()
                raise

        helpers: list[Future[None]] = []
        helping = min(self._threads, len(items)) - 1
        try:
            if helping > 0:
                pool = self._pool.get()
                # Closed by another thread just now: the caller's own thread is enough.
                with suppress(RuntimeError):
                    for _ in range(helping):
                        helpers.append(pool.submit(work, _no_check))  # noqa: PERF401 - keep those begun
            # The deadline lives in this thread's context; when it passes, the helpers stop too.
            work(lambda: deadlines.check(doing))
        finally:
            # A helper that has not started by now has nothing left to take.
            running = [helper for helper in helpers if not helper.cancel()]
            errors = [helper.exception() for helper in running]
        for error in errors:
            if error is not None:
                raise error

    def close(self) -> None:
        """End the threads; a later call starts new ones. Idempotent."""
        self._pool.close()


def _no_check() -> None:
    """A helper's check: none of its own."""
