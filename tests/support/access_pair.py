"""A knowledge base with documents of two teams, and its twin that holds only those of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from triptych.records import Layer
from triptych.service import Service, ServiceOptions
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import FakeEmbedder, FakeSparseEncoder

OURS = {"team": "ours"}
THEIRS = {"team": "theirs", "zebras": 3}

DOCUMENTS = [
    (
        "kb",
        "guide/anchor.md",
        "# Anchor\n\nDrop the anchor in calm water.\n\nCheck the rope.",
        OURS,
    ),
    ("kb", "guide/rope.md", "# Rope\n\nA rope holds the boat. Rope wears out.", OURS),
    ("kb", "tide.md", "# Tide\n\nThe tide turns twice a day.", {**OURS, "year": 2024}),
    ("kb", "guide/secret.md", "# Zebra\n\nThe zebra code is anchor rope 4711.", THEIRS),
    ("kb", "zebra.md", "# Zebra\n\nZebra zebra anchor tide. Zebra plans.", THEIRS),
    ("kb", "untagged.md", "# Plain\n\nAn anchor of nobody.", {}),
    ("zoo", "animals.md", "# Animals\n\nThe zebra and the anchor.", THEIRS),
]
"""Documents of "ours", of "theirs", of nobody, and a dataset of "theirs" alone."""


@attrs.frozen
class Pair:
    """``whole`` holds everything; ``ours`` shows a part of it; ``twin`` holds that part alone."""

    whole: Service
    ours: Service
    twin: Service


def options(**more: Any) -> ServiceOptions:
    return ServiceOptions(
        embedder=FakeEmbedder(),
        sparse_encoder=FakeSparseEncoder(),
        scratch=MemoryStore,
        **more,
    )


def fill(service: Service, mine: Callable[[str, dict[str, Any]], bool]) -> None:
    """Put the documents for which ``mine`` holds, each twice, with abstracts."""
    for dataset_id, name, content, metadata in DOCUMENTS:
        if mine(dataset_id, metadata):
            service.put_document(dataset_id, name, f"Draft. {content}", metadata)
            service.put_document(dataset_id, name, content, metadata)
            service.put_document_layer(dataset_id, name, Layer.ABSTRACT, f"Of {content[2:40]}")


def fill_above(service: Service) -> None:
    """Give the folder and the dataset layers."""
    for kind in (Layer.ABSTRACT, Layer.OVERVIEW):
        service.put_folder_layer("kb", "guide/", kind, "Anchors, ropes and the zebra code.")
        service.put_dataset_layer("kb", kind, "All about anchors, tides and zebra plans.")


HIDDEN = ("zebra", "4711", "secret", "theirs", "zoo", "untagged")
"""Words of documents that are not ours, and of their names."""


def filled(**more: Any) -> Service:
    """A Service in memory with all documents."""
    made = Service(MemoryStore(), options=options(**more))
    for dataset_id, name, content, metadata in DOCUMENTS:
        made.put_document(dataset_id, name, content, metadata)
    return made


def names_nothing(said: object) -> None:
    """Assert that ``said`` has none of the words `HIDDEN`."""
    text = str(said).lower()
    assert not [word for word in HIDDEN if word in text], text
