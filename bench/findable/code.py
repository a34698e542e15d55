"""Sets of questions to code: names and errors as they are pasted, and descriptions."""

from __future__ import annotations

import ast
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import attrs

from build_collections import Packages, plain
from findable.sets import SEED, Asked, QuestionSet

T = TypeVar("T")

NAMES, ERRORS, DESCRIBED = 120, 80, 100
LONGEST = 2_000  # code points of a function that a context must hold as a whole
PASSAGE = 30  # lines; a name is rare if one or two passages hold it, whatever a tree's chunks are
CODE: Mapping[str, tuple[str, str]] = {
    "networkx": (
        r"^networkx/(?!algorithms/|generators/|.*tests/|conftest).*\.py$",
        r"^networkx/algorithms/\w+\.py$",
    ),
    "celery": (
        r"/celery/(app|backends)/.*\.py$|/celery/[a-z]+\.py$",
        r"/celery/(events|utils|bin|contrib|fixups|loaders|security)/.*\.py$",
    ),
    "sqlalchemy": (
        r"/lib/sqlalchemy/(engine|event|pool|exc|util)[/.].*py$",
        r"/lib/sqlalchemy/(ext|sql)/[a-c]\w+(/\w+)?\.py$",
    ),
}
"""For names and errors, and for descriptions: the files of each package."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*:])")
_BLANK = re.compile(r"%(?:\(\w+\))?[-+ #0-9.]*([srdif])|\{([^{}]*)\}")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Files = Sequence[tuple[str, str]]


def code_files(packages: Packages, name: str, described: bool) -> Files:
    """Paths and texts, without the version in the path."""
    files = packages.files(name, CODE[name][described])
    return [(re.sub(r"^[^/]*-\d[^/]*/", "", path), text) for path, text in files if text.strip()]


def identifiers(name: str, files: Files) -> QuestionSet:
    """Names that are defined here and stand in one or two passages; any line with one answers."""
    lines: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for path, text in files:
        for number, line in enumerate(text.splitlines(), 1):
            for word in set(_WORD.findall(line.lower())):
                lines[word].setdefault(path, []).append(number)
    rare = {
        word
        for word, places in lines.items()
        if len({(path, at // PASSAGE) for path, found in places.items() for at in found}) <= 2
    }
    defined = {each for _, text in files for each in _defined(ast.parse(text))}
    usable = sorted(each for each in defined if len(each) >= 6 and each.lower() in rare)
    asked = [Asked(text=each, answers=lines[each.lower()]) for each in _sample(usable, NAMES, name)]
    return QuestionSet(name=f"identifiers {name}", metric="mrr", texts=dict(files), asked=asked)


def _defined(tree: ast.Module) -> Iterator[str]:
    """Functions, classes, and constants of modules and classes."""
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("__"):
            yield node.name
        if isinstance(node, ast.Module | ast.ClassDef):
            for each in node.body:
                targets = each.targets if isinstance(each, ast.Assign) else []
                yield from (t.id for t in targets if isinstance(t, ast.Name) and t.id.isupper())


@attrs.frozen
class Raised:
    """A message with its blanks, the exception's name, and the lines of its `raise`."""

    exception: str
    parts: tuple[str | tuple[str, str], ...]  # text, or a blank: its conversion and expression
    path: str
    lines: tuple[int, ...]

    @property
    def text(self) -> str:
        return "\0".join(part if isinstance(part, str) else "" for part in self.parts)

    @property
    def words(self) -> int:
        return len(re.findall(r"[A-Za-z]{2,}", self.text))


def errors(name: str, files: Files) -> QuestionSet:
    """The last line of a traceback, its blanks filled; the lines of its `raise` answer."""
    found = [each for path, text in files for each in _raised(path, ast.parse(text))]
    often: dict[str, int] = defaultdict(int)
    for each in found:
        often[each.text] += 1
    usable = [each for each in found if often[each.text] == 1 and each.words >= 4]
    chance = random.Random(f"{SEED} {name}")
    asked = [
        Asked(text=_pasted(each, chance), answers={each.path: each.lines})
        for each in _sample(usable, ERRORS, name)
    ]
    return QuestionSet(name=f"errors {name}", metric="mrr", texts=dict(files), asked=asked)


def _raised(path: str, tree: ast.Module) -> Iterator[Raised]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            exception = ast.unparse(node.exc.func).rpartition(".")[2]
            parts = tuple(_parts(node.exc.args[0]))
            if exception[:1].isupper() and parts:
                end = node.end_lineno or node.lineno
                yield Raised(exception, parts, path, tuple(range(node.lineno, end + 1)))


