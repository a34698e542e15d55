"""``python -m triptych_adapters.cli``: the command, where its script is not on the path."""

from triptych_adapters.cli import main

if __name__ == "__main__":
    main()
