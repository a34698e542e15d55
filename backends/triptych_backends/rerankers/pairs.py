"""Pairs of a query and a text as the tokens of a cross-encoder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.errors import NotAvailableError
from triptych_backends.embedders.installed import require

_MOST_TOKENS = 512
"""What most cross-encoders were trained with, where no file says how many."""


@attrs.frozen(eq=False)
class Pair:
    """The tokens of one pair: ids, and which of the two texts each is of (0 or 1)."""

    ids: NDArray[np.int64]
    types: NDArray[np.int64]


class PairTokenizer:
    """The tokenizer of a model's folder. Safe for threads; never starts one.

    A pair is at most ``max_tokens`` long, special tokens included: first the text is cut at its
    end. A query that alone takes more than half is cut to that.

    Raises:
        NotAvailableError: the package tokenizers is missing, or the file is not a tokenizer's.
    """

    def __init__(self, folder: Path, max_tokens: int | None, *, extra: str, user: str) -> None:
        tokenizers = require("tokenizers", extra=extra, user=user)
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
        """``query``, cut where it alone takes more than half of a pair."""
        room = (self.max_tokens - self._special) // 2
        offsets = self._tokenizer.encode(query, add_special_tokens=False).offsets
        return query if len(offsets) <= room else query[: offsets[room - 1][1]]

    def pair(self, query: str, text: str) -> Pair:
        """The tokens of a query that went through `query`, and of a text."""
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
    """The inputs of a model for several pairs, each of shape (pairs, tokens of the longest)."""
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
