"""What the state machine draws from, and the plain dicts it compares a backend with."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import attrs
from hypothesis import strategies as st

from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    Layer,
    SourceDocument,
)
from triptych.testing.builders import CONFIG

NAMES = st.sampled_from(["a", "b", "dir/é\u0301"])
DATASETS = st.sampled_from(["d", "d", "e"])
CONFIGS = st.sampled_from(
    [
        CONFIG,
        attrs.evolve(CONFIG, chunker_sig="paragraphs/2"),
        attrs.evolve(CONFIG, embed_sig="space/2"),
        attrs.evolve(CONFIG, embed_sig="", language="german"),
    ]
)
WORDS = st.sampled_from(["fish", "fishes", "the", "Bird", "鱼鸟", "# Top\nfish", "~", "\r\n", "🦉"])
PARAGRAPHS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join) | st.text(max_size=8)
CONTENTS = st.just("") | st.lists(PARAGRAPHS, min_size=1, max_size=4).map("\n\n".join)
METADATA = st.dictionaries(st.sampled_from(["lang", "title"]), st.sampled_from(["", "x"]))
LAYERS = st.sampled_from([Layer.ABSTRACT, Layer.OVERVIEW])
EXAMPLES = int(os.environ.get("TRIPTYCH_EXAMPLES", "15"))
"""How many histories are tried; raise it for a longer run."""

WHEN = datetime(2020, 1, 1, tzinfo=UTC)


@attrs.define
class Dataset:
    """What a dataset holds, as plain as can be; ``replaced`` oldest first, however many."""

    exists: bool = False
    floor: int = 0
    config: DatasetConfig | None = None
    documents: dict[str, SourceDocument] = attrs.field(factory=dict)
    replaced: dict[str, list[SourceDocument]] = attrs.field(factory=dict)
    sets: dict[str, tuple[DerivedSig, tuple[DerivedChunk, ...]]] = attrs.field(factory=dict)
    layers: dict[tuple[str, Layer], DerivedLayer] = attrs.field(factory=dict)

    def store(self, document: SourceDocument) -> None:
        """Make this the document, and the one before it an old version, if it is another."""
        old = self.documents.get(document.name)
        if old is not None and old != document:
            self.replaced.setdefault(document.name, []).append(old)
        self.documents[document.name] = document
        self.exists = True

    def version(self, name: str) -> int:
        return self.documents[name].version if name in self.documents else 0
