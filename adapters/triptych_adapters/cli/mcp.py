"""``triptych mcp``."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs

from triptych.errors import NotFoundError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.options import option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych_factory import Settings


class AgentChoice(StrEnum):
    """The coding agents whose configuration is known."""

    CLAUDE = "claude"
    CURSOR = "cursor"
    GEMINI = "gemini"
    VSCODE = "vscode"
    CODEX = "codex"


@command(
    "triptych mcp --print-config > .mcp.json",
    "triptych mcp --print-config --agent codex --write",
    "triptych mcp --http --port 8765",
)
def mcp(
    session: Session,
    dataset: Annotated[str | None, option("--dataset -d", "Show this dataset only.")] = None,
    write: Annotated[bool, option("--write", "Let the model put documents, too.")] = False,
    http: Annotated[
        bool, option("--http", "Serve streamable HTTP instead of stdin and stdout.")
    ] = False,
    host: Annotated[
        str, option("--host", "Where to listen. Without keys loopback only.")
    ] = "127.0.0.1",
    port: Annotated[
        int, option("--port", "Where to listen; 0: any free port.", min=0, max=65535)
    ] = 8765,
    allow_host: Annotated[
        list[str] | None,
        option("--allow-host NAME", "A name that clients call this server by, beside localhost."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        option(
            "--allow-origin ORIGIN", "An origin, such as https://example.com, whose pages may ask."
        ),
    ] = None,
    max_tokens: Annotated[int, option("--max-tokens", "The limit of an answer.", min=256)] = 4000,
    timeout: Annotated[float, option("--timeout SECONDS", "The limit of a call.")] = 120.0,
    key_share: Annotated[
        float, option("--key-share PART", "The most of the server that one key may have; 1: all.")
    ] = 0.5,
    print_config: Annotated[
        bool, option("--print-config", "Print what a coding agent takes as configuration.")
    ] = False,
    agent: Annotated[
        AgentChoice, option("--agent", "The agent that --print-config is for.")
    ] = AgentChoice.CLAUDE,
) -> None:
    """Serve the knowledge base to agents, by the Model Context Protocol.

    Tools search, read and list; documents, their versions and layers are resources. It is
    read-only unless --write is given. An agent starts this command itself: --print-config prints
    what goes into the agent's configuration, with the store and the options given.
    """
    settings = session.settings().without_llm()
    if print_config:
        _print_config(session, settings, dataset, agent, write=write, http=http, port=port)
        return
    _require()
    from triptych_adapters.mcp.server import ServerOptions, make_server

    options = ServerOptions(dataset_id=dataset, write=write, max_tokens=max_tokens, seconds=timeout)
    with session.service(
        create=write, settings=settings, dataset=dataset or "", preload=True
    ) as service:
        if not http:
            from triptych_adapters.mcp.stdio import serve_stdio

            _log_to_stderr()
            serve_stdio(make_server(service, options), service.close)
            return
        from triptych_adapters.keys import authenticator
        from triptych_adapters.keys.loopback import listen
        from triptych_adapters.mcp.http import LIMITS, PATH, check_binding, make_app, serve_http

        limits = attrs.evolve(LIMITS, share=key_share)
        authenticate = authenticator(service)
        check_binding(host, allow_host or (), keys=authenticate is not None)
        app = make_app(
            make_server(service if authenticate is None else None, options),
            host=host,
            hosts=allow_host or (),
            origins=allow_origin or (),
            authenticate=authenticate,
            limits=limits,
        )

        def tell(name: str, number: int) -> None:
            session.output.note(f"serving http://{name}:{number}{PATH}")

        sock = listen(host, port)
        _log_to_stderr()
        serve_http(app, sock, tell, limits)


def _log_to_stderr() -> None:
    """Keep stdout for the protocol."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")


def _require() -> None:
    """Say which extra is missing.

    Raises:
        NotAvailableError: the protocol's SDK is not installed.
    """
    from importlib.util import find_spec

    from triptych.installation import lacking

    if find_spec("mcp") is None:
        raise lacking("triptych mcp needs the package mcp, which is not installed", "mcp")


def _print_config(
    session: Session,
    settings: Settings,
    dataset: str | None,
    agent: AgentChoice,
    *,
    write: bool,
    http: bool,
    port: int,
) -> None:
    from triptych_adapters.mcp.configuration import AGENTS, KEY, configuration

    key = _has_keys(session, settings) if http else settings.api_key is not None
    if http:
        text = configuration(agent, url=f"http://127.0.0.1:{port}/mcp", key=key)
    else:
        command = _command(session, settings, dataset, write=write)
        text = configuration(agent, command=command, key=key)
    session.output.write(text)
    session.output.note(f"goes into {AGENTS[agent]}")
    if key:
        session.output.note(f"the key is read from {KEY}, in the environment of the agent")


def _has_keys(session: Session, settings: Settings) -> bool:
    """Whether the store that is served asks for keys."""
    from triptych_adapters.keys import authenticator

    try:
        with session.service(settings=attrs.evolve(settings, embedder="none")) as service:
            return authenticator(service) is not None
    except NotFoundError:  # it is made when it is served
        return False


def _command(
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
    if session.options.embedder is not None:
        words += ["--embedder", session.options.embedder]
    if dataset is not None:
        words += ["--dataset", dataset]
    return [*words, "--write"] if write else words
