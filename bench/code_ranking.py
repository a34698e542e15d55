"""Is code found? nDCG@10 of semble's questions, with and without the ranking of code.

    python bench/code_ranking.py --data DIR
    python bench/code_ranking.py --data DIR --embedder local --half chosen
    python bench/code_ranking.py --data DIR --chunk-size 1000

``DIR/annotations/NAME.json`` are the questions of https://github.com/MinishLab/semble
(benchmarks/annotations), and ``DIR/repos/NAME`` is the repository at the commit below, or its
folder alone. Without them it says so, and skips. Prints the mean of each repository and of all
questions, without and with the ranking, and the difference with its interval (95%, bootstrap over
questions).

A question's score is semble's: the rank of the first chunk of each file (or span of lines) that
answers, among ten chunks. What is not in the repository is never found.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

import triptych
from findable.vectors import VectorCache
from triptych import NewDocument
from triptych.records import Hit
from triptych_evaluation import bootstrap
from triptych_parsers.code import CodeParser

K = 10
DATASET = "d"
MODES = ("bm25", "vector", "hybrid")


@attrs.frozen
class Repository:
    """A repository: where it is, its commit, and the folder that is searched ("" for all)."""

    url: str
    commit: str
    folder: str = ""


CHOSEN: Mapping[str, Repository] = {
    "gin": Repository("gin-gonic/gin", "d3ffc9985281dcf4d3bef604cce4e662b1a327a6"),
    "cobra": Repository("spf13/cobra", "61968e893eee2f27696c2fbc8e34fa5c4afaf7c4"),
    "chi": Repository("go-chi/chi", "a54874f0e2f12647a19e82ee70dfa8185014100c"),
    "rack": Repository("rack/rack", "ca8a404704ed043797c4f9d482c97d722c0dc719", "lib/rack"),
    "axum": Repository("tokio-rs/axum", "309d1bd9530eec2217134cb262760af1df42ee3b", "axum/src"),
    "express": Repository("expressjs/express", "8e022edc9185f540a3fcecaf5e56b850d919cdac", "lib"),
    "gson": Repository("google/gson", "f4d371d29c04066dbe7fdb31f642831f9c7f40cd", "gson"),
    "fastapi": Repository("fastapi/fastapi", "c3c9dd6b1a08bcda766e7b43eafe72c4c5e9e193", "fastapi"),
}
"""The half that the rules and their constants were chosen on."""

HELD_OUT: Mapping[str, Repository] = {
    "sinatra": Repository("sinatra/sinatra", "f891dd2b6f4911e356600efe6c3b82af97d262c6", "lib"),
    "serde": Repository("serde-rs/serde", "fa7da4a93567ed347ad0735c28e439fca688ef26"),
    "fmtlib": Repository("fmtlib/fmt", "382609a920d2c43c00f2951233bc0d578a783982", "include/fmt"),
    "model2vec": Repository(
        "MinishLab/model2vec", "b3012ee04e41c634383a5d735cb3c7c51e806a18", "model2vec"
    ),
    "ecto": Repository("elixir-ecto/ecto", "cf3a5b7219a552c24aae24bf5eef7354c1184b8a", "lib/ecto"),
    "alamofire": Repository(
        "Alamofire/Alamofire", "e938f8c66708e7352fc7e3512647fa54255b267a", "Source"
    ),
    "trpc": Repository(
        "trpc/trpc", "c188dab0822caf3615199e4ac95147bc7560d26f", "packages/server/src"
    ),
    "kotlinx-coroutines": Repository(
        "Kotlin/kotlinx.coroutines",
        "643c1aa554139a82f60724a59e79b801f303fdfe",
        "kotlinx-coroutines-core/common/src",
    ),
}
"""The half that nothing was chosen on."""

HALVES = {"chosen": CHOSEN, "held-out": HELD_OUT}


def sources(root: Path, repository: Repository) -> Iterator[NewDocument]:
    """The source code of a repository, under its paths from the repository's root."""
    parser = CodeParser()
    for path in sorted((root / repository.folder).rglob("*")):
        if path.is_file() and path.suffix.lower() in parser.endings - {".toml"}:
            name = path.relative_to(root).as_posix()
            parsed = parser.parse(name, path.read_bytes())
            if parsed is not None:
                yield NewDocument(
                    name=name,
                    content=parsed.content,
                    metadata=parsed.metadata,
                    outline=parsed.outline,
                )


