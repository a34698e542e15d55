"""Each program in examples/ does what docs/how-to/examples.md says, in a process of its own.

Those that need a framework are in tests/frameworks, the store in tests/contract.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import triptych
from support.chat_server import chat
from support.doc_pages import matches
from support.example_runs import EXAMPLES, environment, notes, run

PAGE = Path(__file__).parents[2] / "docs/how-to/examples.md"
LONGEST = {"chat_over_a_folder.py": 30, "json_store.py": 100}


@pytest.mark.process
def test_a_chat_streams_its_answers_and_cites_lines(tmp_path: Path) -> None:
    turns = (["Ten ", "times [1]."], ["What limits retries?"], ["Ten [1]."])
    with chat(*turns) as server:
        told = run(
            tmp_path,
            "chat_over_a_folder.py",
            notes(tmp_path),
            stdin="How often is a failed request repeated?\n\nWhat limits that?\n",
            TRIPTYCH_LLM="openai:m",
            TRIPTYCH_LLM_BASE_URL=f"{server.url}/v1",
        )
        asked = [each.body for each in server.asked]
    cited = "  [1] notes/http.md:1-3  Retries"
    assert told.splitlines() == [
        *("Ask about notes", "Ten times [1].", cited),
        *("Ten [1].", cited),
    ]
    assert [bool(body.get("stream")) for body in asked] == [True, False, True]
    assert "repeated ten times" in json.dumps(asked[0])
    assert "How often is a failed request repeated?" in json.dumps(asked[1])


@pytest.mark.process
def test_a_memory_finds_the_notes_of_one_person_until_they_are_forgotten(tmp_path: Path) -> None:
    def memory(*words: str) -> str:
        return run(tmp_path, "agent_memory.py", *words)

    memory("remember", "ada", "Drinks no coffee any more.", "--days", "30")
    memory("remember", "ada", "Drank coffee yesterday.", "--days", "0")
    memory("remember", "ben", "Drinks coffee with milk.")
    assert memory("recall", "ada", "who drinks coffee?") == "- Drinks no coffee any more.\n"
    assert memory("forget", "ada") == "forgot 2 notes\n"
    assert memory("recall", "ada", "who drinks coffee?") == "\n"
    assert memory("recall", "ben", "who drinks coffee?") == "- Drinks coffee with milk.\n"


@contextmanager
def followed(folder: Path) -> Iterator[Queue[str]]:
    """The lines of a follower, as it prints them."""
    lines: Queue[str] = Queue()
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / "message_feed.py", "follow"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    with process:
        reader = threading.Thread(target=lambda out: [*map(lines.put, out)], args=[process.stdout])
        reader.start()
        try:
            yield lines
        finally:
            process.kill()
            reader.join()


@pytest.mark.process
def test_a_follower_prints_each_message_once_whoever_posts_it(tmp_path: Path) -> None:
    def post(*words: str) -> None:
        run(tmp_path, "message_feed.py", "post", *words)

    post("general", "ada", "The build is green.")
    with followed(tmp_path) as lines:
        assert lines.get(timeout=60) == "#general ada: The build is green.\n"
        post("help", "ben", "Where is the manual?")
        assert lines.get(timeout=60) == "#help ben: Where is the manual?\n"
        post("help", "ada", "In the wiki.")
        assert lines.get(timeout=60) == "#help ada: In the wiki.\n"
        with triptych.open(tmp_path / "feed.db", embedder="hash") as kb:
            cursor = tmp_path / "feed.cursor"
            while kb.changes(cursor.read_text(), dataset_id="messages").changes:
                time.sleep(0.05)  # until what was printed is noted
    post("general", "kim", "Good night.")
    with followed(tmp_path) as lines:
        assert lines.get(timeout=60) == "#general kim: Good night.\n"
    found = run(tmp_path, "message_feed.py", "search", "is the build green?")
    assert found.startswith("#general ada: The build is green.\n")


@pytest.mark.process
def test_the_mails_of_an_mbox_file_are_searched_and_follow_it(tmp_path: Path) -> None:
    def mail(number: int, text: str) -> str:
        head = f"From a@b Thu Jan  1 00:00:00 2026\nFrom: a@b\nSubject: No. {number}\n"
        return f"{head}Message-ID: <{number}@b>\n\n{text}\n\n"

    mails = [mail(1, "The release is on Friday."), mail(2, "Lunch?"), mail(3, "Meet at noon.")]
    (tmp_path / "a.mbox").write_text("".join(mails))
    told = run(tmp_path, "mailbox_source.py", "a.mbox", "release")
    assert told.splitlines()[:2] == ["3 new, 0 deleted, 0 unchanged", "No. 1  mid:<1@b>"]
    (tmp_path / "a.mbox").write_text("".join([*mails[:2], mail(4, "Löwe")]))
    assert run(tmp_path, "mailbox_source.py", "a.mbox") == "1 new, 1 deleted, 2 unchanged\n"


def code_cells() -> list[dict[str, Any]]:
    notebook = json.loads((EXAMPLES / "tour.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_cells_of_the_notebook_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIPTYCH_EMBEDDER", "hash")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in code_cells():
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec("".join(cell["source"]), namespace)
        shown = "".join(text for output in cell["outputs"] for text in output["text"])
        assert matches(shown, printed.getvalue()), (shown, printed.getvalue())


def test_every_example_is_short_and_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    programs = [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.ipynb")]
    listed = re.findall(r"^\| `(\w+\.\w+)` \|", page, re.MULTILINE)
    assert sorted(path.name for path in programs) == sorted(listed)
    for path in EXAMPLES.glob("*.py"):
        length = len(path.read_text(encoding="utf-8").splitlines())
        assert length <= LONGEST.get(path.name, 60), path.name
