"""Folders of the server's disk: who is shown them, and who may sync or name one."""

from __future__ import annotations

import functools
import html
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import HOSTILE, TOKEN, post, read
from support.servers import serving
from support.web_site import Site, web_site
from triptych import deadlines
from triptych.errors import ValidationError
from triptych.service import Service
from triptych.sync import SyncReport, SyncRoot
from triptych_adapters.cli.folders import add_folder
from triptych_factory import (
    Settings,
    Trust,
    parse_location,
    remembered_roots,
    remembered_sources,
    sync_remembered,
)
from triptych_server.http import Limits, create_app
from triptych_server.http.workers import _roots
from triptych_server.keys import KeyAuthenticator, KeyStore
from triptych_sources import RememberedSource


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.resolve({"url": str(tmp_path / "kb.db"), "embedder": "hash", "llm": "none"})


@pytest.fixture
def kb(settings: Settings) -> Iterator[Service]:
    with triptych.open(settings.url, embedder="hash") as opened:
        yield opened


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nGreen tea.")
    (folder / "coffee.md").write_text("# Coffee\n\nBeans.")
    return folder


def app(kb: Service, settings: Settings, **options: Any) -> Any:
    """The app as `triptych serve` makes it; with ``name`` as `triptych console` does."""
    if options.pop("name", False):
        options["add_folder"] = functools.partial(add_folder, settings)
        options.setdefault("folder_code", "the code")
    given = {"write": True, "console": True, **options}
    sync, roots = (functools.partial(each, settings) for each in (sync_remembered, _roots))
    return create_app(kb, sync=sync, roots=roots, **given)


def remember(kb: Service, settings: Settings, folder: Path) -> None:
    remembered_roots(kb, settings).add([SyncRoot(path=folder, dataset_id="docs", prefix="n/")])


def test_folders_are_shown_with_their_last_sync_and_synced(
    kb: Service, settings: Settings, notes: Path
) -> None:
    kb.put_document("docs", "own.md", "Own.")
    ask = Client(app(kb, settings))
    assert "Folders" not in ask("GET", "/console/datasets").text
    remember(kb, settings, notes)
    text = ask("GET", "/console/datasets").text
    assert str(notes) in text
    assert "<td>never</td>" in text
    kb.put_document("other", "own.md", "Own.")
    pages = [ask("GET", f"/console/datasets/{each}").text for each in ("docs", "other")]
    assert [f"Synced from <bdi>{notes}" in each for each in pages] == [True, False]
    (notes / "bad.md").write_bytes(b"\xff\xfe\x00\xd8")
    report = post(ask, "/console/datasets", do="sync")
    assert report.status_code == 200
    assert "2 added, 0 updated" in report.text
    assert "<time" in report.text.partition('id="folders"')[2]
    assert "<td>never</td>" not in ask("GET", "/console/datasets").text
    names = [each.name for each in kb.list_documents("docs")]
    assert names == ["n/coffee.md", "n/tea.md", "own.md"]
    notes.rename(notes.parent / "moved")
    assert "not there" in ask("GET", "/console/datasets").text


def test_a_sync_that_the_time_limit_ends_says_how_to_go_on(kb: Service) -> None:
    def sync(*_: object) -> SyncReport:
        while True:
            deadlines.check("the sync")

    limits = Limits(seconds=0.2)
    ask = Client(create_app(kb, write=True, console=True, sync=sync, limits=limits))
    answer = post(ask, "/console/datasets", do="sync")
    assert answer.status_code == 303
    assert "Sync again to go on" in ask("GET", answer.headers["location"]).text
    *_, (name, last) = told(post(ask, "/console/folders/stream", do="sync").text)
    assert name == "end"
    assert "Sync again to go on" in last["html"]


def told(text: str) -> list[tuple[str, Any]]:
    """The events of a stream."""
    found = re.findall(r"^event: (\w+)\ndata: (.*)$", text, re.MULTILINE)
    return [(name, json.loads(data)) for name, data in found]


