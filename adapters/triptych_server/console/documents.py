"""Datasets, their documents, and all that is known of one of them."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import attrs

from triptych.chunking import (
    Chunker,
    ChunkSpec,
    FixedWindowChunker,
    MarkdownChunker,
    SentenceWindowChunker,
    line_starts,
)
from triptych.errors import ConflictError, NotFoundError, TriptychError, ValidationError
from triptych.records import DocumentInfo, Hit
from triptych.service import KnowledgeBase
from triptych.text import diff_lines
from triptych_server.console.derivation import LISTED, derived_of, outline_of
from triptych_server.console.file_pages import page_beside
from triptych_server.console.folders import offered
from triptych_server.console.markdown import LONGEST, is_markdown, rendered
from triptych_server.console.site import Made, html, render, see_other
from triptych_server.console.visit import Visit, may, path_of, where_of
from triptych_server.http.responses import ProblemError, problem_of

_LISTED: Final = 1_000
_READ: Final = 5_000
"""Names of a dataset that are read and compared whatever their case."""
_DEEPEST: Final = 20
CHUNKS: Final = 2_000
"""Chunks of a document that are drawn; of more, a sentence says so."""
_DRAWN: Final = 400_000
"""Code points of a document that are drawn; what comes after is left out, with a word."""
_LINKED: Final = 1_000
_NOTES: Final = 5_000
"""Documents among which one is looked for that a link calls by less than its name."""
"""Names that a document's links may mean, which are looked up."""
_CUT: Final = 40_000
"""Code points of a text that are cut by a chunker that is tried."""
_SORTS: Final = {
    "$name": "name",
    "-$updated_at": "changed last",
    "$updated_at": "changed first",
    "$expires_at": "expires first",
}


class Folder(NamedTuple):
    """A folder of names: its own name, the prefix of what is in it, and that."""

    name: str
    prefix: str
    folders: dict[str, Folder]
    documents: list[DocumentInfo]

    @property
    def size(self) -> int:
        """How many documents are in it, at any depth."""
        return len(self.documents) + sum(each.size for each in self.folders.values())


def tree(infos: Sequence[DocumentInfo], prefix: str) -> Folder:
    """Documents whose names begin with a prefix, by the folders that follow it."""
    root = Folder("", prefix, {}, [])
    for info in infos:
        at = root
        for part in info.name.removeprefix(prefix).split("/", _DEEPEST)[:-1]:
            folder = Folder(part, f"{at.prefix}{part}/", {}, [])
            at = at.folders.setdefault(part, folder)
        at.documents.append(info)
    return root


def listing(visit: Visit) -> Made:
    """A dataset's documents: by folder, or in a row where they are filtered by name or sorted."""
    dataset_id = visit.part("dataset_id")
    prefix, after, part = visit.one("prefix"), visit.one("after"), visit.one("part")
    sort = visit.one_of("sort", _SORTS, "$name")
    where = where_of(visit)

    def found(where: Mapping[str, Any]) -> Sequence[DocumentInfo]:
        return visit.service.list_documents(
            dataset_id, prefix=prefix, after=after, limit=_READ + 1, where=where or None, sort=sort
        )

    infos = found(where)
    if part and len(infos) > _READ:  # these are looked through as the store does it: by case
        infos = found({"$and": [*filter(None, [where]), {"$name": {"$contains": part}}]})
    elif part:
        infos = [each for each in infos if part.casefold() in each.name.casefold()]
    (stats,) = visit.service.stats(dataset_id)
    shown = infos[:_LISTED]
    return {
        "dataset_id": dataset_id,
        "stats": stats,
        "infos": shown,
        "tree": tree(shown, prefix) if sort == "$name" and not part else None,
        "more": shown[-1].name if len(infos) > _LISTED else None,
        "prefix": prefix,
        "part": part,
        "sort": sort,
        "sorts": _SORTS,
        "folders": offered(visit)["folders"],
    }


@attrs.frozen(kw_only=True)
class Piece:
    """A part of a document's text: of one chunk, of two that overlap, or of none.

    ``chunks`` are the indexes of those that it is part of; ``passage`` says that it is of the
    passage that was asked for, ``anchor`` is what a heading at its beginning is linked by, and
    ``line`` the number of the line that it begins, 0 within one.
    """

    text: str
    chunks: tuple[int, ...]
    passage: bool = False
    anchor: str = ""
    line: int = 0


class Span(NamedTuple):
    """Where a chunk begins and ends in its text, in code points."""

    number: int
    start: int
    end: int


