"""What the kit's child processes do: lines of JSON in, lines of JSON out.

Run as ``python -m triptych.testing.work``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from triptych.errors import ConflictError, NotFoundError
from triptych.records import NewDocument
from triptych.service import Service, ServiceOptions
from triptych.testing.builders import derive, ids, keyword_query, put
from triptych.testing.fakes import FakeEmbedder, kept_open
from triptych.testing.operations import apply, operations

if TYPE_CHECKING:
    from triptych.contracts import Store, WorkLeases


def service_over(store: Store) -> Service:
    """A Service over an open store, which stays open when the Service is closed."""
    return Service(kept_open(store), options=ServiceOptions(embedder=FakeEmbedder()))


def write_layered(kb: Service, dataset_id: str, name: str, text: str) -> int:
    """Put a document and an abstract of it; the version.

    Raises:
        NotFoundError, ConflictError: it was deleted before its abstract was stored.
    """
    version = kb.put_document(dataset_id, name, text).version
    kb.put_document_layer(
        dataset_id, name, "L0", f"About {text}.", prompt_sig="p", source_version=version
    )
    return version


def _write_all(store: Store, datasets: list[str], text: str) -> dict[str, int]:
    """Write a document of each dataset some times over, while another may delete it.

    By dataset, the last version whose layer was stored, 0 for none. Another dataset marks the end.
    """
    kb, layered = service_over(store), dict.fromkeys(datasets, 0)
    for dataset_id in datasets:
        for number in range(3):
            with suppress(NotFoundError, ConflictError):
                layered[dataset_id] = write_layered(kb, dataset_id, "a", f"{text} {number}")
    kb.put_document("end", "a", text)
    return layered


def count_up(store: Store, times: int) -> list[int]:
    """Add one to the number in a document, ``times`` times; the versions this made."""
    versions: list[int] = []
    while len(versions) < times:
        stored = store.documents.get("d", "counter")
        content, version = (stored.content, stored.version) if stored else ("0", 0)
        document = NewDocument(name="counter", content=str(int(content) + 1), if_version=version)
        try:
            versions.append(store.documents.put("d", document).version)
        except ConflictError:
            continue
    return versions


def count_settings(store: Store, key: str, times: int) -> int:
    """Add one to the number in a setting, ``times`` times; the number in the end."""
    settings = store.capabilities.settings
    assert settings is not None, "the store keeps no settings"
    count = 0
    for _ in range(times):
        done = False
        while not done:
            value = settings.get_setting(key)
            count = int(value or "0") + 1
            done = settings.set_setting(key, str(count), expected=value)
    return count


def take_leases(leases: WorkLeases, names: list[str], holder: str) -> list[str]:
    """Take leases of ``names`` for good, two more at a time, until none is free; those taken."""
    taken: Sequence[str] = []
    while True:
        more = leases.hold_leases(
            "taken", names, holder=holder, seconds=600.0, limit=len(taken) + 2
        )
        if len(more) == len(taken):
            return list(taken)
        taken = more


def answers(store: Store, command: dict[str, Any]) -> Iterator[object]:
    """Carry out one command; each answer is written before the next step is begun."""
    what = command["do"]
    if what == "put":
        texts = (f"{os.getpid()} {count}" for count in range(command["times"]))
        yield [put(store, "d", "a", text).version for text in texts]
    elif what == "count":
        yield count_up(store, command["times"])
    elif what == "count settings":
        yield count_settings(store, command["key"], command["times"])
    elif what == "take leases":
        leases = store.capabilities.leases
        assert leases is not None
        yield take_leases(leases, command["names"], command["holder"])
    elif what == "write":
        put(store, "d", command["name"], command["text"])
        yield derive(store, "d", command["name"])
    elif what == "delete":
        yield store.documents.delete("d", command["name"])
    elif what == "find":
        yield ids(store.chunks.search(keyword_query(command["text"], "d")))
    elif what == "write layered":
        yield _write_all(store, command["datasets"], command["text"])
    elif what == "churn":
        for operation in operations(command["seed"], bulk=command["bulk"]):
            apply(store, operation)
            yield "done"


def main() -> None:
    """Answer until the input ends."""
    store: Store | None = None
    with ExitStack() as stores:
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] in ("open", "close"):
                stores.close()
                if command["do"] == "open":
                    module, _, function = command["opener"].partition(":")
                    opener = attrgetter(function)(importlib.import_module(module))
                    store = opener(command["argument"])
                    stores.enter_context(closing(store))
                print(json.dumps("done"), flush=True)
                continue
            assert store is not None, "no store is open"
            for answer in answers(store, command):
                print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