@pytest.mark.parametrize("do", ["sync", "folder"])
def test_a_sync_tells_how_far_it_is(do: str, kb: Service, settings: Settings, notes: Path) -> None:
    for number in range(40):
        (notes / f"{number}.md").write_text(f"Note {number}.")
    if do == "sync":
        remember(kb, settings, notes)
    ask = Client(app(kb, settings, name=True))
    form = {"do": do, "code": "the code", "folder": str(notes), "dataset": "docs"}
    first, *steps, (name, last) = told(post(ask, "/console/folders/stream", **form).text)
    assert first == ("progress", {"phases": [], "used": ""})
    phases = [value["phases"] for _, value in steps]
    assert {"phase": "documents", "done": 42, "total": 42} in phases[-1]
    assert [each["phase"] for each in phases[-1]] == ["documents", "embedding"]
    assert name == "end"
    assert "42 added, 0 updated" in last["html"]
    assert "<main" not in last["html"]
    assert kb.count_documents("docs") == 42


def test_what_a_sync_does_not_do_is_named(kb: Service, settings: Settings, notes: Path) -> None:
    remember(kb, settings, notes)
    ask = Client(app(kb, settings))
    post(ask, "/console/datasets", do="sync")
    for each in notes.iterdir():
        each.unlink()
    text = post(ask, "/console/datasets", do="sync").text
    assert "0 deleted" in text
    assert kb.count_documents("docs") == 2
    assert 'class="list"><li>' in text  # the deletions that wait for a person
    assert "<code>triptych sync --yes</code> deletes their documents" in text


@pytest.fixture
def site(kb: Service, settings: Settings) -> Iterator[Site]:
    """A web site of two pages that the store remembers."""
    with web_site() as made:
        made.lists("/", "/install")
        made.pages |= {"/": "<h1>Home</h1>", "/install": "<p>Run the installer."}
        remembered = RememberedSource(
            location=made.url, limits={"private": True, "delay": 0}, dataset_id="web", prefix="s/"
        )
        remembered_sources(kb).add(remembered)
        Trust().add_root(parse_location(settings.url), remembered.told)
        yield made


def test_sources_are_shown_and_synced_with_and_without_folders(
    kb: Service, settings: Settings, notes: Path, site: Site
) -> None:
    ask = Client(app(kb, settings))
    first = ask("GET", "/console/datasets").text
    assert site.url in first
    assert "<td>never</td>" in first
    assert "not there" not in first
    assert "2 added, 0 updated" in post(ask, "/console/datasets", do="sync").text
    assert [each.name for each in kb.list_documents("web")] == ["s/index.html", "s/install"]
    assert "<td>never</td>" not in ask("GET", "/console/datasets").text
    assert f"Synced from <bdi>{site.url}" in ask("GET", "/console/datasets/web").text
    remember(kb, settings, notes)
    site.pages["/install"] = "<p>Run it twice."
    *steps, (name, last) = told(post(ask, "/console/folders/stream", do="sync").text)
    assert {"phase": "documents", "done": 1, "total": 2} in steps[-1][1]["phases"]
    assert name == "end"
    assert "2 added, 1 updated, 1 unchanged" in last["html"]


def test_a_source_that_is_away_or_lists_little_keeps_its_documents(
    kb: Service, settings: Settings, site: Site
) -> None:
    ask = Client(app(kb, settings))
    post(ask, "/console/datasets", do="sync")
    (before,) = remembered_sources(kb).all()
    del site.pages["/sitemap.xml"]
    text = post(ask, "/console/datasets", do="sync").text
    assert "1 failed" in text
    assert f"<li><bdi>{site.url}" in text
    assert remembered_sources(kb).all() == [before]
    site.lists("/new")
    site.pages["/new"] = "<p>New."
    text = post(ask, "/console/datasets", do="sync").text
    assert "are not listed any more" in text
    assert "<code>triptych sync --yes</code> deletes their documents" in text
    assert kb.count_documents("web") == 3


def test_a_source_that_nobody_added_on_this_machine_is_not_asked(
    kb: Service, settings: Settings, site: Site
) -> None:
    (known,) = remembered_sources(kb).all()
    remembered_sources(kb).add(attrs.evolve(known, limits={"private": True, "delay": 0.1}))
    answer = post(Client(app(kb, settings)), "/console/datasets", do="sync")
    assert answer.status_code == 400
    assert "run `triptych trust`" in html.unescape(answer.text)
    assert site.paths() == []


