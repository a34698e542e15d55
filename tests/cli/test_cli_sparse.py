"""The sparse lane at the command line: put, embed, search, status, rebuild, doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from support.splade_models import write_model

pytest.importorskip("onnxruntime", reason="the extra 'local' is not installed")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    folder = write_model(tmp_path / "models" / "letters")
    monkeypatch.setenv("TRIPTYCH_SPARSE_ENCODER", f"splade:{folder}")
    shell.write("docs/one.md", "a b\n")
    shell.write("docs/two.md", "c d\n")
    return shell


def test_what_is_put_is_found_in_the_mode_sparse_and_counted(shell: Shell) -> None:
    ran = shell("put", "docs", "--json")
    assert ran.json["encoded"] == 2
    found = shell("search", "c", "--mode", "sparse", "--json").json
    assert found["warnings"] == []
    scores = {hit["doc_name"]: hit["scores"] for hit in found["hits"]}
    assert set(scores["two.md"]) == {"sparse"}
    both = shell("search", "c", "--json").json["hits"][0]["scores"]
    assert {"vector", "sparse"} <= set(both)
    (dataset,) = shell("status", "--json").json["datasets"]
    assert [(each["vectors"], each["pending"]) for each in dataset["further_spaces"]] == [(2, 0)]
    assert dataset["config"]["sparse_sig"].startswith("splade/letters@")
    assert [dataset["config"]["sparse_sig"], "default", "2", "", "0"] in shell("status").rows
    assert "(2 embedded, 2 encoded)" in shell("put", "docs", "-d", "again").text


def test_what_waits_is_told_and_embed_adds_it(shell: Shell) -> None:
    shell("put", "docs", "--later")
    (dataset,) = shell("status", "--json").json["datasets"]
    assert [each["pending"] for each in dataset["further_spaces"]] == [2]
    assert any("sparse vectors" in each for each in shell("status", "--json").json["problems"])
    ran = shell("search", "c", "--json")
    assert any("2 documents lack sparse vectors" in each for each in ran.json["warnings"])
    assert shell("embed", "--json").json["encoded"] == 2
    assert shell("embed", "--json").json["encoded"] == 0
    assert shell("search", "c", "--json").json["warnings"] == []
    assert shell("doctor", "--json").json["findings"] == []


def test_a_rebuild_adds_them_to_a_store_that_had_none(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.delenv("TRIPTYCH_SPARSE_ENCODER")
        shell("put", "docs")
        ran = shell("search", "c", "--mode", "sparse")
        assert ran.code == 2
        assert "set sparse_encoder (TRIPTYCH_SPARSE_ENCODER)" in ran.err
        assert "splade/letters@" not in shell("status").text
    assert shell("search", "c", "--mode", "sparse").code != 0
    assert shell("rebuild", "--json").json["encoded"] == 2
    assert shell("search", "c", "--mode", "sparse", "--json").json["hits"]
