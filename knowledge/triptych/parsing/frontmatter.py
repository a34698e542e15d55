"""Front matter: the metadata at the head of Markdown and text, in YAML or TOML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from typing import Any

import attrs

from triptych._internal.toml import parse_toml
from triptych.parsing.contract import fit
from triptych.records.metadata import MetadataValue, Scalar

_LIMIT = 65_536
"""The maximum length of front matter in code points."""

_BLOCK = re.compile(
    r"(?P<fence>(?P<yaml>---)|\+\+\+)[ \t]*(?:\r\n|\n|\r)(?P<body>.*?)(?:^|(?<=[\r\n]))"
    r"(?:(?P=fence)|(?(yaml)\.\.\.|(?!)))[ \t]*(?:\r\n|\n|\r|\Z)",
    re.DOTALL,
)
_MOST = 1_000
"""The maximum number of values, because aliases can multiply them."""

_DEPTH = 4
_TEXTS = frozenset(("title", "kind", "category"))
"""Triptych itself reads these keys, as text: the title `1984` is no number."""

_TAGS = "tags"
_LEVELS = 8
"""How many tags that a nested one is in become tags of their own."""

_BEYOND = 1 << 63

# A key at the margin, with what stands on its line.
_ENTRY = re.compile(
    r"""(?:"([^"\n]{1,200})"|'([^'\n]{1,200})'|(\w[^\n:\#"']{0,200}?))[ \t]*:"""
    r"(?:[ \t]+([^\n]*)|(?=\n|\Z))"
)
_ENTRIES = re.compile(r"^(?=[^\s#\-}\]])", re.MULTILINE)
_LIKE_ENTRY = re.compile(r"""^[ \t]*["']?\w[^\n:]{0,200}:(?=\s|\Z)""", re.MULTILINE)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)"
    r"(?:[ \t]*(Z|[+-]\d\d(?::?\d\d)?))?"
)


def front_matter(text: str) -> dict[str, MetadataValue]:
    """Return the front matter of ``text``; empty if it has none or nothing of it can be read.

    Lists, numbers, booleans, dates and datetimes keep their types. In YAML a value without quotes
    is a number only if the number is written the same (`1.10` is text), and a boolean only as
    `true` or `false`. Keys of nested mappings are joined by ".", nested lists and the mappings in
    a list become lists of plain values. Empty values are left out.
    `tags` may be text with commas, and a nested tag brings those that it is in: `tea/green`, `tea`.
    """
    return read_front_matter(text)[0]


def read_front_matter(text: str) -> tuple[dict[str, MetadataValue], tuple[str, ...]]:
    """Return the front matter of ``text``, and notes that say what of it is not metadata."""
    found = _BLOCK.match(text[:_LIMIT].removeprefix("\ufeff"))
    if found is None:
        fence = text[:4].removeprefix("\ufeff")[:3]
        if fence in ("---", "+++") and text.find(f"\n{fence}\n", _LIMIT) > 0:
            return {}, (f"front matter of more than {_LIMIT:,} characters is not metadata",)
        return {}, ()
    # An empty line in place of the fence: lines are counted as in the file.
    body = "\n" + re.sub(r"\r\n?", "\n", found["body"])
    entries = _Entries()
    try:
        wrong = (_take_yaml if found["yaml"] else _take_toml)(body, entries)
    except _TooManyError:
        wrong = f"has more than {_MOST:,} values, and the others are not metadata"
    if not wrong and entries.too_deep:
        wrong = f"nests too deep at {', '.join(entries.too_deep)}, which is not metadata"
    return entries.metadata(), (f"front matter {wrong}",) if wrong else ()


class _TooManyError(Exception):
    """There are more values than may be taken."""


@attrs.define
class _Plain:
    """A value of YAML without quotes."""

    text: str


@attrs.define
class _Entries:
    """Values by key, in order; more than one, and those of ``_lists``, are a list."""

    too_deep: dict[str, None] = attrs.field(factory=dict)
    _values: dict[str, list[object]] = attrs.field(factory=dict)
    _lists: set[str] = attrs.field(factory=set)
    _seen: int = 0

    def take(self, value: object, name: str = "", depth: int = -1, *, listed: bool = False) -> None:
        """Take ``value``, or all that it holds, under ``name``.

        Raises:
            _TooManyError: there are too many values.
        """
        self._seen += 1
        if self._seen > _MOST:
            raise _TooManyError
        members = _members(value)
        if members is not None and depth > _DEPTH:
            self.too_deep[name] = None
        elif members is not None:
            for key, item in members:
                inner = name if key is None else f"{name}.{key}" if depth >= 0 else key
                self.take(item, inner, depth + 1, listed=listed or key is None)
        elif name.isprintable():
            values = self._values.setdefault(name, [])
            if listed:
                self._lists.add(name)
            else:
                values.clear()
            values.append(value)

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()
        self._lists.clear()

    def metadata(self) -> dict[str, MetadataValue]:
        """The metadata; empty values are left out."""
        found: dict[str, MetadataValue] = {}
        for name, values in self._values.items():
            items = [item for item in map(_typed, values) if item != ""]
            if name == _TAGS and (tags := _tags(items)) != items:
                found[name] = tags
            elif name in _TEXTS:
                found[name] = ", ".join(filter(None, map(_written, values)))
            else:
                found[name] = items if name in self._lists else items[0] if items else ""
        return {name: value for name, value in found.items() if value not in ("", [])}


