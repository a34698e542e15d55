"""``triptych serve``."""

from __future__ import annotations

from typing import Annotated

from triptych_adapters.cli.command import command
from triptych_adapters.cli.options import option
from triptych_adapters.cli.session import Session


@command(
    "triptych serve                           reading, on http://127.0.0.1:8400",
    "triptych serve --write --workers 2       writing too, in two processes",
    "curl http://127.0.0.1:8400/v1/openapi.json",
)
def serve(
    session: Session,
    host: Annotated[
        str, option("--host", "The address to listen on. Without keys it must be of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, option("--port -p", "0: any.", min=0, max=65535)] = 8400,
    workers: Annotated[
        int, option("--workers -w", "Processes on the one store.", min=1, max=64)
    ] = 1,
    write: Annotated[bool, option("--write", "Serve what writes and destroys, too.")] = False,
    allow_host: Annotated[
        list[str] | None, option("--allow-host HOST", "A further Host to answer to.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        option("--allow-origin ORIGIN", "A web page that may ask, such as https://app.example."),
    ] = None,
    timeout: Annotated[float, option("--timeout SECONDS", "The limit of one request.")] = 120.0,
    max_body: Annotated[int, option("--max-body BYTES", "The limit of a request's body.")] = 1
    << 20,
    key_share: Annotated[
        float, option("--key-share PART", "The most of the server that one key may have; 1: all.")
    ] = 0.5,
    metrics: Annotated[bool, option("--metrics", "Serve /metrics for Prometheus.")] = False,
    otel: Annotated[
        bool, option("--otel", "Give spans and metrics to the OpenTelemetry SDK this is run with.")
    ] = False,
    dataset: Annotated[
        str, option("--dataset -d", "What the routes serve that name none.")
    ] = "default",
) -> None:
    """Serve the knowledge base over HTTP until Ctrl-C.

    The URL is on stdout; requests are logged on stderr, a JSON object each. Only reading is served,
    unless --write is given. Without keys only this machine is answered. Ctrl-C and SIGTERM let
    requests end that are under way.
    """
    from importlib.util import find_spec

    from triptych.installation import lacking

    try:
        from triptych_adapters.http.limits import Limits
        from triptych_adapters.http.workers import ServeOptions, serve as run
    except ImportError as error:
        raise lacking(f"serving needs {error.name}, which is not installed", "server") from error
    for wanted, flag, package in (
        (metrics, "--metrics", "prometheus_client"),
        (otel, "--otel", "opentelemetry"),
    ):
        if wanted and find_spec(package) is None:
            raise lacking(f"{flag} needs {package}, which is not installed", "telemetry")
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
        session.output.show({"url": url, "workers": workers, "write": write}, lines=[url])

    run(options, started)
