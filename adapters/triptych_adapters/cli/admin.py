"""``triptych admin``: keys, embedders of datasets, and downloads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs

from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.options import conditions, expiry_of
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from datetime import datetime

    from triptych_factory import Settings
    from triptych_server.keys import AccessKey


@command("triptych admin create docs", "triptych admin create docs --language german")
def create(
    session: Session,
    dataset: Annotated[str, argument("DATASET", "The dataset.")],
    language: Annotated[
        str | None, option("--language", "The language in which its texts are analysed.")
    ] = None,
) -> None:
    """Create an empty dataset.

    `triptych put` creates a missing dataset too. An existing dataset is not changed.
    """
    with session.service(create=True) as service:
        created = service.create_dataset(dataset, language=language)
    already = f"there is a dataset {dataset!r} already"
    session.output.show(
        {"dataset_id": dataset, "created": created},
        note=f"created dataset {dataset!r}" if created else already,
    )


@command("triptych admin fetch tokens")
def fetch(
    session: Session,
    what: Annotated[Literal["tokens"], argument("", "tokens: tiktoken's vocabulary.")],
) -> None:
    """Download data for later use offline.

    Token budgets are counted with tiktoken's vocabulary if the extra tokens is installed and the
    vocabulary was downloaded, else estimated. No other command downloads it.
    """
    from triptych.text.tokens import fetch_vocabulary

    path = str(fetch_vocabulary())
    session.output.show({"fetched": what, "path": path}, lines=[f"{what}: {path}"])


@command(
    "triptych admin keys add 'the website' --dataset handbook",
    "triptych admin keys add agents --write --where team=red --rate 600 --ttl 30d",
)
def add(
    session: Session,
    name: Annotated[str, argument("NAME", "The owner or purpose of the key.")],
    datasets: Annotated[
        list[str] | None,
        option("--dataset -d ID", "A dataset that the key can use. Repeatable. By default all."),
    ] = None,
    write: Annotated[bool, option("--write", "Allow the key to change documents.")] = False,
    agent: Annotated[
        bool,
        option("--agent", "Mark the key as a program's: its writes wait in reviewed datasets."),
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
        int | None,
        option("--rate N", "Maximum number of requests a minute. By default unlimited.", min=1),
    ] = None,
    expires: Annotated[
        str | None,
        option(
            "--expires MOMENT", "When the key expires, such as 2026-12-31 or 2026-12-31T18:00Z."
        ),
    ] = None,
    ttl: Annotated[
        str | None, option("--ttl LENGTH", "How long the key is valid: 30d, 12h, 90m.")
    ] = None,
) -> None:
    """Create a key and print it. It is shown only once: the store keeps only a digest.

    With --where the key can read and write only matching documents; for it, others do not exist.
    """
    from triptych.contracts.rules import missing_dataset
    from triptych_server.keys import KeyStore

    until = expiry_of(expires, ttl, what="key")
    with session.service(create=True, settings=local(session, "keys", embedder="none")) as service:
        there = service.list_datasets()
        for each in datasets or ():
            if each not in there:
                session.output.warn(f"{missing_dataset(each, there)}. It may come later")
        made = KeyStore.of(service).add(
            name,
            dataset_ids=datasets or None,
            can_write=write,
            where=conditions(where, "--where", exact=True) if where else None,
            requests_per_minute=rate,
            expires_at=None if until is None or isinstance(until, str) else until,
            agent=agent,
        )
    if not session.output.as_json:
        session.output.note(
            f"the key {made.key.id} {_allows(made.key)}; it is shown only once: keep it secret"
        )
    session.output.show({"key": made.token}, _fields(made.key), lines=[made.token])


@command("triptych admin keys list")
def list_keys(session: Session) -> None:
    """List the ids and permissions of the keys, but not the keys themselves."""
    from triptych_server.keys import KeyStore

    with session.service(settings=local(session, "keys", embedder="none")) as service:
        found = KeyStore.of(service).list()
    session.output.show(
        {"keys": [_fields(each) for each in found]},
        table=(
            ("id", "name", "state", "allows", "expires"),
            (
                (each.id, each.name, each.state(), _allows(each), moment_text(each.expires_at))
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
    ids: Annotated[
        list[str], argument("ID", "The ids of keys, as `triptych admin keys list` shows them.")
    ],
) -> None:
    """Revoke keys at once, in every process that serves the store."""
    from triptych_server.keys import KeyStore

    with session.service(settings=local(session, "keys", embedder="none")) as service:
        revoked = [KeyStore.of(service).revoke(each) for each in ids]
    session.output.show(
        {"revoked": [_fields(each) for each in revoked]},
        note=[f"revoked {each.id} {each.name}".rstrip() for each in revoked],
    )


@command("triptych admin review handbook", "triptych admin review handbook --off")
def review(
    session: Session,
    dataset: Annotated[str, argument("DATASET", "The dataset; it may come later.")],
    off: Annotated[bool, option("--off", "Let agents write there again.")] = False,
) -> None:
    """Let what agents' keys write in a dataset wait until a person approves it.

    No search finds it before. `triptych admin proposals` and the page Reviews of the console show
    what waits.
    """
    from triptych.proposals import Proposals

    settings = local(session, "review", embedder="none")
    with session.service(create=True, settings=settings) as service:
        proposals = Proposals.of(service)
        proposals.set_reviewed(dataset, not off)
        waiting = sum(each.state == "pending" for each in proposals.list(dataset))
    now = "is no longer reviewed" if off else "is reviewed from now on"
    session.output.show(
        {"dataset_id": dataset, "review": not off, "waiting": waiting},
        note=f"what agents write in {dataset!r} {now}; {waiting} proposals wait",
    )


def local(session: Session, group: str, **others: Any) -> Settings:
    """The settings in force, but for ``others``, for a group of commands on the store itself."""
    from triptych_factory.backends import check_local

    settings = session.settings()
    check_local(settings, f"`triptych admin {group}`")
    return attrs.evolve(settings.without_llm(), **others)


def moment_text(moment: datetime | None) -> str:
    return "never" if moment is None else moment.isoformat(timespec="seconds")


def _allows(key: AccessKey) -> str:
    """What a key may do, in words."""
    which = "all datasets" if key.dataset_ids is None else ", ".join(key.dataset_ids)
    said = f"{'reads and writes' if key.can_write else 'reads'} {which}"
    if key.where is not None:
        said += f" where {json.dumps(key.where, ensure_ascii=False)}"
    if key.agent:
        said += ", as an agent"
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
        "agent": key.agent,
        "where": None if key.where is None else dict(key.where),
        "requests_per_minute": key.requests_per_minute,
        **{
            name: moment and moment_text(moment)
            for name, moment in (
                ("created_at", key.created_at),
                ("expires_at", key.expires_at),
                ("revoked_at", key.revoked_at),
            )
        },
    }


AnyDataset = Annotated[str | None, option("--dataset -d", "The dataset. By default all.")]
