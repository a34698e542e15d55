"""``triptych install`` and ``triptych uninstall``."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs

from triptych.errors import NotFoundError, ValidationError
from triptych.resources.urls import shown_url
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.serve import Agent, note_missing_dataset, server_command
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.storeless import storeless_folder

if TYPE_CHECKING:
    from triptych_server.mcp.agents import Change

_DRY = option("--dry-run -n", "Show the changes; write nothing.")
_Named = Annotated[Agent, argument("AGENT", "The agent.")]


@command(
    "triptych install claude --dry-run",
    "triptych install codex --write        the agent may also store documents",
)
def install(
    session: Session,
    agent: _Named,
    dataset: Annotated[str | None, option("--dataset -d", "Show this dataset only.")] = None,
    write: Annotated[bool, option("--write", "Allow the model to store documents.")] = False,
    dry_run: Annotated[bool, _DRY] = False,
) -> None:
    """Give a coding agent the knowledge base, in this folder.

    Three files of the agent are written: its MCP servers, a skill, and its instructions. What is in
    them stays. Run it again after a change of the store or of the options; uninstall removes what
    was written.
    """
    from triptych_factory.locations import STORE_FILE, STORE_FOLDER, user_store
    from triptych_server.mcp.agents import installing
    from triptych_server.mcp.configuration import KEY

    settings = session.settings().without_llm()
    # A project's agent is not given a person's own notes unless they are named.
    folder = storeless_folder(settings, beside_own=session.options.store is None)
    if folder is not None:
        settings = attrs.evolve(settings, url=str(folder / STORE_FOLDER / STORE_FILE))
    elif session.options.store is None and settings.url == str(user_store()):
        raise ValidationError(
            "this folder has no store, and is none of a project: name a store with --store, such "
            f"as your own, {user_store()}"
        )
    if settings.url.startswith("memory:"):
        raise ValidationError(
            "a store in memory has nothing for an agent, which starts a process of its own: name a "
            "file or a server with --store"
        )
    words = server_command(session, settings, dataset, write=write)
    key = settings.api_key is not None
    changes = installing(Path.cwd(), agent, words, key=key)
    _apply(session, changes, dry_run=dry_run)
    if less := [each for change in changes for each in _options_less(change)]:
        session.output.note(f"the earlier install also had {', '.join(less)}; this one does not")
    session.output.note(f"the knowledge base is {shown_url(settings.url)}")
    if dataset is not None:
        with (
            suppress(NotFoundError),  # there is no store yet
            session.service(settings=attrs.evolve(settings, embedder="none")) as service,
        ):
            note_missing_dataset(session, service, dataset)
    if folder is not None:
        note = "it is not there yet: `triptych init` and `triptych add .` make it"
        if not write and dataset is None:  # as `triptych mcp` does
            note += ". Until then the agent finds the files of the folder by keyword"
        session.output.note(note)
    if key:
        session.output.note(f"its key is read from {KEY}, in the environment of the agent")


@command("triptych uninstall claude", "triptych uninstall claude --dry-run")
def uninstall(session: Session, agent: _Named, dry_run: Annotated[bool, _DRY] = False) -> None:
    """Remove what install wrote for an agent in this folder, and nothing else."""
    from triptych_server.mcp.agents import uninstalling

    _apply(session, uninstalling(Path.cwd(), agent), dry_run=dry_run)


def _apply(session: Session, changes: Sequence[Change], *, dry_run: bool) -> None:
    done = []
    lines: list[str] = []
    for change in changes:
        what = "edited" if change.before is not None else "written"
        what = "deleted" if change.after is None else what
        name = change.path.relative_to(Path.cwd()).as_posix()
        if dry_run:
            lines += _diff(name, change)
        else:
            change.apply()
            lines.append(f"{what:8} {name}")
        done.append({"file": name, "change": what})
    session.output.show(
        {"files": done, "dry_run": dry_run},
        lines=lines,
        note="" if changes else "there is nothing to change",
    )


def _options_less(change: Change) -> list[str]:
    """The options of a server's command that the file had, and has no more."""
    before, after = (
        Counter(re.findall(r'"(--[a-z-]+)"', text or "")) for text in (change.before, change.after)
    )
    return list(before - after)


def _diff(name: str, change: Change) -> list[str]:
    before, after = ((text or "").splitlines() for text in (change.before, change.after))
    ends = "/dev/null" if change.after is None else name
    begins = "/dev/null" if change.before is None else name
    return list(difflib.unified_diff(before, after, begins, ends, lineterm=""))
