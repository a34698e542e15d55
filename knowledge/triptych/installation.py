"""The command that installs a missing package for this interpreter."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from triptych.errors import NotAvailableError


def lacking(said: str, extra: str) -> NotAvailableError:
    """The error that something of ``extra`` is not installed: what ``said`` says, and the command.

    Who asks a server is told no more than ``said``: the command may name folders.
    """
    return NotAvailableError(f"{said}: {install_command(extra=extra)}", public=said)


def install_command(*packages: str, extra: str = "") -> str:
    """A command line that installs ``packages``, or an extra of Triptych, for this interpreter.

    Triptych is named as it was installed (PEP 610): by its folder, its archive or its repository,
    and by its name where it came from an index. Where pipx made the environment, the command is
    one of pipx, which keeps the extras when it makes the environment again.
    """
    import shlex
    import shutil
    import subprocess

    if extra and (again := _with_pipx(extra)):
        return shlex.join(["pipx", "install", "--force", again])
    what = [*packages, *(_with_extra(extra) if extra else ())]
    pip = shutil.which("pip")
    if find_spec("pip") is None:
        command = ["uv", "pip", "install", "--python", sys.executable, *what]
    elif pip is not None and Path(pip).parent == Path(sys.executable).parent:
        command = ["pip", "install", *what]
    else:
        command = [sys.executable, "-m", "pip", "install", *what]
    return subprocess.list2cmdline(command) if os.name == "nt" else shlex.join(command)


def _with_pipx(extra: str) -> str:
    """What pipx installed, with one extra more; "" where this is no environment of pipx."""
    import json

    try:
        kept = json.loads(Path(sys.prefix, "pipx_metadata.json").read_text(encoding="utf-8"))
        installed = str(kept["main_package"]["package_or_url"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    before, extras, after = installed, "", ""
    if named := re.fullmatch(r"(.*?)\[([\w ,.-]*)\](.*)", installed):
        before, extras, after = named.groups()
    elif "://" in installed:
        before, after = "triptych", f" @ {installed}"
    every = dict.fromkeys([*filter(None, re.split("[ ,]+", extras)), extra])
    return f"{before}[{','.join(every)}]{after}"


def _with_extra(extra: str) -> list[str]:
    import json
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    named = f"triptych[{extra}]"
    try:
        origin = json.loads(metadata.distribution("triptych").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:  # a tree on the path
        origin = {}
    url = origin.get("url", "")
    if "dir_info" in origin:
        folder = f"{url2pathname(urlsplit(url).path)}[{extra}]"
        return ["-e", folder] if origin["dir_info"].get("editable") else [folder]
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        return [f"{named} @ {vcs['vcs']}+{url}@{vcs['commit_id']}"]
    return [f"{named} @ {url}"] if url else [named]
