"""``triptych search``, ``get``, ``list``, ``layers``: finding and reading."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from support.document_files import make_pdf
from support.provider_server import Asked, Reply, as_json, serving
from support.rows import each_row
from support.terminal import Terminal, seen
from triptych.errors import ValidationError
from triptych_adapters.cli.names import editor_command

GUIDE = "# Guide\n\nRetries back off.\n\n## Limits\n\nTen requests per second.\n"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/guide.md", GUIDE)
    shell.write("docs/other.md", "# Other\n\nNothing of the kind.\n")
    shell.write("more/extra.md", "# Extra\n\nRetries elsewhere.\n")
    assert shell("put", "docs", "-m", "lang=en").code == 0
    assert shell("put", "more", "-m", "lang=fr", "--dataset", "more").code == 0
    return shell


def found(shell: Shell, *arguments: str) -> list[str]:
    ran = shell("search", *arguments, "--json")
    assert ran.code == 0, ran.err
    return [f"{hit['dataset_id']}/{hit['doc_name']}" for hit in ran.json["hits"]]


def test_a_hit_says_where_it_is_and_how_it_was_found(shell: Shell) -> None:
    ran = shell("search", "requests", "per", "second", "--json")
    assert ran.json["query"] == "requests per second"
    hit = ran.json["hits"][0]
    assert (hit["dataset_id"], hit["doc_name"], hit["layer"]) == ("default", "guide.md", "L2")
    assert hit["start_line"] == 5
    assert hit["heading_path"] == ["Guide", "Limits"]
    assert set(hit["scores"]) == {"bm25", "vector"}
    assert hit["stale"] is None
    assert GUIDE[hit["start"] : hit["end"]] == hit["content"]


def test_for_people_a_hit_is_a_line_and_its_text(shell: Shell) -> None:
    ran = shell("search", "requests", "--mode", "bm25")
    assert ran.text == ("guide.md:7  Guide > Limits  [default]  #1\n    Ten requests per second.\n")


def test_a_quote_that_is_not_closed_is_warned_of(shell: Shell) -> None:
    ran = shell("search", '"ten requests', "--json")
    assert "warning: the quote at '\"ten' has no partner" in ran.err
    assert ran.json["hits"][0]["doc_name"] == "guide.md"
    assert "partner" not in shell("search", '"ten requests', "--no-syntax").err


def test_no_hits_is_an_answer(shell: Shell) -> None:
    ran = shell("search", "zebra", "--mode", "bm25")
    assert (ran.code, ran.out) == (0, b"")
    assert "no hits" in ran.err
    assert found(shell, "zebra", "--mode", "bm25") == []


def test_a_query_whose_conditions_nothing_meets_says_so_and_what_to_try(shell: Shell) -> None:
    shell.write("a.md", "The call failed, and the request was sent again.")
    shell("put", "a.md")
    ran = shell("search", '"failed request" again* -draft')
    assert (
        'no hits: no text holds "failed request" and "again*" without "draft"; '
        "--no-syntax searches for the words alone" in ran.err
    )
    assert "a.md" in shell("search", '"failed request" again* -draft', "--no-syntax").text
    assert "no text is found without" in shell("search", "sent -request", "--mode", "bm25").err
    assert shell("search", "zebra", "--mode", "bm25").err.endswith("no hits\n")


def test_datasets_are_searched_one_by_one_or_all_together(shell: Shell) -> None:
    bm25 = ("retries", "--mode", "bm25")
    assert found(shell, *bm25, "--dataset", "default") == ["default/guide.md"]
    assert found(shell, *bm25, "--dataset", "more") == ["more/extra.md"]
    assert sorted(found(shell, *bm25)) == ["default/guide.md", "more/extra.md"]


def test_where_narrows_and_a_key_given_twice_widens(shell: Shell) -> None:
    bm25 = ("retries", "--mode", "bm25")
    assert found(shell, *bm25, "--where", "lang=fr") == ["more/extra.md"]
    assert len(found(shell, *bm25, "-w", "lang=fr", "-w", "lang=en")) == 2
    assert found(shell, *bm25, "-w", "doc_prefix=gui") == ["default/guide.md"]


def test_where_takes_conditions_in_json(shell: Shell) -> None:
    given = '{"year": 2024, "day": {"$date": "2026-09-01"}, "tags": ["a", 1]}'
    assert (
        shell(
            "put", "docs/guide.md", "--name", "guide.md", "--metadata", given, "-m", "lang=en"
        ).code
        == 0
    )
    shown = shell("get", "guide.md", "--json").json["document"]["metadata"]
    assert shown == {**json.loads(given), "lang": "en"}
    bm25 = ("retries", "--mode", "bm25", "-d", "default")
    for where in (
        '{"year": {"$gte": 2024}}',
        '{"day": {"$lt": {"$date": "2026-09-02"}}}',
        '{"$or": [{"tags": {"$contains": 1}}, {"lang": "fr"}]}',
    ):
        assert found(shell, *bm25, "--where", where) == ["default/guide.md"]
        assert found(shell, *bm25, "--where", where, "-w", "lang=fr") == []
    ran = shell("search", "retries", "--where", '{"year": ')
    assert (ran.code, "not a JSON object" in ran.err) == (2, True)
    ran = shell("search", "retries", "--where", "day=>=2026-09-01")
    assert ran.code == 2
    assert "'$gte'" in ran.err
    assert shell("put", "docs/guide.md", "-m", '{"year": null}').code == 2


def test_documents_are_found_whole(shell: Shell) -> None:
    hits = shell("search", "retries", "--documents", "--json", "-d", "default").json["hits"]
    assert hits[0]["doc_name"] == "guide.md"
    assert (hits[0]["layer"], hits[0]["chunk_index"]) == (None, -1)


def test_top_k_and_threshold_cut(shell: Shell) -> None:
    assert len(found(shell, "retries requests", "--top-k", "1")) == 1
    assert found(shell, "retries", "--threshold", "99") == []


@pytest.mark.parametrize(
    "options",
    [("--top-k", "0"), ("--mode", "magic"), ("--layer", "L9"), ("--where", "x"), ("--nope",)],
)
def test_invalid_input_is_usage(shell: Shell, options: tuple[str, ...]) -> None:
    assert shell("search", "x", *options).code == 2


def test_an_unknown_dataset_is_not_found(shell: Shell) -> None:
    ran = shell("search", "x", "--dataset", "nope", "--json")
    assert ran.code == 3
    assert ran.json["error"]["exit_code"] == 3
    assert ran.err.startswith("error: ")


def test_a_store_that_is_not_there_is_not_made_by_reading(shell: Shell) -> None:
    for arguments in (("search", "x"), ("list",), ("get", "a"), ("rebuild",), ("delete", "a")):
        assert shell(*arguments, "--store", "missing.db").code == 3
    assert not Path("missing.db").exists()


def test_get_prints_what_is_known_and_not_found_is_reported(shell: Shell) -> None:
    known = {row[0]: row[1] for row in shell("get", "guide.md", "--info").rows}
    assert known["size"] == str(len(GUIDE))
    assert known["metadata.lang"] == "en"
    assert "content" not in shell("get", "guide.md", "--info", "--json").json["document"]
    assert shell("get", "nope.md").code == 3


def test_signs_in_a_query_narrow_it_and_can_be_switched_off(shell: Shell) -> None:
    shell.write("more/draft.md", "# Draft\n\nRetries, a draft.\n")
    shell("put", "more", "-m", "lang=fr", "--dataset", "more")
    bm25 = ("--mode", "bm25", "-d", "more")
    assert found(shell, "retries -draft", *bm25) == ["more/extra.md"]
    assert found(shell, '"a draft"', *bm25) == ["more/draft.md"]
    assert found(shell, "retr* in:dra", *bm25) == ["more/draft.md"]
    assert len(found(shell, "retries -draft", "--no-syntax", *bm25)) == 2
    ran = shell("search", "retries lang:none", *bm25)
    assert "read as asking for documents with lang = 'none'" in ran.err


def test_a_reranker_orders_the_hits_or_the_search_fails(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(question: Asked) -> Reply:
        texts = question.body["texts"]
        asked.extend(texts)
        return as_json([{"index": at, "score": float(len(text))} for at, text in enumerate(texts)])

    with serving(answer) as server:
        name = f"tei:{server.url}"
        ran = shell("search", "retries", "--reranker", name, "--json")
        scores = [hit["scores"]["rerank"] for hit in ran.json["hits"]]
        assert scores == sorted(map(float, map(len, asked)), reverse=True)
        server.answer = lambda question: as_json({"error": "gone"}, 400)
        ran = shell("search", "retries", "--reranker", name)
        assert (ran.code, ran.out) == (6, b"")
        assert "text-embeddings-inference" in ran.err
    for named, said in (("onnx:none", "there is no folder"), ("llm", "set llm (TRIPTYCH_LLM)")):
        ran = shell("search", "retries", "--reranker", named)
        assert ran.code == 2
        assert said in ran.err
    # A command that does not search asks no model.
    monkeypatch.setenv("TRIPTYCH_RERANKER", "llm")
    monkeypatch.setenv("TRIPTYCH_LLM", "ollama:llama3.2")
    assert shell("get", "guide.md").code == 0


def test_a_synced_hit_has_its_file(shell: Shell) -> None:
    shell.write("notes/deep/a.md", "# Lighthouse\n\nA keeper.\n")
    assert shell("sync", "notes", "--prefix", "n/", "-q").code == 0
    (hit,) = shell("search", "lighthouse", "--mode", "bm25", "--json").json["hits"]
    assert hit["file"] == str(shell.directory / "notes" / "deep" / "a.md")
    ran = shell("search", "lighthouse", "--mode", "bm25", "-d", "default")
    assert ran.text.startswith("notes/deep/a.md:1  n/deep/a.md  Lighthouse  #1\n")
    assert shell("search", "lighthouse", "--mode", "bm25", "--files").text == "notes/deep/a.md\n"
    for name in ("n/deep/a.md", "notes/deep/a.md", "notes/deep/a.md:3"):
        assert shell("get", name).text.endswith("A keeper.\n"), name
    assert shell("get", "n/deep/a.md", "--json").json["document"]["file"] == hit["file"]
    # Without the file there is none to open.
    (shell.directory / "notes" / "deep" / "a.md").unlink()
    (hit,) = shell("search", "lighthouse", "--mode", "bm25", "--json").json["hits"]
    assert hit["file"] is None


def test_files_are_named_once_and_by_name_where_there_is_none(shell: Shell) -> None:
    ran = shell("search", "guide limits retries", "--files", "-d", "default", "--mode", "bm25")
    assert ran.text == "guide.md\n"


def at_terminal(shell: Shell, **env: str) -> Terminal:
    """A terminal in the folder of ``shell``, whose commands use the same store."""
    given = {name: os.environ[name] for name in ("TRIPTYCH_EMBEDDER", "XDG_DATA_HOME")}
    return Terminal(columns=100, cwd=shell.directory, env={**given, "VISUAL": "", **env})


@pytest.mark.process
def test_open_starts_the_editor_at_the_line(shell: Shell) -> None:
    shell.write("notes/a.md", "# One\n\nx\n\n## Two\n\nLighthouse.\n")
    shell("sync", "notes", "-q")
    editor = shell.write("bin/vim", '#!/bin/sh\necho "$@" > opened\n')
    editor.chmod(0o755)
    shell.write(
        "notes/retry.py",
        "import time\n\n\ndef other():\n    pass\n\n\ndef wait(pause):\n"
        '    """Do it again."""\n    backoff = pause * 2\n    time.sleep(backoff)\n',
    )
    shell("sync", "notes", "-q")
    with at_terminal(shell, EDITOR=str(editor)) as terminal:
        assert terminal.run("search", "lighthouse", "--open", "--mode", "bm25", "-q")[0] == 0
        assert Path("opened").read_text() == f"+7 {shell.directory / 'notes' / 'a.md'}\n"
        code, written = terminal.run("search", "backoff pause", "--open", "--mode", "bm25", "-q")
        assert (code, seen(written).startswith("notes/retry.py:10  ")) == (0, True)
        assert Path("opened").read_text() == f"+10 {shell.directory / 'notes' / 'retry.py'}\n"
    with at_terminal(shell, EDITOR=str(shell.directory / "nothing")) as terminal:
        code, written = terminal.run("search", "lighthouse", "--open", "--mode", "bm25")
        # The terminal breaks lines, where depends on the length of the folder's name.
        said = " ".join(seen(written).split())
        assert (code, "cannot be started" in said) == (2, True)


def test_a_query_of_fields_alone_lists_the_documents(shell: Shell) -> None:
    shell.write("tagged/a.md", "---\ntags: [green/dark, hot]\n---\n# A\n\nTea.\n\n# B\n\nTea.\n")
    shell.write("tagged/b.md", "---\ntags: cold\n---\nIce.\n")
    shell("sync", "tagged", "-q", "-d", "tagged")
    for query in ("tags:green", "tags:hot tags:none", 'doc_name:"a.md"'):
        ran = shell("search", query, "-d", "tagged", "--files")
        assert (ran.code, ran.text) == (0, "tagged/a.md\n"), query
    assert "only excludes" in shell("search", "--", "-tea").err


def test_an_option_that_another_command_calls_so_is_suggested(shell: Shell) -> None:
    assert "did you mean --top-k?" in shell("search", "tea", "--limit", "2").err
    assert "did you mean --limit?" in shell("list", "--top-k=2").err
    assert shell("search", "--", "--limit").code == 0


@pytest.mark.process
def test_open_opens_the_page_of_a_site_in_a_browser(shell: Shell) -> None:
    page = "https://docs.example.org/beacon"
    shell.write("notes/a.md", "Beacons are lit at dusk.\n")
    shell("put", "notes/a.md", "--metadata", f"source_url={page}", "-q", "-d", "site")
    (shell.directory / "notes" / "a.md").unlink()
    browser = shell.write("bin/browser", '#!/bin/sh\necho "$@" > opened\n')
    browser.chmod(0o755)
    search = ("search", "beacons", "--open", "--mode", "bm25", "-d", "site")
    with at_terminal(shell, BROWSER=str(browser)) as terminal:
        assert terminal.run(*search)[0] == 0
    assert Path("opened").read_text() == f"{page}\n"
    assert f"not opened, because stdout is not a terminal: {page}" in shell(*search).err


@pytest.mark.process
def test_into_a_pipe_open_names_the_place_and_starts_nothing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.write("notes/a.md", "# One\n\nx\n\n## Two\n\nLighthouse.\n")
    shell("sync", "notes", "-q")
    editor = shell.write("bin/vim", '#!/bin/sh\necho "$@" > opened\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    ran = shell("search", "lighthouse", "--open", "--mode", "bm25")
    assert (ran.code, ran.text.startswith("notes/a.md:7  ")) == (0, True)
    assert "not opened, because stdout is not a terminal: notes/a.md:7" in ran.err
    assert not Path("opened").exists()
    assert shell("search", "retries", "--open", "--mode", "bm25", "-d", "default").code == 7


@pytest.mark.process
def test_a_pdf_opens_in_a_viewer_and_names_the_page_of_the_match(shell: Shell) -> None:
    shell.write(
        "notes/codes.pdf",
        make_pdf([["E16 means that the pump is dry."], ["E17 means that the lid is open."]]),
    )
    shell("sync", "notes", "-q")
    ran = shell("search", "E17", "--mode", "bm25", "-d", "default")
    assert ran.text.startswith("notes/codes.pdf, page 2  ")
    with at_terminal(shell, EDITOR="vim", PATH=str(shell.directory / "bin")) as terminal:
        for name, code in (("vim", 2), ("xdg-open", 0)):
            shell.write(f"bin/{name}", f'#!/bin/sh\necho {name} "$@" > opened\n').chmod(0o755)
            ended, written = terminal.run("search", "E17", "--mode", "bm25", "--open", "-q")
            told = "open it yourself, notes/codes.pdf" in seen(written)
            assert (ended, told) == (code, code == 2)
    assert Path("opened").read_text() == f"xdg-open {shell.directory / 'notes' / 'codes.pdf'}\n"


def test_the_line_of_a_converted_file_is_that_of_the_file(shell: Shell) -> None:
    head = "<html><head>\n<style>\n" + "p {}\n" * 9 + "</style></head>\n<body><h1>Lamps</h1>\n"
    page = f"{head}<p>First.</p>\n\n<p>The lighthouse.</p>\n</body></html>\n"
    at = page[: page.index("lighthouse")].count("\n") + 1
    shell.write("notes/page.html", page)
    shell("put", "notes", "-d", "web")
    ran = shell("search", "lighthouse", "--mode", "bm25", "-d", "web")
    assert ran.text.startswith(f"page.html, line {at}  ")
    shell("sync", "notes", "-q", "-d", "synced")
    ran = shell("search", "lighthouse", "--mode", "bm25", "-d", "synced")
    assert ran.text.startswith(f"notes/page.html:{at}  ")


def test_hits_come_in_their_order_and_ten_of_them_fit_a_screen(shell: Shell) -> None:
    for number in range(3):
        sections = "".join(
            f"## Part {part}\n\n{'A ferry. ' * (4 - part)}{'Harbour. ' * 30 * part}\n\n"
            for part in range(4)
        )
        shell.write(f"ferries/{number}.md", sections)
    shell("put", "ferries", "-d", "ferries")
    lines = shell("search", "ferry", "-d", "ferries").text.splitlines()
    places = [line for line in lines if not line.startswith(" ") and "-- no word" not in line]
    assert [line.rpartition("#")[2] for line in places] == [str(at) for at in range(1, 11)]
    assert len(lines) <= 21
    longer = shell("search", "ferry", "-d", "ferries", "-v").text.splitlines()
    assert len(longer) > 24


def test_hits_end_where_the_evidence_ends_unless_a_number_is_asked_for(shell: Shell) -> None:
    for at in range(6):
        shell.write(f"birds/{at}.md", f"A gull number {at} cries over the pier.\n")
    shell.write("birds/map.md", "Take the train to Sassnitz.\n")
    assert shell("put", "birds", "-d", "birds").code == 0
    asked = ("search", "Sassnitz", "-d", "birds")
    found = shell(*asked)
    assert [line for line in found.text.splitlines() if "#" in line] == ["map.md:1  #1"]
    assert "6 more, without a word of it: -n 7" in found.err
    names = shell(*asked, "--files")
    assert (names.text, "6 more" in names.err) == ("map.md\n", True)
    whole = shell(*asked, "-n", "7")
    assert (whole.text.count("#"), "more" in whole.err) == (8, False)  # a marker has one, too
    other = ("which number of loans does the central bank refuse", "-d", "birds", "--mode", "bm25")
    foreign = shell("search", *other)
    assert (foreign.text.count("#"), "probably not about it" in foreign.err) == (3, True)
    names = shell("search", *other, "--files")
    assert (names.text, "6 more, hardly about it" in names.err, names.code) == ("", True, 0)
    assert len(json.loads(shell(*asked, "--json").out)["hits"]) == 7


def test_a_line_marks_where_hits_begin_that_hold_no_word_of_the_query(shell: Shell) -> None:
    mark = "-- no word of the query from #{} on --"
    ran = shell("search", "retries", "-d", "default", "-n", "10")
    assert [line for line in ran.text.splitlines() if not line.startswith(" ")][1] == (
        mark.format(2)
    )
    assert shell("search", "zebra", "-d", "default").text.splitlines()[0] == mark.format(1)
    for given in (("retries", "--mode", "bm25"), ('"back off"',), ("retr*",)):
        assert "no word" not in shell("search", *given, "-d", "default").text


@each_row(
    ("editor", "wanted"),
    [
        ("vim", ["vim", "+7", "/a b"]),
        ("/usr/bin/nano -l", ["/usr/bin/nano", "-l", "+7", "/a b"]),
        ("code --wait", ["code", "--wait", "--goto", "/a b:7"]),
        ("hx", ["hx", "/a b:7"]),
        ("some-editor", ["some-editor", "/a b"]),
    ],
)
def test_editors_are_told_the_line_in_their_own_way(editor: str, wanted: list[str]) -> None:
    assert editor_command(Path("/a b"), 7, {"EDITOR": editor}) == wanted
    assert editor_command(Path("/a b"), 7, {"EDITOR": "x", "VISUAL": editor}) == wanted


def test_no_editor_is_told(tmp_path: Path) -> None:
    for environ in ({}, {"PATH": str(tmp_path)}):
        with pytest.raises(ValidationError, match="set EDITOR"):
            editor_command(Path("/a"), 1, environ)


def test_without_a_setting_an_editor_that_is_installed_opens_the_file(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    for name, line in (("xdg-open", []), ("vi", ["+7"]), ("nano", ["+7"])):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        wanted = [str(tmp_path / name), *line, "/a b"]
        assert editor_command(Path("/a b"), 7, environ) == wanted


def test_no_lines_cannot_be_got(shell: Shell) -> None:
    ran = shell("get", "guide.md:3-2")
    assert (ran.code, ran.out, "no lines to read" in ran.err) == (2, b"", True)


def test_get_prints_lines_and_several_documents(shell: Shell) -> None:
    assert shell("get", "guide.md:3").text == "Retries back off.\n"
    assert shell("get", "guide.md:7-").text == "Ten requests per second.\n"
    assert shell("get", "guide.md:6-15").text == "\nTen requests per second.\n"
    ran = shell("get", "guide.md:1", "extra.md:1-1")
    assert ran.text == "==> guide.md <==\n# Guide\n\n==> extra.md <==\n# Extra\n"
    documents = shell("get", "guide.md:1", "other.md", "--json").json["documents"]
    assert [(each["name"], each.get("start_line")) for each in documents] == [
        ("guide.md", 1),
        ("other.md", None),
    ]
    for place in ("guide.md:8", "guide.md:0"):
        ran = shell("get", place)
        assert ran.code == 2
        assert "the document has 7 lines" in ran.err
    # A name may look like a place.
    shell("put", "docs/other.md", "--name", "odd:3")
    assert shell("get", "odd:3").text.startswith("# Other")


def test_get_suggests_names_that_are_near(shell: Shell) -> None:
    shell.write("deep/guide/start.md", "# Start\n")
    shell("put", "deep")
    for typed, meant in (
        ("start.md", "guide/start.md"),
        ("GUIDE.md", "guide.md"),
        ("start", "guide/start.md"),
        ("Start.md", "guide/start.md"),
        ("gide.md", "guide.md"),
        ("strat.md", "guide/start.md"),
    ):
        ran = shell("get", typed)
        assert ran.code == 3
        assert f"did you mean '{meant}'" in ran.err, typed
    assert "did you mean" not in shell("get", "zzz").err


def test_get_looks_in_all_datasets(shell: Shell) -> None:
    assert shell("get", "extra.md").text.startswith("# Extra")
    assert shell("get", "extra.md", "-d", "default").code == 3
    shell("put", "more", "--dataset", "third")
    ran = shell("get", "extra.md")
    assert ran.code == 2
    assert "'more/extra.md' or 'third/extra.md'" in ran.err


def test_list_pages_and_lists_datasets(shell: Shell) -> None:
    assert [row[0] for row in shell("list").rows] == ["guide.md", "other.md"]
    assert [row[0] for row in shell("list", "--limit", "1").rows] == ["guide.md"]
    assert [row[0] for row in shell("list", "--after", "guide.md").rows] == ["other.md"]
    assert [row[0] for row in shell("list", "--prefix", "o").rows] == ["other.md"]
    assert shell("list", "--datasets").text == "default\nmore\n"
    assert shell("list", "--datasets", "--json").json["datasets"] == ["default", "more"]
    documents = shell("list", "--json").json["documents"]
    assert documents[0]["size"] == len(GUIDE)


def test_layers_are_built_and_shown(shell: Shell) -> None:
    assert shell("layers", "show", "guide.md").code == 3
    assert shell("layers", "build").code == 0
    layers = shell("layers", "show", "guide.md", "--json").json["layers"]
    assert [layer["layer"] for layer in layers] == ["L0", "L1"]
    assert all(layer["stale"] is None for layer in layers)
    assert shell("layers", "show", "--dataset-layer", "--layer", "L0").text.strip()
    assert shell("search", "retries", "--layer", "L0", "--json").json["hits"][0]["layer"] == "L0"
    again = shell("layers", "build", "--json").json
    assert again["command"] == "layers build"
    assert (again["report"]["made"], again["report"]["failed"]) == (0, [])


def test_a_layer_tells_that_its_document_has_changed(shell: Shell) -> None:
    shell("layers", "build")
    shell.write("docs/guide.md", GUIDE + "\nMore.\n")
    shell("put", "docs", "-m", "lang=en")
    layers = shell("layers", "show", "guide.md", "--json").json["layers"]
    assert {layer["stale"] for layer in layers} == {"source"}


@pytest.mark.parametrize(
    "arguments", [(), ("guide.md", "--dataset-layer"), ("guide.md", "--layer", "L2")]
)
def test_layers_show_needs_one_thing_to_show(shell: Shell, arguments: tuple[str, ...]) -> None:
    assert shell("layers", "show", *arguments).code == 2


def test_the_past_is_searched_and_named(shell: Shell) -> None:
    shell.write("docs/guide.md", GUIDE.replace("Ten", "Twenty"))
    assert shell("put", "docs", "-m", "lang=en").code == 0
    query = ("requests", "--mode", "bm25", "--dataset", "default", "--as-of")
    ran = shell("search", *query, "1", "--json")
    assert (ran.json["as_of"], [hit["version"] for hit in ran.json["hits"]]) == (1, [1])
    ran = shell("search", *query, "1")
    assert "Ten requests per second." in ran.text
    assert "as of version 1" in ran.err
    ran = shell("context", *query, "1")
    assert "v1" in ran.text
    assert "Ten requests per second." in ran.text
    ran = shell("search", *query, "tomorrow")
    assert ran.code == 2
    assert "as_of is no moment: 'tomorrow'" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "retries", "--where", "colour=red"),
        ("search", "retries", "colour:red"),
        ("search", "retries", "--where", '{"$or": [{"colour": "red"}, {"lang": "none"}]}'),
        ("context", "retries", "--where", "colour=red"),
        ("list", "--where", "colour=red"),
        ("list", "--count", "--where", "colour=red"),
        ("delete", "--where", "colour=red", "--yes"),
        ("tag", "--where", "colour=red", "--set", "a=b"),
    ],
)
def test_a_filter_by_a_field_that_no_document_has_names_those_there_are(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    said = "no document has 'colour'; the fields are lang\n"
    ran = shell(*arguments)
    assert (ran.code, said in ran.err) == (0, True), ran.err
    assert said not in shell("search", "retries", "--where", "lang=none").err


def test_a_name_prefix_is_the_same_with_its_slash_and_one_of_nothing_is_said(shell: Shell) -> None:
    shell.write("tree/deep/a.md", "# Lighthouse\n\nA keeper.\n")
    assert shell("put", "tree").code == 0
    for prefix in ("in:deep", "in:deep/", 'in:"deep/"', "prefix:deep/"):
        assert found(shell, "lighthouse", prefix) == ["default/deep/a.md"], prefix
    for where in ("doc_prefix=deep", "doc_prefix=deep/", "$prefix=deep/"):
        assert found(shell, "lighthouse", "--where", where) == ["default/deep/a.md"], where
    for arguments in (("lighthouse", "in:tree/"), ("lighthouse", "--where", "doc_prefix=tree/")):
        assert "no document's name begins with 'tree/'" in shell("search", *arguments).err


def test_where_finds_what_front_matter_says_by_its_types(shell: Shell) -> None:
    text = "---\ntags: [novel, pot]\nyear: 2021\nstub: true\ndate: 2024-05-01\nversion: 1.10\n---\n"
    Path("notes").mkdir()
    Path("notes/a.md").write_text(f"{text}A quokka.\n", encoding="utf-8")
    Path("notes/b.md").write_text("---\ntags: novels\nyear: 1999\n---\nA quokka.\n")
    shell("put", "notes", "--quiet", "-d", "n")
    quokka = ("search", "quokka", "-d", "n", "--files")
    for where in (
        *("tags=novel", "year=2021", "stub=true", "date=2024-05-01", "version=1.10"),
        *('{"tags": {"$contains": "pot"}}', '{"year": {"$gt": 2020}}', '{"stub": true}'),
        '{"date": {"$lt": {"$date": "2025-01-01"}}}',
    ):
        assert shell(*quokka, "--where", where).out == b"a.md\n", where
        assert shell("list", "-d", "n", "--where", where, "--count").out.strip() == b"1", where
    for word in ("tags:novel", "year:2021", "stub:true", "date:2024-05-01", "-wombat tags:pot"):
        assert shell("search", f"quokka {word}", "-d", "n", "--files").out == b"a.md\n", word
    assert shell(*quokka, "-w", "tags=novel", "-w", "tags=novels").out == b"a.md\nb.md\n"
    assert shell(*quokka, "-w", "tags=nov").out == b""
    assert "a comparison is written as JSON" in shell(*quokka, "-w", "year>=2020").err
