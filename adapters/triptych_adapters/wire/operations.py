"""The table of the operations of a `Service`, with their arguments, results and effects.

Names, defaults and results are those of the Service's methods; this module adds the effect of each
operation and the JSON Schema of each argument.
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
from triptych.answers import AnswerReceipt, Citation, ProofPolicy
from triptych.answers.options import ASK_DEFAULTS, CONTEXT_DEFAULTS, FORM_DEFAULTS
from triptych.answers.pack import ContextReceipt
from triptych.answers.pieces import FORMATS
from triptych.errors import ValidationError
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
from triptych.service import KnowledgeBase
from triptych.service.operations import Effect, OperationTraits, operations_of
from triptych_adapters.wire.arguments import (
    json_schema,
    object_schema,
    read_arguments,
    read_object,
)

_Schema = dict[str, Any]

_ANNOTATED: Final[dict[str, Any]] = {
    "ContextReceipt": ContextReceipt,
    "ProgressCallback": ProgressCallback,
    **{name: getattr(package, name) for package in (answers, records) for name in package.__all__},
}
"""Names in annotations of the Service that its modules import only for type checkers."""


def hints_of(method: Any) -> dict[str, Any]:
    """Return the types of a method of the Service by argument name and "return"."""
    return get_type_hints(method, localns=_ANNOTATED)


@attrs.frozen(kw_only=True, slots=True)
class Operation:
    """One operation of a Service.

    Attributes:
        name: the name of the method.
        effect: whether it reads, writes or destroys.
        summary: its description in one sentence.
        creates: whether it creates a missing store and dataset.
        long: whether it calls a model, embeds many texts, or reads a whole store.
        parameters: the JSON Schema of its arguments, an object.
        result: the type of its result: a record, several records, or a plain value.
    """

    name: str
    effect: Effect
    summary: str
    creates: bool
    long: bool
    parameters: Mapping[str, Any] = attrs.field(repr=False)
    result: Any

    def run(self, service: KnowledgeBase, /, pipeline: str = "", **arguments: Any) -> Any:
        """Call the method with Python arguments; return its Python result.

        ``pipeline`` is the name of the pipeline to use.
        """
        runs = service.pipeline(pipeline) if pipeline else service
        return getattr(runs, self.name)(**arguments)

    def read(self, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
        """Convert external arguments, a mapping or JSON text, to the method's arguments.

        Raises:
            ValidationError: an argument is missing, unknown or invalid.
        """
        given = read_object(self.name, arguments)
        if self.name == "purge" and given.get("name", "") is None:
            # Of one document, or of all: a variable that is not set must not decide that.
            raise ValidationError("purge: the name is null: leave it out to purge the dataset")
        values = read_arguments(self.name, self.parameters, given)
        return {
            name: from_dict(_RECORDS[name], value) if name in _RECORDS else value
            for name, value in values.items()
        }

    def call(self, service: KnowledgeBase, arguments: Mapping[str, Any] | str) -> Any:
        """Call the method with external arguments; return the result as plain data for JSON.

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
        f"meaning, 'hybrid' by both{own}. Omit it unless the results are poor.",
        **({} if names is None else {"enum": names}),
    )


