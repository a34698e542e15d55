"""What in an HTML page may be beside its text, and whether it is: judged by what it holds."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs


def words_of(text: str) -> frozenset[str]:
    """The words of ``text`` as a set."""
    return frozenset(text.split())


UNSHOWN = words_of("script style template datalist annotation annotation-xml rp")
"""Elements that no browser shows; nothing of them is text of the page."""

HIDDEN, FALLBACK, CONTROL = "hidden", "fallback", "control"
FRAME, BESIDE, NAMED = "frame", "beside", "named"
UNJUDGED = frozenset((HIDDEN, FALLBACK, CONTROL))
_REASONS = {
    HIDDEN: "hidden",
    FALLBACK: "shown only where something else cannot be",
    CONTROL: "a control",
    FRAME: "around the text",
    BESIDE: "beside the text",
    NAMED: "links beside the text",
}


def _kinds(**names: str) -> dict[str, str]:
    return {name: kind for kind, each in names.items() for name in each.split()}


_ELEMENTS = _kinds(
    fallback="audio canvas iframe noembed noframes noscript object video",
    control="button select textarea",
    frame="footer header menu nav search",
    beside="aside",
)
_ROLES = _kinds(
    frame="""alertdialog banner contentinfo dialog menu menubar navigation search toolbar
    tooltip""",
    beside="complementary",
)
_CLASSES = _kinds(
    control="headerlink",
    frame="""breadcrumb breadcrumbs cookie cookie-banner cookie-consent footer menu nav navbar
    navigation newsletter pagination share sharing skip-link social""",
    beside="""ad ads advert advertisement noprint related related-posts sidebar sr-only
    table-of-contents toc toctree-wrapper visually-hidden""",
)
SIGNED = frozenset((*_ELEMENTS, "main", "article", "dialog"))
"""Elements that are signs, or areas, without any attribute."""
_NEVER = words_of("html body main article h1 h2 h3 h4 h5 h6")
_CLASS = re.compile(r"[\w-]+")
_HIDING = re.compile(r"(?<![\w-])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))", re.I)
_SENTENCE = re.compile(r"[.!?…][\"'”’»)\]]*(?:\s|\Z)|[。！？।؟]")
_LEAST_SENTENCE = 20
_LONG_LINKS = 3_000
_LEAST_FACTS = 100
_LEAST_PROSE = {FRAME: 600, BESIDE: 1}
_LEAST_SHARE = 200
_SHARE = 0.3


@attrs.define(slots=True, eq=False)
class Region:
    """An element with a sign that it is not the page's text, and what it holds, in characters.

    ``prose`` is what stands in blocks with a sentence, outside of links; ``inner`` is true in the
    ``<main>`` or an ``<article>``, ``headed`` with a heading. ``cause`` is the outermost region for
    which it is left out, None if it is kept; ``hiding`` the innermost, itself or around it, that is
    left out whatever it holds.
    """

    place: str
    kind: str
    inner: bool
    parent: Region | None
    headed: bool = False
    cause: Region | None = None
    hiding: Region | None = None
    size: int = 0
    linked: int = 0
    prose: int = 0

    def __attrs_post_init__(self) -> None:
        if self.kind in UNJUDGED:
            self.hiding = self
        elif self.parent is not None:
            self.hiding = self.parent.hiding

    @property
    def reason(self) -> str:
        """Why it is left out, in a few words."""
        return _REASONS[self.kind]

    def hold(self, size: int, linked: int, prose: int, *, headed: bool) -> None:
        """Add what it holds."""
        self.headed = self.headed or headed
        self.size += size
        self.linked += linked
        self.prose += prose

    def judge(self, page: int) -> bool:
        """Return whether it is left out, of a page with ``page`` characters outside of links."""
        if self.kind in UNJUDGED:
            return True
        if self.prose >= max(_LEAST_SHARE, _SHARE * page):
            return False
        links = self.linked * 2 >= self.size
        if self.kind == NAMED:
            return links and not (self.prose or self.headed or self.inner)
        if self.inner:
            return links and self.size < _LONG_LINKS
        if self.headed and not links and self.place in ("header", "role banner"):
            return False
        if links or not self.prose:
            return links or self.kind == FRAME or self.size - self.linked < _LEAST_FACTS
        return self.prose < min(_LEAST_PROSE[self.kind], _SHARE * page)


def sign(name: str, attributes: Mapping[str, str], *, scoped: bool) -> tuple[str, str] | None:
    """Return the place and kind of a region that this start tag may begin; None for none.

    An ``id`` is a sign of links without a heading only: generators make ids of titles.
    ``scoped`` is true where a header, footer or button is part of the text around it.
    """
    role = attributes.get("role", "").lower()
    if name in ("html", "body"):
        return None
    if role != "tabpanel" and (
        attributes.get("hidden", "until-found").lower() != "until-found"
        or _HIDING.search(attributes.get("style", ""))
        or (name == "dialog" and "open" not in attributes)
    ):
        return HIDDEN, HIDDEN
    if name in _NEVER or role in ("main", "article"):
        return None
    kind = _ELEMENTS.get(name)
    if kind is not None and not (name in ("header", "footer", "button") and scoped):
        return name, kind
    kind = _ROLES.get(role)
    if kind is not None:
        return f"role {role}", kind
    for attribute in ("class", "id"):
        for each in _CLASS.findall(attributes.get(attribute, "").lower()):
            if each in _CLASSES:
                return f"{attribute} {each}", NAMED if attribute == "id" else _CLASSES[each]
    return ("aria-hidden", BESIDE) if attributes.get("aria-hidden") == "true" else None


def weigh(text: str, linked: int) -> tuple[int, int, int]:
    """Return the characters of ``text``, those in links, and those of its prose."""
    size = len(text)
    linked = min(linked, size)
    prose = size >= _LEAST_SENTENCE and linked * 2 < size and _SENTENCE.search(text) is not None
    return size, linked, size - linked if prose else 0
