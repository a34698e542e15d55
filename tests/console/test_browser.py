"""The console in a real browser: the main tasks by keyboard, contrast and names, narrow windows.

`make test` runs a sample where Chromium is found, `make console-tests` installs what all of them
need. What is missing is said by those that are skipped.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

pytest.importorskip("starlette")

import triptych
from support.chat_server import chat, streamed
from support.servers import served, started
from triptych import Progress, deadlines
from triptych.access import Access
from triptych.errors import PendingReviewError
from triptych.layers import LayerJournal
from triptych.proposals import Proposals
from triptych.question_log import QuestionLog
from triptych.records import Layer, QuarantinedLayer
from triptych.service import Service
from triptych.sync import DirectorySync, RememberedRoot, RememberedRoots, SyncReport, SyncRoot
from triptych_server.keys import KeyAuthenticator, KeyStore
from triptych_testing.fakes import FakeLLM

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), "")
TOOLS = Path(__file__).parents[2] / "build" / "console" / "node_modules"
PAGES = [
    "/",
    "/?q=green+tea&d=docs&lanes=1&steps=1&numbers=1&why=coffee.md",
    "/?q=kettle+%22no+phrase%22",
    "/?q=green+tea&judge=1",
    "/?q=zebra&d=docs&mode=bm25&plain=1",
    "/console/ask",
    "/console/replay",
    "/console/datasets",
    "/console/datasets/docs",
    "/console/documents/docs/guide%2Ftea.md?old=1&new=2&from=0&to=20",
    "/console/put",
    "/console/sandbox?text=One.+Two.+Three.&size=50",
    "/console/work?plan=docs&doctor=1&expired=1",
    "/console/reviews?dataset=docs",
    "/console/gaps",
    "/console/impact?dataset=docs&name=guide%2Ftea.md",
    "/console/golden?dataset=docs&a=mode%3Dbm25&b=mode%3Dhybrid",
    "/console/connect",
    "/console/keys",
    "/console/sign-in",
    "/console/documents/docs/none",
]

pytestmark = pytest.mark.skipif(
    not CHROMIUM, reason="no Chromium: `make console-tests` installs one"
)
needs_tools = pytest.mark.skipif(
    not TOOLS.is_dir(), reason="axe-core and html-validate: `make console-tests` installs them"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright: Any = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(tmp_path / "kb.db", embedder="hash", question_log=True) as opened:
        opened.create_dataset("docs")
        docs = opened.dataset("docs")
        for question in ("what is a zeppelin", "a zeppelin, what is it", "זה " + "x" * 200):
            docs.search(question, mode="bm25")
        QuestionLog(opened.capabilities.settings).note_cited(
            [("docs", "guide/tea.md"), ("docs", "עברית.md")]
        )
        for minutes in ("two", "three"):
            text = f"# Tea\n\nGreen tea steeps for {minutes} minutes."
            docs.put("guide/tea.md", text, {"kind": "guide"})
        docs.put("coffee.md", "# Coffee\n\nBeans are roasted, and never steeped.", {"kind": "note"})
        docs.put(f"{'very-long-' * 20}name.md", "Long " + "x" * 300, {"k" * 60: "v" * 200})
        for days in (-1, 1):
            ends = datetime.now(UTC) + timedelta(days=days)
            docs.put(f"{'ends-' * 30}{days}.md", "Short-lived.", expires_at=ends)
        assert opened.capabilities.settings is not None
        journal = LayerJournal(opened.capabilities.settings)
        for name in ("coffee.md", "guide/", ""):
            journal.quarantine(
                QuarantinedLayer(
                    dataset_id="docs",
                    doc_name=name,
                    layer=Layer.ABSTRACT,
                    input_sig="a",
                    prompt_sig="b",
                    reason="refusal",
                    message=f"it refused {'x' * 200}",
                    quarantined_at=datetime.now(UTC),
                )
            )
        RememberedRoots(opened.capabilities.settings).add(
            [SyncRoot(path=tmp_path / ("folder-" * 20), dataset_id="docs", prefix="f/")]
        )
        docs.put("עברית.md", "# כותרת\n\nתה ירוק מושרה שלוש דקות.", {"kind": "note"})
        yield opened


@pytest.fixture
def url(kb: Service) -> Iterator[str]:
    def roots(service: Service) -> Sequence[RememberedRoot]:
        return RememberedRoots(service.capabilities.settings).all()

    def sync(*_: Any) -> SyncReport:
        return SyncReport()

    with served(
        kb, write=True, console=True, sync=sync, roots=roots, add_folder=add_folder, folder_code="c"
    ) as started:
        yield started


class Watched:
    """A page that fails at the end where its console said something."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.page = browser.new_context(base_url=url, **options).new_page()
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *raised: object) -> None:
        self.page.context.close()
        if raised[0] is None:
            # Chromium says of each answer of 4xx that it is one.
            assert [each for each in self.said if "Failed to load resource" not in each] == []


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tab_to(page: Any, name: str) -> None:
    """Press Tab until what has this name, or text, has the focus."""
    for _ in range(120):
        page.keyboard.press("Tab")
        said = page.evaluate(
            "(e => e.name + ' ' + (e.value ?? '') + ' ' + (e.textContent ?? ''))"
            "(document.activeElement)"
        )
        if name in said:
            return
    raise AssertionError(f"no Tab leads to {name}")


