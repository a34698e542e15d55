"""Where a user's key may go: its provider's own address, and those that the user chose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.rows import each_row
from support.trusted import write_trusted
from triptych.errors import ValidationError
from triptych_factory import Settings, unknown_variables, wire
from triptych_factory.provider_access import Origin, ProviderAccess, access_arguments

FOREIGN = "https://collector.example/v1"
KEYS = {
    "ANTHROPIC_API_KEY": "sk-users-own-key",
    "OLLAMA_API_KEY": "sk-users-own-key",
    "OPENAI_API_KEY": "sk-users-own-key",
    "VOYAGE_API_KEY": "sk-users-own-key",
}
OWN = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://API.openai.com:443/v1/",
    "voyage": "https://api.voyageai.com./v1",
}
PROVIDERS = pytest.mark.parametrize("provider", ["anthropic", "ollama", "openai", "voyage"])


def arguments(
    provider: str, url: str, origin: Origin, environ: Mapping[str, str] = KEYS, **how: Any
) -> dict[str, Any]:
    given = ProviderAccess(
        base_url=url, base_url_origin=origin, base_url_source=f"the {origin}", **how
    )
    return access_arguments(provider, given, environ)


@PROVIDERS
@each_row("origin", ["file", "argument"])
def test_a_key_of_the_environment_does_not_go_to_an_address_from_elsewhere(
    provider: str, origin: Origin
) -> None:
    with pytest.raises(ValidationError) as caught:
        arguments(provider, FOREIGN, origin)
    said = str(caught.value)
    assert f"{provider.upper()}_API_KEY is not sent to '{FOREIGN}', which the {origin}" in said
    assert "set TRIPTYCH_TRUSTED_HOSTS=collector.example" in said
    assert "sk-users-own-key" not in said


@PROVIDERS
def test_nor_does_a_key_that_was_an_argument_go_to_an_address_of_a_file(provider: str) -> None:
    with pytest.raises(ValidationError, match="the key that was given is not sent"):
        arguments(provider, FOREIGN, "file", {}, api_key="sk-given")


@PROVIDERS
def test_a_key_goes_to_an_address_from_the_same_place(provider: str) -> None:
    variable = "OLLAMA_HOST" if provider == "ollama" else f"{provider.upper()}_BASE_URL"
    both = access_arguments(provider, None, {**KEYS, variable: FOREIGN})
    assert (both["api_key"], both["base_url"]) == ("sk-users-own-key", FOREIGN)
    assert arguments(provider, FOREIGN, "environment")["api_key"] == "sk-users-own-key"
    assert arguments(provider, FOREIGN, "argument", api_key="sk-given")["api_key"] == "sk-given"
    theirs = arguments(provider, FOREIGN, "file", api_key="sk-theirs", api_key_origin="file")
    assert theirs["api_key"] == "sk-theirs"
    # Both are the user's.
    given = arguments(provider, FOREIGN, "environment", api_key="sk-given")
    assert given["api_key"] == "sk-given"


@pytest.mark.parametrize(("provider", "url"), OWN.items())
def test_a_key_goes_to_its_providers_own_address(provider: str, url: str) -> None:
    assert arguments(provider, url, "file")["api_key"] == "sk-users-own-key"


@each_row(
    "url",
    [
        "http://api.openai.com/v1",
        "https://api.openai.com:8443/v1",
        "https://api.openai.com.collector.example/v1",
        "https://collector.example/api.openai.com/v1",
        "https://api.openai.com@collector.example/v1",
        "https://collector.example#@api.openai.com/v1",
        "https://collector.example\\@api.openai.com/v1",
        "https://[::1%25x@api.openai.com/v1",
        "https://[",
        "api.openai.com/v1",
    ],
)
def test_nothing_else_is_taken_for_it(url: str) -> None:
    with pytest.raises(ValidationError, match="is not sent"):
        arguments("openai", url, "file")


@each_row(
    ("trusted", "url", "sent"),
    [
        ("collector.example", FOREIGN, True),
        (" other , COLLECTOR.example ", FOREIGN, True),
        ("collector.example:443", FOREIGN, True),
        ("collector.example:8443", FOREIGN, False),
        ("collector.example:8443", "https://collector.example:8443/v1", True),
        ("example", FOREIGN, False),
        ("*", FOREIGN, False),
        ("", FOREIGN, False),
        ("[fd00::1]", "http://[fd00::1]:8000/v1", True),
        ("[fd00::1]:8000", "http://[fd00::1]:8000/v1", True),
        ("fd00::1", "http://[fd00::1]:8000/v1", True),
        ("", "https:///v1", False),
        (",", "https:///v1", False),
    ],
)
def test_users_name_the_hosts_that_they_trust(trusted: str, url: str, sent: bool) -> None:
    environ = {**KEYS, "TRIPTYCH_TRUSTED_HOSTS": trusted}
    if sent:
        assert arguments("openai", url, "file", environ)["api_key"] == "sk-users-own-key"
    else:
        with pytest.raises(ValidationError, match="is not sent"):
            arguments("openai", url, "file", environ)
    assert unknown_variables(environ) == ()


@PROVIDERS
@each_row(
    "url",
    [
        "http://user:pw@127.0.0.1:18080/v1",
        "http://collector.example\\@localhost/v1",
        "http://käse.example/v1",
        "http://a b.example/v1",
        "http://[::1/v1",
    ],
)
def test_an_address_without_a_certain_host_is_refused_with_what_to_write(
    provider: str, url: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        arguments(provider, url, "file")
    said = str(caught.value)
    assert "TRIPTYCH_TRUSTED_HOSTS cannot name it" in said
    assert "https://host:port/path" in said
    assert "TRUSTED_HOSTS=" not in said
    assert "pw" not in said.replace("password", "")


@each_row("host", ["localhost", "127.0.0.1", "127.8.9.1", "[::1]"])
@each_row("origin", ["file", "argument"])
def test_a_server_on_this_machine_is_asked_without_a_key(host: str, origin: Origin) -> None:
    url = f"http://{host}:8080/v1"
    for provider in ("openai", "ollama"):
        found = arguments(provider, url, origin)
        assert (found["api_key"], found["base_url"]) == (None, url)
    for provider in ("anthropic", "voyage"):
        with pytest.raises(ValidationError, match="is not sent"):
            arguments(provider, url, origin)
    environ = {**KEYS, "TRIPTYCH_TRUSTED_HOSTS": host}
    assert arguments("openai", url, origin, environ)["api_key"] == "sk-users-own-key"


def test_a_file_in_a_folder_does_not_get_the_users_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'llm = "openai:m"\nembedder = "hash"\nllm_base_url = "{FOREIGN}"\n'
    file = write_trusted(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    for name in [*KEYS, "TRIPTYCH_LLM_API_KEY"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("TRIPTYCH_TRUSTED_HOSTS", raising=False)
    triptych.open("memory://").close()  # no key, no harm
    for name in ("OPENAI_API_KEY", "TRIPTYCH_LLM_API_KEY"):
        with monkeypatch.context() as more:
            more.setenv(name, "sk-users-own-key")
            with pytest.raises(ValidationError, match=f"the key in {name} is not sent") as caught:
                triptych.open("memory://")
            assert str(file) in str(caught.value)
            more.setenv("TRIPTYCH_TRUSTED_HOSTS", "collector.example")
            triptych.open("memory://").close()
            more.delenv("TRIPTYCH_TRUSTED_HOSTS")
            more.setenv("TRIPTYCH_LLM_BASE_URL", FOREIGN)
            triptych.open("memory://").close()
    write_trusted(tmp_path, file.read_text() + 'llm_api_key = "sk-theirs"\n')
    monkeypatch.setenv("OPENAI_API_KEY", "sk-users-own-key")
    triptych.open("memory://").close()
    file.write_text('trusted_hosts = "collector.example"\n')
    with pytest.raises(ValidationError, match="unknown setting"):
        triptych.open("memory://")


def test_settings_say_where_each_value_is_from(tmp_path: Path) -> None:
    text = 'url = "kb.db"\nllm_base_url = "http://h/v1"\nhistory = 3\n'
    write_trusted(tmp_path, text, tmp_path)
    environ = {"TRIPTYCH_LLM_API_KEY": "sk", "XDG_DATA_HOME": str(tmp_path)}
    settings = Settings.resolve({"llm": "openai:m"}, environ=environ, directory=tmp_path)
    names = ("llm", "llm_base_url", "llm_api_key", "embedder")
    assert [settings.origin(name) for name in names] == [
        "argument",
        "file",
        "environment",
        "argument",
    ]
    with pytest.raises(ValidationError, match="TRIPTYCH_LLM_API_KEY is not sent"):
        wire(settings)
