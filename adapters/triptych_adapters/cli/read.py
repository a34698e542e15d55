"""``triptych get`` and ``triptych list``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from triptych.errors import TriptychError, ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.names import SourceFiles, dataset_in_use, find_document
from triptych_adapters.cli.options import Where, conditions, note_unknown_fields
from triptych_adapters.cli.session import Exit, Session
from triptych_adapters.kinds import shown_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from triptych.records import DocumentInfo, SourceDocument
    from triptych.search.pipeline_record import Pipeline
    from triptych_adapters.cli.names import NamedDocument

_LINE = re.compile(r"[^\r\n]*+(?:\r\n?|\n)|[^\r\n]++")
_COUNTED = re.compile(r"lines? (\d+)(?:-(\d+))?")


@command(
    "triptych get guide/start.md > start.md",
    "triptych get start.md:50-89              40 lines; start.md:50- all from there",
    "triptych get start.md end.md --info",
    "triptych get start.md --version 3",
)
def get(
    session: Session,
    names: Annotated[list[str], argument("NAME", "Documents: NAME, NAME:LINE, NAME:FIRST-LAST.")],
    dataset: Annotated[str | None, option("--dataset -d", "Look in this dataset only.")] = None,
    version: Annotated[
        int | None, option("--version N", "An old version, as listed by `triptych history`.", min=1)
    ] = None,
    info: Annotated[
        bool, option("--info", "Print information about the document instead of its content.")
    ] = False,
) -> None:
    """Print the exact stored text of documents.

    NAME:50 prints line 50, NAME:50-89 forty lines, NAME:50- all from line 50. NAME can also be the
    file of a synced folder, or DATASET/NAME. For a file that was converted (PDF, office, HTML,
    reStructuredText, tables, notebooks, other encodings than UTF-8) it prints the extracted text
    with a note.
    """
    settings = session.settings().without_llm()
    found = []
    with session.service(settings=settings) as service:
        files = SourceFiles(service)
        for text in names:
            named = find_document(service, text, dataset)
            document = service.get_document(named.dataset_id, named.name, version)
            found.append((named, document, files.path(named.dataset_id, named.name)))
    parts = [_part(document, named.first, named.last) for named, document, _ in found]
    output = session.output
    if output.as_json:
        shown = [_as_json(each, part, info=info) for each, part in zip(found, parts, strict=True)]
        output.show({"document": shown[0]} if len(names) == 1 else {"documents": shown})
        return
    for at, ((named, document, path), part) in enumerate(zip(found, parts, strict=True)):
        if not info and _is_converted(document):
            output.note(
                f"{named.name} is the text that was extracted from the file by "
                f"{document.parser_sig}, "
                "not its bytes"
            )
        if len(found) > 1 and not info:
            # As head and tail part several files.
            before = "" if at == 0 else "\n" if parts[at - 1].endswith("\n") else "\n\n"
            output.write(f"{before}==> {named.name} <==\n")
        if info:
            output.table(("", ""), _rows(document, path), folds=True)
        else:
            output.write(part)


def _is_converted(document: SourceDocument) -> bool:
    from triptych.signatures import content_sha256

    original = document.original_sha256
    return bool(original) and original != content_sha256(document.content)


def _part(document: SourceDocument, first: int | None, last: int | None) -> str:
    """The lines from ``first`` to ``last`` (None: the end), numbered as a search numbers them.

    Raises:
        ValidationError: the text has no such line.
    """
    if first is None:
        return document.content
    lines = [found.span() for found in _LINE.finditer(document.content)] or [(0, 0)]
    if last is not None and last < first:
        raise ValidationError(f"no lines to read: line {last} is before line {first}")
    numbers = _numbers(document, lines)
    there = max(high for _, high in numbers)
    if not 1 <= first <= there:
        said = "1 line" if there == 1 else f"{there} lines"
        raise ValidationError(f"there is no line {first}: the document has {said}")
    return "".join(
        document.content[start:end]
        for (start, end), (low, high) in zip(lines, numbers, strict=True)
        if high >= first and (last is None or low <= last)
    )


def _numbers(document: SourceDocument, lines: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The first and last number of each line: of the file, where its parser counted them."""
    from triptych.chunking.outline import read_outline

    outline = read_outline(document.system.outline, document.content)
    places = [] if outline is None else outline.locate_all(document.content, lines)
    counted = [_COUNTED.fullmatch(place or "") for place in places]
    if not any(counted):
        return [(number, number) for number in range(1, len(lines) + 1)]
    numbers = [(0, 0)]
    for each in counted:
        # A line that the parser put between others is of the one before it.
        numbers.append((int(each[1]), int(each[2] or each[1])) if each else numbers[-1])
    return numbers[1:]


