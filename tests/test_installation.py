"""What an error says about a missing package works where Triptych is installed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from triptych.installation import install_command, lacking
from triptych_adapters.wire.errors import public_message

ROOT = Path(__file__).parents[1]
PACKAGES = ("knowledge", "backends", "factory", "adapters")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

_NAMED = re.compile(r"(?:lacking\([^()]*?|extra=)[\"']([\w-]+)[\"'](?=\s*,?\s*\))")

pytestmark = pytest.mark.skipif(os.name == "nt", reason="words are quoted as a POSIX shell does")


@pytest.mark.process
def test_the_command_is_of_this_interpreter_and_of_a_place_that_is_there() -> None:
    *pip, source = shlex.split(install_command(extra="pdf"))
    said = subprocess.run([*pip[: pip.index("install")], "--version"], capture_output=True)
    if "uv" not in pip:
        assert f"{sys.version_info.major}.{sys.version_info.minor}" in said.stdout.decode()
    if source.startswith("triptych[pdf] @ "):  # this run is of an installed wheel
        origin = urlsplit(source.partition(" @ ")[2])
        assert origin.scheme != "file" or Path(url2pathname(origin.path)).is_file()
        return
    folder, _, extra = source.partition("[")
    project = tomllib.loads(Path(folder, "pyproject.toml").read_text())["project"]
    assert "pdf" in project["optional-dependencies"]
    assert extra == "pdf]"


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        (None, "triptych[pdf]"),
        ({"url": "file:///srv/a%20b", "dir_info": {}}, "/srv/a b[pdf]"),
        ({"url": "file:///srv/kb", "dir_info": {"editable": True}}, "-e /srv/kb[pdf]"),
        (
            {"url": "https://x.example/t-1.whl", "archive_info": {}},
            "triptych[pdf] @ https://x.example/t-1.whl",
        ),
        (
            {"url": "https://x.example/t.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "triptych[pdf] @ git+https://x.example/t.git@abc",
        ),
    ],
)
@pytest.mark.process
def test_triptych_is_named_as_it_was_installed(origin: Any, told: str, tmp_path: Path) -> None:
    about = tmp_path / "triptych-9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: triptych\nVersion: 9\n")
    if origin is not None:
        (about / "direct_url.json").write_text(json.dumps(origin))
    code = "from triptych import installation as i; print(i.install_command(extra='pdf'))"
    path = os.pathsep.join([str(tmp_path), str(ROOT / "knowledge")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    words = shlex.split(done.stdout)
    assert " ".join(words[words.index("install") + 1 :]).endswith(told)


def test_what_pipx_installed_is_installed_again_with_one_extra_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    kept = tmp_path / "pipx_metadata.json"
    for installed, told in {
        "/srv/a b": "/srv/a b[pdf]",
        "/srv/kb[local,watch]": "/srv/kb[local,watch,pdf]",
        "triptych[pdf]==1": "triptych[pdf]==1",
        "git+https://x.example/t.git": "triptych[pdf] @ git+https://x.example/t.git",
        "triptych[local] @ https://x.example/t.whl": (
            "triptych[local,pdf] @ https://x.example/t.whl"
        ),
    }.items():
        kept.write_text(json.dumps({"main_package": {"package_or_url": installed}}))
        words = shlex.split(install_command(extra="pdf"))
        assert words == ["pipx", "install", "--force", told]
    for damaged in ("", "{}", "[]", '{"main_package": null}'):
        kept.write_text(damaged)
        assert "pipx" not in install_command(extra="pdf")


def test_who_asks_a_server_is_told_no_folder_of_it() -> None:
    error = lacking("reading 'a.pdf' needs pypdfium2, which is not installed", "pdf")
    assert str(error).endswith(install_command(extra="pdf"))
    assert public_message(error) == "reading 'a.pdf' needs pypdfium2, which is not installed"


def test_every_extra_that_is_named_is_one() -> None:
    named = set()
    for folder in PACKAGES:
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            named |= set(
                re.findall(r"(?:lacking\([^()]*?|extra=)[\"']([\w-]+)[\"'](?=\s*,?\s*\))", text)
            )
            for pair in re.findall(r"extra=\"([\w-]+)\" if .+? else \"([\w-]+)\"", text):
                named |= set(pair)
            assert not re.search(r"install '?\"?triptych\[", text), file
    assert {"code", "http", "local", "mcp", "ocr", "pdf", "server"} <= named
    assert named <= set(EXTRAS)


def test_no_page_names_an_index_that_does_not_have_it() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [
        f"{page.name}: {line}"
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.search(r"install.*[\"']triptych\[", line)
    ]
    assert found == []


def test_all_is_every_extra_but_the_frameworks_and_what_tests_need() -> None:
    whole, *models = EXTRAS["all"]
    inside = set(whole.removeprefix("triptych[").removesuffix("]").split(","))
    models_extras = {"local", "local-multilingual"}
    others = {"all", "dev", "langchain", "haystack", "notes"}
    assert inside | models_extras | {"ocr"} == set(EXTRAS) - others
    # Whoever names an extra that has no wheels learns it; `all` goes without. The build would
    # drop markers of extras, so that what is in them is named.
    held = [each.partition(";")[0] for each in models]
    held.remove(next(each for each in EXTRAS["ocr"] if each.startswith("rapidocr")))
    named = [each for extra in sorted(models_extras) for each in EXTRAS[extra]]
    assert held == [each.partition(";")[0] for each in named]
    assert all(";" in each for each in models)


def test_notes_has_what_local_has() -> None:
    _, *held = EXTRAS["notes"]
    assert held == EXTRAS["local"]