def _tags(items: Sequence[Scalar]) -> list[Scalar]:
    """Tags each by itself, and after them those that nested ones are in, as in Obsidian."""
    own: dict[Scalar, None] = {}
    for item in items:
        parts = item.split(",", _MOST) if isinstance(item, str) else [item]
        own.update(
            (each.strip().lstrip("#") if isinstance(each, str) else each, None) for each in parts
        )
    above = {
        each.rsplit("/", depth)[0]: None
        for each in own
        if isinstance(each, str)
        for depth in range(1, min(each.count("/"), _LEVELS) + 1)
    }
    return [each for each in (own | above) if each != ""]


def _members(value: Any) -> Iterator[tuple[str | None, object]] | None:
    """The members of a mapping with their keys, those of a list without; None for a scalar."""
    if isinstance(value, Mapping):
        return iter(value.items())
    if isinstance(value, list):
        return ((None, item) for item in value)
    return _node_members(value) if hasattr(value, "start_mark") else None


def _node_members(node: Any) -> Iterator[tuple[str | None, object]]:
    from yaml.constructor import ConstructorError

    for member in node.value:
        key, value = (None, member) if node.id == "sequence" else member
        if key is not None and key.id != "scalar":
            raise ConstructorError(None, None, "a value with braces needs quotes", key.start_mark)
        if value.id == "scalar":
            value = _Plain(value.value) if value.tag == _UNQUOTED else value.value
        yield None if key is None else key.value, value


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return fit(value.text if isinstance(value, _Plain) else str(value)).strip()


def _typed(value: object) -> Scalar:
    text = _written(value)
    if isinstance(value, _Plain):
        return _resolved(text)
    if isinstance(value, bool | date):
        return value
    if isinstance(value, int) and -_BEYOND <= value < _BEYOND:
        return value
    return value if isinstance(value, float) and math.isfinite(value) else text


def _resolved(text: str) -> Scalar:
    """What YAML's value without quotes means; its text if that were written in another way."""
    if text in ("~", "null", "Null", "NULL"):
        return ""
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    try:
        if _NUMBER.fullmatch(text):
            number = float(text) if "." in text else int(text)
            return number if str(number) == text else text
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        if moment := _MOMENT.fullmatch(text):
            return datetime.fromisoformat(f"{moment[1]}T{moment[2]}{moment[3] or ''}")
    except ValueError:
        pass  # no day of the calendar
    return text


def _take_toml(body: str, entries: _Entries) -> str:
    """Take what TOML says; what is wrong with it."""
    try:
        entries.take(parse_toml(body))
    except ValueError as error:
        return f"is not valid TOML: {_reason(error)}, so it is not metadata"
    return ""


def _take_yaml(body: str, entries: _Entries) -> str:
    """Take what YAML says, entry by entry where it is broken; what is wrong with it."""
    import yaml

    try:
        _take_document(body, entries)
        return ""
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        wrong = f"is not valid YAML{_line_of(error)}: {_reason(error)}"
        if not _LIKE_ENTRY.search(body):
            return ""  # text between two rules
        if isinstance(error, RecursionError):
            return f"{wrong}, so it is not metadata"
    entries.clear()
    blocks = [each for each in _ENTRIES.split(body) if each.strip() and each.lstrip()[0] != "#"]
    found = [match for match in map(_ENTRY.match, blocks) if match is not None]
    if len(found) < len(blocks):
        return f"{wrong}, so it is not metadata"
    lost = []
    for block in found:
        try:
            _take_document(block.string, entries)
        except (yaml.YAMLError, ValueError, RecursionError):
            name = (block[1] or block[2] or block[3]).strip()
            if block[4] and not block.string[block.end() :].strip():
                entries.take(block[4], name, 0)
            else:
                lost.append(name)
    less = f" without {', '.join(lost)}" if lost else ""
    return f"{wrong}, so its entries were read one by one{less}"


_UNQUOTED = "unquoted"


@cache
def _loader() -> Any:
    import yaml

    class Loader(yaml.BaseLoader):
        """Knows scalars without quotes from others; makes nothing of either."""

    Loader.add_implicit_resolver(_UNQUOTED, re.compile(""), None)
    return Loader


def _take_document(body: str, entries: _Entries) -> None:
    import yaml

    node = yaml.compose(body, Loader=_loader())
    if isinstance(node, yaml.MappingNode):
        entries.take(node)


def _line_of(error: Any) -> str:
    quoted = "quoted" in str(getattr(error, "context", ""))
    mark = getattr(error, "context_mark" if quoted else "problem_mark", None)
    return "" if mark is None else f" at line {mark.line + 1}"


def _reason(error: Any) -> str:
    if isinstance(error, RecursionError):
        return "it nests too deep"
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return fit(str(problem).split("\n")[0])[:100]
