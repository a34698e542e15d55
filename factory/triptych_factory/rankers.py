"""From a name to a ranker, or to a reranker: explicit dicts of builders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from triptych.contracts import Ranker, Reranker
from triptych.errors import ValidationError
from triptych.search.fusion import RANKERS
from triptych_factory.access import Access, access_arguments, named_model

__all__ = ["RERANKERS", "build_ranker", "build_reranker"]


def _voyage(model: str, how: Mapping[str, Any]) -> Reranker:
    from triptych_backends.providers import VoyageReranker

    return VoyageReranker(model, **how)


RERANKERS: Mapping[str, Callable[[str, Mapping[str, Any]], Reranker]] = {"voyage": _voyage}


def build_ranker(ranker: Ranker | str, weights: Mapping[str, float] | None = None) -> Ranker:
    """Return the ranker meant: a name is built, with ``weights`` by lane, a `Ranker` passes.

    Raises:
        ValidationError: no ranker has this name, or a weight is not a number from 0 up.
    """
    if not isinstance(ranker, str):
        return ranker
    if ranker not in RANKERS:
        raise ValidationError(f"no ranker is called {ranker!r}: use one of {', '.join(RANKERS)}")
    return RANKERS[ranker](weights=weights or {})


def build_reranker(
    reranker: Reranker | str | None,
    *,
    access: Mapping[str, Access] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Reranker | None:
    """Return the reranker meant: "provider:model" is built, a `Reranker` passes, None and "none"
    are none.

    Raises:
        ValidationError: no reranker has this name, or its provider's key is missing.
        NotAvailableError: the extra ``http`` is not installed.
    """
    if reranker is None or reranker == "none":
        return None
    if not isinstance(reranker, str):
        return reranker
    named = named_model(reranker)
    builder = None if named is None else RERANKERS.get(named[0])
    if named is None or builder is None:
        known = ", ".join(f"{provider}:…" for provider in RERANKERS)
        raise ValidationError(f"no reranker is called {reranker!r}: use one of {known}, none")
    provider, model = named
    return builder(model, access_arguments(provider, (access or {}).get(provider), environ))