def pieces(
    content: str,
    chunks: Sequence[Span],
    passage: tuple[int, int],
    headings: Collection[int] = (),
    lines: Sequence[int] = (),
) -> list[Piece]:
    """A text cut wherever a chunk, the passage or a heading begins or ends, and where ``lines``
    begin; joined it is the text."""
    start, end = passage
    cuts = (*passage, *headings, *lines)
    edges = {0, len(content), *(min(each, len(content)) for each in cuts)}
    number_at = {each: number for number, each in enumerate(lines, start=1)}
    for chunk in chunks:
        edges |= {min(chunk.start, len(content)), min(chunk.end, len(content))}
    found = []
    to_come = deque(sorted(chunks, key=lambda each: each.start))
    here: list[Span] = []
    for left, right in pairwise(sorted(edges)):
        while to_come and to_come[0].start <= left:
            here.append(to_come.popleft())
        here = [each for each in here if left < each.end]
        of = tuple(each.number for each in here)
        text = content[left:right]
        anchor = f"at-{left}" if left in headings else ""
        is_passage, line = start <= left < end, number_at.get(left, 0)
        found.append(Piece(text=text, chunks=of, passage=is_passage, anchor=anchor, line=line))
    return found


def document(visit: Visit) -> Made:
    """A document as it is read, or its source with its chunks; its layers, its versions."""
    service = visit.service
    dataset_id, name = map(visit.part, ("dataset_id", "name"))
    history = list(service.history(dataset_id, name))
    wanted = visit.number("v", 0)
    current = service.get_document(dataset_id, name)
    shown = current
    if wanted and wanted != current.version:
        shown = service.get_document(dataset_id, name, version=wanted)
    chunks, more = chunks_of(service, dataset_id, name) if shown is current else ([], False)
    passage = (visit.number("from", 0), visit.number("to", 0))
    view = visit.one_of("view", ("read", "source"), "read")
    content = shown.content[:_DRAWN]
    outline = outline_of(shown, _DRAWN)
    anchors = [each.start for each in outline[:LISTED]]
    as_markdown = is_markdown(name, shown.metadata)
    text = None
    if view == "read" and as_markdown and len(content) <= LONGEST:
        text = rendered(
            content,
            name,
            passage=passage,
            anchors=anchors,
            known=partial(_known, service, dataset_id),
            called=partial(_called, service, dataset_id, name),
            link=lambda other: visit.root + path_of("documents", dataset_id, other),
        )
    spans = [Span(each.chunk_index, each.start, each.end) for each in chunks]
    layers = {each: service.layer(dataset_id, name, each) for each in ("L0", "L1")}
    return {
        "dataset_id": dataset_id,
        "name": name,
        "shown": shown,
        "current": current,
        "history": history,
        "chunks": chunks,
        "more_chunks": more,
        "view": view,
        "text": text,
        "file": _file(visit, history[0]),
        "unread": as_markdown and text is None,
        "pieces": pieces(
            content,
            spans if view == "source" else [],
            passage,
            anchors,
            line_starts(content),
        )
        if text is None
        else [],
        "page": page_beside(visit, shown, passage),
        "outline": outline[:LISTED],
        "more_headings": max(len(outline) - LISTED, 0),
        "cut": len(shown.content) - len(content),
        "layers": layers,
        "derived": list(derived_of(current, chunks, layers)) if shown is current else [],
        "moments": {each.version: each.updated_at for each in history},
        "diff": _diff(visit, dataset_id, name),
    }


def _file(visit: Visit, info: DocumentInfo) -> str:
    """The path of the file that a document comes from, for whoever sees files of this machine; ""
    where it is not there."""
    locate = visit.server.service.options.locate
    if locate is None or not may(visit.server.check_sees_all, visit.service, "files are"):
        return ""
    path = locate()(info)
    return str(path) if path is not None and path.is_file() else ""


def _known(service: KnowledgeBase, dataset_id: str, names: Collection[str]) -> set[str]:
    """Which of the names are documents of the dataset."""
    where = {"$name": {"$in": sorted(names)[:_LINKED]}}
    return {each.name for each in service.list_documents(dataset_id, where=where)}


def _called(
    service: KnowledgeBase, dataset_id: str, name: str, links: Collection[str]
) -> dict[str, str]:
    """The document that each link of Obsidian in the document ``name`` means: by the end of its
    path, or one of its aliases; of several the nearest, then the one with the shortest path."""
    here = name.split("/")[:-1]
    best: dict[str, tuple[bool, int, int, str]] = {}
    asked = {_folded(each) for each in links}
    for info in service.list_documents(dataset_id, limit=_NOTES):
        parts = _folded(info.name).split("/")
        ends = {"/".join(parts[at:]) for at in range(len(parts))}
        given = info.metadata.get("aliases", ())
        aliases = map(_folded, map(str, given if isinstance(given, list | tuple) else [given]))
        shared = len(posixpath.commonprefix([here, info.name.split("/")[:-1]]))
        for each in asked & {*ends, *aliases}:
            rank = (each not in ends, -shared, len(parts), info.name)
            best[each] = min(rank, best.get(each, rank))
    return {each: best[_folded(each)][-1] for each in links if _folded(each) in best}


