"""What a document says that others may cite, and the sentences in which it cites others."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

import attrs

from triptych.layers import Syntax, code_patterns, syntax_of
from triptych.text import sentence_spans

WORD: Final = re.compile(r"\w+")
TOKEN: Final = re.compile(
    r"https?://[^\s<>\"'`)\]]*[^\s<>\"'`)\].,;:!?]"  # a URL
    r"|(?<![\w-])--[A-Za-z][\w-]*"  # an option
    r"|(?<![\w/.-])(?:\.{0,2}/(?:[\w.-]+/)*|(?:[\w.-]+/){2,})[\w.-]*\w"  # a path
    r"|(?<![\w/.-])[\w.-]+/[\w.-]+\.[A-Za-z]\w{0,7}\b"
    r"|(?<![\w.])\d+(?:\.\d+)*(?:(?:a|b|rc|\.?dev|\.?post)\d+)?"  # a number, a version
    r"|[^\W\d]\w+(?:-\w+)*"  # a name
)
QUOTED: Final = re.compile(r"""(["'])((?:(?!\1)[^\\\n]|\\.)+)\1""")
_SHAPED: Final = re.compile(r"\w+_\w*|_\w+|\w*[a-z]\w*[A-Z]\w*|[A-Z]\w*[A-Z]\w*|[^\W\d]+\d\w*")
NUMBER: Final = re.compile(r"\d+(?:\.\d+)*(?:(?:a|b|rc|\.?dev|\.?post)\d+)?")
_PROSE: Final = (".adoc", ".markdown", ".md", ".mdx", ".rst", ".txt")
_DATA: Final = (".cfg", ".conf", ".env", ".ini", ".json", ".toml", ".yaml", ".yml")
_NO_PROSE: Final = re.compile(r"(?:^|/)(?:requirements|constraints)\b.*\.txt$|(?:^|/)CMakeLists")
_LITERAL: Final = (
    r"""[-+]?\d[\d_.]*\b|True\b|False\b|None\b|true\b|false\b|null\b"""
    r"""|"[^"\n]{0,60}"|'[^'\n]{0,60}'"""
)
_SETTING: Final = re.compile(
    r"""(?<![\w.])(?P<name>[^\W\d][\w-]*)["']?[ ]?(?::[ ]?[^=,\n(){}]{1,80}?)?[ ]?[=:][ ]?"""
    rf"""(?P<value>{_LITERAL})(?![\w("'])"""
)
_OPTION: Final = re.compile(r"""["'](--[a-z][\w-]+)["'][^()]{0,200}\Z""")
_PARAMETER: Final = re.compile(r"(?<![\w.])[^\W\d]\w*(?=\s*[:=,)])")
UNNAMED: Final = frozenset(
    (
        *("self", "cls", "args", "kwargs", "True", "False", "None", "true", "false", "null", "int"),
        *("float", "str", "bool", "default", "type", "value", "len", "range", "return"),
    )
)
"""What is no name of a parameter, or of a value."""
# An attribute of a class, and a module: their parts may live on without them.
_OF_CLASS: Final = re.compile(
    r"(?<!\w)([A-Z]\w*[a-z]\w*\.[A-Za-z]\w+)(?![\w(.])|^[ \t]*(?:from|import) (\w+(?:\.\w+)+)",
    re.MULTILINE,
)
_COMMENT: Final = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_MARKS: Final = re.compile(r'^[ \t]*(?:///?!?|/?\*+/?|#+|"""|\'\'\')|"""|\'\'\'|\*/', re.MULTILINE)
_FENCE: Final = re.compile(r"[ \t>]*(```|~~~)")
_HEADING: Final = re.compile(r"#{1,6}[ \t]+(.*?)[ \t#]*$")
_UNDERLINE: Final = re.compile(r"([=\-~^\"'+*`#])\1{2,}[ \t]*$")
_ITEM: Final = re.compile(r"[ \t]*(?:[-+*•]|\d{1,3}[.)])[ \t]|[ \t]*(?:\||\.\. |:\w[\w ]*:)")
_EXAMPLE: Final = re.compile(r"[ \t]*(?:>>> |\.\.\. |\$ )")
_LITERAL_FOLLOWS: Final = re.compile(
    r"(?!\.\. )(?s:.*)::[ \t]*\Z|[ \t]*\.\. (?:code|sourcecode|prompt|click|tab)[\w:-]*::"
)


def is_shaped(name: str) -> bool:
    """Whether a name is no word of prose: it has an underscore, a digit or inner capitals."""
    return _SHAPED.fullmatch(name) is not None or name.startswith("--")


Place = Literal["prose", "example", "comment"]


class Sentence(NamedTuple):
    """A sentence of prose, of a comment, or a line of an example, with its first and last line;
    ``around`` is the text in which it stands: its heading or definitions, and its paragraph."""

    line: int
    last: int
    text: str
    place: Place
    around: str


class Definition(NamedTuple):
    """Where a class, function or the like is defined, and the classes around it."""

    start: int
    name: str
    around: tuple[str, ...]
    is_type: bool


@attrs.frozen(eq=False, slots=False)
class Source:
    """A document; what is read in it is read once."""

    name: str
    text: str

    @cached_property
    def syntax(self) -> Syntax | None:
        """The syntax of its language, None of prose and data."""
        return syntax_of(self.name)

    @cached_property
    def is_prose(self) -> bool:
        """Whether it is written for people: by its ending, or none."""
        path = PurePosixPath(self.name)
        if self.syntax is not None or _NO_PROSE.search(self.name):
            return False
        return path.suffix.lower() in _PROSE or (not path.suffix and path.name.isupper())

    @cached_property
    def is_code(self) -> bool:
        """Whether it is code or configuration."""
        suffix = PurePosixPath(self.name).suffix.lower()
        is_data = not suffix or suffix in _DATA or _NO_PROSE.search(self.name) is not None
        return self.syntax is not None or (is_data and not self.is_prose)

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words as they are spelt."""
        return frozenset(WORD.findall(self.text))

    @cached_property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.split("\n")

    @cached_property
    def _parts(self) -> tuple[str, str, str]:
        """The text three times, of the same length: without strings and comments, without
        comments, and only comments. A docstring is a comment."""
        if self.syntax is None:
            kept = _COMMENT.sub(_blank, self.text)
            return kept, kept, _difference(self.text, kept)
        bare, code = list(self.text), list(self.text)
        for found in code_patterns(self.syntax)[0].finditer(self.text):
            start, end = found.span()
            line = self.text[self.text.rfind("\n", 0, start) + 1 : start]
            is_doc = found[0].startswith(('"""', "'''")) and not line.strip()
            blank = _blank(found)
            bare[start:end] = blank
            if found["comment"] or is_doc:
                code[start:end] = blank
        return "".join(bare), "".join(code), _difference(self.text, "".join(code))

    @cached_property
    def code(self) -> str:
        """The text of code, with blanks for comments; "" of anything else."""
        return self._parts[1] if self.is_code else ""

    @cached_property
    def tokens(self) -> Mapping[str, int]:
        """What the code names, each with where it stands first; of messages no plain words."""
        found: dict[str, int] = {}
        for each in TOKEN.finditer(QUOTED.sub(_without_words, self.code)):
            found.setdefault(each[0], each.start())
            if "-" in each[0] or "/" in each[0]:
                for part in WORD.finditer(each[0]):
                    found.setdefault(part[0], each.start() + part.start())
        for each in _OF_CLASS.finditer(self.code):
            found.setdefault(each[1] or each[2], each.start())
        return found

    @cached_property
    def definitions(self) -> list[Definition]:
        """Its definitions in order."""
        if self.syntax is None:
            return []
        found: list[Definition] = []
        stack: list[tuple[int, str]] = []
        for each in code_patterns(self.syntax)[1].finditer(self._parts[0]):
            groups = each.groupdict()
            keys = ("name", "type_name", "value_name", "method", "impl")
            key = next(key for key in keys if groups.get(key))
            indent = len(each["indent"].expandtabs(4))
            while stack and stack[-1][0] >= indent:
                stack.pop()
            kind = "type" if key in ("type_name", "impl") else (groups.get("kind") or "").strip()
            around = (*(name for _, name in stack), groups.get("owner") or "")
            name = groups[key].strip()
            is_type = kind in self.syntax.types
            found.append(Definition(each.end(key), name, tuple(filter(None, around)), is_type))
            stack.append((indent, name))
        return found

    @cached_property
    def members(self) -> Mapping[tuple[str, str], int]:
        """Parameters and methods by what they belong to, each with where it stands."""
        bare, found = self._parts[0], dict[tuple[str, str], int]()
        for at, name, around, is_type in self.definitions:
            owner = around[-1] if around else ""
            if owner and not name.startswith("_"):
                found[owner, name] = at
            opened = bare.find("(", at, at + 80)
            if is_type or opened < 0:
                continue
            depth, end = 0, opened
            for end in range(opened, min(len(bare), opened + 4000)):
                depth += (bare[end] in "([{") - (bare[end] in ")]}")
                if depth == 0:
                    break
            callee = owner if name in ("__init__", "constructor") and owner else name
            for each in _PARAMETER.finditer(bare, opened, end + 1):
                if each[0] not in UNNAMED and bare.count("[", opened, each.start()) == (
                    bare.count("]", opened, each.start())
                ):
                    found[callee, each[0]] = each.start()
        return found

    @cached_property
    def settings(self) -> Mapping[tuple[str, ...], tuple[str, int]]:
        """Values by all that they belong to and their names, each with where it stands.

        A name with several values in one place has none.
        """
        found: dict[tuple[str, ...], tuple[str, int]] = {}
        several = set()
        for each in _SETTING.finditer(self.code):
            name = each["name"]
            if name == "default":
                option = _OPTION.search(self.code, max(0, each.start() - 300), each.start())
                name = option[1] if option else name
            key, value = (*self.owners(each.start()), name), each["value"].strip("\"'")
            if key in found and found[key][0] != value:
                several.add(key)
            found.setdefault(key, (value, each.start()))
        return {key: value for key, value in found.items() if key not in several}

    def owners(self, at: int) -> tuple[str, ...]:
        """What is defined around a place, the innermost last."""
        index = bisect_right(self.definitions, at, key=lambda each: each.start) - 1
        if index < 0:
            return ()
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        within, name = self.definitions[index], self.definitions[index].name
        if not line[:1].isspace() and "\n" in self.text[within.start : at]:
            return ()
        return (*within.around, *((within.around[-1:]) if name == "__init__" else (name,)))

    @cached_property
    def _ends(self) -> list[int]:
        return [each.start() for each in re.finditer("\n", self.text)]

    def line(self, at: int) -> int:
        """The number of the line of a place, from 1."""
        return bisect_left(self._ends, at) + 1

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Its sentences in order: of code those of comments, of data none."""
        if self.is_prose:
            return list(_sentences(self.text, self))
        if self.syntax is None:
            return []
        return list(_sentences(_MARKS.sub(_blank, self._parts[2]), self))

    @cached_property
    def _by_word(self) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, each in enumerate(self.sentences):
            for word in set(WORD.findall(each.text)):
                found.setdefault(word, []).append(number)
        return found

    def holding(self, words: Collection[str]) -> Iterator[Sentence]:
        """The sentences with any of these words, as they are spelt; all, if there are none."""
        numbers = {number for word in words for number in self._by_word.get(word, ())}
        return (self.sentences[each] for each in sorted(numbers)) if words else iter(self.sentences)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _without_words(found: re.Match[str]) -> str:
    """A string, of which a message has blanks for its plain words."""
    if found[2].count(" ") < 2:
        return found[0]
    return WORD.sub(lambda each: each[0] if is_shaped(each[0]) else _blank(each), found[0])


def _difference(text: str, without: str) -> str:
    """What ``without`` lacks of ``text``, at its place."""
    if text == without:
        return ""
    return "".join(a if a != b or a == "\n" else " " for a, b in zip(text, without, strict=True))


def _sentences(text: str, source: Source) -> Iterator[Sentence]:
    lines = text.split("\n")
    place: Place = "prose" if source.is_prose else "comment"
    paragraph: list[str] = []
    first, headings, offset, fence, block, literal = 1, [""], 0, "", 0, False

    def flush() -> Iterator[Sentence]:
        joined = "\n".join(paragraph)
        paragraph.clear()
        around = f"{' '.join(headings)}\n{joined}"
        for start, end in sentence_spans(joined):
            said = " ".join(joined[start:end].split())
            at, last = (first + joined.count("\n", 0, each) for each in (start, end))
            yield Sentence(at, last, said, place, around)

    for number, line in enumerate(lines, 1):
        marked = _FENCE.match(line)
        literal = literal and (not line.strip() or line[:1].isspace())
        if marked and (not fence or marked[1] == fence):
            yield from flush()
            fence, block = ("" if fence else marked[1]), number
        elif fence or literal or (_EXAMPLE.match(line) and not paragraph):
            if line.strip():
                some = lines[max(number - 8, block) : number + 7]
                around = f"{' '.join(headings)}\n" + "\n".join(some)
                yield Sentence(number, number, line.strip(), "example", around)
        else:
            heading = _HEADING.match(line) if place == "prose" else None
            below = lines[number] if number < len(lines) else ""
            titled = line.strip() and _UNDERLINE.match(below) and place == "prose"
            if not line.strip() or heading or titled or _ITEM.match(line):
                yield from flush()
            if heading or titled:
                headings = [heading[1] if heading else line.strip()]
            elif _UNDERLINE.match(line):
                line = ""
            if place == "comment" and line.strip():
                headings = list(source.owners(offset + len(line) - len(line.lstrip())))
            if line.strip():
                first = first if paragraph else number
                paragraph.append(line)
            elif paragraph == [] and place == "prose":
                last = lines[number - 2] if number > 1 else ""
                literal = _LITERAL_FOLLOWS.match(last) is not None
                block = number if literal else block
        offset += len(line) + 1
    yield from flush()
