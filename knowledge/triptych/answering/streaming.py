"""An answer in pieces, as the model writes it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Self

from triptych.answering.records import Answer
from triptych.context.pack import ContextPack
from triptych.errors import NotAvailableError

__all__ = ["AnswerStream"]


class AnswerStream(Iterator[str]):
    """The pieces of an answer; joined, they are ``answer.text``::

        with kb.ask_stream("…", dataset_id="docs") as stream:
            for piece in stream:
                print(piece, end="")
        print(stream.answer.citations)

    The search is done when the stream is made; the model is asked when it is read. Each piece has
    been checked: citations of what does not exist are not in it. Close the stream where it is not
    read to its end.
    """

    def __init__(self, pack: ContextPack, pieces: Generator[str, None, Answer]) -> None:
        self._pack = pack
        self._pieces = pieces
        self._answer: Answer | None = None

    @property
    def pack(self) -> ContextPack:
        """What the model is shown: the pieces that citations name."""
        return self._pack

    @property
    def answer(self) -> Answer:
        """The whole answer.

        Raises:
            NotAvailableError: the stream has not been read to its end.
        """
        if self._answer is None:
            raise NotAvailableError("the answer is not whole yet: read the stream to its end")
        return self._answer

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration as end:
            if isinstance(end.value, Answer):
                self._answer = end.value
            raise StopIteration from None

    def close(self) -> None:
        """Let go of the model; it stops writing. Idempotent."""
        self._pieces.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
