"""A call of each operation, one after another on an empty store, and what its answer holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CALLS: list[tuple[str, dict[str, Any], Callable[[Any], bool]]] = [
    ("create_dataset", {"dataset_id": "d", "language": "english"}, lambda it: it is True),
    (
        "configure_dataset",
        {"dataset_id": "d", "language": "german"},
        lambda it: it["language"] == "german",
    ),
    (
        "put_document",
        {"dataset_id": "d", "name": "g/a.md", "content": "Tea.", "metadata": {"lang": "en"}},
        lambda it: it["version"] == 1,
    ),
    (
        "put_documents",
        {
            "dataset_id": "d",
            "documents": [
                {"name": "g/a.md", "content": "Tea is hot.", "metadata": None},
                {"name": "b.md", "content": "Water is wet."},
            ],
        },
        lambda it: (it["added"], it["updated"]) == (1, 1),
    ),
    (
        "embed_pending",
        {"dataset_id": "d", "doc_names": ["b.md"]},
        lambda it: it["pending"] == 0,
    ),
    ("get_document", {"dataset_id": "d", "name": "b.md"}, lambda it: it["content"][:5] == "Water"),
    ("list_documents", {"dataset_id": "d", "limit": 1}, lambda it: it[0]["name"] == "b.md"),
    (
        "list_documents",
        {"dataset_id": "d", "sort": "-$name", "where": {"lang": {"$exists": False}}},
        lambda it: [each["name"] for each in it] == ["b.md"],
    ),
    ("count_documents", {"dataset_id": "d", "where": {"lang": "en"}}, lambda it: it == 1),
    (
        "update_metadata",
        {
            "dataset_id": "d",
            "changes": {"day": {"$date": "2026-09-01"}, "gone": None},
            "names": ["b.md", "none"],
        },
        lambda it: (it["updated"], it["missing"]) == (1, ["none"]),
    ),
    (
        "get_document",
        {"dataset_id": "d", "name": "b.md"},
        lambda it: it["metadata"] == {"day": {"$date": "2026-09-01"}},
    ),
    (
        "changes",
        {"limit": 1},
        lambda it: ([each["kind"] for each in it["changes"]], it["more"]) == (["added"], True),
    ),
    ("list_datasets", {}, lambda it: it == ["d"]),
    ("history", {"dataset_id": "d", "name": "g/a.md"}, lambda it: len(it) == 2),
    ("diff", {"dataset_id": "d", "name": "g/a.md", "old": 1}, lambda it: "+Tea is hot." in it),
    (
        "restore",
        {"dataset_id": "d", "name": "g/a.md", "version": 1, "if_version": 2},
        lambda it: it["content"] == "Tea.",
    ),
    (
        "search",
        {"query": "tea", "dataset_id": "d", "where": {"lang": ["en", "de"]}, "top_k": 3.0},
        lambda it: [hit["doc_name"] for hit in it["hits"]] == ["g/a.md"],
    ),
    (
        "search_documents",
        {"query": "tea", "scope": "all", "mode": "bm25", "min_scores": {"bm25": 0}},
        lambda it: it["hits"][0]["layer"] is None,
    ),
    (
        "search_many",
        {"queries": ["tea", "water"], "dataset_id": "d"},
        lambda it: [each["hits"][0]["doc_name"] for each in it] == ["g/a.md", "b.md"],
    ),
    (
        "explain",
        {"query": "tea", "doc_name": "b.md", "dataset_id": "d", "mode": "bm25"},
        lambda it: it["lacking"] == ["tea"] and it["obstacles"][0]["kind"] == "not_found",
    ),
    (
        "similar",
        {"dataset_id": "d", "name": "g/a.md", "chunk": 0, "top_k": 1},
        lambda it: [each["doc_name"] for each in it["hits"]] == ["b.md"],
    ),
    (
        "context",
        {"query": "tea", "token_budget": 200, "dataset_id": "d", "layers": ["L2"]},
        lambda it: it["pieces"][0]["citation"]["text"] == "Tea.",
    ),
    (
        "ask",
        {
            "question": "tea",
            "dataset_id": "d",
            "conversation": [{"role": "user", "content": "Hello."}],
            "prices": {"input": 1.0, "output": 2.0},
        },
        lambda it: (it["text"], it["citations"][0]["number"]) == ("It is tea [1].", 1),
    ),
    (
        "put_document_layer",
        {"dataset_id": "d", "name": "b.md", "layer": "L0", "content": "Of water."},
        lambda it: it["stale"] is None,
    ),
    (
        "put_folder_layer",
        {
            "dataset_id": "d",
            "folder": "g/",
            "layer": "L1",
            "content": "Of tea.",
            "summaries": [{"name": "g/a.md", "abstract": "Tea."}],
        },
        lambda it: it["doc_name"] == "g/",
    ),
    (
        "put_dataset_layer",
        {"dataset_id": "d", "layer": "L0", "content": "Of drinks."},
        lambda it: it["doc_name"] == "",
    ),
    (
        "context_prefix",
        {"prefix_tokens": 99, "dataset_ids": ["d"], "where": {"doc_name": "b.md"}},
        lambda it: it["text"] == "[1] d/b.md abstract\n Of water.\n",
    ),
    ("layer", {"dataset_id": "d", "name": "b.md", "layer": "L1"}, lambda it: it is None),
    ("dataset_layer", {"dataset_id": "d", "layer": "L0"}, lambda it: it["content"][:2] == "Of"),
    ("layers", {"dataset_id": "d"}, lambda it: len(it) == 3),
    ("rebuild", {"dataset_id": "d", "doc_name": "b.md"}, lambda it: it["fresh"] == 1),
    ("cache_stats", {}, lambda it: it == {"entries": 0, "hits": 0, "misses": 0}),
    ("stats", {"dataset_id": "d"}, lambda it: it[0]["documents"] == 2),
    ("health", {"probe": False}, lambda it: it["ok"]),
    ("doctor", {"repair": True}, lambda it: it["clean"]),
    ("delete_document", {"dataset_id": "d", "name": "b.md", "if_version": 2}, lambda it: it),
    (
        "delete_documents",
        {"dataset_id": "d", "where": {"$name": "c.md"}},
        lambda it: it["deleted"] == [],
    ),
    ("remove_expired", {"dataset_id": "d"}, lambda it: it == 0),
    ("recreate", {"dataset_id": "d"}, lambda it: it is True),
    ("purge", {"dataset_id": "d", "name": "b.md"}, lambda it: it["existed"] is False),
    ("delete_dataset", {"dataset_id": "other"}, lambda it: it is False),
]
"""Name, arguments as JSON has them, and whether the JSON of the answer is right."""
