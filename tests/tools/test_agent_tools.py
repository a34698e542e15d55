"""Tools over a store on disk: a cursor goes on in another process's service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import triptych
from triptych.service import Service
from triptych_adapters.tools import knowledge_tools


def page(service: Service, arguments: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(knowledge_tools(service, max_tokens=300)[0].call(arguments))
    return answer


def test_what_one_service_began_another_reads_on(tmp_path: Path) -> None:
    url = tmp_path / "kb.db"
    arguments: dict[str, Any] = {"query": "samovar", "top_k": 20}
    with triptych.open(url, embedder="hash") as service:
        service.put_documents("home", {f"{at}.md": f"samovar {at} " * 40 for at in range(6)})
        whole = knowledge_tools(service, max_tokens=100_000)[0].call(arguments)
    hits: list[dict[str, Any]] = []
    while "cursor" not in arguments or arguments["cursor"] is not None:
        with triptych.open(url, embedder="hash") as service:
            answer = page(service, arguments)
        hits += answer["hits"]
        arguments["cursor"] = answer["cursor"]
    assert hits == json.loads(whole)["hits"]
    assert len(hits) == 6


def test_a_store_that_is_read_only_says_so_to_the_model(tmp_path: Path) -> None:
    url = tmp_path / "kb.db"
    with triptych.open(url, embedder=None) as service:
        service.put_document("default", "a.md", "samovar")
    with triptych.open(url, embedder=None, read_only=True) as service:
        search, *_, put = knowledge_tools(service)
        assert json.loads(search(query="samovar"))["hits"][0]["doc_name"] == "a.md"
        said = json.loads(put(name="a.md", content="other"))["error"]
    assert "read" in said["message"]