def add_folder(*_: Any) -> SyncReport:
    """Add no folder: only what is offered is looked at."""
    return SyncReport()


def check_by_axe(page: Any) -> None:
    """Fail where axe finds something in the page as it is now; without axe, do nothing."""
    source = TOOLS / "axe-core" / "axe.min.js"
    if source.is_file():
        page.evaluate(source.read_text(encoding="utf-8"))
        assert page.evaluate("axe.run().then(found => found.violations)") == []


def test_a_document_is_found_judged_and_opened_by_keyboard(browser: Any, url: str) -> None:
    with Watched(browser, url) as page:
        page.goto("/console/connect")
        page.goto("/?judge=1")
        press(page, "Escape")
        page.evaluate("document.activeElement.blur()")
        press(page, "/")
        page.keyboard.type("green tea")
        press(page, "Enter")
        page.wait_for_url("**mode=*")  # the form was sent
        press(page, "j", "j", "k")
        assert page.evaluate("document.activeElement.id") == "hit-1"
        press(page, "r")
        page.wait_for_selector('#hit-1 [aria-pressed="true"]')
        pressed, other = (
            page.locator(f'#hit-1 [aria-pressed="{each}"]').evaluate(
                "each => getComputedStyle(each).backgroundColor"
            )
            for each in ("true", "false")
        )
        assert pressed != other
        assert page.url.endswith("#hit-1")
        press(page, "r")  # the hit is still chosen, and is judged no more
        page.wait_for_selector('#hit-1 [aria-pressed="true"]', state="detached")
        press(page, "r")
        page.wait_for_selector('#hit-1 [aria-pressed="true"]')
        page.get_by_role("link", name="Why not this document?").click()
        page.keyboard.type("jar.md")  # letters that are keys of the list, too
        assert page.input_value("[name=why]") == "jar.md"
        page.locator("#hit-1").focus()
        press(page, "j", "Enter")
        page.wait_for_url("**/console/documents/**")
        assert page.locator("#passage").is_visible()


def test_hits_come_while_one_types_and_back_leads_to_the_last_question(
    browser: Any, url: str, kb: Service
) -> None:
    with Watched(browser, url) as page:
        page.goto("/?q=roasted")
        page.fill("[name=q]", "a zeppel")
        page.fill("[name=q]", "green tea")
        page.locator("#hit-1", has_text="steeps").wait_for()
        assert page.url.endswith("/?q=green+tea&k=10")
        assert page.evaluate("document.activeElement.id") == "q"
        assert page.inner_text("[data-said]") == page.inner_text("#hits")
        check_by_axe(page)
        page.click("#hit-1 a")
        page.wait_for_url("**/console/documents/**")
        page.go_back()
        page.locator("#hit-1", has_text="steeps").wait_for()
        assert page.input_value("[name=q]") == "green tea"
        page.go_back()
        page.locator("#hit-1", has_text="roasted").wait_for()
        assert page.input_value("[name=q]") == "roasted"
        logged = {each.text for each in QuestionLog(kb.capabilities.settings).questions()}
        assert not {each for each in logged if "zeppel" in each and "zeppelin" not in each}


