"""Compiles the search's kernels into a wheel, or beside their source for an editable installation.

``TRIPTYCH_KERNELS`` says how: ``auto``, the default, installs without them where they cannot be
compiled; ``require`` fails there, as wheels to be published do; ``no`` does not try.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "backends/triptych_backends/index"
MODES = ("auto", "require", "no")


class KernelsHook(BuildHookInterface):
    """The hook that hatchling calls for each wheel."""

    def dependencies(self) -> list[str]:
        # It knows the compilers of each system.
        return [] if _mode() == "no" else ["setuptools>=70.1"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        editable, root = version == "editable", Path(self.root)
        # Until the wheel is written, with which this hook goes as well.
        self._scratch = tempfile.TemporaryDirectory()
        folder = root / FOLDER if editable else Path(self._scratch.name)
        made = make_kernels(root, folder, self.app.display_warning)
        if made is None:
            return
        if not editable:
            build_data["force_include"][str(made)] = f"triptych_backends/index/{made.name}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"


def make_kernels(root: Path, folder: Path, warn: Callable[[str], object]) -> Path | None:
    """Compile into ``folder`` as the variable says; the file, None where there is none."""
    mode = _mode()
    for left in folder.glob("_kernels.*"):
        left.unlink()  # what a failure would leave is of another source
    if mode == "no":
        return None
    try:
        return compile_kernels(root / FOLDER / "kernels.c", folder)
    # setuptools raises what its many compilers do, and the installation does not need them.
    except Exception as error:
        if mode == "require":
            raise
        warn(f"the kernels are not compiled, NumPy is used: {error}")
        return None


def _mode() -> str:
    mode = os.environ.get("TRIPTYCH_KERNELS") or "auto"
    if mode not in MODES:
        raise ValueError(f"TRIPTYCH_KERNELS is {mode!r}: give one of {', '.join(MODES)}")
    return mode


def compile_kernels(source: Path, folder: Path) -> Path:
    """Compile ``source`` into ``folder``; the file that was made."""
    from setuptools import Distribution, Extension

    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise RuntimeError("this Python, without its lock, loads no file of the stable ABI")
    # Contracted sums would round otherwise than NumPy's.
    gnu = ["-O3", "-std=c99", "-g0", "-fno-fast-math", "-ffp-contract=off"]
    extension = Extension(
        "_kernels",
        [str(source)],
        py_limited_api=True,
        extra_compile_args=["/O2", "/fp:precise"] if sys.platform == "win32" else gnu,
    )
    command = Distribution({"ext_modules": [extension]}).get_command_obj("build_ext")
    with tempfile.TemporaryDirectory() as scratch:
        command.build_lib, command.build_temp = str(folder), scratch
        command.ensure_finalized()
        command.run()
    return Path(command.get_ext_fullpath("_kernels"))


if __name__ == "__main__":  # of `make venv`, when their source has changed
    ROOT = Path(__file__).parent
    make_kernels(ROOT, ROOT / FOLDER, print)
