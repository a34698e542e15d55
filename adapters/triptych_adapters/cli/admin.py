"""``triptych admin``: keys for servers, the embedders of datasets, and what is done once."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import attrs

from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.options import conditions, expiry_of
from triptych_adapters.cli.session import Exit, Session

if TYPE_CHECKING:
    from datetime import datetime

    from triptych_adapters.keys import AccessKey
    from triptych_factory import Settings


@command("triptych admin create docs", "triptych admin create docs --language german")
def create(
    session: Session,
    dataset: Annotated[str, argument("DATASET", "The dataset.")],
    language: Annotated[str | None, option("--language", "The language it is analysed in.")] = None,
) -> None:
    """Create an empty dataset.

    A put creates the dataset it needs by itself. A dataset that exists is left as it is.
    """
    with session.service(create=True) as service:
        created = service.create_dataset(dataset, language=language)
    already = f"there is a dataset {dataset!r} already"
    session.output.show(
        {"dataset_id": dataset, "created": created},
        note=f"created dataset {dataset!r}" if created else already,
    )


class What(StrEnum):
    """What can be fetched."""

    TOKENS = "tokens"


@command("triptych admin fetch tokens")
def fetch(
    session: Session, what: Annotated[What, argument("", "tokens: tiktoken's vocabulary.")]
) -> None:
    """Download once what is used offline afterwards.

    Budgets of tokens are counted by tiktoken's vocabulary where the extra tokens is installed
    and the vocabulary is on this machine, else by an estimate. No other command downloads it.
    """
    from triptych.text.tokens import fetch_vocabulary

    path = str(fetch_vocabulary())
    session.output.show({"fetched": str(what), "path": path}, lines=[f"{what}: {path}"])


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
    agent: Annotated[
        bool,
        option("--agent", "It is a program's: what it writes waits where `review` is on."),
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
    with session.service(create=True, settings=_local(session, "keys", embedder="none")) as service:
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
            agent=agent,
        )
    if not session.output.as_json:
        session.output.note(
            f"the key {made.key.id} {_allows(made.key)}; it is shown this once: keep it secret"
        )
    session.output.show({"key": made.token}, _fields(made.key), lines=[made.token])


@command("triptych admin keys list")
def list_keys(session: Session) -> None:
    """List the keys, and what each may do; never the keys themselves."""
    from triptych_adapters.keys import KeyStore

    with session.service(settings=_local(session, "keys", embedder="none")) as service:
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
    session: Session, ids: Annotated[list[str], argument("ID", "The ids of keys, as listed.")]
) -> None:
    """Make keys invalid at once, in every process that serves the store."""
    from triptych_adapters.keys import KeyStore

    with session.service(settings=_local(session, "keys", embedder="none")) as service:
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

    It waits on the page Reviews of the console, and no search finds it before.
    """
    from triptych.access.proposals import Proposals

    settings = _local(session, "review", embedder="none")
    with session.service(create=True, settings=settings) as service:
        proposals = Proposals.of(service)
        proposals.set_reviewed(dataset, not off)
        waiting = sum(each.state == "pending" for each in proposals.list(dataset))
    now = "is no longer reviewed" if off else "is reviewed from now on"
    session.output.show(
        {"dataset_id": dataset, "review": not off, "waiting": waiting},
        note=f"what agents write in {dataset!r} {now}; {waiting} proposals wait",
    )


def _local(session: Session, group: str, **others: Any) -> Settings:
    """The settings in force, but for ``others``, for a group of commands on the store itself."""
    from triptych_factory.backends import check_local

    settings = session.settings()
    check_local(settings, f"`triptych admin {group}`")
    return attrs.evolve(settings.without_llm(), **others)


def _moment(moment: datetime | None) -> str:
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
            name: moment and _moment(moment)
            for name in ("created_at", "expires_at", "revoked_at")
            for moment in [getattr(key, name)]
        },
    }


_NO_MODELS = {"embedder": "none", "next_embedder": "none"}
OneDataset = Annotated[str, option("--dataset -d", "The dataset.")]
AnyDataset = Annotated[str | None, option("--dataset -d", "The dataset. By default all.")]


