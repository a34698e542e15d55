"""What an index shows of a release, and the bill of materials in its wheel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from support.loaded import load

pytest.importorskip("hatchling")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "https://code.example/triptych"


def shown(repository: str) -> dict[str, Any]:
    """What the hook adds to the metadata, with this setting."""
    metadata: dict[str, Any] = {"version": "1.2.3"}
    load("hatch_build.py").IndexHook(str(ROOT), {"repository": repository}).update(metadata)
    return metadata


def test_without_an_address_links_stay_relative() -> None:
    metadata = shown("")
    assert metadata["urls"] == {}
    assert metadata["readme"] == {"content-type": "text/markdown", "text": README}


def test_with_an_address_every_link_is_to_the_pages_of_the_version() -> None:
    metadata = shown(ADDRESS + "/")
    assert metadata["urls"]["Source"] == ADDRESS
    assert all(each.startswith(ADDRESS) for each in metadata["urls"].values())
    relative = re.findall(r"\]\(((?!https?:|#)[^)]*)\)", README)
    assert len(relative) > 20
    text = metadata["readme"]["text"]
    assert [each for each in relative if f"]({ADDRESS}/blob/v1.2.3/{each})" not in text] == []
    assert re.findall(r"\]\((?!https?:|#)", text) == []
    assert text.replace(f"{ADDRESS}/blob/v1.2.3/", "") == README


@pytest.mark.process
def test_the_wheel_lists_what_it_holds_and_what_it_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", str(tmp_path)], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if "/sboms/" in each]
        bill = json.loads(archive.read(name))
    assert name.endswith(".dist-info/sboms/triptych.cyclonedx.json")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/triptych@{PROJECT['version']}"
    scopes = {each["purl"]: each.get("scope") for each in bill["components"]}
    assert len(scopes) == len(bill["components"])
    required = {each.removeprefix("pkg:pypi/") for each in scopes if scopes[each] == "required"}
    assert required == {re.split(r"[>=<\[]", each)[0].lower() for each in PROJECT["dependencies"]}
    assert scopes["pkg:pypi/onnxruntime"] == "optional"
    held = [each["name"] for each in bill["components"] if "scope" not in each]
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert held
    assert [each for each in held if each not in notice] == []
    assert bill["dependencies"][0]["dependsOn"] == list(scopes)