def test_files_that_are_skipped_are_named(kb: Service, settings: Settings, notes: Path) -> None:
    remember(kb, settings, notes)
    (notes / "photo.md").write_bytes(b"\x89PNG\0\0")
    text = post(Client(app(kb, settings)), "/console/datasets", do="sync").text
    assert "1 skipped" in text
    assert "<bdi>photo.md</bdi>: binary" in text


def test_words_that_a_file_has_and_its_text_lacks_are_named(
    kb: Service, settings: Settings, notes: Path
) -> None:
    remember(kb, settings, notes)
    ask = Client(app(kb, settings))
    assert "not searched" not in ask("GET", "/console/work").text
    name = "<i>empty.csv"
    (notes / name).write_text(",,\n")
    text = post(ask, "/console/datasets", do="sync").text
    assert "Notes on files" in text
    assert "little or no text (the parser found nothing to read in it)" in text
    work = ask("GET", "/console/work").text
    assert "Words of files that are not searched" in work
    assert re.search(r"<bdi>n/&lt;i&gt;empty.csv</bdi></a> <span[^>]*>no text", work), work
    assert "Nothing waits" not in work
    page = ask("GET", "/console/documents/docs/n%2F%3Ci%3Eempty.csv").text
    assert "little or no text (the parser found nothing to read in it)" in page


@pytest.mark.parametrize("access", [{"dataset_ids": ["docs"]}, {"where": {"doc_prefix": "n/"}}])
def test_a_restricted_key_sees_and_syncs_no_folder(
    access: dict[str, Any], kb: Service, settings: Settings, notes: Path
) -> None:
    remember(kb, settings, notes)
    kb.put_document("docs", "n/a.md", "Own.")
    keys = KeyStore.of(kb)
    part, whole, reads = (
        keys.add("part", can_write=True, **access).token,
        keys.add("whole", can_write=True).token,
        keys.add("reads").token,
    )
    ask = Client(app(kb, settings, authenticate=KeyAuthenticator(kb, keys)))

    def page(key: str) -> str:
        headers = {"Authorization": f"Bearer {key}"}
        paths = ("/console/datasets", "/console/datasets/docs")
        return "".join(ask("GET", each, headers=headers).text for each in paths)

    assert str(notes) not in page(part)
    assert "Sync now" not in page(part)
    assert str(notes) in page(whole)
    assert "Sync now" in page(whole)
    assert str(notes) in page(reads)
    assert "Sync now" not in page(reads)
    for key, status in ((part, 403), (reads, 403), (whole, 200)):
        headers = {**TOKEN, "Authorization": f"Bearer {key}"}
        form = {"form_token": "token", "do": "sync"}
        for path in ("/console/datasets", "/console/folders/stream"):
            assert ask("POST", path, data=form, headers=headers).status_code == status


# Naming a folder


def test_a_folder_of_this_machine_is_named_remembered_and_synced(
    kb: Service, settings: Settings, notes: Path
) -> None:
    ask = Client(app(kb, settings, name=True))
    first = ask("GET", "/").text
    assert "Folder on this machine" in first
    assert "Sync now" not in first  # there are none yet
    answer = post(
        ask, "/console/datasets", do="folder", code="the code", folder=str(notes), dataset="docs"
    )
    assert "2 added" in answer.text
    assert [each.name for each in kb.list_documents("docs")] == ["coffee.md", "tea.md"]
    (root,) = remembered_roots(kb, settings).all()
    assert root.root.path == notes
    assert root.synced_at is not None
    (notes / "new.md").write_text("New.")
    assert "1 added" in post(ask, "/console/datasets", do="sync").text


@pytest.mark.parametrize(
    "folder",
    [
        "",
        "notes",
        "/nowhere/at/all",
        "~nobody/notes",
        "/dev/null",
        "/a\0b",
        "/" + "x" * 5_000,
        HOSTILE,
    ],
)
def test_what_is_no_folder_is_refused_with_a_hint(
    folder: str, kb: Service, settings: Settings
) -> None:
    ask = Client(app(kb, settings, name=True))
    answer = post(
        ask, "/console/datasets", do="folder", code="the code", folder=folder, dataset="docs"
    )
    assert answer.status_code == 400
    assert "is no folder on this machine: write its whole path" in answer.text
    assert read(answer.text).open == []
    assert list(kb.list_datasets()) == []


