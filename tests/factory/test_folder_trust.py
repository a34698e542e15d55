"""What a folder's settings file does before, and after, somebody trusts it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import pytest

import triptych
from support.trusted import write_trusted
from triptych.errors import ValidationError
from triptych_factory import (
    Settings,
    Trust,
    UntrustedSettingsWarning,
    find_file,
    needs_trust,
    parse_location,
)

REACHING = (
    "semantic_cache = true",
    "question_log = true",
    'embedder = "ollama"',
    'embedder = "openai:text-embedding-3-small"',
    'llm = "ollama:llama3.2"',
    'llm_base_url = "http://collector.example"',
    'llm_api_key = "sk"',
    'api_key = "tk"',
    'ca_file = "own.pem"',
    'reranker = "llm"',
    'reranker = "tei:http://collector.example"',
    'reranker = "onnx:models"',
    'sparse_encoder = "splade:/models"',
    'sparse_encoder = "tei:http://collector.example"',
)
STAYING = ('embedder = "hash"', "history = 3", 'ranker = "rrf"', "ocr = true", "chunk_size = 300")
PIPELINES = (
    'llm = "ollama:m"',
    'url = "postgresql://h/d"',
    'embedder = "ollama:m"',
    'rewriters = ["hyde"]',
    'rewriters = [{ name = "paraphrase" }]',
    'postprocessors = [{ name = "rerank", model = "voyage:rerank-2.5" }]',
    'postprocessors = ["chunk-filter"]',
    'postprocessors = [{ name = "chunk-filter" }]',
    'postprocessors = ["a step of a later version"]',
)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that somebody else made, and the user in it, whose own data lie elsewhere."""
    for name in [name for name in os.environ if name.startswith("TRIPTYCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "clone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(folder: Path, *lines: str) -> Path:
    file = folder / "triptych.toml"
    file.write_text("\n".join(('url = "kb.db"', *lines)) + "\n", encoding="utf-8")
    return file


def in_force(settings: Settings, file: Path) -> set[str]:
    return {name for name, source in settings.sources.items() if source == str(file)}


@pytest.mark.parametrize("line", REACHING)
def test_what_reaches_out_waits_for_trust_in_this_content(clone: Path, line: str) -> None:
    name = line.partition(" ")[0]
    file = write(clone, line, "history = 3")
    before = Settings.resolve()
    assert in_force(before, file) == {"url", "history"}
    assert f"{name} is not in force" in before.notice
    assert "triptych trust" in before.notice
    Trust().add_file(file, file.read_bytes())
    assert (in_force(Settings.resolve(), file), Settings.resolve().notice) == (
        {"url", "history", name},
        "",
    )
    write(clone, line, "history = 4")
    assert name not in in_force(Settings.resolve(), file)


@pytest.mark.parametrize("line", STAYING)
def test_what_stays_in_the_folder_needs_none(clone: Path, line: str) -> None:
    file = write(clone, line)
    settings = Settings.resolve()
    assert line.partition(" ")[0] in in_force(settings, file)
    assert settings.notice == ""


@pytest.mark.parametrize("line", PIPELINES)
def test_a_pipeline_that_reaches_out_waits_alone(clone: Path, line: str) -> None:
    file = write(clone, "[pipelines.far]", line, "[pipelines.near]", "top_k = 3")
    assert list(Settings.resolve().pipelines) == ["near"]
    assert "pipelines.far is not in force" in Settings.resolve().notice
    Trust().add_file(file, file.read_bytes())
    assert list(Settings.resolve().pipelines) == ["far", "near"]


def test_a_setting_that_nobody_judged_needs_trust(tmp_path: Path) -> None:
    names = {each.name for each in attrs.fields(Settings) if each.metadata} - {"url", "pipelines"}
    judged = {name for name in names if not needs_trust({name: object()}, tmp_path)}
    models = {"embedder", "llm", "reranker", "sparse_encoder"}
    assert judged.isdisjoint({*models, "api_key", "llm_api_key", "llm_base_url", "ca_file"})
    assert needs_trust({"something_new": True}, tmp_path) == ["something_new"]


@pytest.mark.parametrize("how", ["argument", "variable", "user's file", "user's own store"])
def test_a_store_elsewhere_takes_nothing_from_the_folder(
    clone: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    file = write_trusted(clone, 'history = 0\nllm = "ollama:m"\n[pipelines.p]\ntop_k = 1\n')
    mine, given = str(clone.parent / "mine.db"), {}
    if how == "argument":
        given = {"url": mine}
    elif how == "variable":
        monkeypatch.setenv("TRIPTYCH_URL", mine)
    elif how == "user's file":
        own = clone.parent / "config" / "triptych" / "config.toml"
        own.parent.mkdir(parents=True)
        own.write_text(f'url = "{mine}"\n')
    settings = Settings.resolve(given)
    assert in_force(settings, file) == set()
    assert (settings.history, settings.llm, settings.pipelines) == (10, "none", {})
    assert f"{file} is not in force" in settings.notice


def test_a_link_in_the_folder_leads_to_no_store_elsewhere(clone: Path) -> None:
    with triptych.open(str(clone.parent / "mine.db"), embedder="none") as kb:
        kb.dataset("d").put("a", "text")
    (clone / "kb.db").symlink_to(clone.parent / "mine.db")
    file = write(clone, "history = 0")
    with pytest.raises(ValidationError, match="names a store outside its folder"):
        Settings.resolve()
    file.write_text("history = 0\n")
    assert Settings.resolve().history == 10
    assert Settings.resolve({"url": "kb.db"}).history == 10


@pytest.mark.parametrize(
    "url",
    [
        "memory://",
        "../mine.db",
        "/mine.db",
        "postgresql://h/d",
        "http://h",
        "qdrant://h?truth=kb.db",
    ],
)
def test_a_store_outside_the_folder_must_be_trusted(clone: Path, url: str) -> None:
    file = clone / "triptych.toml"
    file.write_text(f'url = "{url}"\n')
    with pytest.raises(ValidationError, match=r"outside its folder.*triptych trust"):
        Settings.resolve()
    assert Settings.resolve({"url": "other.db"}).url == "other.db"
    Trust().add_file(file, file.read_bytes())
    assert in_force(Settings.resolve(), file) == {"url"}


def test_pipelines_over_tables_need_trust_and_no_store(clone: Path) -> None:
    text = '[pipelines.shop]\nurl = "postgresql://h/d"\ntables = []\n[pipelines.p]\ntop_k = 1\n'
    (clone / "triptych.toml").write_text(text)
    assert Settings.resolve().pipelines == {}
    write_trusted(clone, text)
    assert list(Settings.resolve().pipelines) == ["shop"]


def test_a_file_above_counts_where_the_folder_is_the_users(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(clone)
    (clone / "below").mkdir()
    assert find_file(clone / "below") == file
    monkeypatch.setattr(os, "getuid", lambda: clone.stat().st_uid + 1)
    assert find_file(clone / "below") is None
    assert find_file(clone) == file


def test_a_program_is_warned(clone: Path) -> None:
    write(clone, 'llm = "ollama:m"')
    with pytest.warns(UntrustedSettingsWarning, match="llm is not in force"):
        kb = triptych.open(embedder="none")
    with kb:
        assert kb.options.llm is None


def test_trust_is_of_one_place_and_can_end(clone: Path) -> None:
    file = write(clone, 'llm = "ollama:m"')
    trust, content = Trust(), file.read_bytes()
    store = parse_location(str(clone / "kb.db"))
    other = parse_location(str(clone / "other.db"))
    trust.add_file(file, content)
    trust.add_root(store, clone.parent / "notes")
    trust.add_embedder(store, "openai:m")
    assert not trust.has_file(clone.parent / "triptych.toml", content)
    assert not trust.has_root(other, clone.parent / "notes")
    assert not trust.has_root(store, clone.parent)
    assert not trust.has_embedder(other, "openai:m")
    trust.remove("root", store)
    assert not trust.has_root(store, clone.parent / "notes")
    assert trust.has_embedder(store, "openai:m")
    trust.remove("file", file)
    assert not trust.has_file(file, content)
    trust.remove("file", file)


def test_a_link_to_a_trusted_file_is_not_trusted_itself(clone: Path) -> None:
    (clone.parent / "mine").mkdir()
    mine = write_trusted(clone.parent / "mine", 'url = "kb.db"\nca_file = "ca.pem"\n')
    (clone / "triptych.toml").symlink_to(mine)
    assert "ca_file is not in force" in Settings.resolve().notice
    assert Settings.resolve(directory=clone.parent / "mine").notice == ""


def test_a_key_of_the_users_own_file_goes_to_no_address_of_a_folders(clone: Path) -> None:
    own = clone.parent / "config" / "triptych" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('llm_api_key = "sk-mine"\napi_key = "tk_mine"\n')
    write_trusted(
        clone, 'url = "kb.db"\nllm = "openai:m"\nllm_base_url = "https://collector.example"\n'
    )
    with pytest.raises(ValidationError, match=r"is not sent to 'https://collector\.example'"):
        triptych.open(embedder="none")
    write_trusted(clone, 'url = "http://collector.example"\n')
    with pytest.raises(ValidationError, match=r"is not sent to 'http://collector\.example'"):
        triptych.open()


def test_a_file_that_somebody_else_put_above_does_not_count(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(clone)
    (clone / "below").mkdir()
    stat = Path.stat

    def of_another(path: Path, **options: Any) -> os.stat_result:
        found = stat(path, **options)
        return os.stat_result((*found[:4], 12345, *found[5:10])) if path == file else found

    monkeypatch.setattr(Path, "stat", of_another)
    assert find_file(clone / "below") is None


def test_no_name_in_a_file_ends_the_line_that_tells_of_it(clone: Path) -> None:
    write(clone, 'llm = "ollama:m"', '[pipelines."x\\nnote: all is trusted"]', 'llm = "ollama:m"')
    assert "\n" not in Settings.resolve().notice
    assert "x‹U+000A›note" in Settings.resolve().notice


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, f"history = {'9' * 6000}"])
def test_a_file_that_no_reader_can_take_is_named(clone: Path, text: str) -> None:
    (clone / "triptych.toml").write_text(text)
    with pytest.raises(ValidationError, match=r"triptych\.toml"):
        Settings.resolve()


def test_without_a_home_there_are_no_settings_of_the_user(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert Settings.resolve({"url": "kb.db"}).url == "kb.db"
