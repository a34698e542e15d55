"""The folders of a dataset, derived from document names, and the inputs of their layers.

A folder's name is every beginning of a document's name that ends in "/"; "" is the dataset. Its
children are the documents directly in it and the folders directly in it, those that have an
abstract (L0); a folder counts where a document below it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from triptych.contracts import LayerRepo
from triptych.contracts.pages import pages_of
from triptych.errors import ValidationError
from triptych.records import MAX_NAME_BYTES, DerivedLayer, DocumentSummary, Layer
from triptych.signatures import SummariesDigest

_PAGE = 500
_NEAR_PAGE = 64
_LAST = "\U0010ffff" * (MAX_NAME_BYTES // 4)
"""Behind a beginning: not below any name that begins so."""


def is_folder(name: str) -> bool:
    """Whether a layer of this name belongs to the dataset or a folder, not to a document."""
    return not name or name.endswith("/")


def parent_of(name: str) -> str:
    """The folder that a document or folder lies in; "" is the dataset, which lies in itself."""
    return name[: name[:-1].rfind("/") + 1]


def line_size(name: str, abstract: str) -> int:
    """The bytes of the line that tells a model of a child; 0 for a blank abstract."""
    return len(name.encode()) + len(abstract.encode()) + 5 if abstract.strip() else 0


@attrs.frozen(slots=True)
class Folder:
    """A folder all of whose documents were seen.

    Attributes:
        abstract, overview: its own layers, None without one.
        documents: how many documents are below it.
        children: how many of its children have an abstract.
        pending: whether a child's abstract is about to be made.
        expected: how many children have none yet, or a blank one, and are about to get one.
        input_sig: the digest of its children's abstracts.
        size: the bytes of the lines that tell a model of them.
    """

    name: str
    abstract: DerivedLayer | None
    overview: DerivedLayer | None
    documents: int
    children: int
    pending: bool
    expected: int
    input_sig: str
    size: int


@attrs.define(slots=True)
class _Open:
    name: str
    abstract: DerivedLayer | None = None
    overview: DerivedLayer | None = None
    documents: int = 0
    told: int = 0  # documents below it that have an abstract
    children: int = 0
    pending: bool = False
    expected: int = 0
    size: int = 0
    taken: SummariesDigest = attrs.field(factory=SummariesDigest)


class FolderWalk:
    """Takes names in order, and hands each folder on when its last name is past, inner ones first.

    Names of one beginning stand together, so only the folders that lead to the current name are
    held: the memory it takes is that of one path. ``past`` is given each folder, and answers
    whether its abstract is about to be made.
    """

    def __init__(self, past: Callable[[Folder], bool]) -> None:
        self._past = past
        self._stack = [_Open("")]
        self._flat = SummariesDigest()

    @property
    def flat(self) -> str:
        """The digest of all documents' abstracts so far, whatever folder they lie in."""
        return self._flat.result()

    def document(self, name: str, abstract: str | None, *, pending: bool = False) -> None:
        """The next document and its abstract."""
        self._reach(parent_of(name))
        top = self._stack[-1]
        top.documents += 1
        if abstract is not None:
            self._flat.add(name, abstract)
            top.told += 1
        _add(top, name, abstract, pending=pending)

    def folder(
        self, name: str, abstract: DerivedLayer | None, overview: DerivedLayer | None = None
    ) -> None:
        """A folder's own layers, which come before the documents in it."""
        self._reach(name)
        self._stack[-1].abstract = abstract
        self._stack[-1].overview = overview

    def close(self) -> None:
        """There are no more names: hand on what is left, the dataset last."""
        while self._stack:
            self._pop()

    def _reach(self, folder: str) -> None:
        """Leave folders, and enter others, until in ``folder``."""
        while not folder.startswith(self._stack[-1].name):
            self._pop()
        while (inside := self._stack[-1].name) != folder:
            self._stack.append(_Open(folder[: folder.index("/", len(inside)) + 1]))

    def _pop(self) -> None:
        top = self._stack.pop()
        pending = self._past(
            Folder(
                name=top.name,
                abstract=top.abstract,
                overview=top.overview,
                documents=top.documents,
                children=top.children if top.told else 0,
                pending=top.pending,
                expected=top.expected,
                input_sig=top.taken.result(),
                size=top.size,
            )
        )
        if self._stack:
            around = self._stack[-1]
            around.documents += top.documents
            around.told += top.told
            # A folder none of whose documents has an abstract counts as one without.
            told = top.abstract.content if top.told and top.abstract is not None else None
            _add(around, top.name, told, pending=pending)


