"""Vectors of a space that does not serve: asked for, and kept in small transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from triptych.chunking import embedding_text
from triptych.contracts import SpaceRepo, Store
from triptych.errors import ConflictError
from triptych.ingestion.batches import EmbeddingProgress
from triptych.ingestion.derivation import DerivationPipeline
from triptych.ingestion.embedding_run import EmbeddingRun
from triptych.ingestion.failures import derivation_error
from triptych.ingestion.filler import Filler, Given, Waiting
from triptych.ingestion.folder_tree import is_folder
from triptych.records import Failure, Layer, Vector
from triptych.records.metadata import text_of
from triptych.signatures import embedding_input_sig

__all__ = ["SpaceFiller"]


@attrs.frozen
class _Texts:
    """The texts under a name, by digest: those that are embedded, and those that are not."""

    embedded: dict[str, str]
    bare: dict[str, None]


class SpaceFiller(Filler[Vector]):
    """Gives the texts of one dataset their entries in a space that does not serve.

    A filler before it, a killed one, or one beside it, spares it the texts that it has embedded.
    """

    def __init__(
        self,
        store: Store,
        spaces: SpaceRepo,
        deriver: DerivationPipeline,
        dataset_id: str,
        meter: EmbeddingProgress | None = None,
    ) -> None:
        super().__init__(store.documents, store.chunks, deriver.run(dataset_id), dataset_id, meter)
        self._layers = store.layers
        self._spaces = spaces
        self._deriver = deriver
        self._bare: dict[str, dict[str, None]] = {}

    def _read(self, name: str, run: EmbeddingRun[Vector]) -> None:
        texts = self._texts_under(name)
        if texts is None:
            return  # stale: to be derived again, and lacking till then
        if not texts.embedded and not texts.bare:
            self.forget(name)
            return
        self._bare[name] = texts.bare
        space = self._deriver.embed_sig
        digests = list(texts.embedded)
        # All of them: those of another name are not this name's before they are kept for it.
        places = [(digest, at) for at, digest in enumerate(digests)]
        new = self._ask(name, texts.embedded, places, Waiting(set(digests)))
        known = self._chunks.known_vectors(self._dataset_id, space, list(new)) if new else {}
        self._begin(name, new, dict(known), run)

    def _texts_under(self, name: str) -> _Texts | None:
        dataset_id = self._dataset_id
        texts: dict[str, str] = {}
        info = None if is_folder(name) else self._documents.get_info(dataset_id, name)
        if info is not None:
            title = text_of(info.metadata, "title") or None
            for chunk in self._chunks.iter_chunks(dataset_id, name):
                text = embedding_text(title, chunk.heading_path, chunk.content)
                digest = chunk.sig.input_sig
                if digest != embedding_input_sig(text):
                    return None
                texts[digest] = text
        for kind in (Layer.ABSTRACT, Layer.OVERVIEW):
            layer = self._layers.get(dataset_id, name, kind)
            if layer is not None:
                texts[embedding_input_sig(layer.content)] = layer.content
        admits = self._deriver.coverage.admits
        found = _Texts({}, {})
        for digest, text in texts.items():
            if text.strip() and admits(text):
                found.embedded[digest] = text
            else:
                found.bare[digest] = None
        return found

    def _store(self, given: Sequence[Given[Vector]], ends: Sequence[str]) -> Sequence[str]:
        names = sorted({*(each.name for each in given), *ends})
        entries: dict[str, Vector | None] = {each.digest: each.vector for each in given}
        for name in ends:
            entries.update(self._bare.get(name, {}))
        done = set(
            self._spaces.keep_vectors(self._dataset_id, self._deriver.embed_sig, names, entries)
        )
        return [name for name in ends if name in done]

    def _look_at(self, refused: Sequence[str]) -> None:
        config = self._chunks.config(self._dataset_id)
        if config is not None and config.embed_sig == self._deriver.embed_sig:
            raise ConflictError(
                f"the dataset {self._dataset_id!r} was swapped to {config.embed_sig!r} meanwhile: "
                "`triptych embed` adds what is missing"
            )
        there = self._chunks.get_doc_sigs(self._dataset_id, refused)
        for name in refused:
            if config is None or (name not in there and not is_folder(name)):
                self.forget(name)
            # Else it was replaced: the next to fill sees it.

    def _failures(self) -> Iterable[Failure]:
        for name, error in self._failed.items():
            if name not in self._pending:
                continue
            document = None if is_folder(name) else self._documents.get(self._dataset_id, name)
            told = error if document is None else derivation_error(document, error, found=True)
            yield Failure(dataset_id=self._dataset_id, name=name, error=told)
