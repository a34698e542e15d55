"""Whether the time of an answer tells a filtered key that a document exists.

    python bench/hidden_names.py [--pairs 3000]

Starts `triptych serve` on a store with a document that the key may not see, of ten versions, thirty
chunks and two layers. Each pair asks the same of its name and of a name that nobody has, in random
order. Prints for each request the two medians and in which share of the pairs the hidden name was
slower: 50% tells nothing, and so does what differs from 50% no more than a second missing name
does.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import triptych
from neighbours import started, triptych_command
from triptych.records import Layer

HIDDEN, MISSING, OTHER = "theirs%2Fzebra.md", "theirs%2Fzebrb.md", "theirs%2Fzebrc.md"
DOCUMENT = "/v1/datasets/kb/documents/{}"
REQUESTS = {
    "document": DOCUMENT,
    "version": f"{DOCUMENT}?version=2",
    "history": "/v1/datasets/kb/history/{}",
    "diff": "/v1/datasets/kb/diff/{}?old=1",
    "layer": "/v1/datasets/kb/layers/L0/{}",
    "console, document": "/console/documents/kb/{}",
    "console, chunker": "/console/sandbox?dataset=kb&name={}",
}


def filled(store: Path) -> None:
    with triptych.open(store, embedder="hash", history=20) as kb:
        for at in range(10):
            text = "\n\n".join(f"# Part {part}\n\nZebra {at} {part}." for part in range(30))
            kb.put_document("kb", "theirs/zebra.md", text, {"team": "theirs"})
            kb.put_document("kb", "ours/tide.md", f"The tide turns {at}.", {"team": "ours"})
        for layer in (Layer.ABSTRACT, Layer.OVERVIEW):
            kb.put_document_layer("kb", "theirs/zebra.md", layer, "Of zebras.")


def seconds(connection: http.client.HTTPConnection, path: str, key: str) -> float:
    began = time.perf_counter()
    connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    answer.read()
    taken = time.perf_counter() - began
    if answer.status not in (200, 404):
        raise SystemExit(f"{path} is answered with {answer.status}")
    return taken


def compared(url: str, path: str, key: str, names: tuple[str, str], pairs: int) -> str:
    """The medians of two names, and how often the first was slower."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    chance, rows = random.Random(1), []
    for at in range(pairs + 100):
        pair = {}
        for name in chance.sample(names, 2):
            pair[name] = seconds(connection, path.format(name), key)
        if at >= 100:
            rows.append((pair[names[0]], pair[names[1]]))
    slower = sum(first > second for first, second in rows) / len(rows)
    first, second = (statistics.median(column) * 1e3 for column in zip(*rows, strict=True))
    return f"{first:.3f} ms | {second:.3f} ms | {slower:.1%}"


def main() -> None:
    """Fill, serve, compare."""
    parser = argparse.ArgumentParser(description="what the time of an answer tells")
    parser.add_argument("--pairs", type=int, default=3_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "kb.db")
        filled(store)
        command = triptych_command("admin", "keys", "add", "ours", "--where", "team=ours")
        command += ["--store", str(store), "--json"]
        made = subprocess.run(command, check=True, capture_output=True, text=True)
        key = str(json.loads(made.stdout)["key"])
        process, url = started(store, 1, Path(folder, "log"), mcp=False)
        try:
            print("| request | hidden | missing | hidden is slower | of two missing names |")
            print("|---|---|---|---|---|")
            for name, path in REQUESTS.items():
                told = compared(url, path, key, (HIDDEN, MISSING), options.pairs)
                chance = compared(url, path, key, (OTHER, MISSING), options.pairs)
                print(f"| {name} | {told} | {chance.rpartition('| ')[2]} |", flush=True)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


if __name__ == "__main__":
    main()
