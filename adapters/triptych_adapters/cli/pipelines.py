"""``triptych pipelines``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from triptych.errors import TriptychError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.search.pipeline_record import Pipeline


@command("triptych pipelines", "triptych search --pipeline support lost password")
def pipelines(session: Session) -> Exit | None:
    """List the pipelines of triptych.toml, and check each.

    A pipeline is a name for the choices of a search: datasets, rewriters, lanes, postprocessors,
    budget, model and prompt. The exit code is 1 where one cannot be used. Of a server the names are
    listed.
    """
    from triptych_factory.remote import is_server

    settings = session.settings()
    found: list[dict[str, Any]] = []
    if is_server(settings.url):
        _list_of_server(session)
        return None
    for name in settings.pipelines:
        about, problem = _described(session, name)
        found.append({"name": name, **about, "problem": problem})
    if session.output.as_json:
        session.output.emit({"pipelines": found})
    else:
        for each in found:
            session.output.say("\n".join(_lines(each)))
    if not found:
        session.output.note("no pipelines: describe one in triptych.toml under [pipelines.NAME]")
    return Exit.FAILED if any(each["problem"] for each in found) else None


def _list_of_server(session: Session) -> None:
    with session.service() as service:
        names = list(service.pipelines)
    if session.output.as_json:
        session.output.emit({"pipelines": [{"name": name} for name in names]})
        return
    for name in names:
        session.output.say(name)
    if not names:
        session.output.note("no pipelines: they are described where the server runs")


def _described(session: Session, name: str) -> tuple[Mapping[str, Any], str | None]:
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
        return {}, str(error)
    missing = [each for each in pipeline.datasets if each not in there]
    if failing:
        return about, failing[0].detail
    if missing:
        return about, f"there is no dataset {', '.join(map(repr, missing))}"
    return about, None


def _parts(pipeline: Pipeline) -> dict[str, Any]:
    from triptych.search.rewriters.chain import rewriters_of

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
    if about["problem"]:
        yield f"    cannot be used: {about['problem']}"
    for key in (
        "datasets",
        "rewriters",
        "lanes",
        "ranker",
        "postprocessors",
        "token_budget",
        "llm",
    ):
        value = about.get(key)
        if value:
            shown = ", ".join(value) if isinstance(value, list) else value
            yield f"    {key.replace('_', ' ')}: {shown}"
    for key, value in about.get("search", {}).items():
        yield f"    {key}: {value}"
