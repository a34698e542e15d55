"""Certificates that are not trusted, authorities of one's own, and proxies that are away."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import triptych
from support import provider_server
from support.provider_server import ProviderServer, as_json, serving as provider
from support.rows import each_row
from support.trusted import write_trusted
from triptych.errors import ProviderError, ProviderSetupError, StoreAwayError, ValidationError
from triptych.records import Retries
from triptych_factory import Settings, wire
from triptych_factory.embedders import RecalledEmbedder, recall_embedder, settings_embedder
from triptych_factory.llms import settings_llm, settings_reranker
from triptych_factory.provider_access import access_arguments, ca_file
from triptych_factory.tables import named_embedder
from triptych_providers import Connection, OpenAIEmbedder, tls_failure
from triptych_server.client import connect
from triptych_testing.fakes import FakeEmbedder

# A key of no worth, for servers on this machine alone; its certificate signs itself.
PEM = Path(provider_server.__file__).with_name("loopback.pem")


@contextmanager
def serving(*, tls: bool) -> Iterator[ProviderServer]:
    """A server that makes one vector; a client need not finish the handshake that it begins."""
    with provider(lambda _: as_json({"data": [{"embedding": [1.0, 2.0]}]})) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(PEM)
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        yield server


def embed(port: int, **options: Any) -> tuple[int, ...]:
    connection = Connection(retries=Retries(attempts=3, base=0.01), **options)
    model = OpenAIEmbedder("m", base_url=f"https://localhost:{port}/v1", connection=connection)
    try:
        return model.embed(["a"], kind="document").shape
    finally:
        model.close()


def test_a_certificate_that_is_not_trusted_is_named_once_with_its_remedy() -> None:
    with serving(tls=True) as server:
        with pytest.raises(ProviderSetupError, match=r"certificate is not trusted.*ca_file") as got:
            embed(server.server_address[1])
        assert "Operation not permitted" not in str(got.value)
        assert server.connections == 1


def test_an_authority_of_one_s_own_is_trusted() -> None:
    with serving(tls=True) as server:
        assert embed(server.server_address[1], ca_file=str(PEM)) == (1, 2)


def test_authorities_may_be_files_of_any_name_in_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    none, folder = tmp_path / "none", tmp_path / "own"
    none.mkdir()
    folder.mkdir()
    (folder / "junk.pem").write_text("no certificate")
    with pytest.raises(ValidationError, match=r"none.*ca_file"):
        embed(9, ca_file=str(none))
    with pytest.raises(ValidationError, match=r"own.*ca_file"):
        embed(9, ca_file=str(folder))
    (folder / "authority.crt").write_bytes(PEM.read_bytes())
    with serving(tls=True) as server:
        for named in (folder, f"{none}{os.pathsep}{folder}", "~/own", "~/own/authority.crt"):
            assert embed(server.server_address[1], ca_file=str(named)) == (1, 2)


@pytest.mark.parametrize(
    ("code", "advice"), [(10, "new certificate"), (62, "a name that"), (64, "a name that")]
)
def test_a_certificate_that_is_expired_or_for_another_name_has_its_own_advice(
    code: int, advice: str
) -> None:
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_code, error.verify_message = code, "as OpenSSL says"
    assert advice in tls_failure(error)
    assert "ca_file" not in tls_failure(error)


def test_a_port_without_tls_is_named() -> None:
    with serving(tls=False) as server:
        with pytest.raises(ProviderSetupError, match="http://"):
            embed(server.server_address[1])
        assert server.connections == 1


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_authorities_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValidationError, match=r"ca\.pem.*ca_file"):
        embed(9, ca_file=str(path))


def test_the_client_of_a_server_says_so_too() -> None:
    with serving(tls=True) as server:
        url = f"https://localhost:{server.server_address[1]}"
        with (
            connect(url) as kb,
            pytest.raises(StoreAwayError, match=r"certificate is not trusted.*ca_file"),
        ):
            kb.list_datasets()
        assert server.connections == 1
        # Trusted, it answers, though not as Triptych does.
        with connect(url, ca_file=str(PEM)) as kb, pytest.raises(triptych.errors.StoreError) as got:
            kb.list_datasets()
        assert "certificate" not in str(got.value)


def test_the_environment_and_the_settings_name_authorities(tmp_path: Path) -> None:
    folder = {"SSL_CERT_DIR": "/certs"}
    assert ca_file({}) is None
    assert ca_file(folder) == "/certs"
    assert ca_file({**folder, "SSL_CERT_FILE": "/a.pem"}) == "/a.pem"
    assert ca_file({"SSL_CERT_FILE": "/a.pem", "TRIPTYCH_CA_FILE": "/own.pem"}) == "/own.pem"
    made = access_arguments("ollama", None, {"SSL_CERT_FILE": "/a.pem"})
    assert made["connection"].ca_file == "/a.pem"
    write_trusted(tmp_path, 'url = "kb.db"\nca_file = "own.pem"\n', tmp_path)
    settings = Settings.resolve(environ={"XDG_DATA_HOME": str(tmp_path)}, directory=tmp_path)
    assert settings.ca_file == str(tmp_path / "own.pem")


MODELS: dict[str, Callable[[Settings], Any]] = {
    "embedder": lambda given: settings_embedder(given, "openai:m"),
    "embedder of a store": lambda given: recall_embedder(
        "openai/text-embedding-3-small/1536/no-prefix", given
    ),
    "embedder of tables": lambda given: named_embedder(given, "openai:m"),
    "reranker": lambda given: settings_reranker(given, "voyage:m", None),
    "sparse encoder": lambda given: wire(given).options.sparse_encoder,
    "language model, or judge": lambda given: settings_llm(given, "openai:m"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_that_settings_name_trusts_their_authority(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("VOYAGE_API_KEY", "key")
    settings = Settings(
        url="memory://",
        embedder="none",
        ca_file="/own.pem",
        sparse_encoder="tei:https://localhost:1",
    )
    with closing(MODELS[kind](settings)) as made:
        model = made._embedder() if isinstance(made, RecalledEmbedder) else made
        assert model._client.connection.ca_file == "/own.pem"


def test_a_store_is_searched_with_the_model_that_filled_it_over_tls_of_one_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.pem").write_bytes(PEM.read_bytes())
    write_trusted(tmp_path, 'ca_file = "own.pem"\nurl = "kb.db"\n')
    filling = FakeEmbedder(signature="openai/m/2/no-prefix", dimension=2)
    with triptych.open("kb.db", embedder=filling) as kb:
        kb.put_document("d", "a.md", "A red fish.")
    with serving(tls=True) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"https://localhost:{server.server_address[1]}/v1")
        with wire(Settings.resolve()) as kb:
            assert len(kb.search("fish", dataset_id="d", mode="vector")) == 1


def test_a_proxy_that_is_away_is_named_without_its_password() -> None:
    with pytest.raises(ProviderError, match=r"proxy http://\*\*\*@127\.0\.0\.1:9.*NO_PROXY") as got:
        embed(8, proxy="http://user:secret@127.0.0.1:9")
    assert "secret" not in str(got.value)


PROXY = {"ALL_PROXY": "http://p:1"}


@each_row(
    ("host", "direct"),
    [
        ("10.1.2.3", "10.0.0.0/8"),
        ("10.1.2.3:8000", "192.168.0.0/16, 10.1.2.3:8000"),
        ("[fd00::1]:8000", "fd00::/8"),
        ("[fd00::1]:8000", "[fd00::1]:8000"),
        ("[fd00::1]", "fd00::1"),
        ("llm.example.org", "*.example.org"),
        ("llm.example.org", "example.org:11434"),
        ("box", "*"),
    ],
)
def test_hosts_that_need_no_proxy_are_asked_straight(host: str, direct: str) -> None:
    given = {**PROXY, "OLLAMA_HOST": f"http://{host}"}
    assert access_arguments("ollama", None, given)["connection"].proxy == "http://p:1"
    port = "" if ":8000" in host or "11434" not in direct else ":11434"
    asked = {**given, "OLLAMA_HOST": f"http://{host}{port}", "NO_PROXY": direct}
    assert access_arguments("ollama", None, asked)["connection"].proxy is None


@each_row(
    ("host", "direct"),
    [
        ("10.1.2.3", "11.0.0.0/8"),
        ("10.1.2.3:8000", "10.1.2.3:8001"),
        ("notexample.org", "*.example.org"),
        ("box", ", ,"),
        ("box", "300.0.0.0/99"),
        ("box", "box:x"),
    ],
)
def test_other_hosts_are_asked_through_it(host: str, direct: str) -> None:
    given = {**PROXY, "OLLAMA_HOST": f"http://{host}", "NO_PROXY": direct}
    with suppress(ValidationError):
        assert access_arguments("ollama", None, given)["connection"].proxy == "http://p:1"
