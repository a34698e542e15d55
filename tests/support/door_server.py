"""A server that everything can be asked of: run with the path of a store, it prints its URL.

Its language model answers whatever it is asked, and it has a pipeline.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvicorn

import triptych
from triptych.records import Generation, Message
from triptych.search import Pipeline
from triptych.sync import DirectorySync, SyncRoot
from triptych_server.http import Limits, create_app, listen
from triptych_server.http.protocol import HeadProtocol


class Obliging:
    """Answers."""

    signature = "obliging"

    def generate(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Generation:
        return Generation(text="It is so [1].")

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Iterator[str]:
        yield from ("It is ", "so [1].")


def main() -> None:
    pipelines = [Pipeline(name="support")]
    with triptych.open(sys.argv[1], embedder="hash", llm=Obliging(), pipelines=pipelines) as kb:
        kb.put_document("docs", "tea.md", "# Tea\n\nTea is hot.\n", {"lang": "en"})
        kb.put_document("default", "milk.md", "# Milk\n\nMilk is white.\n")
        notes = Path(sys.argv[1]).with_name("notes")
        notes.mkdir()
        (notes / "milk.md").write_text("Milk is white.", encoding="utf-8")
        directory = DirectorySync(kb, [SyncRoot(path=notes, dataset_id="notes")])
        # A stream of changes lasts as long as a request may.
        limits = Limits(seconds=5)
        app = create_app(
            kb,
            write=True,
            limits=limits,
            sync=lambda _, progress: directory.sync(progress=progress),
        )
        protocol: type = HeadProtocol
        config = uvicorn.Config(app, http=protocol, log_level="warning", ws="none")
        socket = listen("127.0.0.1", 0)
        print(f"http://127.0.0.1:{socket.getsockname()[1]}", flush=True)
        uvicorn.Server(config).run([socket])


if __name__ == "__main__":
    main()
