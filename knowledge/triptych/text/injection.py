"""Detecting text that was written for a model rather than for its reader.

They are hints, not a verdict: documentation on prompt injection shows them too, and a text without
any may still mislead. Every pattern takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

import attrs

from triptych.text.patterns import late

if TYPE_CHECKING:
    import regex

SignKind = Literal["instruction", "comment", "template", "fence", "invisible", "bidi", "tags"]
"""instruction: the text tells a model what to do. comment: so does an HTML comment, which no reader
sees. template: it holds marks of chat templates. fence: it imitates the delimiters that Triptych
puts around texts. invisible: characters without a width stand in words, or in a row. bidi:
characters turn the direction of left-to-right text. tags: characters of a hidden copy of ASCII."""

_LONGEST: Final = 80  # code points of `Sign.text`
_MOST: Final = 32  # signs of one text

# Without case, which these have none of: each set costs a millisecond to compile with it.
_TO: Final = r"(?-i:[\s*_>#,:\"'`-]{1,8}+)"  # what may stand between two words, also in Markdown
_MODEL: Final = (
    rf"(?:(?:ai|llm|gpt|chatgpt|claude|gemini|copilot)(?:{_TO}(?:assistants?|agents?|models?|bots?))?"
    rf"|(?:large{_TO})?language{_TO}models?|chatbots?|assistants?)\b"
)
_ORDERS: Final = r"(?:instructions?|prompts?|directives?|guidelines?|programming|training)\b"
_PAST: Final = r"(?:previous|prior|preceding|earlier|above|foregoing|original|initial|system)"
_FILLER: Final = r"(?:all|any|every|of|the|your|these|those|my|other|and|or|to|safety)"
_INSTRUCTION: Final = late(
    rf"\b(?:ignore|disregard|forget|override|overrule|bypass|do{_TO}not{_TO}follow)"
    rf"(?:{_TO}{_FILLER}){{0,4}}+{_TO}(?:{_PAST}(?:{_TO}(?:{_PAST}|{_FILLER})){{0,3}}+{_TO}{_ORDERS}"
    rf"|{_ORDERS}(?:{_TO}(?:{_PAST}|you{_TO}(?:were|have|got))\b))"
    rf"|\b(?:ignore|disregard|forget|override|bypass){_TO}(?:all{_TO}(?:of{_TO})?)?your{_TO}{_ORDERS}"
    rf"|\b(?:forget|disregard|ignore){_TO}(?:everything|all){_TO}(?:that{_TO})?(?:above\b|before\b"
    rf"|you{_TO}(?:were|have{_TO}been){_TO}told)"
    rf"|\b(?:reveal|print|show|repeat|output|leak|disclose)(?:{_TO}me)?{_TO}(?:your|the){_TO}"
    rf"(?:(?:entire|full|hidden|secret){_TO})?(?:system|hidden|secret|initial){_TO}"
    rf"(?:prompt|instructions)\b"
    rf"|\byou{_TO}are{_TO}now{_TO}(?:in{_TO})?(?:developer{_TO}mode|dan\b|jailbroken|unrestricted"
    rf"|an?{_TO}(?:unrestricted|different|evil|new)\b|no{_TO}longer{_TO}bound)"
    rf"|\b(?:do{_TO}not|don't|never){_TO}(?:tell|inform|alert|mention{_TO}(?:this|it|that){_TO}to){_TO}"
    rf"the{_TO}(?:user|human)\b(?:{_TO}(?:about|of|that)\b)"
    rf"|\b(?:attention|note|message|instructions?|important)(?:{_TO}(?:to|for))?{_TO}(?:all{_TO})?"
    rf"{_MODEL}(?=\s{{0,3}}[:!,])"
    rf"|\bif{_TO}you{_TO}are{_TO}(?:an?|the){_TO}(?:helpful{_TO})?{_MODEL}"
    rf"|\bas{_TO}an{_TO}{_MODEL},?\s{{1,3}}+you{_TO}(?:must|should|will|shall)\b"
    rf"|\bnew{_TO}(?:system{_TO})?(?:instructions|prompt)[*_]{{0,2}}+\s{{0,2}}+:"
    r"|(?:忽略|无视|忘记|忽視|無視)[^。\n]{0,6}(?:以上|之前|前面|上述|先前|此前)[^。\n]{0,6}"
    r"(?:指令|指示|提示词|提示|命令)"
    rf"|\b(?:ignoriere|vergiss|missachte){_TO}(?:alle{_TO})?(?:bisherigen|vorherigen|vorigen|obigen)"
    rf"{_TO}(?:anweisungen|befehle)\b"
    rf"|\bignore[zr]?{_TO}(?:toutes{_TO})?les{_TO}instructions{_TO}(?:précédentes|antérieures)"
    rf"|\bignora{_TO}(?:todas{_TO})?las{_TO}instrucciones{_TO}(?:anteriores|previas)",
    ignore_case=True,
)
_ORDER_WORDS: Final = ("instruction", "prompt", "directive", "guideline", "programming", "training")
_MODEL_WORDS: Final = ("llm", "gpt", "claude", "gemini", "copilot", "model", "chatbot", "assistant")
_IN_A_ROW: Final = (
    (("ignor", "disregard", "forget", "overrid", "overrul", "bypass"), _ORDER_WORDS),
    (("follow",), _ORDER_WORDS, ("not",)),
    (("ignor", "disregard", "forget"), ("above", "before", "told"), ("everything", "all")),
    (("prompt", "instructions"), ("system", "hidden", "secret", "initial"), ("your", "the")),
    (("prompt", "instructions"), ("new",), (":",)),
    (("user", "human"), ("tell", "inform", "alert", "mention"), ("not", "don't", "never")),
    (("ignor", "vergiss", "missacht"), ("anweisung", "befehl", "instruccion")),
    (("忽略", "无视", "忘记", "忽視", "無視"), ("指令", "指示", "提示", "命令")),
)
# The first words of a row are the fewest, since most texts hold none: each is looked for once.
_BY_WORD: Final = {
    word: [row[1:] for row in _IN_A_ROW if word in row[0]] for row in _IN_A_ROW for word in row[0]
}
_BEFORE_MODELS: Final = ("attention", "note", "message", "instruction", "important")
_BEGINNING: Final = re.compile(
    r"(?:attention|note|message|instructions?|important)[\W_]{1,8}(?:(?:to|for|all)[\W_]{1,8}){0,2}"
    r"(?:ai|llm|(?:chat)?gpt|claude|gemini|copilot|language|large|chatbot|assistant)"
    r"|you[\W_]{1,8}are[\W_]{1,8}now[\W_]|if[\W_]{1,8}you[\W_]{1,8}are[\W_]|as[\W_]{1,8}an[\W_]"
)
"""`_INSTRUCTION` matches nowhere but where a text without case holds a word of each part of a row;
or this, and "now" or the name of a model. Most texts need no further look."""
_AI: Final = re.compile("ai(?<![a-z]ai)(?![a-z])")  # begins with a literal: that is looked for fast
_COMMENT: Final = late(r"<!--(?:[^-]|-(?!->))*+(?:-->|\Z)")
_OF_A_MODEL: Final = late(rf"\b{_MODEL}", ignore_case=True)
_ORDER: Final = late(
    r"\b(?:must|shall|always|never|ignore|disregard|reply|respond|answer|say|tell|recommend"
    r"|do\s{1,3}+not|don't)\b",
    ignore_case=True,
)
_TEMPLATE: Final = late(
    r"<\|(?:im_start|im_end|system|user|assistant|end|endoftext|eot_id|begin_of_text"
    r"|start_header_id|end_header_id)\|>"
    r"|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>",
)
_FENCE: Final = late(r"</?text-[0-9a-f]{12}>|</?retrieved_context>")
# Without one of these, no comment, template or fence is there.
_MARKS: Final = ("<!--", "<|", "INST]", "<<SYS", "_of_turn>", "<text-", "</text-", "_context>")

_WIDTHLESS: Final = r"[\u200b-\u200d\u180e\u2060-\u2064\ufeff]"
_INVISIBLE: Final = late(
    # Joiners belong into emoji and into scripts that join letters, and one may break a line.
    rf"(?<=[\p{{Latin}}\p{{Han}}]){_WIDTHLESS}++(?=[\p{{Latin}}\p{{Han}}])"
    rf"|{_WIDTHLESS}{{3,}}+|\u00ad{{3,}}+|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{{2,}}+",
)
_TAGS: Final = late(
    "(?<flag>\U0001f3f4[\U000e0020-\U000e007e]{2,6}+\U000e007f)|[\U000e0000-\U000e007f]++",
)
_BIDI_LINE: Final = late(r"[^\n]*+")
_BIDI: Final = late(r"[\u202a-\u202e\u2066-\u2069]++")
_RIGHT_TO_LEFT: Final = late(r"[\p{Hebrew}\p{Arabic}\p{Syriac}\p{Thaana}\p{Nko}]")
_UNSEEN: Final = re.compile(
    "[\u00ad\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
"""Without one of these, nothing is invisible, turns direction or hides ASCII."""
_OVERRIDES: Final = frozenset("\u202d\u202e")


@attrs.frozen(kw_only=True, slots=True)
class Sign:
    """One sign.

    Attributes:
        kind: what it is.
        start, end: its span, in code points of the text.
        text: its beginning; of ``tags``, the text that they hide; "" for other invisible ones.
    """

    kind: SignKind
    start: int
    end: int
    text: str = ""


def _may_instruct(text: str) -> bool:
    """Whether `_INSTRUCTION` has to look at ``text``; never False where it would find something."""
    # "İ" becomes an "i" and a dot, and a pattern takes it for an "i".
    folded = text.casefold().replace("\u0307", "")
    holds = folded.__contains__
    for word, rows in _BY_WORD.items():
        if word in folded and any(all(any(map(holds, part)) for part in row) for row in rows):
            return True
    is_you = "you" in folded
    begins = (is_you and "now" in folded) or (
        (is_you or any(map(holds, _BEFORE_MODELS)))
        and (any(map(holds, _MODEL_WORDS)) or _AI.search(folded) is not None)
    )
    return begins and _BEGINNING.search(folded) is not None


def _instructions(text: str) -> Iterator[regex.Match[str]]:
    return _INSTRUCTION.finditer(text) if _may_instruct(text) else iter(())


def suspicious(text: str) -> tuple[Sign, ...]:
    """Return the signs in ``text``, in their order, the first 32."""
    signs = [_sign("instruction", text, found) for found in _instructions(text)]
    if ("<" in text or "[" in text) and any(map(text.__contains__, _MARKS)):
        signs += _comments(text)
        signs += (_sign("template", text, found) for found in _TEMPLATE.finditer(text))
        signs += (_sign("fence", text, found) for found in _FENCE.finditer(text))
    if not text.isascii() and _UNSEEN.search(text):
        signs += _unseen(text)
    if len(signs) < 2:
        return tuple(signs)
    comments = [(each.start, each.end) for each in signs if each.kind == "comment"]
    kept = [
        each
        for each in signs
        if each.kind != "instruction" or not any(a <= each.start < b for a, b in comments[:_MOST])
    ]
    return tuple(sorted(kept, key=lambda each: (each.start, each.kind))[:_MOST])


def _sign(kind: SignKind, text: str, found: regex.Match[str]) -> Sign:
    return _at(kind, text, found.start(), found.end())


def _at(kind: SignKind, text: str, start: int, end: int) -> Sign:
    shown = " ".join(text[start : min(end, start + _LONGEST)].split())
    return Sign(kind=kind, start=start, end=end, text=shown)


def _comments(text: str) -> Iterator[Sign]:
    for found in _COMMENT.finditer(text):
        body = found.group()
        if _INSTRUCTION.search(body) or (_OF_A_MODEL.search(body) and _ORDER.search(body)):
            yield _sign("comment", text, found)


def _unseen(text: str) -> Iterator[Sign]:
    for found in _INVISIBLE.finditer(text):
        yield Sign(kind="invisible", start=found.start(), end=found.end())
    for found in _TAGS.finditer(text):
        if found["flag"] is None:
            hidden = "".join(chr(ord(each) - 0xE0000) for each in found.group()[:_LONGEST])
            shown = "".join(each for each in hidden if each.isprintable())
            yield Sign(kind="tags", start=found.start(), end=found.end(), text=shown)
    if _BIDI.search(text) is None:
        return
    for line in _BIDI_LINE.finditer(text):
        mixed: bool | None = None
        for found in _BIDI.finditer(text, line.start(), line.end()):
            if mixed is None:
                mixed = _RIGHT_TO_LEFT.search(text, line.start(), line.end()) is not None
            if not mixed or _OVERRIDES.intersection(found.group()):
                yield Sign(kind="bidi", start=found.start(), end=found.end())
