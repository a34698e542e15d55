"""The stable prefix of prompts: abstracts and overviews, with the same bytes for every question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final

import attrs

from triptych import deadlines
from triptych._internal.wording import counted
from triptych.answers.options import ContextSettings
from triptych.answers.pieces import FORMATS, Citation, Piece, render_piece, said, whole
from triptych.contracts import DocumentReader, LayerRepo
from triptych.contracts.pages import document_pages, pages_of
from triptych.derivation.folder_tree import is_folder
from triptych.derivation.layers import Inputs, all_inputs, layer_stale_reason
from triptych.records import DerivedLayer, DocumentInfo, FilterTree, Layer
from triptych.signatures import content_sha256

_ANY_NUMBER: Final = 999
_WIDEST: Final = f"text-{'0a' * 12}"


@attrs.frozen(kw_only=True, slots=True)
class ContextPrefix:
    """Abstracts and overviews for the start of a prompt, independent of the question.

    Equal layers of equal documents give equal bytes, in any process and store. Model providers
    charge less for a prompt whose start is in their cache.

    Attributes:
        text: the text of the prefix; "" if nothing fits.
        digest: the SHA-256 of ``text`` in UTF-8, for use as a cache key.
        pieces: its pieces by dataset and name; the numbers of a context continue after them.
        budget: the maximum number of tokens.
        tokens: the number of tokens of ``text``.
        format, counter: as in `ContextPack`.
        mark: the name of the delimiters around each text, derived from the texts; "" without
            ``fence``.
        left_out: the number of documents whose abstract did not fit.
        missing: the number of documents without an abstract.
        warnings: what is left out, missing or stale, and why.
        as_of: the moment or version of its contents, None for the current state.
    """

    text: str
    digest: str
    pieces: tuple[Piece, ...] = ()
    budget: int
    tokens: int
    format: str
    counter: str
    mark: str = ""
    left_out: int = 0
    missing: int = 0
    warnings: tuple[str, ...] = ()
    as_of: int | datetime | None = None


class _Choice:
    """Takes layers while there is room, an overview in place of its abstract, and can undo that."""

    def __init__(self, settings: ContextSettings, fresh_only: bool) -> None:
        self._settings = settings
        self._fresh_only = fresh_only
        self._counter = settings.prefix_counter
        self._budget = settings.prefix_tokens or 0
        form = FORMATS[settings.format]
        self._joint = self._counter.count(form.joint) if form.joint else 0
        self._room = self._budget - self._counter.count(form.opening + form.closing)
        self._taken: list[Piece] = []
        self._held: dict[tuple[str, str], int] = {}  # the cost of each place

    def take(self, piece: Piece) -> bool:
        """Take the piece if there is room, and return whether there was. An abstract that is longer
        than the budget, or an overview that is longer than half of it, is skipped."""
        if self._fresh_only and piece.citation.stale:
            return True
        place = _place(piece)
        mark = _WIDEST if self._settings.fence else ""
        text = render_piece(_lasting(piece), self._settings.format, mark)
        cost = self._counter.count(text) + self._joint
        least = 2 * cost if piece.citation.layer is Layer.OVERVIEW else cost
        if least > self._budget:
            return True
        if cost - self._held.get(place, 0) > self._room:
            return False
        self._room -= cost - self._held.get(place, 0)
        self._held[place] = cost
        self._taken.append(piece)
        return True

    def written(self) -> tuple[tuple[Piece, ...], str, str]:
        """The pieces by place, their text and its mark: counted whole, the last taken left out."""
        while self._taken:
            latest = {_place(piece): piece for piece in self._taken}
            places = enumerate(sorted(latest), start=1)
            pieces = [attrs.evolve(latest[place], number=at) for at, place in places]
            mark = _mark_of(tuple(said(pieces))) if self._settings.fence else ""
            text = whole([_lasting(each) for each in pieces], self._settings.format, mark)
            if self._counter.count(text) <= self._budget:
                return tuple(pieces), text, mark
            self._taken.pop()
        return (), "", ""


def _place(piece: Piece) -> tuple[str, str]:
    return piece.citation.dataset_id, piece.citation.doc_name


def _lasting(piece: Piece) -> Piece:
    """The piece as it is written: without what changes though its own source does not.

    Metadata alone makes a version, and every new document the input of its folders' layers.
    """
    stale = None if piece.citation.stale == "input" else piece.citation.stale
    return attrs.evolve(piece, citation=attrs.evolve(piece.citation, version=0, stale=stale))


def _mark_of(texts: Sequence[str]) -> str:
    """A name made of the texts that is in none of them; 96 bits, that no text can foresee."""
    made = content_sha256("\0".join(texts))
    while any((mark := f"text-{made[:24]}") in text for text in texts):
        made = content_sha256(made)
    return mark


class PrefixBuilder:
    """What `Service.context_prefix` does, over the documents and layers of one moment."""

    def __init__(self, documents: DocumentReader, layers: LayerRepo) -> None:
        self._documents = documents
        self._layers = layers
        self._infos: dict[tuple[str, str], DocumentInfo] = {}
        self._inputs: dict[str, Inputs] = {}

    def build(
        self,
        dataset_ids: Iterable[str],
        tree: FilterTree | None,
        settings: ContextSettings,
        *,
        fresh_only: bool,
    ) -> ContextPrefix:
        """Choose layers, as many as fit, in an order that no other document's change moves.

        Where the abstracts of all documents fit, overviews take their place in the same order.
        Where not, the dataset's and the folders' abstracts come in too, as the nearest to the top.
        Either way the choice ends before the first that does not fit: a new document can push out
        the last of the order, and changes nothing else. Under a filter there are no layers of
        folders and datasets: they sum up documents that do not pass.
        """
        abstracts: list[DerivedLayer] = []
        for dataset_id in sorted(set(dataset_ids)):
            abstracts += self._abstracts(dataset_id, tree)
        abstracts.sort(key=_rank)
        told = [each for each in abstracts if not is_folder(each.doc_name)]
        choice = _Choice(settings, fresh_only)
        if self._fill(choice, told):
            overviews = (
                self._layers.get(each.dataset_id, each.doc_name, Layer.OVERVIEW) for each in told
            )
            self._fill(choice, (each for each in overviews if each is not None))
        elif len(told) < len(abstracts):
            choice = _Choice(settings, fresh_only)
            self._fill(choice, abstracts)
        pieces, text, mark = choice.written()
        held = sum(not is_folder(each.citation.doc_name) for each in pieces)
        left_out, missing = len(told) - held, len(self._infos) - len(told)
        budget, counter = settings.prefix_tokens or 0, settings.prefix_counter
        return ContextPrefix(
            text=text,
            digest=content_sha256(text),
            pieces=pieces,
            budget=budget,
            tokens=counter.count(text),
            format=settings.format,
            counter=counter.name,
            mark=mark,
            left_out=left_out,
            missing=missing,
            warnings=tuple(_warnings(pieces, left_out, missing, budget, fresh_only=fresh_only)),
        )

    def _abstracts(self, dataset_id: str, tree: FilterTree | None) -> Iterator[DerivedLayer]:
        for page in document_pages(self._documents, dataset_id, tree):
            self._infos |= {(dataset_id, info.name): info for info in page}
        self._inputs[dataset_id] = all_inputs(self._layers, dataset_id)
        for layer in pages_of(self._layers, dataset_id, Layer.ABSTRACT):
            of_folder = tree is None and is_folder(layer.doc_name)
            if of_folder or (dataset_id, layer.doc_name) in self._infos:
                yield layer

    def _fill(self, choice: _Choice, layers: Iterable[DerivedLayer]) -> bool:
        """Whether there was room for all."""
        for layer in layers:
            deadlines.check("the prefix of a context")
            piece = self._piece(layer)
            if not choice.take(piece):
                return False
        return True

    def _piece(self, layer: DerivedLayer) -> Piece:
        """The layer, stale where what it sums up is."""
        info = self._infos.get((layer.dataset_id, layer.doc_name))
        is_fed = partial(self._inputs[layer.dataset_id], layer.doc_name)
        return Piece(
            number=_ANY_NUMBER,
            sig=layer.sig,
            citation=Citation(
                dataset_id=layer.dataset_id,
                doc_name=layer.doc_name,
                layer=layer.layer,
                version=layer.sig.source_version,
                start=0,
                end=len(layer.content),
                stale=layer_stale_reason(layer.sig, info, "", is_fed),
                text=layer.content,
            ),
        )


def _rank(abstract: DerivedLayer) -> tuple[int, bool, str]:
    """The nearest to the top first, folders before documents; then by a digest of the name."""
    name = abstract.doc_name
    depth = name.rstrip("/").count("/") if name else -1
    return depth, not is_folder(name), content_sha256(f"{abstract.dataset_id}\0{name}")


def _warnings(
    pieces: Sequence[Piece], left_out: int, missing: int, budget: int, *, fresh_only: bool
) -> Iterator[str]:
    if left_out:
        takes = "is fresh and fits" if fresh_only else "fits"
        yield (
            f"the prefix leaves out {counted(left_out, 'document')}: it takes what {takes} "
            f"{budget} tokens, the nearest to the top first"
        )
    if missing:
        yield (
            f"the prefix leaves out {counted(missing, 'document')} without an abstract (L0): "
            "`triptych layers build` makes what is missing"
        )
    stale = [each.citation for each in pieces if each.citation.stale]
    if stale:
        named = ", ".join(f"{each.dataset_id}/{each.doc_name} ({each.stale})" for each in stale[:3])
        yield (
            f"the prefix holds {counted(len(stale), 'stale layer')}: {named}"
            f"{', …' if len(stale) > 3 else ''}; `triptych layers build` makes them again"
        )
