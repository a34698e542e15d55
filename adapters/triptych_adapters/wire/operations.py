"""What a `Service` can do, as a table: each operation with its arguments, its answer, its effect.

Names, defaults and answers are those of the Service's methods; here is what a signature does not
say: whether an operation reads, writes or destroys, and what each argument is as JSON.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal, get_args, get_type_hints

import attrs

from triptych import answers, records
from triptych._internal.progress import ProgressCallback
from triptych.answers import AnswerReceipt, Citation
from triptych.answers.options import ASK_DEFAULTS, CONTEXT_DEFAULTS, FORM_DEFAULTS
from triptych.answers.pack import ContextReceipt
from triptych.answers.pieces import FORMATS
from triptych.records import (
    DocumentSummary,
    Layer,
    Message,
    Metadata,
    Mode,
    NewDocument,
    Prices,
    Query,
    Scope,
)
from triptych.records.serialization import from_dict, to_json
from triptych.service import Service
from triptych.service.operations import Effect, OperationTraits, operations_of
from triptych_adapters.wire.arguments import json_schema, object_schema, read_arguments

_Schema = dict[str, Any]

_ANNOTATED: Final[dict[str, Any]] = {
    "ContextReceipt": ContextReceipt,
    "ProgressCallback": ProgressCallback,
    **{name: getattr(package, name) for package in (answers, records) for name in package.__all__},
}
"""What annotations of the Service name, and its modules do not import when they run."""


def hints_of(method: Any) -> dict[str, Any]:
    """The types of a method of the Service, by the names of its arguments and "return"."""
    return get_type_hints(method, localns=_ANNOTATED)


@attrs.frozen(kw_only=True, slots=True)
class Operation:
    """One operation of a Service.

    Attributes:
        name: of the method.
        effect: whether it reads, writes or destroys.
        summary: what it does, in a sentence.
        creates: whether it makes the store and the dataset that it needs.
        long: whether it asks a model, embeds many texts, or goes through a whole store.
        parameters: the JSON Schema of its arguments, an object.
        result: the type of its answer: a record, several, or a plain value.
    """

    name: str
    effect: Effect
    summary: str
    creates: bool
    long: bool
    parameters: Mapping[str, Any] = attrs.field(repr=False)
    result: Any

    def run(self, service: Service, /, pipeline: str = "", **arguments: Any) -> Any:
        """The method's own answer to Python's arguments, for callers that show it themselves.

        ``pipeline`` is the name of the one that it runs by.
        """
        runs = service.pipeline(pipeline) if pipeline else service
        return getattr(runs, self.name)(**arguments)

    def read(self, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
        """Arguments from outside as the method takes them: a mapping, or JSON text.

        Raises:
            ValidationError: an argument is missing, unknown or invalid.
        """
        values = read_arguments(self.name, self.parameters, arguments)
        return {
            name: from_dict(_RECORDS[name], value) if name in _RECORDS else value
            for name, value in values.items()
        }

    def call(self, service: Service, arguments: Mapping[str, Any] | str) -> Any:
        """Run it with arguments from outside; the answer as JSON's types.

        Raises:
            ValidationError: an argument is missing, unknown or invalid.
            TriptychError: as the method.
        """
        return to_json(self.run(service, **self.read(arguments)))


def _text(description: str, **more: Any) -> _Schema:
    return {"type": "string", **more, "description": description}


def _whole(description: str, least: int = 0) -> _Schema:
    return {"type": "integer", "minimum": least, "description": description}


def _flag(description: str) -> _Schema:
    return {"type": "boolean", "description": description}


def _several(kind: Any, description: str) -> _Schema:
    return {"type": "array", "items": json_schema(kind), "description": description}


def _choice(kind: type[StrEnum], description: str) -> _Schema:
    return _text(description, enum=[str(member) for member in kind])


_RECORDS: Final[dict[str, Any]] = {
    "citation": Citation,
    "conversation": tuple[Message, ...],
    "documents": tuple[NewDocument, ...],
    "expires_at": datetime | Literal["never"],
    "prices": Prices,
    "receipt": AnswerReceipt | ContextReceipt,
    "summaries": tuple[DocumentSummary, ...],
}
"""The arguments that are records."""


def mode_schema(lanes: Iterable[str] | None = None) -> _Schema:
    """The schema of ``mode``: "hybrid" or one of ``lanes``; None takes any name.

    Lane names are open: a Service checks them against its own (`Service.lanes`).
    """
    modes = [str(mode) for mode in Mode]
    names = None if lanes is None else sorted({*modes, *lanes}, key=[*modes, *lanes].index)
    own = "" if names == modes else "; any other name is one lane of this knowledge base"
    return _text(
        "How to search: 'bm25' by keyword (exact names, codes, error messages), 'vector' by "
        f"meaning, 'hybrid' by both{own}. Leave it out unless results disappoint.",
        **({} if names is None else {"enum": names}),
    )


QUERY: Final[Mapping[str, _Schema]] = {
    "query": _text(
        "What to find: a question in full, or the words that the text is likely to use."
    ),
    "dataset_id": _text(
        "The dataset to search, by its exact id; needed unless dataset_ids or scope says where.",
    ),
    "dataset_ids": _several(
        str,
        "Several datasets to search as one, by their exact ids; leave out dataset_id then.",
    ),
    "scope": _choice(
        Scope,
        "Where to search: 'single' (one dataset, which dataset_id names) or 'all' (every "
        "dataset, without dataset_id and dataset_ids).",
    ),
    "mode": mode_schema(),
    "layer": _choice(
        Layer,
        "What to find: 'L2' passages of the text itself, 'L1' overviews of documents, 'L0' "
        "one-sentence abstracts of documents. Use L0 or L1 first to see what there is.",
    ),
    "top_k": _whole("Maximum number of hits. Fewer are cheaper to read.", 1),
    "threshold": {
        "type": "number",
        "description": "Leave out hits whose score is below this. Scores are not comparable "
        "between modes: look at some before you set it.",
    },
    "min_scores": {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "description": "The least score by lane ('bm25', 'vector'), before they are fused.",
    },
    "where": {
        "type": "object",
        "additionalProperties": True,
        "description": "Only documents with this metadata: {'lang': 'en'}; a list allows any of "
        "its values; {'year': {'$gte': 2024}} compares with $eq $ne $in $nin $lt $lte $gt $gte "
        "$contains $exists; {'$or': [{…}, {…}]}, $and and $not join. A date is {'$date': "
        "'2026-09-01'}. The keys doc_name, doc_prefix and heading stand for the name, its "
        "beginning and a section, $name, $version, $updated_at and $expires_at for the document's "
        "own fields.",
    },
    "offset": _whole("How many of the best hits to skip: those of the pages before."),
    "per_document": _whole("The most hits of one document. Leave it out for any number.", 1),
    "conversation": _several(
        Message,
        "What was said before the query, oldest first, so that a follow-up question is "
        "understood. Only where the knowledge base rewrites such questions.",
    ),
    "as_of": {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}],
        "description": "Search what was stored at a moment, over the kept versions: ISO 8601 such "
        "as '2026-11-01T12:00' (in UTC unless it says), or a version number: each document at its "
        "greatest version up to it. Slower. Leave it out for what is stored now.",
    },
    "fresh_only": _flag("Whether to leave out what is stale."),
    "keyword_boost": {
        "type": "number",
        "minimum": 0,
        "description": "Raise a score by this share for each word of the query in the text.",
    },
    "syntax": _flag(
        'Whether the query is read as a language: "a phrase" must be in the text, -word must '
        "not be, word* asks for words that begin so, field:value for a document's metadata."
    ),
}
"""The fields of a query."""

ARGUMENTS: Final[Mapping[str, _Schema]] = {
    "abstain_if_weak": _flag("Whether not to answer where what was found is weak, too."),
    "after": _text("Only names that come after this one: where the last page ended."),
    "citation": {**json_schema(Citation), "description": "A citation, as a context has it."},
    "content": _text("The whole text, Markdown or plain."),
    "dataset_id": _text("The dataset, by its exact id."),
    "doc_name": _text("The one document that is meant, by its exact name."),
    "documents": _several(NewDocument, "The documents; metadata null keeps what a document has."),
    "doc_names": _several(str, "The documents to embed, in this order; of dataset_id."),
    "embed": _text(
        "When the vectors are made: 'now', or 'later', by embed_pending.", enum=["now", "later"]
    ),
    "expires_at": _text(
        "From this moment on nothing finds the document: ISO 8601, in UTC unless it says, or "
        "'never'. Leave it out to keep what there is."
    ),
    "fence": _flag("Whether each text stands between delimiters that no document can guess."),
    "folder": _text("The folder, which ends in a slash: 'guide/'."),
    "format": _text("What the context is written in.", enum=sorted(FORMATS)),
    "if_version": _whole("Only over this version (0: only if there is none)."),
    "language": _text("The language that the dataset is analysed in."),
    "layer": _choice(
        Layer, "'L0' is the abstract, 'L1' the overview; 'L2' is the text itself, in chunks."
    ),
    "layers": _several(Layer, "The layers to mix: 'L0' abstracts, 'L1' overviews, 'L2' passages."),
    "limit": _whole("Maximum number to list."),
    "max_pieces": _whole("Maximum number of pieces. Leave it out for any number.", 1),
    "max_tokens": _whole("Maximum number of tokens of the answer.", 1),
    "metadata": {
        "type": "object",
        "additionalProperties": json_schema(Metadata)["additionalProperties"],
        "description": "All metadata of the document: text, numbers, true, false, {'$date': "
        "'2026-09-01'}, or lists of these. Leave it out to keep what there is.",
    },
    "changes": {
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                *json_schema(Metadata)["additionalProperties"]["anyOf"],
                {"type": "null"},
            ]
        },
        "description": "The metadata to set, by key; null removes a key. Other keys stay.",
    },
    "names": _several(str, "The documents, by their exact names."),
    "sort": _text(
        "The order: '$name', '$version', '$updated_at', '$expires_at' or a metadata key; with '-' "
        "in front the reverse, such as '-$updated_at' for the newest first."
    ),
    "where": QUERY["where"],
    "name": _text("The document's name, like a path: 'notes/2024-05.md'."),
    "new": _whole("The later version. Leave it out for the current one."),
    "old": _whole("The earlier version."),
    "prices": {
        **json_schema(Prices),
        "description": "What a million tokens of the model cost, for the answer's cost.",
    },
    "prefix": _text("Only names that begin with this."),
    "prefix_tokens": _whole(
        "Maximum number of tokens of the prefix: abstracts and overviews of what there is, in the "
        "same bytes whatever is asked, to be put first in a prompt.",
        1,
    ),
    "probe": _flag("Whether to try the embedder with two words."),
    "prompt_sig": _text("The signature of what wrote the layer; empty for a person."),
    "question": _text("The question, in full."),
    "receipt": {
        "anyOf": [json_schema(AnswerReceipt), json_schema(ContextReceipt)],
        "description": "The receipt of an answer or a context.",
    },
    "queries": _several(str, "What to find, one after another."),
    "repair": _flag("Whether to repair what can be made again."),
    "since": _text("The cursor where the last page ended. Leave it out to begin at the beginning."),
    "source_version": _whole("The version that the layer was made from."),
    "summaries": _several(DocumentSummary, "The abstracts that the layer was made from."),
    "token_budget": _whole("Maximum number of tokens of the context."),
    "version": _whole("A version of the document, as its history lists them."),
}
"""The other arguments, by name: one name means one thing."""


_OF_THE_OBJECT: Final = frozenset({"ask_stream", "dataset", "follow", "pipeline", "restricted"})
"""Methods that are about the Python object, or give one that is read piece by piece."""

_OF_PIECES: Final = frozenset({"layer", "top_k", "offset", "per_document"})
_WITHOUT: Final[Mapping[str, Set[str]]] = {
    "ask": _OF_PIECES,
    "context": _OF_PIECES,
    "context_prefix": QUERY.keys()
    - {"dataset_id", "dataset_ids", "scope", "where", "fresh_only", "as_of"}
    | {"layers", "max_pieces"},
    "search_documents": frozenset({"layer"}),
}
"""Fields of a query that play no role, by operation."""


def _operation(name: str, traits: OperationTraits) -> Operation:
    """The operation. An argument that has no description here is for Python alone."""
    method = getattr(Service, name)
    properties: dict[str, _Schema] = {}
    required: list[str] = []
    for argument, schema, default in _arguments(method):
        if schema is None or argument in _WITHOUT.get(name, ()):
            continue
        plain = _plain(default)
        properties[argument] = schema if plain is None else {**schema, "default": plain}
        if default is attrs.NOTHING:
            required.append(argument)
    return Operation(
        name=name,
        effect=traits.effect,
        creates=traits.creates,
        long=traits.long,
        summary=" ".join((inspect.getdoc(method) or "").split("\n\n")[0].split()),
        parameters=object_schema(*required, **properties),
        result=hints_of(method)["return"],
    )


def _arguments(method: Any) -> Iterator[tuple[str, _Schema | None, Any]]:
    """The arguments of a method, in order: name, schema and default (`attrs.NOTHING`: none)."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    defaults = {
        each.name: attrs.NOTHING if each.default is each.empty else each.default
        for each in parameters
        if each.kind is not each.VAR_KEYWORD
    }
    takes_query = len(defaults) < len(parameters)
    if takes_query:
        (options,) = get_args(hints_of(method)["options"])
        for own in (FORM_DEFAULTS, CONTEXT_DEFAULTS, ASK_DEFAULTS):
            defaults |= own if own.keys() <= options.__annotations__.keys() else {}
        of_query = {each.name: each.default for each in attrs.fields(Query)}
        del of_query["text"]  # which is the argument itself
        defaults |= of_query
    for name, default in defaults.items():
        schema = QUERY.get(name) if takes_query else None
        yield name, schema or ARGUMENTS.get(name), default


