"""A model whose files are replaced while it is open makes nothing under its old signature."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import onnx_models, splade_models
from support.folder_models import onnx_folder, static_folder, write_json
from support.rows import each_row
from triptych.errors import ProviderError
from triptych_models import CrossEncoder, OnnxEmbedder, SpladeEncoder, StaticEmbedder

pytest.importorskip("onnxruntime")
pytest.importorskip("safetensors")


def _splade(folder: Path) -> SpladeEncoder:
    splade_models.write_model(folder)
    write_json(folder / "idf.json", {splade_models.WORDS[0]: 1.0})
    return SpladeEncoder(folder)


def _cross(folder: Path) -> CrossEncoder:
    onnx_models.write_model(folder)
    return CrossEncoder(folder)


KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Any], object]]] = {
    "onnx": (
        lambda folder: OnnxEmbedder(onnx_folder(folder)),
        lambda one: one.embed(["a"], kind="document"),
    ),
    "static": (
        lambda folder: StaticEmbedder(static_folder(folder)),
        lambda one: one.embed(["a"], kind="document"),
    ),
    "splade": (_splade, lambda one: one.encode(["a"], kind="document")),
    "splade by idf": (_splade, lambda one: one.encode(["a"], kind="query")),
    "cross": (_cross, lambda one: one.scores("a", ["b"])),
}
FILES = {"model.onnx", "model.safetensors", "tokenizer.json", "idf.json"}


@each_row("kind", sorted(KINDS))
def test_a_file_that_is_replaced_is_named_and_nothing_is_made(
    tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    opened, use = KINDS[kind]
    names = {path.name for path in _model_files(_written(tmp_path_factory, opened)[0])}
    assert names
    for name in sorted(names):
        for step in (_of_signature, use):  # whichever is first
            folder, model = _written(tmp_path_factory, opened)
            step(model)
            _replace(next(path for path in _model_files(folder) if path.name == name))
            model.close()  # so that it is loaded again
            with pytest.raises(ProviderError, match=f"{name} changed since it was read"):
                use(model) if step is _of_signature else _of_signature(model)


def _of_signature(model: Any) -> object:
    return model.signature


def _written(factory: pytest.TempPathFactory, opened: Callable[[Path], Any]) -> tuple[Path, Any]:
    folder = factory.mktemp("model")
    return folder, opened(folder)


def _model_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name in FILES]


def _replace(path: Path) -> None:
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)
