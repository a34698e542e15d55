"""The table of operations: all that a Service does, called with JSON and answered in it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest

import triptych
from support.cli_run import fresh_shell
from support.rows import each_row
from support.wire_calls import CALLS
from triptych import KnowledgeBase, NotFoundError, Query, Service, ValidationError
from triptych.records import Candidate, ResolvedQuery, SearchOptions
from triptych.records.serialization import to_json
from triptych.service import Effect
from triptych_adapters.tools import context_tool, knowledge_tools
from triptych_adapters.wire import OPERATIONS, check_schema
from triptych_adapters.wire.errors import Exit
from triptych_adapters.wire.operations import ARGUMENTS, QUERY, hints_of
from triptych_frameworks.graph import knowledge_node
from triptych_models import HashEmbedder
from triptych_testing.fakes import ScriptedLLM

OF_THE_OBJECT = {"ask_stream", "close", "dataset", "follow", "pipeline", "restricted"}
"""Methods that are about the Python object, or give one that is read piece by piece."""

FOR_PYTHON = {
    "ask": {
        *("answerability", "counter", "llm", "prompt"),
        *("layer", "top_k", "offset", "per_document"),
    },
    "context": {"counter", "layer", "top_k", "offset", "per_document"},
    "context_prefix": {
        *("conversation", "counter", "keyword_boost", "layer", "layers", "max_pieces"),
        *("min_scores", "mode", "offset", "per_document", "syntax", "threshold", "top_k"),
    },
    "doctor": {"progress"},
    "embed_pending": {"progress"},
    "put_documents": {"progress"},
    "rebuild": {"progress", "scope"},
    "search_documents": {"layer"},
}
"""Arguments that no operation takes: callbacks, and those that play no role."""


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    for kind in KnowledgeBase.__mro__:
        for name, found in vars(kind).items():
            if not name.startswith("_") and callable(found) and name not in OF_THE_OBJECT:
                yield name, found


def test_every_public_method_of_a_service_is_an_operation() -> None:
    assert list(OPERATIONS) == [name for name, _ in methods()]


@each_row("name", OPERATIONS)
def test_an_operation_takes_the_arguments_of_its_method(name: str) -> None:
    parameters = list(inspect.signature(getattr(Service, name)).parameters.values())[1:]
    wanted = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    needed = {each.name for each in parameters if each.default is each.empty} & wanted
    if len(wanted) < len(parameters):
        (options,) = get_args(hints_of(getattr(Service, name))["options"])
        assert set(SearchOptions.__annotations__) <= set(options.__annotations__)
        wanted |= set(options.__annotations__)
    operation = OPERATIONS[name]
    assert set(operation.parameters["properties"]) == wanted - FOR_PYTHON.get(name, set())
    assert set(operation.parameters["required"]) == needed
    assert operation.summary.endswith(".")
    check_schema(operation.parameters)


def test_no_argument_is_described_that_no_operation_takes() -> None:
    taken = {name for each in OPERATIONS.values() for name in each.parameters["properties"]}
    assert set(ARGUMENTS) | set(QUERY) == taken


def test_the_fields_of_a_query_are_described() -> None:
    assert set(QUERY) - {"query"} == {field.name for field in attrs.fields(Query)} - {"text"}


def test_every_operation_runs_on_json_and_what_reads_changes_nothing(tmp_path: Path) -> None:
    llm = ScriptedLLM("tea", "It is tea [1].")
    with triptych.open(str(tmp_path / "kb.db"), embedder=HashEmbedder(), llm=llm) as service:

        def state() -> list[Any]:
            return [
                [to_json(service.list_documents(each)), to_json(service.layers(each))]
                for each in service.list_datasets()
            ]

        for name, arguments, holds in CALLS:
            before = state()
            answer = OPERATIONS[name].call(service, json.dumps(arguments))
            assert holds(json.loads(json.dumps(answer, allow_nan=False))), (name, answer)
            if OPERATIONS[name].effect is Effect.READS:
                assert state() == before, name
            if name == "ask":
                again = OPERATIONS["replay"].call(service, {"receipt": answer["receipt"]})
                assert again["identical"]
                again = OPERATIONS["replay"].call(
                    service, {"receipt": answer["receipt"]["context"]}
                )
                assert again["identical"]
        service.put_document("d", "c.md", "Coffee is black.")
        asked = {"query": "coffee", "token_budget": 200, "dataset_id": "d", "format": "json"}
        answer = OPERATIONS["context"].call(service, asked)
        rendered = json.loads(answer["text"])["pieces"]
        assert [each["citation"]["text"] for each in rendered] == [
            each["citation"]["text"] for each in answer["pieces"]
        ]
        citation = {"citation": answer["pieces"][0]["citation"]}
        assert OPERATIONS["verify"].call(service, citation)["status"] == "fresh"
    assert {name for name, *_ in CALLS} == set(OPERATIONS) - {"replay", "verify"}


def test_what_destroys_says_so() -> None:
    named = {each.name for each in OPERATIONS.values() if each.effect is Effect.DESTROYS}
    assert named == {
        "delete_document",
        "delete_documents",
        "remove_expired",
        "delete_dataset",
        "recreate",
        "purge",
    }


def test_the_command_line_runs_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It creates what an operation creates, and shows what it answers."""
    shell = fresh_shell(tmp_path, monkeypatch)
    assert {each.name for each in OPERATIONS.values() if each.creates} == {
        *("put_document", "put_documents", "create_dataset")
    }
    assert shell("list", "--json").code == Exit.NOT_FOUND
    assert not (tmp_path / "kb.db").exists()
    assert shell("admin", "create", "d", "--json").json["created"] is True
    with triptych.open(tmp_path / "kb.db", embedder=HashEmbedder()) as service:
        service.put_documents("d", {"a.md": "tea", "b.md": "milk"})
        service.put_document("d", "a.md", "hot tea")
        of = {"dataset_id": "d", "name": "a.md"}
        answers = {
            ("history", "a.md", "-d", "d"): ("versions", OPERATIONS["history"].call(service, of)),
            ("diff", "a.md", "1", "-d", "d"): (
                "diff",
                OPERATIONS["diff"].call(service, {**of, "old": 1}),
            ),
            ("list", "-d", "d"): (
                "documents",
                OPERATIONS["list_documents"].call(service, {"dataset_id": "d"}),
            ),
            ("list", "--datasets"): ("datasets", OPERATIONS["list_datasets"].call(service, {})),
        }
    for command, (field, answer) in answers.items():
        assert shell(*command, "--json").json[field] == answer


