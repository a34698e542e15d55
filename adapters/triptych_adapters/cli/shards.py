"""``triptych shards``: the servers of a store that is spread over several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from triptych_adapters.cli.plain_help import PlainGroup
from triptych_adapters.cli.session import Session, command, examples

if TYPE_CHECKING:
    from triptych_backends.shards import ShardedStore

__all__ = ["register"]

SHARDS = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode="rich")

_DATASET = Annotated[
    str, typer.Argument(metavar="DATASET", help="The dataset's id.", show_default=False)
]
_SERVER = Annotated[
    str, typer.Argument(metavar="NAME", help="The server's name.", show_default=False)
]
_URL = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="Where it is: postgresql+psycopg://host/database.", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``shards`` with its commands."""
    command(SHARDS, "list", epilog=examples("triptych shards list"))(list_servers)
    command(
        SHARDS,
        "add",
        epilog=examples("triptych shards add second postgresql+psycopg://db2.example/kb"),
    )(add)
    command(
        SHARDS,
        "change",
        epilog=examples("triptych shards change second postgresql+psycopg://db3.example/kb"),
    )(change)
    command(SHARDS, "place", epilog=examples("triptych shards place handbook second"))(place)
    command(SHARDS, "move", epilog=examples("triptych shards move handbook second"))(move)
    app.add_typer(SHARDS, name="shards", help="Spread a store over several PostgreSQL servers.")


def list_servers(session: Session) -> None:
    """List the servers, and how many datasets each has."""
    with _sharded(session) as store:
        servers = store.servers()
    if session.output.as_json:
        session.output.emit({"servers": [attrs.asdict(each) for each in servers]})
        return
    session.output.table(
        ("server", "where", "datasets", "incoming", "state"),
        [
            (
                each.name,
                each.url,
                "" if each.datasets is None else len(each.datasets),
                ", ".join(each.incoming),
                each.error or "answers",
            )
            for each in servers
        ],
    )


def add(session: Session, name: _SERVER, url: _URL) -> None:
    """Add a server. New datasets go to the server with the fewest.

    The store's tables are made there; datasets of a store that is there already join this one. The
    URL is kept in the first server: leave the password out, and it is that of the store's own URL,
    or of libpq's files.
    """
    with _sharded(session) as store:
        added = store.add_server(name, url)
    if session.output.as_json:
        session.output.emit(attrs.asdict(added))
        return
    session.output.note(f"the server {added.name} has {len(added.datasets or ())} datasets")


def change(session: Session, name: _SERVER, url: _URL) -> None:
    """Say that a server is elsewhere now, such as its promoted replica."""
    with _sharded(session) as store:
        store.change_server(name, url)
    session.output.note(f"the server {name} is at another URL from now on")


def place(session: Session, dataset: _DATASET, name: _SERVER) -> None:
    """Choose the server of a dataset that does not exist yet."""
    with _sharded(session) as store:
        store.place_dataset(dataset, name)
    session.output.note(f"{dataset} will be made on the server {name}")


def move(session: Session, dataset: _DATASET, name: _SERVER) -> None:
    """Move a dataset to a server while it is used; no model is called.

    Writes wait a moment at the end, while the last changes are copied. Run it again after a
    failure: it goes on.
    """
    from triptych_adapters.cli.progress import shown

    with _sharded(session) as store, shown(session.output, "documents") as progress:
        report = store.move_dataset(dataset, name, progress=progress)
    if session.output.as_json:
        session.output.emit(attrs.asdict(report))
        return
    if report.source:
        session.output.note(
            f"moved {dataset} from {report.source} to {name}: {report.written} names copied"
        )
    else:
        session.output.note(f"{dataset} is on the server {name}")


@contextmanager
def _sharded(session: Session) -> Iterator[ShardedStore]:
    """The store in force.

    Raises:
        ValidationError: it is not one over several servers.
    """
    from triptych.errors import ValidationError
    from triptych_factory.backends import open_store
    from triptych_factory.locations import parse_location

    settings = session.settings().without_llm()
    location = parse_location(settings.url)
    if location.scheme != "postgresql+shards":
        raise ValidationError(
            f"the store {location} is not one over several servers: name one by --store "
            "postgresql+shards://host/database"
        )
    store = open_store(location, settings)
    try:
        yield store  # type: ignore[misc]  # as its scheme says
    finally:
        store.close()
