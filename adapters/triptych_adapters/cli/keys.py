"""``triptych admin keys``: who may ask a served knowledge base."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import attrs

from triptych_adapters.cli.command import command
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.values import conditions, expiry_of

if TYPE_CHECKING:
    from datetime import datetime

    from triptych_adapters.keys import AccessKey
    from triptych_factory import Settings


@command(
    "triptych admin keys add 'the website' --dataset handbook",
    "triptych admin keys add agents --write --where team=red --rate 600 --ttl 30d",
)
def add(
    session: Session,
    name: Annotated[str, argument("NAME", "Whose it is, or what for.")],
    datasets: Annotated[
        list[str] | None,
        option(
            "--dataset -d ID", "A dataset that it may see; repeat it for several. By default all."
        ),
    ] = None,
    write: Annotated[
        bool, option("--write", "Let it change documents too, not only read.")
    ] = False,
    where: Annotated[
        list[str] | None,
        option(
            "--where -w KEY=VALUE",
            "Only documents with this metadata; doc_name and doc_prefix work too. Repeat a key to "
            "allow several values. Or conditions as JSON.",
        ),
    ] = None,
    rate: Annotated[
        int | None, option("--rate N", "The most requests a minute. By default any number.", min=1)
    ] = None,
    expires: Annotated[
        str | None,
        option(
            "--expires MOMENT", "Until when it is valid, such as 2026-12-31 or 2026-12-31T18:00Z."
        ),
    ] = None,
    ttl: Annotated[
        str | None, option("--ttl LENGTH", "How long it is valid from now: 30d, 12h, 90m.")
    ] = None,
) -> None:
    """Make a key and print it, once: the store keeps no more of it than a digest.

    With --where the key sees only documents that pass, as if there were no others, and writes
    only such documents.
    """
    from triptych.contracts.rules import missing_dataset
    from triptych_adapters.keys import KeyStore

    until = expiry_of(expires, ttl)
    with session.service(create=True, settings=_settings(session)) as service:
        there = service.list_datasets()
        for each in datasets or ():
            if each not in there:
                session.output.warn(f"{missing_dataset(each, there)}. It may come later")
        made = KeyStore.of(service).add(
            name,
            dataset_ids=datasets or None,
            can_write=write,
            where=conditions(where, "--where") if where else None,
            requests_per_minute=rate,
            expires_at=None if until is None or isinstance(until, str) else until,
        )
    if not session.output.as_json:
        session.output.note(
            f"the key {made.key.id} {_allows(made.key)}; it is shown this once: keep it secret"
        )
    session.output.show({"key": made.token}, _fields(made.key), lines=[made.token])


@command("triptych admin keys list")
def list_(session: Session) -> None:
    """List the keys, and what each may do; never the keys themselves."""
    from triptych_adapters.keys import KeyStore

    with session.service(settings=_settings(session)) as service:
        found = KeyStore.of(service).list()
    session.output.show(
        {"keys": [_fields(each) for each in found]},
        table=(
            ("id", "name", "state", "allows", "expires"),
            (
                (each.id, each.name, each.state(), _allows(each), _moment(each.expires_at))
                for each in found
            ),
        )
        if found
        else None,
        note="" if found else "there are no keys: `triptych admin keys add NAME` makes one",
    )


@command("triptych admin keys revoke 4f1d0c9a7b23")
def revoke(
    session: Session,
    ids: Annotated[list[str], argument("ID", "The ids of keys, as listed.")],
) -> None:
    """Make keys invalid at once, in every process that serves the store."""
    from triptych_adapters.keys import KeyStore

    with session.service(settings=_settings(session)) as service:
        revoked = [KeyStore.of(service).revoke(each) for each in ids]
    session.output.show(
        {"revoked": [_fields(each) for each in revoked]},
        note=[f"revoked {each.id} {each.name}".rstrip() for each in revoked],
    )


def _settings(session: Session) -> Settings:
    from triptych_factory.remote import check_local

    settings = session.settings()
    check_local(settings, "`triptych admin keys`")
    return attrs.evolve(settings.without_llm(), embedder="none")


def _moment(moment: datetime | None) -> str:
    return "never" if moment is None else moment.isoformat(timespec="seconds")


def _allows(key: AccessKey) -> str:
    """What a key may do, in words."""
    which = "all datasets" if key.dataset_ids is None else ", ".join(key.dataset_ids)
    said = f"{'reads and writes' if key.can_write else 'reads'} {which}"
    if key.where is not None:
        said += f" where {json.dumps(key.where, ensure_ascii=False)}"
    if key.requests_per_minute is not None:
        said += f", {key.requests_per_minute} requests a minute"
    return said


def _fields(key: AccessKey) -> dict[str, Any]:
    """A key as JSON has it."""
    return {
        "id": key.id,
        "name": key.name,
        "state": key.state(),
        "datasets": None if key.dataset_ids is None else list(key.dataset_ids),
        "write": key.can_write,
        "where": None if key.where is None else dict(key.where),
        "requests_per_minute": key.requests_per_minute,
        **{
            name: moment and _moment(moment)
            for name in ("created_at", "expires_at", "revoked_at")
            for moment in [getattr(key, name)]
        },
    }