@each_row(
    ("name", "arguments", "message"),
    [
        ("get_document", {"dataset_id": "d"}, "'name' is missing"),
        ("get_document", {"dataset_id": "d", "name": "a", "colour": 1}, "no argument"),
        (
            "search",
            {"query": "x", "dataset_id": "d", "where": {"lang": [None]}},
            r"where\['lang'\] is None",
        ),
        ("context", {"query": "x", "token_budget": 5, "layers": ["L7"]}, r"'layers'\[0\] must be"),
        (
            "put_documents",
            {"dataset_id": "d", "documents": [{"name": "a"}]},
            r"'documents'\[0\] lacks 'content'",
        ),
        (
            "put_documents",
            {"dataset_id": "d", "documents": [{"name": "a", "content": "b", "x": 1}]},
            r"'documents'\[0\] has no \"x\"",
        ),
        (
            "put_document",
            {"dataset_id": "d", "name": "a", "content": "b", "metadata": {"k": None}},
            r"'metadata'\['k'\] must be a string or .* not null",
        ),
    ],
)
def test_what_an_operation_cannot_take_is_refused_by_name(
    name: str, arguments: dict[str, Any], message: str
) -> None:
    with (
        triptych.open("memory://", embedder=HashEmbedder()) as service,
        pytest.raises(ValidationError, match=message),
    ):
        OPERATIONS[name].call(service, arguments)


def test_errors_of_the_method_come_through() -> None:
    with (
        triptych.open("memory://", embedder=HashEmbedder()) as service,
        pytest.raises(NotFoundError),
    ):
        OPERATIONS["get_document"].call(service, {"dataset_id": "d", "name": "a"})


def test_tools_take_the_types_of_their_arguments_from_the_operations() -> None:
    with triptych.open("memory://", embedder=HashEmbedder()) as service:
        search, *_, store = knowledge_tools(service)
        read = context_tool(service)
    for tool, name in ((search, "search"), (store, "put_document"), (read, "context")):
        known = OPERATIONS[name].parameters["properties"]
        for argument, schema in tool.parameters["properties"].items():
            if argument not in ("cursor", "why", "like", "prefix", "prefix_digest"):
                shared = {key: known[argument].get(key) for key in ("type", "enum")}
                assert {key: schema.get(key) for key in shared if shared[key]} == {
                    key: value for key, value in shared.items() if value
                }


@attrs.frozen
class Pinned:
    """A lane of one's own: one document, whatever is asked."""

    doc_name: str
    name: str = "pinned"

    def recall(self, query: ResolvedQuery) -> list[Candidate]:
        return [
            Candidate(dataset_id=dataset, doc_name=self.doc_name, index=0, score=1.0)
            for dataset in query.dataset_ids
        ]


def test_a_lane_of_ones_own_is_a_mode_of_operations_tools_and_nodes() -> None:
    with triptych.open("memory://", embedder=None, retrievers=[Pinned("b.md")]) as service:
        service.put_documents("d", {"a.md": "tea", "b.md": "water"})
        asked = {"query": "tea", "dataset_id": "d", "mode": "pinned"}
        search = knowledge_tools(service)[0]
        found = (
            OPERATIONS["search"].call(service, asked)["hits"],
            json.loads(search(**asked))["hits"],
            knowledge_node(service, mode="pinned")({"query": "tea", "dataset_id": "d"})["hits"],
        )
        assert [[hit["doc_name"] for hit in hits] for hits in found] == [["b.md"]] * 3
        assert search.parameters["properties"]["mode"]["enum"] == [
            *("bm25", "vector", "hybrid"),
            "pinned",
        ]
        with pytest.raises(ValidationError, match="'hybrid', 'pinned'"):
            OPERATIONS["search"].call(service, {**asked, "mode": "best"})
