"""What every system is given: documents cut into chunks, their vectors, queries, edits.

Generated text has sections of 80 tokens, ten a document by default, its words drawn
from a Zipf vocabulary of 100,000 with fixed seeds; each section is one chunk. Real text is a folder
or a zip: Markdown and plain text files, or a collection in BEIR layout. Both are cut by Triptych's
own chunkers, so that all systems hold the same chunks. Everything is written to a folder once, and
streamed from there by the process that measures a system: what the system does not keep takes no
memory.
"""

from __future__ import annotations

import json
import re
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.chunking import default_chunkers, embedding_text
from triptych.chunking.specs import embedded_title
from triptych.text import get_analyzer, label_of

DIMENSION = 384
SECTIONS = 10
TOKENS = 80
VOCABULARY = 100_000
QUERY_WORDS = 8
QUERIES = 300
REPLACED = 60
COUNTED = 20_000
FREQUENT = 50
FILTERS = {"1%": ("shelf", "7"), "50%": ("half", "1")}
"""Fields of a document's metadata, and the value that this share of the documents has."""
_LATENT = 48
_TEXT_ENDINGS = (".md", ".markdown", ".mdx", ".txt", ".rst")

Vectors = NDArray[np.float32]


@attrs.frozen(kw_only=True)
class Chunk:
    """One chunk: ``id`` is the document's name, "#" and the chunk's index.

    ``embed_key`` is the digest of what Triptych embeds for it: its headings, then its text.
    """

    id: str
    text: str
    vector: Vectors
    embed_key: int


@attrs.frozen(kw_only=True)
class Document:
    """A document and the chunks it is cut into."""

    name: str
    content: str
    chunks: tuple[Chunk, ...]


@attrs.frozen(kw_only=True)
class Edit:
    """A document's new state, and a word that only its chunk ``chunk`` holds."""

    document: Document
    needle: str
    chunk: Chunk


def document_of(chunk_id: str) -> str:
    return chunk_id.rpartition("#")[0]


