"""The ``triptych`` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process."""
    if sys.argv[1:] == ["--version"]:
        # Scripts and shells ask for it often: it needs no parser of options.
        from triptych import __version__

        print(f"triptych {__version__}")
        return
    import gc
    import os

    # NumPy's threads for products of matrices keep a core busy for 20 ms after they have started,
    # and after each product, in case there is another. Now they wait.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    # Importing makes objects that stay. To look through them for garbage again and again, as the
    # default threshold has it, takes a quarter of the time of a short command.
    gc.set_threshold(200_000, 20, 20)
    from triptych_adapters.cli.app import app

    try:
        app(prog_name="triptych")
    except SystemExit as end:
        if "--hook" in sys.argv and end.code == 2:
            # By this code a hook stops its host, and a mistyped option is no reason to.
            raise SystemExit(1) from None
        raise
    finally:
        # The interpreter ends with two searches for garbage, through every object there is: a
        # fifth of the time of a short command. Frozen objects are left out.
        gc.freeze()
