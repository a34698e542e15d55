"""Where the store is when nobody says, and the user's own settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import triptych
from triptych.errors import NotFoundError
from triptych_factory import Settings
from triptych_factory.locations import find_store, make_store_folder, user_config_file, user_store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without settings, in ``home/project/deep``."""
    for name in [name for name in os.environ if name.startswith("TRIPTYCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "deep")
    return tmp_path


def make(url: str | Path) -> None:
    with triptych.open(str(url), embedder="none") as kb:
        kb.dataset("d").put("a", "text")


def test_without_any_the_users_own_store_serves(home: Path) -> None:
    with pytest.raises(NotFoundError, match="no store in this folder or above it"):
        triptych.open(embedder="none", create=False)
    with triptych.open(embedder="none") as kb:
        kb.dataset("d").put("a", "text")
    own = home / "data" / "triptych" / "kb.db"
    assert own == user_store()
    assert own.exists()
    assert own.parent.stat().st_mode & 0o077 == 0
    assert not list((home / "project").rglob("*kb*"))
    (home / "other").mkdir()
    os.chdir(home / "other")
    with triptych.open(embedder="none", create=False) as kb:
        assert kb.list_datasets() == ["d"]


@pytest.mark.parametrize("place", [".triptych/kb.db", "kb.db"])
def test_the_nearest_store_upwards_is_found(home: Path, place: str) -> None:
    if place.startswith("."):
        (home / "project" / ".triptych").mkdir()
    make(home / place if place == "kb.db" else home / "outer.db")
    make(home / "project" / place)
    assert find_store(Path.cwd()) == str(home / "project" / place)
    settings = Settings.resolve()
    assert settings.url == str(home / "project" / place)
    assert settings.sources["url"] == "found from here upwards"
    # What is said wins.
    assert Settings.resolve({"url": "x.db"}).url == "x.db"
    (home / "project" / "triptych.toml").write_text('url = "y.db"')
    assert Settings.resolve().url == str(home / "project" / "y.db")


def test_a_store_of_plain_files_is_found(home: Path) -> None:
    make(f"files://{home}/project/notes")
    inside = home / "project" / "notes" / "d"
    assert find_store(inside) == f"files://{home}/project/notes"
    os.chdir(inside)
    with triptych.open(embedder="none", create=False) as kb:
        assert kb.get_document("d", "a").content == "text"


def test_settings_above_do_not_hide_a_store_above(home: Path) -> None:
    make(home / "kb.db")
    (home / "project" / "triptych.toml").write_text('language = "german"')
    settings = Settings.resolve()
    assert (settings.url, settings.language) == (str(home / "kb.db"), "auto")
    assert f"the store in use is {home / 'kb.db'}" in settings.notice


def test_stores_of_others_above_are_not_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(home / "kb.db")
    make("kb.db")
    monkeypatch.setattr(os, "getuid", lambda: home.stat().st_uid + 1)
    assert find_store(Path.cwd()) == str(Path.cwd() / "kb.db")
    assert find_store(home / "project") is None


def test_the_users_file_says_what_a_folders_leaves_open(home: Path) -> None:
    file = user_config_file()
    assert file == home / "config" / "triptych" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('url = "mine.db"\nembedder = "hash"\nhistory = 3')
    (home / "triptych.toml").write_text("history = 5")
    settings = Settings.resolve(environ=dict(os.environ) | {"TRIPTYCH_LANGUAGE": "dutch"})
    assert settings.url == str(file.parent / "mine.db")
    assert (settings.embedder, settings.history, settings.language) == ("hash", 5, "dutch")
    assert settings.sources["embedder"] == str(file)
    assert settings.sources["history"] == str(home / "triptych.toml")


def test_a_relative_folder_of_the_environment_is_ignored(home: Path) -> None:
    assert Path("relative") not in user_store({"XDG_DATA_HOME": "relative"}).parents
    assert user_store({"XDG_DATA_HOME": "relative"}).is_absolute()


def test_only_folders_of_its_own_are_made(home: Path) -> None:
    make_store_folder(home / "new" / "kb.db")
    assert not (home / "new").exists()
    with pytest.raises(NotFoundError, match="make it first"):
        make(home / "new" / "kb.db")
    make(home / ".triptych" / "kb.db")
    assert (home / ".triptych" / ".gitignore").read_text().endswith("\n*\n")