def _parts(value: ast.expr) -> Iterator[str | tuple[str, str]]:
    """Text and blanks of a message, however it is put together; nothing of another expression."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.JoinedStr):
        for part in value.values:
            if isinstance(part, ast.FormattedValue):
                yield ("r" if part.conversion == 114 else "s"), ast.unparse(part.value)
            else:
                yield from _parts(part)
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        yield from (*_parts(value.left), *_parts(value.right))
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod):
        given = value.right.elts if isinstance(value.right, ast.Tuple) else [value.right]
        yield from _filled(value.left, [ast.unparse(each) for each in given])
    elif (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "format"
    ):
        yield from _filled(value.func.value, [ast.unparse(each) for each in value.args])


def _filled(template: ast.expr, given: Sequence[str]) -> Iterator[str | tuple[str, str]]:
    text = "".join(part for part in _parts(template) if isinstance(part, str))
    at = 0
    for number, match in enumerate(_BLANK.finditer(text)):
        yield text[at : match.start()]
        named = (match[2] or match[0]).strip("%()srd") or (
            given[number] if number < len(given) else ""
        )
        yield ("r" if match[1] == "r" or "!r" in (match[2] or "") else match[1] or "s"), named
        at = match.end()
    yield text[at:]


_VALUES: Sequence[tuple[str, Sequence[str]]] = (
    (r"type|class|cls", ("<class 'int'>", "<class 'dict'>", "<class 'myapp.models.Order'>")),
    (r"err|exc|reason", ("timed out", "connection refused", "invalid literal")),
    (r"path|file|url|uri|dir", ("/srv/app/data.json", "redis://localhost:6379/0")),
    (r"list|keys|names|args|kw|columns", ("['id', 'name']", "order_id, customer_id")),
    (r"(^|_)(n|k|m|i|j|num|count|len|size|dim|max|min|line|lineno)\b|len\(", ("3", "12", "-1")),
    (r"", ("order_id", "customer", "invoices", "myapp.tasks.add", "user_email", "eu-1")),
)
"""What stands for an expression, by the first pattern that its text matches."""


def _pasted(raised: Raised, chance: random.Random) -> str:
    words = []
    for part in raised.parts:
        if isinstance(part, str):
            words.append(part)
            continue
        conversion, expression = part
        if conversion in "dif":
            words.append(str(chance.randint(1, 99)))
            continue
        values = next(each for pattern, each in _VALUES if re.search(pattern, expression.lower()))
        value = chance.choice(values)
        words.append(f"'{value}'" if conversion == "r" and value[0] not in "<['-" else value)
    return f"{raised.exception}: {' '.join(''.join(words).split())}"


def described(name: str, files: Files) -> QuestionSet:
    """The first sentence of a docstring asks for its function; no function has its docstring."""
    texts, usable, often = {}, [], defaultdict(int)
    for path, text in files:
        texts[path], functions = _without_docstrings(text)
        for sentence, lines in functions:
            often[sentence.lower()] += 1
            if len(sentence.split()) >= 5 and len(lines) >= 5:
                usable.append(Asked(text=sentence, answers={path: lines}))
    usable = [each for each in usable if often[each.text.lower()] == 1]
    asked = _sample(usable, DESCRIBED, name)
    return QuestionSet(name=f"code {name}", metric="mrr", texts=texts, asked=asked)


def contexts(name: str, files: Files) -> QuestionSet:
    """Descriptions of functions, and the whole function as the passage that answers."""
    made = described(name, files)
    asked = []
    for each in made.asked:
        ((path, lines),) = each.answers.items()
        rows = made.texts[path].splitlines(keepends=True)
        first, last = lines[0] - 1, lines[-1]
        start = sum(map(len, rows[:first]))
        end = start + sum(map(len, rows[first:last]))
        if end - start <= LONGEST:
            asked.append(attrs.evolve(each, passages=[(path, start, end)]))
    return attrs.evolve(made, name=f"context {name}", metric="context", asked=asked)


def _without_docstrings(text: str) -> tuple[str, list[tuple[str, list[int]]]]:
    """The text without docstrings of functions; their first sentences, and their lines in it."""
    lines = text.splitlines()
    functions = [each for each in ast.walk(ast.parse(text)) if isinstance(each, Function)]
    dropped: set[int] = set()
    for each in functions:
        if ast.get_docstring(each, clean=False) is not None and len(each.body) > 1:
            first = each.body[0]
            dropped |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    kept = [at for at in range(1, len(lines) + 1) if at not in dropped]
    now = {at: number for number, at in enumerate(kept, 1)}
    found = []
    for each in functions:
        docstring = ast.get_docstring(each)
        if docstring and len(each.body) > 1:
            sentence = plain(_SENTENCE.split(docstring.split("\n\n")[0])[0]).rstrip(".")
            span = range(each.lineno, (each.end_lineno or each.lineno) + 1)
            found.append((sentence, [now[at] for at in span if at in now]))
    return "\n".join(lines[at - 1] for at in kept) + "\n", found


def _sample(usable: Sequence[T], most: int, name: str) -> list[T]:
    return random.Random(f"{SEED} {name}").sample(usable, min(most, len(usable)))
