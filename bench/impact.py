"""Does `triptych impact` find the sentences that somebody later had to repair?

    python bench/impact.py recall CHECKOUT... [--show]
    python bench/impact.py alarms CHECKOUT... [--months 24] [--least SCORE] [--show]

``CHECKOUT`` is a Git checkout with its history, or a bare repository. A step is a commit of the
first-parent line, against the one before it.

recall: a case is a pair of steps. The later one fixes documentation: its message says so, or it
changes only documents. It replaces a line of a document by a similar one (six of ten tokens),
without some token. The earlier step, after the line was written, either removed the last use of
that token from the code, or replaced it there by the same token as the fix did, in a similar line.
A word or number counts only where the line of the code has another word of the sentence. Comments,
tests, examples, changelogs and steps of more than 100 files are left out. A case is found if one of
its lines is among the first ten findings of ``impact`` for the earlier step; and, for lines, each.

alarms: all findings of the default score in the last months before the newest commit. One is
confirmed if a later step replaced its line by a similar one without the thing. One whose line
stands to this day, or that was dropped with its surroundings, counts as false.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from triptych_impact import LEAST, Finding, GitReader, Impact, impact

_DOCUMENT = re.compile(
    r"^(?!.*require)(?:.*\.(?:md|rst|txt|markdown|adoc)|(?:.*/)?(?:README|CHANGES|HISTORY)[^/]*)$",
    re.IGNORECASE,
)
_PAST = re.compile(r"change|history|release|news|migrat|upgrad|authors|whats", re.IGNORECASE)
_FIX = re.compile(r"\bdocs?\b|\bdocumentation\b|readme|📝|typo|\bdocstring", re.IGNORECASE)
_APART = re.compile(
    r"(?:^|/)(?:tests?|examples?|docs?|docs_src|demos?|samples?)(?:/|[._])"
    r"|\.(?:lock|svg|json|min\.js|po|ipynb)$"
)
_TOKEN = re.compile(
    r"https?://[^\s<>)\"'`]+|--[A-Za-z][\w-]+|[A-Za-z_]\w+|\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?|[^\w\s]"
)
_CODE = re.compile(
    r"(?:^|/)(?:[^/.]+|[^/]*\.(?:py|pyi|pyx|js|ts|toml|cfg|ini|ya?ml|in|sh|conf|c|h|txt))$"
)
_COMMENT = re.compile(r"(?:^|\s)(?:#|//|\.\. ).*")
_WORD = re.compile(r"[^\W\d_]{4,}")
_SHAPED = re.compile(
    r"\d+(?:\.\d+)+(?:(?:a|b|rc)\d+)?|\d{2,}|--.*|https?:.*|\w+_\w*|_\w+"
    r"|\w*[a-z][A-Z]\w*|[A-Za-z]+\d+\w*"
)
_MOST_FILES = 100
_FIRST = 10


class File(NamedTuple):
    """A file of a step, and its hunks: removed and added lines."""

    old: str
    new: str
    hunks: list[tuple[list[str], list[str]]]


class Step(NamedTuple):
    """A commit of the first-parent line."""

    commit: str
    at: int
    subject: str
    files: list[File]


class Case(NamedTuple):
    """A line that went stale with a step, and was repaired by a later one."""

    token: str
    code: int
    fix: int
    line: str
    repaired: str


def steps_of(checkout: str) -> list[Step]:
    """The whole history, the oldest first."""
    form = "--format=%x01%H%x02%ct%x02%s%x02"
    log = ["log", "--first-parent", "-m", "--reverse", "-p", "-U0", "--no-renames", form]
    plain = ["--no-ext-diff", "--no-textconv", "--no-color"]
    told = subprocess.run(
        ["git", "-C", checkout, *log, *plain], capture_output=True, check=True
    ).stdout.decode(errors="replace")
    found = []
    for block in re.split(r"\x01(?=[0-9a-f]{40}\x02)", told)[1:]:
        commit, at, subject, diff = block.split("\x02", 3)
        found.append(Step(commit, int(at), subject, list(_files(diff))))
    return found


def _files(diff: str) -> Iterator[File]:
    for part in re.split(r"^diff --git ", diff, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@[^\n]*\n", part, flags=re.MULTILINE)
        names = dict(re.findall(r"^(---|\+\+\+) (?:[ab]/)?([^\t\n]+)", head, re.MULTILINE))
        sides = [names.get(each, "").replace("/dev/null", "") for each in ("---", "+++")]
        told = [each.split("\n") for each in hunks]
        yield File(
            sides[0],
            sides[1],
            [
                ([e[1:] for e in each if e[:1] == "-"], [e[1:] for e in each if e[:1] == "+"])
                for each in told
            ],
        )


def _pairs(removed: list[str], added: list[str]) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Lines and the similar ones in their place, with the tokens of both."""
    tokens = [
        (line, its, Counter(its))
        for line in added
        if len(line) < 400
        for its in [_TOKEN.findall(line)]
    ]
    for line in removed:
        mine = _TOKEN.findall(line) if len(line) < 400 else []
        if len(mine) < 3 or not tokens:
            continue
        counted = Counter(mine)
        shares = [
            (SequenceMatcher(None, mine, its, False).ratio(), text)
            for text, its, both in tokens
            if 2 * (counted & both).total() >= 0.6 * (len(mine) + len(its))
        ]
        share, best = max(shares, key=lambda each: each[0], default=(0.0, ""))
        if share >= 0.6:
            yield line, best, mine, _TOKEN.findall(best)