def _folded(name: str) -> str:
    return name.casefold().removesuffix(".md")


def chunks_of(service: KnowledgeBase, dataset_id: str, name: str) -> tuple[list[Hit], bool]:
    """A document's first chunks in their order, and whether there are more."""
    where = {"$name": {"$eq": name}}
    hits = service.search("", dataset_id=dataset_id, where=where, top_k=CHUNKS + 1).hits
    return list(hits[:CHUNKS]), len(hits) > CHUNKS


def _diff(visit: Visit, dataset_id: str, name: str) -> Sequence[tuple[str, str]]:
    """The lines of the difference that was asked for, each with its kind."""
    old = visit.number("old", 0)
    if not old:
        return []
    new = visit.number("new", 0) or None
    return list(diff_lines(visit.service.diff(dataset_id, name, old, new)))


def change_document(visit: Visit) -> Made:
    """Restore a version, make what is stale again, or delete a document that was named in full.

    What others stored since the page was made is neither replaced nor deleted.
    """
    try:
        return _change_document(visit)
    except ConflictError as error:
        hint = "open the page again: others have changed the document since it was shown"
        found = problem_of(error)
        raise ProblemError(found.status, found.code, found.message, hint=hint) from error


def _change_document(visit: Visit) -> Made:
    service = visit.service
    seen = visit.number("seen", 0) or None
    dataset_id, name = map(visit.part, ("dataset_id", "name"))
    here = path_of("documents", dataset_id, name)
    match visit.one("do"):
        case "restore":
            version = visit.number("version", 0, least=1)
            service.restore(dataset_id, name, version, if_version=seen)
            done = "restored"
        case "rebuild":
            service.rebuild(dataset_id=dataset_id, doc_name=name)
            done = "rebuilt"
        case "delete" if visit.one("confirm") != name:
            return see_other(visit.request, f"{here}?unconfirmed=1#delete")
        case "delete":
            if not service.delete_document(dataset_id, name, if_version=seen):
                raise NotFoundError(f"there is no document {name!r:.100} any more")
            return see_other(visit.request, f"{path_of('datasets', dataset_id)}?done=deleted")
        case unknown:
            raise ValidationError(f"there is no action {unknown!r:.60}")
    return see_other(visit.request, f"{here}?done={done}")


def put(visit: Visit) -> Made:
    """Store a text that was typed or dropped."""
    dataset_id, name = visit.one("dataset", "default"), visit.one("name")
    content = dict(visit.form).get("content", "").replace("\r\n", "\n")
    try:
        visit.service.put_document(
            dataset_id, name, content, if_version=None if visit.one("replace") else 0
        )
    except ConflictError:
        taken = f"there is a document {name!r} already: choose another name, or replace it"
        return html(render("put", visit, **new(visit, taken)), 409)
    return see_other(visit.request, f"{path_of('documents', dataset_id, name)}?done=put")


def new(visit: Visit, taken: str = "") -> dict[str, Any]:
    """The form of a new document; ``taken`` says that there is one of its name."""
    return {"datasets": list(visit.service.list_datasets()), "taken": taken}


# Chunkers


_CHUNKERS: Final[dict[str, Callable[[int, int], Chunker]]] = {
    "markdown": lambda size, overlap: MarkdownChunker(size=size, overlap=overlap),
    "fixed windows": lambda size, overlap: FixedWindowChunker(size=size, overlap=overlap),
    "sentence windows": lambda size, overlap: SentenceWindowChunker(size=size),
}
_SIZE: Final = 800


def sandbox(visit: Visit) -> Made:
    """A text cut by a chunker, with its sizes; nothing is written.

    The text is a document of a dataset, or one that was pasted.
    """
    text, failed = visit.one("text"), None
    if (dataset_id := visit.one("dataset")) and (name := visit.one("name")):
        text = visit.service.get_document(dataset_id, name).content
    whole = text.replace("\r\n", "\n")
    text = whole[:_CUT]
    chosen = visit.one_of("chunker", _CHUNKERS, "markdown")
    size = visit.number("size", _SIZE, least=50, most=20_000)
    overlap = visit.number("overlap", 0, most=10_000)
    specs: Sequence[ChunkSpec] = ()
    try:
        specs = _CHUNKERS[chosen](size, overlap).chunk(text)
    except TriptychError as error:
        failed = error
    spans = [Span(at, each.start, each.end) for at, each in enumerate(specs[:CHUNKS])]
    return {
        "chunkers": list(_CHUNKERS),
        "chosen": chosen,
        "size": size,
        "overlap": overlap,
        "text": text,
        "specs": specs,
        "most": CHUNKS,
        "left_out": len(whole) - len(text),
        "pieces": pieces(text, spans, (0, 0)),
        "failed": failed,
    }
