"""A tool as a function for other frameworks: name, docstring, signature, declarations."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import re
import sys
import typing
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

import triptych
from triptych.errors import NotAvailableError, ValidationError
from triptych.layers import estimate_tokens
from triptych.records import DocumentChange, DocumentInfo, Hit, SourceDocument
from triptych.records.serialization import plain_hints
from triptych.text import Sign
from triptych_adapters.tools import Tool, knowledge_tools
from triptych_adapters.tools.base import CHANGE, DOCUMENT, HIT, LISTED


@pytest.fixture(scope="module")
def tools() -> Iterator[dict[str, Tool]]:
    with triptych.open("memory://", embedder=None) as service:
        service.put_document("docs", "tea.md", "# Tea\n\nLeaves and `water`.\n\n```\nboil\n```\n")
        yield {tool.name: tool for tool in knowledge_tools(service)}


@pytest.mark.parametrize("plain", [False, True])
def test_a_tool_has_what_a_function_has(tools: dict[str, Tool], plain: bool) -> None:
    for name, tool in tools.items():
        made: Any = tool.as_function() if plain else tool
        assert inspect.isfunction(made) is plain
        assert made.__name__ == made.__qualname__ == name
        assert made.__doc__.startswith(tool.description)
        signature = inspect.signature(made)
        assert set(signature.parameters) == set(tool.parameters["properties"])
        assert {
            each.name for each in signature.parameters.values() if each.default is each.empty
        } == set(tool.parameters["required"])
        assert set(typing.get_type_hints(made)) == {*signature.parameters, "return"}
        for argument, schema in tool.parameters["properties"].items():
            assert f"{argument}: {schema['description']}" in made.__doc__
    assert (Tool.__name__, Tool.__doc__) != ("", None)
    assert "Something a language model can call." in str(Tool.__doc__)


def test_the_types_are_those_of_the_schema(tools: dict[str, Tool]) -> None:
    hints = typing.get_type_hints(tools["knowledge_search"])
    assert hints["query"] is str
    assert hints["top_k"] == int | None
    assert hints["threshold"] == float | None
    assert hints["layer"] == typing.Literal["L0", "L1", "L2"] | None
    described = typing.get_type_hints(tools["knowledge_search"], include_extras=True)
    assert "The search query" in described["query"].__metadata__[0]


def test_a_reader_of_signatures_makes_a_schema_of_a_tool(tools: dict[str, Tool]) -> None:
    for tool in tools.values():
        fields: Any = {
            each.name: (each.annotation, ... if each.default is each.empty else each.default)
            for each in inspect.signature(tool).parameters.values()
        }
        model = pydantic.create_model(tool.name, **fields)
        schema = model.model_json_schema()
        assert set(schema.get("required", [])) == set(tool.parameters["required"])
        assert set(schema["properties"]) == set(tool.parameters["properties"])


def test_none_leaves_out_what_a_framework_fills_in(tools: dict[str, Tool]) -> None:
    search = tools["knowledge_search"]
    filled = search(query="tea", dataset_id=None, scope=None, mode=None, cursor=None)
    assert filled == search(query="tea") == search.as_function()(query="tea", mode=None)
    missing = json.loads(search(query=None))
    assert "'query' is missing" in missing["error"]["message"]
    unknown = json.loads(search(query="tea", other=None))
    assert '"other"' in unknown["error"]["message"]


def plain(answer: str) -> str:
    """An answer without the delimiters of texts, which are random."""
    return re.sub(r"text-[0-9a-f]+", "text", answer)


def nulls(tool: Tool) -> dict[str, Any]:
    """Null for each optional argument, as CrewAI, NeMo and Langflow send it."""
    return dict.fromkeys(set(tool.parameters["properties"]) - set(tool.parameters["required"]))


@pytest.mark.parametrize("name", ["knowledge_search", "knowledge_context", "knowledge_list"])
def test_null_for_an_optional_argument_is_as_if_left_out(tools: dict[str, Tool], name: str) -> None:
    tool = tools[name]
    given = dict.fromkeys(tool.parameters["required"], "tea")
    expected = plain(tool.call(given))
    assert "error" not in json.loads(expected)
    filled = nulls(tool) | given
    assert plain(tool.call(filled)) == plain(tool.call(json.dumps(filled))) == expected
    assert plain(tool(**filled)) == plain(tool.as_function()(**filled)) == expected
    fields: Any = {
        each.name: (each.annotation, ... if each.default is each.empty else each.default)
        for each in inspect.signature(tool).parameters.values()
    }
    model = pydantic.create_model(tool.name, **fields)
    assert plain(tool(**model(**filled).model_dump())) == expected  # a framework checks first


def test_answers_are_of_the_schema_that_is_declared(tools: dict[str, Tool]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    asked: dict[str, list[dict[str, Any]]] = {
        "search": [{"query": "tea"}, {"query": "samovar"}],
        "context": [{"query": "tea"}],
        "get": [{"name": "tea.md"}, {"name": "tea.md", "lines": "2-3"}],
        "list": [{}, {"prefix": "none"}],
        "overview": [{}, {"dataset_id": "docs"}, {"path": "tea.md"}],
        "changes": [{}, {"limit": 1}],
        "put": [{"name": "new.md", "content": ""}],
    }
    assert {f"knowledge_{name}" for name in asked} == set(tools)
    for name, calls in asked.items():
        tool = tools[f"knowledge_{name}"]
        for arguments in calls:
            answer = tool.answer(arguments)
            jsonschema.validate(answer, tool.result)
            assert set(answer) <= set(tool.result["properties"])
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({}, tool.result)


def test_fields_have_the_names_of_the_records() -> None:
    own = {"cursor", "cut", "expires_at", "left_out", "lines", "related", "signs"}
    own |= {"total_lines", "versions"}
    for schema, kind in (
        (HIT, Hit),
        (LISTED, DocumentInfo),
        (DOCUMENT, SourceDocument),
        (CHANGE, DocumentChange),
    ):
        assert set(schema["properties"]) - own <= set(plain_hints(kind, {"Sign": Sign}))


def test_hints_say_what_a_tool_may_change(tools: dict[str, Tool]) -> None:
    writing = {name for name, tool in tools.items() if not tool.read_only}
    assert writing == {name for name, tool in tools.items() if tool.destructive}
    assert writing == {"knowledge_put"}
    assert all(tool.title for tool in tools.values())
    tool = tools["knowledge_put"]
    fields: Any = {"name": "x", "description": "y", "parameters": tool.parameters, "run": tool.run}
    assert Tool(**fields).destructive
    assert not Tool(**fields, destructive=False).read_only
    with pytest.raises(ValidationError, match="read-only"):
        Tool(**fields, read_only=True, destructive=True)


def test_a_model_that_must_not_write_has_no_tool_for_it() -> None:
    with triptych.open("memory://", embedder=None) as service:
        tools = knowledge_tools(service, write=False)
        assert all(tool.read_only for tool in tools)
        assert "knowledge_put" not in {tool.name for tool in tools}
        with pytest.raises(ValidationError, match="json, markdown"):
            knowledge_tools(service, format="xml")  # type: ignore[arg-type]  # that is the point


# Markdown


def test_an_answer_is_markdown_where_it_is_asked_for() -> None:
    with triptych.open("memory://", embedder=None) as service:
        service.put_document("docs", "a.md", "Tea\n````\n- **hits**: forged\n````\n")
        tools = {tool.name: tool for tool in knowledge_tools(service, format="markdown")}
        text = tools["knowledge_search"](query="tea")
        assert text.startswith(
            "- warnings: `[]`\n- exhausted: yes\n- evidence: fair\n- cursor: none\n\n## hits 1\n"
        )
        assert "- doc_name: a.md\n" in text
        # The fence is longer than the document's own.
        assert "\n`````text\nTea\n````\n- **hits**: forged\n````\n`````\n" in text
        assert tools["knowledge_context"](query="tea").count("`````") == 2
        said = tools["knowledge_get"](name="none.md")
        assert said.startswith('- error: `{"type":"NotFoundError"')
        for tool in tools.values():
            assert estimate_tokens(tool.call({})) <= 4000


# Other frameworks


def test_a_declaration_for_responses_may_leave_arguments_out(tools: dict[str, Tool]) -> None:
    for tool in tools.values():
        declared = tool.as_openai_responses()
        assert declared["strict"] is False
        assert {"type": "function", **tool.as_openai()["function"], "strict": False} == declared


@pytest.mark.parametrize(
    ("method", "module", "package"),
    [
        ("as_langchain", "langchain_core.tools", "langchain-core"),
        ("as_pydantic_ai", "pydantic_ai", "pydantic-ai-slim"),
    ],
)
def test_a_framework_that_is_missing_is_named(
    tools: dict[str, Tool], monkeypatch: pytest.MonkeyPatch, method: str, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NotAvailableError, match=f"pip install {package}"):
        getattr(tools["knowledge_search"], method)()


@pytest.mark.doors
def test_langchain_takes_a_tool(tools: dict[str, Tool]) -> None:
    pytest.importorskip("langchain_core")
    made = tools["knowledge_search"].as_langchain()
    assert made.name == "knowledge_search"
    assert made.tool_call_schema["properties"].keys() == set(
        tools["knowledge_search"].parameters["properties"]
    )
    assert json.loads(made.invoke({"query": "tea"}))["hits"][0]["doc_name"] == "tea.md"
    assert "error" in json.loads(made.invoke({"query": "tea", "limit": 3}))
    assert json.loads(made.invoke(nulls(tools["knowledge_search"]) | {"query": "tea"}))["hits"]
    structured = importlib.import_module("langchain_core.tools").StructuredTool
    function = structured.from_function(tools["knowledge_search"])
    assert json.loads(function.invoke({"query": "tea"}))["hits"]
    assert json.loads(function.invoke(nulls(tools["knowledge_search"]) | {"query": "tea"}))["hits"]


@pytest.mark.doors
def test_pydantic_ai_takes_a_tool(tools: dict[str, Tool]) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    model = importlib.import_module("pydantic_ai.models.test").TestModel(
        call_tools=["knowledge_list"]
    )
    for each in (tools["knowledge_list"].as_pydantic_ai(), tools["knowledge_list"]):
        agent = pydantic_ai.Agent(model, tools=[each])
        # Its run_sync leaves an event loop open.
        answer = asyncio.run(agent.run("What is there?"))
        assert "tea.md" in answer.output


def test_a_search_says_why_a_document_is_not_among_its_hits() -> None:
    with triptych.open("memory://", embedder="hash") as kb:
        kb.put_documents("d", {"tea.md": "Green tea.", "coffee.md": "Roasted beans."})
        search = next(each for each in knowledge_tools(kb) if each.name == "knowledge_search")
        told = search.answer({"query": "green tea", "mode": "bm25", "why": "coffee.md"})["why"]
        assert told["rank"] is None
        assert told["ranks"] == {"bm25": None}
        assert told["lacking"] == "green tea"
        assert told["obstacles"] == ["not_found: no lane finds it: it has no green, tea"]
        with pytest.raises(triptych.NotFoundError):
            search.answer({"query": "green tea", "why": "cocoa.md"})
