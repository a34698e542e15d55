"""``triptych layers``, and showing layers."""

from __future__ import annotations

from typing import Annotated

from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.query_options import DocumentDataset, LayerChoice
from triptych_adapters.cli.session import Session


@command(
    "triptych layers show start.md",
    "triptych layers show guide/",
    "triptych layers show --dataset-layer",
)
def show(
    session: Session,
    name: Annotated[
        str | None, argument("NAME", "The document or its file, or a folder: guide/.")
    ] = None,
    dataset_layer: Annotated[
        bool, option("--dataset-layer", "Show the dataset's own layers instead.")
    ] = False,
    dataset: DocumentDataset = None,
    layer: Annotated[
        LayerChoice | None, option("--layer -l", "L0 or L1. Without it: both.")
    ] = None,
) -> None:
    """Show the abstract and the overview of a document, a folder or a whole dataset."""
    from triptych.records.serialization import to_json
    from triptych_adapters.cli.names import find_document

    if (name is None) is not dataset_layer:
        raise ValidationError("name a document, or give --dataset-layer: one of the two")
    if layer is LayerChoice.DETAIL:
        raise ValidationError("L2 is the chunks: find them with `triptych search`")
    wanted = (LayerChoice.ABSTRACT, LayerChoice.OVERVIEW) if layer is None else (layer,)
    with session.service() as service:
        if name is not None and not name.endswith("/"):
            named = find_document(service, name, dataset)
            dataset, name = named.dataset_id, named.name
        dataset = dataset or "default"
        if name is None:
            found = [service.dataset_layer(dataset, str(each)) for each in wanted]
        else:
            found = [service.layer(dataset, name, str(each)) for each in wanted]
    layers = [each for each in found if each is not None]
    if not layers:
        whose = f"dataset {dataset!r}" if name is None else f"{name!r}"
        raise NotFoundError(f"{whose} has no such layer yet: `triptych layers build` makes it")
    output = session.output
    if output.as_json:
        output.emit({"layers": to_json(layers)})
        return
    for each in layers:
        stale = "" if each.stale is None else f" (stale: {each.stale})"
        output.note(f"{each.layer} of {each.doc_name or 'the dataset ' + dataset}{stale}")
        output.say(each.content)
