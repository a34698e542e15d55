"""The layers of a past moment."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from triptych import deadlines
from triptych.contracts import LayerRepo, Store
from triptych.derivation.deriver import Deriver
from triptych.derivation.folder_tree import is_folder
from triptych.derivation.layers import inputs_of
from triptych.records import DerivedLayer, Layer, Vector
from triptych.signatures import embedding_input_sig
from triptych.vectors.embedding import embed

_AT_ONCE = 64
_Key = tuple[str, Layer]


def fill_layers(
    layers: LayerRepo,
    scratch: Store,
    dataset_id: str,
    derivation: Deriver,
    *,
    vectors: bool,
) -> tuple[int, int]:
    """Give ``scratch`` those ``layers`` that fit its documents; how many do not, and how many
    texts were embedded.

    A layer of a document fits if it was made from the content that the document has in
    ``scratch``; one of a folder or a dataset if it was made from the abstracts that fit. They get
    their ``vectors`` if these are wanted.

    Raises:
        ProviderError: the embedder could not answer. What was filled before stays.
    """
    stored = layers.list(dataset_id)
    wanted = {(each.doc_name, each.layer): each for each in _of_documents(stored, scratch)}
    replace = functools.partial(_replace, scratch, dataset_id, derivation, vectors=vectors)
    embedded = replace(wanted, lambda name: not is_folder(name))
    # Folders follow from the deepest up: each is made from the abstracts below it.
    above = [each for each in stored if is_folder(each.doc_name)]
    names = {each.doc_name for each in scratch.layers.list(dataset_id) if is_folder(each.doc_name)}
    names.update(each.doc_name for each in above)
    for depth in sorted({name.count("/") for name in names}, reverse=True):
        inputs = inputs_of(scratch.layers, dataset_id)
        level: dict[_Key, DerivedLayer] = {}
        for each in above:
            if each.doc_name.count("/") != depth:
                continue
            below = scratch.documents.list(dataset_id, prefix=each.doc_name, limit=1)
            if below and inputs(each.doc_name, each.sig.input_sig):
                level[each.doc_name, each.layer] = each
        embedded += replace(level, functools.partial(_is_at, depth))
        wanted |= level
    return len(stored) - len(wanted), embedded


def _is_at(depth: int, name: str) -> bool:
    return is_folder(name) and name.count("/") == depth


def _of_documents(stored: Sequence[DerivedLayer], scratch: Store) -> Iterable[DerivedLayer]:
    for each in stored:
        if is_folder(each.doc_name):
            continue
        info = scratch.documents.get_info(each.dataset_id, each.doc_name)
        if info is not None and info.content_sha256 == each.sig.input_sig:
            yield attrs.evolve(each, sig=attrs.evolve(each.sig, source_version=info.version))


def _replace(
    scratch: Store,
    dataset_id: str,
    derivation: Deriver,
    wanted: Mapping[_Key, DerivedLayer],
    concerns: Callable[[str], bool],
    *,
    vectors: bool,
) -> int:
    """Make the layers of ``scratch`` under the names that this ``concerns`` those that are
    ``wanted``; how many texts were embedded."""
    space = derivation.models.embed_sig if vectors else ""
    have = {(each.doc_name, each.layer): each for each in scratch.layers.list(dataset_id)}
    gone = {key[0] for key in have if key not in wanted and concerns(key[0])}
    for name in sorted(gone):
        scratch.layers.delete_by_doc(dataset_id, name)
    new = [
        each
        for key, each in wanted.items()
        if key[0] in gone or not _is_same(have.get(key), each, space)
    ]
    embedded = 0
    for start in range(0, len(new), _AT_ONCE):
        deadlines.check("the search")
        some = new[start : start + _AT_ONCE]
        known, count = _vectors(some, derivation, dataset_id) if space else ({}, 0)
        embedded += count
        for each in some:
            vector = known.get(embedding_input_sig(each.content))
            sig = attrs.evolve(each.sig, embed_sig=space)
            scratch.layers.put(attrs.evolve(each, sig=sig, vector=vector))
    return embedded


def _is_same(have: DerivedLayer | None, wanted: DerivedLayer, space: str) -> bool:
    if have is None or have.content != wanted.content:
        return False
    embed_sig = space or have.sig.embed_sig  # vectors that are there stay
    return have.sig == attrs.evolve(wanted.sig, embed_sig=embed_sig)


def _vectors(
    layers: Sequence[DerivedLayer], derivation: Deriver, dataset_id: str
) -> tuple[Mapping[str, Vector], int]:
    """The vectors of the layers' texts, by digest, and how many had to be made."""
    texts = {
        embedding_input_sig(each.content): each.content
        for each in layers
        if each.content.strip() and derivation.models.coverage.admits(each.content)
    }
    known = dict(derivation.known_vectors(dataset_id, list(texts)))
    missing = [digest for digest in texts if digest not in known]
    embedder = derivation.models.embedder
    if missing and embedder is not None:
        rows = embed(embedder, [texts[each] for each in missing], kind="document")
        known |= zip(missing, rows, strict=True)
    return known, len(missing)
