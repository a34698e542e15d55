"""Four workers on one dataset derive each document once, also when one of them is killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.embed_script import asked
from support.postgres import PostgresServer, running_server
from support.work_script import DOCUMENTS, MOST_IN_FLIGHT, notes, open_store, run

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no O_APPEND for this log"),
    pytest.mark.process,
]

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["support.work_script", "triptych_backends.postgres"])

ROUNDS = int(os.environ.get("TRIPTYCH_WORKER_ROUNDS", "50"))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


def killed_at_random(url: str, folder: Path, seed: int | None) -> None:
    """One round: ``seed`` says who is killed and when, None that nobody is."""
    log = folder / "asked.log"
    with open_store(url, log) as kb:
        kb.put_documents("d", notes(), embed="later")
    opened = CONTEXT.Barrier(5)
    counts = [folder / f"worker{number}" for number in range(4)]
    workers = [CONTEXT.Process(target=run, args=(url, log, opened, each)) for each in counts]
    victim = None
    try:
        for each in workers:
            each.start()
        opened.wait(120)
        if seed is not None:
            chance = random.Random(seed)
            victim, moment = chance.choice(workers), chance.randrange(1, DOCUMENTS * 3 // 4)
            end = time.monotonic() + 120
            while len(asked(log)) < moment:
                assert time.monotonic() < end
                time.sleep(0.001)
            victim.kill()
        for each in workers:
            each.join(240)
            assert each is victim or each.exitcode == 0
    finally:
        for each in workers:
            each.kill()
    done = sum(int(each.read_text()) for each in counts if each.exists())
    texts = Counter(text for _, text in asked(log))
    assert set(texts) == {repr(text) for text in notes().values()}
    twice = {text for text, times in texts.items() if times > 1}
    assert max(texts.values()) <= 2
    if victim is None:
        assert (done, twice) == (DOCUMENTS, set())
    else:
        its = {text for call, text in asked(log) if call.startswith(f"{victim.pid}/")}
        assert twice <= its, "only what the killed one was asking for is asked again"
        assert len(twice) <= MOST_IN_FLIGHT
        assert done >= DOCUMENTS - len(its)
    with open_store(url, log) as kb:
        (stats,) = kb.stats("d")
        assert (stats.documents, stats.vectors, stats.pending) == (DOCUMENTS, DOCUMENTS, 0)
        assert kb.doctor().findings == ()


def test_four_workers_derive_each_document_once_though_one_is_killed(tmp_path: Path) -> None:
    killed_at_random(f"sqlite:///{tmp_path}/kb.db", tmp_path, 1)


@pytest.mark.slow
@pytest.mark.parametrize("url", ["sqlite:///{}/kb.db", "files://{}/kb"])
def test_four_workers_derive_each_document_once(url: str, tmp_path: Path) -> None:
    killed_at_random(url.format(tmp_path), tmp_path, None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_four_workers_on_sqlite_with_one_killed(seed: int, tmp_path: Path) -> None:
    killed_at_random(f"sqlite:///{tmp_path}/kb.db", tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_four_workers_on_postgresql_with_one_killed(
    seed: int, server: PostgresServer, tmp_path: Path
) -> None:
    killed_at_random(server.schema_url(f"round_{seed}"), tmp_path, seed)


@pytest.mark.slow
def test_four_workers_on_postgresql_derive_each_document_once(
    server: PostgresServer, tmp_path: Path
) -> None:
    killed_at_random(server.schema_url("whole"), tmp_path, None)
