"""A corpus in which the rules of ranking all matter, and the oracle's view of a store."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime

from triptych.contracts import Store
from triptych.records import Metadata
from triptych.testing.builders import fill_at_once, vector_of
from triptych.testing.oracle import Entry

VOCABULARY = (
    "harbour lighthouse keeper storm signal lantern tide ferry captain anchor the of and is "
    "running runs run HTTPServer parse_json_file naïve café 灯塔 港口 今天天气 東京タワー 서울"
)

QUERIES = (
    "lighthouse",
    "the lighthouse keeper and the storm",
    "running",
    "the of and",
    "json server",
    "灯塔",
    "CAFÉ",
    "tide tide captain",
    "nowhere",
    "",
    "?!",
)
DATASETS = ("north", "south")
METADATA: Mapping[str, Metadata] = {
    "guide/a.md": {"lang": "en", "kind": "markdown", "year": 2024, "tags": ["sea", "light"]},
    "guide/b.md": {"lang": "de", "year": 2023.5, "tags": ["sea", 7], "day": date(2026, 9, 1)},
    "notes.txt": {"lang": "en", "year": "2024", "day": datetime(2026, 9, 1, 8, tzinfo=UTC)},
    "log/1": {"year": 2025, "draft": True, "tags": "sea"},
    "log/2": {"year": True, "draft": False, "day": "2026-09-01"},
}


def contents(dataset_id: str) -> dict[str, str]:
    """The documents of one dataset; some are equal in both, so that there are ties."""
    chance = random.Random(dataset_id)
    made = {}
    for name in ("guide/a.md", "guide/b.md", "notes.txt", "log/1", "log/10", "log/2"):
        blocks = []
        for number in range(6):
            words = " ".join(chance.choices(VOCABULARY.split(), k=chance.randint(1, 14)))
            blocks.append(f"# Part {number % 3}\n{words}" if number % 2 == 0 else words)
        made[name] = "\n\n".join([*blocks, "~the ferry is late", "the tide"])
    made["same"] = "the lighthouse keeper\n\nthe lighthouse keeper\n\nstorm"
    made["same too"] = made["same"]
    return made


def fill_corpus(store: Store, datasets: Sequence[str] = DATASETS) -> None:
    """Put the corpus into a store, derived."""
    for dataset_id in datasets:
        fill_at_once(store, dataset_id, contents(dataset_id), metadata=METADATA)


def chunk_entries(store: Store, *dataset_ids: str) -> list[Entry]:
    """Every stored chunk, as the oracle takes it."""
    return [
        Entry(
            dataset_id=dataset_id,
            name=chunk.doc_name,
            index=chunk.index,
            text=chunk.content,
            vector=chunk.vector,
        )
        for dataset_id in dataset_ids
        for chunk in store.chunks.iter_chunks(dataset_id, vectors=True)
    ]


def document_entries(store: Store, *dataset_ids: str) -> list[Entry]:
    """Every stored document, as the oracle takes it."""
    found = []
    for dataset_id in dataset_ids:
        for info in store.documents.list(dataset_id):
            document = store.documents.get(dataset_id, info.name)
            assert document is not None
            found.append(
                Entry(dataset_id=dataset_id, name=info.name, index=-1, text=document.content)
            )
    return found


def layer_entries(
    contents: Mapping[tuple[str, str], str],
) -> list[Entry]:
    """Layers of one kind by (dataset, name), as the oracle takes them."""
    return [
        Entry(dataset_id=dataset_id, name=name, index=-1, text=text, vector=vector_of(text))
        for (dataset_id, name), text in contents.items()
    ]