def _add(folder: _Open, name: str, abstract: str | None, *, pending: bool) -> None:
    size = 0
    if abstract is not None:
        folder.taken.add(name, abstract)
        folder.children += 1
        size = line_size(name, abstract)
    folder.size += size
    folder.pending = folder.pending or pending
    folder.expected += pending and not size


def summaries_of(layers: LayerRepo, dataset_id: str) -> Iterator[DocumentSummary]:
    """The abstracts of a dataset's documents, by name, whatever folder they lie in."""
    for layer in pages_of(layers, dataset_id, Layer.ABSTRACT):
        if not is_folder(layer.doc_name):
            yield DocumentSummary(name=layer.doc_name, abstract=layer.content)


def check_summaries(summaries: Iterable[DocumentSummary]) -> list[DocumentSummary]:
    """``summaries`` as a list, if it holds nothing else."""
    several = isinstance(summaries, Iterable)
    below = [*summaries] if several else []
    for each in below if several else [summaries]:
        if not several or not isinstance(each, DocumentSummary):
            raise ValidationError(
                f"summaries takes several DocumentSummary records, not {type(each).__name__}: give "
                "a list of DocumentSummary(name=…, abstract=…)"
            )
    return below


def folder_inputs(abstracts: Iterable[DerivedLayer]) -> dict[str, frozenset[str]]:
    """What layers of each folder may be made from to be fresh: digests by folder.

    For the dataset that is its children's abstracts, or all its documents'. A folder without
    any has no entry.
    """
    found: dict[str, frozenset[str]] = {}

    def past(folder: Folder) -> bool:
        digests = [folder.input_sig] if folder.name else [folder.input_sig, walk.flat]
        if folder.children or not folder.name:
            found[folder.name] = frozenset(digests)
        return False

    walk = FolderWalk(past)
    for layer in abstracts:
        if is_folder(layer.doc_name):
            walk.folder(layer.doc_name, layer)
        else:
            walk.document(layer.doc_name, layer.content)
    walk.close()
    return found


def children(layers: LayerRepo, dataset_id: str, folder: str) -> list[DocumentSummary]:
    """The children of ``folder`` with their abstracts, by name.

    Of a folder in it no more is read than shows that a document below it has an abstract.
    """
    return children_of(_near(layers, dataset_id, folder), folder)


def _near(layers: LayerRepo, dataset_id: str, folder: str) -> Iterator[DerivedLayer]:
    """The abstracts in ``folder``, and below each folder in it those up to the first document's."""
    after: str | None = None
    while page := layers.page(
        dataset_id, Layer.ABSTRACT, prefix=folder, after=after, limit=_NEAR_PAGE
    ):
        seen = ""  # the folder in it of which enough was read
        for layer in page:
            after = layer.doc_name
            if seen and after.startswith(seen):
                continue
            yield layer
            slash = after.find("/", len(folder))
            seen = after[: slash + 1] if slash >= 0 and not is_folder(after) else ""
        if seen:
            after = seen + _LAST  # what is left of it is leapt over


def children_of(abstracts: Iterable[DerivedLayer], folder: str) -> list[DocumentSummary]:
    """The children of ``folder`` with their abstracts, by name, out of all that is below it."""
    found: list[DocumentSummary] = []
    inner: DerivedLayer | None = None  # a folder in it, until a document below it is seen
    for layer in abstracts:
        name = layer.doc_name
        if name == folder:
            continue
        if is_folder(name):
            if parent_of(name) == folder:
                inner = layer
            continue
        if inner is not None and name.startswith(inner.doc_name):
            found.append(DocumentSummary(name=inner.doc_name, abstract=inner.content))
            inner = None
        if parent_of(name) == folder:
            found.append(DocumentSummary(name=name, abstract=layer.content))
    return found
