"""The options of what searches, and the query that they make."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triptych_adapters.cli.session import conditions

if TYPE_CHECKING:
    from triptych.records import Query

__all__ = [
    "Dataset",
    "Everywhere",
    "FreshOnly",
    "LayerChoice",
    "ModeChoice",
    "ModeOption",
    "OptionalQuery",
    "QueryArgument",
    "Where",
    "make_query",
]


class ModeChoice(StrEnum):
    """The lanes to run; the domain's own enum would bring NumPy into every ``--help``."""

    BM25 = "bm25"
    VECTOR = "vector"
    HYBRID = "hybrid"


class LayerChoice(StrEnum):
    """What to find; apart from the domain's enum for the same reason."""

    ABSTRACT = "L0"
    OVERVIEW = "L1"
    DETAIL = "L2"


QueryArgument = Annotated[
    list[str],
    typer.Argument(metavar="QUERY", help="A question, or some words.", show_default=False),
]
OptionalQuery = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="QUERY",
        help="A question, or some words. Without any, --where lists what passes it.",
        show_default=False,
    ),
]
Dataset = Annotated[str, typer.Option("--dataset", "-d", help="The dataset to search.")]
Everywhere = Annotated[bool, typer.Option("--all", "-a", help="Search every dataset.")]
ModeOption = Annotated[
    ModeChoice | None,
    typer.Option("--mode", help="Which lanes run. Without it: hybrid where an embedder is."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "-w",
        metavar="KEY=VALUE",
        help="Only documents with this metadata; doc_name, doc_prefix and heading work "
        "too. A key given again allows any of its values. Or conditions as JSON: "
        '\'{"year": {"$gte": 2024}}\'.',
    ),
]
FreshOnly = Annotated[bool, typer.Option("--fresh-only", help="Leave out what is stale.")]


def make_query(
    words: Sequence[str] | None,
    *,
    dataset: str,
    everywhere: bool,
    mode: ModeChoice | None,
    where: Sequence[str] | None,
    fresh_only: bool,
    **others: Any,
) -> Query:
    """The query that these options ask for; ``others`` are fields of `Query`."""
    from triptych.records import Query, Scope

    return Query(
        text=" ".join(words or ()),
        dataset_id="" if everywhere else dataset,
        scope=Scope.ALL if everywhere else Scope.SINGLE,
        mode=None if mode is None else str(mode),
        where=conditions(where or [], "--where"),
        fresh_only=fresh_only,
        **others,
    )
