"""The methods of a Service that read and store layers."""

from __future__ import annotations

from collections.abc import Iterable

from triptych.errors import ValidationError
from triptych.records import DerivedLayer, DocumentSummary, Layer, check_text, check_whole
from triptych.service.base import ServiceBase, check_names
from triptych.service.operations import Effect, operation


class Layers(ServiceBase):
    """The methods of a Service for layers."""

    @operation(Effect.READS)
    def layer(self, dataset_id: str, name: str, layer: Layer | str) -> DerivedLayer | None:
        """Return a layer of a document with its freshness, None if it has not been made."""
        check_names(dataset_id, name)
        return self._parts.layers.get(dataset_id, name, layer)

    @operation(Effect.READS)
    def dataset_layer(self, dataset_id: str, layer: Layer | str) -> DerivedLayer | None:
        """Return a layer of the dataset itself with its freshness, None if it has not been made."""
        check_names(dataset_id)
        return self._parts.layers.get(dataset_id, "", layer)

    @operation(Effect.READS)
    def layers(self, dataset_id: str, *, layer: Layer | str | None = None) -> list[DerivedLayer]:
        """List the layers of a dataset with their freshness, sorted by name and layer.

        ``layer`` None lists both abstracts (L0) and overviews (L1).
        """
        check_names(dataset_id)
        return self._parts.layers.list(dataset_id, layer)

    @operation(Effect.WRITES)
    def put_document_layer(
        self,
        dataset_id: str,
        name: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        source_version: int | None = None,
    ) -> DerivedLayer:
        """Store an abstract (L0) or overview (L1) of a document; return the stored layer.

        ``source_version`` is the document version that it was made from (None: the current one),
        ``prompt_sig`` the signature of the prompt and model that made it.

        Raises:
            ValidationError: the layer is L2, or the content is invalid.
            NotFoundError: the document does not exist.
            ConflictError: the document is no longer at ``source_version``.
            DerivationError: the content could not be embedded; nothing was stored.
        """
        check_names(dataset_id, name)
        _check_layer(content, prompt_sig)
        if source_version is not None:
            check_whole(source_version, "source_version")
        return self._parts.layers.put_document_layer(
            dataset_id, name, layer, content, prompt_sig, source_version
        )

    @operation(Effect.WRITES)
    def put_dataset_layer(
        self,
        dataset_id: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        """Store the abstract or overview of a dataset; return the stored layer.

        ``summaries`` are the abstracts that it was made from (None: the current ones).

        Raises:
            ValidationError, NotFoundError, DerivationError: as `put_document_layer`.
        """
        check_names(dataset_id)
        _check_layer(content, prompt_sig)
        return self._parts.layers.put_folder_layer(
            dataset_id, "", layer, content, prompt_sig, summaries
        )

    @operation(Effect.WRITES)
    def put_folder_layer(
        self,
        dataset_id: str,
        folder: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        """Store an abstract or overview of a folder, named with a final "/"; return the layer.

        ``summaries`` are the abstracts of the documents and folders directly in it from which it
        was made (None: the current ones).

        Raises:
            ValidationError: ``folder`` does not end in "/", or as `put_document_layer`.
            NotFoundError: the folder has no document.
            DerivationError: as `put_document_layer`.
        """
        check_names(dataset_id, folder)
        _check_layer(content, prompt_sig)
        if not folder.endswith("/"):
            raise ValidationError(
                f"{folder!r} is not a folder: the name of a folder ends in a slash"
            )
        return self._parts.layers.put_folder_layer(
            dataset_id, folder, layer, content, prompt_sig, summaries
        )


def _check_layer(content: object, prompt_sig: object) -> None:
    check_text(content, "a layer's content")
    check_text(prompt_sig, "prompt_sig")
