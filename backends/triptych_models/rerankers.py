"""Local rerankers. Rerankers over HTTP are in `triptych_providers`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.errors import NotAvailableError, ProviderError
from triptych.records import check_whole
from triptych_models.lazy import Lazy
from triptych_models.onnx_folder import ONNX_EXTRA, OnnxFolder
from triptych_models.shared import TextWorkers, checked_question, require

_MOST_TOKENS = 512
"""The default maximum, with which most cross-encoders were trained."""


@attrs.frozen(eq=False)
class Pair:
    """The tokens of one pair: ids, and for each the index of its text (0 or 1)."""

    ids: NDArray[np.int64]
    types: NDArray[np.int64]


class PairTokenizer:
    """The tokenizer in a model's folder. Thread-safe; it starts no threads.

    A pair has at most ``max_tokens``, including special tokens: the text is cut at its end. A query
    that takes more than half is cut to half.

    Raises:
        NotAvailableError: the package tokenizers is missing, or the file is not a tokenizer's.
    """

    def __init__(self, folder: Path, max_tokens: int | None, *, user: str) -> None:
        tokenizers = require("tokenizers", extra=ONNX_EXTRA, user=user)
        path = folder / "tokenizer.json"
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception as error:  # tokenizers raises Exception itself
            raise NotAvailableError(
                f"{user} cannot read {path} ({error}): give a folder with model.onnx and "
                "tokenizer.json"
            ) from error
        padding = self._tokenizer.padding or {}
        truncation = self._tokenizer.truncation or {}
        self.max_tokens: int = max_tokens or min(
            truncation.get("max_length") or _positions(folder), _positions(folder)
        )
        self.pad_id: int = padding.get("pad_id") or self._known_pad()
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._special = self._tokenizer.num_special_tokens_to_add(True)
        # A copy: cutting is a setting of the tokenizer, and other threads use it.
        self._cutting = tokenizers.Tokenizer.from_str(self._tokenizer.to_str())
        self._cutting.enable_truncation(self.max_tokens, strategy="only_second")

    def query(self, query: str) -> str:
        """Return ``query``, cut if it takes more than half of a pair."""
        room = (self.max_tokens - self._special) // 2
        offsets = self._tokenizer.encode(query, add_special_tokens=False).offsets
        return query if len(offsets) <= room else query[: offsets[room - 1][1]]

    def pair(self, query: str, text: str) -> Pair:
        """Return the tokens of a text and of a query returned by `query`."""
        encoded = self._cutting.encode(query, text)
        return Pair(
            ids=np.array(encoded.ids, dtype=np.int64),
            types=np.array(encoded.type_ids, dtype=np.int64),
        )

    def _known_pad(self) -> int:
        for token in ("[PAD]", "<pad>", "<|endoftext|>"):
            found = self._tokenizer.token_to_id(token)
            if found is not None:
                return int(found)
        return 0


def padded(pairs: Sequence[Pair], pad_id: int) -> dict[str, NDArray[np.int64]]:
    """Return the inputs of a model for several pairs, of shape (pairs, tokens of the longest)."""
    width = max(pair.ids.size for pair in pairs)
    ids = np.full((len(pairs), width), pad_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    types = np.zeros_like(ids)
    for row, pair in enumerate(pairs):
        ids[row, : pair.ids.size] = pair.ids
        mask[row, : pair.ids.size] = 1
        types[row, : pair.ids.size] = pair.types
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def _positions(folder: Path) -> int:
    """How many tokens the model has positions for, as far as its configuration says."""
    try:
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        most = int(config["max_position_embeddings"])
    except (OSError, ValueError, TypeError, KeyError):
        return _MOST_TOKENS
    return min(most, _MOST_TOKENS) if most > 0 else _MOST_TOKENS


_USER = "the cross-encoder"
_LEAST_TOKENS = 16


class CrossEncoder:
    """A `Reranker` that runs an ONNX cross-encoder through onnxruntime, without a network.

    The folder has the layout of Hugging Face: ``model.onnx`` (or ``onnx/model.onnx``) and
    ``tokenizer.json``. The model takes ``input_ids``, ``attention_mask`` and optionally
    ``token_type_ids``. Its first output has one logit for each pair, or two: then the score is the
    second minus the first, the log odds of "relevant". Thread-safe; the model is loaded at first
    use, and again in a forked child. `close` releases it; a later use loads it again.

    Args:
        folder: the folder of the files.
        max_tokens: the maximum tokens of a pair, from 16 up; longer texts are cut at their ends.
            None uses the tokenizer's configuration, at most 512.
        sigmoid: whether scores are ``1 / (1 + exp(-logit))``, from 0 to 1, instead of logits.
        batch: the number of pairs in one call of the model. With 1 a score has the same bits in any
            request; more pairs are padded to the longest.
        threads: the number of concurrent calls; None is the number of cores.

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
        if max_tokens is not None:
            check_whole(max_tokens, "max_tokens", least=_LEAST_TOKENS)
        check_whole(batch, "batch", least=1)
        self._model = OnnxFolder(Path(folder), user=_USER, kind="cross-encoder")
        self._sigmoid = bool(sigmoid)
        self._batch = batch
        self._workers = TextWorkers(threads)
        self._max_tokens = max_tokens
        self._tokenizer: Lazy[PairTokenizer] = Lazy(self._read_tokenizer)

    def __repr__(self) -> str:
        return f"CrossEncoder({str(self._model.folder)!r})"

    @property
    def signature(self) -> str:
        """The folder's name, a digest of the model and its tokenizer, the token limit and the
        scale.

        Raises:
            NotAvailableError: a file cannot be read.
        """
        cut = self._tokenizer.get().max_tokens
        scale = "sigmoid" if self._sigmoid else "logit"
        return f"onnx/{self._model.folder.name}@{self._model.digest.get()}/{cut}-tokens/{scale}"

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the score of each text, shape (len(texts),); higher is more relevant.

        Raises:
            ValidationError: the query is blank, or a text is not a string.
            NotAvailableError: a file is invalid.
            ProviderError: the model failed to run, or returned scores that are not finite.
            CancelledError: the deadline around the call passed; it is checked between calls.
        """
        asked, checked = checked_question(query, texts)
        scores = np.empty(len(checked), dtype=np.float32)
        if not checked:
            return scores
        session, tokenizer = self._model.session.get(), self._tokenizer.get()
        asked = tokenizer.query(asked)
        pairs = [tokenizer.pair(asked, text) for text in checked]
        # Pairs of about one length together, so that little is padded; the longest first.
        order = sorted(range(len(pairs)), key=lambda at: (-pairs[at].ids.size, at))
        batches = [order[at : at + self._batch] for at in range(0, len(order), self._batch)]

        def score(places: Sequence[int]) -> None:
            scores[places] = self._run(session, [pairs[at] for at in places], tokenizer.pad_id)

        self._workers.run(score, batches, "the rerank")
        return scores

    def _read_tokenizer(self) -> PairTokenizer:
        with self._model.watched.unchanged():
            return PairTokenizer(self._model.folder, self._max_tokens, user=_USER)

    def close(self) -> None:
        """Release the model, its tokenizer and the threads. Idempotent."""
        self._workers.close()
        self._model.session.close()
        self._tokenizer.close()

    def _run(self, session: Any, pairs: Sequence[Pair], pad_id: int) -> NDArray[np.float32]:
        inputs = padded(pairs, pad_id)
        longest = inputs["input_ids"].shape[1]
        what = f"{len(pairs)} pairs of up to {longest} tokens"
        logits = self._model.run(session, inputs, what, dtype=np.float64)
        count = len(pairs)
        if logits.shape == (count, 2):
            logits = logits[:, 1] - logits[:, 0]
        elif logits.shape in ((count, 1), (count,)):
            logits = logits.reshape(count)
        else:
            raise ProviderError(
                f"{self._model.name} gave an output of shape {logits.shape} for {count} "
                "pairs, where one or two logits each were expected: this model is not a reranker"
            )
        if not np.isfinite(logits).all():
            raise ProviderError(f"{self._model.name} gave scores that are not finite")
        scores: NDArray[np.float32] = (_sigmoid(logits) if self._sigmoid else logits).astype(
            np.float32
        )
        return scores


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    # exp of a negative number only: the other way round it overflows.
    small = np.exp(-np.abs(logits))
    ones: NDArray[np.float64] = np.where(logits >= 0, 1, small) / (1 + small)
    return ones
