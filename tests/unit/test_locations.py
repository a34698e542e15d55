"""What a URL or a path says about where a store is."""

from __future__ import annotations

from pathlib import Path

import pytest

from triptych.errors import NotAvailableError, NotFoundError, ValidationError
from triptych_factory.backends import BUILDERS, open_store
from triptych_factory.embedders import BUILDERS as EMBEDDERS, build_embedder
from triptych_factory.locations import Location, parse_location
from triptych_factory.settings import Settings


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


def test_memory_has_no_path() -> None:
    assert parse_location("memory://") == Location(scheme="memory")


@pytest.mark.parametrize(
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
        ".",
        "redis://localhost",
    ],
)
def test_what_cannot_be_meant_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        parse_location(url)


def test_an_unknown_scheme_names_the_known_ones() -> None:
    with pytest.raises(ValidationError, match="memory://, sqlite://"):
        parse_location("redis://localhost")


@pytest.mark.parametrize(
    "url", ["files:///d", "postgresql+psycopg://u:secret@h/d", "qdrant://u:secret@h?truth=x"]
)
def test_what_comes_later_is_told_apart_and_keeps_its_secrets(url: str) -> None:
    with pytest.raises(NotAvailableError, match="not in this version") as caught:
        parse_location(url)
    assert "secret" not in str(caught.value)


def test_every_parsed_scheme_has_a_builder() -> None:
    assert {parse_location(url).scheme for url in ("memory://", "x.db")} == set(BUILDERS)


def test_a_missing_store_is_not_made_unless_allowed(here: Path) -> None:
    with pytest.raises(NotFoundError, match="no store at"):
        open_store(parse_location("kb.db"), Settings(), create=False)
    with pytest.raises(NotFoundError, match="no store at"):
        open_store(parse_location("kb.db"), Settings(read_only=True))
    with pytest.raises(NotFoundError, match="folder"):
        open_store(parse_location("no/kb.db"), Settings())
    assert list(here.iterdir()) == []


def test_no_embedder_is_none() -> None:
    assert build_embedder(None) is None
    assert build_embedder("none") is None


def test_an_unknown_embedder_names_the_known_ones() -> None:
    with pytest.raises(ValidationError, match="local, local-multilingual, hash, none"):
        build_embedder("lokal")
    assert set(EMBEDDERS) == {"local", "local-multilingual", "hash"}


def test_a_provider_is_told_to_come_later() -> None:
    with pytest.raises(NotAvailableError, match=r"'ollama'.*later version"):
        build_embedder("ollama:nomic-embed-text")