def _plain(default: Any) -> Any:
    """A default that says something to a caller outside, else None."""
    if isinstance(default, tuple):
        return list(default)
    if isinstance(default, StrEnum):
        return str(default)
    return default if isinstance(default, bool | int | float | str) and default != "" else None


OPERATIONS: Final[Mapping[str, Operation]] = {
    name: _operation(name, traits)
    for name, traits in operations_of(Service).items()
    if name not in _OF_THE_OBJECT
}
"""Every operation of a Service, by name, in the order in which the class has them."""


def _by_pipeline(name: str) -> Operation:
    """The operation as a pipeline runs it: what is not given is the pipeline's, not a default."""
    operation = OPERATIONS[name]
    parameters = operation.parameters
    properties = {
        argument: {key: value for key, value in schema.items() if key != "default"}
        for argument, schema in parameters["properties"].items()
    }
    named = _text("The pipeline, by its exact name.")
    needed = [each for each in parameters["required"] if each != "token_budget"]
    return attrs.evolve(
        operation,
        parameters=object_schema("pipeline", *needed, pipeline=named, **properties),
    )


PIPELINE_OPERATIONS: Final[Mapping[str, Operation]] = {
    name: _by_pipeline(name) for name in ("search", "search_documents", "explain", "context", "ask")
}
"""The operations of a named pipeline, by name; ``pipeline`` says which."""
