"""What Qdrant says of a collection, checked against a `TableSpec`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

import attrs
from qdrant_client import models

from triptych.errors import ModelMismatchError, NotFoundError, ValidationError
from triptych.records import FilterTree, Finding, Metadata, Subject, conditions_of, parse_filter
from triptych_inplace.qdrant.conditions import (
    Narrowing,
    Path,
    has_id,
    has_value,
    name_of,
    narrowed,
    read_moment,
    read_value,
)
from triptych_inplace.qdrant.connection import (
    FoundPoint,
    Layout,
    PointReader,
    VectorSpace,
)
from triptych_inplace.source import MANY
from triptych_inplace.spec import TableSpec
from triptych_inplace.table import EPOCH, ROW_VERSION, Row

POINT_ID = "id"
"""As ``id`` of a spec: the point's own id."""


@attrs.frozen(kw_only=True)
class Pair:
    """A field of texts and the vectors of them, if any. ``indexed``: it has a text index."""

    index: int
    text: Path
    vector: VectorSpace | None
    indexed: bool


@attrs.frozen(kw_only=True)
class Collection:
    """A collection as Qdrant has it, with what a `TableSpec` says of it.

    ``id`` is None where the point's own id names it. ``own`` are the fields that ``where`` names.
    """

    spec: TableSpec
    name: str
    layout: Layout
    id: Path | None
    document: Path | None
    pairs: Sequence[Pair]
    metadata: Mapping[str, Path]
    updated_at: Path | None
    where: FilterTree | None
    own: Mapping[str, Path]

    @property
    def row_fields(self) -> list[str]:
        """The keys that a row is read from."""
        return list(dict.fromkeys([*self.judged_fields, *(each.text.key for each in self.pairs)]))

    @property
    def judged_fields(self) -> list[str]:
        """The keys that decide what a point is called, and which filters it passes."""
        paths = [self.id, self.document, self.updated_at]
        keys = [path.key for path in (*paths, *self.metadata.values()) if path is not None]
        return list(dict.fromkeys([*keys, *(path.key for path in self.own.values())]))

    def point_name(self, point: FoundPoint) -> str | None:
        """What the point is called as a document; None where it has no name."""
        name = str(point.id) if self.id is None else name_of(self.id.read(point.payload))
        if name is None or self.document is None:
            return name
        document = name_of(self.document.read(point.payload))
        return None if document is None else f"{document}/{name}"

    def has_name(self, names: Sequence[str]) -> Narrowing:
        """What points that are called one of ``names`` fulfil."""
        if self.document is not None:
            # Both parts may have slashes; `Passing` compares the whole.
            names = [end for name in names for end in _ends(name, whole=self.id is None) if end]
        return has_id(names) if self.id is None else has_value(self.id.key, names)

    def row(self, point: FoundPoint) -> Row | None:
        """The point as a row; None where it has no name or no text."""
        name = self.point_name(point)
        texts = [_text(pair.text.read(point.payload)) for pair in self.pairs]
        if name is None or not any(text is not None for text in texts):
            return None
        return Row(
            dataset_id=self.spec.name,
            name=name,
            texts=texts,
            metadata=_values(self.metadata, point),
            updated_at=self.moment(point),
        )

    def moment(self, point: FoundPoint) -> datetime:
        """When the point last changed; `EPOCH` where it does not say."""
        if self.updated_at is None:
            return EPOCH
        return read_moment(self.updated_at.read(point.payload)) or EPOCH

    def admits(self, point: FoundPoint, name: str, moment: datetime) -> bool:
        """Whether the point passes the collection's own filter."""
        if self.where is None:
            return True
        return self.where.admits(_subject(name, _values(self.own, point), moment))


@attrs.frozen
class Passing:
    """The points of a collection that are the dataset's and pass a filter.

    ``conditions`` narrow them down in Qdrant; None where none passes. `row` judges.
    """

    collection: Collection
    tree: FilterTree | None
    conditions: Sequence[models.Condition] | None

    @classmethod
    def of(cls, collection: Collection, tree: FilterTree | None) -> Passing:
        """Those that pass ``tree``."""
        has_times = collection.updated_at is not None
        parts = [
            narrowed(collection.where, collection.own, collection.has_name, has_times=has_times),
            narrowed(tree, collection.metadata, collection.has_name, has_times=has_times),
        ]
        if False in parts:
            return cls(collection, tree, None)
        return cls(collection, tree, [each for each in parts if not isinstance(each, bool)])

    def filter(self, *more: models.Condition) -> models.Filter:
        """The filter to ask Qdrant with; only where ``conditions`` are."""
        return models.Filter(must=[*(self.conditions or ()), *more])

    @property
    def judges(self) -> bool:
        """Whether a point must be read to know whether it passes."""
        return self.tree is not None or self.collection.where is not None

    def admits(self, point: FoundPoint) -> bool:
        """Whether the point has a name and passes. It must have its `judged_fields`."""
        collection, name = self.collection, self.collection.point_name(point)
        if name is None:
            return False
        moment = collection.moment(point)
        if not collection.admits(point, name, moment):
            return False
        if self.tree is None:
            return True
        return self.tree.admits(_subject(name, _values(collection.metadata, point), moment))

    def row(self, point: FoundPoint) -> Row | None:
        """The point as a row, None where it does not pass. It must have the row's fields."""
        return self.collection.row(point) if self.admits(point) else None


