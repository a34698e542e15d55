"""What is invalid is refused by name, by every method alike, and nothing is lost by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triptych
from support.rows import each_row
from support.servers import served
from triptych import (
    ConflictError,
    Dataset,
    NewDocument,
    NotFoundError,
    Query,
    Service,
    ValidationError,
)
from triptych.access import Access
from triptych.records import DocumentSummary
from triptych.search import Pipeline
from triptych_testing.fakes import ScriptedLLM

SURROGATE = "a\ud800b"
NO_TEXT: list[Any] = [None, 3, 1.5, True, b"x", ["x"], {"x": 1}, object(), SURROGATE]


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = "memory://" if request.param == "memory" else tmp_path / "kb.db"
    with triptych.open(url, embedder="hash") as kb:
        kb.put_document("d", "a.md", "# Zebra\n\nA zebra has stripes.\n", {"kind": "markdown"})
        kb.put_document_layer("d", "a.md", "L0", "Zebras have stripes.")
        before = state(kb)
        yield kb
        assert state(kb) == before, "a refused call changed something"
        assert kb.search("zebra stripes", dataset_id="d").hits[0].doc_name == "a.md"


def state(kb: Service) -> Any:
    return [
        (
            name,
            [kb.get_document(name, info.name) for info in kb.list_documents(name)],
            kb.stats(name),
        )
        for name in kb.list_datasets()
    ]


def docs(kb: Service) -> Dataset:
    return kb.dataset("d")


TAKES_DATASET: dict[str, Callable[[Service, Any], object]] = {
    "dataset": lambda kb, x: kb.dataset(x),
    "configure_dataset": lambda kb, x: kb.configure_dataset(x, language="english"),
    "dataset_layer": lambda kb, x: kb.dataset_layer(x, "L0"),
    "delete_dataset": lambda kb, x: kb.delete_dataset(x),
    "delete_document": lambda kb, x: kb.delete_document(x, "a.md"),
    "diff": lambda kb, x: kb.diff(x, "a.md", 1),
    "get_document": lambda kb, x: kb.get_document(x, "a.md"),
    "history": lambda kb, x: kb.history(x, "a.md"),
    "restore": lambda kb, x: kb.restore(x, "a.md", 1),
    "layer": lambda kb, x: kb.layer(x, "a.md", "L0"),
    "layers": lambda kb, x: kb.layers(x),
    "list_documents": lambda kb, x: kb.list_documents(x),
    "purge": lambda kb, x: kb.purge(x),
    "put_dataset_layer": lambda kb, x: kb.put_dataset_layer(x, "L0", "text"),
    "put_document": lambda kb, x: kb.put_document(x, "b.md", "text"),
    "put_document_layer": lambda kb, x: kb.put_document_layer(x, "a.md", "L0", "text"),
    "put_documents": lambda kb, x: kb.put_documents(x, {"b.md": "text"}),
    "rebuild": lambda kb, x: kb.rebuild(dataset_id=x),
    "search": lambda kb, x: kb.search("zebra", dataset_id=x),
    "search_documents": lambda kb, x: kb.search_documents("zebra", dataset_id=x),
    "stats": lambda kb, x: kb.stats(x),
}
TAKES_NAME: dict[str, Callable[[Dataset, Any], object]] = {
    "delete": lambda docs, x: docs.delete(x),
    "diff": lambda docs, x: docs.diff(x, 1),
    "get": lambda docs, x: docs.get(x),
    "history": lambda docs, x: docs.history(x),
    "restore": lambda docs, x: docs.restore(x, 1),
    "layer": lambda docs, x: docs.layer(x, "L0"),
    "list after": lambda docs, x: docs.list(after=x),
    "list prefix": lambda docs, x: docs.list(prefix=x),
    "purge": lambda docs, x: docs.purge(x),
    "put": lambda docs, x: docs.put(x, "text"),
    "put_layer": lambda docs, x: docs.put_layer(x, "L0", "text"),
    "rebuild": lambda docs, x: docs.rebuild(x),
}
TAKES_TEXT: dict[str, Callable[[Dataset, Any], object]] = {
    "content": lambda docs, x: docs.put("b.md", x),
    "layer": lambda docs, x: docs.put_layer("a.md", "L0", x),
    "dataset layer": lambda docs, x: docs.put_dataset_layer("L0", x),
    "prompt_sig": lambda docs, x: docs.put_layer("a.md", "L0", "text", prompt_sig=x),
    "dataset prompt_sig": lambda docs, x: docs.put_dataset_layer("L0", "text", prompt_sig=x),
    "summary": lambda docs, x: docs.put_dataset_layer(
        "L0", "text", summaries=[DocumentSummary(name="a.md", abstract=x)]
    ),
    "sync_root": lambda docs, x: NewDocument(
        name="b.md",
        content="text",
        sync_root=0 if x is None else x,  # type: ignore[arg-type]
    ),
    "parser_sig": lambda docs, x: NewDocument(name="b.md", content="text", parser_sig=x),
    "language": lambda docs, x: docs.service.configure_dataset("d", language=x),
    "query": lambda docs, x: docs.search(x),
    "one of many queries": lambda docs, x: docs.search_many(["zebra", x]),
    "mode": lambda docs, x: docs.search("zebra", mode=x if x is not None else 0),
    "layer kind": lambda docs, x: docs.search("zebra", layer=x),
    "scope": lambda docs, x: docs.search("zebra", scope=x),
}


@each_row("method", TAKES_DATASET)
def test_a_dataset_id_is_text_for_every_method(kb: Service, method: str) -> None:
    # None is every dataset for `stats`.
    for value in NO_TEXT if method != "stats" else NO_TEXT[1:]:
        with pytest.raises(ValidationError):
            TAKES_DATASET[method](kb, value)


@each_row("method", TAKES_NAME)
def test_a_name_is_text_for_every_method(kb: Service, method: str) -> None:
    for value in NO_TEXT:
        with pytest.raises(ValidationError):
            TAKES_NAME[method](docs(kb), value)


@each_row("argument", TAKES_TEXT)
def test_a_text_is_text_everywhere(kb: Service, argument: str) -> None:
    for value in NO_TEXT:
        with pytest.raises(ValidationError):
            TAKES_TEXT[argument](docs(kb), value)


@each_row(
    "metadata",
    [
        *(3, "title", ["title"], {1: "x"}, {SURROGATE: "x"}, {b"k": "x"}),
        *({"k": None}, {"k": b"x"}, {"k": SURROGATE}),
    ],
    ids=repr,
)
def test_metadata_maps_text_to_values(kb: Service, metadata: Any) -> None:
    with pytest.raises(ValidationError, match="metadata"):
        docs(kb).put("b.md", "text", metadata)


@each_row(
    "fields",
    [
        {"top_k": True},
        {"top_k": 10**30},
        {"top_k": 3.0},
        {"top_k": np.float32(1)},
        {"threshold": math.nan},
        {"threshold": 10**400},
        {"threshold": True},
        {"min_scores": {"bm25": math.nan}},
        {"min_scores": {"bm25": "0.5"}},
        {"min_scores": {"bm26": 0.5}},
        {"min_scores": [0.5]},
        {"fresh_only": "no"},
        {"where": {"kind": None}},
        {"where": {"kind": [None]}},
        {"where": {"kind": {"$is": "x"}}},
        {"where": {"doc_name": 3}},
        {"where": {3: "x"}},
        {"where": {SURROGATE: "x"}},
        {"where": {"doc_prefix": [SURROGATE]}},
        {"where": "kind=markdown"},
        {"topk": 3},
        {"dataset_id": "d"},
        {"dataset_id": "other"},
    ],
    ids=lambda fields: repr(fields)[:40].encode("ascii", "replace").decode(),
)
@each_row("query", ["zebra", Query(text="zebra")], ids=["text", "Query"])
def test_an_invalid_field_is_refused(kb: Service, query: Any, fields: Any) -> None:
    with pytest.raises(ValidationError):
        docs(kb).search(query, **fields)
    with pytest.raises(ValidationError):
        docs(kb).search_many([query], **fields)


@each_row(
    ("name", "instead"),
    [("add", "put"), ("upsert", "put"), ("add_texts", "put_many"), ("query", "search")],
)
def test_an_unknown_method_of_a_dataset_is_named_with_the_one_that_is_meant(
    kb: Service, name: str, instead: str
) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}': '{instead}' does that") as e:
        getattr(docs(kb), name)
    assert e.value.name == name
    assert callable(getattr(docs(kb), instead))
    with pytest.raises(AttributeError, match=r"no attribute 'zebra'$"):
        _ = docs(kb).zebra
    assert not hasattr(docs(kb), "_repr_html_")


@each_row("query", ["zebra", Query(text="zebra")], ids=["text", "Query"])
@each_row(
    ("option", "says"),
    [
        ("limit", "the number of hits is 'top_k'"),
        ("n_results", "the number of hits is 'top_k'"),
        ("similarity_top_k", "the number of hits is 'top_k'"),
        ("filters", "conditions are 'where'"),
        ("where_document", "a phrase in the query"),
        ("topk", "the options are mode, layer, threshold,"),
    ],
)
def test_an_unknown_option_is_named_with_the_one_that_is_meant(
    kb: Service, query: Any, option: str, says: str
) -> None:
    fields: Any = {option: 3}
    with pytest.raises(ValidationError) as raised:
        docs(kb).search(query, **fields)
    assert str(raised.value).startswith(f"a search has no option {option!r}: ")
    assert says in str(raised.value)
    assert "__init__" not in str(raised.value)


def test_the_words_of_other_libraries_are_answered_with_ours(kb: Service) -> None:
    with pytest.raises(AttributeError, match="'get_or_create_collection': 'dataset' does that"):
        _ = kb.get_or_create_collection
    with pytest.raises(AttributeError, match=r"no attribute 'zebra'$"):
        _ = kb.zebra
    with pytest.raises(ValidationError, match=r"write \{'\$not': \{'tags': \{'\$contains'"):
        docs(kb).search("zebra", where={"tags": {"$not_contains": "drink"}})


@each_row(
    ("option", "value", "says"),
    [
        ("pipelines", Pipeline(name="a"), "pipelines is a list"),
        ("retrievers", object(), "retrievers is a list"),
        ("postprocessors", "rerank", "postprocessors is a list"),
        ("rewriter", "hyde", "'hyde' has no method rewrite"),
    ],
)
def test_an_option_of_another_form_is_named(option: str, value: Any, says: str) -> None:
    options: Any = {option: value}
    with pytest.raises(ValidationError, match=says):
        triptych.open("memory://", embedder=None, **options)


def test_a_view_does_not_search_another_dataset_in_silence(kb: Service) -> None:
    with pytest.raises(ValidationError, match="'d', and the query names 'other'"):
        docs(kb).search(Query(text="zebra", dataset_id="other"))


def test_a_query_can_be_used_again(kb: Service) -> None:
    query = Query(
        text="zebra", dataset_id="d", where={"kind": ["markdown"]}, min_scores={"bm25": 0}
    )
    assert kb.search(query) == kb.search(query) == docs(kb).search(query)


@each_row("queries", ["zebra", Query(text="zebra"), None, 3], ids=repr)
def test_one_query_is_not_many(kb: Service, queries: Any) -> None:
    with pytest.raises(ValidationError, match="search_many"):
        docs(kb).search_many(queries)


@each_row("limit", [-1, True, 1.5, "3", b"3", [3]], ids=repr)
def test_a_limit_is_a_count(kb: Service, limit: Any) -> None:
    with pytest.raises(ValidationError, match="limit"):
        docs(kb).list(limit=limit)


def test_a_limit_beyond_all_documents_lists_all(kb: Service) -> None:
    assert [info.name for info in docs(kb).list(limit=10**30)] == ["a.md"]


@each_row("version", [-1, True, "1", 1.0], ids=repr)
def test_a_version_is_a_count(kb: Service, version: Any) -> None:
    with pytest.raises(ValidationError):
        docs(kb).put("a.md", "text", if_version=version)
    with pytest.raises(ValidationError):
        docs(kb).put_layer("a.md", "L0", "text", source_version=version)


def test_a_version_that_never_was_is_a_conflict(kb: Service) -> None:
    with pytest.raises(ConflictError):
        docs(kb).put("a.md", "text", if_version=10**30)
    with pytest.raises(ConflictError):
        docs(kb).put_layer("a.md", "L0", "text", source_version=10**30)


@each_row("summaries", [3, "text", ["text"], [None]], ids=repr)
def test_summaries_are_records(kb: Service, summaries: Any) -> None:
    with pytest.raises(ValidationError, match="DocumentSummary"):
        docs(kb).put_dataset_layer("L0", "text", summaries=summaries)


@each_row("documents", [None, 3, "a.md", b"a.md"], ids=repr)
def test_a_bulk_put_takes_documents(kb: Service, documents: Any) -> None:
    with pytest.raises(ValidationError, match="NewDocument"):
        docs(kb).put_many(documents)


@each_row("seconds", [-1, math.nan, "3", True, [1]], ids=repr)
def test_a_deadline_is_a_number_of_seconds(seconds: Any) -> None:
    with pytest.raises(ValidationError, match="seconds"), triptych.deadline(seconds):
        pass


def test_progress_can_be_called(kb: Service) -> None:
    nothing: Any = 3
    with pytest.raises(ValidationError, match="progress"):
        docs(kb).put_many({"b.md": "text"}, progress=nothing)
    with pytest.raises(ValidationError, match="progress"):
        docs(kb).rebuild(progress=nothing)


@each_row("scope", ["d", 3, Query(text="d")], ids=["text", "number", "record"])
def test_a_scope_is_a_scope(kb: Service, scope: Any) -> None:
    with pytest.raises(ValidationError, match="RebuildScope"):
        kb.rebuild(scope)


def test_a_name_that_is_not_text_never_purges_the_dataset(kb: Service) -> None:
    # None is how `Service.purge` is told to erase a whole dataset.
    nothing: Any = None
    with pytest.raises(ValidationError, match="document name"):
        docs(kb).purge(nothing)


def test_names_that_cannot_be_stored_are_not_found_rather_than_an_error(kb: Service) -> None:
    for name in ("a\0b", "", " ", "x" * 1025, "folder/"):
        with pytest.raises(NotFoundError):
            docs(kb).get(name)
        assert docs(kb).delete(name) is False
        with pytest.raises(NotFoundError):
            kb.get_document(name, "a.md")
        assert kb.delete_dataset(name) is False


def test_after_a_deadline_of_nothing_nothing_is_stored(kb: Service) -> None:
    calls: list[Callable[[], object]] = [
        lambda: docs(kb).put("b.md", "text"),
        lambda: docs(kb).put_many({"b.md": "text"}),
        lambda: docs(kb).put_layer("a.md", "L1", "text"),
        lambda: docs(kb).put_dataset_layer("L1", "text"),
        lambda: docs(kb).rebuild(),
        lambda: docs(kb).rebuild("a.md"),
        lambda: docs(kb).search("zebra"),
        lambda: docs(kb).search_many(["zebra"]),
    ]
    for call in calls:
        with triptych.deadline(0), pytest.raises(triptych.CancelledError):
            call()


def test_without_a_name_a_view_is_of_the_only_dataset_and_an_empty_name_of_none() -> None:
    with triptych.open("memory://", embedder=None) as kb:
        with pytest.raises(NotFoundError, match="no dataset yet"):
            kb.dataset()
        kb.put_document("tenant", "a.md", "An anchor.")
        assert [hit.doc_name for hit in kb.dataset().search("anchor").hits] == ["a.md"]
        # What a program has of a variable that is not set reads nobody's data.
        for unset in ("", " ", None):
            with pytest.raises(ValidationError):
                kb.dataset(unset)  # type: ignore[arg-type]  # None is no name
        kb.put_document("other", "b.md", "An anchor.")
        with pytest.raises(ValidationError, match="'other', 'tenant'"):
            kb.dataset()
        mine = kb.restricted(Access(dataset_ids=["other"]))
        assert mine.dataset().dataset_id == "other"


def asked(kb: Service, **where: Any) -> list[Callable[[], Any]]:
    """A call of each method that searches."""
    return [
        lambda: kb.search("anchor", **where),
        lambda: kb.search(Query(text="anchor", **where)),
        lambda: kb.search_documents("anchor", **where),
        lambda: kb.search_many(["anchor", Query(text="anchor")], **where),
        lambda: kb.explain("anchor", "a.md", **where),
        lambda: kb.context("anchor", 500, **where),
        lambda: kb.context_prefix(500, **where),
        lambda: kb.ask("anchor", **where),
        lambda: kb.ask_stream("anchor", **where),
    ]


@each_row("remote", [False, True])
def test_the_only_dataset_need_not_be_named_to_be_searched(remote: bool) -> None:
    with ExitStack() as stack:
        llm = ScriptedLLM(*["It is [1]."] * 9)
        kb = stack.enter_context(triptych.open("memory://", embedder="hash", llm=llm))
        there = kb
        if remote:
            there = stack.enter_context(triptych.open(stack.enter_context(served(kb))))
        for call in asked(there):
            with pytest.raises(NotFoundError, match="no dataset yet"):
                call()
        kb.put_document("tenant", "a.md", "An anchor.")
        assert [hit.dataset_id for hit in there.search("anchor").hits] == ["tenant"]
        assert there.context("anchor", 500).receipt.query.dataset_id == "tenant"
        for call in asked(there):
            call()
        # What a program has of a variable that is not set reads nobody's data.
        for unset in ("", None):
            for call in asked(there, dataset_id=unset)[:3]:
                with pytest.raises(ValidationError, match="name a dataset_id"):
                    call()
        kb.put_document("other", "b.md", "An anchor.")
        for call in asked(there):
            with pytest.raises(ValidationError, match=r"'other', 'tenant'.*scope='all'"):
                call()
        mine = kb.restricted(Access(dataset_ids=["other"]))
        assert [hit.doc_name for hit in mine.search("anchor").hits] == ["b.md"]
        both = kb.restricted(Access(dataset_ids=["other", "third"]))
        kb.put_document("third", "c.md", "An anchor.")
        with pytest.raises(ValidationError, match=r"\('other', 'third'\)"):
            both.search("anchor")
