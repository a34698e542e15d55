"""A real web site on loopback whose pages are functions, so that each may misbehave."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs

Page = Callable[["Visit"], None]


class Visit(BaseHTTPRequestHandler):
    """A request, and how it is answered."""

    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        self.close_connection = True
        self.server.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            self.answer(b"gone", status=404)
        elif isinstance(page, str | bytes):
            self.answer(page)
        else:
            page(self)

    def answer(self, body: str | bytes = b"", *, status: int = 200, **headers: str) -> None:
        """A proper answer; underscores in ``headers`` stand for hyphens."""
        data = body.encode() if isinstance(body, str) else body
        found = {
            "content-type": "text/html",
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        found.setdefault("content-length", str(len(data)))
        self.send_response(status)
        for name, value in found.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def raw(self, data: bytes) -> None:
        """These bytes, whatever they are."""
        self.wfile.write(data)
        self.wfile.flush()

    def forever(self, block: bytes, *, between: float = 0) -> None:
        """``block`` again and again, until the other side has enough or the test ends."""
        try:
            while not self.server.over.wait(between):
                self.raw(block)
        except OSError:
            pass

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Site(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Visit)
        self.scheme = "http" if tls is None else "https"
        if tls is not None:
            # The handshake is the thread's of the request, as here it may fail.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
        self.pages: dict[str, str | bytes | Page] = {}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # the other side hung up

    def lists(self, *paths: str, modified: str = "") -> None:
        """Have the sitemap list these pages."""
        self.pages["/sitemap.xml"] = sitemap(*(self.url[:-1] + p for p in paths), modified=modified)

    def paths(self) -> list[str]:
        """What was asked for since the last call of this."""
        asked = [path for path, _ in self.asked]
        self.asked.clear()
        return asked


def sitemap(*urls: str, modified: str = "", kind: str = "url") -> str:
    lastmod = f"<lastmod>{modified}</lastmod>" if modified else ""
    rows = "".join(f"<{kind}><loc>{url}</loc>{lastmod}</{kind}>" for url in urls)
    whole = "urlset" if kind == "url" else "sitemapindex"
    return f'<{whole} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</{whole}>'


@contextmanager
def web_site(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    site = Site(tls)
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield site
    finally:
        site.over.set()
        site.shutdown()
        site.server_close()
        thread.join()


@attrs.frozen
class Taken:
    """A port that nothing listens on."""

    port: int


@contextmanager
def unused_port() -> Iterator[Taken]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield Taken(held.getsockname()[1])