def test_names_of_files_that_are_no_text_are_shown_all_the_same(
    kb: Service, settings: Settings, tmp_path: Path
) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.mkdir()
    remember(kb, settings, folder)
    ask = Client(app(kb, settings))
    assert ask("GET", "/console/datasets").status_code == 200
    assert post(ask, "/console/datasets", do="sync").status_code == 200


def test_no_folder_is_named_from_elsewhere_or_where_that_was_not_asked_for(
    kb: Service, settings: Settings, notes: Path
) -> None:
    form = {"do": "folder", "code": "the code", "folder": str(notes), "dataset": "docs"}
    for made in (app(kb, settings), app(kb, settings, write=False)):
        ask = Client(made)
        assert "Folder on this machine" not in ask("GET", "/").text
        assert post(ask, "/console/datasets", **form).status_code >= 400
        assert post(ask, "/console/folders/stream", **form).status_code >= 400
    made = app(kb, settings, name=True)

    async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
        await made({**scope, "client": ("10.0.0.9", 1234)}, receive, send)

    ask = Client(elsewhere)
    assert "Folder on this machine" not in ask("GET", "/").text
    assert post(ask, "/console/datasets", **form).status_code >= 400
    assert post(ask, "/console/folders/stream", **form).status_code >= 400
    assert "form_token" in Client(made)("GET", "/").text
    assert Client(made)("POST", "/console/datasets", data=form).status_code == 403  # another site
    assert list(kb.list_datasets()) == []
    keys = KeyAuthenticator(kb, KeyStore.of(kb))
    for options in ({"authenticate": keys}, {"write": False}, {"folder_code": ""}):
        with pytest.raises(ValidationError, match="add_folder"):
            app(kb, settings, name=True, **options)


@pytest.mark.parametrize("code", ["", "another", "the code but longer"])
@pytest.mark.parametrize("folder", ["notes", "nowhere"])
def test_no_folder_is_read_without_the_code_of_the_terminal(
    code: str, folder: str, kb: Service, settings: Settings, notes: Path
) -> None:
    ask = Client(app(kb, settings, name=True))
    path = str(notes.parent / folder)
    form = {"do": "folder", "code": code, "folder": path, "dataset": "docs"}
    for route in ("/console/datasets", "/console/folders/stream"):
        answer = post(ask, route, **form)
        assert answer.status_code == 403
        assert "not the code that the terminal" in answer.text
    assert list(kb.list_datasets()) == []


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "keys", "offered"),
    [
        (["console", "--no-browser", "--write"], False, True),
        (["console", "--no-browser"], False, False),
        (["console", "--no-browser", "--write"], True, False),
        (["serve", "--port", "0", "--workers", "1", "--write"], False, False),
    ],
)
def test_only_a_console_that_writes_without_keys_takes_a_folder(
    command: list[str], keys: bool, offered: bool, kb: Service, tmp_path: Path, notes: Path
) -> None:
    token = KeyStore.of(kb).add("whole", can_write=True).token if keys else ""
    headers = {"Authorization": f"Bearer {token}"} if keys else {}
    run = [sys.executable, "-m", "triptych_adapters.cli", *command, "--store", "kb.db"]
    with serving(tmp_path, [*run, "--embedder", "hash"]) as served:
        page = httpx.get(f"{served.url}/", headers=headers, timeout=60).text
        assert "There is no document yet" in page
        assert ("Folder on this machine" in page) is offered
        said = re.search(r"type this code there: (\w+)", served.log.read_text())
        form = {"do": "folder", "folder": str(notes), "dataset": "docs", "form_token": "token"}
        form["code"] = said[1] if said else ""
        answer = httpx.post(
            f"{served.url}/console/datasets", data=form, headers={**TOKEN, **headers}, timeout=60
        )
    assert answer.is_success is offered
    assert ("docs" in kb.list_datasets()) is offered
