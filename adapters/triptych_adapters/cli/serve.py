"""``triptych serve`` and ``triptych mcp``."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import attrs

from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import command, option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.service import KnowledgeBase
    from triptych_factory import Settings
    from triptych_server.mcp.server import ServerOptions

_WATCHED = 3600.0
"""Seconds that a request to `triptych console` may take: its user watches it, and can cancel."""


@command(
    "triptych serve                           reading, on http://127.0.0.1:8400",
    "triptych serve --write --workers 2       writing too, in two processes",
    "curl http://127.0.0.1:8400/v1/openapi.json",
)
def serve(
    session: Session,
    host: Annotated[
        str, option("--host", "The address to listen on. Without keys only loopback.")
    ] = "127.0.0.1",
    port: Annotated[
        int, option("--port -p", "The port to listen on; 0: any free port.", min=0, max=65535)
    ] = 8400,
    workers: Annotated[
        int | None,
        option(
            "--workers -w",
            "Number of processes. By default it depends on cores and memory.",
            min=1,
            max=64,
        ),
    ] = None,
    write: Annotated[
        bool, option("--write", "Also serve operations that write and delete.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, option("--allow-host HOST", "A further host name of this server.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        option(
            "--allow-origin ORIGIN",
            "An origin whose web pages may send requests, such as https://app.example.",
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        option("--trusted-proxy ADDRESS", "A proxy or network whose X-Forwarded-For is read."),
    ] = None,
    timeout: Annotated[float, option("--timeout SECONDS", "The time limit of a request.")] = 120.0,
    max_body: Annotated[int, option("--max-body BYTES", "The size limit of a request's body.")] = 1
    << 20,
    key_share: Annotated[
        float, option("--key-share PART", "The most of the server that one key may have; 1: all.")
    ] = 0.5,
    console: Annotated[
        bool, option("--console/--no-console", "Whether to serve pages for people, at /.")
    ] = True,
    metrics: Annotated[bool, option("--metrics", "Serve /metrics for Prometheus.")] = False,
    otel: Annotated[
        bool, option("--otel", "Send spans and metrics to the OpenTelemetry SDK of this process.")
    ] = False,
    dataset: Annotated[
        str | None, option("--dataset -d", "The dataset of routes that do not name one.")
    ] = None,
) -> None:
    """Serve the knowledge base over HTTP until Ctrl-C.

    The URL is printed on stdout; each request is logged on stderr as a JSON object. The server is
    read-only unless --write is given. Without keys only this machine has access. Ctrl-C and SIGTERM
    let running requests finish.
    """
    _require_server(console)
    if metrics:
        _require("prometheus_client", "--metrics needs prometheus_client", extra="telemetry")
    if otel:
        _require("opentelemetry", "--otel needs opentelemetry", extra="telemetry")
    from triptych_factory.backends import check_local
    from triptych_server.http.limits import Limits
    from triptych_server.http.processes import default_workers
    from triptych_server.http.workers import ServeOptions, serve as run

    check_local(session.settings(), "serving")
    _refuse_writes(session.settings(), write)
    workers = workers or default_workers(session.settings())
    options = ServeOptions(
        settings=session.settings(),
        host=host,
        port=port,
        workers=workers,
        write=write,
        hosts=tuple(allow_host or ()),
        origins=tuple(allow_origin or ()),
        proxies=tuple(trusted_proxy or ()),
        limits=Limits(body=max_body, seconds=timeout, share=key_share),
        dataset=dataset,
        metrics=metrics,
        console=console,
        otel=otel,
    )

    def started(url: str) -> None:
        session.output.show({"url": url, "workers": workers, "write": write}, lines=[url])

    run(options, started)


def _refuse_writes(settings: Settings, write: bool) -> None:
    """Refuse ``write`` where the settings open the store for reading: each write would fail.

    Raises:
        ValidationError: both are set.
    """
    if write and settings.read_only:
        place = settings.sources.get("read_only", "the settings")
        raise ValidationError(
            f"--write serves writes, but read_only is set (by {place}), so each would fail: leave "
            "out --write, or take read_only out"
        )


def _require_server(console: bool) -> None:
    for package in ("starlette", "uvicorn", *(["jinja2"] if console else [])):
        _require(package, f"serving needs {package}", extra="server")


def _require(package: str, need: str, *, extra: str) -> None:
    """Say which extra is missing.

    Raises:
        NotAvailableError: the package is not installed.
    """
    from importlib.util import find_spec

    from triptych.installation import lacking

    if find_spec(package) is None:
        raise lacking(f"{need}, which is not installed", extra)


@command(
    "triptych console                         search and inspect documents in the browser",
    "triptych console --write                 also judge, restore and change documents",
)
def console(
    session: Session,
    write: Annotated[bool, option("--write", "Offer what changes documents, too.")] = False,
    port: Annotated[
        int, option("--port -p", "Where to listen; 0: any free port.", min=0, max=65535)
    ] = 0,
    browser: Annotated[
        bool, option("--browser/--no-browser", "Whether to open the page in a browser.")
    ] = True,
) -> None:
    """Look at the knowledge base in the browser, until Ctrl-C.

    This is `triptych serve` on a free port of this machine; its URL is on stdout. With --write, and
    without keys, it also prints a code, which the page asks for when you add a folder there.
    """
    _require_server(True)
    from triptych_adapters.cli.folders import add_folder
    from triptych_factory.backends import check_local
    from triptych_server.http.limits import Limits
    from triptych_server.http.workers import ServeOptions, serve as run

    check_local(session.settings(), "serving")
    _refuse_writes(session.settings(), write)
    code = secrets.token_hex(6)

    def started(url: str) -> None:
        if write and not _has_keys(session, session.settings()):
            session.output.note(f"to add a folder in the browser, type this code there: {code}")
        session.output.show({"url": url, "write": write}, lines=[url])
        if browser:
            import webbrowser

            webbrowser.open(url)

    options = ServeOptions(
        settings=session.settings(),
        port=port,
        write=write,
        add_folder=add_folder if write else None,
        folder_code=code,
        log_requests=not sys.stderr.isatty(),  # else what is printed once would scroll away
        limits=Limits(seconds=_WATCHED),
    )
    run(options, started)


Agent = Literal["claude", "cursor", "gemini", "vscode", "codex"]


@command(
    "triptych mcp --print-config > .mcp.json",
    "triptych mcp --print-config --agent codex --write",
    "triptych mcp --http --port 8765",
)
def mcp(
    session: Session,
    dataset: Annotated[str | None, option("--dataset -d", "Show this dataset only.")] = None,
    write: Annotated[bool, option("--write", "Allow the model to store documents.")] = False,
    http: Annotated[
        bool, option("--http", "Serve streamable HTTP instead of stdin and stdout.")
    ] = False,
    host: Annotated[
        str, option("--host", "The address to listen on. Without keys only loopback.")
    ] = "127.0.0.1",
    port: Annotated[
        int, option("--port", "The port to listen on; 0: any free port.", min=0, max=65535)
    ] = 8765,
    workers: Annotated[
        int,
        option(
            "--workers", "Number of processes with --http. Several keep no sessions.", min=1, max=64
        ),
    ] = 1,
    allow_host: Annotated[
        list[str] | None,
        option("--allow-host NAME", "A further host name of this server, besides localhost."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        option(
            "--allow-origin ORIGIN",
            "An origin whose web pages may send requests, such as https://example.com.",
        ),
    ] = None,
    max_tokens: Annotated[
        int, option("--max-tokens", "Maximum number of tokens of a response.", min=256)
    ] = 4000,
    timeout: Annotated[float, option("--timeout SECONDS", "The time limit of a call.")] = 120.0,
    key_share: Annotated[
        float, option("--key-share PART", "The most of the server that one key may have; 1: all.")
    ] = 0.5,
    print_config: Annotated[
        bool, option("--print-config", "Print the configuration for a coding agent.")
    ] = False,
    agent: Annotated[Agent, option("--agent", "The agent for --print-config.")] = "claude",
) -> None:
    """Serve the knowledge base to agents over the Model Context Protocol.

    Tools search, read and list; documents, their versions and layers are resources. It is read-only
    unless --write is given. An agent starts this command itself: --print-config prints the
    configuration for the agent, with the given store and options.
    """
    settings = session.settings().without_llm()
    if print_config:
        _print_config(session, settings, dataset, agent, write=write, http=http, port=port)
        return
    _refuse_writes(settings, write)
    _require("mcp", "triptych mcp needs the package mcp", extra="mcp")
    from triptych_server.mcp.server import ServerOptions, log_to_stderr, make_server

    options = ServerOptions(dataset_id=dataset, write=write, max_tokens=max_tokens, seconds=timeout)
    if not http:
        _serve_stdio(session, settings, options)
        return
    with session.service(
        create=write, settings=settings, dataset=dataset or "", preload=True
    ) as service:
        from triptych_server.http.limits import listen
        from triptych_server.http.processes import check_shared
        from triptych_server.keys import authenticator
        from triptych_server.mcp.http import (
            LIMITS,
            check_binding,
            make_app,
            serve_http,
            serve_processes,
        )

        limits = attrs.evolve(LIMITS, share=key_share, seconds=timeout)
        check_shared(settings, workers)
        authenticate = authenticator(service)
        check_binding(host, allow_host or (), keys=authenticate is not None)
        names: dict[str, Any] = {
            "host": host,
            "hosts": allow_host or (),
            "origins": allow_origin or (),
        }

        def tell(url: str) -> None:
            session.output.note(f"serving {url}")

        server = make_server(service if authenticate is None else None, options)
        app = make_app(server, authenticate=authenticate, limits=limits, **names)
        sock = listen(host, port)
        log_to_stderr()
        if workers == 1:
            serve_http(app, sock, tell, limits)
            return
    # Each process opens the store for itself.
    serve_processes(settings, options, sock, tell, workers=workers, limits=limits, **names)


def _serve_stdio(session: Session, settings: Settings, options: ServerOptions) -> None:
    """Serve over stdin and stdout; for reading, a folder without a store, or with an empty one, by
    its files."""
    from triptych_adapters.cli.storeless import found_by_keyword, note_of, storeless_folder
    from triptych_server.mcp.server import log_to_stderr, make_server, serve_stdio

    log_to_stderr()
    reads = not options.write and options.dataset_id is None
    beside_own = session.options.store is None
    folder = storeless_folder(settings, beside_own=beside_own) if reads else None
    if folder is None:
        with session.service(
            create=options.write, settings=settings, dataset=options.dataset_id or "", preload=True
        ) as service:
            note_missing_dataset(session, service, options.dataset_id)
            if reads and not service.list_datasets():
                folder = storeless_folder(settings, is_empty=True)
            if folder is None:
                serve_stdio(make_server(service, options), service.close)
                return
    with found_by_keyword(session, settings, folder) as (service, unready):
        options = attrs.evolve(options, note=note_of(folder), unready=unready)
        serve_stdio(make_server(service, options), service.close)


def note_missing_dataset(session: Session, service: KnowledgeBase, dataset_id: str | None) -> None:
    """Say that an agent finds nothing in a dataset that is not there, which may come yet."""
    from triptych.contracts.rules import missing_dataset

    if dataset_id is not None and dataset_id not in (known := service.list_datasets()):
        session.output.note(f"note: {missing_dataset(dataset_id, known)}")


def _print_config(
    session: Session,
    settings: Settings,
    dataset: str | None,
    agent: Agent,
    *,
    write: bool,
    http: bool,
    port: int,
) -> None:
    from triptych_server.mcp.configuration import AGENTS, KEY, SKILL, configuration

    key = _has_keys(session, settings) if http else settings.api_key is not None
    if http:
        text = configuration(agent, url=f"http://127.0.0.1:{port}/mcp", key=key)
    else:
        command = server_command(session, settings, dataset, write=write)
        text = configuration(agent, command=command, key=key)
    session.output.write(text)
    session.output.note(f"goes into {AGENTS[agent]}")
    session.output.note(f"instructions for agents: {SKILL}")
    if key:
        session.output.note(f"the key is read from {KEY}, in the environment of the agent")


def _has_keys(session: Session, settings: Settings) -> bool:
    """Whether the store that is served asks for keys."""
    from triptych_server.keys import authenticator

    try:
        with session.service(settings=attrs.evolve(settings, embedder="none")) as service:
            return authenticator(service) is not None
    except NotFoundError:  # it is made when it is served
        return False


def server_command(
    session: Session, settings: Settings, dataset: str | None, *, write: bool
) -> list[str]:
    """The command, whatever directory an agent starts it in."""
    from triptych_factory.locations import relative_to

    script = Path(sys.argv[0])
    if script.name == "triptych" and script.is_file():
        words = [str(script.absolute())]
    else:
        words = [sys.executable, "-m", "triptych_adapters.cli"]
    words += ["mcp", "--store", relative_to(settings.url, Path.cwd())]
    if urlsplit(settings.url).password is not None:
        session.output.note(
            "the password of the store is in the agent's file: keep that out of version control, "
            "or give the password in PGPASSWORD or ~/.pgpass"
        )
    if (embedder := session.options.embedder) is not None:
        kind, _, folder = embedder.partition(":")
        if kind in ("onnx", "static") and Path(folder).is_dir():
            embedder = f"{kind}:{Path(folder).absolute()}"
        words += ["--embedder", embedder]
    if dataset is not None:
        words += ["--dataset", dataset]
    return [*words, "--write"] if write else words
