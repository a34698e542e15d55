"""``triptych trust``: what a folder's settings file and its store may reach."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import attrs

from triptych.errors import NotFoundError
from triptych.resources.urls import shown_url
from triptych_adapters.cli.command import command, option
from triptych_adapters.cli.session import Session


@command(
    "triptych trust             this folder's triptych.toml and store, as they are now",
    "triptych trust --dry-run   show what that would allow",
    "triptych trust --revoke    no longer",
)
def trust(
    session: Session,
    dry_run: Annotated[
        bool, option("--dry-run -n", "Show what would be allowed; change nothing.")
    ] = False,
    revoke: Annotated[bool, option("--revoke", "End the trust in the file and the store.")] = False,
) -> None:
    """Allow a folder's triptych.toml and store to reach beyond the folder.

    A file that came with a folder may name models, servers and paths, and a store may remember
    folders and an embedder. None of that is in force until you trust it here. The file is trusted
    with its present content: after a change, run this again. Read it first.
    """
    from triptych.text import visible
    from triptych_factory.settings import Settings, read_folder_file
    from triptych_factory.trust import Trust, needs_trust

    trusts = Trust()
    file = None if session.options.store else read_folder_file(Path.cwd())
    lines: list[str] = []
    shown: dict[str, Any] = {"file": None, "settings": {}}
    if file is not None:
        path, content, values = file
        held = needs_trust(values, path.parent)
        given: dict[str, Any] = {each.name: each.value for each in Settings(**values).explain()}
        given |= {f"pipelines.{name}": _told(t) for name, t in values.get("pipelines", {}).items()}
        shown |= {"file": str(path), "settings": {name: given[name] for name in held}}
        lines += [f"{path}: {name} = {given[name]}" for name in held]
        if revoke:
            trusts.remove("file", path)
        elif held and not dry_run:
            trusts.add_file(path, content)
    allowed = _store(session, dry_run=dry_run, revoke=revoke)
    shown |= allowed
    lines += [f"the store reads the folder {each}" for each in allowed["folders"]]
    lines += [f"the store reads {each}" for each in allowed["sources"]]
    if allowed["embedder"]:
        lines.append(f"the store sends texts to the embedder {allowed['embedder']}")
    if not lines:
        raise NotFoundError(
            "nothing here needs trust: no triptych.toml or store in this folder, or above it, "
            "reaches beyond its folder"
        )
    done = "would be trusted" if dry_run else "no longer trusted" if revoke else "trusted"
    session.output.show(shown, lines=[f"{done}: {visible(line)}" for line in lines])


def _told(value: Any) -> Any:
    """A table of the file, without what is secret in its addresses."""
    if isinstance(value, Mapping):
        return {key: _told(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_told(each) for each in value]
    return shown_url(value) if isinstance(value, str) and "://" in value else value


def _store(session: Session, *, dry_run: bool, revoke: bool) -> dict[str, Any]:
    """What the store in force remembers that lies beyond its folder, once that is decided on."""
    from triptych.errors import ValidationError
    from triptych.service import service_of
    from triptych_factory.backends import store_exists
    from triptych_factory.embedders import setting_of, stored_signature
    from triptych_factory.locations import is_server, parse_location
    from triptych_factory.settings import Settings
    from triptych_factory.sources import remembered_sources
    from triptych_factory.syncing import remembered_roots
    from triptych_factory.trust import Trust

    try:
        # Not by the session, which would remark that the file is not trusted.
        settings = Settings.resolve({"url": session.options.store}).without_llm()
        settings = attrs.evolve(settings, embedder="none", read_only=True)
    except ValidationError:
        if not dry_run and not revoke:
            raise
        return {
            "folders": [],
            "sources": [],
            "embedder": None,
        }  # the file's own store, which is not trusted
    location, trusts = parse_location(settings.url), Trust()
    if is_server(settings.url) or location.scheme == "memory" or not store_exists(location):
        return {"folders": [], "sources": [], "embedder": None}
    with session.service(settings=settings) as service:
        embedder = setting_of(stored_signature(service_of(service, "trust").store) or "")
        roots: list[Path | str] = []
        if service.capabilities.settings is not None:
            known = remembered_roots(service, settings).all()
            roots += [each.root.path for each in known if each.outside]
            roots += [each.told for each in remembered_sources(service).all()]
        if revoke:
            trusts.remove("root", location)
            trusts.remove("embedder", location)
        elif not dry_run:
            for each in roots:
                trusts.add_root(location, each)
            if embedder is not None:
                trusts.add_embedder(location, embedder)
    return {
        "folders": [str(each) for each in roots if isinstance(each, Path)],
        "sources": [each for each in roots if isinstance(each, str)],
        "embedder": embedder,
    }
