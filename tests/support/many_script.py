"""A process that serves searches from several threads until its standard input ends."""

from __future__ import annotations

import sys
import threading

import triptych

THREADS = 3


def main() -> None:
    """Search; print how many searches there were, and what went wrong."""
    url = sys.argv[1]
    ending = threading.Event()
    wrong: list[str] = []
    counts = [0] * THREADS

    with triptych.open(url, embedder="hash") as kb:

        def serve(number: int) -> None:
            while not ending.is_set():
                try:
                    found = kb.search("marked passage", scope="all", top_k=20).hits
                    wrong.extend(
                        f"{hit.doc_name}: {hit.content[:60]!r}"
                        for hit in found
                        if "marked" not in hit.content
                    )
                    keys = [(hit.dataset_id, hit.doc_name, hit.chunk_index) for hit in found]
                    if len(set(keys)) != len(keys):
                        wrong.append(f"twice: {keys}")
                except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                    wrong.append(f"{type(error).__name__}: {error}")
                counts[number] += 1
                ending.wait(0.002)

        threads = [threading.Thread(target=serve, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        sys.stdin.read()
        ending.set()
        for thread in threads:
            thread.join()
    print(min(counts), flush=True)
    for line in wrong[:20]:
        print(line, flush=True)


if __name__ == "__main__":
    main()
