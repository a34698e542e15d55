"""What a filter asks for that no document has: a field, a type of value, a beginning of names."""

from __future__ import annotations

from collections.abc import Iterator

from triptych._internal.wording import did_you_mean
from triptych.contracts import DocumentRepo
from triptych.records import And, Condition, DocumentInfo, FilterTree, Or, ResolvedQuery
from triptych.records.filters import NAME, all_of
from triptych.records.metadata import comparison_key

_LOOKED_AT = 1_000  # documents of a dataset whose fields are read
_NAMED = 30
_KINDS = {
    "text": "text",
    "number": "a number",
    "bool": "true or false",
    "time": "a date",
    "list": "a list",
}


def filter_hints(documents: DocumentRepo, query: ResolvedQuery) -> Iterator[str]:
    """Say why nothing passes the filter of ``query``, where it names what no document has.

    It reads up to 1,000 documents of each dataset: call it only where nothing was found.
    """

    def some(where: FilterTree | None, limit: int = 1) -> list[DocumentInfo]:
        within = all_of(query.filter.within, where)
        datasets = dict.fromkeys(query.dataset_ids)
        pages = (documents.list(each, limit=limit, where=within) for each in datasets)
        return [info for page in pages for info in page]

    asked = list(_asked(query.filter.tree))
    for each in asked:
        if (each.field, each.operator) == (NAME, "starts") and not some(each) and some(None):
            texts = " or ".join(repr(text) for _, text in each.values)
            yield f"no document's name begins with {texts}: list the documents to see their names"
    for field in dict.fromkeys(each.field for each in asked if not each.field.startswith("$")):
        held = some(Condition(field, "exists"), _LOOKED_AT)
        if not held:
            known = sorted({key for info in some(None, _LOOKED_AT) for key in info.metadata})
            if known:
                more = ", …" if len(known) > _NAMED else ""
                fields = f"the fields are {', '.join(known[:_NAMED])}{more}"
                near = did_you_mean(field, known, "")
                yield f"no document has {field!r}; {fields}" + (near and f": {near}")
            continue
        kinds = {comparison_key(info.metadata[field])[0] for info in held}
        for each in asked:
            wanted = {kind for kind, _ in each.values} - {"list"}
            if each.field != field or not wanted or wanted & kinds or len(held) == _LOOKED_AT:
                continue
            if each.operator == "contains" and "list" in kinds:
                continue
            are, not_ = (" or ".join(_KINDS[kind] for kind in sorted(of)) for of in (kinds, wanted))
            member = f": write {{{field!r}: {{'$contains': …}}}}" if "list" in kinds else ""
            yield f"{field!r} is {are} in these documents, not {not_}{member}"


def _asked(tree: FilterTree | None) -> Iterator[Condition]:
    """The conditions that must hold; not those that must not."""
    if isinstance(tree, Condition):
        yield tree
    elif isinstance(tree, And | Or):
        for part in tree.parts:
            yield from _asked(part)
