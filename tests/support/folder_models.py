"""Folders of small embedding models, as sentence-transformers and model2vec write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support import splade_models
from support.splade_models import TABLE, WORDS

WIDTH = TABLE.shape[1]


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def onnx_folder(
    folder: Path,
    *,
    pooling: str | Sequence[str] = "mean",
    prompts: Mapping[str, str] | None = None,
    dense: tuple[NDArray[np.float32], str] | None = None,
    nested: bool = True,
    new_style: bool = False,
    **more: Any,
) -> Path:
    """A transformer whose token vectors are rows of `TABLE`; ``more`` is of
    ``sentence_bert_config.json``."""
    from safetensors.numpy import save_file

    splade_models.write_model(folder, "types", nested=nested)
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling")]
    modes = [pooling] if isinstance(pooling, str) else list(pooling)
    said: dict[str, Any] = {"word_embedding_dimension": WIDTH}
    if new_style:
        said["pooling_mode"] = modes[0] if len(modes) == 1 else modes
    else:
        for mode in ("cls_token", "mean_tokens", "max_tokens", "lasttoken", "mean_sqrt_len_tokens"):
            said[f"pooling_mode_{mode}"] = mode.partition("_token")[0] in modes
    write_json(folder / "1_Pooling" / "config.json", said)
    if dense is not None:
        weight, activation = dense
        kinds.append(("Dense", "2_Dense"))
        said = {"in_features": weight.shape[1], "out_features": weight.shape[0]}
        said["activation_function"] = f"torch.nn.modules.activation.{activation}"
        write_json(folder / "2_Dense" / "config.json", said)
        save_file({"linear.weight": weight}, folder / "2_Dense" / "model.safetensors")
    kinds.append(("Normalize", "3_Normalize"))
    write_modules(folder, kinds)
    write_json(folder / "config_sentence_transformers.json", {"prompts": prompts or {}})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 8, **more})
    return folder


def write_modules(folder: Path, kinds: Sequence[tuple[str, str]]) -> None:
    rows = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (kind, path) in enumerate(kinds)
    ]
    write_json(folder / "modules.json", rows)


def static_folder(folder: Path, *, layout: str = "model2vec", **arrays: NDArray[Any]) -> Path:
    """Static vectors, the rows of `TABLE`: of "model2vec", or of "sentence-transformers"."""
    from safetensors.numpy import save_file

    place = folder if layout == "model2vec" else folder / "0_StaticEmbedding"
    place.mkdir(parents=True, exist_ok=True)
    splade_models.write_tokenizer(place)
    key = "embeddings" if layout == "model2vec" else "embedding.weight"
    save_file({key: TABLE, **arrays}, place / "model.safetensors")
    if layout == "model2vec":
        write_json(folder / "config.json", {"model_type": "model2vec", "normalize": True})
    else:
        write_modules(folder, [("StaticEmbedding", "0_StaticEmbedding")])
    return folder


def rows(*words: str, framed: bool = True) -> NDArray[np.float64]:
    """The token vectors of a text."""
    known = ["[CLS]", *words, "[SEP]"] if framed else list(words)
    return TABLE[[WORDS.index(word) for word in known]].astype(np.float64)


def unit(vector: NDArray[np.float64]) -> NDArray[np.float32]:
    made: NDArray[np.float32] = (vector / np.linalg.norm(vector)).astype(np.float32)
    return made
