"""Layers of a knowledge base on a server are built there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import triptych
from support.cli_run import ran
from support.servers import served
from triptych.errors import AccessDeniedError, NotAvailableError, NotFoundError
from triptych.records import Layer
from triptych_server.client import connect
from triptych_server.keys import KeyStore, authenticator

TEA = "# Tea\n\nA pot of tea is warm for an hour. It is made of leaves and of water.\n"


@pytest.fixture
def kb() -> Iterator[triptych.Service]:
    with triptych.open("memory://", embedder="hash") as opened:
        opened.put_documents("default", {"a/tea.md": TEA, "b/milk.md": TEA.replace("Tea", "Milk")})
        yield opened


def test_they_are_built_there_and_once(kb: triptych.Service) -> None:
    with served(kb, write=True) as url:
        built = ran(["layers", "build", "--llm", "none", "--store", url, "--json"])
        assert built.code == 0, built.err
        assert built.json["report"]["made"] == 10
        here = kb.layer("default", "a/tea.md", Layer.ABSTRACT)
        assert here is not None
        assert "pot of tea" in here.content
        assert kb.dataset_layer("default", Layer.OVERVIEW) is not None
        with connect(url) as remote:
            again = remote.build_layers("default", max_calls=3)
            assert (again.report.made, again.dataset_id) == (0, "default")
            kb.put_document("default", "a/tea.md", TEA.replace("hour", "day"))
            some = remote.build_layers("default", names=["a/tea.md"])
            assert some.report.made >= 2
            with pytest.raises(NotFoundError, match=r"none\.md"):
                remote.build_layers("default", names=["none.md"])
        shown = ran(["layers", "build", "--store", url])
        assert "made" in shown.text


def test_what_the_server_decides_is_refused(kb: triptych.Service) -> None:
    with served(kb, write=True) as url:
        for option in (["--llm", "ollama:x"], ["--max-cost", "1"]):
            refused = ran(["layers", "build", *option, "--store", url])
            assert refused.code == 2, refused.err
            assert "--max-calls" in refused.err
    with served(kb) as url, connect(url) as remote, pytest.raises(NotAvailableError):
        remote.build_layers("default")


def test_only_who_may_write_all_documents_builds_layers(kb: triptych.Service) -> None:
    keys = KeyStore.of(kb)
    filtered = keys.add("some", where={"doc_prefix": "a/"}, can_write=True).token
    reader = keys.add("reader").token
    writer = keys.add("writer", can_write=True, dataset_ids=["default"]).token
    with served(kb, write=True, authenticate=authenticator(kb)) as url:
        for key in (filtered, reader):
            with connect(url, key=key) as remote, pytest.raises(AccessDeniedError):
                remote.build_layers("default")
        assert kb.layers("default") == []
        with connect(url, key=writer) as remote:
            assert remote.build_layers("default").report.made == 10
            with pytest.raises(NotFoundError):
                remote.build_layers("other")