def _swaps(a: list[str], b: list[str]) -> set[tuple[str, str]]:
    return {
        (old, new)
        for tag, i, j, k, m in SequenceMatcher(None, a, b, False).get_opcodes()
        if tag == "replace"
        for old in a[i:j]
        for new in b[k:m]
    }


def _as_code(token: str, line: str) -> bool:
    if _SHAPED.fullmatch(token):
        return True
    one = rf"(?<!\w){re.escape(token)}(?!\w)"
    ticked = (a or b for a, b in re.findall(r"``([^`]+)``(?!`)|(?<!`)`([^`]+)`", line))
    prose = re.compile(r"<http|[a-z] [a-z]+ [a-z]")
    if any(re.search(one, each) and not prose.search(each) for each in ticked):
        return True
    return re.search(rf"{one}[(=]|\.{one}\(", line) is not None


def _words(line: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(line)}


def cases_of(steps: list[Step]) -> list[Case]:
    """The cases of a history."""
    uses: Counter[str] = Counter()
    ended: dict[str, int] = {}
    beside: dict[str, set[str]] = {}
    swapped: dict[str, list[tuple[int, str, set[str]]]] = defaultdict(list)
    born: dict[str, int] = {}
    standing: Counter[str] = Counter()
    found = []
    for now, step in enumerate(steps):
        names = [each.new or each.old for each in step.files]
        if _FIX.search(step.subject) or (names and all(map(_DOCUMENT.search, names))):
            for each in step.files:
                if not (each.old and _DOCUMENT.search(each.new)) or _PAST.search(each.old):
                    continue
                for removed, added in each.hunks:
                    if not added or len(removed) > 8:
                        continue
                    kept = set(_TOKEN.findall("\n".join(added)))
                    for line, best, a, b in _pairs(removed, added):
                        rest = {t for t in set(a) & set(b) if len(t) > 3}
                        for old, new in sorted(_swaps(a, b)):
                            if old in kept or len(old) < 2 or not _as_code(old, line):
                                continue
                            named = _SHAPED.fullmatch(old) is not None
                            tied = named and not old[0].isdigit()
                            tied = tied or bool(
                                _words(line) & beside.get(old, set()) - {old.lower()}
                            )
                            since = born.get(line, now)
                            if not uses[old] and tied and since < ended.get(old, -1) < now:
                                found.append(Case(old, ended[old], now, line, best))
                                continue
                            least = 1 if named else 2
                            by = [
                                at
                                for at, its, both in swapped.get(old, ())
                                if its == new and since < at < now and len(both & rest) >= least
                            ]
                            if by:
                                found.append(Case(old, by[-1], now, line, best))
        for each in step.files:
            name = each.new or each.old
            for removed, added in each.hunks:
                if _DOCUMENT.search(name):
                    for line in removed:
                        standing[line] -= 1
                        if standing[line] <= 0:
                            born.pop(line, None)
                    for line in added:
                        standing[line] += 1
                        born.setdefault(line, now)
                elif _CODE.search(name) and not _APART.search(name) and not _PAST.search(name):
                    removed, added = ([_COMMENT.sub("", e) for e in ls] for ls in (removed, added))
                    gone = Counter(_TOKEN.findall("\n".join(removed)))
                    come = Counter(_TOKEN.findall("\n".join(added)))
                    uses.subtract(gone)
                    uses.update(come)
                    for token in gone.keys() - come.keys():
                        if uses[token] <= 0:
                            ended[token] = now
                            if len(removed) < 500:
                                lines = [e for e in removed if token in e and len(e) < 300]
                                beside[token] = {w for e in lines for w in _words(e)}
                    if removed and added and len(removed) <= 30 and len(added) <= 60:
                        for _, _, a, b in _pairs(removed, added):
                            for old, new in _swaps(a, b):
                                swapped[old].append((now, new, set(a) & set(b)))
    return [each for each in found if len(steps[each.code].files) <= _MOST_FILES]


def _impact(reader: GitReader, step: Step, least: float) -> Impact:
    changed = list(reader.changed(f"{step.commit}^", step.commit))
    return impact(changed, reader.documents(step.commit), top_k=10**6, least=least)


def _lines_of(reader: GitReader, commit: str) -> dict[str, list[str]]:
    return {each.name: each.text.split("\n") for each in reader.documents(commit)}


