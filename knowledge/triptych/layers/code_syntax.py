"""The syntax of source code by language: comments, strings and definitions.

Nothing here parses. Patterns find what stands at the beginning of a line, after comments and
strings were blanked out, so that a file with errors is read as far as it goes, in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import PurePosixPath
from typing import Final

import attrs


@attrs.frozen(kw_only=True)
class Syntax:
    """One family of languages.

    ``opaque`` matches comments and strings, comments in the group ``comment``. ``definition``
    matches a line that begins a definition: ``indent``, ``kind`` (a keyword, or nothing) and
    ``name``. Members of a definition stand in braces or, with ``by_indent``, further in.
    ``types`` are the kinds that hold members. ``inner_doc`` is how a comment begins that documents
    the file it stands in, ``package`` the line whose comment does, and ``public`` how the names
    begin that others use.
    """

    opaque: str
    definition: str
    types: frozenset[str]
    by_indent: bool = False
    docstrings: bool = False
    inner_doc: str = ""
    package: str = ""
    public: str = ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SLASH_COMMENT: Final = r"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))"
# None begins after a backslash: so one that has no end is not read again from each quote in it.
_DOUBLE: Final = r'(?<!\\)"(?:[^"\\\n]|\\.)*+"'
_SINGLE: Final = r"(?<!\\)'(?:[^'\\\n]|\\.)*+'"
_CHARACTER: Final = r"'(?:[^'\\\n]|\\[^\n'][^'\n]{0,8}|\\')'"
_TICKS: Final = r"(?<!\\)`(?:[^`\\]|\\.)*+`"
_HASH_COMMENT: Final = r"(?P<comment>\#[^\n]*)"
_TRIPLE: Final = (
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)' + r"|'''(?:[^'\\]|\\.|'(?!''))*+(?:'''|\Z)"
)

# Between parentheses, which may hold a pair of their own. Possessive: nothing is read twice.
_ARGUMENTS: Final = r"\((?:[^;{}()]{1,400}+|\([^;{}()]{0,200}+\)){0,40}+\)"

_MODIFIERS: Final = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|sealed|open|override|inline"
    r"|export|default|async|data|partial|virtual|readonly|suspend|native|synchronized|strictfp"
    r"|non-sealed|extern|unsafe|fileprivate|mutating|convenience|required|case|implicit|lazy)\s+)*+"
)
_TYPE_KINDS: Final = (
    "class|interface|enum|struct|record|trait|object|namespace|module|protocol|extension|actor"
    "|mixin|@interface"
)

_PYTHON: Final = Syntax(
    opaque=f"{_HASH_COMMENT}|{_TRIPLE}|{_DOUBLE}|{_SINGLE}",
    definition=r"^(?P<indent>[ \t]*)(?P<kind>(?:async[ \t]+)?def|class)[ \t]+(?P<name>\w+)",
    types=_words("class"),
    by_indent=True,
    docstrings=True,
    public=r"(?!_)",
)
_GO: Final = Syntax(
    opaque=f"{_SLASH_COMMENT}|{_DOUBLE}|`[^`]*`|{_CHARACTER}",
    definition=r"""
      ^(?P<indent>)(?:
        (?P<kind>func)[ \t]+(?:\([ \t]*(?:\w+[ \t]+)?\*?(?P<owner>\w+)[^)\n]*\)[ \t]*)?(?P<name>\w+)
      | (?P<type>type)[ \t]+(?P<type_name>\w+)
      )""",
    types=_words("type"),
    package=r"^package[ \t]+\w+",
    public=r"(?:\w+\.)?[^\W\d_a-z]",
)
_SCRIPT: Final = Syntax(
    opaque=f"{_SLASH_COMMENT}|{_DOUBLE}|{_SINGLE}|{_TICKS}",
    definition=rf"""
      ^(?P<indent>[ \t]*)(?:(?:export|default|declare|abstract|async)[ \t]+)*+(?:
        (?P<kind>class|interface|enum|namespace|function\*?|type)[ \t]+(?P<name>[\w$]+)
      | (?:const|let|var)[ \t]+(?P<value_name>[\w$]+)[ \t]*(?::[^=\n]+)?=[ \t]*
          (?:async[ \t]*)?(?:function\b|\([^()\n]*\)[^=\n;]*=>|[\w$]+[ \t]*=>)
      | (?:(?:public|private|protected|static|readonly|get|set|override)[ \t]+)*+\*?
          (?P<method>(?!(?:if|for|while|switch|catch|return|function|constructor|super)\b)\#?[\w$]+)
          [ \t]*(?:<[^<>\n]*>)?{_ARGUMENTS}[^;{{}}=\n]{{0,200}}+\{{
      )""",
    types=_words("class interface enum namespace type"),
    public=r"(?![_#])",
)
_RUST: Final = Syntax(
    opaque=rf'{_SLASH_COMMENT}|r(?P<hashes>\#*)".*?(?:"(?P=hashes)|\Z)|{_DOUBLE}|{_CHARACTER}',
    definition=r"""
      ^(?P<indent>[ \t]*)(?P<public>pub(?:\([^)\n]*\))?[ \t]+)?
      (?:(?:default|const|async|unsafe|extern)[ \t]+)*+(?:
        (?P<kind>fn|struct|enum|trait|union|mod|macro_rules!)[ \t]+(?P<name>\w+)
      | (?P<impl>impl\b[^{;\n]*)
      )""",
    types=_words("struct enum trait union mod impl"),
    inner_doc=r"//!|/\*!",
)
_JAVA: Final = Syntax(
    opaque=f'{_SLASH_COMMENT}|""".*?"""|{_DOUBLE}|{_CHARACTER}',
    definition=rf"""
      ^(?P<indent>[ \t]*)(?:@\w+(?:\([^()\n]*\))?[ \t]+)*+{_MODIFIERS}(?:
        (?P<kind>{_TYPE_KINDS}|fun|func|def)[ \t]+(?:<[^<>\n]*>[ \t]*)?(?P<name>\w+)
      | (?:<[^<>\n]*>[ \t]+)?(?!(?:return|new|throw|else|case|package|import|using)\b)
          [\w.]+(?:<[^;(){{}}\n]*>)?(?:\[\])*[ \t]+(?P<method>\w+)
          [ \t]*{_ARGUMENTS}[^;{{}}=]{{0,200}}+[{{;]
      )""",
    types=_words(_TYPE_KINDS.replace("|", " ")),
)
_C: Final = Syntax(
    opaque=f"{_SLASH_COMMENT}|{_DOUBLE}|{_CHARACTER}",
    definition=rf"""
      ^(?P<indent>[ \t]*)(?:(?:typedef|template[ \t]*<[^<>\n]*>)\s+)?(?:
        (?P<kind>class|struct|union|enum(?:[ \t]+class)?|namespace)[ \t]+(?P<name>\w+)
          [^;(){{}}=]{{0,200}}+\{{
      | (?!(?:return|else|if|for|while|switch|do|case|typedef|goto|new|delete|using)\b)
          (?:[\w:*&<>,~]+[ \t\n]+){{1,8}}?[*&]*(?P<method>[\w:~]+)
          [ \t]*{_ARGUMENTS}[^;{{}}()=]{{0,100}}+\{{
      )""",
    types=_words("class struct union enum namespace"),
    public=r"(?!_)",
)
_RUBY: Final = Syntax(
    opaque=f"{_HASH_COMMENT}|{_DOUBLE}|{_SINGLE}",
    definition=r"""
      ^(?P<indent>[ \t]*)(?:local[ \t]+)?(?:
        (?P<kind>class|module|defmodule|defp?|function|sub)[ \t]+(?P<name>[\w.:?!]+)
      | (?P<method>\w+)[ \t]*\(\)[ \t]*\{
      )""",
    types=_words("class module defmodule"),
    by_indent=True,
)

_FAMILIES: Final[Mapping[str, Syntax]] = {
    ending: syntax
    for endings, syntax in (
        (".py .pyi", _PYTHON),
        (".go", _GO),
        (".js .jsx .mjs .cjs .ts .tsx .mts .cts", _SCRIPT),
        (".rs", _RUST),
        (".java .cs .kt .scala .swift .dart .php", _JAVA),
        (".c .h .cc .cpp .cxx .hh .hpp .hxx", _C),
        (".rb .sh .bash .zsh .ex .exs .pl", _RUBY),
    )
    for ending in endings.split()
}


def syntax_of(name: str) -> Syntax | None:
    """The syntax of the language that a document's name ends for, None where it is no code."""
    return _FAMILIES.get(PurePosixPath(name).suffix.lower())


@cache
def code_patterns(syntax: Syntax) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """``opaque`` and ``definition``, compiled at the first use."""
    return (
        re.compile(syntax.opaque, re.DOTALL),
        re.compile(syntax.definition, re.MULTILINE | re.VERBOSE),
    )


def masked(text: str, syntax: Syntax) -> tuple[str, list[tuple[int, int]]]:
    """``text`` with blanks for comments and strings, line ends kept; and the comments' spans."""
    opaque, _ = code_patterns(syntax)
    comments: list[tuple[int, int]] = []
    pieces: list[str] = []
    at = 0
    for found in opaque.finditer(text):
        start, end = found.span()
        if found["comment"]:
            comments.append((start, end))
        pieces += (text[at:start], _blank(text, start, end))
        at = end
    pieces.append(text[at:])
    return "".join(pieces), comments


def _blank(text: str, start: int, end: int) -> str:
    return "\n".join(" " * len(line) for line in text[start:end].split("\n"))
