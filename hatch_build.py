"""What hatchling builds beside copies of files: kernels, a bill of materials, an index's links.

``TRIPTYCH_KERNELS`` says how the search's kernels are compiled into a wheel, or beside their source
for an editable installation: ``auto``, the default, installs without them where they cannot be
compiled; ``require`` fails there, as wheels to be published do; ``no`` does not try.
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.core import ProjectMetadata
from hatchling.metadata.plugin.interface import MetadataHookInterface

FOLDER = "backends/triptych_backends/index"
MODES = ("auto", "require", "no")


_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)")


class IndexHook(MetadataHookInterface):
    """The readme and the addresses that an index shows.

    Where ``repository`` of ``[tool.hatch.metadata.hooks.custom]`` names no address, there are none,
    and links of the readme stay relative.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the two fields that ``[project]`` declares as dynamic."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        address = self.config.get("repository", "").rstrip("/")
        metadata["urls"] = {}
        if address:
            pages = f"{address}/blob/v{metadata['version']}/"
            text = _LINK.sub(pages, text)
            metadata["urls"] = {
                "Documentation": f"{pages}docs/README.md",
                "Source": address,
                "Changelog": f"{pages}CHANGELOG.md",
                "Issues": f"{address}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class WheelHook(BuildHookInterface):
    """The hook that hatchling calls for each wheel."""

    def dependencies(self) -> list[str]:
        # It knows the compilers of each system.
        return [] if _mode() == "no" else ["setuptools>=70.1"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        editable, root = version == "editable", Path(self.root)
        # Until the wheel is written, with which this hook goes as well.
        self._scratch = tempfile.TemporaryDirectory()
        bill = Path(self._scratch.name, "triptych.cyclonedx.json")
        bill.write_text(json.dumps(materials(self.metadata, self.config), indent=1) + "\n", "utf-8")
        build_data["sbom_files"].append(str(bill))
        folder = root / FOLDER if editable else Path(self._scratch.name)
        made = make_kernels(root, folder, self.app.display_warning)
        if made is None:
            return
        if not editable:
            build_data["force_include"][str(made)] = f"triptych_backends/index/{made.name}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"


def materials(metadata: ProjectMetadata, config: dict[str, Any]) -> dict[str, Any]:
    """The bill of materials of a wheel (PEP 770, CycloneDX 1.6), without a date: builds are equal.

    The parts are what the wheel holds of others, ``bundled`` of the hook's table in pyproject.toml,
    and what an installation adds, with the versions that are declared; the extras' are optional.
    """
    core = metadata.core
    own = {"type": "library", "name": core.name, "version": core.version}
    own["bom-ref"] = own["purl"] = f"pkg:pypi/{core.name}@{core.version}"
    parts = {each["purl"]: {"type": "library", **each} for each in config.get("bundled", [])}
    extras = {name: core.optional_dependencies_complex[name] for name in core.optional_dependencies}
    for scope, group in [("required", core.dependencies_complex)] + [
        ("optional", group) for name, group in extras.items() if name not in ("all", "dev")
    ]:
        for requirement in map(str, group):
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()
            part = {"type": "library", "name": name, "purl": f"pkg:pypi/{name}", "scope": scope}
            part["properties"] = [{"name": "triptych:requires", "value": requirement}]
            parts.setdefault(part["purl"], part)
    components = [{"bom-ref": each["purl"], **each} for each in parts.values()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": list(parts)}],
    }


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