def _as_json(
    found: tuple[NamedDocument, SourceDocument, Path | None], part: str, *, info: bool
) -> dict[str, Any]:
    from triptych.records.serialization import to_json

    named, document, path = found
    fields: dict[str, Any] = to_json(document)
    fields |= {"file": None if path is None else str(path), "content": part}
    if named.first is not None:
        fields["start_line"] = named.first
    if info:
        del fields["content"]
    return fields


def _rows(document: SourceDocument, path: Path | None) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [
        ("name", document.name),
        ("dataset", document.dataset_id),
        ("version", document.version),
        ("updated", document.updated_at.isoformat()),
        ("size", len(document.content.encode("utf-8"))),
    ]
    if document.system.expires_at is not None:
        rows.append(("expires", document.system.expires_at.isoformat()))
    if path is not None:
        rows.append(("file", path))
    if document.parser_sig:
        rows.append(("parser", document.parser_sig))
    metadata = dict(document.metadata)
    if form := shown_kind(metadata, document.parser_sig):
        metadata["kind"] = f"{metadata['kind']}, read from {form}"
    return rows + [(f"metadata.{key}", value) for key, value in sorted(metadata.items())]


@command(
    "triptych list --prefix guide/",
    "triptych list --where lang=en --count",
    "triptych list --datasets",
    "triptych list --folders",
    "triptych list | cut -f1     only the names",
)
def list_(
    session: Session,
    dataset: Annotated[
        str | None, option("--dataset -d", "The dataset. By default 'default', or the only one.")
    ] = None,
    datasets: Annotated[bool, option("--datasets", "List the datasets instead.")] = False,
    folders: Annotated[
        bool, option("--folders", "List the folders of `triptych add` instead.")
    ] = False,
    pipelines: Annotated[
        bool,
        option(
            "--pipelines",
            "List the pipelines of triptych.toml instead, and check each; the exit code is 1 if "
            "one cannot be used.",
        ),
    ] = False,
    count: Annotated[bool, option("--count", "Print the number of documents.")] = False,
    prefix: Annotated[str, option("--prefix", "Only names that start with this.")] = "",
    after: Annotated[str, option("--after", "Only names after this one.")] = "",
    limit: Annotated[int | None, option("--limit", "Maximum number of documents.", min=1)] = None,
    where: Where = None,
    sort: Annotated[
        str,
        option(
            "--sort",
            "$name, $version, $updated_at, $expires_at or a metadata key; -$updated_at: newest "
            "first.",
        ),
    ] = "$name",
) -> Exit | None:
    """List a dataset's documents; or the datasets, folders or pipelines."""
    given = {
        "--datasets": datasets,
        "--folders": folders,
        "--pipelines": pipelines,
        "--count": count,
    }
    wanted = [name for name, is_given in given.items() if is_given]
    if len(wanted) > 1:
        raise ValidationError(f"{' and '.join(wanted)} list different things: give one of them")
    if count and (prefix or after or limit is not None):
        raise ValidationError(
            "--count counts the matches of --where: leave out the other conditions"
        )
    if folders:
        from triptych_adapters.cli.roots import list_folders

        list_folders(session, dataset)
        return None
    if pipelines:
        return list_pipelines(session)
    output = session.output
    with session.service() as service:
        if datasets:
            ids = list(service.list_datasets())
            output.show({"datasets": ids}, table=(("dataset",), ((each,) for each in ids)))
            return None
        # A store without any dataset is empty; a dataset that is named must be there.
        empty = dataset is None and not service.list_datasets()
        dataset = dataset_in_use(service, dataset)
        passed = conditions(where or [], "--where")
        if count:
            number = 0 if empty else service.count_documents(dataset, where=passed)
            if not number and not empty:
                note_unknown_fields(output, service, dataset, passed)
            output.show({"dataset_id": dataset, "count": number}, lines=[str(number)])
            return None
        documents: Sequence[DocumentInfo] = ()
        if not empty:
            documents = service.list_documents(
                dataset, prefix=prefix, after=after, limit=limit, where=passed, sort=sort
            )
        if not documents and not empty:
            note_unknown_fields(output, service, dataset, passed)
    expiring = any(each.system.expires_at for each in documents)
    output.show(
        {"dataset_id": dataset, "documents": documents},
        table=(
            ("name", "version", "bytes", "updated", *(["expires"] if expiring else [])),
            (_row(each, expiring=expiring) for each in documents),
        ),
        note="" if documents else "no documents",
    )
    return None