def _holds(finding: Finding, lines: list[str], line: str) -> bool:
    """Whether a finding is the sentence that a line of the case is in."""
    mine = line.split()
    some = lines[finding.line - 1 : finding.line + 1 + len(finding.sentence) // 50]
    said = set(finding.sentence.split())
    return line in some and sum(word in said for word in mine) >= 0.6 * len(mine)


def recall(checkout: str, show: bool) -> tuple[int, int]:
    """Print how many cases are found, and return that and their number."""
    steps = steps_of(checkout)
    cases: dict[tuple[int, int], list[Case]] = defaultdict(list)
    for each in cases_of(steps):
        cases[each.code, each.fix].append(each)
    hits, lines, found_lines = 0, 0, 0
    with GitReader(Path(checkout), bare=True) as reader:
        for (code, fix), several in cases.items():
            result = _impact(reader, steps[code], 0.0)
            texts = _lines_of(reader, steps[code].commit)
            stale = sorted({each.line for each in several})
            ranks = {
                line: next(
                    (
                        rank
                        for rank, each in enumerate(result.findings, 1)
                        if _holds(each, texts[each.document], line)
                    ),
                    0,
                )
                for line in stale
            }
            first = min(filter(None, ranks.values()), default=0)
            hits += 0 < first <= _FIRST
            lines += len(stale)
            found_lines += sum(0 < rank <= _FIRST for rank in ranks.values())
            if show:
                one = several[0]
                print(f"{first or '-':>4} {steps[code].commit[:10]} {steps[code].subject[:60]}")
                print(f"     {steps[fix].commit[:10]} {steps[fix].subject[:60]}: {one.token}")
                print(f"     - {one.line.strip()[:100]}\n     + {one.repaired.strip()[:100]}")
    print(
        f"{checkout}: {len(steps)} steps, {hits} of {len(cases)} cases in the first {_FIRST}, "
        f"{found_lines} of {lines} lines",
        flush=True,
    )
    return hits, len(cases)


def _fate(steps: list[Step], now: int, name: str, line: str, thing: str) -> str:
    """What later became of a line that holds a thing."""
    for step in steps[now + 1 :]:
        for each in step.files:
            hunk = next((h for h in each.hunks if each.old == name and line in h[0]), None)
            if hunk is None:
                continue
            words = line.split()
            near = [(SequenceMatcher(None, words, e.split(), False).ratio(), e) for e in hunk[1]]
            share, best = max(near, default=(0.0, ""))
            if share >= 0.5 and thing not in best:
                return "confirmed"
            moved = [o.new for o in step.files for h in o.hunks if line in h[1] and o.new]
            if share < 0.5 and not moved:
                return "dropped"
            line, name = (best, each.new or name) if share >= 0.5 else (line, moved[0])
            break
    return "stands"


def alarms(checkout: str, months: int, least: float, show: bool) -> None:
    """Print how many findings there are a week, and what became of them."""
    steps = steps_of(checkout)
    start = max(steps[-1].at - months * 30.44 * 86400, steps[0].at)
    weeks = (steps[-1].at - start) / 604800
    fates: Counter[str] = Counter()
    seen = 0
    with GitReader(Path(checkout), bare=True) as reader:
        for now, step in enumerate(steps):
            if step.at < start or not now:
                continue
            seen += 1
            findings = _impact(reader, step, least).findings
            texts = _lines_of(reader, step.commit) if findings else {}
            for each in findings:
                change = each.change
                thing = (change.old if change.kind == "number" else change.name).split("/")[-1]
                some = texts[each.document][each.line - 1 : each.line + 12]
                line = next((one for one in some if thing in one), some[0])
                fate = _fate(steps, now, each.document, line, thing)
                fates[fate] += 1
                if show:
                    print(f"{fate} {each.score} {step.commit[:10]} {change.kind} {thing}")
                    print(f"    {each.document}:{each.line} {each.sentence[:100]}")
    false = fates["stands"] + fates["dropped"]
    print(
        f"{checkout}: {seen} steps in {weeks:.0f} weeks: {fates.total()} alarms, "
        f"{fates['confirmed']} confirmed, {fates['dropped']} dropped, {fates['stands']} stand; "
        f"{false / weeks:.2f} false a week",
        flush=True,
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["recall", "alarms"])
    parser.add_argument("checkouts", nargs="+")
    parser.add_argument("--months", type=int, default=24)
    parser.add_argument("--least", type=float, default=LEAST)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if options.what == "alarms":
        for each in options.checkouts:
            alarms(each, options.months, options.least, options.show)
        return
    found = [recall(each, options.show) for each in options.checkouts]
    hits, cases = (sum(each) for each in zip(*found, strict=True))
    print(f"all: {hits} of {cases} cases ({hits / max(1, cases):.2f})")


if __name__ == "__main__":
    main()
