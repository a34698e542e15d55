"""Runs ``triptych`` in terminals: a line of JSON names the terminal and gives the arguments.

Each command is a process of its own, forked from this one. Its exit code is printed when it ends.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import sys

from triptych_adapters.cli import main as command

PACKAGES = ("triptych_adapters.cli", "triptych.sync", "triptych.diagnostics", "triptych_factory")
MODULES = ("triptych.parsing", "triptych_backends.sqlite")


def load() -> None:
    """Import what the commands import, as far as none of it depends on a command."""
    for name in (*PACKAGES, *MODULES):
        found = importlib.import_module(name)
        if name in PACKAGES:
            for module in pkgutil.iter_modules(found.__path__, f"{name}."):
                if not module.name.endswith("__main__"):
                    importlib.import_module(module.name)


def main() -> None:
    load()
    gc.freeze()
    for line in sys.stdin:
        terminal, *arguments = json.loads(line)
        child = os.fork()
        if not child:
            stream = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
            for number in range(3):
                os.dup2(stream, number)
            os.close(stream)
            # As Python makes them when it starts: they remember what kind of file they were.
            # They stay open until the process ends, so no `with` closes them.
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stderr = open(  # noqa: SIM115
                2, "w", encoding="utf-8", errors="backslashreplace", closefd=False
            )
            sys.argv = ["triptych", *arguments]
            command()
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
