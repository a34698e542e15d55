"""A `ServiceOptions.executor` runs the models elsewhere; what is stored is the same."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import triptych
from triptych import NewDocument
from triptych.errors import CancelledError, DerivationError, ProviderError, ValidationError
from triptych.records import EmbedKind
from triptych_models import HashEmbedder, LocalEmbedder

# Forked from a process with threads a worker may wait for a lock for ever.
PROCESSES = multiprocessing.get_context("spawn")
TEXTS = [
    NewDocument(name=f"{n}.md", content=f"# Page {n}\n\nKettle number {n} boils.")
    for n in range(150)
]


class Recording:
    """Writes down in a folder which process embedded how many texts, and how often it loaded."""

    signature = "recording/64"
    dimension = 64

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / f"loaded-{os.getpid()}-{time.monotonic_ns()}").touch()

    def __reduce__(self) -> tuple[object, ...]:
        return Recording, (self.folder,)

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        (self.folder / f"{kind}-{os.getpid()}-{time.monotonic_ns()}-{len(texts)}").touch()
        return HashEmbedder(64).embed(texts, kind=kind)


class Raising(Recording):
    def __reduce__(self) -> tuple[object, ...]:
        return Raising, (self.folder,)

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        raise TimeoutError("the model's own")


class Dying(Recording):
    def __reduce__(self) -> tuple[object, ...]:
        return Dying, (self.folder,)

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        os._exit(9)


class Waiting:
    signature = "waiting/8"
    dimension = 8

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        time.sleep(600)
        raise AssertionError


class Large(Recording):
    """Its pickle is too long to go with every call."""

    def __init__(self, folder: Path, weights: bytes = bytes(300_000)) -> None:
        super().__init__(folder)
        self.weights = weights

    def __reduce__(self) -> tuple[object, ...]:
        return Large, (self.folder, self.weights)


class Counting(ProcessPoolExecutor):
    """Counts the bytes that it is given."""

    sent = 0

    def submit(self, *arguments: Any, **options: Any) -> Any:
        self.sent += len(pickle.dumps(arguments[1:]))
        return super().submit(*arguments, **options)


class Unpicklable(Recording):
    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("it holds a lock")


def vectors(kb: triptych.Service) -> list[bytes]:
    return [
        chunk.vector.tobytes()
        for chunk in kb.chunks.iter_chunks("default", vectors=True)
        if chunk.vector is not None
    ]


def embedded(folder: Path, kind: str) -> dict[int, int]:
    """How many texts each process embedded."""
    found: dict[int, int] = {}
    for path in folder.glob(f"{kind}-*"):
        _, process, _, texts = path.name.split("-")
        found[int(process)] = found.get(int(process), 0) + int(texts)
    return found


@pytest.mark.process
def test_processes_embed_what_is_put_and_this_one_the_queries(tmp_path: Path) -> None:
    model = Recording(tmp_path)
    with (
        triptych.open("memory://", embedder=HashEmbedder(64)) as plain,
        ProcessPoolExecutor(2, mp_context=PROCESSES) as pool,
        triptych.open("memory://", embedder=model, executor=pool) as kb,
    ):
        plain.put_documents("default", TEXTS)
        kb.put_documents("default", TEXTS)
        assert vectors(kb) == vectors(plain)
        assert kb.search("kettle", scope="all", mode="vector").hits
    texts = embedded(tmp_path, "document")
    assert sum(texts.values()) == len(TEXTS)
    assert os.getpid() not in texts
    assert set(embedded(tmp_path, "query")) == {os.getpid()}
    loaded = [int(path.name.split("-")[1]) for path in tmp_path.glob("loaded-*")]
    assert sorted(loaded) == sorted(set(loaded))


@pytest.mark.process
def test_a_large_model_goes_once_to_each_worker(tmp_path: Path) -> None:
    with (
        Counting(2, mp_context=PROCESSES) as pool,
        triptych.open("memory://", embedder=Large(tmp_path), executor=pool) as kb,
    ):
        for first in range(0, len(TEXTS), 10):
            kb.put_documents("default", TEXTS[first : first + 10])
        assert len(vectors(kb)) == len(TEXTS)
    # A worker may be sent it twice, where two calls begin before it has answered.
    assert pool.sent < 5 * 300_000
    loaded = [path.name.split("-")[1] for path in tmp_path.glob("loaded-*")]
    assert sorted(loaded) == sorted(set(loaded))


def test_an_answer_that_comes_while_the_wait_ends_counts(tmp_path: Path) -> None:
    """`Future.done` is asked after the wait was given up: the answer may have come in between."""

    class Late(Future[Any]):
        def done(self) -> bool:
            if not super().done():
                self.set_result(HashEmbedder(64).embed(["A kettle."], kind="document"))
            return super().done()

    class Slow(Executor):
        def submit(self, *arguments: Any, **options: Any) -> Any:
            return Late()

    with triptych.open("memory://", embedder=Recording(tmp_path), executor=Slow()) as kb:
        kb.put_document("default", "a.md", "A kettle.")
        assert len(vectors(kb)) == 1


def test_calls_that_a_shutdown_cancels_are_named(tmp_path: Path) -> None:
    class Cancelling(Executor):
        def submit(self, *arguments: Any, **options: Any) -> Any:
            future: Future[Any] = Future()
            future.cancel()
            return future

    with (
        triptych.open("memory://", embedder=Recording(tmp_path), executor=Cancelling()) as kb,
        pytest.raises(DerivationError, match="open the knowledge base with a new executor"),
    ):
        kb.put_document("default", "a.md", "A kettle.")


def test_threads_take_the_model_itself(tmp_path: Path) -> None:
    with (
        ThreadPoolExecutor(2, thread_name_prefix="mine") as pool,
        triptych.open("memory://", embedder=Unpicklable(tmp_path), executor=pool) as kb,
    ):
        kb.put_documents("default", TEXTS)
        assert len(vectors(kb)) == len(TEXTS)
        assert pool.submit(threading.current_thread).result().name.startswith("mine")


def test_a_model_that_cannot_be_sent_is_refused_when_the_store_is_opened(tmp_path: Path) -> None:
    with (
        ProcessPoolExecutor(1, mp_context=PROCESSES) as pool,
        pytest.raises(ValidationError, match=r"it holds a lock.*__reduce__"),
    ):
        triptych.open("memory://", embedder=Unpicklable(tmp_path), executor=pool)


@pytest.mark.parametrize("executor", [ThreadPoolExecutor, "processes", 4])
def test_what_is_not_an_executor_is_refused(executor: object) -> None:
    with pytest.raises(ValidationError, match="is not an executor"):
        triptych.open("memory://", embedder="hash", executor=executor)  # type: ignore[arg-type]


@pytest.mark.process
@pytest.mark.parametrize(
    ("model", "message"),
    [(Raising, "the model's own"), (Dying, "has stopped working .BrokenProcessPool")],
)
def test_documents_are_kept_when_a_worker_fails(
    tmp_path: Path, model: type[Recording], message: str
) -> None:
    url = f"sqlite:///{tmp_path}/kb.db"
    with (
        ProcessPoolExecutor(1, mp_context=PROCESSES) as pool,
        triptych.open(url, embedder=model(tmp_path), executor=pool) as kb,
    ):
        with pytest.raises(DerivationError, match=message) as caught:
            kb.put_document("default", "a.md", "A kettle.")
        assert isinstance(caught.value.__cause__, ProviderError)
        assert kb.search("kettle", scope="all", mode="bm25").hits
    with triptych.open(url, embedder=Recording(tmp_path)) as kb:
        assert kb.embed_pending("default").embedded == 1


def test_a_closed_executor_is_named(tmp_path: Path) -> None:
    pool: Executor = ThreadPoolExecutor(1)
    pool.shutdown()
    with (
        triptych.open("memory://", embedder=Recording(tmp_path), executor=pool) as kb,
        pytest.raises(DerivationError, match="open the knowledge base with a new executor"),
    ):
        kb.put_document("default", "a.md", "A kettle.")


@pytest.mark.process
def test_a_deadline_ends_the_wait_for_a_worker() -> None:
    pool = ProcessPoolExecutor(1, mp_context=PROCESSES)
    try:
        with (
            triptych.open("memory://", embedder=Waiting(), executor=pool) as kb,
            triptych.deadline(1.0),
            pytest.raises(CancelledError),
        ):
            kb.put_document("default", "a.md", "A kettle.")
    finally:
        for process in list(pool._processes.values()):
            process.kill()
        pool.shutdown()


@pytest.mark.process
def test_a_dask_cluster_embeds(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=tmp_path
        ) as cluster,
        distributed.Client(cluster) as client,
        triptych.open("memory://", embedder="hash", executor=client.get_executor()) as kb,
        triptych.open("memory://", embedder="hash") as plain,
    ):
        kb.put_documents("default", TEXTS)
        plain.put_documents("default", TEXTS)
        assert vectors(kb) == vectors(plain)


def test_a_local_model_is_made_again_where_it_is_sent() -> None:
    sent = pickle.loads(pickle.dumps(LocalEmbedder(threads=1)))
    assert sent._workers.asked == 1
    texts = ["A kettle boils."]
    here = LocalEmbedder(threads=1).embed(texts, kind="document")
    assert np.array_equal(sent.embed(texts, kind="document"), here)
