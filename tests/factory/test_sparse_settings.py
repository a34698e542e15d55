"""The setting ``sparse_encoder``: off unless it names one."""

from __future__ import annotations

from pathlib import Path

import pytest

import triptych
from support.rows import each_row
from support.splade_models import write_model
from support.trusted import write_trusted
from triptych.errors import ValidationError
from triptych_factory import Settings
from triptych_factory.embedders import build_sparse_encoder
from triptych_models import SpladeEncoder
from triptych_providers import TEISparseEncoder
from triptych_testing.fakes import FakeSparseEncoder


def test_there_is_none_unless_one_is_named() -> None:
    assert Settings().sparse_encoder == "none"
    assert build_sparse_encoder("none") is None
    with triptych.open("memory://", embedder=None) as kb:
        assert kb.options.sparse_encoder is None
        assert "sparse" not in kb.lanes


def test_an_encoder_passes_and_stays_open() -> None:
    encoder = FakeSparseEncoder()
    closed = []
    encoder.close = lambda: closed.append(1)  # type: ignore[attr-defined]  # a model's own
    with triptych.open("memory://", embedder=None, sparse_encoder=encoder) as kb:
        assert kb.options.sparse_encoder is encoder
    assert closed == []


def test_the_argument_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIPTYCH_SPARSE_ENCODER", "tei:http://localhost:1")
    with triptych.open("memory://", embedder=None) as kb:
        assert isinstance(kb.options.sparse_encoder, TEISparseEncoder)
    with triptych.open("memory://", embedder=None, sparse_encoder="none") as kb:
        assert kb.options.sparse_encoder is None


def test_a_folder_in_a_file_is_beside_that_file(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    write_model(tmp_path / "models" / "mine")
    write_trusted(tmp_path, 'url = "kb.db"\nsparse_encoder = "splade:models/mine"\n', tmp_path)
    (tmp_path / "below").mkdir()
    settings = Settings.resolve(
        environ={"XDG_DATA_HOME": str(tmp_path)}, directory=tmp_path / "below"
    )
    assert settings.sparse_encoder == f"splade:{tmp_path / 'models' / 'mine'}"
    made = build_sparse_encoder(settings.sparse_encoder)
    assert isinstance(made, SpladeEncoder)
    assert made.signature.startswith("splade/mine@")


def test_an_address_is_shown_without_its_secrets() -> None:
    settings = Settings(sparse_encoder="tei:http://user:secret@host/path")
    shown = next(each for each in settings.explain() if each.name == "sparse_encoder")
    assert "secret" not in f"{shown}{settings!r}"


@each_row("name", ["splade", "tei", "nanoe", "splade:", "tei: ", "other:x", "local", "tei:host"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        build_sparse_encoder(name)


def test_a_proxy_of_the_environment_is_used_except_for_this_machine() -> None:
    environ = {"HTTP_PROXY": "http://proxy:3128"}
    far = build_sparse_encoder("tei:http://far.example", environ=environ)
    near = build_sparse_encoder("tei:http://localhost:8080", environ=environ)
    assert isinstance(far, TEISparseEncoder)
    assert isinstance(near, TEISparseEncoder)
    assert far._client.connection.proxy == "http://proxy:3128"
    assert near._client.connection.proxy is None
    far.close()
    near.close()


def test_a_key_goes_where_the_user_sends_it_and_nowhere_else() -> None:
    environ = {"TEI_API_KEY": "key-0123456789"}
    with pytest.raises(ValidationError, match="TEI_API_KEY is not sent"):
        build_sparse_encoder("tei:http://far.example", origin="file", environ=environ)
    near = build_sparse_encoder("tei:http://localhost:9090", origin="file", environ=environ)
    assert isinstance(near, TEISparseEncoder)
    assert "authorization" not in near._client.headers
    near.close()


def test_a_misspelt_encoder_leaves_no_empty_store_behind(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="no sparse encoder"):
        triptych.open(tmp_path / "kb.db", embedder=None, sparse_encoder="nano")
    assert list(tmp_path.iterdir()) == []
