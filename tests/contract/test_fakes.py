"""The kit's own stand-ins keep the contracts of what they stand for."""

import os
import subprocess
import sys

import numpy as np
import pytest

from triptych import Message
from triptych.errors import ProviderError, StoreError
from triptych_backends.memory import MemoryStore
from triptych_testing import Harness, run_stateful
from triptych_testing.builders import fill
from triptych_testing.fakes import (
    CoveringEmbedder,
    Failing,
    FakeEmbedder,
    ScriptedLLM,
    failing_store,
)


def test_a_store_behind_counting_wrappers_is_a_store() -> None:
    run_stateful(Harness(open=lambda: failing_store(MemoryStore())), examples=20)


def test_fake_embeddings_are_unit_rows_that_depend_on_text_and_model_alone() -> None:
    first, second = FakeEmbedder(dimension=24), FakeEmbedder(dimension=24)
    vectors = first.embed(["a", "b", "a"], kind="document")
    assert vectors.shape == (3, 24)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert np.array_equal(vectors[0], vectors[2])
    assert not np.array_equal(vectors[0], vectors[1])
    assert np.array_equal(second.embed(["a"], kind="query")[0], vectors[0])
    other = FakeEmbedder("fake/2", dimension=24).embed(["a"], kind="query")
    assert not np.array_equal(other[0], vectors[0])
    assert first.embed([], kind="query").shape == (0, 24)


def test_fake_embedder_counts_and_fails_where_it_is_told_to() -> None:
    embedder = FakeEmbedder(failures={2: ProviderError("down")})
    embedder.embed(["a", "b"], kind="document")
    with pytest.raises(ProviderError, match="down"):
        embedder.embed(["c"], kind="document")
    embedder.embed(["d"], kind="query")
    assert (embedder.calls, embedder.texts) == (3, ["a", "b", "d"])


def test_covering_embedder_tells_its_coverage() -> None:
    embedder = CoveringEmbedder()
    assert not hasattr(FakeEmbedder(), "coverage")
    assert (embedder.coverage("abc"), embedder.coverage("灯塔"), embedder.coverage("")) == (1, 0, 0)
    assert embedder.coverage("ab灯塔") == embedder.coverage_floor


def test_scripted_model_says_its_lines_in_order() -> None:
    model = ScriptedLLM("one two", ProviderError("down"), "three\nfour")
    messages = [Message("user", "say it now")]
    answer = model.generate(messages, max_tokens=9)
    assert (answer.text, answer.usage.input_tokens, answer.usage.output_tokens) == ("one two", 3, 2)
    with pytest.raises(ProviderError, match="down"):
        model.generate(messages, max_tokens=9)
    assert list(model.stream(messages, max_tokens=7)) == ["three\n", "four"]
    with pytest.raises(ProviderError, match="no more"):
        model.generate(messages, max_tokens=9)
    assert [ceiling for _, ceiling in model.requests] == [9, 9, 7, 9]


def test_failing_wrapper_fails_as_often_as_it_is_told_to() -> None:
    store = MemoryStore()
    documents = Failing(store.documents, {"list_datasets": StoreError("full")}, times=2)
    for _ in range(2):
        with pytest.raises(StoreError, match="full"):
            documents.list_datasets()
    assert documents.list_datasets() == []
    assert documents.get("d", "a") is None
    assert documents.counts == {"list_datasets": 3, "get": 1}
    store.close()


def test_failing_store_fails_in_the_named_method_and_nowhere_else() -> None:
    store = failing_store(MemoryStore(), chunks_replace=StoreError("full"))
    with pytest.raises(StoreError, match="full"):
        fill(store, "d", {"a": "text"})
    assert store.documents.get("d", "a") is not None
    assert store.chunks.get_doc_sig("d", "a") is None
    store.close()


def test_wrapper_has_the_capabilities_of_what_it_wraps() -> None:
    store = MemoryStore()
    wrapped = Failing(store, {"get_setting": StoreError("full")})
    assert wrapped.capabilities.versions is store.documents
    with pytest.raises(StoreError, match="full"):
        wrapped.capabilities.settings.get_setting("key")
    failing = failing_store(store)
    assert failing.capabilities.versions is failing.documents
    assert failing.capabilities.settings is store
    store.close()


def test_the_fakes_and_the_kits_processes_need_no_test_runner() -> None:
    code = (
        "import sys\n"
        "from triptych_testing import FakeEmbedder\n"
        "import triptych_testing.work\n"
        "sys.exit(', '.join({'pytest', 'hypothesis'} & set(sys.modules)) or 0)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
