"""Sets of questions in another language than the texts: messages and their translations."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator

from build_collections import Packages
from findable.sets import SEED, Asked, QuestionSet

MOST = 120
_ENTRY = re.compile(r'^msgid ((?:".*"\n)+)msgstr ((?:".*"\n?)+)', re.MULTILINE)
_BLANK = re.compile(r"%(?:\(\w+\))?[sd]|\{\w*\}|</?\w+[^>]*>")


def _messages(text: str) -> Iterator[tuple[str, str]]:
    for match in _ENTRY.finditer(text):
        pair = ("".join(map(ast.literal_eval, each.splitlines())) for each in match.groups())
        english, other = (" ".join(_BLANK.sub(" ", each).split()) for each in pair)
        if len(english.split()) >= 5 and other and other != english:
            yield english, other


def languages(packages: Packages, locale: str, embedder: str) -> QuestionSet:
    """A message in German or Chinese asks for the English one, of all that Django has."""
    pairs: dict[str, str] = {}
    for _, text in packages.files("django", rf"/django/.*/locale/{locale}/LC_MESSAGES/django\.po$"):
        pairs |= dict(_messages(text))
    texts = {f"message-{at:03}.txt": each for at, each in enumerate(sorted(pairs))}
    names = random.Random(SEED).sample(sorted(texts), min(MOST, len(texts)))
    suffix = "" if embedder == "local" else " multilingual"
    return QuestionSet(
        name=f"languages {locale[:2]}-en{suffix}",
        metric="mrr",
        texts=texts,
        asked=[Asked(text=pairs[texts[name]], answers={name: ()}) for name in names],
        embedder=embedder,
    )
