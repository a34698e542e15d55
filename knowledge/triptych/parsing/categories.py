"""The category of a document, by the words of its path. Source: go-rag's Category."""

from __future__ import annotations

import re

DEFAULT_CATEGORY = "documentation"

CATEGORIES: dict[str, frozenset[str]] = {
    "ui-component": frozenset(("ui", "component", "components", "widget", "widgets")),
    "brand": frozenset(("brand", "brands", "branding", "logo", "logos", "mascot")),
    "product-brief": frozenset(("brief", "briefs")),
    "help-doc": frozenset(("help", "faq", "faqs", "support", "troubleshooting")),
    "task": frozenset(("task", "tasks", "todo", "todos", "plan", "plans", "roadmap", "backlog")),
    "architecture": frozenset(("architecture", "adr", "adrs", "rfc", "rfcs", "migrations")),
}
"""The words of each category. Where a path has words of several, the first category wins."""

_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W\d_]+")


def category(path: str) -> str:
    """The category of a document at ``path``, "documentation" where no word says otherwise.

    Words are whole ones, in any case. Whatever is no letter separates them, and so does an inner
    capital: "tasks/a.md" and "MyTasks.md" are tasks, "explanation.md" is no plan.
    """
    words = {word.lower() for word in _WORD.findall(_INNER_CAPITAL.sub(" ", path))}
    for name, keywords in CATEGORIES.items():
        if words & keywords:
            return name
    return DEFAULT_CATEGORY