QUERY: Final[Mapping[str, _Schema]] = {
    "query": _text(
        "The search query: a full question, or words that the text is likely to contain."
    ),
    "dataset_id": _text(
        "The exact id of the dataset to search; needed only if there are several, and neither "
        "dataset_ids nor scope is given.",
    ),
    "dataset_ids": _several(
        str,
        "The exact ids of several datasets to search together, instead of dataset_id.",
    ),
    "scope": _choice(
        Scope,
        "'single' searches the dataset dataset_id; 'all' searches all datasets, without "
        "dataset_id and dataset_ids.",
    ),
    "mode": mode_schema(),
    "layer": _choice(
        Layer,
        "What to search: 'L2' passages of the text, 'L1' overviews of documents, 'L0' "
        "one-sentence abstracts of documents. Use L0 or L1 first for orientation.",
    ),
    "top_k": _whole("Maximum number of hits. Fewer are cheaper to read.", 1),
    "threshold": {
        "type": "number",
        "description": "Minimum score of a hit. Scores of different modes are not comparable: look "
        "at some scores before you set it.",
    },
    "min_scores": {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "description": "Minimum score by lane ('bm25', 'vector'), before fusion.",
    },
    "where": {
        "type": "object",
        "additionalProperties": True,
        "description": "Only documents with this metadata: {'lang': 'en'}; a list allows any of "
        "its values; {'year': {'$gte': 2024}} compares with $eq $ne $in $nin $lt $lte $gt $gte "
        "$contains $exists; {'$or': [{…}, {…}]}, $and and $not combine. A date is {'$date': "
        "'2026-09-01'}. The keys doc_name, doc_prefix and heading match the name, its prefix and "
        "a section; $name, $version, $updated_at and $expires_at are fields of the document.",
    },
    "offset": _whole("Number of best hits to skip, for further pages."),
    "per_document": _whole("Maximum number of hits of one document. Omit it for no limit.", 1),
    "conversation": _several(
        Message,
        "The earlier messages, oldest first, so that a follow-up question is understood. Only "
        "used if the knowledge base rewrites such questions.",
    ),
    "as_of": {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}],
        "description": "Search an earlier state, from the kept versions: a time in ISO 8601 such "
        "as '2026-11-01T12:00' (default UTC), or a version number: each document at its greatest "
        "version up to this one. Slower. Omit it for the current state.",
    },
    "fresh_only": _flag("Whether to leave out stale hits."),
    "keyword_boost": {
        "type": "number",
        "minimum": 0,
        "description": "Raise a hit's score by this share for each word of the query in its text.",
    },
    "syntax": _flag(
        'Whether the query has operators: "a phrase" must be in the text, -word must not be, '
        "word* matches words with this prefix, field:value matches metadata."
    ),
}
"""The fields of a query."""

