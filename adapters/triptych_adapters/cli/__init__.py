"""The ``triptych`` command."""

from triptych_adapters.cli.app import main

__all__ = ["main"]
