"""Two served stores that differ only in what a key may not see, and the key to both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs

from triptych.access import Access
from triptych.errors import PendingReviewError
from triptych.proposals import Proposals
from triptych.records import Generation, Layer, Message
from triptych.search import Pipeline
from triptych.service import Service, ServiceOptions
from triptych.sync import RememberedRoots, SyncReport, SyncRoot
from triptych_backends.memory import MemoryStore
from triptych_server.keys import KeyAuthenticator, KeyStore
from triptych_testing.fakes import FakeEmbedder, FakeSparseEncoder

OURS, THEIRS = {"team": "ours"}, {"team": "theirs"}
FILTERS: dict[str, dict[str, Any]] = {"metadata": OURS, "prefix": {"doc_prefix": "ours/"}}
"""What a key is restricted by: both show the same documents."""

_MINE = [
    ("kb", "ours/anchor.md", "# Anchor\n\nDrop the anchor in calm water.\n\nCheck the rope."),
    ("kb", "ours/rope.md", "# Rope\n\nA rope holds the boat. Rope wears out."),
    ("kb", "ours/tide.md", "# Tide\n\nThe tide turns twice a day."),
    ("log", "ours/day.md", "A calm day, and an anchor."),
]
_BEFORE = [
    ("kb", "a.md", "# Zebra\n\nThe zebra code is anchor rope 4711.", {}),
    ("kb", "theirs/zebra.md", "# Zebra\n\nZebra zebra anchor tide. Zebra plans.", THEIRS),
    ("zoo", "animals.md", "# Animals\n\nThe zebra and the anchor.", THEIRS),
]
_AFTER = [
    ("kb", "theirs/tide.md", "# Tide\n\nThe tide of zebras, and the rope of the anchor.", THEIRS),
    ("kb", "z.md", "Calm water, calm rope, calm anchor.", {"team": "theirs", "year": 2024}),
]


class Answering:
    """A model that always says the same."""

    signature = "answering"

    def generate(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Generation:
        return Generation(text="Drop it [1].")

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Iterator[str]:
        yield "Drop it [1]."


@attrs.frozen
class KeyPair:
    """``whole`` holds documents of others, ``alone`` does not; ``token`` opens both."""

    whole: Service
    alone: Service
    token: str

    @property
    def services(self) -> tuple[Service, Service]:
        return self.whole, self.alone

    def app(self, service: Service) -> Any:
        from triptych_server.http import create_app

        keys = KeyAuthenticator(service, KeyStore.of(service))
        return create_app(
            service,
            authenticate=keys,
            write=True,
            dataset="kb",
            sync=lambda service, progress: SyncReport(),
            roots=lambda service: RememberedRoots(service.capabilities.settings).all(),
            console=True,
        )

    def restricted(self) -> tuple[Service, Service]:
        """What the key opens of each, as a server gives it."""
        header = f"Bearer {self.token}"
        whole, alone = (KeyAuthenticator(each, KeyStore.of(each))(header) for each in self.services)
        return whole, alone


@contextmanager
def key_pair(where: dict[str, Any]) -> Iterator[KeyPair]:
    """Both stores, filled; the key may write."""
    with _opened() as whole, _opened() as alone, _opened() as source:
        for dataset_id, name, content in _MINE:
            source.put_document(dataset_id, name, f"Draft. {content}", OURS)
            source.put_document(dataset_id, name, content, OURS | {"year": 2024})
        for document in _BEFORE:
            whole.put_document(*document)
        for each in (whole, alone):
            _load(each, source)
        for document in _AFTER:
            whole.put_document(*document)
        for days in (-1, 1):
            ends = datetime.now(UTC) + timedelta(days=days)
            whole.put_document("kb", f"theirs/{days}.md", "Old zebra.", THEIRS, expires_at=ends)
        for layer in (Layer.ABSTRACT, Layer.OVERVIEW):
            whole.put_folder_layer("kb", "ours/", layer, "Anchors, ropes and the zebra code.")
            whole.put_dataset_layer("kb", layer, "Anchors, tides and zebra plans.")
        folder = SyncRoot(path=Path("/zebra"), dataset_id="kb", prefix="theirs/")
        RememberedRoots(whole.capabilities.settings).add([folder])
        Proposals.of(whole).set_reviewed("kb", True)
        with suppress(PendingReviewError):
            agent = whole.restricted(Access(can_write=True, agent=True))
            agent.put_document("kb", "theirs/new.md", "A zebra anchor.", THEIRS)
        made = KeyStore.of(whole).add("key", where=where, can_write=True)
        settings, others = whole.capabilities.settings, alone.capabilities.settings
        assert settings is not None
        assert others is not None
        for key, text in settings.list_settings("access/key/").items():
            assert others.set_setting(key, text, expected=None)
        whole.context("anchor", 100, dataset_id="kb")  # a process warns once that it estimates
        yield KeyPair(whole, alone, made.token)


def _opened() -> Service:
    options = ServiceOptions(
        embedder=FakeEmbedder(),
        sparse_encoder=FakeSparseEncoder(),
        scratch=MemoryStore,
        llm=Answering(),
        pipelines=[Pipeline(name="all"), Pipeline(name="kb", datasets=["kb"])],
    )
    return Service(MemoryStore(), options=options)


def _load(service: Service, source: Service) -> None:
    """Put the documents of ``source`` with their versions and times."""
    for dataset_id in source.list_datasets():
        for info in source.list_documents(dataset_id):
            for version in reversed(source.history(dataset_id, info.name)):
                document = source.get_document(dataset_id, info.name, version=version.version)
                service.store.documents.load(document)
        service.rebuild(dataset_id=dataset_id)
        for info in source.list_documents(dataset_id):
            service.put_document_layer(dataset_id, info.name, Layer.ABSTRACT, f"Of {info.name}")


_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)?"  # moments
    r'|(?<=[-"])[0-9a-f]{20}(?=")'  # the digest in an ETag of what holds a moment
)


def without_times(text: str) -> str:
    """``text`` of a call that wrote: without moments, and what is made of them."""
    return _VOLATILE.sub("…", text)
