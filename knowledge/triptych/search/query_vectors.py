"""The vectors of queries: of many, in one call to the embedder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import attrs

from triptych.derivation.deriver import Deriver
from triptych.errors import ProviderError
from triptych.records import Mode
from triptych.search.query import has_words
from triptych.search.request import SearchRequest
from triptych.vectors.embedding import embed_each, mean_vector

_EMBEDDED = (Mode.HYBRID, Mode.VECTOR)


def embed_queries(derivation: Deriver, requests: Sequence[SearchRequest]) -> list[SearchRequest]:
    """The requests with a vector for each variant that wants one, by one call for each kind.

    After a failure each lane embeds its own text, and says what became of it.
    """
    by_space: dict[str, list[int]] = {}
    for at, request in enumerate(requests):
        by_space.setdefault(request.query.embed_sig, []).append(at)
    made = list(requests)
    for embed_sig, places in by_space.items():
        some = _embedded(derivation.of_space(embed_sig), [requests[at] for at in places])
        for at, request in zip(places, some, strict=True):
            made[at] = request
    return made


def _embedded(derivation: Deriver, requests: Sequence[SearchRequest]) -> Sequence[SearchRequest]:
    embedder, admits = derivation.embedder, derivation.coverage.admits
    if embedder is None:
        return requests
    need = {
        (number, at): [each for each in variant.embedded if has_words(each[1]) and admits(each[1])]
        for number, request in enumerate(requests)
        for at, variant in enumerate(request.variants)
        if variant.mode in _EMBEDDED and variant.vector_dataset_ids and variant.vector is None
    }
    known = {key: row for request in requests for key, row in request.vectors.items()}
    new = [each for texts in need.values() for each in texts if each not in known]
    with suppress(ProviderError):
        known |= embed_each(embedder, list(dict.fromkeys(new)))
        made = []
        for number, request in enumerate(requests):
            variants = list(request.variants)
            for at, variant in enumerate(variants):
                if texts := need.get((number, at)):
                    vector = mean_vector([known[each] for each in texts])
                    variants[at] = attrs.evolve(variant, vector=vector)
            made.append(attrs.evolve(request, variants=variants))
        return made
    return requests
