"""``triptych impact``: the sentences that a change makes untrue."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.names import dataset_in_use, find_document
from triptych_adapters.cli.options import Dataset
from triptych_adapters.cli.output import visible
from triptych_adapters.cli.session import Exit, Session

if TYPE_CHECKING:
    from triptych.records import DocumentChange
    from triptych_impact import Finding, Impact


@command(
    "triptych impact main..HEAD                  between two commits of this checkout",
    "triptych impact HEAD                        what is not committed yet",
    "triptych impact origin/main...HEAD --fail   in CI: exit code 1 if anything is found",
    "triptych impact guide.md --versions 3..5    of a document in the store",
    "triptych impact --since CURSOR              of all that `triptych changes` lists",
)
def impact(
    session: Session,
    what: Annotated[
        str, argument("WHAT", "OLD..NEW of Git, or the name of a document with --versions.")
    ] = "",
    versions: Annotated[
        str | None,
        option("--versions OLD..NEW", "Versions of the document WHAT; one may be left out."),
    ] = None,
    since: Annotated[
        str | None, option("--since CURSOR", "Changes in the store: `triptych changes` has them.")
    ] = None,
    dataset: Dataset = None,
    top_k: Annotated[int, option("--top-k -n -k N", "The most findings.", min=1)] = 20,
    least: Annotated[
        float, option("--least SCORE", "The least score of a finding, 0 to 1.", min=0, max=1)
    ] = 0.3,
    fail: Annotated[bool, option("--fail", "End with exit code 1 if anything is found.")] = False,
) -> Exit:
    """Find sentences of other documents that a change makes untrue.

    They still hold a name, an option, a default, a number, a path or an address that the change
    removed or replaced. No model is asked. OLD...NEW begins where NEW left OLD; OLD alone is
    compared with the files on disk.
    """
    from triptych_impact import changes_impact, git_impact, version_impact

    if bool(what) == (since is not None):
        raise ValidationError("give OLD..NEW, a document with --versions, or --since CURSOR")
    if since is None and versions is None:
        try:
            found = git_impact(Path.cwd(), what, top_k=top_k, least=least)
        except (NotFoundError, ValidationError) as error:
            if ".." in what:
                raise
            raise type(error)(
                f"{error}. For a document of the store give --versions: `triptych impact "
                f"{shlex.quote(what)} --versions ..` reads its last change; `triptych impact "
                "--since CURSOR` reads all that `triptych changes` lists"
            ) from error
    else:
        with session.service(settings=session.settings().without_llm()) as service:
            if since is not None:
                place, more = dataset_in_use(service, dataset), True
                service.stats(place)  # a dataset that is not there has no changes either
                changes: list[DocumentChange] = []
                while more:
                    page = service.changes(since, dataset_id=place)
                    since, more = page.cursor, page.more
                    changes += page.changes
                found = changes_impact(service, place, changes, top_k=top_k, least=least)
            else:
                of = find_document(service, what, dataset)
                old, new = _versions(versions or "")
                found = version_impact(
                    service, of.dataset_id, of.name, old, new, top_k=top_k, least=least
                )
    _show(session, found)
    return Exit.FAILED if fail and found.findings else Exit.OK


def _versions(text: str) -> tuple[int | None, int | None]:
    found = re.fullmatch(r"(\d{1,9})?\.\.(\d{1,9})?", text)
    if found is None:
        raise ValidationError(f"--versions is OLD..NEW, such as 3..5, 3.. or .., not {text!r}")
    old, new = (int(each) if each else None for each in found.groups())
    return old, new


def _show(session: Session, found: Impact) -> None:
    notes = []
    if found.history:
        notes.append(f"not searched, as they tell the past: {', '.join(found.history)}")
    if found.too_large:
        notes.append(f"not compared, as they are too large: {', '.join(found.too_large)}")
    if found.more:
        notes.append(f"{found.more} more: a higher --top-k or a lower --least shows them")
    if not found.findings:
        notes.append(f"no sentence holds what was removed or replaced ({found.changes})")
    session.output.show(
        found, lines=(line for each in found.findings for line in _lines(each)), note=notes
    )


def _lines(each: Finding) -> Iterator[Text]:
    change = each.change
    yield Text.assemble(
        (f"{_named(each.document)}:{each.line}", "bold"),
        f"  {each.score:.2f}  ",
        (visible(each.why), "dim"),
    )
    sentence = Text(f"    {visible(each.sentence)}")
    sentence.highlight_words([change.old, change.name], "bold red")
    yield sentence
    yield Text(f"  {change.kind} {_named(change.document)}:{change.line}", style="cyan")
    yield Text(f"  - {visible(change.text)}", style="red")
    if change.instead:
        yield Text(f"  + {visible(change.instead)}", style="green")


def _named(name: str) -> str:
    """A name on one line: what follows a line break in it could be a command to a CI's log."""
    return visible(name.replace("\n", "\u2028"))
