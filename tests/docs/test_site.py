"""The site of the documentation: every page is in it, and a task leads to its page from the start.

`make docs` builds it and checks what was built. These tests need no generator.
"""

from __future__ import annotations

import re
from pathlib import Path

from support.doc_pages import KINDS, anchors, blocks, prose
from support.loaded import load
from support.rows import each_row
from triptych_testing import failures

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
_IMPORT = re.compile(r"^from (triptych[\w.]*) import ([\w, ]+)$", re.MULTILINE)
_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)")


API, BUILD = load("tools/generate_api.py"), load("tools/build_site.py")


def test_the_pages_of_the_api_are_those_that_the_tool_writes() -> None:
    committed = {page.name: page.read_text(encoding="utf-8") for page in API.API.glob("*.md")}
    assert committed == API.pages(), "python tools/generate_api.py"


def test_the_nav_is_that_of_the_start_page_and_has_every_page_once() -> None:
    text = API.SITE.read_text(encoding="utf-8")
    assert text == API.nav(), "python tools/generate_api.py"
    listed = re.findall(r"- (\S+\.md)$", text.partition("\nnav:\n")[2], re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_what_a_page_imports_is_in_the_api() -> None:
    names = API.public_names()
    imported = {
        (module, name.split(" as ")[0].strip())
        for page in (ROOT / "README.md", *PAGES)
        for block in blocks(page)
        if block.kind == "python"
        for module, several in _IMPORT.findall(block.text)
        for name in several.split(",")
    }
    assert imported
    assert {
        (module, name)
        for module, name in imported
        if name not in names.get(module, ()) and f"{module}.{name}" not in names
    } == set()


def _is_read_as_by_a_forge(page: Path) -> None:
    assert {block.kind for block in blocks(page)} <= KINDS
    text = prose(page)
    # Python-Markdown: nested lists are indented by four, and a list or table begins a paragraph.
    assert re.findall(r"^(?: {1,3}| {5,7})(?:[-*+]|\d+\.) .*", text, re.MULTILINE) == []
    assert re.findall(r"^(?![|\s]).+\n\|.*", text, re.MULTILINE) == []
    leaving = [
        target
        for target, _ in _LINK.findall(text)
        if target and not (page.parent / target).resolve().is_relative_to(DOCS)
    ]
    assert leaving == [], "the site has no page for these: name the file instead"


def test_a_page_is_read_by_the_site_as_by_a_forge() -> None:
    assert failures(PAGES, _is_read_as_by_a_forge) == []


# Tasks, each two clicks from the start page

TASKS = {
    "whether to take Triptych or another": ("explanation/comparison.md", "quality", "Qdrant"),
    "install": ("how-to/my-notes.md", "", "triptych add"),
    "first search": ("quickstart.md", "2-search", "search("),
    "ask a question, and have a model answer": ("how-to/ask.md", "", ".ask("),
    "watch a folder": ("how-to/watch.md", "", "triptych watch"),
    "store on PostgreSQL": ("how-to/postgres.md", "", "postgresql+psycopg://"),
    "filter by metadata": ("how-to/filter.md", "", "where="),
    "measure": ("how-to/evaluate.md", "", "triptych eval retrieval"),
    "why a document is not found": ("how-to/why.md", "", "--why"),
    "by MCP": ("how-to/mcp.md", "", "triptych mcp"),
    "in the browser": ("how-to/console.md", "", "triptych console"),
    "over HTTP": ("how-to/serve.md", "", "triptych serve"),
    "approve what agents write": ("how-to/review.md", "", "admin review"),
    "keys": ("how-to/keys.md", "", "admin keys add"),
    "come from LangChain": ("how-to/frameworks.md", "langchain", "TriptychVectorStore"),
    "come from Chroma, LanceDB or LlamaIndex": ("how-to/coming-from.md", "from-chroma", "Chroma"),
    "write a backend": ("how-to/write-a-backend.md", "", "BackendConformance"),
    "(layers)": ("how-to/layers.md", "", "triptych layers build"),
    "fresh": ("concepts.md", "freshness", "stale"),
    "delete and erase": ("how-to/erase.md", "", "purge"),
    "back up": ("how-to/move.md", "back-up-restore", "triptych backup"),
    "expire": ("how-to/expire.md", "", "--ttl"),
    "many languages": ("how-to/embedders.md", "choose-or-write-an-embedder", "local-multilingual"),
    "put tables (CSV, Excel)": ("how-to/file-formats.md", "formats", ".xlsx"),
    "put PDF files": ("how-to/file-formats.md", "formats", ".pdf"),
    "source code": ("how-to/file-formats.md", "formats", "extra `code`"),
    "memory": ("how-to/memory-for-agents.md", "", "forget"),
    "context within a budget of tokens": ("how-to/context.md", "", ".context("),
    "stream an answer, or": ("how-to/ask.md", "", "ask_stream"),
    "stream an answer over HTTP": ("reference/http.md", "streams", "curl -N"),
    "cite the page of a PDF": ("how-to/file-formats.md", "cite-the-page", "`page 3`"),
    "give each tenant a key": ("how-to/keys.md", "a-key-for-each-tenant", "fastapi_tenants.py"),
    "as a service": ("how-to/operate.md", "the-log", "ExecStart"),
    "in a container": ("how-to/container.md", "", "HEALTHCHECK"),
    "async code": ("how-to/async.md", "", "AsyncService"),
    "observe": ("how-to/observe.md", "", "OpenTelemetry"),
    "replicas of PostgreSQL": ("how-to/replicas.md", "", "replica"),
    "change the embedder": ("how-to/change-the-embedder.md", "", "triptych copy"),
    "at a moment": ("how-to/as-of.md", "", "as_of"),
    "receipts": ("how-to/receipts.md", "", "AnswerReceipt"),
    "prompt cache": ("how-to/prompt-cache.md", "", "prefix_tokens"),
    "instructions in documents": ("how-to/hostile-documents.md", "", "fence=True"),
    "judge answers": ("how-to/judge-answers.md", "", "triptych eval rag"),
    "nothing answers": ("how-to/no-answer.md", "", "triptych eval calibrate"),
    "pip install": ("reference/extras.md", "", "`local-multilingual`"),
    "dependencies: reasons": ("explanation/dependencies.md", "", "licence"),
    "publish a release": ("how-to/release.md", "", "make artifacts"),
    "use OpenAI": ("how-to/providers.md", "", "OPENAI_API_KEY"),
    "vLLM": ("how-to/model-server.md", "", "base_url"),
    "many documents": ("how-to/bulk.md", "", "put_many"),
    "leave files of a folder out": ("how-to/choose-files.md", "", ".triptychignore"),
    "from a program": ("how-to/sync-in-a-program.md", "", "DirectorySync"),
    "other encodings": ("how-to/encodings.md", "choose-the-encoding", "DecodedText"),
    "read another format": ("how-to/write-a-parser.md", "", "triptych.parsers"),
    "keep the copy up to date": ("how-to/copy-a-table.md", "", "delete_documents"),
    "BEIR": ("how-to/beir.md", "", "--beir"),
    "words of the query": ("how-to/keyword-boost.md", "", "keyword_boost"),
    "cost of layers": ("how-to/layer-costs.md", "", "--dry-run"),
    "refusals": ("how-to/quarantined-layers.md", "", "--retry-quarantined"),
    "layers with your own calls": ("how-to/layer-functions.md", "", "generate_document_context"),
    "node of a graph": ("how-to/graph-node.md", "", "knowledge_node"),
    "message queue": ("how-to/write-a-notifier.md", "", "EventNotifier"),
    "one file or object": ("how-to/keep-a-memory-store.md", "", "save=save"),
    "routes": ("reference/http.md", "limits", "Idempotency-Key"),
    "layout of a store of files": ("reference/files.md", "", "sidecars"),
    "commands": ("reference/command-line.md", "exit-codes", "`triptych search"),
    "classes, methods, functions": ("reference/api/triptych.md", "triptych.Service", "Service"),
}
"""What a reader comes for, in the start page's words: the page, the place there, what it shows."""


def clicks(words: str, page: str, anchor: str) -> int:
    """How many links lead from the row of the start page that has ``words`` to the place; 9: none.

    A heading of a page is one click from the page: its table of contents stands beside it.
    """
    start = (DOCS / "README.md").read_text(encoding="utf-8")
    rows = [row for row in start.splitlines() if row.startswith("| ") and words in row]
    best = 9
    for target, to in (link for row in rows for link in _LINK.findall(row)):
        further = {
            ((DOCS / target).parent / each).resolve().relative_to(DOCS).as_posix(): place
            for each, place in _LINK.findall(prose(DOCS / target))
            if each
        }
        if target == page:
            best = min(best, 1 if to == anchor else 2)
        elif page in further:
            best = min(best, 2 if further[page] in ("", anchor) else 3)
    return best


def _is_two_clicks_away(words: str) -> None:
    page, anchor, shows = TASKS[words]
    assert not anchor or anchor in anchors(DOCS / page)
    assert shows in (DOCS / page).read_text(encoding="utf-8")
    assert clicks(words, page, anchor) <= 2


def test_a_task_is_two_clicks_from_the_start_page() -> None:
    assert failures(TASKS, _is_two_clicks_away) == []


def test_a_page_that_no_row_leads_to_is_far() -> None:
    assert len(TASKS) >= 30
    assert clicks("install", "how-to/postgres.md", "") > 2
    assert clicks("no such words", "quickstart.md", "") > 2


# What was built


def test_the_check_of_the_built_site_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "site/a").mkdir(parents=True)
    (tmp_path / "site/index.html").write_text(
        '<h1 id="top"></h1><a href="a/">1</a><a href="a/#there">2</a><a href="#top">3</a>'
        '<a href="https://elsewhere.example">4</a><a href="a/#gone">5</a><img src="b.svg">'
    )
    (tmp_path / "site/a/index.html").write_text('<h2 id="there"></h2><a href="..">up</a>')
    assert BUILD.dead_links(tmp_path / "site") == ["index.html: a/#gone", "index.html: b.svg"]
    (tmp_path / "site/reference/api").mkdir(parents=True)
    (tmp_path / "site/reference/api/x.html").write_text('<h2 id="x.one"></h2>')
    (tmp_path / "api").mkdir()
    (tmp_path / "api/x.md").write_text("# x\n\n::: x.one\n\n::: x.two\n")
    assert BUILD.missing_names(tmp_path / "site", tmp_path / "api") == ["x.two"]


@each_row(
    ("line", "wrong"),
    [
        ("\x1b[33mWarning:\x1b[0m anchor does not exist", True),
        ("griffe: a.py:1: Failed to get 'name: description' pair", True),
        ("RuntimeError: Aborted because --strict flag is set", True),
        ("No issues found", False),
        ("Build finished in 4.5s", False),
    ],
)
def test_a_remark_of_the_generator_is_an_error(line: str, wrong: bool) -> None:
    assert bool(BUILD.remarks(line)) is wrong