def answers(hit: Hit, target: Any) -> bool:
    """Whether a chunk is of a file, or has a line of its span."""
    path = target if isinstance(target, str) else target["path"]
    if hit.doc_name != path and not f"/{path}".endswith(f"/{hit.doc_name}"):
        return False
    if isinstance(target, str) or "start_line" not in target:
        return True
    return bool(hit.start_line <= target["end_line"] and hit.end_line >= target["start_line"])


def gain(targets: Sequence[Any], hits: Sequence[Hit]) -> float:
    """nDCG@10 of the first chunk of each target."""
    firsts = {
        next((at for at, hit in enumerate(hits[:K]) if answers(hit, each)), K) for each in targets
    }
    best = sum(1 / math.log2(at + 2) for at in range(min(K, len(targets))))
    return sum(1 / math.log2(at + 2) for at in firsts if at < K) / best


def measured(
    data: Path, name: str, repository: Repository, options: Mapping[str, Any], modes: Sequence[str]
) -> Mapping[str, tuple[list[float], list[float]]]:
    """The score of each question in each mode, without and with the ranking."""
    asked = json.loads((data / "annotations" / f"{name}.json").read_text(encoding="utf-8"))
    documents = list(sources(data / "repos" / name, repository))
    found: dict[str, tuple[list[float], list[float]]] = {mode: ([], []) for mode in modes}
    for at, ranked in enumerate((False, True)):
        with triptych.open("memory://", code_ranking=ranked, llm=None, **options) as kb:
            kb.put_documents(DATASET, documents)
            for mode, each in ((mode, each) for mode in modes for each in asked):
                hits = kb.search(each["query"], dataset_id=DATASET, mode=mode, top_k=K).hits
                found[mode][at].append(gain([*each["relevant"], *each["secondary"]], hits))
    return found


def line(name: str, before: Sequence[float], after: Sequence[float]) -> str:
    """A row: questions, both means, and the difference with its interval."""
    changes = [new - old for old, new in zip(before, after, strict=True)]
    values = {"before": list(before), "after": list(after), "change": changes}
    told = bootstrap(values)
    change = told["change"]
    return (
        f"{name:20} {len(before):4}  {told['before'].mean:.3f}  {told['after'].mean:.3f}"
        f" [{told['after'].low:.3f}, {told['after'].high:.3f}]"
        f"  {change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"
    )


def main() -> None:
    """Measure a half, or say what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--half", choices=list(HALVES), default="held-out")
    parser.add_argument("--embedder", help="else keyword search alone")
    parser.add_argument("--chunk-size", type=int)
    parser.add_argument("--only", nargs="*", help="names of repositories")
    given = parser.parse_args()
    cache = None
    options: dict[str, Any] = {"embedder": None}
    if given.embedder:
        cache = VectorCache(given.data / "vectors.db")
        options["embedder"] = cache.embedder(given.embedder)
    if given.chunk_size:
        options |= {"chunk_size": given.chunk_size, "chunk_overlap": 0}
    modes = MODES if given.embedder else MODES[:1]
    found: dict[str, Mapping[str, tuple[list[float], list[float]]]] = {}
    for name, repository in HALVES[given.half].items():
        if given.only and name not in given.only:
            continue
        questions = given.data / "annotations" / f"{name}.json"
        if not questions.is_file() or not (given.data / "repos" / name).is_dir():
            place = f"https://github.com/{repository.url} at {repository.commit[:12]}"
            print(f"{name} is skipped: put {place} and its questions into {given.data}")
            continue
        found[name] = measured(given.data, name, repository, options, modes)
        print(f"{name} is measured", file=sys.stderr, flush=True)
    if not found:
        print("nothing is measured")
    for mode in modes if found else ():
        print(f"{mode:20}    n  before after")
        for name, each in found.items():
            print(line(name, *each[mode]))
        sides = zip(*(each[mode] for each in found.values()), strict=True)
        before, after = ([value for row in side for value in row] for side in sides)
        print(line("all", before, after), flush=True)
    if cache is not None:
        cache.close()


if __name__ == "__main__":
    main()
