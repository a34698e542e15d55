"""Fake models, and wrappers that count calls of a repository and make them fail.

They fulfil the contracts: the wrappers pass the conformance tests themselves.
"""

from __future__ import annotations

import functools
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.contracts import Capabilities
from triptych.contracts.defaults import Repositories
from triptych.errors import ProviderError
from triptych.records import EmbedKind, Generation, Message, SparseVector, Usage
from triptych.signatures import content_sha256
from triptych_testing.builders import DIMENSION, SPARSE, SPARSE_TERMS, sparse_of, vector_of


class _FakeModel:
    """Counts its calls, and fails on request."""

    def __init__(self, signature: str, failures: Mapping[int, Exception] | None) -> None:
        self.signature = signature
        self.failures: dict[int, Exception] = dict(failures or {})
        self.calls: int = 0
        self.texts: list[str] = []
        self._lock = threading.Lock()

    def _take(self, texts: Sequence[str]) -> None:
        with self._lock:
            self.calls += 1
            if self.calls in self.failures:
                raise self.failures[self.calls]
            self.texts += texts


class FakeEmbedder(_FakeModel):
    """An `Embedder` whose vectors are a hash of the text: equal texts are at 1, others near 0.

    Attributes:
        calls: the number of calls, including failures.
        texts: all embedded texts, in order.
        failures: errors to raise, by number of the call from 1.
    """

    def __init__(
        self,
        signature: str = "fake/1",
        dimension: int = DIMENSION,
        failures: Mapping[int, Exception] | None = None,
    ) -> None:
        super().__init__(signature, failures)
        self.dimension = dimension

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        self._take(texts)
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([vector_of(text, self.signature, self.dimension) for text in texts])


class CoveringEmbedder(FakeEmbedder):
    """An embedder with coverage: the share of ASCII characters."""

    coverage_floor: float = 0.5

    def coverage(self, text: str) -> float:
        return sum(map(str.isascii, text)) / max(len(text), 1)


class FakeSparseEncoder(_FakeModel):
    """A `SparseEncoder` of words: texts that share words are near.

    ``calls``, ``texts`` and ``failures`` are as in `FakeEmbedder`.
    """

    vocabulary_size: int | None = SPARSE_TERMS

    def __init__(
        self, signature: str = SPARSE, failures: Mapping[int, Exception] | None = None
    ) -> None:
        super().__init__(signature, failures)

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Sequence[SparseVector]:
        self._take(texts)
        return [sparse_of(text, self.signature) for text in texts]


_FENCED = re.compile(r"<(text-[0-9a-f]{12})>\n(.*)\n</\1>", re.DOTALL)


class FakeLLM:
    """A language model whose response is a function of the request.

    ``answer`` gets the prompt (the system message) and the text between the marks, and returns the
    response, or an exception to raise. Without it the response is a digest of that text.
    Thread-safe, and deterministic if ``answer`` is.

    Attributes:
        requests: the messages and the token limit of every call, in order.
    """

    def __init__(
        self,
        answer: Callable[[str, str], str | Generation | Exception] | None = None,
        *,
        signature: str = "fake-llm/1",
    ) -> None:
        self.signature = signature
        self.requests: list[tuple[tuple[Message, ...], int]] = []
        self._answer = answer or (lambda _, text: f"Said of {content_sha256(text)[:12]}.")
        self._lock = threading.Lock()

    @property
    def texts(self) -> list[str]:
        """The text between the marks of every call."""
        return [fenced_text(messages) for messages, _ in self.requests]

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """Return the response, counting words as tokens.

        Raises:
            Exception: the one that ``answer`` returned.
        """
        with self._lock:
            self.requests.append((tuple(messages), max_tokens))
        answer = self._answer(messages[0].content, fenced_text(messages))
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Generation):
            return answer
        asked = sum(len(message.content.split()) for message in messages)
        return Generation(
            answer, Usage(input_tokens=asked, output_tokens=max(len(answer.split()), 1))
        )

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        """Return the response in pieces."""
        yield from self.generate(messages, max_tokens=max_tokens).text.splitlines(keepends=True)


class ScriptedLLM(FakeLLM):
    """A `FakeLLM` with prepared answers, one a call; after the last it fails."""

    def __init__(self, *answers: str | Exception, signature: str = "scripted/1") -> None:
        script = chain(answers, repeat(ProviderError("the script has no more answers")))
        super().__init__(lambda _, __: next(script), signature=signature)


def fenced_text(messages: Sequence[Message]) -> str:
    """Return the text that ``messages`` fence as data, or ""."""
    found = _FENCED.search(messages[-1].content)
    return "" if found is None else found[2]


class Failing:
    """Wraps any object, counts its calls and makes them fail on request.

    ``Failing(repo, {"replace": error})`` raises ``error`` from every `replace`; with ``times`` only
    from the first ones.

    Attributes:
        counts: the number of calls of each method, including failures.
    """

    def __init__(
        self, inner: Any, errors: Mapping[str, Exception] | None = None, *, times: int | None = None
    ) -> None:
        self.inner = inner
        self.errors: dict[str, Exception] = dict(errors or {})
        self.times = times
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of a wrapped store; calls of its own capabilities are counted too."""
        has = attrs.asdict(self.inner.capabilities, recurse=False)
        return Capabilities(
            **{name: self if part is self.inner else part for name, part in has.items()}
        )

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.inner, name)
        if name.startswith("_") or not callable(attribute):
            return attribute

        @functools.wraps(attribute)
        def call(*args: Any, **keywords: Any) -> Any:
            with self._lock:
                self.counts[name] += 1
                fails = name in self.errors and (
                    self.times is None or self.counts[name] <= self.times
                )
            if fails:
                raise self.errors[name]
            return attribute(*args, **keywords)

        return call


class Before:
    """Any object; before each call of ``methods``, or of any without them, ``step`` is called.

    It has the methods of the other.
    """

    def __init__(self, inner: Any, step: Callable[[], object], *methods: str) -> None:
        self._inner = inner
        self._step = step
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name.startswith("_") or not callable(method) or name not in (self._methods or (name,)):
            return method

        @functools.wraps(method)
        def call(*given: Any, **named: Any) -> Any:
            self._step()
            return method(*given, **named)

        return call


def kept_open(store: Any) -> Any:
    """``store``, with a `close` that does nothing: a Service over it leaves it open."""
    borrowed = Failing(store)
    vars(borrowed)["close"] = lambda: None
    return borrowed


def failing_store(store: Any, **errors: Exception) -> Any:
    """Wrap a store's repositories; ``chunks_replace=error`` makes `chunks.replace` raise it."""
    parts: dict[str, dict[str, Exception]] = {"documents": {}, "chunks": {}, "layers": {}}
    for place, error in errors.items():
        part, _, method = place.partition("_")
        parts[part][method] = error
    failing = {part: Failing(getattr(store, part), failures) for part, failures in parts.items()}
    return Repositories.over(store, **failing, close=store.close)
