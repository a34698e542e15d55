"""Build what a release publishes, check it, and use it as people do (docs/how-to/release.md).

``build`` writes a compiled wheel, a wheel for every system and an sdist into a folder, each twice:
unequal bytes are an error. ``check`` has others' tools look at them. ``gate`` installs each into a
new environment of each Python that is found, and runs the first commands of the README, the demo
and tests there. ``ready`` says what is missing before a release can be published.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUPPORTED = ("3.11", "3.12", "3.13", "3.14", "3.14t")
FOLDERS = ("knowledge", "backends", "factory", "adapters")
PACKAGES = [
    file.parent.name for folder in FOLDERS for file in sorted((ROOT / folder).glob("*/__init__.py"))
]
CHECKERS = ("abi3audit>=0.0.24", "check-wheel-contents>=0.6", "twine>=6.1", "zizmor>=1.20")
SAMPLE = (
    "tests/test_kept_stores.py",
    "tests/contract/test_sqlite.py",
    "tests/backends/index",
    "tests/cli/test_cli_errors.py",
)
_OF_TESTS = ("pytest", "hypothesis", "embedded-", "rank-bm25")
"""What the sample needs of the extra dev."""
BASE_MIB = 120
"""The most that an installation without extras may take, without pip: NumPy is half of it."""


class ArtifactError(Exception):
    """What is built is not to be released; the message says why."""


# Build


def build(root: Path, folder: Path) -> list[Path]:
    """Write the sdist and both wheels of ``root`` into ``folder``, replacing what was there.

    The second of each wheel is built from the sdist, unpacked elsewhere.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch, "again")
        for each in (folder, again):
            _hatchling(root, each, "sdist", "no")
        (sdist,) = folder.glob("*.tar.gz")
        tree = unpack(sdist, Path(scratch))
        for kernels in ("require", "no"):
            _hatchling(root, folder, "wheel", kernels)
            _hatchling(tree, again, "wheel", kernels)
        if unequal := differing(folder, again):
            raise ArtifactError(f"built twice, these are not the same: {', '.join(unequal)}")
    return sorted(folder.iterdir())


def _hatchling(root: Path, folder: Path, target: str, kernels: str) -> None:
    run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", folder],
        cwd=root,
        env={**os.environ, "TRIPTYCH_KERNELS": kernels, "SOURCE_DATE_EPOCH": _epoch()},
    )


def _epoch() -> str:
    """The time of the commit, for every build of it."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    return run(["git", "log", "-1", "--pretty=%ct"], cwd=ROOT).strip()


def differing(first: Path, second: Path) -> list[str]:
    """The names of files that only one of two folders has, or that differ."""
    sums = [
        {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
        for folder in (first, second)
    ]
    return sorted({name for name, _ in sums[0].items() ^ sums[1].items()})


def unpack(sdist: Path, folder: Path) -> Path:
    """The tree of an sdist, unpacked into ``folder``."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


# Check


def check(artifacts: Sequence[Path], environment: Path) -> None:
    """Have others' tools look at the artifacts: those are installed into ``environment``."""
    tools = _environment(Path(sys.executable), environment, CHECKERS)
    wheels = [each for each in artifacts if each.suffix == ".whl"]
    say(run([tools / "twine", "check", "--strict", *artifacts]))
    say(run([tools / "check-wheel-contents", "--toplevel", ",".join(PACKAGES), *wheels]))
    compiled = [each for each in wheels if "abi3" in each.name]
    say(run([tools / "abi3audit", "--strict", "--summary", *compiled]))
    say(run([tools / "zizmor", "--offline", "--persona", "pedantic", ROOT / ".github/workflows"]))


# Use


