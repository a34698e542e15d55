"""Small SPLADE models as ONNX files, written byte by byte, with a tokenizer of single letters.

The logits of a token are a row of `TABLE`, so that tests know each weight. ONNX is protobuf: a
field is its number and its kind, then its length and its bytes, or a number. Source of the field
numbers: onnx.proto3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"]
TERMS = 9
TABLE = np.round(np.random.default_rng(7).normal(0, 2, (len(WORDS), TERMS)), 2).astype(np.float32)
TABLE[2:4] = -1.0  # the frame has no weight

FLOAT, INT32, INT64 = 1, 6, 7

Kind = Literal["logits", "pooled", "int32", "nan", "other input", "other output", "types"]


def write_model(folder: Path, kind: Kind = "logits", *, nested: bool = False) -> Path:
    """A folder with a model and a tokenizer.

    "logits" gives (batch, tokens, terms), "pooled" the weights themselves; "int32" and "types" take
    such inputs. "nan" gives no number, "other output" one for each token, and "other input" wants
    what no SPLADE model has.
    """
    place = folder / "onnx" if nested else folder
    place.mkdir(parents=True, exist_ok=True)
    (place / "model.onnx").write_bytes(model(kind))
    write_tokenizer(folder)
    return folder


def weights_of(words: Sequence[str]) -> dict[int, float]:
    """What the model "logits" gives for the words of a text, by term."""
    rows = [TABLE[WORDS.index(word)] for word in ("[CLS]", *words, "[SEP]")]
    best = np.log1p(np.maximum(np.max(rows, axis=0), 0.0, dtype=np.float32))
    return {term: float(weight) for term, weight in enumerate(best) if weight > 0}


def write_tokenizer(folder: Path) -> None:
    """Single letters, in BERT's frame."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    ids = {word: at for at, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_padding(length=40)  # as some are published: an encoder must not use it
    tokenizer.save(str(folder / "tokenizer.json"))


def model(kind: Kind) -> bytes:
    """The file of a model."""
    integer = INT32 if kind == "int32" else INT64
    inputs = ["input_ids", "attention_mask"]
    inputs += ["token_type_ids"] if kind == "types" else []
    inputs += ["pixel_values"] if kind == "other input" else []
    nodes = [_node("Gather", ["table", "input_ids"], ["logits"])]
    # Every input is used: what is not would be no input of the model.
    for name in inputs[1:]:
        nodes += [
            _node("Cast", [name], [f"{name}.float"], to=FLOAT),
            _node("Sub", [f"{name}.float"] * 2, [f"{name}.zero"]),
            _node("Unsqueeze", [f"{name}.zero", "axis2"], [f"{name}.row"]),
            _node("Add", ["logits" if name == inputs[1] else "added", f"{name}.row"], ["added"])
            if name == inputs[1]
            else _node("Add", ["added", f"{name}.row"], ["added more"]),
        ]
    last = "added" if len(inputs) == 2 else "added more"
    shape: list[str | int] = ["b", "n", TERMS]
    if kind == "pooled":
        nodes += [
            _node("Relu", [last], ["positive"]),
            _node("Add", ["positive", "one"], ["more"]),
            _node("Log", ["more"], ["logs"]),
            _node("ReduceMax", ["logs"], ["out"], axes=[1], keepdims=0),
        ]
        shape = ["b", TERMS]
    elif kind == "nan":
        nodes += [
            _node("Sub", [last, last], ["zero"]),
            _node("Div", ["zero", "zero"], ["out"]),
        ]
    elif kind == "other output":
        nodes.append(_node("ReduceMax", [last], ["out"], axes=[2, 0], keepdims=0))
        shape = ["n"]
    else:
        nodes.append(_node("Identity", [last], ["out"]))
    flat = TABLE.reshape(-1).tolist()
    graph = b"".join(
        [
            *(_field(1, node) for node in nodes),
            _field(2, b"splade"),
            _field(5, _constant("table", FLOAT, flat, TABLE.shape)),
            _field(5, _constant("axis2", INT64, [2], [1])),
            _field(5, _constant("one", FLOAT, [1.0], [1])),
            *(_field(11, _value(name, integer, ["b", "n"])) for name in inputs),
            _field(12, _value("out", FLOAT, shape)),
        ]
    )
    return _number(1, 8) + _field(7, graph) + _field(8, _number(2, 17))


def _node(kind: str, inputs: Iterable[str], outputs: Iterable[str], **attributes: Any) -> bytes:
    return b"".join(
        [
            *(_field(1, name.encode()) for name in inputs),
            *(_field(2, name.encode()) for name in outputs),
            _field(4, kind.encode()),
            *(_field(5, _attribute(name, value)) for name, value in attributes.items()),
        ]
    )


def _attribute(name: str, value: int | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return _field(1, name.encode()) + _number(3, value) + _number(20, 2)
    return _field(1, name.encode()) + b"".join(_number(8, each) for each in value) + _number(20, 7)


def _constant(name: str, kind: int, values: Sequence[float], shape: Sequence[int]) -> bytes:
    data = struct.pack(f"<{len(values)}{'q' if kind == INT64 else 'f'}", *values)
    sizes = b"".join(_number(1, size) for size in shape)
    return sizes + _number(2, kind) + _field(8, name.encode()) + _field(9, data)


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = b"".join(
        _field(1, _number(1, size) if isinstance(size, int) else _field(2, size.encode()))
        for size in shape
    )
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, sizes)))


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])
