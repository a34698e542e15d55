"""A cross-encoder on this machine: a folder with an ONNX model and its tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triptych.errors import NotAvailableError, ProviderError, ValidationError
from triptych_backends.embedders.arguments import checked_texts
from triptych_backends.embedders.installed import require
from triptych_backends.embedders.lazy import Lazy
from triptych_backends.embedders.workers import TextWorkers
from triptych_backends.rerankers.pairs import Pair, PairTokenizer, padded

_EXTRA = "local"
_USER = "the cross-encoder"
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_LEAST_TOKENS = 16


class CrossEncoder:
    """A `Reranker` that runs an ONNX cross-encoder through onnxruntime, without a network.

    The folder is as Hugging Face has it: ``model.onnx`` (or ``onnx/model.onnx``) and
    ``tokenizer.json``. The model takes ``input_ids``, ``attention_mask`` and, where it wants them,
    ``token_type_ids``. Its first output is one logit for each pair, or two: then the score is the
    second less the first, the log odds of "relevant". Thread-safe; the model loads at first use,
    and again in a forked child. `close` releases it, and a later use loads it again.

    Args:
        folder: where the files are.
        max_tokens: the most tokens of a pair, from 16 up; longer texts are cut at their ends. None
            is what the tokenizer and the configuration say, at most 512.
        sigmoid: whether scores are ``1 / (1 + exp(-logit))``, from 0 to 1, in place of logits.
        batch: how many pairs are one call of the model. With 1 a score is the same bits whatever
            else is scored with it; more pairs are padded to the longest.
        threads: how many calls run at once; None is the number of cores.

    Raises:
        ValidationError: an argument is invalid, or a file is missing.
        NotAvailableError: the extra ``local`` is not installed.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        max_tokens: int | None = None,
        sigmoid: bool = False,
        batch: int = 1,
        threads: int | None = None,
    ) -> None:
        for name, value, least in (("max_tokens", max_tokens, _LEAST_TOKENS), ("batch", batch, 1)):
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and (not whole or value < least):
                raise ValidationError(f"{name} is a whole number from {least} up, not {value!r}")
        self._folder = Path(folder).absolute()
        self._path = _model_in(self._folder)
        for package in ("onnxruntime", "tokenizers"):
            require(package, extra=_EXTRA, user=_USER)
        self._max_tokens = max_tokens
        self._sigmoid = bool(sigmoid)
        self._batch = batch
        self._workers = TextWorkers(threads)
        self._tokenizer: Lazy[PairTokenizer] = Lazy(
            lambda: PairTokenizer(self._folder, max_tokens, extra=_EXTRA, user=_USER)
        )
        self._session: Lazy[Any] = Lazy(self._load)
        self._digest: Lazy[str] = Lazy(self._read_digest)

    def __repr__(self) -> str:
        return f"CrossEncoder({str(self._folder)!r})"

    @property
    def signature(self) -> str:
        """The folder's name, a digest of the model and its tokenizer, the cut, and the scale.

        Raises:
            NotAvailableError: a file cannot be read.
        """
        cut = self._tokenizer.get().max_tokens
        scale = "sigmoid" if self._sigmoid else "logit"
        return f"onnx/{self._folder.name}@{self._digest.get()}/{cut}-tokens/{scale}"

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """The score of each text, shape (len(texts),): the greater, the more relevant.

        Raises:
            ValidationError: the query is blank, or a text is not a string.
            NotAvailableError: a file is not what it should be.
            ProviderError: the model failed to run, or gave scores that are not finite.
            CancelledError: the deadline around the call passed; it is asked between calls.
        """
        (asked,) = checked_texts([query], "query")
        checked = checked_texts(texts, "document")
        if not asked.strip():
            raise ValidationError("the query is blank: there is nothing to compare with")
        scores = np.empty(len(checked), dtype=np.float32)
        if not checked:
            return scores
        session, tokenizer = self._session.get(), self._tokenizer.get()
        asked = tokenizer.query(asked)
        pairs = [tokenizer.pair(asked, text) for text in checked]
        # Pairs of about one length together, so that little is padded; the longest first.
        order = sorted(range(len(pairs)), key=lambda at: (-pairs[at].ids.size, at))
        batches = [order[at : at + self._batch] for at in range(0, len(order), self._batch)]

        def score(places: Sequence[int]) -> None:
            scores[places] = self._run(session, [pairs[at] for at in places], tokenizer.pad_id)

        self._workers.run(score, batches, "the rerank")
        return scores

    def close(self) -> None:
        """Release the model, its tokenizer and the threads. Idempotent."""
        self._workers.close()
        self._session.close()
        self._tokenizer.close()

    def _load(self) -> Any:
        runtime = require("onnxruntime", extra=_EXTRA, user=_USER)
        options = runtime.SessionOptions()
        # Parallel over pairs, not within one: see `triptych_backends.embedders.workers`.
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
                f"{_USER} cannot load {self._path} ({error}): give the ONNX file of a cross-encoder"
            ) from error
        names = [each.name for each in session.get_inputs()]
        unknown = [name for name in names if name not in _INPUTS]
        if unknown or "input_ids" not in names:
            raise NotAvailableError(
                f"{_USER} cannot use {self._path}: its inputs are {', '.join(names)}, and a "
                f"cross-encoder has {', '.join(_INPUTS)}"
            )
        return session

    def _run(self, session: Any, pairs: Sequence[Pair], pad_id: int) -> NDArray[np.float32]:
        inputs = padded(pairs, pad_id)
        given = {
            each.name: inputs[each.name].astype(np.int32 if "int32" in each.type else np.int64)
            for each in session.get_inputs()
        }
        try:
            logits = np.asarray(session.run(None, given)[0], dtype=np.float64)
        except Exception as error:
            raise ProviderError(
                f"{_USER} {self._folder.name} failed on {len(pairs)} pairs of up to "
                f"{inputs['input_ids'].shape[1]} tokens ({error})"
            ) from error
        count = len(pairs)
        if logits.shape == (count, 2):
            logits = logits[:, 1] - logits[:, 0]
        elif logits.shape in ((count, 1), (count,)):
            logits = logits.reshape(count)
        else:
            raise ProviderError(
                f"{_USER} {self._folder.name} gave an output of shape {logits.shape} for {count} "
                "pairs, where one or two logits each were expected: this model is not a reranker"
            )
        if not np.isfinite(logits).all():
            raise ProviderError(f"{_USER} {self._folder.name} gave scores that are not finite")
        scores: NDArray[np.float32] = (_sigmoid(logits) if self._sigmoid else logits).astype(
            np.float32
        )
        return scores

    def _read_digest(self) -> str:
        digest = hashlib.sha256()
        for path in (self._path, self._folder / "tokenizer.json"):
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
            "cross-encoder"
        )
    return found[0]


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    # exp of a negative number only: the other way round it overflows.
    small = np.exp(-np.abs(logits))
    ones: NDArray[np.float64] = np.where(logits >= 0, 1, small) / (1 + small)
    return ones
