"""Processes killed at any instant: nothing that was acknowledged is lost, nothing is half-done."""

from __future__ import annotations

import os
import random
import time
from contextlib import closing
from itertools import islice

import pytest

from triptych.testing.builders import set_config
from triptych.testing.changes import Follower, snapshot
from triptych.testing.guarantees import guarantee
from triptych.testing.harness import Harness, HarnessTests, examined
from triptych.testing.operations import DATASET, State, apply, operations, stored
from triptych.testing.processes import Worker

KILLS = int(os.environ.get("TRIPTYCH_KILLS", "3"))
"""How often a process is killed; raise it for a longer run."""


class CrashTests(HarnessTests):
    """Guarantee 9, for stores that keep anything."""

    @guarantee(9)
    @pytest.mark.parametrize("seed", range(KILLS))
    def test_killed_process_loses_nothing_it_acknowledged(
        self, harness: Harness, seed: int
    ) -> None:
        if not harness.persistent or harness.child is None:
            pytest.skip("the store is not kept, or no other process can open it")
        chance = random.Random(seed)
        store = harness.open()
        set_config(store, DATASET)
        bulk = harness.atomic_batches
        history = harness.history if store.capabilities.versions else 0
        store.close()
        with Worker() as worker:
            worker.open(harness.child)
            worker.send({"do": "churn", "seed": seed, "bulk": bulk})
            done = 0
            for _ in range(chance.randint(1, 60)):
                worker.receive()
                done += 1
            time.sleep(chance.random() / 50)
            worker.kill()
            try:
                while worker.receive():
                    done += 1
            except EOFError:
                pass
        before, after = State(history), State(history)
        for number, operation in zip(range(done + 1), operations(seed, bulk=bulk), strict=False):
            if number < done:
                before.apply(operation)
            after.apply(operation)
        with closing(harness.open()) as store:
            assert stored(store, history=history) in (before, after)
            # The store is whole: it finds nothing wrong, takes and shows the next writes.
            assert [str(each) for each in examined(store, [DATASET])] == []
            if store.capabilities.changes is not None:
                follower = Follower()
                follower.catch_up(store, 5)
                assert follower.copy == snapshot(store)
            for operation in islice(operations(seed + 1000, bulk=bulk), 20):
                apply(store, operation)
            stored(store)