@command("triptych admin spaces list")
def list_spaces(session: Session, dataset: AnyDataset = None) -> None:
    """List the embedders that datasets have vectors of, and which of them serves."""
    from triptych.spaces import list_spaces as spaces_of

    with session.service(settings=_local(session, "spaces", **_NO_MODELS)) as service:
        found = spaces_of(service, dataset)
    rows = (
        (
            each.dataset_id,
            each.embed_sig or "none",
            "yes" if each.serves else "no",
            each.vectors,
            each.lacking,
        )
        for each in found
    )
    session.output.show(
        {"spaces": [attrs.asdict(each) for each in found]},
        table=(("dataset", "embedder", "serves", "vectors", "documents without"), rows),
    )


@command("triptych admin spaces fill --dataset docs")
def fill(session: Session, dataset: AnyDataset = None) -> Exit:
    """Make the vectors of the next embedder beside those that serve.

    The setting next_embedder names it. The dataset is searched and written as before. Stop this
    command whenever you like: each vector is kept, and the next run goes on from there.
    """
    from triptych.spaces import fill_space

    output = session.output
    with (
        session.service(settings=_local(session, "spaces"), dataset=dataset or "") as service,
        output.progress("embedding") as progress,
    ):
        service.health().require()
        report = fill_space(service, dataset, progress=progress)
    rows = [
        ("documents", report.documents),
        ("texts embedded", report.embedded),
        ("texts reused", report.reused),
        ("documents without", report.lacking),
    ]
    return session.finish(
        report.failed,
        {"dataset_id": dataset},
        report,
        done=report.documents + report.embedded,
        placed=True,
        table=(("", report.embed_sig), rows),
    )


@command("triptych admin spaces swap --dataset docs", "triptych admin spaces swap --back")
def swap(
    session: Session,
    dataset: OneDataset = "default",
    back: Annotated[
        bool,
        option("--back", "Let the vectors serve that served before, and keep those of the next."),
    ] = False,
    incomplete: Annotated[
        bool,
        option(
            "--incomplete",
            "Swap also where documents lack vectors: they are found by keyword till they have "
            "them.",
        ),
    ] = False,
) -> None:
    """Let the vectors of the next embedder serve, and keep those that served.

    What was written since the fill, or since the swap, is embedded first. Every process whose
    setting next_embedder names it follows at once; --back goes back.
    """
    from triptych.spaces import swap_back, swap_space

    output = session.output
    with (
        session.service(settings=_local(session, "spaces"), dataset=dataset) as service,
        output.progress("embedding") as progress,
    ):
        swapped = swap_back if back else swap_space
        report = swapped(service, dataset, incomplete=incomplete, progress=progress)
    other_way = "`triptych admin spaces swap` swaps again"
    if not back:
        other_way = "`triptych admin spaces swap --back` goes back"
    now = (
        f"{report.embed_sig} serves the dataset {report.dataset_id!r} now, in place of "
        f"{report.before or 'keyword search alone'}: {other_way}"
    )
    already = f"{report.embed_sig} serves the dataset {report.dataset_id!r} already"
    output.show(attrs.asdict(report), note=now if report.swapped else already)
    if report.pending and not output.as_json:
        output.warn(
            f"{report.pending} documents have no vectors of it yet, and are found by keyword: "
            "`triptych embed` adds them"
        )


@command("triptych admin spaces drop 'hash/1/256' --dataset docs")
def drop(
    session: Session,
    signature: Annotated[str, argument("EMBEDDER", "Its signature, as `list` shows it.")],
    dataset: OneDataset = "default",
) -> Exit:
    """Remove the vectors of an embedder that does not serve."""
    from triptych.spaces import drop_space

    with session.service(settings=_local(session, "spaces", **_NO_MODELS)) as service:
        dropped = drop_space(service, dataset, signature)
    session.output.show(
        {"dataset_id": dataset, "embed_sig": signature, "dropped": dropped},
        note=f"dropped the vectors of {signature}" if dropped else "",
    )
    if not dropped:
        session.output.warn(f"the dataset {dataset!r} keeps no vectors of {signature}")
    return Exit.OK if dropped else Exit.NOT_FOUND
