"""Tools for language models: JSON Schema, Python signature and docstring, and call."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any, Final, Literal

import attrs

from triptych.errors import CancelledError, NotAvailableError, TriptychError, ValidationError
from triptych.installation import install_command
from triptych_adapters.tools.rendering import clip, to_json
from triptych_adapters.wire.arguments import check_schema, read_arguments
from triptych_adapters.wire.errors import error_json

_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
    "null": None,
}


def signature(parameters: Mapping[str, Any]) -> inspect.Signature:
    """Return a signature with the arguments as keywords, required ones first, and a str result.

    An optional argument may be None, which omits it.
    """
    required = parameters.get("required", ())
    properties: Mapping[str, Mapping[str, Any]] = parameters["properties"]
    names = sorted(properties, key=lambda name: name not in required)
    return inspect.Signature(
        [_parameter(name, properties[name], name in required) for name in names],
        return_annotation=str,
    )


def _parameter(name: str, schema: Mapping[str, Any], required: bool) -> inspect.Parameter:
    kind = _python_type(schema)
    default: Any = inspect.Parameter.empty if required else schema.get("default")
    if not required:
        kind = kind | None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, schema["description"]],
    )


def _python_type(schema: Mapping[str, Any]) -> Any:
    if "anyOf" in schema:
        first, *others = map(_python_type, schema["anyOf"])
        for other in others:
            first = first | other
        return first
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if schema["type"] == "array" and schema.get("items"):
        return list[_python_type(schema["items"])]  # type: ignore[misc]  # known when run
    return _TYPES[schema["type"]]


def docstring(description: str, parameters: Mapping[str, Any]) -> str:
    """Return a docstring with the description and the arguments."""
    properties: Mapping[str, Mapping[str, Any]] = parameters["properties"]
    arguments = [f"    {name}: {schema['description']}" for name, schema in properties.items()]
    parts = [description, "\n".join(["Args:", *arguments])] if arguments else [description]
    return "\n\n".join([*parts, "Returns:\n    The answer as text."])


ERROR_TOKENS: Final = 220
"""The maximum estimated tokens of an error's message."""


def _own(parameters: Mapping[str, Any]) -> dict[str, Any]:
    check_schema(parameters)
    return copy.deepcopy(dict(parameters))


# With a dict, as a function's name, docstring and signature are attributes of the instance.
@attrs.frozen(kw_only=True, slots=False, eq=False)
class Tool:
    """Something a language model can call.

    A tool works as a function in frameworks that take functions: it has ``__name__``, ``__doc__``,
    ``__signature__`` and ``__annotations__``, all derived from ``parameters``.

    Attributes:
        name: the name for the model.
        description: for the model: what the tool does, when to use it, and what it returns.
        parameters: the JSON Schema (draft 2020-12) of its arguments, an object.
        run: takes arguments that match the schema, with defaults filled in, and returns a value for
            JSON.
        title: a title for people.
        read_only: whether it changes nothing.
        destructive: whether it may replace or delete something; False if it is read-only.
        render: converts an answer to text: JSON or Markdown.
        result: the JSON Schema of a successful answer; None if unknown.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = attrs.field(converter=_own, repr=False)
    run: Callable[[dict[str, Any]], Mapping[str, Any]] = attrs.field(repr=False)
    title: str = attrs.field(default="", repr=False)
    read_only: bool = attrs.field(default=False, repr=False)
    destructive: bool = attrs.field(repr=False)
    render: Callable[[Mapping[str, Any]], str] = attrs.field(default=to_json, repr=False)
    result: Mapping[str, Any] | None = attrs.field(default=None, repr=False)

    @destructive.default
    def _destructive(self) -> bool:
        # Who says nothing is taken for the worse.
        return not self.read_only

    def __attrs_post_init__(self) -> None:
        if self.read_only and self.destructive:
            raise ValidationError(f"the tool {self.name!r} is read-only, so it destroys nothing")
        made = signature(self.parameters)
        annotations = {each.name: each.annotation for each in made.parameters.values()}
        self.__dict__.update(
            __name__=self.name,
            __qualname__=self.name,
            __doc__=docstring(self.description, self.parameters),
            __signature__=made,
            __annotations__={**annotations, "return": str},
        )

    def answer(self, arguments: Mapping[str, Any] | str) -> Mapping[str, Any]:
        """Run the tool; return the answer as plain data for JSON.

        ``arguments`` is a mapping, or JSON text, which some providers pass.

        Raises:
            ValidationError: an argument is missing, unknown or invalid.
            TriptychError: the tool failed.
        """
        return self.run(read_arguments(self.name, self.parameters, arguments))

    def call(self, arguments: Mapping[str, Any] | str) -> str:
        """`answer` as text, including errors.

        A `TriptychError` becomes the answer ``{"error": {"type", "message"}}``, on which the model
        can act.

        Raises:
            CancelledError: the caller's deadline passed or the caller cancelled; the loop around
                the model must handle it.
        """
        try:
            answer = self.answer(arguments)
        except CancelledError:
            raise
        except TriptychError as error:
            answer = self.error(error)
        return self.render(answer)

    def error(self, error: TriptychError) -> dict[str, Any]:
        """Return the answer for an error."""
        fields = error_json(error)
        return {"error": fields | {"message": clip(fields["message"], ERROR_TOKENS)}}

    def __call__(self, **arguments: Any) -> str:
        """`call` with keywords; None omits an optional argument."""
        return self.call(arguments)

    # As others declare tools

    def as_function(self) -> Callable[..., str]:
        """Return this tool as a plain function, for frameworks that take no other callable."""

        def function(**arguments: Any) -> str:
            return self(**arguments)

        own = self.__dict__
        function.__name__ = function.__qualname__ = self.name
        function.__doc__ = own["__doc__"]
        function.__annotations__ = dict(own["__annotations__"])
        function.__signature__ = own["__signature__"]  # type: ignore[attr-defined]  # it takes it
        return function

    def as_openai(self) -> dict[str, Any]:
        """Return the declaration for OpenAI's chat completions."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": copy.deepcopy(dict(self.parameters)),
            },
        }

    def as_openai_responses(self) -> dict[str, Any]:
        """Return the declaration for OpenAI's responses.

        It is not strict, because strict declarations have no optional arguments.
        """
        return {"type": "function", **self.as_openai()["function"], "strict": False}

    def as_anthropic(self) -> dict[str, Any]:
        """Return the declaration for Anthropic's messages."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": copy.deepcopy(dict(self.parameters)),
        }

    def as_langchain(self) -> Any:
        """Return this tool as a ``langchain_core.tools.StructuredTool``.

        Raises:
            NotAvailableError: langchain-core is not installed.
        """
        module = _framework("langchain_core.tools", "langchain-core")
        return module.StructuredTool(
            name=self.name,
            description=self.description,
            args_schema=copy.deepcopy(dict(self.parameters)),
            func=self.__call__,
        )

    def as_pydantic_ai(self) -> Any:
        """Return this tool as a ``pydantic_ai.Tool``.

        Raises:
            NotAvailableError: pydantic-ai is not installed.
        """
        module = _framework("pydantic_ai", "pydantic-ai-slim")
        return module.Tool.from_schema(
            self.__call__,
            name=self.name,
            description=self.description,
            json_schema=copy.deepcopy(dict(self.parameters)),
        )


def _framework(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise NotAvailableError(
            f"this needs the package {package}, which cannot be imported ({error}): "
            f"{install_command(package)}"
        ) from error
