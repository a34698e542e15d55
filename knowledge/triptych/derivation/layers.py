"""Storing layers with their signatures, and marking them stale."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from triptych import deadlines
from triptych.contracts import DocumentReader, LayerRepo
from triptych.contracts.pages import pages_of
from triptych.contracts.rules import missing_dataset
from triptych.derivation.folder_tree import (
    check_summaries,
    children,
    folder_inputs,
    is_folder,
    parent_of,
    summaries_of,
)
from triptych.errors import (
    CancelledError,
    ConflictError,
    CorruptStoreError,
    DerivationError,
    NotFoundError,
    ValidationError,
)
from triptych.records import (
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    DocumentSummary,
    Layer,
    StaleReason,
    Vector,
    to_layer,
)
from triptych.signatures import summaries_input_sig
from triptych.vectors.embedding import embed
from triptych.vectors.lanes import ModelSet

if TYPE_CHECKING:
    from triptych.records import RebuildReport


def layer_stale_reason(
    sig: DerivedSig, document: DocumentInfo | None, embed_sig: str, is_fed: Callable[[str], bool]
) -> StaleReason | None:
    """Why a layer is stale. ``document`` is its own; without one (the layer of a folder or a
    dataset) ``is_fed`` says whether what it was made from is what is below it now.

    The prompt is not judged here: only whoever makes layers knows which one is wanted.
    """
    if document is not None:
        fed = document.content_sha256
    elif not sig.input_sig or is_fed(sig.input_sig):
        fed = sig.input_sig
    else:
        return "input"
    expected_signature = DerivedSig(
        source_version=sig.source_version,
        prompt_sig=sig.prompt_sig,
        embed_sig=embed_sig,
        input_sig=fed,
    )
    return sig.stale_reason(expected_signature)


Inputs = Callable[[str, str], bool]
"""Whether the layers of a folder, or of the dataset (""), may be made from the input of a digest:
the abstracts directly in it or, of the dataset, those of all its documents."""


def inputs_of(layers: LayerRepo, dataset_id: str) -> Inputs:
    """Reads what is asked for, once."""

    @functools.cache
    def near(folder: str) -> str:
        return summaries_input_sig(children(layers, dataset_id, folder))

    @functools.cache
    def flat() -> str:
        return summaries_input_sig(summaries_of(layers, dataset_id))

    return lambda folder, digest: digest == near(folder) or (not folder and digest == flat())


def all_inputs(layers: LayerRepo, dataset_id: str) -> Inputs:
    """Reads all abstracts at once, when first asked."""
    known = functools.cache(lambda: folder_inputs(pages_of(layers, dataset_id, Layer.ABSTRACT)))
    nothing = (summaries_input_sig(()),)
    return lambda folder, digest: digest in known().get(folder, nothing)


@attrs.frozen(eq=False)
class LayerService:
    """The Service's layer methods."""

    _documents: DocumentReader
    _layers: LayerRepo
    _models: ModelSet
    _check_config: Callable[[str], None]

    def get(self, dataset_id: str, name: str, layer: Layer | str) -> DerivedLayer | None:
        """One layer with its freshness."""
        stored = self._layers.get(dataset_id, name, _summary_layer(layer))
        if stored is None:
            return None
        info = None if is_folder(name) else self._documents.get_info(dataset_id, name)
        if info is None and not is_folder(name):
            return None
        return self._judged(stored, info, inputs_of(self._layers, dataset_id))

    def list(self, dataset_id: str, layer: Layer | str | None) -> list[DerivedLayer]:
        """All layers with their freshness."""
        kind = None if layer is None else _summary_layer(layer)
        stored = self._layers.list(dataset_id, layer=kind)
        infos = {info.name: info for info in self._documents.list(dataset_id)} if stored else {}
        inputs = all_inputs(self._layers, dataset_id)
        return [
            self._judged(each, infos.get(each.doc_name), inputs)
            for each in stored
            if each.doc_name in infos or is_folder(each.doc_name)
        ]

    def put_document_layer(
        self,
        dataset_id: str,
        name: str,
        layer: Layer | str,
        content: str,
        prompt_sig: str,
        source_version: int | None,
    ) -> DerivedLayer:
        """Store a document's layer."""
        kind = _summary_layer(layer)
        info = self._documents.get_info(dataset_id, name)
        if info is None:
            raise NotFoundError(
                f"there is no document {name!r} in {dataset_id!r} to store a layer of"
            )
        if source_version is not None and source_version != info.version:
            raise _moved_on(name, source_version, info.version)
        made = self._made(dataset_id, name, kind, content, prompt_sig, info)
        if not self._layers.put(made):
            latest = self._documents.get_info(dataset_id, name)
            raise _moved_on(name, info.version, 0 if latest is None else latest.version)
        return attrs.evolve(made, vector=None)

    def put_folder_layer(
        self,
        dataset_id: str,
        folder: str,
        layer: Layer | str,
        content: str,
        prompt_sig: str,
        summaries: Iterable[DocumentSummary] | None,
    ) -> DerivedLayer:
        """Store a layer of a folder, or with ``folder`` "" the dataset's own."""
        kind = _summary_layer(layer)
        if dataset_id not in (datasets := self._documents.list_datasets()):
            raise missing_dataset(dataset_id, datasets)
        if folder and not self._documents.list(dataset_id, prefix=folder, after=folder, limit=1):
            raise NotFoundError(
                f"no document of {dataset_id!r} is in {folder!r}: there is nothing to store a "
                "layer of"
            )
        if summaries is not None:
            below = check_summaries(summaries)
        elif folder:
            below = children(self._layers, dataset_id, folder)
        else:
            below = list(summaries_of(self._layers, dataset_id))
        made = self._made(
            dataset_id, folder, kind, content, prompt_sig, None, summaries_input_sig(below)
        )
        self._layers.put(made)
        return attrs.evolve(made, vector=None)

    def embed_again(self, dataset_id: str, names: Sequence[str] | None = None) -> RebuildReport:
        """Give layers (those under ``names``, or all) of another space vectors of this one.

        The texts stay as they are. A layer whose document has moved on is left: it is stale
        anyway, and whoever makes it again embeds it. One that cannot be embedded is in the
        report, and does not stop the others.
        """
        from triptych.records import Failure, RebuildReport

        embedded = 0
        failed = []
        for stored in self._under(dataset_id, names):
            if stored.sig.embed_sig == self._models.embed_sig:
                continue
            deadlines.check("embedding layers")
            try:
                vector = self._embedded(stored.doc_name, stored.content)
            except DerivationError as error:
                failed.append(Failure(dataset_id=dataset_id, name=stored.doc_name, error=error))
                continue
            sig = attrs.evolve(stored.sig, embed_sig=self._models.embed_sig)
            if not is_folder(stored.doc_name):
                info = self._documents.get_info(dataset_id, stored.doc_name)
                if info is None or info.content_sha256 != sig.input_sig:
                    continue
                sig = attrs.evolve(sig, source_version=info.version)
            if self._layers.put(attrs.evolve(stored, vector=vector, sig=sig)):
                embedded += vector is not None
        return RebuildReport(embedded=embedded, failed=tuple(failed))

    def remove_above(self, dataset_id: str, name: str, *, every: bool) -> int:
        """Remove the layers of the folders and the dataset that a document is in; how many.

        Unless ``every``, fresh ones stay: they were made from what is there.
        """
        removed = 0
        while name:
            name = parent_of(name)
            kinds = (Layer.ABSTRACT, Layer.OVERVIEW)
            found: list[DerivedLayer] = []
            with suppress(CorruptStoreError):  # what is damaged goes, too
                found = [each for kind in kinds if (each := self.get(dataset_id, name, kind))]
            if every or not found or any(each.stale for each in found):
                self._layers.delete_by_doc(dataset_id, name)
                removed += len(found)
        return removed

    def _under(self, dataset_id: str, names: Sequence[str] | None) -> Sequence[DerivedLayer]:
        if names is None:
            return self._layers.list(dataset_id)
        kinds = (Layer.ABSTRACT, Layer.OVERVIEW)
        found = (self._layers.get(dataset_id, name, kind) for name in names for kind in kinds)
        return [layer for layer in found if layer is not None]

    def _made(
        self,
        dataset_id: str,
        name: str,
        layer: Layer,
        content: str,
        prompt_sig: str,
        info: DocumentInfo | None,
        input_sig: str = "",
    ) -> DerivedLayer:
        deadlines.check("the put of a layer")
        self._check_config(dataset_id)
        return DerivedLayer(
            dataset_id=dataset_id,
            doc_name=name,
            layer=layer,
            content=content,
            vector=self._embedded(name, content),
            sig=DerivedSig(
                source_version=0 if info is None else info.version,
                prompt_sig=prompt_sig,
                embed_sig=self._models.embed_sig,
                input_sig=input_sig if info is None else info.content_sha256,
            ),
        )

    def _embedded(self, name: str, content: str) -> Vector | None:
        embedder, coverage = self._models.embedder, self._models.coverage
        if embedder is None or not content.strip() or not coverage.admits(content):
            return None
        try:
            row: Vector = embed(embedder, [content], kind="document")[0]
        except CancelledError:
            raise
        except Exception as error:
            raise DerivationError(
                f"the layer of {name or 'the dataset'!r} could not be embedded "
                f"({type(error).__name__}: {error}): nothing was stored; `partial` holds it",
                partial=content,
            ) from error
        return row

    def _judged(
        self, stored: DerivedLayer, info: DocumentInfo | None, inputs: Inputs
    ) -> DerivedLayer:
        reason = layer_stale_reason(
            stored.sig,
            info,
            self._models.embed_sig,
            lambda digest: inputs(stored.doc_name, digest),
        )
        return attrs.evolve(stored, stale=reason)


def _summary_layer(layer: Layer | str) -> Layer:
    kind = to_layer(layer)
    if kind is Layer.DETAIL:
        raise ValidationError("L2 is the chunks themselves: layers are 'L0' and 'L1'")
    return kind


def _moved_on(name: str, expected: int, actual: int) -> ConflictError:
    return ConflictError(
        f"the layer was made from version {expected} of {name!r}, which is now at version "
        f"{actual}: generate it again from the current content",
        expected=expected,
        actual=actual,
    )