def found_pythons(supported: Iterable[str] = SUPPORTED) -> dict[str, Path]:
    """The interpreters of this machine, by version: on the path, and pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = {}
    for version in supported:
        named = shutil.which(f"python{version}")
        of_pyenv = sorted(pyenv.glob(f"{version.removesuffix('t')}.*/bin/python{version}"))
        for each in [*([Path(named)] if named else []), *of_pyenv]:
            # pyenv puts commands on the path that only say which versions have them.
            done = subprocess.run([each, "-c", _TELL], capture_output=True, text=True, check=False)
            told, _, executable = done.stdout.strip().partition(" ")
            if told == version:
                found[version] = Path(executable)
                break
    return found


_TELL = """
import sys, sysconfig
free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
print(f"{sys.version_info[0]}.{sys.version_info[1]}{free} {sys.executable}")
"""


def first_commands(readme: str) -> list[str]:
    """The lines of the README that call ``triptych``, without what they explain."""
    lines = (line for line in readme.splitlines() if line.startswith("triptych "))
    return [re.split(r" {2,}", line, maxsplit=1)[0] for line in lines]


def first_program(readme: str) -> tuple[str, str]:
    """The first program of the README, and what it prints."""
    found = re.search(r"```python\n(.*?)```.*?```output\n(.*?)```", readme, re.DOTALL)
    if found is None:
        raise ArtifactError("the README shows no program with its output")
    return found[1], found[2]


def gate(artifacts: Sequence[Path], pythons: Mapping[str, Path], scratch: Path) -> list[str]:
    """Use each artifact on each Python, in ``scratch``; a line of a report for each."""
    if ROOT in scratch.resolve().parents:
        raise ArtifactError(f"{scratch} is in the checkout: nothing may be found there by chance")
    (sdist,) = [each for each in artifacts if each.suffix != ".whl"]
    tree = unpack(sdist, scratch)
    for each in FOLDERS:  # what is left are the tests, and what they read
        shutil.rmtree(tree / each)
    lines = []
    for version, python in pythons.items():
        for artifact in artifacts:
            if "abi3" in artifact.name and version.endswith("t"):
                continue  # a Python without its lock loads none
            started = time.monotonic()
            said = use(artifact, python, tree, scratch / f"{version}-{artifact.name}")
            lines.append(f"{version:6} {artifact.name}: {said}, {time.monotonic() - started:.0f} s")
            say(lines[-1])
    return lines


def use(artifact: Path, python: Path, tree: Path, folder: Path) -> str:
    """Install an artifact as the README says, run what it shows, and tests; what was seen."""
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (tree / "README.md").read_text(encoding="utf-8")
    # Without extras nothing needs a compiler.
    binary = [] if artifact.suffix != ".whl" else ["--only-binary", ":all:"]
    programs = _environment(python, folder, [*binary, str(artifact)])
    size = _size(folder)
    if size > BASE_MIB:
        raise ArtifactError(f"{size:.0f} MiB without extras are more than {BASE_MIB}")
    run([programs / "triptych", "--version"])

    _pip(programs, [f"{artifact}[local]"])
    home = folder / "home"
    (home / "notes").mkdir(parents=True)
    shutil.copy(tree / "docs/concepts.md", home / "notes")
    clean = {"HOME": str(home), "PATH": f"{programs}{os.pathsep}{os.defpath}", "VISUAL": "true"}
    clean["LC_ALL"] = "C.UTF-8"
    commands = first_commands(readme)
    answers = [run(["sh", "-c", each], cwd=home, env=clean) for each in commands]
    if len(commands) < 4 or "concepts.md" not in answers[1]:
        raise ArtifactError(f"the README's commands answer: {answers}")
    program, output = first_program(readme)
    printed = run([programs / "python", "-c", program], cwd=home, env=clean)
    if printed != output:
        raise ArtifactError(f"the README's program prints {printed!r}")
    demo = [programs / "python", "-m", "triptych_adapters.demo", "--folder", tree / "docs"]
    if "quick brown okapi" not in run(demo, cwd=home, env=clean):
        raise ArtifactError("the demo does not find what it wrote")
    status = run([programs / "triptych", "status"], cwd=home, env=clean)
    kernels = re.search(r"search kernels\W+(\w+ \([^)]*\))", status)

    dev = project["optional-dependencies"]["dev"]
    needed = [each for each in dev if each.startswith(_OF_TESTS)]
    _pip(programs, [f"{artifact}[local,postgres]", *needed])
    foreign = outside(programs, tree)
    if foreign:
        raise ArtifactError(f"the tests would import {', '.join(foreign)}")
    tests = [programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *SAMPLE]
    passed = run(tests, cwd=tree, env=clean).strip().splitlines()[-1].strip("= ")
    shutil.rmtree(folder)
    told = kernels[1] if kernels else "kernels: not said"
    return f"{size:.0f} MiB without extras; {told}; {len(commands)} commands, demo; {passed}"


def outside(programs: Path, tree: Path) -> list[str]:
    """The files of Triptych that are imported in ``tree`` and are not of an environment."""
    code = f"import {', '.join(PACKAGES)}\nfor p in {', '.join(PACKAGES)}: print(p.__file__)"
    files = run([programs / "python", "-c", code], cwd=tree).split("\n")
    return [each for each in files if each and programs.parent not in Path(each).parents]


def installers(wheel: Path, tools: Path, scratch: Path) -> None:
    """Install a wheel by pipx and uv, as a command of its own, and run it."""
    home = scratch / "installers"
    places = {name: str(home / name) for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")}
    places |= {name: str(home / name) for name in ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR")}
    env = {**os.environ, **places}
    run([tools / "pipx", "install", "--python", sys.executable, wheel], env=env)
    run([tools / "uv", "tool", "install", "--python", sys.executable, wheel], env=env)
    for each in ("PIPX_BIN_DIR", "UV_TOOL_BIN_DIR"):
        run([Path(places[each], "triptych"), "--version"], env=env)
    run(
        [tools / "uvx", "--python", sys.executable, "--from", wheel, "triptych", "--version"],
        env=env,
    )
    say("pipx install, uv tool install and uvx: triptych runs")


def elsewhere(wheel: Path, tools: Path, versions: Iterable[str]) -> None:
    """Say for Pythons that are not here whether pip finds wheels of everything that is needed."""
    for version in versions:
        number = "3" + version.removesuffix("t").partition(".")[2]
        abis = [f"cp{number}t"] if version.endswith("t") else [f"cp{number}", "abi3"]
        asked = ["--python-version", version.removesuffix("t"), "--implementation", "cp"]
        asked += [part for abi in (*abis, "none") for part in ("--abi", abi)]
        for extra in ("", "[local]", "[all]"):
            command = [tools / "python", "-m", "pip", "install", "--dry-run", "--ignore-installed"]
            command += ["--quiet", "--only-binary", ":all:", "--target", "unused", *asked]
            done = subprocess.run(
                [*map(str, command), f"{wheel}{extra}"], capture_output=True, text=True, check=False
            )
            errors = [each for each in done.stderr.splitlines() if each.startswith("ERROR")]
            told = errors[-1] if errors else f"exit code {done.returncode}"
            say(f"{version:6} not here; wheels of everything for triptych{extra}: "
                f"{'yes' if not done.returncode else told}")  # fmt: skip


# Publish


def lacks(project: Mapping[str, object], repository: str, changelog: str, tag: str) -> list[str]:
    """What is missing before a release can be published, each with what to do."""
    version = str(project["version"])
    found = []
    if not re.fullmatch(r"https://[^/]+/.+", repository):
        found.append("pyproject.toml names no public address: set `repository` under "
                     "[tool.hatch.metadata.hooks.custom]")  # fmt: skip
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE
    ):
        found.append(f"CHANGELOG.md gives no date: write ## [{version}] - YYYY-MM-DD")
    if tag and tag != f"v{version}":
        found.append(f"the tag {tag} is not of version {version}: tag v{version}")
    return found


def ready(root: Path, tag: str) -> None:
    """Raise `ArtifactError` with what is missing before this tree can be published."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    repository = settings["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if missing := lacks(settings["project"], repository, changelog, tag):
        raise ArtifactError("not ready for a release:\n- " + "\n- ".join(missing))


