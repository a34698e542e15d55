"""What a URL or a path says about where a store is."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rows import each_row
from triptych.errors import NotFoundError, ValidationError
from triptych_factory import Settings, parse_location
from triptych_factory.backends import BUILDERS, open_store
from triptych_factory.embedders import BUILDERS as EMBEDDERS, build_embedder
from triptych_factory.locations import Location, relative_to


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("kb.db", "{here}/kb.db"),
        ("./sub/kb.db", "{here}/sub/kb.db"),
        ("a:b.db", "{here}/a:b.db"),
        ("/var/kb.db", "/var/kb.db"),
        ("sqlite:///kb.db", "{here}/kb.db"),
        ("SQLite:///kb.db", "{here}/kb.db"),
        ("sqlite:////var/kb.db", "/var/kb.db"),
        ("知识 库.db", "{here}/知识 库.db"),
    ],
)
def test_sqlite_is_a_path_or_a_url_as_in_sqlalchemy(here: Path, url: str, path: str) -> None:
    assert parse_location(url) == Location(scheme="sqlite", path=Path(path.format(here=here)))


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("files:///srv/kb", "/srv/kb"),
        ("FILES:///srv/knowledge base%20", "/srv/knowledge base%20"),
        ("files://./kb", "{here}/kb"),
        ("files://../kb", "{here}/../kb"),
        ("files:///srv/kb/", "/srv/kb"),
    ],
)
def test_files_are_a_folder_as_in_a_file_url(here: Path, url: str, path: str) -> None:
    found = parse_location(url)
    assert found == Location(scheme="files", path=Path(path.format(here=here)))
    assert parse_location(str(found)) == found


def test_files_may_lie_at_home() -> None:
    assert parse_location("files://~/kb").path == Path.home() / "kb"


def test_settings_take_a_relative_folder_from_their_own(here: Path) -> None:
    assert relative_to("files://./kb", here / "sub") == f"files://{here}/sub/kb"
    assert relative_to("files:///kb", here) == "files:///kb"


def test_a_directory_without_a_scheme_is_told_how_to_be_a_store(here: Path) -> None:
    with pytest.raises(ValidationError, match=f"files://{here}"):
        parse_location(str(here))


def test_a_folder_is_a_store_once_it_was_opened(here: Path) -> None:
    (here / "notes" / "d").mkdir(parents=True)
    (here / "notes" / "d" / "a.md").write_text("by hand")
    location = parse_location("files://./notes")
    with pytest.raises(NotFoundError, match="no store at"):
        open_store(location, Settings(), create=False)
    with pytest.raises(NotFoundError, match="folder"):
        open_store(parse_location("files://./no/kb"), Settings())
    for create in (True, False):
        store = open_store(location, Settings(), create=create)
        assert [info.name for info in store.documents.list("d")] == ["a.md"]
        store.close()


def test_memory_has_no_path() -> None:
    assert parse_location("memory://") == Location(scheme="memory")


@each_row(
    "url",
    [
        "",
        "  ",
        "a\0b",
        "memory://x",
        "memory:",
        "sqlite:kb.db",
        "sqlite://kb.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///kb.db?mode=ro",
        "files:kb",
        "files:/kb",
        "files://kb",
        "files://host/kb",
        "files://",
        "files:///",
        "files://.",
        "files://./file",
        ".",
        "redis://localhost",
    ],
)
def test_invalid_input_is_refused(here: Path, url: str) -> None:
    (here / "file").touch()
    with pytest.raises(ValidationError):
        parse_location(url)


def test_an_unknown_scheme_names_the_known_ones() -> None:
    with pytest.raises(ValidationError, match="memory://, sqlite://"):
        parse_location("redis://localhost")


def test_what_is_searched_in_qdrant_keeps_its_secrets() -> None:
    location = parse_location("qdrant://h?truth=x.db&api_key=secret")
    assert "secret" not in f"{location} {location!r}"
    with pytest.raises(ValidationError, match="truth=") as caught:
        parse_location("qdrant://u:secret@h?api_key=secret")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql", "PostgreSQL"])
def test_a_database_on_a_server_keeps_its_secrets(scheme: str) -> None:
    location = parse_location(f"{scheme}://u:secret@h/d?sslpassword=secret")
    assert location.scheme == "postgresql"
    assert "secret" not in f"{location} {location!r}"


def test_every_parsed_scheme_has_a_builder() -> None:
    urls = (
        "memory://",
        "x.db",
        "files:///x",
        "postgresql://h/d",
        "qdrant://h?truth=x",
    )
    assert {parse_location(url).scheme for url in urls} == set(BUILDERS)


def test_a_missing_store_is_not_made_unless_allowed(here: Path) -> None:
    with pytest.raises(NotFoundError, match="no store at"):
        open_store(parse_location("kb.db"), Settings(), create=False)
    with pytest.raises(NotFoundError, match="no store at"):
        open_store(parse_location("kb.db"), Settings(read_only=True))
    with pytest.raises(NotFoundError, match="folder"):
        open_store(parse_location("no/kb.db"), Settings())
    assert list(here.iterdir()) == []


def test_no_embedder_is_none() -> None:
    assert build_embedder("none") is None


def test_an_unknown_embedder_names_the_known_ones() -> None:
    with pytest.raises(ValidationError, match="local, local-multilingual, hash, none"):
        build_embedder("lokal")
    assert set(EMBEDDERS) == {"local", "local-multilingual", "hash"}


@pytest.mark.parametrize("url", ["kb/", "./deep/kb/", "sqlite:///kb/"])
def test_a_path_that_ends_like_a_folder_is_no_file(url: str) -> None:
    with pytest.raises(ValidationError, match=r"names a folder.*files:///"):
        parse_location(url)
