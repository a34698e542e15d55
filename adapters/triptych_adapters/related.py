"""What code and documents are related to by what they say: names that are defined and used, links.

Nothing is stored for it. The outlines and words that a put indexes anyhow answer it, so that it is
as fresh as a search, for each caller what that caller may see, and the same over HTTP.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from urllib.parse import unquote

import attrs

from triptych.errors import NotFoundError
from triptych.layers.code_syntax import masked, syntax_of
from triptych.question_log import unlogged
from triptych.records import Hit, Mode, Query, check_whole
from triptych.service import KnowledgeBase

_NAME: Final = re.compile(r"[^\W\d]\w{2,}")
# In a chunk of several small definitions, which has no heading of its own.
_SMALL: Final = re.compile(
    r"\b(?:class|def|fn|func|function|interface|struct|enum|trait|type|module|impl)\s+"
    r"(?:\([^)]*\)\s*)?([^\W\d]\w{2,})"
)
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_LINK: Final = re.compile(
    r"\]\(<?([^)>#\s]+)|\[\[([^\]\n|#]+)|(?<![\w./%-])[\w./%-]*[\w%-]\.\w{1,8}\b"
)
_PAGE: Final = re.compile(r"\.html?$")
_Here = Callable[[Hit], bool]
_MOST_NAMES: Final = 300
_MOST_LOOKED_AT: Final = 500
_MOST_DEFINED: Final = 20


@attrs.frozen(kw_only=True)
class Related:
    """What a place is related to; of each kind the best first.

    Attributes:
        definitions: of the names that are used there, where they are defined: the first chunk of
            each definition, those first whose name is defined in the fewest places.
        users: chunks elsewhere that have a name which is defined there as a word.
        cited: the documents that it links to, or whose path it quotes, by name.
        citing: chunks of other documents that link to it, or quote its path.
    """

    definitions: Sequence[Hit] = ()
    users: Sequence[Hit] = ()
    cited: Sequence[str] = ()
    citing: Sequence[Hit] = ()


@unlogged()
def related(
    kb: KnowledgeBase, dataset_id: str, name: str, line: int | None = None, *, top_k: int = 10
) -> Related:
    """Return what a document, or the part of it at a ``line``, is related to in its dataset.

    Names are compared as they are spelt; those in comments and strings of code do not count, and no
    names in f-strings. A definition is a section of code that the chunker of
    code outlines, or of text a heading of one word. ``top_k`` is the most of each kind.

    Raises:
        NotFoundError: there is no such document, or no such line in it.
        ValidationError: an argument is out of its range.
    """
    check_whole(top_k, "top_k", least=1)
    document = kb.get_document(dataset_id, name)
    text, first, last = document.content, 1, document.content.count("\n") + 1
    code = _code(name, text)
    chunks = _listed(kb, dataset_id, {"doc_name": name}, _MOST_LOOKED_AT)
    if line is not None:
        check_whole(line, "line", least=1)
        if line > last:
            raise NotFoundError(f"{name!r} has {last} lines, and no line {line}")
        around = [hit for hit in chunks if hit.start_line <= line]
        chunks = around[-1:]
        first = chunks[0].start_line if chunks else line
        last = max(chunks[0].end_line if chunks else line, line)
        text, code = (
            "\n".join(each.split("\n")[first - 1 : last]) for each in (document.content, code)
        )

    def is_here(hit: Hit) -> bool:
        return hit.doc_name == name and first <= hit.start_line <= last

    own = list(
        dict.fromkeys(each for hit in chunks for each in _defined(hit, alone=line is not None))
    )
    # In prose names are what stands as code.
    said = code if document.metadata.get("kind") == "code" else " ".join(_CODE.findall(text))
    used = [each for each in dict.fromkeys(_NAME.findall(said)) if each not in own]
    definitions = _definitions(kb, dataset_id, used[:_MOST_NAMES])
    return Related(
        definitions=[hit for hit in definitions if not is_here(hit)][:top_k],
        users=_users(kb, dataset_id, own[:_MOST_DEFINED], is_here, top_k),
        cited=_cited(kb, dataset_id, name, text)[:top_k],
        citing=_citing(kb, dataset_id, name, top_k),
    )


def _code(name: str, text: str) -> str:
    """The text with blanks for comments and strings, line ends kept; of no code as it is."""
    syntax = syntax_of(name)
    return text if syntax is None else masked(text, syntax)[0]


def _defined(hit: Hit, *, alone: bool) -> Sequence[str]:
    """The names that a chunk defines; ``alone`` without those around it, but for the class of a
    special method."""
    path = [each for each in hit.heading_path if not each.startswith("__")]
    if hit.heading_path:
        return path[-1:] if alone else path
    return _SMALL.findall(hit.content)


def _listed(
    kb: KnowledgeBase, dataset_id: str, where: dict[str, object], most: int
) -> Sequence[Hit]:
    """The chunks that pass a filter, ordered by document and place."""
    query = Query(text="", dataset_id=dataset_id, where=where, top_k=most)
    return sorted(kb.search(query).hits, key=lambda hit: (hit.doc_name, hit.start_line))


def _definitions(kb: KnowledgeBase, dataset_id: str, names: Sequence[str]) -> Sequence[Hit]:
    asked = {each: at for at, each in enumerate(names)}
    found: dict[tuple[str, tuple[str, ...], str], Hit] = {}
    where: dict[str, object] = {"heading": list(names)}
    for hit in _listed(kb, dataset_id, where, _MOST_LOOKED_AT) if names else ():
        for each in hit.heading_path[-1:] or _SMALL.findall(hit.content):
            if each in asked:
                found.setdefault((hit.doc_name, hit.heading_path, each), hit)
    places = Counter(each for _, _, each in found)
    ordered = sorted(found, key=lambda key: (places[key[2]], asked[key[2]]))
    return list({(h.doc_name, h.chunk_index): h for h in map(found.__getitem__, ordered)}.values())


def _users(
    kb: KnowledgeBase, dataset_id: str, names: Sequence[str], is_here: _Here, top_k: int
) -> Sequence[Hit]:
    found: dict[tuple[str, int], Hit] = {}
    read: dict[str, list[str]] = {}

    def code(hit: Hit) -> str:
        """A chunk may begin within a string: the whole document tells."""
        if syntax_of(hit.doc_name) is None:
            return hit.content
        if hit.doc_name not in read:
            whole = kb.get_document(dataset_id, hit.doc_name).content
            read[hit.doc_name] = _code(hit.doc_name, whole).split("\n")
        return "\n".join(read[hit.doc_name][hit.start_line - 1 : hit.end_line])

    for each in names:
        for hit in _holding(kb, dataset_id, each, top_k):
            if not is_here(hit) and re.search(rf"(?<!\w){re.escape(each)}(?!\w)", code(hit)):
                found.setdefault((hit.doc_name, hit.chunk_index), hit)
    return list(found.values())[:top_k]


def _paths(name: str, text: str) -> Iterator[str]:
    """What the links and paths in the text of a document may name: from its folder, or the top; of
    a page that is made from Markdown, and of ``[[a link]]``, the file in Markdown, too."""
    folder = posixpath.dirname(name)
    for found in _LINK.finditer(text):
        target = unquote(found[1] or found[0])
        targets = [target]
        if found[2]:
            targets = [found[2].strip(), f"{found[2].strip()}.md"]
        elif _PAGE.search(target):
            targets.append(_PAGE.sub(".md", target))
        for each in targets:
            yield posixpath.normpath(posixpath.join(folder, each))
            yield posixpath.normpath(each.lstrip("/"))


def _cited(kb: KnowledgeBase, dataset_id: str, name: str, text: str) -> list[str]:
    asked = dict.fromkeys(_paths(name, text))
    names = [each for each in asked if each not in (name, ".") and not each.startswith("..")]
    if not names:
        return []
    there = {info.name for info in kb.list_documents(dataset_id, where={"doc_name": names})}
    return [each for each in names if each in there]


def _citing(kb: KnowledgeBase, dataset_id: str, name: str, top_k: int) -> Sequence[Hit]:
    base = posixpath.basename(name)
    stem = base.removesuffix(".md")
    found: dict[tuple[str, int], Hit] = {}
    for said in (base,) if stem == base else (base, f"{stem}.html", stem):
        for hit in _holding(kb, dataset_id, said, max(_MOST_DEFINED, 2 * top_k)):
            if hit.doc_name != name and name in _paths(hit.doc_name, hit.content):
                found.setdefault((hit.doc_name, hit.chunk_index), hit)
    return list(found.values())[:top_k]


def _holding(kb: KnowledgeBase, dataset_id: str, text: str, top_k: int) -> Iterator[Hit]:
    """Chunks that hold a text as it is, as far as its words go."""
    query = Query(text=f'"{text}"', dataset_id=dataset_id, syntax=True, mode=Mode.BM25, top_k=top_k)
    yield from kb.search(query).hits
