"""What an editor shows: mypy and pyright pass good calls, and refuse bad ones."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def mypy(file: Path, cache: Path) -> set[int]:
    """The lines that ``mypy --strict`` complains of."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file="),
            *(f"--cache-dir={cache}", "--follow-imports=silent", "--no-error-summary", str(file)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    found = re.findall(r"^(\S+?):(\d+): error:", done.stdout, re.MULTILINE)
    assert {Path(name).name for name, _ in found} <= {file.name}, done.stdout
    return {int(line) for _, line in found}


def pyright(file: Path, cache: Path) -> set[int]:
    """The lines that pyright, strict, complains of."""
    command = shutil.which("pyright", path=str(Path(sys.executable).parent))
    if command is None:
        pytest.skip("pyright is not installed")
    shutil.copy(file, cache)
    (cache / "pyrightconfig.json").write_text(
        json.dumps({"include": [file.name], "typeCheckingMode": "strict"})
    )
    done = subprocess.run(
        [command, "--outputjson", "--pythonpath", sys.executable, "-p", str(cache)],
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        pytest.skip(f"pyright does not run here: {done.stderr[-200:]}")
    answer = json.loads(done.stdout)
    assert answer["summary"]["filesAnalyzed"] == 1
    found = answer["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


def bad_lines(file: Path) -> set[int]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, start=1) if line.endswith("# bad")}


@pytest.mark.process
@pytest.mark.parametrize("check", [mypy, pyright])
@pytest.mark.parametrize("name", ["good_calls.py", "bad_calls.py"])
def test_a_type_checker_tells_good_calls_from_bad_ones(
    check: Callable[[Path, Path], set[int]], name: str, tmp_path: Path
) -> None:
    assert check(HERE / name, tmp_path) == bad_lines(HERE / name)
