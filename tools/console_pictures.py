"""Take the pictures of docs/how-to/console.md, from a console over this project's documentation.

    python tools/console_pictures.py

Needs what ``make console-tests`` installs: Chromium.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

import triptych
from triptych.access import Access
from triptych.errors import PendingReviewError
from triptych.layers import ExtractiveSummarizer, LayerBuilder
from triptych.proposals import Proposals
from triptych.service import Service
from triptych_server.http import create_app
from triptych_server.keys import KeyStore
from triptych_testing.fakes import FakeLLM

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "how-to"
QUESTION = "when+is+a+chunk+embedded+again"
ANSWER = (
    "A chunk is embedded again when its text or the embedder changes [1]. "
    "Text that still has its vector is not embedded twice [2]. This is fast."
)
PAGES = {
    "search": f"/?q={QUESTION}&lanes=1&numbers=1",
    "why": f"/?q={QUESTION}&why=how-to/watch.md&k=3#why",
    "document": "/console/documents/docs/concepts.md?from=1600&to=2100#passage",
    "documents": "/console/datasets/docs",
    "ask": f"/console/ask?q={QUESTION}&d=docs",
    "work": "/console/work?plan=docs",
    "reviews": "/console/reviews?dataset=docs",
    "gaps": "/console/gaps",
    "golden": "/console/golden?dataset=docs&a=mode%3Dbm25&b=mode%3Dhybrid",
    "put": "/console/put",
    "keys": "/console/keys",
    "connect": "/console/connect",
}


def fill(kb: Service) -> None:
    """The documentation, with an edit, layers of a part, a proposal, a key, and questions."""
    docs = kb.dataset("docs")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT / "docs").as_posix()
        if not name.startswith("reference/api/"):
            docs.put(name, path.read_text("utf-8"), {"section": name.partition("/")[0]})
    builder = LayerBuilder(kb, ExtractiveSummarizer())
    builder.apply(builder.plan("docs", names=["how-to/watch.md", "concepts.md"]))
    docs.put("concepts.md", docs.get("concepts.md").content + "\nOne sentence more.\n")
    KeyStore.of(kb).add("the bot", can_write=True, agent=True)
    Proposals.of(kb).set_reviewed("docs", True)
    bot = kb.restricted(Access(can_write=True, agent=True, caller="the bot"))
    text = docs.get("how-to/watch.md").content + "\nA watch ends with Ctrl-C.\n"
    with contextlib.suppress(PendingReviewError):
        bot.put_document("docs", "how-to/watch.md", text, {"sources": ["a talk"]})
    for question in ("Riesling with trout", "trout with Riesling"):
        kb.search(question, dataset_id="docs", mode="bm25")


def main() -> int:
    """Write the pictures; 1 where there is no browser."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        print("no Chromium: `make console-tests` installs one", file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory() as folder,
        triptych.open(
            Path(folder, "kb.db"),
            embedder="local",
            llm=FakeLLM(lambda *_: ANSWER),
            question_log=True,
        ) as kb,
        sync_playwright() as playwright,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        fill(kb)
        server = uvicorn.Server(uvicorn.Config(create_app(kb, write=True, console=True)))
        run = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        run.start()
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=browser, args=options)
        take(opened, f"http://127.0.0.1:{listener.getsockname()[1]}")
        opened.close()
        server.should_exit = True
        run.join()
    return 0


def take(browser: Any, url: str) -> None:
    """A picture of each page, in few colours: they are kept with the sources."""
    page = browser.new_context(base_url=url, viewport={"width": 1100, "height": 800}).new_page()
    for question, name in (
        ("what+is+stale", "concepts.md"),
        ("how+do+I+watch+a+folder", "how-to/watch.md"),
    ):
        page.goto(f"/?q={question}&d=docs&judge=1")
        hit = page.locator(".hit", has_text=name).first
        hit.locator("button", has_text="right").click()
    for name, path in PAGES.items():
        page.goto(path)
        time.sleep(0.2)
        picture = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(48)
        picture.save(PICTURES / f"console-{name}.png", optimize=True)


if __name__ == "__main__":
    sys.exit(main())