ARGUMENTS: Final[Mapping[str, _Schema]] = {
    "abstain_if_weak": _flag("Whether to abstain also if the evidence is weak."),
    "after": _text("Only names after this one, the last of the previous page."),
    "answer": _text("The text of the receipt's answer, whose claims are to be looked up again."),
    "citation": {**json_schema(Citation), "description": "A citation from a context."},
    "content": _text("The whole text, Markdown or plain."),
    "dataset_id": _text("The exact id of the dataset."),
    "doc_name": _text("The exact name of the document."),
    "documents": _several(NewDocument, "The documents; metadata null keeps a document's metadata."),
    "doc_names": _several(str, "The documents of dataset_id to embed, in this order."),
    "embed": _text(
        "When the vectors are made: 'now', or 'later', by embed_pending.", enum=["now", "later"]
    ),
    "retry": _flag("Whether to send texts again that the model has refused."),
    "expires_at": _text(
        "When the document expires: ISO 8601 (default UTC) or 'never'. Omit it to keep the stored "
        "value."
    ),
    "fence": _flag("Whether to put each text between delimiters that no document can guess."),
    "folder": _text("The folder, with a final slash: 'guide/'."),
    "format": _text("The format of the context.", enum=sorted(FORMATS)),
    "if_version": _whole("Only if the document has this version (0: only if it does not exist)."),
    "language": _text("The language in which the dataset is analysed."),
    "layer": _choice(Layer, "'L0' is the abstract, 'L1' the overview; 'L2' is the text in chunks."),
    "layers": _several(Layer, "The layers to mix: 'L0' abstracts, 'L1' overviews, 'L2' passages."),
    "limit": _whole("Maximum number to list."),
    "max_pieces": _whole("Maximum number of pieces. Omit it for no limit.", 1),
    "max_tokens": _whole("Maximum number of tokens of the answer.", 1),
    "metadata": {
        "type": "object",
        "additionalProperties": json_schema(Metadata)["additionalProperties"],
        "description": "All metadata of the document: text, numbers, true, false, {'$date': "
        "'2026-09-01'}, or lists of these. Omit it to keep the stored metadata.",
    },
    "chunk": _whole("The chunk_index of a hit of the document. Omit it for the whole document."),
    "changes": {
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                *json_schema(Metadata)["additionalProperties"]["anyOf"],
                {"type": "null"},
            ]
        },
        "description": "The metadata to set, by key; null removes a key. Other keys are kept.",
    },
    "names": _several(str, "The exact names of the documents."),
    "sort": _text(
        "The order: '$name', '$version', '$updated_at', '$expires_at' or a metadata key; a leading "
        "'-' reverses it, such as '-$updated_at' for newest first."
    ),
    "where": QUERY["where"],
    "name": _text("The document's name, such as 'notes/2024-05.md'."),
    "new": _whole("The new version. Omit it for the current one."),
    "old": _whole("The old version."),
    "prices": {
        **json_schema(Prices),
        "description": "The prices of a million tokens of the model, to compute the answer's cost.",
    },
    "prefix": _text("Only names with this prefix."),
    "prefix_tokens": _whole(
        "Maximum number of tokens of the prefix: abstracts and overviews of the documents, with "
        "the same bytes for every question, for the start of a prompt.",
        1,
    ),
    "probe": _flag("Whether to test the embedder with two words."),
    "proof": _text(
        "What happens to a sentence with a quotation, figure, date, name or code that is not in "
        "the passages that it cites: 'mark' warns, 'drop' leaves the sentence out, 'refuse' fails.",
        enum=list(get_args(ProofPolicy)),
    ),
    "prompt_sig": _text(
        "The signature of the prompt and model that made the layer; empty for a person."
    ),
    "question": _text("The full question."),
    "receipt": {
        "anyOf": [json_schema(AnswerReceipt), json_schema(ContextReceipt)],
        "description": "The receipt of an answer or a context.",
    },
    "queries": _several(str, "The search queries, in order."),
    "repair": _flag("Whether to repair data that can be derived again."),
    "since": _text("The cursor of the last page. Omit it to start from the beginning."),
    "source_version": _whole("The document version that the layer was made from."),
    "summaries": _several(DocumentSummary, "The abstracts that the layer was made from."),
    "token_budget": _whole("Maximum number of tokens of the context."),
    "top_k": QUERY["top_k"],
    "version": _whole("A version of the document from its history."),
}
"""The other arguments by name; a name has the same meaning in all operations."""


_OF_THE_OBJECT: Final = frozenset({"ask_stream", "follow"})
"""Methods that return Python objects or iterators, which are not operations."""

_OF_PIECES: Final = frozenset({"layer", "top_k", "offset", "per_document"})
_WITHOUT: Final[Mapping[str, Set[str]]] = {
    "ask": _OF_PIECES,
    "context": _OF_PIECES,
    "context_prefix": QUERY.keys()
    - {"dataset_id", "dataset_ids", "scope", "where", "fresh_only", "as_of"}
    | {"layers", "max_pieces"},
    "search_documents": frozenset({"layer"}),
}
"""Fields of a query without effect, by operation."""


def _operation(name: str, traits: OperationTraits) -> Operation:
    """Return the operation. Arguments without a description here are only for Python."""
    method = getattr(KnowledgeBase, name)
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
    """Yield name, schema and default (`attrs.NOTHING`: none) of each argument of a method."""
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
    """Return a default that is useful in a schema, else None."""
    if isinstance(default, tuple):
        return list(default)
    if isinstance(default, StrEnum):
        return str(default)
    return default if isinstance(default, bool | int | float | str) and default != "" else None


OPERATIONS: Final[Mapping[str, Operation]] = {
    name: _operation(name, traits)
    for name, traits in operations_of(KnowledgeBase).items()
    if name not in _OF_THE_OBJECT
}
"""Every operation of a Service by name, in the order of the class."""


def _by_pipeline(name: str) -> Operation:
    """Return the operation for a pipeline, without defaults: the pipeline's options apply."""
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
"""The operations of a named pipeline, by name; the argument ``pipeline`` names it."""
