"""``triptych init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from triptych.errors import NotFoundError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.options import argument
from triptych_adapters.cli.session import Session


@command("triptych init", "triptych init ~/notes && cd ~/notes")
def init(
    session: Session,
    folder: Annotated[Path, argument("FOLDER", "The folder.", show_default=False)] = Path(),
) -> None:
    """Make a store for a folder: every command in it, or below it, then uses that store.

    The store lies in FOLDER/.triptych, which Git ignores. Without init, commands use your own
    store, wherever you are. A store that is there already is left as it is.
    """
    from triptych_adapters.cli.source_files import shown_path
    from triptych_factory import Settings, wire
    from triptych_factory.discovery import STORE_FILE, STORE_FOLDER, find_store, store_in
    from triptych_factory.locations import parse_location

    if not folder.is_dir():
        raise NotFoundError(f"there is no folder {str(folder)!r}: make it first")
    folder = folder.absolute()
    found = store_in(folder)
    outer = find_store(folder.parent)
    url = found or str(folder / STORE_FOLDER / STORE_FILE)
    if found is None:
        settings = Settings.resolve({"url": url, "embedder": "none", "llm": "none"})
        with wire(settings):
            pass
    output = session.output
    path = parse_location(url).path
    assert path is not None  # neither form lies in memory
    if output.as_json:
        output.emit({"store": str(path), "created": found is None})
    elif found is None:
        output.note(f"made the store {shown_path(path)}; next: triptych add FOLDER")
        if outer is not None:
            above = parse_location(outer).path
            assert above is not None
            output.note(f"here it takes the place of the store {shown_path(above)}")
    else:
        output.note(f"there is a store already: {shown_path(path)}")
