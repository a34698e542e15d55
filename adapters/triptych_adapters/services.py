"""The Service that a tool, a node or a server is over: checked, listed whole, its names guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Any, Final

from triptych.aio import AsyncService
from triptych.errors import ValidationError
from triptych.records import DerivedLayer, DocumentInfo, Layer
from triptych.service import Service
from triptych.service.views import Dataset

_PAGE: Final = 100


def check_service(service: object, what: str, *needs: str) -> None:
    """Refuse what is not a `Service`, nor wraps one; ``what`` names who takes it.

    ``needs`` are the methods that will be called. A wrapper that has them does as well.

    Raises:
        ValidationError: it is None or something else; the message says what to give.
    """
    others = isinstance(service, type | AsyncService | Dataset)
    if not others and all(callable(getattr(service, method, None)) for method in needs):
        return
    advice = "open a knowledge base with triptych.open(…) and give that"
    if isinstance(service, AsyncService):
        advice = "give the Service inside it, its attribute `service`"
    elif isinstance(service, Dataset):
        advice = "give the Service that it is a view of, and name the dataset by its id"
    name = type(service).__name__
    kind = "None" if service is None else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
    raise ValidationError(f"{what} needs a Service, not {kind}: {advice}")


def documents_of(service: Service, dataset_id: str, **options: Any) -> Iterator[DocumentInfo]:
    """All that `Service.list_documents` lists with these options, page by page.

    Raises:
        NotFoundError: there is no such dataset, or none any more.
    """
    while True:
        page = service.list_documents(dataset_id, limit=_PAGE, **options)
        yield from page
        if len(page) < _PAGE:
            return
        options["after"] = page[-1]


_SUGGESTED = 3


def layer_of(service: Service, dataset_id: str, name: str, layer: Layer) -> DerivedLayer | None:
    """A layer of a document or folder; of the dataset itself, where the name is empty."""
    if name:
        return service.layer(dataset_id, name, layer)
    return service.dataset_layer(dataset_id, layer)


def did_you_mean(
    service: Service, datasets: Sequence[str], text: str, *, most: int | None = None
) -> str:
    """The question that ends an error's message, "" where no name of a document is near.

    ``most`` is how many names of a dataset are looked at, None for all.
    """
    names = [info.name for each in datasets for info in service.list_documents(each, limit=most)]
    near = _near(names, text)[:_SUGGESTED]
    return f": did you mean {' or '.join(map(repr, near))}?" if near else ""


def _near(names: Sequence[str], text: str) -> list[str]:
    """Those that end with ``text``, or are spelt nearly so."""
    ending = [name for name in names if name.endswith(f"/{text}")]
    if ending:
        return sorted(ending, key=lambda name: (len(name), name))
    # The whole name, or its last part, where the folders were left out.
    last: dict[str, str] = {}
    for name in names:
        last.setdefault(_last_part(name), name)
    close = get_close_matches(text, names, n=_SUGGESTED, cutoff=0.75)
    close += [last[each] for each in get_close_matches(_last_part(text), last, cutoff=0.75)]
    return sorted(dict.fromkeys(close), key=lambda name: _distance(text, name))


def _distance(text: str, name: str) -> tuple[float, str]:
    pairs = ((text, name), (_last_part(text), _last_part(name)))
    return -max(SequenceMatcher(None, *pair).ratio() for pair in pairs), name


def _last_part(name: str) -> str:
    return name.rpartition("/")[2]
