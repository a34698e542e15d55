"""Small cross-encoders as ONNX files, written byte by byte, with a tokenizer of a few words.

The model "share" gives the share of the query's tokens that occur in the text: `share` computes the
same, so that tests know each score. ONNX is protobuf: a field is its number and its kind, then
its length and its bytes, or a number. Source of the field numbers: onnx.proto3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz"]

FLOAT, INT32, INT64 = 1, 6, 7

Kind = Literal["share", "tokens", "two", "flat", "wide", "nan", "int32", "other input"]


def write_model(folder: Path, kind: Kind = "share", **tokenizer: Any) -> Path:
    """A folder with a model and a tokenizer.

    "share" is told above; "two" gives 1 and 1 + that share, "flat" has one dimension, "int32" takes
    such inputs. "tokens" takes no types, and gives how many tokens the pair has. "wide" gives three
    logits, "nan" no number; "other input" wants what no cross-encoder has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model(kind))
    write_tokenizer(folder, **tokenizer)
    return folder


def share(query: Sequence[str], text: Sequence[str]) -> float:
    """What the model "share" gives for the words of a query and of a text, after all cuts.

    [CLS] and [SEP] count as words of the query; the text has a [SEP] too.
    """
    asked = ["[CLS]", *query, "[SEP]"]
    return sum(word in (*text, "[SEP]") for word in asked) / len(asked)


def write_tokenizer(folder: Path, *, max_length: int | None = None) -> None:
    """Single letters, in BERT's frame."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    ids = {word: at for at, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    if max_length is not None:
        tokenizer.enable_truncation(max_length)
        tokenizer.enable_padding(pad_id=0)
    tokenizer.save(str(folder / "tokenizer.json"))


def model(kind: Kind) -> bytes:
    """The file of a model."""
    integer = INT32 if kind == "int32" else INT64
    inputs = ["input_ids", "attention_mask"]
    if kind == "other input":
        inputs.append("pixel_values")
    if kind != "tokens":
        inputs.append("token_type_ids")
    nodes = _counting() if kind == "tokens" else _sharing()
    shape = ["b", 1]
    if kind == "two":
        nodes += [
            _node("Add", ["logits", "one"], ["more"]),
            _node("Sub", ["more", "logits"], ["ones"]),
            _node("Concat", ["ones", "more"], ["out"], axis=1),
        ]
        shape = ["b", 2]
    elif kind == "wide":
        nodes.append(_node("Concat", ["logits", "logits", "logits"], ["out"], axis=1))
        shape = ["b", 3]
    elif kind == "flat":
        nodes.append(_node("Squeeze", ["logits", "axis1"], ["out"]))
        shape = ["b"]
    elif kind == "nan":
        nodes += [
            _node("Sub", ["logits", "logits"], ["zero"]),
            _node("Div", ["zero", "zero"], ["out"]),
        ]
    else:
        nodes.append(_node("Identity", ["logits"], ["out"]))
    graph = b"".join(
        [
            *(_field(1, node) for node in nodes),
            _field(2, b"cross-encoder"),
            _field(5, _constant("axis1", INT64, [1], [1])),
            _field(5, _constant("axis2", INT64, [2], [1])),
            _field(5, _constant("one", FLOAT, [1.0], [1])),
            *(_field(11, _value(name, integer, ["b", "n"])) for name in inputs),
            _field(12, _value("out", FLOAT, shape)),
        ]
    )
    opset = _field(8, _number(2, 17))
    return _number(1, 8) + _field(7, graph) + opset


def _sharing() -> list[bytes]:
    """The share of tokens of type 0 that equal a token of type 1, padding aside."""
    return [
        _node("Cast", ["token_type_ids"], ["type"], to=FLOAT),
        _node("Cast", ["attention_mask"], ["mask"], to=FLOAT),
        _node("Mul", ["type", "mask"], ["text"]),
        _node("Sub", ["mask", "text"], ["query"]),
        _node("Unsqueeze", ["input_ids", "axis2"], ["down"]),
        _node("Unsqueeze", ["input_ids", "axis1"], ["across"]),
        _node("Equal", ["down", "across"], ["same"]),
        _node("Cast", ["same"], ["equal"], to=FLOAT),
        _node("Unsqueeze", ["text", "axis1"], ["texts"]),
        _node("Mul", ["equal", "texts"], ["met"]),
        _node("ReduceMax", ["met"], ["found"], axes=[2], keepdims=0),
        _node("Mul", ["found", "query"], ["hits"]),
        _node("ReduceSum", ["hits", "axis1"], ["sum"], keepdims=1),
        _node("ReduceSum", ["query", "axis1"], ["all"], keepdims=1),
        _node("Div", ["sum", "all"], ["logits"]),
    ]


def _counting() -> list[bytes]:
    return [
        _node("Cast", ["attention_mask"], ["mask"], to=FLOAT),
        _node("Cast", ["input_ids"], ["ids"], to=FLOAT),
        _node("Mul", ["mask", "ids"], ["kept"]),
        _node("Sub", ["kept", "kept"], ["zero"]),
        _node("Add", ["mask", "zero"], ["each"]),
        _node("ReduceSum", ["each", "axis1"], ["logits"], keepdims=1),
    ]


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
    format = "q" if kind == INT64 else "f"
    data = struct.pack(f"<{len(values)}{format}", *values)
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
