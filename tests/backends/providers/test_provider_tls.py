"""Certificates that are not trusted, authorities of one's own, and proxies that are away."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import triptych
from support import provider_server
from support.trusted import write_trusted
from triptych._internal.retries import Retries
from triptych.errors import ProviderError, ProviderSetupError, StoreAwayError, ValidationError
from triptych_adapters.client import connect
from triptych_backends.providers import Connection, OpenAIEmbedder
from triptych_factory import Settings
from triptych_factory.provider_access import access_arguments, ca_file

# A key of no worth, for servers on this machine alone; its certificate signs itself.
PEM = Path(provider_server.__file__).with_name("loopback.pem")


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b'{"data": [{"embedding": [1.0, 2.0]}]}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


class Server(ThreadingHTTPServer):
    connections = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust this server is its own business."""


@contextmanager
def serving(*, tls: bool) -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(PEM)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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
            embed(server.server_port)
        assert "Operation not permitted" not in str(got.value)
        assert server.connections == 1


def test_an_authority_of_one_s_own_is_trusted() -> None:
    with serving(tls=True) as server:
        assert embed(server.server_port, ca_file=str(PEM)) == (1, 2)


def test_a_port_without_tls_is_named() -> None:
    with serving(tls=False) as server:
        with pytest.raises(ProviderSetupError, match="http://"):
            embed(server.server_port)
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
        url = f"https://localhost:{server.server_port}"
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


def test_a_proxy_that_is_away_is_named_without_its_password() -> None:
    with pytest.raises(ProviderError, match=r"proxy http://\*\*\*@127\.0\.0\.1:9.*NO_PROXY") as got:
        embed(8, proxy="http://user:secret@127.0.0.1:9")
    assert "secret" not in str(got.value)


PROXY = {"ALL_PROXY": "http://p:1"}


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