def _row(info: DocumentInfo, *, expiring: bool) -> tuple[object, ...]:
    moments = [info.updated_at, *([info.system.expires_at] if expiring else [])]
    shown = (each.isoformat(timespec="seconds") if each else "" for each in moments)
    return info.name, info.version, info.size, *shown


def list_pipelines(session: Session) -> Exit | None:
    """List the pipelines of triptych.toml, and check each; of a server their names."""
    from triptych_factory.locations import is_server

    settings = session.settings()
    remote = is_server(settings.url)
    if remote:
        with session.service() as service:
            found: list[dict[str, Any]] = [{"name": name} for name in service.pipelines]
    else:
        found = [_described(session, name) for name in settings.pipelines]
    where = "they are described where the server runs"
    none = where if remote else "describe one in triptych.toml under [pipelines.NAME]"
    session.output.show(
        {"pipelines": found},
        lines=("\n".join(_lines(each)) for each in found),
        note="" if found else f"no pipelines: {none}",
    )
    return Exit.FAILED if any(each.get("problem") for each in found) else None


def _described(session: Session, name: str) -> dict[str, Any]:
    """What a pipeline consists of, and why it cannot be used, None where it can."""
    from triptych.service import service_of
    from triptych_factory.tables import BREAKING, table_findings

    try:
        with session.service(settings=session.settings(), pipeline=name) as service:
            pipeline = service.pipelines[name]
            view = service_of(service.pipeline(name), "a description")
            there = set(view.list_datasets())
            lanes = view.searches.resolver.lanes_of(pipeline.search.get("mode"))
            about = {**_parts(pipeline), "lanes": list(lanes)}
            failing = [each for each in table_findings(view) if each.check in BREAKING]
    except TriptychError as error:
        return {"name": name, "problem": str(error)}
    missing = [each for each in pipeline.datasets if each not in there]
    problem = None
    if failing:
        problem = failing[0].detail
    elif missing:
        problem = f"there is no dataset {', '.join(map(repr, missing))}"
    return {"name": name, **about, "problem": problem}


def _parts(pipeline: Pipeline) -> dict[str, Any]:
    from triptych.search.pipeline_record import rewriters_of

    ranker, llm = pipeline.ranker, pipeline.llm
    return {
        "description": pipeline.description,
        "datasets": list(pipeline.datasets),
        "rewriters": [type(step).__name__ for step in rewriters_of(pipeline.rewriter)],
        "ranker": None if ranker is None else type(ranker).__name__,
        "postprocessors": [type(step).__name__ for step in pipeline.postprocessors],
        "search": dict(pipeline.search),
        "token_budget": pipeline.token_budget,
        "llm": None if llm is None else llm.signature,
        "prompt": pipeline.prompt,
    }


def _lines(about: Mapping[str, Any]) -> Iterator[str]:
    """A pipeline for a person: its name, then what it has, one thing to a line."""
    described = about.get("description")
    yield f"{about['name']}  {described}" if described else about["name"]
    if about.get("problem"):
        yield f"    cannot be used: {about['problem']}"
    shown = ("datasets", "rewriters", "lanes", "ranker", "postprocessors", "token_budget", "llm")
    for key in shown:
        value = about.get(key)
        if value:
            said = ", ".join(value) if isinstance(value, list) else value
            yield f"    {key.replace('_', ' ')}: {said}"
    for key, value in about.get("search", {}).items():
        yield f"    {key}: {value}"
