"""Extractive layers of a dataset from the abstracts of its documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import regex

from triptych.layers.code_syntax import syntax_of
from triptych.layers.inline import clip
from triptych.layers.passages import centrality, shape
from triptych.records import DocumentSummary
from triptych.text.tokens import estimate_tokens

# What people name the document that introduces the others.
_INTRODUCTION: Final = regex.compile(
    r"(?<![^\W_\d])(?:readme|index|introduction|intro|overview|home)(?![^\W_])",
    regex.V1 | regex.IGNORECASE,
)
_INTRODUCTION_BONUS: Final = 0.75
# What stands beside documents and describes none of them.
_FORMALITY: Final = regex.compile(
    r"(?:licen[cs]e|copying|notice|authors|changelog|changes|history|code_of_conduct|security"
    r"|contributing|requirements)(?:[-.]|$)",
    regex.V1 | regex.IGNORECASE,
)
_PROSE_FOLDER: Final = regex.compile(
    r"(?:docs?|documentation|guides?|manual|handbook|book|wiki|notes|content)/$",
    regex.V1 | regex.IGNORECASE,
)
_CODE_FOLDER: Final = regex.compile(
    r"(?:src|source|lib|cmd|pkg|internal|include|tests?|bench(?:marks)?|examples?|scripts|tools)/$",
    regex.V1 | regex.IGNORECASE,
)
_LISTED_CODE: Final = regex.compile(r"(?:Class(?:es)?|Types?|Functions?) \w[\w.]*(?:,| and |;|\.$)")
_FOLDER: Final = -1
"""A folder that may hold anything, until it is known what stands beside it."""
_MAX_NAME_TOKENS: Final = 60


@attrs.frozen(kw_only=True, slots=True)
class _Entry:
    """A document's line in the running: where it belongs and how well it stands for all."""

    summary: DocumentSummary
    folder: str
    tier: int
    worth: float
    terms: frozenset[str]


def dataset_overview(
    summaries: Sequence[DocumentSummary], *, max_tokens: int, analyze: Callable[[str], list[str]]
) -> str:
    """Lines ``- name: abstract`` of at most ``max_tokens``, under a heading for each folder.

    When not all fit, each folder in turn gives its best, the largest folder first, and its
    heading says how many documents it has.
    """
    folders: dict[str, list[_Entry]] = {}
    for entry in _entries(summaries, analyze):
        folders.setdefault(entry.folder, []).append(entry)
    for entries in folders.values():
        entries.sort(key=lambda entry: (entry.tier, -entry.worth, entry.summary.name))
    order = sorted(folders, key=lambda folder: (folder != "", -len(folders[folder]), folder))
    with_headings = len(order) > 1
    left = max_tokens
    shown: dict[str, list[_Entry]] = {}
    full: set[str] = set()
    for place in range(max(map(len, folders.values()), default=0)):
        for folder in order:
            if place >= len(folders[folder]) or folder in full:
                continue
            entry = folders[folder][place]
            cost = estimate_tokens(_line(entry.summary) + "\n")
            if with_headings and folder not in shown:
                cost += estimate_tokens(_heading(folder, len(folders[folder])) + "\n\n")
            if cost > left:
                # What is after stands for less: no shorter line of the folder overtakes it.
                full.add(folder)
                continue
            left -= cost
            shown.setdefault(folder, []).append(entry)
    parts = []
    for folder in sorted(shown):
        lines = [_heading(folder, len(folders[folder]))] if with_headings else []
        chosen = sorted(shown[folder], key=lambda entry: entry.summary.name)
        parts.append("\n".join(lines + [_line(entry.summary) for entry in chosen]))
    return "\n\n".join(parts)


def dataset_abstract(
    summaries: Sequence[DocumentSummary], *, max_tokens: int, analyze: Callable[[str], list[str]]
) -> str:
    """The abstract that stands best for all, at most ``max_tokens``.

    That is the one nearest to the centroid of all, with a bonus for a document that by its
    name and place introduces the others. Prose is preferred to source code, and both to a
    licence or a list of changes.
    """
    entries = [entry for entry in _entries(summaries, analyze) if entry.summary.abstract.strip()]
    if not entries:
        return ""
    best = min(entries, key=lambda entry: (entry.tier, -entry.worth, entry.summary.name))
    return clip(" ".join(best.summary.abstract.split()), max_tokens)


def _entries(
    summaries: Sequence[DocumentSummary], analyze: Callable[[str], list[str]]
) -> list[_Entry]:
    ordered = sorted(summaries, key=lambda summary: (summary.name, summary.abstract))
    names = [summary.name for summary in ordered]
    shared = _shared_folder(names)
    ranked = centrality([(summary.abstract, analyze(summary.abstract)) for summary in ordered])
    entries = []
    for summary, rank, tier in zip(ordered, ranked, _tiers(ordered), strict=True):
        path = summary.name[len(shared) :].split("/")
        worth = rank.centrality
        if _INTRODUCTION.search(path[-1]):
            worth += _INTRODUCTION_BONUS / len(path)
        entries.append(
            _Entry(
                summary=summary,
                folder=f"{shared}{path[0]}/" if len(path) > 1 else "",
                tier=tier,
                worth=worth * shape(summary.abstract, rank.terms),
                terms=rank.terms,
            )
        )
    return entries


def _tiers(summaries: Sequence[DocumentSummary]) -> list[int]:
    """For each what it is worth as an introduction, 0 the most: prose, then code, then formalities.

    Nothing says what a folder holds but its name, and an abstract that lists definitions. Beside
    code, one that says nothing of the kind stands after what is surely prose.
    """
    tiers = []
    for summary in summaries:
        name = summary.name.rpartition("/")[2] or summary.name.rpartition("/")[0] + "/"
        is_code = syntax_of(name) or _LISTED_CODE.match(summary.abstract)
        if name.endswith("/"):
            folder = name.rstrip("/").rpartition("/")[2] + "/"
            tiers.append(2 if is_code or _CODE_FOLDER.match(folder) else _FOLDER)
            if tiers[-1] == _FOLDER and _PROSE_FOLDER.match(folder):
                tiers[-1] = 0
        else:
            tiers.append(2 if is_code else 3 if _FORMALITY.match(name) else 0)
    beside_code = 2 in tiers
    return [(1 if beside_code else 0) if tier == _FOLDER else tier for tier in tiers]


def _shared_folder(names: Sequence[str]) -> str:
    """The longest run of folders, "/" included, that all sorted ``names`` begin with."""
    if not names:
        return ""
    first, last = names[0], names[-1]
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[: first.rfind("/", 0, length) + 1]


def _heading(folder: str, documents: int) -> str:
    name = clip(folder, _MAX_NAME_TOKENS) if folder else "Documents"
    return f"## {name} ({documents})"


def _line(summary: DocumentSummary) -> str:
    abstract = " ".join(summary.abstract.split())
    return f"- {summary.name}: {abstract}" if abstract else f"- {summary.name}"
