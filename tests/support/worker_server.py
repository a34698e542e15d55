"""A server of two processes: run with a store's path and a language model's URL.

It prints its URL. Its limits are small, and it keeps answers of searches.
"""

import sys

from triptych_factory import Settings
from triptych_server.http import Limits
from triptych_server.http.workers import ServeOptions, serve


def main() -> None:
    settings = Settings.resolve(
        {
            "url": sys.argv[1],
            "embedder": "hash",
            "semantic_cache": True,
            "llm": "openai:small",
            "llm_base_url": sys.argv[2],
            "llm_api_key": "none",
        }
    )
    options = ServeOptions(
        settings=settings,
        port=0,
        workers=2,
        write=True,
        limits=Limits(waiting=4),
        drain_seconds=1,
    )
    serve(options, lambda url: print(url, flush=True))


if __name__ == "__main__":
    main()
