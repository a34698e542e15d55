"""The functions and patterns that meet foreign text, and repetitions that are hard on them."""

from __future__ import annotations

import ast
import gc
import importlib
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import attrs
import regex

from support.packages import PACKAGES
from triptych import Message
from triptych._internal.model_texts import gives_away, is_blank, is_obeyed, is_refusal
from triptych._internal.thoughts import without_thoughts
from triptych.answers import default_counter, prove
from triptych.answers.citations import CitationFilter, sentences_of
from triptych.answers.packer import ends
from triptych.chunking import (
    ChunkConfig,
    FixedWindowChunker,
    MarkdownChunker,
    SentenceWindowChunker,
    chunk_text,
    first_heading,
)
from triptych.errors import TriptychError
from triptych.layers import ExtractiveSummarizer, estimate_tokens
from triptych.layers.inline import clip, visible_text
from triptych.layers.outline import read_outline
from triptych.parsing import ParseLimits, decode_text, fit, front_matter, markdown_safe
from triptych.records import Query
from triptych.resources import shown_url, without_secrets
from triptych.search import TextConditions, parse_query
from triptych.search.rewriting import fragments
from triptych.text import (
    detect_tokenizer,
    extract_keywords,
    get_analyzer,
    shingles,
    split_sentences,
    visible as visible_line,
)
from triptych.text.escapes import views
from triptych.text.injection import suspicious
from triptych_adapters.cli.output import visible
from triptych_evaluation.targets import find_passage
from triptych_models import HashEmbedder
from triptych_parsers import default_parser
from triptych_providers import retry_after_seconds
from triptych_providers.errors import ProviderErrorRules, Refusal, fault, shown
from triptych_providers.remote_model import shortened
from triptych_providers.response_parsing import text_at
from triptych_testing.fakes import fenced_text

KEY = "sk-SeCrEt0123456789abcdefXYZ"
_LARGE = 100_000
_QUICK = 0.02
"""Seconds for a quarter: the whole is not above `_AT_ONCE` by much, even if it is quadratic."""
_AT_ONCE = 0.3
"""Seconds below which nothing is compared: a pattern that is quadratic takes more at 100 kB."""
_GROWTH = 9
"""Times as long for four times the text; quadratic is 16."""
_LINEAR = 5
"""A sum of a linear and a quadratic part that grows less than so many times from a sixteenth to
a quarter grows less than 8 times from there to the whole."""
_MOST = 40.0

# A beginning, what is repeated, an end.
Hostile = tuple[str, str, str]

_RUNS = (
    *" \t\na1-*`[(<{#|.~+'\"\\/&!中。\x00…",
    *("\r\n", "\u2028", "\u0301", "<!--", "-->", "<!-", "<a ", "</a", "[a](", "![", "](", "``"),
    *("**a", "_a", "~~a", "{%", "- ", "> ", "---\n", "::", "a ", "a\n", " \n", "a.", "a: ", "Aa"),
    *("| ", '="', "```\n", "\\`", "/*", "a。", ". ", "\n- ", "\n# ", "\n| ", "\n1. a", "\n    a"),
    *(".. a::\n", "|-", "+--", "[],", "[1", "[1] ", "a. [1] ", "[1,", " [9]", "\u200b", "\u202e\n"),
    *("all your ", "ignore all ", "if you are a ", "\U000e0041", "\U0001f3f4\U000e0041", "[1-"),
    *("model", "model ", "sorry ", "answer ", "ignore ", "<think>", "<meta ", "sk-Se*", "12 "),
)
_BEGUN: tuple[Hostile, ...] = (
    *((start, run, "\x01") for start in ("<!--", "# a {", "[a](", '<a b="') for run in " \na"),
    *((start, " ", "\x01") for start in ("---\n", "a\n", "model", "<think>", "- ", "|", "![", "`")),
    *(("a\n", " " * 99 + "\n", "---"), ("a" + " " * 9 + "\n", " ", "}\n===\n")),
)
UNITS: tuple[Hostile, ...] = (*(("", run, "") for run in _RUNS), *_BEGUN)
"""What every call is fed."""


