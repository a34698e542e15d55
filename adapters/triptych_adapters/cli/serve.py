"""``triptych serve``."""

from __future__ import annotations

from typing import Annotated

import typer

from triptych_adapters.cli.session import Session, command, examples


def register(app: typer.Typer) -> None:
    """Add ``serve``."""
    command(
        app,
        "serve",
        epilog=examples(
            "triptych serve                           reading, on http://127.0.0.1:8400",
            "triptych serve --write --workers 2       writing too, in two processes",
            "curl http://127.0.0.1:8400/v1/openapi.json",
        ),
    )(serve)


def serve(
    session: Session,
    host: Annotated[
        str,
        typer.Option(
            "--host", help="The address to listen on. Without keys it must be of this machine."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0: any.")] = 8400,
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=1, max=64, help="Processes on the one store.")
    ] = 1,
    write: Annotated[
        bool, typer.Option("--write", help="Serve what writes and destroys, too.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="HOST", help="A further Host to answer to.", show_default=False
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="ORIGIN",
            help="A web page that may ask, such as https://app.example.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="The limit of one request.")
    ] = 120.0,
    max_body: Annotated[
        int, typer.Option("--max-body", metavar="BYTES", help="The limit of a request's body.")
    ] = 1 << 20,
    key_share: Annotated[
        float,
        typer.Option(
            "--key-share",
            metavar="PART",
            help="The most of the server that one key may have; 1: all.",
        ),
    ] = 0.5,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Serve /metrics for Prometheus.")
    ] = False,
    otel: Annotated[
        bool,
        typer.Option(
            "--otel", help="Give spans and metrics to the OpenTelemetry SDK this is run with."
        ),
    ] = False,
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", help="What the routes serve that name none.")
    ] = "default",
) -> None:
    """Serve the knowledge base over HTTP until Ctrl-C.

    The URL is on stdout; requests are logged on stderr, a JSON object each. Only reading is served,
    unless --write is given. Without keys only this machine is answered. Ctrl-C and SIGTERM let
    requests end that are under way.
    """
    from importlib.util import find_spec

    from triptych._internal.installation import lacking

    try:
        from triptych_adapters.http.limits import Limits
        from triptych_adapters.http.workers import ServeOptions, serve as run
    except ImportError as error:
        raise lacking(f"serving needs {error.name}, which is not installed", "server") from error
    for wanted, option, package in (
        (metrics, "--metrics", "prometheus_client"),
        (otel, "--otel", "opentelemetry"),
    ):
        if wanted and find_spec(package) is None:
            raise lacking(f"{option} needs {package}, which is not installed", "telemetry")
    from triptych_factory.remote import check_local

    check_local(session.settings(), "serving")
    options = ServeOptions(
        settings=session.settings(),
        host=host,
        port=port,
        workers=workers,
        write=write,
        hosts=tuple(allow_host or ()),
        origins=tuple(allow_origin or ()),
        limits=Limits(body=max_body, seconds=timeout, share=key_share),
        dataset=dataset,
        metrics=metrics,
        otel=otel,
    )

    def started(url: str) -> None:
        if session.output.as_json:
            session.output.emit({"url": url, "workers": workers, "write": write})
        else:
            session.output.write(f"{url}\n")

    run(options, started)
