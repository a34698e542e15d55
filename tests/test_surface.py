"""The public surface: pinned, cheap to import, silent on the network, leaving nothing open."""

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import triptych
from triptych import contracts, records, search

HEAVY = ("sqlalchemy", "httpx", "httpx2", "onnxruntime", "tokenizers", "rjieba", "jieba", "typer")


def run(code: str, *, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", code],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_all_is_sorted_and_complete() -> None:
    def place(name: str) -> tuple[int, str]:
        """Constants, then classes, then functions: the order that the linter keeps."""
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert list(triptych.__all__) == sorted(set(triptych.__all__), key=place)
    for name in triptych.__all__:
        assert getattr(triptych, name) is not None
    assert set(triptych.__all__) <= set(dir(triptych))
    assert 40 <= len(triptych.__all__) <= 61


def test_a_name_that_is_not_at_the_top_has_one_home() -> None:
    homes = [contracts, records, search]
    for name in (name for home in homes for name in home.__all__):
        assert sum(name in home.__all__ for home in homes) == 1, name
    assert search.DEFAULT_THRESHOLD > 0
    for name in ("DEFAULT_THRESHOLD", "MMR", "ChunkRepo"):
        assert not hasattr(triptych, name)


def every_name() -> list[tuple[str, str]]:
    """The public names that are not at the top, each with a module that has it."""
    pages = (Path(__file__).parents[1] / "docs/reference/api").glob("*.md")
    found = (re.findall(r"^::: ([\w.]+)\.(\w+)$", page.read_text("utf-8"), re.M) for page in pages)
    return [(home, name) for each in found for home, name in each if not hasattr(triptych, name)]


def test_an_import_of_a_name_of_another_module_names_the_module() -> None:
    homes: dict[str, set[str]] = {}
    for home, name in every_name():
        homes.setdefault(name, set()).add(home)
    modules = {each.name for each in pkgutil.iter_modules(triptych.__path__)}
    assert len(homes) > 500
    for name in homes.keys() - modules:
        with pytest.raises(ImportError) as raised:
            exec(f"from triptych import {name}")
        found = re.search(r"use `(from ([\w.]+) import \w+)`", str(raised.value))
        assert found, (name, str(raised.value))
        if found[2].split(".")[-1] not in ("haystack", "langchain"):
            exec(found[1])
    for name in ("BM25Retriever", "no_such_name"):
        assert not hasattr(triptych, name)
    with pytest.raises(AttributeError, match=r"from triptych\.search import BM25Retriever"):
        _ = triptych.BM25Retriever
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        exec("from triptych import no_such_name")


def test_importing_triptych_imports_nothing_heavy() -> None:
    loaded = run(
        "import sys, triptych; before = set(sys.modules);"
        "print(*sorted({name.split('.')[0] for name in before}))"
    ).split()
    assert not set(loaded) & {*HEAVY, "numpy", "attrs", "triptych_backends", "triptych_factory"}


def test_the_service_itself_imports_no_database_and_no_model() -> None:
    loaded = run(
        "import sys, triptych, triptych.search; triptych.Service, triptych.search.SearchEngine;"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    ).split()
    assert not set(loaded) & {*HEAVY, "triptych_backends", "triptych_factory"}


def test_no_name_is_looked_up_on_the_network_and_nothing_stays_open(tmp_path: Path) -> None:
    out = run(
        """
import gc, os, sys
calls = []
watched = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"}
sys.addaudithook(lambda event, args: calls.append(event) if event in watched else None)
import triptych
before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
for url in ("kb.db", "memory://"):
    with triptych.open(url, embedder="hash") as kb:
        kb.put_documents("d", {f"{at}.md": f"# Title {at}\\n\\nSome words." for at in range(50)})
        kb.search("words", dataset_id="d")
        kb.search_documents("words", dataset_id="d")
gc.collect()
after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
assert after <= before, (before, after)
print(calls)
""",
        cwd=tmp_path,
    )
    assert out.strip() == "[]"
