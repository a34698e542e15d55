"""Files of an index that are whole by their checksums, and hold what nobody wrote."""

from __future__ import annotations

import json
import shutil
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.index_model import MemoryChangeLog, WordAnalyzer
from triptych.records import SparseVector
from triptych_backends.index import (
    LocalIndex,
    OwnedBy,
    Under,
    check_index,
    compact,
    examine_index,
    kernels,
    quantization,
)
from triptych_backends.index.folder import read_arrays, write_arrays
from triptych_backends.index.selection import both, without

WIDTH = 70


@pytest.fixture(autouse=True)
def small_stores_have_what_large_ones_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several segments, and signs beside the vectors."""
    monkeypatch.setattr(compact, "ONE_SEGMENT", 0)
    for name, value in {"WORTH_SIGNS": 40, "NEAREST": 10, "MOST": 1.0, "FEWEST": 40}.items():
        monkeypatch.setattr(quantization, name, value)
    monkeypatch.setattr("triptych_backends.index.segment_checks.FEWEST", 40)


def change(feed: MemoryChangeLog, owner: int, generator: np.random.Generator) -> None:
    texts = [" ".join(generator.choice(list("abcdefgh"), 6)) for _ in range(3)]
    rows = generator.normal(size=(3, WIDTH)).astype(np.float32)
    feed.put(
        "x",
        owner,
        f"dök {owner}",
        texts,
        vectors=list(rows / np.linalg.norm(rows, axis=1, keepdims=True)),
        headings=[("One",), ("Two", "thrée"), ()],
        labels=["title", f"own{owner}word", f"own{owner}words"],
        sparse=[SparseVector.of(generator.permutation(9)[:4], generator.random(4) + 0.1)] * 3,
    )
    feed.put("x", 1_000 + owner, f"dök {owner}", [" ".join(texts)], field="document")


@pytest.fixture
def feed() -> MemoryChangeLog:
    feed, generator = MemoryChangeLog(), np.random.default_rng(5)
    feed.set_profile("x", space="v", sparse="s")
    for owner in range(1, 41):
        change(feed, owner, generator)
    return feed


def opened(feed: MemoryChangeLog, folder: Path | None) -> LocalIndex:
    return LocalIndex(feed, folder, analyzers=WordAnalyzer)


@pytest.fixture
def published(tmp_path: Path, feed: MemoryChangeLog) -> Path:
    """An index with dead units, of a truth that goes on."""
    folder = tmp_path / "sound"
    with opened(feed, folder) as index:
        index.publish("x")
        for owner in (3, 17):
            change(feed, owner, np.random.default_rng(owner))
        index.publish("x", "little")
    assert len(list(folder.rglob("*.arrays"))) == 1
    return folder


def answers(index: LocalIndex) -> dict[str, Any]:
    """What searches of each lane find, with filters and without."""
    owned = OwnedBy({"x": np.arange(1, 30, dtype=np.int64)})
    near, terms = np.ones(WIDTH, np.float32), SparseVector.of([1, 2, 7], [1.0, 0.5, 2.0])
    found: dict[str, Any] = {"statistics": index.corpus_stats(["x"], "chunk", ["a", "own3word"])}
    for name, selection in {
        "all": None,
        "owned": owned,
        "under": Under(("one", "thrée")),
        "neither": both(owned, without(Under(("two",)))),
    }.items():
        some = {"limit": 7, "selection": selection}
        ranking = index.bm25(["x"], "chunk", "a b own3word title", **some)
        counts = ranking.matches().counts.tobytes()
        found |= {
            f"words {name}": (ranking.rows, counts),
            f"documents {name}": index.bm25(["x"], "document", "c", limit=7).rows,
            f"near {name}": index.vector(["x"], "chunk", near, space="v", **some),
            f"document near {name}": index.document_vector(["x"], near, space="v", **some),
            f"sparse {name}": index.sparse(["x"], terms, space="s", **some),
            f"document sparse {name}": index.document_sparse(["x"], terms, space="s", **some),
        }
    return found


def drawn(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The array with one thing in it changed, or in another form."""
    how = random.integers(9)
    if how == 0 or not array.size:
        kinds = ["<i4", "<i8", "|u1", "<u8", ">i4", "<f4", "<f8", "|i1", "<u2"]
        return array.astype(str(random.choice(kinds)))
    if how == 1:
        return array[: random.integers(len(array))]
    if how == 2:
        return np.concatenate([array, array[-1:]])
    if how == 3:
        return array[None]
    array = array.copy()
    flat = array.reshape(-1)
    at, other = random.integers(flat.size, size=2)
    if how == 4:
        flat[[at, other]] = flat[[other, at]]
    elif how == 5:
        flat.view(np.uint8)[random.integers(flat.nbytes)] ^= 1 << random.integers(8)
    elif how == 6:
        flat[at] = flat[other]
    elif array.dtype.kind == "f":
        flat[at] = random.choice([np.nan, np.inf, -np.inf, 0, -1, 3e38])
    else:
        edge = np.iinfo(array.dtype)
        near = [int(flat[at]) + step for step in (-1, 1)]
        value = random.choice(np.array([edge.min, edge.max, 0, flat.size, -1, *near], object))
        flat[at] = min(max(value, edge.min), edge.max)
    return array


