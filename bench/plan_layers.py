"""How long a plan of layers takes, and how much memory, by the number of documents.

    python bench/plan_layers.py [--documents 1000 10000] [--store sqlite|files|memory]

The store is made in a temporary folder. "up to date" plans a dataset whose layers are all fresh,
"new" one without any. Memory is the peak that `tracemalloc` sees during the plan, the store's own
excluded; the plan is timed without it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from pathlib import Path

import triptych
from triptych.layers import LayerBuilder, LayerPlan
from triptych.records import Layer
from triptych.service import Service

URLS = {"sqlite": "{}/kb.db", "files": "files://{}/kb", "memory": "memory://"}


def names(count: int) -> list[str]:
    """Documents in folders of a hundred, ten of those in one."""
    return [f"area{at // 1000}/part{at // 100 % 10}/doc{at}.md" for at in range(count)]


def measured(builder: LayerBuilder) -> tuple[LayerPlan, float, float]:
    """A plan, its seconds, and its peak of memory in MiB."""
    began = time.perf_counter()
    plan = builder.plan("d")
    took = time.perf_counter() - began
    tracemalloc.start()
    builder.plan("d")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return plan, took, peak / 2**20


def report(kb: Service, count: int, state: str) -> None:
    """Print one line."""
    plan, took, peak = measured(LayerBuilder(kb))
    print(f"{count:7d} {state:11s} {len(plan):7d} artifacts {took:7.2f} s {peak:7.2f} MiB")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--store", choices=URLS, default="sqlite")
    arguments = parser.parse_args()
    for count in arguments.documents:
        with tempfile.TemporaryDirectory() as folder:
            url = URLS[arguments.store].format(Path(folder).as_posix())
            with triptych.open(url, embedder=None) as kb:
                text = "# Subject {}\n\n" + "A sentence that says something of it. " * 20
                kb.put_documents("d", {name: text.format(name) for name in names(count)})
                report(kb, count, "new")
                builder = LayerBuilder(kb)
                builder.apply(builder.plan("d"))
                assert builder.plan("d").is_empty
                assert kb.dataset_layer("d", Layer.ABSTRACT) is not None
                report(kb, count, "up to date")


if __name__ == "__main__":
    main()
