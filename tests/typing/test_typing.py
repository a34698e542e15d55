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
FILES = [HERE / "good_calls.py", HERE / "bad_calls.py"]
"""Checked together: a checker reads all of Triptych first, which takes the most time."""

Lines = set[tuple[str, int]]
"""Names of files, and lines in them."""


def mypy(cache: Path) -> Lines:
    """The lines that ``mypy --strict`` complains of."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file="),
            *(f"--cache-dir={cache}", "--follow-imports=silent", "--no-error-summary"),
            *map(str, FILES),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    found = re.findall(r"^(\S+?):(\d+): error:", done.stdout, re.MULTILINE)
    assert {Path(name).name for name, _ in found} <= {file.name for file in FILES}, done.stdout
    return {(Path(name).name, int(line)) for name, line in found}


def pyright(cache: Path) -> Lines:
    """The lines that pyright, strict, complains of."""
    command = shutil.which("pyright", path=str(Path(sys.executable).parent))
    if command is None:
        pytest.skip("pyright is not installed")
    for file in FILES:
        shutil.copy(file, cache)
    include = [file.name for file in FILES]
    (cache / "pyrightconfig.json").write_text(
        json.dumps({"include": include, "typeCheckingMode": "strict"})
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
    assert answer["summary"]["filesAnalyzed"] == len(FILES)
    found = [each for each in answer["generalDiagnostics"] if each["severity"] == "error"]
    return {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in found}


def bad_lines() -> Lines:
    return {
        (file.name, number)
        for file in FILES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if line.endswith("# bad")
    }


@pytest.mark.process
@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_type_checker_tells_good_calls_from_bad_ones(
    check: Callable[[Path], Lines], tmp_path: Path
) -> None:
    wanted = bad_lines()
    assert {name for name, _ in wanted} == {"bad_calls.py"}
    assert check(tmp_path) == wanted
