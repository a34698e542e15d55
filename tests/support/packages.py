"""The packages of this project and their folders."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("knowledge", "backends", "factory", "adapters")
PACKAGES = {
    file.parent.name: file.parent
    for folder in FOLDERS
    for file in sorted((ROOT / folder).glob("*/__init__.py"))
}
"""The folder of each package, by its name."""
