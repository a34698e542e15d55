"""``triptych admin proposals``: what agents propose in reviewed datasets, and decisions on it."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated, Any

import attrs

from triptych.errors import ValidationError
from triptych_adapters.cli.admin import AnyDataset, local, moment_text
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.history import styled_lines
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.proposals import Proposal

_ID = Annotated[
    str, argument("ID", "The id of the proposal, as `triptych admin proposals list` shows it.")
]
_By = Annotated[
    str | None, option("--by NAME", "Who decides. By default the name of this machine's user.")
]


@command("triptych admin proposals list", "triptych admin proposals list --dataset handbook")
def list_proposals(
    session: Session,
    dataset: AnyDataset = None,
    decided: Annotated[
        bool, option("--decided", "List those that were approved or refused instead.")
    ] = False,
    limit: Annotated[int, option("--limit -n", "Maximum number of proposals.", min=1)] = 100,
    offset: Annotated[
        int, option("--offset", "Number of proposals to skip, for further pages.", min=0)
    ] = 0,
) -> None:
    """List the proposals that wait for a decision, the oldest first."""
    from triptych.proposals import Proposals
    from triptych.text import visible

    with session.service(settings=local(session, "proposals", embedder="none")) as service:
        every = Proposals.of(service).list(dataset)
    listed = [each for each in every if (each.state != "pending") == decided]
    found = listed[offset : offset + limit]
    none = "" if found else f"no proposals {'with' if decided else 'wait for'} a decision"
    more = max(len(listed) - offset - limit, 0)
    columns = ("id", "dataset", "name", "what", "by", "when", "sources")
    rows = (
        (
            each.id,
            each.dataset_id,
            each.name,
            each.what,
            each.made_by,
            moment_text(each.made_at),
            ", ".join(each.sources),
            *((each.state, each.decided_by) if decided else ()),
        )
        for each in found
    )
    names = (*columns, *(("state", "decided by") if decided else ()))
    shown = (tuple(map(visible, row)) for row in rows)
    session.output.show(
        {"proposals": [_fields(each) for each in found], "more": more},
        table=(names, shown) if found else None,
        note=f"{more:,} more: go on with --offset {offset + limit}" if more else none,
    )


@command("triptych admin proposals show 1a2b3c4d5e6f78901a2b3c4d5e6f7890")
def show(session: Session, proposal: _ID, dataset: AnyDataset = None) -> None:
    """Show all that a proposal would change of the document as it is now, like diff -u.

    Characters that are not seen are shown by their numbers: ‹U+200B›.
    """
    from triptych.proposals import Proposals, changes_of, signs_of
    from triptych.text import visible

    with session.service(settings=local(session, "proposals", embedder="none")) as service:
        found = Proposals.of(service).find(proposal, dataset)
        version, changes = changes_of(service, found)
    output = session.output
    if not output.as_json:
        output.note(
            visible(
                f"{found.what} of {found.name!r} in {found.dataset_id!r}, proposed by "
                f"{found.made_by} at {moment_text(found.made_at)}"
            )
        )
        if found.sources:
            output.note(f"it names as its sources: {visible(', '.join(found.sources))}")
        if signs := signs_of(found):
            output.warn(f"written for models? {', '.join(signs)}")
        if found.state != "pending":
            output.note(f"it was {found.state} by {visible(found.decided_by)}")
        elif version != found.base:
            output.warn(
                f"it was made for version {found.base}, and the document is at version {version} "
                "now (0 is none): it cannot be approved"
            )
    output.show(
        {**_fields(found), "version": version, "signs": signs_of(found), "diff": changes},
        lines=styled_lines(changes),
    )


@command("triptych admin proposals approve 1a2b3c4d5e6f78901a2b3c4d5e6f7890 --by Ann")
def approve(session: Session, proposal: _ID, dataset: AnyDataset = None, by: _By = None) -> None:
    """Carry out a proposal: put the text or the metadata, or delete the document.

    If the document has changed since the proposal was made, nothing is done and it still waits.
    """
    from triptych.proposals import Proposals

    who = by or _user()
    settings = local(session, "proposals")
    with session.service(settings=attrs.evolve(settings, embedder="none")) as service:
        found = Proposals.of(service).find(proposal, dataset)
    # Over the dataset's own embedder, for what is put.
    with session.service(settings=settings, dataset=found.dataset_id) as service:
        now = Proposals.of(service).approve(service, found.dataset_id, proposal, who)
    session.output.show(_fields(now), note=_said(now))


@command(
    "triptych admin proposals refuse 1a2b3c4d5e6f78901a2b3c4d5e6f7890 --by Ann",
    "triptych admin proposals refuse --made-by 'the bot (1a2b3c4d5e6f)'",
)
def refuse(
    session: Session,
    proposal: Annotated[list[str] | None, argument("ID", "The ids of the proposals.")] = None,
    dataset: AnyDataset = None,
    made_by: Annotated[
        str | None,
        option("--made-by WHO", "Refuse all that this key, as listed, has waiting."),
    ] = None,
    by: _By = None,
) -> None:
    """Refuse proposals. The agent cannot propose the same again."""
    from triptych.proposals import Proposals

    if bool(proposal) == bool(made_by):
        raise ValidationError("name the proposals by their ids, or whose they are by --made-by")
    who = by or _user()
    with session.service(settings=local(session, "proposals", embedder="none")) as service:
        proposals = Proposals.of(service)
        found = [proposals.find(each, dataset) for each in proposal or ()]
        if made_by:
            found = [*proposals.list(dataset, waiting_of=made_by)]
        done = [proposals.refuse(service, each.dataset_id, each.id, who) for each in found]
    session.output.show(
        _fields(done[0]) if len(done) == 1 else {},
        {"proposals": [_fields(each) for each in done]},
        note=[*map(_said, done)] or f"no proposals of {made_by!r} wait for a decision",
    )


def _said(now: Proposal) -> str:
    from triptych.text import visible

    said = f"{now.state} the {now.what} of {now.name!r} in {now.dataset_id!r}, by {now.decided_by}"
    return visible(said)


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        raise ValidationError(
            "the system does not name its user: say who decides by --by"
        ) from None


def _fields(proposal: Proposal) -> dict[str, Any]:
    """A proposal as JSON has it, without its text."""
    return {
        "id": proposal.id,
        "dataset_id": proposal.dataset_id,
        "name": proposal.name,
        "what": proposal.what,
        "base": proposal.base,
        "made_by": proposal.made_by,
        "made_at": moment_text(proposal.made_at),
        "sources": list(proposal.sources),
        "state": proposal.state,
        "decided_by": proposal.decided_by,
        "decided_at": proposal.decided_at and moment_text(proposal.decided_at),
    }
