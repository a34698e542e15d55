"""A SPLADE model on this machine: a folder with an ONNX model and its tokenizer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from triptych.errors import NotAvailableError, ProviderError, ValidationError
from triptych.records import SparseVector
from triptych_backends.embedders.arguments import checked_texts
from triptych_backends.embedders.installed import require
from triptych_backends.embedders.lazy import Lazy
from triptych_backends.embedders.workers import TextWorkers

if TYPE_CHECKING:
    from triptych.records import EmbedKind

_EXTRA = "local"
_USER = "the SPLADE encoder"
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_MOST_TOKENS = 512
_LEAST_TOKENS = 8
_EMPTY = SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32))


class SpladeEncoder:
    """A `SparseEncoder` that runs an ONNX model through onnxruntime, without a network.

    The folder is as Hugging Face has it: ``model.onnx`` (or ``onnx/model.onnx``) and
    ``tokenizer.json``. The model takes ``input_ids``, ``attention_mask`` and, where it wants them,
    ``token_type_ids``. Its first output is the logits of a masked language model, shape (batch,
    tokens, terms): a term's weight is the greatest ``log(1 + max(logit, 0))`` over the tokens
    (Formal et al., "SPLADE v2", 2021). Or it has the weights already, shape (batch, terms).

    Queries and documents are encoded alike. A text's vector is the same bits whatever else it is
    encoded with. Thread-safe; the model loads at first use, and again in a forked child. `close`
    releases it, and a later use loads it again.

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
        for name, value, least in (("top_k", top_k, 1), ("max_tokens", max_tokens, _LEAST_TOKENS)):
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and (not whole or value < least):
                raise ValidationError(f"{name} is a whole number from {least} up, not {value!r}")
        self._folder = Path(folder).expanduser().absolute()
        self._path = _model_in(self._folder)
        for package in ("onnxruntime", "tokenizers"):
            require(package, extra=_EXTRA, user=_USER)
        self._top_k = top_k
        self._max_tokens = max_tokens or _configured_length(self._folder)
        self._size: int | None = None
        self._workers = TextWorkers(threads)
        self._tokenizer: Lazy[Any] = Lazy(self._load_tokenizer)
        self._session: Lazy[Any] = Lazy(self._load)
        self._digest: Lazy[str] = Lazy(self._read_digest)

    def __reduce__(self) -> tuple[object, ...]:
        return _made, (self._folder, self._top_k, self._max_tokens, self._workers.asked)

    def __repr__(self) -> str:
        return f"SpladeEncoder({str(self._folder)!r})"

    @property
    def signature(self) -> str:
        """The folder's name, a digest of the model and its tokenizer, the cut, the terms kept.

        Raises:
            NotAvailableError: a file cannot be read.
        """
        kept = "" if self._top_k is None else f"/top-{self._top_k}"
        return f"splade/{self._folder.name}@{self._digest.get()}/{self._max_tokens}-tokens{kept}"

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
        session, tokenizer = self._session.get(), self._tokenizer.get()
        found: list[SparseVector] = [_EMPTY] * len(checked)

        def one(at: int) -> None:
            found[at] = self._run(session, tokenizer.encode(checked[at]).ids)

        longest_first = sorted(range(len(checked)), key=lambda at: (-len(checked[at]), at))
        self._workers.run(one, longest_first, "encoding")
        return found

    def close(self) -> None:
        """Release the model, its tokenizer and the threads. Idempotent."""
        self._workers.close()
        self._session.close()
        self._tokenizer.close()

    def _run(self, session: Any, ids: Sequence[int]) -> SparseVector:
        if not ids:
            return _EMPTY
        row = np.array([ids], dtype=np.int64)
        every = {
            "input_ids": row,
            "attention_mask": np.ones_like(row),
            "token_type_ids": np.zeros_like(row),
        }
        given = {
            each.name: every[each.name].astype(np.int32 if "int32" in each.type else np.int64)
            for each in session.get_inputs()
        }
        try:
            output = np.asarray(session.run(None, given)[0])
        except Exception as error:  # onnxruntime's errors share no base class of their own
            raise ProviderError(
                f"{_USER} {self._folder.name} failed on a text of {len(ids)} tokens ({error})"
            ) from error
        if output.ndim == 3 and output.shape[:2] == (1, len(ids)):
            # The greatest logit has the greatest weight: one logarithm a term is enough.
            weights = np.log1p(np.maximum(output[0].max(axis=0), 0.0, dtype=np.float32))
        elif output.ndim == 2 and output.shape[0] == 1:
            weights = output[0].astype(np.float32)
        else:
            raise ProviderError(
                f"{_USER} {self._folder.name} gave an output of shape {output.shape} for one text "
                f"of {len(ids)} tokens, where (1, {len(ids)}, terms) or (1, terms) was expected: "
                "this model is not a sparse encoder"
            )
        if not np.isfinite(weights).all():
            raise ProviderError(f"{_USER} {self._folder.name} gave weights that are not finite")
        self._size = len(weights)
        terms: NDArray[np.int64] = np.flatnonzero(weights > 0)
        return SparseVector.of(terms, weights[terms], most=self._top_k)

    def _load(self) -> Any:
        runtime = require("onnxruntime", extra=_EXTRA, user=_USER)
        options = runtime.SessionOptions()
        # Parallel over texts, not within one: see `triptych_backends.embedders.workers`.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors: it would write warnings to standard error
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            session = runtime.InferenceSession(
                str(self._path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors share no base class of their own
            raise NotAvailableError(
                f"{_USER} cannot load {self._path} ({error}): give the ONNX file of a SPLADE model"
            ) from error
        names = [each.name for each in session.get_inputs()]
        unknown = [name for name in names if name not in _INPUTS]
        if unknown or "input_ids" not in names:
            raise NotAvailableError(
                f"{_USER} cannot use {self._path}: its inputs are {', '.join(names)}, and a "
                f"SPLADE model has {', '.join(_INPUTS)}"
            )
        return session

    def _load_tokenizer(self) -> Any:
        tokenizers = require("tokenizers", extra=_EXTRA, user=_USER)
        path = self._folder / "tokenizer.json"
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises a bare Exception
            raise NotAvailableError(f"{_USER} cannot read {path} ({error})") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._max_tokens)
        return tokenizer

    def _read_digest(self) -> str:
        digest = hashlib.sha256()
        data = self._path.with_name(f"{self._path.name}_data")  # of a model above two gigabytes
        for path in (self._path, data, self._folder / "tokenizer.json"):
            if path == data and not data.exists():
                continue
            try:
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
            except OSError as error:
                raise NotAvailableError(f"{_USER} cannot read {path} ({error.strerror})") from error
        return digest.hexdigest()[:12]


def _model_in(folder: Path) -> Path:
    """The path of the model in ``folder``, which has a tokenizer too."""
    models = [folder / "model.onnx", folder / "onnx" / "model.onnx"]
    found = [path for path in models if path.is_file()]
    where = ""
    if not folder.is_dir():
        where = f"folder {folder}"
    elif not found or not (folder / "tokenizer.json").is_file():
        where = f"{'tokenizer.json' if found else 'model.onnx'} in {folder}"
    if where:
        raise ValidationError(
            f"there is no {where}: give a folder with the model.onnx and the tokenizer.json of a "
            "SPLADE model"
        )
    return found[0]


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


def _made(folder: Path, top_k: int | None, max_tokens: int, threads: int | None) -> SpladeEncoder:
    """The encoder in the process that it was sent to."""
    return SpladeEncoder(folder, top_k=top_k, max_tokens=max_tokens, threads=threads)