def metadata_of(name: str) -> dict[str, str]:
    """A document's metadata, drawn by its name."""
    key = key_of(name)
    return {"shelf": str(key % 100), "half": str(key // 100 % 2)}


class Given:
    """Vectors in place of a model: unit rows of 384 dimensions, drawn by a digest of a text.

    They are dense in 48 dimensions and faint in the rest, as sentence embeddings are: on rows
    drawn evenly from all dimensions no approximate index finds anything.
    """

    signature = f"bench/{DIMENSION}"
    dimension = DIMENSION

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        spread = np.linspace(1.5, 0.5, _LATENT, dtype=np.float32)
        self._tables = [rng.standard_normal((4096, _LATENT), np.float32) * spread for _ in range(2)]
        self._lift = np.linalg.qr(rng.standard_normal((DIMENSION, _LATENT)))[0].T.astype(np.float32)
        self._noise = 0.1 * rng.standard_normal((1021, DIMENSION), np.float32)
        self._ready: dict[int, Vectors] = {}
        self._asked: dict[str, Vectors] = {}

    def rows(self, keys: Sequence[int]) -> Vectors:
        """Rows of unit length, shape (len(keys), 384), for the digests of texts."""
        numbers = np.array(keys, np.int64)
        latent = self._tables[0][numbers % 4096] + self._tables[1][numbers // 4096 % 4096]
        rows: Vectors = latent @ self._lift + self._noise[numbers % 1021]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    def remember(self, texts: Iterable[str], rows: Iterable[Vectors]) -> None:
        """Have the rows of queries at hand, so that `embed` costs a look-up."""
        self._asked.update(zip(texts, rows, strict=True))

    def hand_out(self, keys: Iterable[int], rows: Iterable[Vectors]) -> None:
        """Have the rows of the next documents at hand, until each has been asked for once."""
        self._ready.update(zip(keys, rows, strict=True))

    def embed(self, texts: Sequence[str], *, kind: str = "document") -> Vectors:
        """Rows for texts: Triptych's `Embedder`, and what every adapter of a peer calls."""
        if len(texts) == 1 and texts[0] in self._asked:
            return self._asked[texts[0]][None]
        keys = [key_of(text) for text in texts]
        ready = [self._ready.pop(key, None) for key in keys]
        missing = [key for key, row in zip(keys, ready, strict=True) if row is None]
        drawn = iter(self.rows(missing)) if missing else iter(())
        return np.stack([next(drawn) if row is None else row for row in ready])


def key_of(text: str) -> int:
    return zlib.crc32(text.encode())


@cache
def words() -> tuple[list[str], NDArray[np.float64]]:
    """The generated vocabulary, most frequent first, and the sum of shares up to each word."""
    rng = np.random.default_rng(2)
    letters = np.frombuffer(b"etaoinshrdlucmfwypvbgkjqxz", np.uint8)
    made: dict[str, None] = {}
    while len(made) < VOCABULARY:
        drawn = letters[rng.integers(0, len(letters), (VOCABULARY, 8))].tobytes().decode()
        lengths = rng.integers(3, 9, VOCABULARY).tolist()
        made.update(
            dict.fromkeys(drawn[8 * at : 8 * at + length] for at, length in enumerate(lengths))
        )
    share = 1.0 / np.arange(1, VOCABULARY + 1)
    return list(made)[:VOCABULARY], np.cumsum(share / share.sum())


class ZipfText:
    """Generated documents of ``sections`` each, and queries; the same for the same seed."""

    def __init__(self, seed: int = 3, sections: int = SECTIONS) -> None:
        self.words, self._sums = words()
        self._sections = sections
        self._rng = np.random.default_rng(seed)

    def draw(self, count: int) -> list[str]:
        """Words, one after the other, as often as their share."""
        drawn = np.searchsorted(self._sums, self._rng.random(count))
        return [self.words[min(at, VOCABULARY - 1)] for at in drawn.tolist()]

    def document(self) -> str:
        count = self._sections
        drawn = self.draw(count * (TOKENS - 1))
        sections = (drawn[at::count] for at in range(count))
        return "\n\n".join(f"## section\n\n{' '.join(section)}" for section in sections)

    def documents(self, count: int) -> Iterator[tuple[str, str]]:
        for at in range(count):
            yield f"doc{at:07}.md", self.document()

    def queries(self, count: int) -> list[str]:
        """Queries of eight different words each."""
        return [" ".join(list(dict.fromkeys(self.draw(64)))[:QUERY_WORDS]) for _ in range(count)]


def real_documents(path: Path) -> Iterator[tuple[str, str]]:
    """Names and contents under ``path``, a folder or a zip, in the order of their names."""
    for name, text in _files(path, (*_TEXT_ENDINGS, "corpus.jsonl")):
        if name.endswith(".jsonl"):
            for line in text.splitlines():
                row = json.loads(line)
                title = row.get("title", "")
                yield f"{row['_id']}.txt", f"{title}\n\n{row['text']}" if title else row["text"]
        elif text.strip():
            yield name, text


def real_queries(path: Path, contents: Sequence[str]) -> list[str]:
    """The collection's own queries, else runs of eight words out of the text."""
    rng = np.random.default_rng(4)
    lines = [
        json.loads(line)["text"]
        for _, text in _files(path, ("queries.jsonl",))
        for line in text.splitlines()
    ]
    if lines:
        return [lines[at] for at in rng.permutation(len(lines))[:QUERIES].tolist()]
    found = []
    for at in rng.integers(0, len(contents), QUERIES).tolist():
        spoken = re.findall(r"[^\W\d_]+", contents[at])
        start = int(rng.integers(0, max(1, len(spoken) - QUERY_WORDS)))
        found.append(" ".join(spoken[start : start + QUERY_WORDS]))
    return [query for query in found if query]


def queries_of(counts: Counter[str], chunks: int) -> dict[str, list[str]]:
    """Queries of eight words that most chunks have, and of words that one in a thousand has.

    ``counts`` says how many of ``chunks`` have each word. Words without an index term are no part
    of a query: an English analyzer leaves out "which".
    """
    english, rng = get_analyzer("english"), np.random.default_rng(6)
    ranked = (word for word, _ in counts.most_common() if len(word) > 3 and english.analyze(word))
    most = list(islice(ranked, FREQUENT))
    few = sorted(word for word, count in counts.items() if 2 <= count <= max(2, chunks // 1000))
    kinds = {"frequent": most, "rare": few or most}
    return {
        kind: [" ".join(rng.permutation(found)[:QUERY_WORDS].tolist()) for _ in range(QUERIES // 3)]
        for kind, found in kinds.items()
    }


def _files(path: Path, endings: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.name.endswith(endings) and file.is_file():
                yield file.relative_to(path).as_posix(), file.read_text("utf-8", "replace")
        return
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(endings):
                yield name, archive.read(name).decode("utf-8", "replace")


def cut(name: str, content: str) -> list[tuple[int, int, str, int]]:
    """Start, end, label and embed key of each chunk, as Triptych cuts the document."""
    specs = default_chunkers().for_document(name, {}).chunk(content)
    title = embedded_title(name, {}, (spec.heading_path for spec in specs))
    return [
        (
            spec.start,
            spec.end,
            label_of(name, "", spec.heading_path),
            key_of(embedding_text(title, spec.heading_path, content[spec.start : spec.end])),
        )
        for spec in specs
    ]


def _row(name: str, content: str) -> dict[str, Any]:
    return {"name": name, "content": content, "chunks": cut(name, content)}


def _letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04}")


def prepare(
    folder: Path, *, chunks: int, text: Path | None, per_document: int = SECTIONS
) -> dict[str, Any]:
    """Write a corpus of about ``chunks`` chunks to ``folder``; its description.

    Generated text has exactly as many (rounded to whole documents of ``per_document`` chunks),
    real text at most as many.
    """
    zipf = ZipfText(sections=per_document)
    generated = zipf.documents(max(1, chunks // per_document))
    documents = generated if text is None else real_documents(text)
    count = names = 0
    offsets: list[int] = []
    contents: list[str] = []
    counts: Counter[str] = Counter()
    counted = 0
    with (folder / "corpus.jsonl").open("wb") as out:
        for name, content in documents:
            row = _row(name, content)
            if not row["chunks"]:
                continue
            if count >= chunks or (text is not None and count + len(row["chunks"]) > chunks):
                break
            offsets.append(out.tell())
            out.write(json.dumps(row).encode() + b"\n")
            count, names = count + len(row["chunks"]), names + 1
            if counted < COUNTED:
                counted = count
                for start, end, *_ in row["chunks"]:
                    counts.update(set(re.findall(r"[^\W\d_]+", content[start:end].lower())))
            if text is not None:
                contents.append(content)
    if not count:
        raise SystemExit(f"no text found at {text}")
    queries = zipf.queries(QUERIES) if text is None else real_queries(text, contents)
    _write_edits(folder, offsets)
    about = {
        "text": "generated" if text is None else "real",
        "name": _generated_name(per_document) if text is None else re.sub(r"\W+", "-", text.stem),
        "chunks": count,
        "documents": names,
        "dimension": DIMENSION,
        "queries": len(queries),
        "filters": list(FILTERS),
    }
    texts = {"mixed": queries, **queries_of(counts, counted)}
    (folder / "about.json").write_text(json.dumps({**about, "query texts": texts}))
    return about


def _generated_name(per_document: int) -> str:
    return "generated" if per_document == SECTIONS else f"generated-{per_document}-a-document"


def _write_edits(folder: Path, offsets: list[int]) -> None:
    """Choose the documents that will be replaced, half of all at most; write their new states."""
    edits = []
    count = min(REPLACED, max(1, len(offsets) // 2))
    with (folder / "corpus.jsonl").open("rb") as lines:
        chosen = np.random.default_rng(5).permutation(len(offsets))[:count].tolist()
        for turn, at in enumerate(chosen):
            lines.seek(offsets[at])
            row = json.loads(lines.readline())
            end = row["chunks"][len(row["chunks"]) // 2][1]
            needle = f"needle{_letters(turn)}"
            content = f"{row['content'][:end]} {needle}{row['content'][end:]}"
            edits.append({**_row(row["name"], content), "needle": needle})
    (folder / "edits.json").write_text(json.dumps(edits))


class Feed:
    """Streams a prepared corpus, and counts the seconds that takes, which no system pays for."""

    def __init__(self, folder: Path, given: Given, *, chunks: int | None = None) -> None:
        self.folder = folder
        self.given = given
        self.seconds = 0.0
        self.chunks = 0
        self._limit = chunks
        about = json.loads((folder / "about.json").read_text())
        self.size: int = about["chunks"]
        self.asked: dict[str, list[tuple[str, Vectors]]] = {}
        """Queries of mixed, frequent and rare words, each with its vector."""
        for kind, texts in about["query texts"].items():
            rows = given.rows([key_of(text) for text in texts])
            given.remember(texts, rows)
            self.asked[kind] = list(zip(texts, rows, strict=True))
        edits = json.loads((folder / "edits.json").read_text())
        self.edits = [self._edit(row) for row in edits]

    def documents(self) -> Iterator[Document]:
        """The documents in their order, until the limit of chunks is reached."""
        began = time.perf_counter()
        with (self.folder / "corpus.jsonl").open("rb") as lines:
            while rows := [json.loads(line) for line in islice(lines, 100)]:
                for row in rows:
                    if self._limit is not None and self.chunks >= self._limit:
                        return
                    document = self._document(row)
                    self.chunks += len(document.chunks)
                    self.seconds += time.perf_counter() - began
                    yield document
                    began = time.perf_counter()

    def _edit(self, row: dict[str, Any]) -> Edit:
        document = self._document(row)
        chunk = next(chunk for chunk in document.chunks if row["needle"] in chunk.text)
        self.given.remember([row["needle"]], [chunk.vector])
        return Edit(document=document, needle=row["needle"], chunk=chunk)

    def _document(self, row: dict[str, Any]) -> Document:
        name, content = row["name"], row["content"]
        texts = [content[start:end] for start, end, *_ in row["chunks"]]
        vectors = self.given.rows([key_of(text) for text in texts])
        return Document(
            name=name,
            content=content,
            chunks=tuple(
                Chunk(id=f"{name}#{at}", text=text, vector=vector, embed_key=embed_key)
                for at, (text, vector, (*_, embed_key)) in enumerate(
                    zip(texts, vectors, row["chunks"], strict=True)
                )
            ),
        )