# Programs


def _environment(python: Path, folder: Path, needed: Iterable[str]) -> Path:
    """A new environment with packages; the folder of its programs."""
    if not folder.exists():
        run([python, "-m", "venv", "--without-pip", folder])  # pip of this one installs there
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    _pip(programs, needed)
    return programs


def _pip(programs: Path, needed: Iterable[str]) -> None:
    pip = [sys.executable, "-m", "pip", "--python", programs / "python"]
    run([*pip, "--disable-pip-version-check", "install", "--quiet", *needed])


def _size(environment: Path) -> float:
    """MiB of the packages that were installed, without compiled modules."""
    files = (each for each in environment.rglob("site-packages/**/*") if each.is_file())
    return sum(each.stat().st_size for each in files if "__pycache__" not in each.parts) / 2**20


def run(
    command: Iterable[object], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> str:
    """What a program prints; raises `ArtifactError` with all it said if it fails."""
    words = list(map(str, command))
    out, errors = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(words, stdout=out, stderr=errors, text=True, cwd=cwd, env=env)
    if done.returncode:
        raise ArtifactError(f"exit code {done.returncode} of: {shlex.join(words)}\n{done.stdout}")
    return done.stdout


def say(text: str) -> None:
    """Print at once: this takes minutes."""
    print(text.rstrip(), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps that are named, in their order; 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("steps", nargs="+", choices=("ready", "build", "check", "gate"))
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="of the artifacts")
    parser.add_argument(
        "--python", action="append", help="versions for the gate: all that are found"
    )
    parser.add_argument("--tag", default="", help="of the release, for `ready`")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    steps: dict[str, Callable[[], object]] = {
        "ready": lambda: ready(ROOT, options.tag),
        "build": lambda: say("\n".join(each.name for each in build(ROOT, folder))),
        "check": lambda: check(sorted(folder.iterdir()), ROOT / "build/checkers"),
        "gate": lambda: _gate(folder, options.python or SUPPORTED),
    }
    try:
        for each in steps:
            if each in options.steps:
                say(f"== {each}")
                steps[each]()
    except ArtifactError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _gate(folder: Path, versions: Sequence[str]) -> None:
    pythons, artifacts = found_pythons(versions), sorted(folder.iterdir())
    (wheel,) = [each for each in artifacts if each.name.endswith("-none-any.whl")]
    # Only a new pip knows that a Python without its lock loads no file of the stable ABI.
    needed = ("pip>=25.1", "pipx>=1.7", "uv>=0.9")
    tools = _environment(Path(sys.executable), ROOT / "build/installers", needed)
    elsewhere(wheel, tools, [each for each in versions if each not in pythons])
    with tempfile.TemporaryDirectory(prefix="triptych-gate-") as scratch:
        Path(scratch).chmod(0o755)  # PostgreSQL runs as a user of its own where this one is root
        installers(wheel, tools, Path(scratch))
        gate(artifacts, pythons, Path(scratch))


if __name__ == "__main__":
    sys.exit(main())
