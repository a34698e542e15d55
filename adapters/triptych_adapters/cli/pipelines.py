"""``triptych list --pipelines``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from triptych.errors import TriptychError
from triptych_adapters.cli.exits import Exit
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.search.pipeline_record import Pipeline


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
    from triptych_factory.tables import BREAKING, table_findings

    try:
        with session.service(settings=session.settings(), pipeline=name) as service:
            pipeline = service.pipelines[name]
            searched = service.pipeline(name).service
            there = set(searched.list_datasets())
            about = {**_parts(pipeline), "lanes": list(pipeline.lanes or searched.lanes)}
            failing = [each for each in table_findings(searched) if each.check in BREAKING]
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
    from triptych.search.rewriting import rewriters_of

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