def hostile(kind: Hostile, size: int) -> str:
    """``size`` characters of a kind."""
    start, run, end = kind
    return start + run * (size // len(run)) + end


def _parse(name: str, **limits: float) -> Callable[[str], object]:
    parser = default_parser(limits=ParseLimits(**limits), plugins=False)

    def parse(text: str) -> object:
        with suppress(TriptychError):
            return parser.parse(name, text.encode())
        return None

    return parse


def _refusal(text: str) -> object:
    profile = ProviderErrorRules(
        name="X", model="m", key_advice="", model_advice="", start_advice=""
    )
    found = [
        fault(Refusal(status=status, body=body), profile, [KEY])
        for status in (400, 429)
        for body in (text[: 1 << 16] if status == 400 else json.dumps({"error": text[: 1 << 15]}),)
    ]
    return [*found, shown(text, [KEY])]


def _judged(text: str) -> object:
    said = "fine words about the text"
    return [
        is_blank(text, said),
        is_refusal(text, said),
        is_obeyed(said, text),
        gives_away(text, "Say it. " * 9, text),
    ]


def _cited(text: str) -> object:
    reading = CitationFilter((1, 2))
    reading.feed(text)
    reading.end()
    return sentences_of(reading.text, reading.marks, reading.code)


def _parsed(text: str) -> object:
    with suppress(TriptychError):
        return parse_query(Query(text=text))
    return None


_CONDITIONS = (
    *(
        TextConditions(phrases=(each,))
        for each in ("a a", "a - a", "a -- *", "aa* a", "model ignore")
    ),
    *(TextConditions(prefixes=(each,)) for each in ("aa", "1.1", "model", "中。")),
)
_ANALYZER = get_analyzer("english")
_SENTENCES = SentenceWindowChunker()
_MARKDOWN_SENTENCES = SentenceWindowChunker(markdown=True)


def _code(name: str, text: str) -> object:
    return ExtractiveSummarizer().summarize_code(text, name=name)


CALLS: Mapping[str, Callable[[str], object]] = {
    "answering.citations": _cited,
    "answering.proof": lambda text: prove(text, [], text[:1000]),
    "search.fragments": fragments,
    "internal.thoughts": lambda text: [without_thoughts(text), without_thoughts(f"<think>{text}")],
    "redaction.without_secrets": lambda text: without_secrets(text, [KEY]),
    "redaction.shown_url": lambda text: [shown_url(text), shown_url(f"http://h/?{text}")],
    "providers.faults": _refusal,
    "providers.batching.shortened": lambda text: shortened(text, text),
    "providers.retrying.retry_after_seconds": retry_after_seconds,
    "providers.answers": lambda text: text_at({"a": text}, "a"),
    "layers.visible_text": visible_text,
    "layers.read_outline": read_outline,
    "layers.summarize": lambda text: ExtractiveSummarizer().summarize_document(text),
    "layers.summarize_code.python": lambda text: _code("a.py", text),
    "layers.summarize_code.rust": lambda text: _code("a.rs", text),
    "layers.summarize_code.c": lambda text: _code("a.c", text),
    "layers.summarize_code.ruby": lambda text: _code("a.rb", text),
    "layers.clip": lambda text: clip(text, 100),
    "layers.estimate_tokens": estimate_tokens,
    "layers.answers": _judged,
    "chunking.markdown": MarkdownChunker().chunk,
    "chunking.text": lambda text: chunk_text(text, ChunkConfig()),
    "chunking.fixed": FixedWindowChunker().chunk,
    "chunking.sentences": _SENTENCES.chunk,
    "chunking.markdown_sentences": _MARKDOWN_SENTENCES.chunk,
    "chunking.first_heading": first_heading,
    "context.counting": lambda text: default_counter().count(text),
    "context.cutting": ends,
    "context.duplicates": shingles,
    "text.analyze": _ANALYZER.analyze,
    "text.suspicious": suspicious,
    "text.visible": visible_line,
    "text.analyze_query": _ANALYZER.analyze_query,
    "text.sentences": split_sentences,
    "text.keywords": extract_keywords,
    "text.tokenizer": lambda text: detect_tokenizer(text).tokenize(text),
    "evaluation.find_passage": lambda text: find_passage(text[:100], text),
    "parsing.building": lambda text: [fit(text), markdown_safe(text)],
    "parsing.front_matter": front_matter,
    "parsing.decode_text": lambda text: [
        decode_text(text.encode()),
        decode_text(b"\x81" + text.encode()),
        decode_text(b"\xa4\xa2\x81 " + text.encode("gb18030")),
        decode_text(text.encode(), "a.py"),
        decode_text(text.encode(), "a.html"),
    ],
    "search.syntax": _parsed,
    "text.views": views,
    "search.conditions": lambda text: [each.admits(text) for each in _CONDITIONS],
    "testing.fenced_text": lambda text: fenced_text([Message(role="user", content=text)]),
    "cli.visible": visible,
    "embedders.hash": lambda text: HashEmbedder().embed([text], kind="document"),
    **{
        f"parsing.{name}": _parse(f"a.{name}")
        for name in ("md", "txt", "rst", "html", "ipynb", "csv", "json", "yaml")
    },
    # Its time is not linear, but it ends.
    **{f"parsing.{name}": _parse(f"a.{name}", seconds=0.2) for name in ("py", "ts")},
}


def growth_fault(
    call: Callable[[str], object],
    kind: Hostile,
    *,
    at_length: bool = False,
    characters: int = _LARGE,
) -> str | None:
    """What is wrong with how the time of ``call`` grows up to so many characters; None: nothing.

    What is quick at a sixteenth is quick at the whole too, even if its time grew with the square;
    and what grows up to a quarter as it should goes on so. ``at_length`` relies on neither.
    """
    sixteenth = hostile(kind, characters // 16)
    small = _seconds(call, sixteenth)
    if small < _QUICK / 16 and not at_length:
        return None
    middle, fault = _compared(call, kind, characters // 4, small)
    if fault or middle < _QUICK:
        return fault
    if not at_length:
        small = min(small, _seconds(call, sixteenth))
        if middle < _LINEAR * small:
            return None
    return _compared(call, kind, characters, middle)[1]


def _compared(
    call: Callable[[str], object], kind: Hostile, size: int, before: float
) -> tuple[float, str | None]:
    """The seconds that ``size`` characters take, and what is wrong with them; ``before`` are
    those of a quarter of it."""
    text = hostile(kind, size)
    took = _seconds(call, text)
    if took > _AT_ONCE and took > _GROWTH * before:
        # The machine may have been busy with something else: the best of several counts.
        took = min(took, *(_seconds(call, text) for _ in range(2)))
        quarter = hostile(kind, size // 4)
        before = max(before, min(_seconds(call, quarter) for _ in range(3)))
        if took > _AT_ONCE and took > _GROWTH * before:
            return took, (
                f"{kind!r}: {before:.3f} s of {size // 4}, {took:.3f} s of {size} characters"
            )
    if took > _MOST:
        return took, f"{kind!r}: {took:.1f} s of {size} characters"
    return took, None


def _seconds(call: Callable[[str], object], text: str) -> float:
    """What the call takes of the processor's time, so that other processes do not count; without
    collections of garbage, which look through all that the tests before this have left."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        started = time.process_time()
        call(text)
        return time.process_time() - started
    finally:
        if was_enabled:
            gc.enable()


_EVERYWHERE = frozenset({"search", "finditer", "findall", "sub", "subn", "split", "splititer"})
_ANCHORED = frozenset({"match", "fullmatch"})
_MAKES_ONE = re.compile(r"\b(?:re|regex)\.|\blate\(")


@attrs.frozen
class Found:
    """A pattern of the source, and how it is used; no ``pattern``: it is made when it runs."""

    name: str
    pattern: Any
    uses: frozenset[str]

    def calls(self) -> list[Callable[[str], object]]:
        """Each way in which it meets a text."""
        pattern, ways = self.pattern, []
        if self.uses & _EVERYWHERE or not self.uses & _ANCHORED:
            ways.append(lambda text: sum(1 for _ in pattern.finditer(self.fed(text))))
        if "match" in self.uses:
            ways.append(lambda text: pattern.match(self.fed(text)))
        if "fullmatch" in self.uses:
            ways.append(lambda text: pattern.fullmatch(self.fed(text)))
        return ways

    def fed(self, text: str) -> str | bytes:
        """``text`` as the pattern takes it."""
        return text.encode() if isinstance(self.pattern.pattern, bytes) else text


def own_units(pattern: str | bytes) -> list[Hostile]:
    """Repetitions of the signs and words that ``pattern`` is about."""
    source = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    signs = list(dict.fromkeys(re.findall(r"[A-Za-z]{3,}|[^\w\s]", source)))[:12]
    return [
        *(("", sign, "") for sign in signs),
        *((sign, run, "\x01") for sign in signs[:5] for run in (" ", "a")),
    ]


@cache
def found_patterns() -> list[Found]:
    """Every pattern in the source, compiled once or where it is used, by module and name."""
    found: list[Found] = []
    uses: dict[str, set[str]] = {}  # by module and name; no pattern is used in two modules
    for folder in PACKAGES.values():
        for file in sorted(folder.rglob("*.py")):
            module = ".".join(file.relative_to(folder.parent).with_suffix("").parts)
            module = module.removesuffix(".__init__")
            source = file.read_text(encoding="utf-8")
            if _MAKES_ONE.search(source) is None:
                continue
            nodes = list(ast.walk(ast.parse(source)))
            compiled: set[ast.AST] = set()
            for node in nodes:
                if isinstance(node, ast.Assign | ast.AnnAssign) and _compiles(node.value):
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    if isinstance(target, ast.Name) and node.value is not None:
                        compiled.add(node.value)
                        made = getattr(importlib.import_module(module), target.id)
                        found.append(Found(f"{module}.{target.id}", made, frozenset()))
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    uses.setdefault(f"{module}.{node.value.id}", set()).add(node.attr)
            found.extend(
                _inline(module, node)
                for node in nodes
                if isinstance(node, ast.Call) and node not in compiled and _asks(node)
            )
    return [
        each if each.uses else attrs.evolve(each, uses=frozenset(uses.get(each.name, ())))
        for each in found
    ]


def _compiles(node: ast.AST | None) -> bool:
    """Whether ``node`` makes a pattern, at once or when it is first used."""
    late = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "late"
    return late or _asks(node, "compile")


def _asks(node: ast.AST | None, *names: str) -> bool:
    """Whether ``node`` is a call of ``re`` or ``regex`` with a pattern (of one of ``names``)."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    of = node.func.value
    wanted = names or ("compile", *_EVERYWHERE, *_ANCHORED)
    return isinstance(of, ast.Name) and of.id in ("re", "regex") and node.func.attr in wanted


def _inline(module: str, node: ast.Call) -> Found:
    assert isinstance(node.func, ast.Attribute)
    assert isinstance(node.func.value, ast.Name)
    use = node.func.attr
    try:
        source = ast.literal_eval(node.args[0])
    except ValueError:  # put together when it runs
        return Found(f"{module}: {ast.unparse(node.args[0])}", None, frozenset({use}))
    made = {"re": re, "regex": regex}[node.func.value.id].compile(source)
    return Found(f"{module}: {source!r}", made, frozenset({use}))
