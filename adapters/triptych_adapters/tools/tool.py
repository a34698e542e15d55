"""A tool as a value: what a model is told of it, and what happens when the model calls it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from triptych.errors import CancelledError, TriptychError
from triptych_adapters.tools.rendering import clip, to_json
from triptych_adapters.wire.arguments import check_schema, read_arguments
from triptych_adapters.wire.errors import error_json

__all__ = ["ERROR_TOKENS", "Tool"]

ERROR_TOKENS: Final = 220
"""The most tokens, as estimated, of an error's message."""


def _own(parameters: Mapping[str, Any]) -> dict[str, Any]:
    check_schema(parameters)
    return copy.deepcopy(dict(parameters))


@attrs.frozen(kw_only=True, slots=True, eq=False)
class Tool:
    """Something a language model can call.

    Attributes:
        name: as the model calls it.
        description: for the model: what it does, when to use it, what it answers.
        parameters: the JSON Schema (draft 2020-12) of its arguments, an object.
        run: what it does: from arguments that fit the schema, defaults filled in, to a value
            that JSON can hold.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = attrs.field(converter=_own, repr=False)
    run: Callable[[dict[str, Any]], Mapping[str, Any]] = attrs.field(repr=False)

    def call(self, arguments: Mapping[str, Any] | str) -> str:
        """Run the tool; the answer is JSON text, an error included.

        ``arguments`` is a mapping, or JSON text as some providers hand it over. What the model
        can act on, any `TriptychError`, is the answer ``{"error": {"type", "message"}}``.

        Raises:
            CancelledError: the caller's deadline passed or the caller cancelled: that is for
                the loop around the model, not for the model.
        """
        try:
            answer = self.run(read_arguments(self.name, self.parameters, arguments))
        except CancelledError:
            raise
        except TriptychError as error:
            fields = error_json(error)
            answer = {"error": fields | {"message": clip(fields["message"], ERROR_TOKENS)}}
        return to_json(answer)

    def __call__(self, **arguments: Any) -> str:
        """`call` with keywords."""
        return self.call(arguments)

    def as_openai(self) -> dict[str, Any]:
        """The declaration in the shape of OpenAI's chat completions."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": copy.deepcopy(dict(self.parameters)),
            },
        }

    def as_anthropic(self) -> dict[str, Any]:
        """The declaration in the shape of Anthropic's messages."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": copy.deepcopy(dict(self.parameters)),
        }