@pytest.mark.process
def test_the_menu_and_the_names_are_used_by_keyboard(browser: Any, url: str) -> None:
    with Watched(browser, url, viewport={"width": 390, "height": 844}) as page:
        page.goto("/console/datasets/docs")
        tab_to(page, "Manage")
        press(page, "Enter")
        page.get_by_role("link", name="Golden questions").wait_for()
        assert page.locator("nav .sheet").bounding_box()["x"] >= 0
        check_by_axe(page)
        press(page, "Escape")
        assert not page.get_by_role("link", name="Golden questions").is_visible()
        assert "Manage" in page.evaluate("document.activeElement.textContent")
        page.get_by_label("Any part of the name").fill("TEA")
        page.locator(".doc", has_text="guide/tea.md").wait_for()
        assert page.locator(".doc").count() == 1
        assert page.url.endswith("/console/datasets/docs?part=TEA&sort=%24name")
        page.goto("/console/work")
        assert "Manage: To do" in page.inner_text("nav")


@pytest.mark.process
def test_proposals_are_chosen_approved_and_refused_by_keyboard(
    browser: Any, url: str, kb: Service
) -> None:
    kept = Proposals.of(kb)
    kept.set_reviewed("docs", True)
    bot = kb.restricted(Access(can_write=True, agent=True, caller="the bot"))
    for name in ("coffee.md", "b.md", "c.md", "d.md"):
        with pytest.raises(PendingReviewError):
            bot.put_document("docs", name, f"# {name}\n\nBeans are roasted {'x' * 300}.")
    with Watched(browser, url, viewport={"width": 390, "height": 844}) as page:
        page.goto("/console/reviews")
        check_by_axe(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        press(page, "j", "a")
        page.get_by_text("Approved, and carried out.").wait_for()
        assert "xxx" in kb.get_document("docs", "coffee.md").content
        press(page, "j", "x")
        page.get_by_text("Refused.").wait_for()
        press(page, "j", "s", "j", "s")
        page.get_by_role("button", name="Approve them").click()
        page.get_by_text("Nothing waits.").wait_for()
        states = {each.name: each.state for each in kept.list("docs")}
        assert states == {"coffee.md": "approved", "b.md": "refused", "c.md": "approved"} | {
            "d.md": "approved"
        }


@pytest.mark.process
def test_one_box_searches_and_asks_and_a_question_may_follow(browser: Any) -> None:
    model = FakeLLM(lambda *_: "Green tea steeps [1].")
    with triptych.open("memory://", embedder="hash", llm=model) as kb:
        kb.put_document("docs", "tea.md", "# Tea\n\nGreen tea steeps for two minutes.")
        with served(kb, console=True) as url, Watched(browser, url) as page:
            page.goto("/?q=milk")
            page.fill("[name=q]", "how does green tea steep")
            page.get_by_role("button", name="Ask", exact=True).click()
            page.locator("#source-1", has_text="two minutes").wait_for()
            page.locator("#hit-1", has_text="two minutes").wait_for()
            assert page.url.startswith(f"{url}/console/ask?q=how+does")
            assert page.inner_text("nav [aria-current]") == "Ask"
            check_by_axe(page)
            page.get_by_label("A question that follows").fill("and black tea?")
            press(page, "Enter")
            page.locator(".turn", has_text="how does green tea steep").wait_for()
            page.locator(".turn", has_text="and black tea?").wait_for()
            assert page.input_value("#q") == "and black tea?"
            assert page.locator("#answer").count() == 1
            page.go_back()
            page.wait_for_url("**/?q=milk")


@pytest.mark.process
def test_why_a_document_is_not_found_by_keyboard(browser: Any, url: str) -> None:
    with Watched(browser, url) as page:
        page.goto("/?q=green&d=docs&mode=bm25")
        tab_to(page, "why")
        page.keyboard.type("coffee.md")
        press(page, "Enter")
        page.wait_for_selector(".why")
        assert "is not among the hits" in page.inner_text(".why")


@pytest.mark.process
def test_a_layer_is_made_within_a_budget_by_keyboard(browser: Any, url: str, kb: Service) -> None:
    with Watched(browser, url) as page:
        page.goto("/console/work")
        tab_to(page, "Show what it costs")
        press(page, "Enter")
        page.wait_for_selector(".why")
        tab_to(page, "Make them")
        press(page, "Enter")
        page.get_by_text("layers were made.").wait_for()
        assert kb.layer("docs", "coffee.md", "L0") is not None
        assert page.url.endswith("/console/work")
        assert page.evaluate("document.activeElement.innerText").endswith("layers were made.")
        assert page.locator(".running").count() == 0
        assert "are to be made" not in page.inner_text("main")
        check_by_axe(page)


@pytest.mark.process
def test_an_answer_may_cite_any_character(browser: Any) -> None:
    text = "Green\u2028tea\u2029steeps.\r\n\x0b<b>\U0001f375</b>"
    model = FakeLLM(lambda *_: "It steeps [1].")
    with triptych.open("memory://", embedder="hash", llm=model) as kb:
        kb.put_document("docs", "tea.md", text)
        with served(kb, console=True) as url, Watched(browser, url) as page:
            page.goto("/console/ask")
            page.fill("[name=q]", "green tea steeps")
            press(page, "Enter")
            page.get_by_role("heading", name="Sources").wait_for()
            assert "<b>" in page.inner_text("[data-answer]")


@pytest.mark.process
def test_a_build_is_watched_cancelled_and_gone_on_with(browser: Any, tmp_path: Path) -> None:
    free, counted = threading.Event(), itertools.count()

    def answer(_: str, text: str) -> str:
        # As a model on another machine: it waits, and is cancelled.
        while next(counted) >= 6 and not free.is_set():
            deadlines.check("the model")
            time.sleep(0.02)
        return "A summary."

    model = FakeLLM(answer)
    with triptych.open(tmp_path / "slow.db", embedder="hash", llm=model) as kb:
        for number in range(6):
            kb.put_document("docs", f"{number}.md", f"# Number {number}\n\nA text.")
        with served(kb, write=True, console=True) as url, Watched(browser, url) as page:
            page.goto("/console/work?plan=docs")
            tab_to(page, "Make them")
            press(page, "Enter")
            far = page.locator(".running span")
            page.wait_for_selector(".running progress[value]:not([value='0'])")
            assert re.fullmatch(r"layers: \d+ of 14, \d+ calls.*", far.inner_text())
            check_by_axe(page)
            press(page, "Enter")  # Cancel has the focus
            page.wait_for_selector(".running a")
            assert "Cancelled. What was made so far is kept" in page.inner_text(".running")
            assert 0 < len(list(kb.layers("docs"))) < 14
            free.set()
            page.get_by_role("button", name="Make them").click()
            page.get_by_text("layers were made;").wait_for()
            assert len(list(kb.layers("docs"))) == 14
            kb.put_document("docs", "0.md", "Another text.", embed="later")
            page.goto("/console/work")
            assert "2 stale layers" in page.inner_text("main")
            page.get_by_role("link", name="Show what it costs").click()
            page.get_by_role("button", name="Make them").click()
            page.get_by_text("layers were made;").wait_for()
            assert "stale layers" not in page.inner_text("main")
            # What the page shows now is watched, too.
            page.get_by_role("button", name="Embed them").click()
            page.get_by_text("1 document has all its vectors now.").wait_for()
            assert page.url.endswith("/console/work")


@pytest.mark.process
def test_a_server_that_goes_away_is_told_of_and_takes_no_word_with_it(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with triptych.open(tmp_path / "kb.db", embedder="hash") as kb:
        kb.put_document("docs", "tea.md", "# Tea\n\nGreen tea steeps for two minutes.")
    reply = streamed(["Green tea ", "steeps."])
    with chat(attrs.evolve(reply, cut=len(reply.body[0]), hold=threading.Event())) as model:
        monkeypatch.setenv("TRIPTYCH_LLM", "openai:small")
        monkeypatch.setenv("TRIPTYCH_LLM_BASE_URL", f"{model.url}/v1")
        monkeypatch.setenv("TRIPTYCH_LLM_API_KEY", "of-the-tests")
        with started(tmp_path, "--write") as server, Watched(browser, server.url) as page:
            page.goto("/console/ask?d=docs")
            page.fill("[name=q]", "how long does green tea steep")
            press(page, "Enter")
            page.locator(".answer", has_text="Green tea").wait_for()
            work = page.context.new_page()
            work.goto("/console/work?plan=docs")
            work.get_by_role("button", name="Make them").click()
            work.wait_for_selector(".running progress")
            os.killpg(server.process.pid, signal.SIGKILL)
            for each in (page, work):
                each.get_by_text("The connection to the server was lost").wait_for()
            assert "Green tea" in page.inner_text("[data-answer]")
            assert page.input_value("[name=q]") == "how long does green tea steep"


@pytest.mark.process
def test_files_are_put_several_at_once_and_what_is_no_text_is_named(
    browser: Any, tmp_path: Path
) -> None:
    given = {
        "big.txt": b"x" * (1 << 21),
        "a.md": b"# One",
        "b.txt": "Zwei \u00e4".encode(),
        "c.pdf": b"%PDF\xff\xfe",
    }
    for name, content in given.items():
        (tmp_path / name).write_bytes(content)
    files = [tmp_path / name for name in given]
    with (
        triptych.open(tmp_path / "new.db", embedder="hash") as kb,
        served(kb, write=True, console=True, add_folder=add_folder, folder_code="c") as url,
        Watched(browser, url, viewport={"width": 375, "height": 700}) as page,
    ):
        page.goto("/")
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        page.get_by_label("Text files").set_input_files(files)
        page.get_by_role("button", name="Add the document").click()
        page.get_by_text("2 of 4 files were put.").wait_for()
        check_by_axe(page)
        said = page.inner_text(".stack")
        assert "big.txt: 413: the body is larger than 1048576 bytes\n" in said
        assert "c.pdf: this is no text in UTF-8" in said
        assert kb.get_document("default", "b.txt").content == "Zwei \u00e4"
        page.goto("/console/put")
        page.get_by_label("Text files").set_input_files(files[1:3])
        page.get_by_role("button", name="Add the document").click()
        page.get_by_text("0 of 2 files were put.").wait_for()
        assert "a.md: there is a document 'a.md' already" in page.inner_text(".stack")
        page.get_by_label("Text files").set_input_files(files[1:2])
        page.locator("[name=name]").and_(page.locator(":valid")).wait_for()
        assert page.input_value("[name=name]") == "a.md"
        assert page.input_value("[name=content]") == "# One"
        page.evaluate(
            "() => { const given = new DataTransfer();"
            "for (const name of ['d.md', 'e.md']) given.items.add(new File(['Text'], name));"
            "document.querySelector('form[data-drop]').dispatchEvent("
            "new DragEvent('drop', { dataTransfer: given, bubbles: true, cancelable: true })) }"
        )
        page.get_by_text("2 files: d.md, e.md.").wait_for()
        page.fill("[name=dataset]", "dropped")
        page.get_by_role("button", name="Add the document").click()
        page.get_by_text("2 of 2 files were put.").wait_for()
        names = [each.name for each in kb.list_documents("default")]
        assert names == ["a.md", "b.txt"]
        assert [each.name for each in kb.list_documents("dropped")] == ["d.md", "e.md"]


@pytest.mark.process
def test_a_folder_is_added_while_its_progress_is_shown(browser: Any, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(3):
        (notes / f"{number}.md").write_text(f"# Note {number}")
    go_on = threading.Event()

    def add(service: Service, path: Path, dataset_id: str, progress: Any) -> SyncReport:
        def note(at: Progress) -> None:
            progress(at)
            assert go_on.wait(20)

        return DirectorySync(service, [SyncRoot(path=path, dataset_id=dataset_id)]).sync(
            progress=note
        )

    with (
        triptych.open(tmp_path / "new.db", embedder="hash") as kb,
        served(kb, write=True, console=True, add_folder=add, folder_code="c") as url,
        Watched(browser, url) as page,
    ):
        page.goto("/")
        page.get_by_label("Folder on this machine").fill(str(notes))
        page.get_by_label("Code from the terminal").fill("wrong")
        page.get_by_role("button", name="Add the folder").click()
        page.get_by_text("this is not the code").wait_for()
        page.get_by_label("Code from the terminal").fill("c")
        page.get_by_role("button", name="Add the folder").click()
        page.get_by_text("documents: 0 of 3").wait_for()
        check_by_axe(page)
        go_on.set()
        page.get_by_text("3 added, 0 updated").wait_for()
        assert page.evaluate("document.activeElement.getAttribute('role')") == "status"
        assert page.url.endswith("/console/datasets")
        assert page.inner_text("nav [aria-current]") == "Documents"
        check_by_axe(page)
        assert kb.count_documents("default") == 3


@pytest.mark.process
def test_a_version_is_restored_by_keyboard(browser: Any, url: str, kb: Service) -> None:
    with Watched(browser, url) as page:
        page.goto("/console/documents/docs/guide%2Ftea.md")
        tab_to(page, "Restore")
        press(page, "Enter")
        page.wait_for_function("document.querySelector('.note').textContent.includes('version 3')")
        assert "two minutes" in kb.get_document("docs", "guide/tea.md").content


@pytest.mark.process
def test_two_settings_are_compared_by_keyboard(browser: Any, url: str, kb: Service) -> None:
    with Watched(browser, url) as page:
        page.goto("/?q=green+tea&d=docs&judge=1")
        press(page, "j", "r")
        page.wait_for_selector('[aria-pressed="true"]')
        page.goto("/console/golden")
        tab_to(page, "Compare")
        press(page, "Enter")
        page.wait_for_url("**b=*")
        assert "paired, 1 questions" in page.inner_text("main")


@pytest.mark.process
@pytest.mark.parametrize("script", [True, False])
def test_pages_fit_a_narrow_window_with_and_without_script(
    browser: Any, url: str, script: bool
) -> None:
    options = {"viewport": {"width": 375, "height": 700}, "java_script_enabled": script}
    with Watched(browser, url, **options) as page:
        for path in PAGES:
            page.goto(path)
            box = page.locator("main").bounding_box()
            assert box["x"] + box["width"] <= 375, path
            # A table scrolls by itself.
            whole = "main :is(h1, h2, p, form, table, pre):not(table *)"
            widest = page.locator(whole).evaluate_all(
                "all => Math.max(0, ...all.map(e => e.getBoundingClientRect().right))"
            )
            assert widest <= 375, path
            assert page.evaluate("document.documentElement.scrollWidth") <= 375, path


def test_folders_in_folders_and_buttons_fit_a_telephone(browser: Any) -> None:
    with triptych.open("memory://", embedder="hash", llm=FakeLLM(lambda *_: "x")) as kb:
        kb.put_document("docs", f"{'folder/' * 7}tea.md", "Tea.", {"tags": ["green", "black"]})
        kb.put_document("docs", "a.md", "Tea.")
        narrow = {"viewport": {"width": 320, "height": 700}}
        with served(kb, console=True) as url, Watched(browser, url, **narrow) as page:
            page.goto("/console/datasets/docs")
            page.get_by_text("tea.md").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 320
            page.goto("/?q=tea")
            heights = {
                box.bounding_box()["height"] for box in page.locator(".bench .line > *").all()
            }
            assert max(heights) < 45, heights


def test_the_policy_of_a_page_stops_what_is_injected(browser: Any, url: str) -> None:
    page = browser.new_context(base_url=url).new_page()
    page.goto("/")
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), "
        "{textContent: 'window.ran = 1'}))"
    )
    assert page.evaluate("window.ran") is None
    page.context.close()


def test_a_key_signs_in_and_out(browser: Any, kb: Service) -> None:
    keys = KeyStore.of(kb)
    token = keys.add("reader", where={"kind": "note"}).token
    authenticate = KeyAuthenticator(kb, keys)
    with served(kb, authenticate=authenticate, write=True, console=True) as url:
        page = browser.new_context(base_url=url).new_page()
        page.goto("/")
        page.fill("[name=key]", token)
        press(page, "Enter")
        page.wait_for_selector("nav")
        assert page.evaluate("document.cookie") == ""
        assert token not in page.url
        page.goto("/console/datasets/docs")
        assert "tea.md" not in page.inner_text("main")
        assert "coffee.md" in page.inner_text("main")
        page.click("text=Sign out")
        page.wait_for_selector("[name=key]")
        page.goto("/")
        assert "This server asks for a key" in page.inner_text("main")
        page.context.close()


@pytest.mark.process
@needs_tools
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, url: str, scheme: str) -> None:
    source = (TOOLS / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    context = browser.new_context(base_url=url, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    found = {}
    for path in PAGES:
        page.goto(path)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.evaluate(source)
        result = page.evaluate("axe.run()")
        found[path] = [
            (each["id"], [node["html"][:120] for node in each["nodes"]])
            for each in result["violations"]
        ]
    context.close()
    assert {path: each for path, each in found.items() if each} == {}


@pytest.mark.process
@needs_tools
def test_html_validate_finds_nothing(browser: Any, url: str, tmp_path: Path) -> None:
    request = browser.new_context(base_url=url).request
    for at, path in enumerate(PAGES):
        (tmp_path / f"{at}.html").write_text(request.get(path).text(), encoding="utf-8")
    rules = {"extends": ["html-validate:recommended"], "rules": RULES}
    (tmp_path / ".htmlvalidate.json").write_text(json.dumps(rules), encoding="utf-8")
    node = shutil.which("node") or "node"
    program = TOOLS / "html-validate" / "bin" / "html-validate.mjs"
    done = subprocess.run(
        [node, program, *sorted(tmp_path.glob("*.html"))],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr


RULES = {
    "no-trailing-whitespace": "off",
    "long-title": "off",  # a title names its document
    "no-implicit-button-type": "off",  # buttons of forms send them
    "void-style": "off",
}
