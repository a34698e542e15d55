"""``triptych changes``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit
from triptych_adapters.cli.options import option
from triptych_adapters.cli.output import Output
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.records import ChangePage

_LIMIT = 1000


@command(
    "triptych changes                          every document, as added",
    "triptych changes --since CURSOR --json    what became of them since",
    "triptych changes --follow                 and each change as it comes, until Ctrl-C",
)
def changes(
    session: Session,
    since: Annotated[
        str | None,
        option(
            "--since CURSOR", "Where an earlier run ended. By default begin with every document."
        ),
    ] = None,
    dataset: Annotated[str | None, option("--dataset -d", "By default all datasets.")] = None,
    limit: Annotated[
        int, option("--limit -n", "Maximum number of changes.", min=1, max=10_000)
    ] = _LIMIT,
    follow: Annotated[
        bool, option("--follow -f", "Go on, and print each change as it comes.")
    ] = False,
    poll: Annotated[float, option("--poll SECONDS", "With --follow: look this often.")] = 0.5,
) -> Exit:
    """List which documents were added, updated or deleted since a cursor, oldest first.

    Each document comes once, with its last change. The cursor to go on from is on stderr, and in
    the JSON. Where it says "reset", the store could not go on from the cursor it was given and
    began at the beginning: drop what you have.
    """
    with session.service() as service:
        if not follow:
            _print(session.output, service.changes(since, dataset_id=dataset, limit=limit))
            return Exit.OK
        try:
            for page in service.follow(since, dataset_id=dataset, limit=limit, poll=poll):
                _print(session.output, page, stream=True)
        except KeyboardInterrupt:
            session.output.note("stopped")
    return Exit.OK


def _print(output: Output, page: ChangePage, *, stream: bool = False) -> None:
    if page.reset and not output.as_json:
        output.note("reset: the store cannot go on from this cursor; this is from the beginning")
    rows = ((each.kind, each.dataset_id, each.name, each.version) for each in page.changes)
    more = "; there are more changes" if page.more else ""
    output.show(
        page,
        table=(("change", "dataset", "document", "version"), rows),
        note=f"go on with --since {page.cursor}{more}",
        stream=stream,
    )
