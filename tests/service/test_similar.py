"""More like this: by the stored vectors of a document or a chunk, with no call of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triptych
from triptych import NotFoundError, Service, ServiceOptions, ValidationError
from triptych.access import Access
from triptych.errors import ModelMismatchError, NotAvailableError
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_models import HashEmbedder
from triptych_testing.fakes import FakeEmbedder

TEXTS = {
    "jobs.md": "# Jobs\n\nThe scheduler runs the jobs at night.\n",
    "night.md": "# Night\n\nAt night the scheduler runs jobs.\n",
    "ferry.md": "# Ferry\n\nThe ferry leaves the harbour at noon.\n",
    "boat.md": "# Boat\n\nA boat leaves the harbour with the ferry.\n",
    "empty.md": "",
}


class Counting(HashEmbedder):
    """Counts what it embeds."""

    asked = 0

    def embed(self, texts: Sequence[str], *, kind: Any) -> Any:
        self.asked += len(texts)
        return super().embed(texts, kind=kind)


class Refusing:
    """A step, a rewriter and a ranker of others: none is asked."""

    def rewrite(self, query: Any) -> Any:
        raise AssertionError("nothing is rewritten")

    def depth(self, query: Any) -> int:
        raise AssertionError("no step runs")

    def __call__(self, query: Any, hits: Any, reader: Any) -> Any:
        raise AssertionError("no step runs")


@pytest.fixture(params=["memory", "sqlite", "postgres", "qdrant"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    with ExitStack() as stack:
        if request.param == "memory":
            store: Any = MemoryStore()
        elif request.param == "postgres":
            from triptych_postgres import PostgresStore

            server = request.getfixturevalue("postgres_server")
            schema = f"similar_{abs(hash(request.node.name)) % 10**9}"
            store = PostgresStore.open(server.schema_url(schema))
        else:
            store = SqliteStore.open(tmp_path / "kb.db", background_index=False)
            if request.param == "qdrant":
                pytest.importorskip("qdrant_client")
                from support.qdrant_local import LocalMode
                from triptych_qdrant import QdrantStore

                store = QdrantStore(store, LocalMode())
        options = ServiceOptions(
            embedder=Counting(), rewriter=Refusing(), postprocessors=[Refusing()]
        )
        service = stack.enter_context(Service(store, options=options))
        service.put_documents("d", TEXTS)
        yield service


def names(result: Any) -> list[str]:
    return [hit.doc_name for hit in result.hits]


def test_the_nearest_of_other_documents_come_first_without_a_call_of_a_model(kb: Service) -> None:
    embedder: Any = kb.options.embedder
    asked = embedder.asked
    for name, near in (("jobs.md", "night.md"), ("ferry.md", "boat.md")):
        result = kb.similar("d", name)
        assert names(result)[0] == near
        assert name not in names(result)
        assert result.warnings == ()
        assert result.evidence is None
    assert embedder.asked == asked
    assert names(kb.dataset("d").similar("jobs.md", top_k=1)) == ["night.md"]


def test_a_document_has_the_mean_of_its_chunks_and_a_chunk_its_own(kb: Service) -> None:
    both = [TEXTS[name].replace("#", "") * 20 for name in ("jobs.md", "ferry.md")]
    kb.put_document("d", "both.md", "# Jobs\n\n{}\n\n# Ferry\n\n{}\n".format(*both))
    chunks = list(kb.chunks.iter_chunks("d", "both.md", vectors=True))
    assert len(chunks) > 1
    mean = np.mean([each.vector for each in chunks if each.vector is not None], axis=0)
    mean /= np.linalg.norm(mean)
    for result, vector in [
        (kb.similar("d", "both.md"), mean),
        *((kb.similar("d", "both.md", chunk=each.index), each.vector) for each in chunks),
    ]:
        assert "both.md" not in names(result)
        for hit in result.hits:
            (chunk,) = kb.chunks.iter_chunks("d", hit.doc_name, vectors=True)
            assert hit.score == pytest.approx(float(chunk.vector @ vector), abs=1e-3)


def test_what_is_not_there_is_named(kb: Service) -> None:
    with pytest.raises(NotFoundError, match=r"no document 'none\.md'"):
        kb.similar("d", "none.md")
    for wrong in ({"chunk": -1}, {"top_k": 0}, {"where": {"$gt": 1}}):
        with pytest.raises(ValidationError):
            kb.similar("d", "jobs.md", **wrong)


def test_filters_hold_and_say_what_no_document_has(kb: Service) -> None:
    kb.update_metadata("d", {"lang": "en"}, names=["ferry.md"])
    assert names(kb.similar("d", "jobs.md", where={"lang": "en"})) == ["ferry.md"]
    (said,) = kb.similar("d", "jobs.md", where={"lnag": "en"}).warnings
    assert said == "no document has 'lnag'; the fields are lang: did you mean 'lang'?"


def test_without_vectors_what_to_do_is_said(kb: Service) -> None:
    kb.put_document("d", "new.md", "The harbour sleeps, and the ferry too.", embed="later")
    for name, chunk in (("new.md", None), ("empty.md", None), ("jobs.md", 7)):
        with pytest.raises(NotAvailableError, match="no vectors to compare"):
            kb.similar("d", name, chunk=chunk)
    with Service(kb.store) as plain, pytest.raises(NotAvailableError, match="embedder"):
        plain.similar("d", "jobs.md")


def test_a_caller_asks_about_what_is_shown_and_finds_no_other(kb: Service) -> None:
    kb.update_metadata("d", {"team": "ours"}, names=["jobs.md", "boat.md", "ferry.md"])
    ours = kb.restricted(Access(where={"team": "ours"}))
    assert set(names(ours.similar("d", "jobs.md"))) == {"boat.md", "ferry.md"}
    with pytest.raises(NotFoundError):
        ours.similar("d", "night.md")


def test_vectors_of_another_model_are_not_compared(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=FakeEmbedder()) as kb:
        kb.put_documents("d", TEXTS)
    with (
        triptych.open(tmp_path / "kb.db", embedder=FakeEmbedder(signature="other/1")) as kb,
        pytest.raises(ModelMismatchError),
    ):
        kb.similar("d", "jobs.md")