def _values(fields: Mapping[str, Path], point: FoundPoint) -> Metadata:
    return {
        key: value
        for key, path in fields.items()
        if (value := read_value(path.read(point.payload))) is not None
    }


def _subject(name: str, metadata: Metadata, moment: datetime) -> Subject:
    return Subject(name=name, metadata=metadata, version=ROW_VERSION, updated_at=moment)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _ends(name: str, *, whole: bool) -> Iterator[str]:
    """What may be the id in ``document/id``: the last part, or also longer ones."""
    parts = name.split("/")
    for at in range(len(parts) - 1, 0, -1):
        yield "/".join(parts[at:])
        if whole:
            return


def load_collection(reader: PointReader, spec: TableSpec, width: int | None) -> Collection:
    """What Qdrant says of the collection; ``width`` is the embedder's, None without one.

    Raises:
        NotFoundError: there is no such collection.
        ValidationError: a vector is missing, or the name of a field is wrong.
        ModelMismatchError: a vector is of another width than the embedder's.
        StoreError: Qdrant does not answer.
    """
    name = ".".join(spec.path)
    layout = reader.layout(name)
    if layout is None:
        raise NotFoundError(
            f"there is no collection {name!r} in Qdrant at {reader.where}: check its name, or an "
            "alias of it, and what the key may read"
        )
    where = parse_filter(spec.where)
    own = {
        each.field: Path(each.field)
        for each in conditions_of(where)
        if not each.field.startswith("$")
    }
    return Collection(
        spec=spec,
        name=name,
        layout=layout,
        id=None if spec.id == POINT_ID else Path(spec.id),
        document=None if spec.document is None else Path(spec.document),
        pairs=_pairs(spec, name, layout, width),
        metadata={key: Path(key) for key in spec.metadata},
        updated_at=None if spec.updated_at is None else Path(spec.updated_at),
        where=where,
        own=own,
    )


def _pairs(spec: TableSpec, name: str, layout: Layout, width: int | None) -> list[Pair]:
    wanted = [pair.vector for pair in spec.columns]
    if width is None:
        wanted = [None] * len(wanted)
    elif not any(each is not None for each in wanted):
        # None is named: it is the only one.
        wanted[0] = _only(name, layout)
    found = []
    for index, (pair, vector) in enumerate(zip(spec.columns, wanted, strict=True)):
        text = Path(pair.text)
        space = None if vector is None else _space(name, layout, vector, width)
        indexed = layout.indexes.get(text.key) == "text"
        found.append(Pair(index=index, text=text, vector=space, indexed=indexed))
    return found


def _only(name: str, layout: Layout) -> str:
    if len(layout.vectors) == 1:
        return next(iter(layout.vectors))
    if not layout.vectors:
        raise ValidationError(
            f"the collection {name!r} has no dense vectors: with embedder = 'none' it is searched "
            "by keyword"
        )
    raise ValidationError(
        f"the collection {name!r} has several vectors: name one of "
        f"{', '.join(map(repr, layout.vectors))} as vector"
    )


def _space(name: str, layout: Layout, vector: str, width: int | None) -> VectorSpace:
    space = layout.vectors.get(vector)
    if space is None:
        there = ", ".join(map(repr, layout.vectors)) or "no dense vectors"
        raise ValidationError(
            f"the collection {name!r} has no dense vector {vector!r}: it has {there}"
        )
    if space.dimension != width:
        raise ModelMismatchError(
            f"the vectors {vector!r} of the collection {name!r} have {space.dimension} numbers, "
            f"but the embedder of the pipeline makes {width}: set embedder to the model that "
            "filled the collection",
            stored=str(space.dimension),
            configured=str(width),
        )
    return space


def findings(collection: Collection) -> Iterator[Finding]:
    """The findings about a collection; no point is read."""
    if collection.layout.points < MANY:
        return
    named = collection.spec.name
    finding = partial(Finding, place=f"collection {collection.name}", dataset_id=named)
    for pair in collection.pairs:
        if not pair.indexed:
            yield finding(
                check="tables.text-search",
                detail=f"no text index on the field {pair.text.key!r}",
                why=(
                    "each keyword search reads every text"
                    if pair.vector is None
                    else "keywords are looked for among the nearest vectors only"
                ),
                remedy="have a payload index of the type text made on it",
            )
    paths = [collection.id, *collection.own.values()]
    for key in dict.fromkeys(path.key for path in paths if path is not None):
        if key not in collection.layout.indexes:
            yield finding(
                check="tables.payload-index",
                detail=f"no payload index on the field {key!r}",
                why="points are looked for by it one by one",
                remedy="have a payload index of the type of its values made on it",
            )
