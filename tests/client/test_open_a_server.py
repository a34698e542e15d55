"""`triptych.open` and the command line take the address of a server where they take a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from support.cli_run import ran
from support.servers import served
from support.trusted import write_trusted
from triptych.errors import ValidationError
from triptych.search import Pipeline
from triptych_factory import Settings, wire
from triptych_factory.backends import connect
from triptych_server.client import RemoteService


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("served")
    short = Pipeline(name="short", datasets=["default"], search={"top_k": 1})
    with triptych.open(folder / "kb.db", embedder="hash", pipelines=[short]) as kb:
        kb.put_documents("default", {"tea.md": "# Tea\n\nA pot of tea.\n", "a/b.md": "Milk.\n"})
        with served(kb, write=True) as address:
            yield address


def test_one_line_changes(url: str) -> None:
    with triptych.open(url) as kb:
        assert isinstance(kb, RemoteService)
        assert kb.search("tea", dataset_id="default").hits[0].doc_name == "tea.md"


def test_what_is_the_servers_business_is_refused(url: str) -> None:
    for options in ({"embedder": "hash"}, {"history": 3}, {"llm": None}, {"chunk_size": 100}):
        with pytest.raises(ValidationError, match="is configured on the server") as caught:
            triptych.open(url, **options)  # type: ignore[arg-type]
        if next(iter(options.values())) is not None:
            assert next(iter(options)) in str(caught.value)


def settings(tmp_path: Path, file: str, **environ: str) -> Settings:
    write_trusted(tmp_path, file, tmp_path)
    environ["XDG_DATA_HOME"] = str(tmp_path)
    return Settings.resolve(environ=environ, directory=tmp_path)


def test_a_key_goes_only_where_its_owner_wants(tmp_path: Path) -> None:
    there = 'url = "http://kb.example:8400"\n'
    with pytest.raises(ValidationError, match="TRIPTYCH_TRUSTED_HOSTS") as caught:
        connect(settings(tmp_path, there, TRIPTYCH_API_KEY="tk_secret"), environ={})
    assert "tk_secret" not in str(caught.value)
    trusted = {"TRIPTYCH_TRUSTED_HOSTS": "kb.example"}
    connect(settings(tmp_path, there, TRIPTYCH_API_KEY="tk_secret"), environ=trusted).close()
    wire(settings(tmp_path, f'{there}api_key = "tk_file"\n')).close()
    mine = {"TRIPTYCH_API_KEY": "tk_secret", "TRIPTYCH_URL": "http://kb.example:8400"}
    wire(settings(tmp_path, there, **mine)).close()
    shown = settings(tmp_path, there, TRIPTYCH_API_KEY="tk_secret").explain()
    assert [each.value for each in shown if each.name == "api_key"] == ["set"]


@pytest.mark.parametrize(
    "command",
    [
        ["search", "tea", "--json"],
        ["search", "tea", "--documents"],
        ["get", "tea.md"],
        ["list"],
        ["status"],
        ["status", "--json"],
        ["context", "tea", "--budget", "200"],
        ["history", "tea.md"],
        ["doctor"],
        ["embed"],
        ["rebuild"],
        ["export", "-o", "out.jsonl"],
        ["tag", "tea.md", "--set", "lang=en"],
        ["list", "--pipelines"],
    ],
    ids=" ".join,
)
def test_commands_take_the_address(
    url: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = ran([*command, "--store", url])
    assert result.code == 0, result.err
    if "--json" in command:
        assert result.json


def test_pipelines_are_the_servers(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ran(["list", "--pipelines", "--store", url]).text == "short\n"
    told = ran(["list", "--pipelines", "--store", url, "--json"]).json
    assert told["pipelines"] == [{"name": "short"}]
    found = ran(["search", "tea milk", "--pipeline", "short", "--store", url, "--json"])
    assert (found.code, len(found.json["hits"])) == (0, 1), found.err
    # An option that is given counts, also where it is what a search without pipeline does.
    every = ["search", "tea milk", "--pipeline", "short", "--top-k", "10", "--store", url, "--json"]
    assert len(ran(every).json["hits"]) == 2
    assert ran(["context", "tea", "--pipeline", "short", "--store", url]).code == 0
    wrong = ran(["search", "tea", "--pipeline", "shor", "--store", url])
    assert (wrong.code, "did you mean 'short'" in wrong.err) == (3, True)


def test_options_equal_to_defaults_take_the_place_of_a_pipelines(url: str) -> None:
    with triptych.open(url) as kb:
        short = kb.pipeline("short")
        assert len(short.search("tea milk").hits) == 1
        assert len(short.search("tea milk", top_k=10).hits) == 2
        assert len(short.search_documents("tea milk", top_k=10).hits) == 2
        assert [len(each.hits) for each in short.search_many(["tea milk"], top_k=10)] == [2]
        assert len(short.search(triptych.Query(text="tea milk")).hits) == 2
        with pytest.raises(ValidationError, match="top_kk"):
            short.search("tea", top_kk=3)  # type: ignore[call-arg]


def test_what_needs_the_store_itself_says_so(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.md").write_text("# A\n\nText of a.\n")
    result = ran(["put", "notes", "--store", url])
    assert result.code == 0, result.err
    assert "Text of a" in ran(["get", "a.md", "--store", url]).text
    for command in (["sync"], ["watch"], ["list", "--folders"], ["layers", "build", "--dry-run"]):
        result = ran([*command, "--store", url])
        assert result.code == 7, result.err
        assert "on a server" in result.err
