"""``triptych search`` and ``similar``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from triptych.errors import NotAvailableError, ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.hits import (
    HitView,
    is_wordless,
    place_of,
    render_hits,
    views_of,
    web_page,
)
from triptych_adapters.cli.names import SourceFiles, find_document, open_in_editor, shown_path
from triptych_adapters.cli.options import (
    AsOf,
    Dataset,
    FreshOnly,
    LayerChoice,
    ModeOption,
    OptionalQuery,
    PipelineOption,
    Where,
    asked_of,
    conditions,
    moment_note,
    query_fields,
)
from triptych_adapters.cli.output import Output, visible
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.records import Explanation, Query, Result
    from triptych.search.syntax import TextConditions
    from triptych.service import KnowledgeBase


@command(
    "triptych search how do I start",
    "triptych search '\"failed request\" -draft in:guide/'",
    "triptych search retries --mode bm25 -n 3 --where lang=en",
    "triptych search retries --open",
    "triptych search retries --why guide/http.md",
    "triptych search auth --json | jq -r '.hits\\[].path'",
)
def search(
    session: Session,
    query: OptionalQuery = None,
    dataset: Dataset = None,
    mode: ModeOption = None,
    layer: Annotated[
        LayerChoice | None,
        option("--layer -l", "L2 (the default) finds chunks, L0 abstracts, L1 overviews."),
    ] = None,
    documents: Annotated[bool, option("--documents", "Find whole documents instead.")] = False,
    top_k: Annotated[
        int | None, option("--top-k -n -k N", "Maximum number of hits. By default 10.")
    ] = None,
    threshold: Annotated[float | None, option("--threshold SCORE", "Minimum fused score.")] = None,
    where: Where = None,
    per_document: Annotated[
        int | None, option("--per-document", "Maximum number of hits of one document.", min=1)
    ] = None,
    offset: Annotated[
        int, option("--offset", "Number of hits to skip, for further pages.", min=0)
    ] = 0,
    fresh_only: FreshOnly = False,
    as_of: AsOf = None,
    files: Annotated[
        bool, option("--files", "Print only the files, or the names of documents.")
    ] = False,
    open_first: Annotated[
        bool, option("--open", "Open the best hit in $VISUAL, $EDITOR or a viewer.")
    ] = False,
    verbose: Annotated[
        bool,
        option("--verbose -v", "Show five lines of each hit, even if they do not fit the screen."),
    ] = False,
    why: Annotated[
        str | None,
        option("--why NAME", "Show the rank of one document, or why it is not found."),
    ] = None,
    no_syntax: Annotated[
        bool,
        option("--no-syntax", 'Do not read "a phrase", -word, word* and field:value in the query.'),
    ] = False,
    ranker: Annotated[
        Literal["z-score", "rrf", "min-max"] | None,
        option("--ranker", "How to fuse the lanes. By default the setting ranker, else z-score."),
    ] = None,
    reranker: Annotated[
        str | None,
        option(
            "--reranker NAME",
            "A model that reorders the best hits: voyage:rerank-2.5, onnx:FOLDER, llm.",
        ),
    ] = None,
    pipeline: PipelineOption = None,
) -> None:
    """Find the best chunks, layers or documents for a query.

    Searches all datasets unless you name one. Each hit has its file and best matching line, its
    section, its rank (#1 is the best), and whether it is stale. A line separates the hits that
    contain no word of the query. Without hits the exit code is still 0. Write -- before a query
    that starts with a minus and one letter, such as -x or -k3.
    """
    if why is not None and (documents or open_first or files):
        raise ValidationError(
            "--why explains one document's rank among passages or layers: leave out --documents, "
            "--files and --open"
        )
    from triptych_adapters.field_queries import only_fields

    if not no_syntax and (fields := only_fields(" ".join(query or ()))):
        where = [*(where or ()), *(f"{key}={each}" for key in fields for each in fields[key])]
        query, documents = None, documents or layer is None
    settings = session.settings(ranker=ranker, reranker=reranker)
    if pipeline is None:
        settings = settings.without_llm()
    with session.service(
        settings=settings,
        dataset=dataset or "",
        tells=True,
        preload=mode != "bm25",
        pipeline=pipeline,
    ) as service:
        given = query_fields(
            dataset=dataset,
            mode=mode,
            where=where,
            fresh_only=fresh_only,
            as_of=as_of,
            layer=layer,
            top_k=top_k,
            threshold=threshold,
            syntax=not no_syntax,
            per_document=per_document,
            offset=offset,
        )
        target, what, more = asked_of(service, pipeline, query, given)
        asked: Query = target.options.pipeline.query(what, more) if pipeline else what
        if why is not None:
            show_why(session.output, target.explain(what, _named(service, why, asked), **more))
            return
        result = (target.search_documents if documents else target.search)(what, **more)
        views = views_of(result.hits, SourceFiles(target))
        several = dataset is None and len(target.list_datasets()) > 1
    output = session.output
    output.warn(*result.warnings)
    chosen = top_k is not None or offset > 0  # so many, or a page of them
    if not output.as_json and (note := moment_note(result)):
        output.note(note)
    if output.as_json:
        output.show({"query": asked.text}, _json(result, views))
    elif files:
        shown = views[: len(views) if chosen else _end(result, least=0)]
        _print_files(output, shown)
        _say_evidence(output, result, views[len(shown) :])
    else:
        shown = views[: len(views) if chosen else _end(result, least=1)]
        height = output.stdout.height if output.stdout.is_terminal else 24
        for each in render_hits(
            shown,
            width=output.stdout.width,
            height=None if verbose else height,
            show_dataset=several,
            # Where conditions are met, a word of the query is met too.
            marked=not _conditions(asked),
            weak_from=None if result.evidence is None else result.evidence.weak_from,
        ):
            output.say(each)
        _say_evidence(output, result, views[len(shown) :], numbers=verbose)
    if result.cache_similarity is not None:
        near = f"{result.cache_similarity:.2f}"
        output.note(f"from the semantic cache: a question asked before is {near} near")
    if not views:
        output.note(_no_hits(asked))
    elif open_first:
        _open(output, views[0])


def _end(result: Result, *, least: int) -> int:
    """How many hits have evidence; ``least`` of them, and three where none is about the query, are
    shown in any case if there is any to show."""
    evidence = result.evidence
    if evidence is None or (evidence.weak_from is None and evidence.level != "none"):
        return len(result.hits)
    if evidence.level == "none":
        return 3 * least
    return max(evidence.weak_from or 0, least)


def _say_evidence(
    output: Output, result: Result, left_out: Sequence[HitView], *, numbers: bool = False
) -> None:
    """What the hits are worth, where that is not much, and how to see those that are left out."""
    evidence = result.evidence
    if evidence is None or not result.hits:
        return
    if evidence.level in ("weak", "none"):
        output.note(evidence.reason)
    if numbers and evidence.numbers:
        output.note(f"{evidence.level}: {evidence.numbers}")
    if left_out:
        how = "without a word of it" if all(map(is_wordless, left_out)) else "hardly about it"
        output.note(f"{len(left_out)} more, {how}: -n {len(result.hits)}")


@command("triptych similar guide/start.md", "triptych similar guide/start.md -n 3 --where lang=en")
def similar(
    session: Session,
    name: Annotated[str, argument("NAME", "The document's name or file.")],
    dataset: Dataset = None,
    top_k: Annotated[int, option("--top-k -n -k N", "Maximum number of hits.")] = 10,
    where: Where = None,
) -> None:
    """Find the passages of other documents that are most like a document.

    It compares the stored vectors and calls no model.
    """
    with session.service(dataset=dataset or "", tells=True) as service:
        of, filters = find_document(service, name, dataset), conditions(where or [], "--where")
        result = service.similar(of.dataset_id, of.name, top_k=top_k, where=filters)
        views = views_of(result.hits, SourceFiles(service))
    output = session.output
    output.warn(*result.warnings)
    lines = render_hits(views, width=output.stdout.width, show_dataset=False)
    output.show({"name": of.name}, _json(result, views), lines=lines)
    if not views:
        output.note("no hits")


@command(
    "triptych related src/app.py:120          what the code at that line uses, and who uses it",
    "triptych related guide/start.md --json   links in both directions",
)
def related(
    session: Session,
    name: Annotated[str, argument("NAME", "The document's name or file: NAME or NAME:LINE.")],
    dataset: Dataset = None,
    top_k: Annotated[int, option("--top-k -n -k N", "The most of each kind.")] = 10,
) -> None:
    """Show what a document, or the code at a line, uses and is used by.

    Definitions of the names that are used there, users of what is defined there, and documents that
    link to it or quote its path. It reads the index and calls no model.
    """
    from triptych.records.serialization import to_json
    from triptych_adapters.related import related as find

    with session.service(settings=session.settings().without_llm()) as service:
        of = find_document(service, name, dataset)
        found = find(service, of.dataset_id, of.name, of.first, top_k=top_k)
    lines: list[str] = []
    for title, hits in (
        ("defined elsewhere:", found.definitions),
        ("used by:", found.users),
        ("linked from:", found.citing),
    ):
        places = [
            f"  {hit.doc_name}:{hit.start_line}  {' › '.join(hit.heading_path)}" for hit in hits
        ]
        lines += [title, *map(str.rstrip, places)] if places else []
    lines += ["links to:", *(f"  {each}" for each in found.cited)] if found.cited else []
    session.output.show(
        {"name": of.name, "line": of.first, **to_json(found)},
        lines=map(visible, lines),
        note="" if lines else "nothing is related to it by a name or a link",
    )


def _named(service: KnowledgeBase, text: str, asked: Query) -> str:
    """The document that ``text`` names, in the datasets that are searched."""
    return find_document(service, text, asked.dataset_id or None).name


def _conditions(asked: Query) -> TextConditions | None:
    from triptych.search.syntax import parse_query

    return parse_query(asked).conditions if asked.syntax else None


def _no_hits(asked: Query) -> str:
    """What to say, and to try next, where nothing was found."""
    conditions = _conditions(asked)
    if not conditions:
        return "no hits"
    required = [*conditions.phrases, *(f"{each}*" for each in conditions.prefixes)]
    excluded = [*conditions.excluded, *(f"{each}*" for each in conditions.excluded_prefixes)]
    holds = f" holds {' and '.join(map(_quoted, required))}" if required else " is found"
    without = f" without {' or '.join(map(_quoted, excluded))}" if excluded else ""
    return f"no hits: no text{holds}{without}; --no-syntax searches for the words alone"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _json(result: Result, views: Sequence[HitView]) -> dict[str, Any]:
    from triptych.records.serialization import to_json

    shown: dict[str, Any] = to_json(result)
    for hit, view in zip(shown["hits"], views, strict=True):
        hit["file"] = None if view.path is None else str(view.path)
    return shown


def _print_files(output: Output, views: Sequence[HitView]) -> None:
    printed = []
    for view in views:
        name = view.hit.doc_name if view.path is None else shown_path(view.path)
        # Whoever put the document chose its name: it must not be read as that of a file elsewhere.
        if view.path is None and (name.startswith("/") or ".." in name.split("/")):
            output.warn(f"{name!r} is left out: a document has that name, but no file")
        else:
            printed.append(f"{name}\n")
    output.write("".join(dict.fromkeys(printed)))


def _open(output: Output, view: HitView) -> None:
    hit = view.hit
    url = web_page(hit)
    if view.path is None and url is None:
        raise NotAvailableError(
            f"{hit.doc_name!r} has no existing source file: `triptych get {hit.doc_name}` prints it"
        )
    if not sys.stdout.isatty():
        where = place_of(view) if view.path is not None else url
        output.note(f"not opened, because stdout is not a terminal: {where}")
    elif view.path is not None:
        open_in_editor(view.path, view.line)
    elif url is not None:
        import webbrowser

        webbrowser.open(url)


def show_why(output: Output, told: Explanation) -> None:
    """Print an `Explanation`: whether a document is shown, why not, its place in each lane."""
    columns = ("lane", "rank", "score", "brings", "last score")
    rows = [
        (lane.lane, lane.rank or "-", _score(lane.score), lane.brings, _score(lane.last))
        for lane in told.lanes
    ]
    for line in () if output.as_json else _why_lines(told):
        output.say(line)
    output.show(told, table=(columns, rows))
    output.warn(*told.warnings)


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.4f}"


def _why_lines(told: Explanation) -> Iterator[str]:
    name = f"{told.dataset_id}/{told.doc_name}"
    if told.rank is not None:
        yield f"{name} is hit #{told.rank}, with score {_score(told.score)}"
    else:
        yield f"{name} is not shown"
    for obstacle in told.obstacles:
        yield f"  {obstacle.kind}: {obstacle.message}"
    if told.rank is None and told.score is not None and told.needed is not None:
        yield f"  score {_score(told.score)}; the last hit has {_score(told.needed)}"
    if told.as_code:
        yield f"  as code, #{told.fused_rank or '-'} before: {', '.join(told.as_code)}"
    if told.matched:
        yield f"  it has: {', '.join(told.matched)}"
    if told.lacking:
        yield f"  it lacks: {', '.join(told.lacking)}"
    if told.stale is not None:
        yield f"  stale: {told.stale}"
