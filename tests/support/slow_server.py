"""A server that waits for little: run with the path of a store, it prints its URL."""

import sys

from triptych_factory import Settings
from triptych_server.http import Limits
from triptych_server.http.workers import ServeOptions, serve


def main() -> None:
    limits = Limits(header_seconds=0.4, body_seconds=0.4)
    settings = Settings.resolve({"url": sys.argv[1], "embedder": "none"})
    options = ServeOptions(settings=settings, port=0, write=True, limits=limits)
    serve(options, lambda url: print(url, flush=True))


if __name__ == "__main__":
    main()