def spoil(folder: Path, random: np.random.Generator) -> str:
    """Change one thing in one file of an index, with a checksum that is right; what was changed."""
    # Their names are random, and a seed is to say the same in every run.
    paths = [path for path in folder.rglob("*") if path.suffix in (".segment", ".arrays")]
    paths.sort(key=lambda path: (path.name.partition("-")[0], path.stat().st_size))
    if random.integers(8) == 0:
        (manifest,) = folder.rglob("manifest")
        body = json.loads(manifest.read_bytes().partition(b"\n")[2])
        name = random.choice(sorted(body.keys() - {"version", "dataset"}))
        file = next(path.name for path in paths)
        values = [
            None,
            -1,
            10**40,
            [],
            {},
            "é",
            file,
            [file],
            {"chunk": [file, file]},
            "../" + file,
        ]
        body[name] = values[random.integers(len(values))]
        data = json.dumps(body).encode()
        manifest.write_bytes(b"%08x\n%s" % (zlib.crc32(data), data))
        return f"manifest: {name} {body[name]}"
    path = paths[random.integers(len(paths))]
    arrays = dict(read_arrays(path))
    name = list(arrays)[random.integers(len(arrays))]
    before = arrays[name]
    if random.integers(20):
        arrays[name] = drawn(before, random)
    else:
        del arrays[name]
    path.unlink()
    write_arrays(path, arrays)
    return f"{path.name}: {name} {before.dtype}{before.shape}"


def in_numpy(index: LocalIndex) -> dict[str, Any]:
    compiled, kernels.compiled = kernels.compiled, None
    try:
        return answers(index)
    finally:
        kernels.compiled = compiled


def attack(folder: Path, feed: MemoryChangeLog, sound: dict[str, Any], seed: int) -> str:
    """What became of one changed index: damaged, told by the doctor, or harmless."""
    what = f"seed {seed}, {spoil(folder, np.random.default_rng(seed))}"
    try:
        with opened(feed, folder) as index:
            status = check_index(index, "x", writes=True).detail
            findings = {finding.check for finding in examine_index(index, "x")}
        with opened(feed, shutil.copytree(folder, folder.with_name("twin"))) as index:
            twin = in_numpy(index)
        with opened(feed, folder) as index:
            found = answers(index)
        assert found == twin, f"{what}: NumPy finds others"
        is_damaged = "is damaged" in status
        assert found == sound or (findings and not is_damaged), f"{what}: others are found"
        # What is merged with it is sound, or found again.
        change(other := feed.copy(), 9, np.random.default_rng(1))
        with opened(other, folder) as index:
            index.publish("x", "all")
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    if is_damaged:
        assert findings == {"index.damaged"}, what
        return "damaged"
    return "told" if findings else "harmless"


def run(published: Path, feed: MemoryChangeLog, seeds: Iterable[int]) -> Counter[str]:
    with opened(feed, None) as index:
        sound = answers(index)
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        folder = published.with_name("spoilt")
        for each in (folder, folder.with_name("twin")):
            shutil.rmtree(each, ignore_errors=True)
        shutil.copytree(published, folder)
        outcomes[attack(folder, feed, sound, seed)] += 1
    return outcomes


def test_what_nobody_wrote_is_named_and_made_again_or_told(published, feed) -> None:
    outcomes = run(published, feed, range(60))
    assert outcomes["damaged"], outcomes
    assert outcomes["told"], outcomes  # a few of sixty, as the names of files fall


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_thousand_files_that_nobody_wrote(published, feed) -> None:
    print(run(published, feed, range(1_000, 2_000)))
