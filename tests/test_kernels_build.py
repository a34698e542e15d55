"""A wheel has the kernels where they can be compiled, its tag says so, and the skill for agents."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import triptych
from triptych_backends.index import kernels
from triptych_server.mcp.configuration import SKILL

ROOT = Path(__file__).parents[1]
PACKAGE = Path(triptych.__file__).parent
MODULE = "triptych_backends.index._kernels"


def build(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel of this checkout, with these variables set."""
    # Not imported: setuptools refuses to be where distutils was before.
    for name in ("hatchling", "setuptools"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    kept = {name: value for name, value in os.environ.items() if name != "TRIPTYCH_KERNELS"}
    return subprocess.run(
        [*command, "--directory", str(folder)],
        cwd=ROOT,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def built(folder: Path) -> tuple[str, set[str]]:
    """The tag of the one wheel in a folder, and what of the kernels is in it."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(name).name for name in archive.namelist() if "kernels." in name}
    return wheel.stem.split("-", 2)[2], held


@pytest.mark.process
@pytest.mark.parametrize("variables", [{"TRIPTYCH_KERNELS": "no"}, {"CC": "/bin/false"}])
def test_without_a_compiler_the_wheel_is_for_every_system(tmp_path: Path, variables) -> None:
    done = build(tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert built(tmp_path) == ("py3-none-any", {"kernels.py"})
    assert ("NumPy is used" in done.stdout + done.stderr) == ("CC" in variables)


@pytest.mark.process
def test_the_wheel_has_the_skill_that_agents_read(tmp_path: Path) -> None:
    assert build(tmp_path, TRIPTYCH_KERNELS="no").returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = archive.read(f"triptych/{SKILL.relative_to(PACKAGE).as_posix()}")
    assert held == SKILL.read_bytes()


@pytest.mark.process
def test_what_is_required_and_fails_makes_no_wheel(tmp_path: Path) -> None:
    assert build(tmp_path, CC="/bin/false", TRIPTYCH_KERNELS="require").returncode != 0
    refused = build(tmp_path, TRIPTYCH_KERNELS="maybe")
    assert "give one of auto, require, no" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="no stable ABI")
def test_this_checkout_is_compiled() -> None:
    # A fault in the source would leave NumPy in use, and skip every test of the kernels.
    assert "TRIPTYCH_PURE" in kernels.in_use or kernels.compiled is not None, kernels.in_use


@pytest.mark.process
@pytest.mark.skipif(kernels.compiled is None, reason=kernels.in_use)
def test_a_compiled_wheel_is_for_its_system_and_any_later_python(tmp_path: Path) -> None:
    done = build(tmp_path, TRIPTYCH_KERNELS="require")
    assert done.returncode == 0, done.stderr
    tag, held = built(tmp_path)
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert tag == f"cp311-abi3-{system}"
    assert len(held) == 2  # kernels.py, and no source


@pytest.mark.parametrize(
    ("module", "pure", "said"),
    [
        (None, "", "NumPy (nothing was compiled when Triptych was installed)"),
        (None, "1", "NumPy (TRIPTYCH_PURE is set)"),
        (SimpleNamespace(VERSION=kernels.VERSION, use=lambda _: "best"), "1", "NumPy (TRIPTYCH_P"),
        (SimpleNamespace(VERSION=kernels.VERSION - 1), "0", "NumPy (what was compiled is of ano"),
        (SimpleNamespace(VERSION=kernels.VERSION, use=lambda _: "best"), "0", "compiled (best)"),
    ],
)
def test_what_is_in_use_and_why(monkeypatch: pytest.MonkeyPatch, module, pure, said) -> None:
    monkeypatch.setitem(sys.modules, MODULE, module)
    monkeypatch.setenv("TRIPTYCH_PURE", pure)
    found, told = kernels._load()
    assert told.startswith(said)
    assert (found is None) == said.startswith("NumPy")
