"""Settings: who wins, what is refused, and how a refusal reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.trusted import write_trusted
from triptych.errors import TriptychError, ValidationError
from triptych_factory import Settings, find_file, parse_location, unknown_variables
from triptych_factory.provider_access import ProviderAccess


def resolve(
    directory: Path, environ: dict[str, str] | None = None, **arguments: object
) -> Settings:
    return Settings.resolve(arguments, environ=environ or {}, directory=directory)


def write(directory: Path, text: str) -> Path:
    file = directory / "triptych.toml"
    # A file is for the stores of its folder.
    file.write_text(f'url = "kb.db"\n{text}' if "url" not in text else text, encoding="utf-8")
    return file


def test_defaults_hold_where_nothing_is_said(tmp_path: Path) -> None:
    environ = {"XDG_DATA_HOME": str(tmp_path / "data")}
    settings = resolve(tmp_path, environ)
    assert settings == Settings(url=str(tmp_path / "data" / "triptych" / "kb.db"))
    assert {setting.source for setting in settings.explain()} == {"default"}


def test_arguments_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'embedder = "hash"\nlanguage = "german"\nlock_timeout = 3')
    environ = {"TRIPTYCH_LANGUAGE": "french", "TRIPTYCH_LOCK_TIMEOUT": "5.5"}
    settings = resolve(tmp_path, environ, lock_timeout=7)
    assert (settings.embedder, settings.language, settings.lock_timeout) == ("hash", "french", 7.0)
    sources = {setting.name: setting.source for setting in settings.explain()}
    assert sources["embedder"] == str(file)
    assert sources["language"] == "TRIPTYCH_LANGUAGE"
    assert sources["lock_timeout"] == "argument"
    assert sources["chunk_size"] == "default"


def test_an_argument_of_none_is_not_given(tmp_path: Path) -> None:
    assert resolve(tmp_path, {"TRIPTYCH_EMBEDDER": "hash"}, embedder=None).embedder == "hash"


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    assert resolve(tmp_path, {"TRIPTYCH_LANGUAGE": ""}).language == "auto"


def test_the_nearest_file_above_counts_alone(tmp_path: Path) -> None:
    write(tmp_path, 'language = "german"\nembedder = "hash"')
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    near = write(tmp_path / "a", 'language = "dutch"')
    assert find_file(inner) == near
    settings = resolve(inner)
    assert (settings.language, settings.embedder) == ("dutch", "auto")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("kb.db", "{dir}/kb.db"),
        ("sqlite:///data/kb.db", "sqlite:///{dir}/data/kb.db"),
        ("sqlite:////var/kb.db", "sqlite:////var/kb.db"),
        ("/var/kb.db", "/var/kb.db"),
        ("memory://", "memory://"),
    ],
)
def test_a_path_in_the_file_is_relative_to_the_file(
    tmp_path: Path, written: str, read: str
) -> None:
    write_trusted(tmp_path, f'url = "{written}"', tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    assert resolve(inner, {"XDG_DATA_HOME": str(tmp_path)}).url == read.format(
        dir=tmp_path.as_posix()
    )


def test_an_embedder_in_the_file_is_a_folder_beside_it_or_a_name_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    mine = tmp_path / "models" / "mine"
    for written, read in (
        ("static:models/mine", f"static:{mine}"),
        ("onnx:./models/mine", f"onnx:{mine}"),
        ("onnx:org/name", "onnx:org/name"),
        ("hash", "hash"),
    ):
        write_trusted(tmp_path, f'embedder = "{written}"', tmp_path)
        assert resolve(tmp_path, {"XDG_DATA_HOME": str(tmp_path)}).embedder == read


def test_a_path_in_a_variable_is_left_as_it_is(tmp_path: Path) -> None:
    assert resolve(tmp_path, {"TRIPTYCH_URL": "other.db"}).url == "other.db"


def test_an_unknown_key_names_the_file_the_key_and_the_nearest(tmp_path: Path) -> None:
    file = write(tmp_path, 'embeder = "hash"')
    with pytest.raises(ValidationError) as caught:
        resolve(tmp_path)
    assert str(file) in str(caught.value)
    assert "'embeder'" in str(caught.value)
    assert "did you mean 'embedder'" in str(caught.value)


def test_a_key_like_no_other_lists_the_known_ones(tmp_path: Path) -> None:
    write(tmp_path, "zzzzzz = 1")
    known = "known are url, api_key, embedder, language"
    with pytest.raises(ValidationError, match=known):
        resolve(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lock_timeout", "soon"),
        ("lock_timeout", "-1"),
        ("lock_timeout", "nan"),
        ("lock_timeout", "inf"),
        ("chunk_size", "12.5"),
        ("chunk_size", "15"),
        ("chunk_overlap", "-1"),
        ("embed_concurrency", "0"),
        ("embed_concurrency", "65"),
        ("embedder_batch", "0"),
        ("llm_concurrency", "65"),
        ("read_only", "maybe"),
        ("language", "  "),
    ],
)
def test_an_invalid_value_names_its_variable(tmp_path: Path, key: str, value: str) -> None:
    variable = f"TRIPTYCH_{key.upper()}"
    with pytest.raises(ValidationError, match=re.escape(f"{variable} is {value!r}: give")):
        resolve(tmp_path, {variable: value})


@pytest.mark.parametrize(
    "line", ["lock_timeout = true", "chunk_size = false", "url = 3", 'url = ""', "read_only = 1"]
)
def test_a_value_of_another_type_names_its_file(tmp_path: Path, line: str) -> None:
    file = write(tmp_path, line)
    with pytest.raises(ValidationError, match=re.escape(str(file))):
        resolve(tmp_path)


@pytest.mark.parametrize("text", ["url = ", "\x00", 'a = "x"\na = "y"'])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ValidationError, match=re.escape(str(file))):
        resolve(tmp_path)


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "triptych.toml").write_bytes(b'url = "\xff"')
    with pytest.raises(ValidationError, match=re.escape("triptych.toml")):
        resolve(tmp_path)


def test_overlap_and_size_from_two_places_must_fit(tmp_path: Path) -> None:
    write(tmp_path, "chunk_size = 100")
    with pytest.raises(ValidationError, match=r"TRIPTYCH_CHUNK_OVERLAP.*triptych\.toml"):
        resolve(tmp_path, {"TRIPTYCH_CHUNK_OVERLAP": "100"})
    assert resolve(tmp_path, {"TRIPTYCH_CHUNK_OVERLAP": "99"}).chunk_overlap == 99


def test_switches_read_as_people_write_them(tmp_path: Path) -> None:
    for value, meant in {"1": True, "TRUE": True, "yes": True, "0": False, "No": False}.items():
        assert resolve(tmp_path, {"TRIPTYCH_READ_ONLY": value}).read_only is meant


def test_misspelt_variables_are_found() -> None:
    environ = {"TRIPTYCH_URL": "x", "TRIPTYCH_DEBUG": "1", "TRIPTYCH_EMBEDER": "hash", "PATH": ""}
    assert unknown_variables(environ) == ("TRIPTYCH_EMBEDER",)


def test_an_unknown_argument_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TriptychError, match="did you mean 'language'"):
        resolve(tmp_path, languag="x")


def test_a_key_is_shown_nowhere(tmp_path: Path) -> None:
    environ = {"TRIPTYCH_LLM": "openai:small", "TRIPTYCH_LLM_API_KEY": "sk-hidden"}
    settings = resolve(tmp_path, environ, llm_base_url="http://127.0.0.1:9/v1")
    assert settings.llm_api_key == "sk-hidden"
    assert "sk-hidden" not in f"{settings!r} {settings.explain()}"
    told = {setting.name: setting.value for setting in settings.explain()}
    assert told["llm_api_key"] == "set"
    assert (told["llm"], told["llm_base_url"]) == ("openai:small", "http://127.0.0.1:9/v1")
    assert {each.name: each.value for each in Settings().explain()}["llm_api_key"] is None
    write(tmp_path, "llm_api_key = 12345678")
    with pytest.raises(ValidationError) as caught:
        resolve(tmp_path)
    assert "12345678" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://u:hidden@host", "http://u:hidden@h:abc", "http://h/v1?key=hidden", "u:hidden@h"]
)
def test_no_part_of_an_address_that_may_be_secret_is_shown(tmp_path: Path, url: str) -> None:
    settings = resolve(tmp_path, {"TRIPTYCH_LLM_BASE_URL": url})
    assert settings.llm_base_url == url
    assert "hidden" not in f"{settings!r} {settings.explain()} {ProviderAccess(base_url=url)}"
    write(tmp_path, f'llm_base_url = ["{url}"]')
    with pytest.raises(ValidationError) as caught:
        resolve(tmp_path)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "memory://u:hidden@h",
        "sqlite://u:hidden@h/db",
        "sqlite:///x?key=hidden",
        "files://u:hidden@h",
        "qdrant:u:hidden@h",
        "postgresql:u:hidden@h/db",
        "http://u:hidden@h/db",
    ],
)
def test_no_password_in_the_url_of_a_store_is_shown(tmp_path: Path, url: str) -> None:
    settings = resolve(tmp_path, url=url)
    assert "hidden" not in f"{settings!r} {settings.explain()}"
    with pytest.raises(TriptychError) as caught:
        parse_location(url)
    assert "hidden" not in str(caught.value)


def test_a_path_is_shown_as_it_is(tmp_path: Path) -> None:
    settings = resolve(tmp_path, url="/data/me@home/kb#1.db")
    assert settings.explain()[0].value == "/data/me@home/kb#1.db"
