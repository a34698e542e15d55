"""A process that puts documents in bulk, until it is killed."""

from __future__ import annotations

import os
import sys
import time
from itertools import count

from triptych import Service, ServiceOptions
from triptych_backends.index import helper
from triptych_backends.sqlite import SqliteStore
from triptych_models import HashEmbedder


def main() -> None:
    """Print the helper's id when there is one; fork first, where the second argument says so."""
    helper.HELP_FROM = 20
    store = SqliteStore.open(sys.argv[1])
    with Service(store, options=ServiceOptions(embedder=HashEmbedder())) as kb:
        told = False
        for batch in count():
            texts = {f"{batch}-{n}": f"word{batch} common note{n}" for n in range(10)}
            kb.put_documents("d", texts)
            process = store.index.helper_process
            if process is not None and not told:
                told = True
                writer = os.getpid()
                if sys.argv[2:] == ["fork"] and not os.fork():
                    os.close(1)
                    while os.getppid() == writer:
                        time.sleep(0.1)
                    time.sleep(5)  # the helper's input is open for so much longer
                    os._exit(0)
                print(process, flush=True)


main()
