"""The conformance kit can fail: each store here breaks one sentence, and a test must see it."""

from __future__ import annotations

import inspect
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import attrs
import pytest
from hypothesis import Phase, settings

from json_store import JsonStore
from support.json_files import full_disk
from triptych.contracts import Capabilities, rules
from triptych.contracts.defaults import Repositories
from triptych.derivation.rebuild import RebuildRunner
from triptych.derivation.writer import Writer
from triptych.records import (
    HEADING,
    NO_CHUNK,
    Candidate,
    Condition,
    Filter,
    Finding,
    RebuildReport,
    all_of,
    conditions_of,
)
from triptych.service import Service
from triptych_backends.memory import MemoryStore
from triptych_backends.memory.truth import Truth
from triptych_backends.sqlite import SqliteStore
from triptych_testing import BackendConformance as Kit, Child, Harness, run_stateful
from triptych_testing.vectors import DENSE, SPARSE_LANE

Around = Callable[..., Any]


def finds_itself_wrong(check_integrity: Any, store: Any, dataset_ids: Any) -> Any:
    for dataset in dataset_ids:
        yield Finding(check="index.missing", place=dataset, detail="a chunk", why="it is not found")


def loses_crlf(put: Any, store: Any, dataset_id: str, document: Any) -> Any:
    return put(dataset_id, attrs.evolve(document, content=document.content.replace("\r\n", "\n")))


def ends_every_wait(
    put: Any, store: Any, dataset: str, space: Any, names: Any, vectors: Any
) -> Any:
    put(dataset, space, names, vectors)
    return sorted(set(names))


def takes_vectors_of_any_space(
    put: Any, store: Any, dataset: str, space: Any, names: Any, vectors: Any
) -> Any:
    config = store.chunks.config(dataset)
    for sig in () if config is None else (config.embed_sig, config.sparse_sig):
        if attrs.evolve(space, sig=sig).serves(config):
            space = attrs.evolve(space, sig=sig)
    return put(dataset, space, names, vectors)


def counts_nothing_that_waits(count: Any, store: Any, datasets: Any, space: Any) -> int:
    return 0


def filters_sparse_after_the_cut(search: Any, store: Any, query: Any) -> Any:
    if query.filter.is_trivial:
        return search(query)
    passing = {each.key for each in search(attrs.evolve(query, top_k=10_000))}
    return [each for each in search(attrs.evolve(query, filter=Filter())) if each.key in passing]


def rounds_sparse_scores(search: Any, store: Any, query: Any) -> Any:
    return [attrs.evolve(each, score=round(each.score, 2)) for each in search(query)]


def finds_sparse_in_any_encoder(search: Any, store: Any, query: Any) -> Any:
    configs = store.chunks.configs(query.dataset_ids)
    sig = next((config.sparse_sig for config in configs.values()), query.embed_sig)
    return search(attrs.evolve(query, embed_sig=sig))


def gives_vectors_by_place(
    put: Any, store: Any, dataset: str, space: Any, names: Any, vectors: Any
) -> Any:
    digests = [
        chunk.sig.input_sig for name in names for chunk in store.chunks.iter_chunks(dataset, name)
    ]
    by_place = dict(zip(digests, vectors.values(), strict=False))
    return put(dataset, space, names, {**vectors, **by_place})


def forgets_what_waits(
    waiting: Any, store: Any, dataset: str, space: Any, names: Any = None
) -> Any:
    return list(waiting(dataset, space, names))[:1]


def reuses_versions(delete: Any, store: Any, dataset_id: str, name: str, **only: Any) -> Any:
    done = delete(dataset_id, name, **only)
    store._truth.write(dataset_id).floor = 0
    return done


def ignores_if_version(put: Any, store: Any, dataset_id: str, document: Any) -> Any:
    return put(dataset_id, attrs.evolve(document, if_version=None))


def counts_equal_puts(put: Any, store: Any, dataset_id: str, document: Any) -> Any:
    old = store.documents.get(dataset_id, document.name)
    stored = put(dataset_id, document)
    if stored == old:
        stored = attrs.evolve(stored, version=stored.version + 1)
        store._truth.store_document(stored)
    return stored


def hands_out_its_own(get: Any, store: Any, dataset_id: str, name: str) -> Any:
    stored = store._truth.read(dataset_id).documents.get(name)
    return stored.document if stored else None


def races_for_versions(put: Any, store: Any, dataset_id: str, document: Any) -> Any:
    version = store._truth.read(dataset_id).version(document.name)
    time.sleep(0.002)  # long enough for every thread to read the same version
    stored = put(dataset_id, document)
    stored = attrs.evolve(stored, version=version + 1)
    store._truth.store_document(stored)
    return stored


def forgets_what_was_deleted(deleted_version: Any, store: Any, *given: Any) -> Any:
    return 0


def keeps_nothing(versions: Any, store: Any, dataset_id: str, name: str) -> Any:
    return versions(dataset_id, name)[:1]


def keeps_all(put: Any, store: Any, dataset_id: str, document: Any) -> Any:
    store._truth.history = 1000
    return put(dataset_id, document)


def keeps_texts_alone(put: Any, store: Any, dataset_id: str, document: Any) -> Any:
    dataset = store._truth.read(dataset_id)
    old, replaced = dataset.documents.get(document.name), dataset.replaced.get(document.name)
    stored = put(dataset_id, document)
    if old and old.document.content == document.content and replaced:
        dataset.replaced[document.name] = replaced
    return stored


def keeps_equal_puts(put: Any, store: Any, dataset_id: str, document: Any) -> Any:
    dataset = store._truth.read(dataset_id)
    old = dataset.documents.get(document.name)
    stored = put(dataset_id, document)
    if old and old.document.version == stored.version:
        dataset.replaced[document.name] = (old, *dataset.replaced.get(document.name, ()))
    return stored


def keeps_the_last_of_a_batch(put_many: Any, store: Any, dataset_id: str, documents: Any) -> Any:
    before = dict(store._truth.read(dataset_id).documents)
    outcomes = put_many(dataset_id, documents)
    dataset = store._truth.read(dataset_id)
    for name in {document.name for document in documents}:
        dataset.replaced[name] = (before[name],) if name in before else ()
    return outcomes


def remembers_the_deleted(delete: Any, store: Any, dataset_id: str, name: str, **only: Any) -> Any:
    replaced = store._truth.read(dataset_id).replaced.get(name, ())
    done = delete(dataset_id, name, **only)
    store._truth.write(dataset_id).replaced[name] = replaced
    return done


def remembers_deleted_datasets(delete_dataset: Any, store: Any, dataset_id: str) -> Any:
    replaced = dict(store._truth.read(dataset_id).replaced)
    done = delete_dataset(dataset_id)
    store._truth.write(dataset_id).replaced.update(replaced)
    return done


def deletes_in_three_steps(delete: Any, store: Any, dataset_id: str, name: str, **only: Any) -> Any:
    """As it once was: what another puts after the first step, the others remove."""
    with store._truth as truth:
        dataset = truth.write(dataset_id)
        stored = dataset.documents.pop(name, None)
        if stored is not None:
            dataset.floor = max(dataset.floor, stored.document.version)
            del truth.places[stored.key]
    time.sleep(0.002)
    store.chunks.delete_by_doc(dataset_id, name)
    store.layers.delete_by_doc(dataset_id, name)
    return stored is not None


def deletes_documents_alone(
    delete: Any, store: Any, dataset_id: str, name: str, **only: Any
) -> Any:
    sets = dict(store._truth.read(dataset_id).sets)
    layers = dict(store._truth.read(dataset_id).layers)
    done = delete(dataset_id, name, **only)
    if done:
        dataset = store._truth.read(dataset_id)
        dataset.sets.update(sets)
        dataset.layers.update(layers)
    return done


def deletes_datasets_in_three_steps(delete_dataset: Any, store: Any, dataset_id: str) -> Any:
    with store._truth as truth:
        dataset = truth.write(dataset_id)
        existed, dataset.exists = dataset.exists, False
        for name in list(dataset.documents):
            truth.remove(dataset_id, name)
    time.sleep(0.002)
    store.chunks.delete_by_dataset(dataset_id)
    store.layers.delete_by_dataset(dataset_id)
    return existed


def takes_orphans_blindly(delete_orphans: Any, store: Any, dataset_id: str, names: Any) -> Any:
    with store._truth as truth:
        return [name for name in sorted(names) if truth.remove(dataset_id, name)]


def empties_metadata(put: Any, store: Any, dataset_id: str, document: Any) -> Any:
    return put(dataset_id, attrs.evolve(document, metadata=document.metadata or {}))


def empties_metadata_of_many(put_many: Any, store: Any, dataset_id: str, documents: Any) -> Any:
    stated = [attrs.evolve(each, metadata=each.metadata or {}) for each in documents]
    return put_many(dataset_id, stated)


def creates_nothing(create_dataset: Any, store: Any, dataset_id: str) -> Any:
    return dataset_id not in store.documents.list_datasets()


def deletes_any_version(delete: Any, store: Any, dataset_id: str, name: str, **only: Any) -> Any:
    return delete(dataset_id, name)


def reads_any_version(
    get_version: Any, store: Any, dataset_id: str, name: str, version: int
) -> Any:
    return get_version(dataset_id, name, version) or store.documents.get(dataset_id, name)


def lists_like_a_dictionary(listed: Any, store: Any, dataset_id: str, **page: Any) -> Any:
    return sorted(listed(dataset_id, **page), key=lambda info: info.name.casefold())


def replaces_in_two_steps(
    replace: Any, store: Any, dataset_id: str, name: str, chunks: Any, *, sig: Any
) -> Any:
    replace(dataset_id, name, chunks[:1], sig=sig)
    time.sleep(0.002)
    return replace(dataset_id, name, chunks, sig=sig)


def replaces_blindly(
    replace: Any, store: Any, dataset_id: str, name: str, chunks: Any, *, sig: Any
) -> Any:
    if name in store._truth.read(dataset_id).documents:
        store._truth.store_set(dataset_id, name, chunks, sig)
        return True
    return False


def drops_empty_sets(
    replace: Any, store: Any, dataset_id: str, name: str, chunks: Any, *, sig: Any
) -> Any:
    done = replace(dataset_id, name, chunks, sig=sig)
    if done and not chunks:
        store._truth.remove_set(dataset_id, name)
    return done


def names_only_what_has_chunks(doc_names: Any, store: Any, dataset_id: str) -> Any:
    sets = store._truth.read(dataset_id).sets
    return [name for name in doc_names(dataset_id) if sets[name].chunks]


def restamps_anything(
    update_source_version: Any, store: Any, dataset_id: str, name: str, sig: Any
) -> Any:
    if name in store._truth.read(dataset_id).sets:
        store._truth.update_source_version(dataset_id, name, sig)
        return True
    return False


def keeps_vectors(delete: Any, store: Any, dataset_id: str, name: str) -> Any:
    vectors = store._truth.read(dataset_id).copy().vectors
    delete(dataset_id, name)
    store._truth.read(dataset_id).vectors.update(vectors)


def filters_after_the_cut(search: Any, store: Any, query: Any) -> Any:
    found = search(attrs.evolve(query, filter=Filter()))
    passing = {
        (candidate.dataset_id, candidate.doc_name)
        for candidate in search(attrs.evolve(query, top_k=1000))
    }
    return [one for one in found if (one.dataset_id, one.doc_name) in passing]


def filters_the_statistics(search: Any, store: Any, query: Any) -> Any:
    if all(each.operator != "starts" for each in conditions_of(query.filter.tree)):
        return search(query)
    return [attrs.evolve(one, score=one.score + 0.001) for one in search(query)]


def breaks_ties_by_dataset(search: Any, store: Any, query: Any) -> Any:
    found = search(attrs.evolve(query, top_k=1000))
    found = sorted(found, key=lambda one: (-one.score, one.dataset_id, one.doc_name, one.index))
    return found[: query.top_k]


def keeps_statistics_apart(search: Any, store: Any, query: Any) -> Any:
    found = [
        candidate
        for dataset_id in query.dataset_ids
        for candidate in search(attrs.evolve(query, dataset_ids=(dataset_id,)))
    ]
    found.sort(key=lambda one: (-one.score, one.doc_name, one.index, one.dataset_id))
    return found[: query.top_k]


def compares_spaces(search: Any, store: Any, query: Any) -> Any:
    config = store.chunks.config(query.dataset_ids[0])
    return search(attrs.evolve(query, embed_sig=config.embed_sig if config else ""))


def answers_late(search: Any, store: Any, query: Any) -> Any:
    kept = store.__dict__.setdefault("kept", {})
    answer = search(query)
    late = kept.get(query.mode, answer)
    kept[query.mode] = answer
    return late


def takes_documents_from_the_top_chunks(search: Any, store: Any, query: Any) -> Any:
    near = {candidate.doc_name for candidate in store.chunks.search(query)}
    return [candidate for candidate in search(query) if candidate.doc_name in near]


def fetches_what_was_replaced(fetch: Any, store: Any, keys: Any) -> Any:
    kept = store.__dict__.setdefault("fetched", {})
    kept.update(fetch(keys))
    return {key: kept[key] for key in keys if key in kept}


def stores_any_layer(put: Any, store: Any, layer: Any) -> Any:
    store._truth.store_layer(layer)
    return True


def checks_no_width(
    replace: Any, store: Any, dataset_id: str, name: str, chunks: Any, *, sig: Any
) -> Any:
    dataset = store._truth.read(dataset_id)
    if rules.can_replace(dataset.config, dataset.version(name), sig):
        store._truth.store_set(dataset_id, name, chunks, sig)
        return True
    return False


def checks_width_first(
    replace: Any, store: Any, dataset_id: str, name: str, chunks: Any, *, sig: Any
) -> Any:
    store._truth.check_widths(dataset_id, [(sig.embed_sig, chunk.vector) for chunk in chunks])
    return replace(dataset_id, name, chunks, sig=sig)


def replaces_one_by_one(replace_many: Any, store: Any, dataset_id: str, sets: Any) -> Any:
    return [replace_many(dataset_id, [each])[0] for each in sets]


def checks_no_width_of_layers(put: Any, store: Any, layer: Any) -> Any:
    version = store._truth.read(layer.dataset_id).version(layer.doc_name)
    if rules.may_put_layer(layer, version):
        store._truth.store_layer(layer)
        return True
    return False


def lends_headings(search: Any, store: Any, query: Any) -> Any:
    tree = query.filter.tree
    headed = isinstance(tree, Condition) and tree.field == HEADING
    wanted = {text for _, text in tree.values} if headed else None
    where = attrs.evolve(query.filter, tree=None) if headed else query.filter
    found = []
    for one in search(attrs.evolve(query, filter=where)):
        chunks = list(store.chunks.iter_chunks(one.dataset_id, one.doc_name))
        every = [heading for chunk in chunks for heading in chunk.heading_path]
        own = chunks[one.index].heading_path or every
        if wanted is None or any(heading.casefold() in wanted for heading in own):
            found.append(one)
    return found


def takes_no_headings(search: Any, store: Any, query: Any) -> Any:
    tree = query.filter.tree
    if isinstance(tree, Condition) and tree.field == HEADING:
        query = attrs.evolve(query, filter=attrs.evolve(query.filter, tree=None))
    return search(query)


def compares_layers_of_any_space(search: Any, store: Any, query: Any) -> Any:
    if query.vector is None:
        return search(query)
    layers = {
        (dataset_id, layer.doc_name): store._truth.read(dataset_id).layers[
            layer.doc_name, layer.layer
        ]
        for dataset_id in query.dataset_ids
        for layer in store.layers.list(dataset_id, layer=query.layer)
    }
    found = [
        Candidate(
            dataset_id=dataset_id,
            doc_name=name,
            index=NO_CHUNK,
            key=stored.key,
            score=round(float(stored.layer.vector @ query.vector), 6),
            source="vector",
        )
        for (dataset_id, name), stored in layers.items()
        if stored.layer.sig.embed_sig == query.embed_sig and stored.layer.vector is not None
    ]
    found.sort(key=lambda one: (-one.score, one.doc_name, one.dataset_id))
    return found[: query.top_k]


def restamps_by_replacing(
    update_source_version: Any, store: Any, dataset_id: str, name: str, sig: Any
) -> Any:
    chunks = list(store.chunks.iter_chunks(dataset_id, name, vectors=True))
    done = update_source_version(dataset_id, name, sig)
    return store.chunks.replace(dataset_id, name, chunks, sig=sig) if done else done


def iterates_lazily(iter_chunks: Any, store: Any, *given: Any, **named: Any) -> Iterator[Any]:
    yield from iter_chunks(*given, **named)


def moves_no_head(change_head: Any, store: Any) -> str:
    return "always the same"


def moves_the_head_with_each_look(change_head: Any, store: Any) -> str:
    return uuid.uuid4().hex


def hides_deletions(original: Any, store: MemoryStore, *given: Any, **named: Any) -> Any:
    page = original(*given, **named)
    left = tuple(each for each in page.changes if each.kind != "deleted")
    return attrs.evolve(page, changes=left)


def takes_any_cursor(original: Any, store: MemoryStore, *given: Any, **named: Any) -> Any:
    return attrs.evolve(original(*given, **named), reset=False)


def forgets_where_a_run_began(original: Any, store: MemoryStore, since: Any, **named: Any) -> Any:
    return original(since and attrs.evolve(since, base=None, until=None), **named)


def calls_everything_new(original: Any, store: MemoryStore, *given: Any, **named: Any) -> Any:
    page = original(*given, **named)
    new = tuple(
        attrs.evolve(each, kind="added") if each.kind == "updated" else each
        for each in page.changes
    )
    return attrs.evolve(page, changes=new)


def stands_still(original: Any, store: MemoryStore) -> Any:
    return "here"


def counts_what_it_does_not_show(search: Any, store: Any, query: Any) -> Any:
    asked = query.filter
    narrow = Filter(tree=all_of(asked.tree, asked.within), fresh=asked.fresh)
    return search(attrs.evolve(query, filter=narrow))


def shows_what_it_does_not_count(search: Any, store: Any, query: Any) -> Any:
    return search(attrs.evolve(query, filter=attrs.evolve(query.filter, within=None)))


CASES: list[tuple[str, Around, Any, dict[str, Any]]] = [
    (
        "chunks.search",
        counts_what_it_does_not_show,
        Kit.test_a_filter_within_a_collection_leaves_its_statistics,
        {},
    ),
    (
        "chunks.search",
        shows_what_it_does_not_count,
        Kit.test_several_datasets_are_one_collection,
        {},
    ),
    (
        "chunks.doc_names",
        names_only_what_has_chunks,
        Kit.test_names_with_a_set_are_told_in_order,
        {},
    ),
    (
        ".change_head",
        moves_no_head,
        Kit.test_a_write_moves_the_end_of_the_log,
        {},
    ),
    (
        ".change_head",
        moves_the_head_with_each_look,
        Kit.test_what_changes_nothing_leaves_it,
        {},
    ),
    (
        "documents.put",
        loses_crlf,
        Kit.test_content_comes_back_code_point_for_code_point,
        {},
    ),
    (
        "documents.delete",
        reuses_versions,
        Kit.test_document_made_again_starts_above_every_deleted_version,
        {},
    ),
    (
        "documents.put",
        ignores_if_version,
        Kit.test_put_with_another_version_is_refused,
        {"content": "two"},
    ),
    ("documents.put", counts_equal_puts, Kit.test_identical_put_changes_nothing, {}),
    (
        "documents.get",
        hands_out_its_own,
        Kit.test_what_is_stored_is_safe_from_the_callers_hands,
        {},
    ),
    (
        "documents.put",
        races_for_versions,
        Kit.test_versions_are_unique_under_threads,
        {},
    ),
    (
        "documents.deleted_version",
        forgets_what_was_deleted,
        Kit.test_the_greatest_deleted_version_is_known,
        {},
    ),
    (
        "documents.versions",
        keeps_nothing,
        Kit.test_a_change_keeps_the_version_it_replaces,
        {},
    ),
    (
        "documents.put",
        keeps_texts_alone,
        Kit.test_a_change_keeps_the_version_it_replaces,
        {},
    ),
    ("documents.put", keeps_all, Kit.test_the_newest_old_versions_are_kept, {}),
    ("documents.put", keeps_equal_puts, Kit.test_an_identical_put_keeps_nothing, {}),
    (
        "documents.put_many",
        keeps_the_last_of_a_batch,
        Kit.test_put_many_keeps_every_version,
        {},
    ),
    (
        "documents.delete",
        remembers_the_deleted,
        Kit.test_a_deleted_document_leaves_no_versions,
        {},
    ),
    (
        "documents.delete_dataset",
        remembers_deleted_datasets,
        Kit.test_a_deleted_dataset_leaves_no_versions,
        {},
    ),
    (
        "documents.get_version",
        reads_any_version,
        Kit.test_absence_of_versions_is_no_error,
        {},
    ),
    (
        "documents.list",
        lists_like_a_dictionary,
        Kit.test_list_is_paged_in_code_point_order,
        {},
    ),
    (
        "chunks.replace",
        replaces_in_two_steps,
        Kit.test_readers_see_the_old_set_or_the_new,
        {},
    ),
    (
        "chunks.replace",
        replaces_blindly,
        Kit.test_replace_of_an_older_version_is_refused,
        {},
    ),
    (
        "chunks.put_vectors",
        gives_vectors_by_place,
        Kit.test_vectors_never_come_to_another_text,
        {"lane": DENSE},
    ),
    (
        "chunks.put_vectors",
        ends_every_wait,
        Kit.test_set_ends_its_waiting_only_whole,
        {"lane": DENSE},
    ),
    (
        "chunks.put_vectors",
        takes_vectors_of_any_space,
        Kit.test_vectors_of_another_space_than_the_datasets_are_refused,
        {"lane": DENSE},
    ),
    (
        "chunks.waiting",
        forgets_what_waits,
        Kit.test_waiting_names_what_lacks_vectors,
        {"lane": DENSE},
    ),
    (
        "chunks.put_vectors",
        ends_every_wait,
        Kit.test_vectors_are_kept_one_by_one_and_searched_when_all_are_there,
        {"lane": SPARSE_LANE},
    ),
    (
        "chunks.put_vectors",
        takes_vectors_of_any_space,
        Kit.test_vectors_of_another_space_than_the_datasets_are_refused,
        {"lane": SPARSE_LANE},
    ),
    (
        "chunks.count_waiting",
        counts_nothing_that_waits,
        Kit.test_another_encoder_makes_all_sets_wait_and_takes_over_one_by_one,
        {},
    ),
    (
        "chunks.search",
        filters_sparse_after_the_cut,
        Kit.test_filter_acts_before_the_cut,
        {},
    ),
    (
        "chunks.search",
        rounds_sparse_scores,
        Kit.test_lane_is_brute_force_over_any_edits,
        {},
    ),
    (
        "chunks.search",
        finds_sparse_in_any_encoder,
        Kit.test_another_encoder_makes_all_sets_wait_and_takes_over_one_by_one,
        {},
    ),
    ("chunks.replace", drops_empty_sets, Kit.test_set_of_no_chunks_is_a_set, {}),
    (
        "chunks.update_source_version",
        restamps_anything,
        Kit.test_update_source_version_of_anything_else_is_refused,
        {},
    ),
    (
        "chunks.delete_by_doc",
        keeps_vectors,
        Kit.test_vectors_live_as_long_as_a_chunk_uses_them,
        {},
    ),
    (
        "chunks.search",
        filters_after_the_cut,
        Kit.test_a_rare_match_is_found_among_many,
        {},
    ),
    (
        "chunks.search",
        filters_the_statistics,
        Kit.test_filters_act_before_the_cut,
        {},
    ),
    (
        "chunks.search",
        breaks_ties_by_dataset,
        Kit.test_ties_come_by_name_index_and_dataset,
        {},
    ),
    (
        "chunks.search",
        keeps_statistics_apart,
        Kit.test_keywords_are_scored_by_lucenes_bm25_over_pooled_statistics,
        {},
    ),
    (
        "chunks.search",
        compares_spaces,
        Kit.test_vectors_of_another_space_are_never_compared,
        {},
    ),
    (
        "chunks.search",
        answers_late,
        Kit.test_searches_see_every_write_that_was_answered,
        {},
    ),
    (
        "chunks.search_docs_by_vector",
        takes_documents_from_the_top_chunks,
        Kit.test_documents_are_scored_by_the_nearest_of_all_their_chunks,
        {},
    ),
    (
        "chunks.fetch",
        fetches_what_was_replaced,
        Kit.test_fetch_leaves_out_what_was_replaced_or_deleted,
        {},
    ),
    (
        "chunks.replace",
        checks_no_width,
        Kit.test_vectors_of_another_width_are_refused,
        {},
    ),
    (
        "chunks.replace",
        checks_width_first,
        Kit.test_width_of_what_is_refused_does_not_count,
        {},
    ),
    (
        "chunks.replace_many",
        replaces_one_by_one,
        Kit.test_replace_many_with_another_width_stores_nothing,
        {},
    ),
    (
        "layers.put",
        checks_no_width_of_layers,
        Kit.test_vectors_of_layers_of_another_width_are_refused,
        {},
    ),
    (
        "chunks.search",
        lends_headings,
        Kit.test_a_chunk_passes_by_its_own_headings_alone,
        {},
    ),
    (
        "layers.search",
        takes_no_headings,
        Kit.test_layers_are_filtered_by_all_headings_of_their_documents,
        {},
    ),
    (
        "layers.search",
        compares_layers_of_any_space,
        Kit.test_vectors_of_layers_of_another_space_are_never_compared,
        {},
    ),
    (
        "chunks.update_source_version",
        restamps_by_replacing,
        Kit.test_keys_stay_over_a_new_source_version,
        {},
    ),
    (
        "chunks.iter_chunks",
        iterates_lazily,
        Kit.test_closed_store_refuses_every_call,
        {},
    ),
    (
        "layers.put",
        stores_any_layer,
        Kit.test_layer_of_another_version_is_refused,
        {},
    ),
    (
        "documents.put",
        empties_metadata,
        Kit.test_a_put_without_metadata_keeps_what_is_there,
        {},
    ),
    (
        "documents.put_many",
        empties_metadata_of_many,
        Kit.test_many_puts_without_metadata_keep_what_those_before_them_left,
        {},
    ),
    (
        "documents.create_dataset",
        creates_nothing,
        Kit.test_a_dataset_can_be_made_without_a_document,
        {},
    ),
    (
        ".read_changes",
        hides_deletions,
        Kit.test_the_last_change_of_each_document_comes_once,
        {},
    ),
    (
        ".read_changes",
        takes_any_cursor,
        Kit.test_a_cursor_of_another_log_is_noticed,
        {},
    ),
    (
        ".read_changes",
        forgets_where_a_run_began,
        Kit.test_pages_of_any_size_say_the_same,
        {},
    ),
    (
        ".read_changes",
        calls_everything_new,
        Kit.test_a_document_that_is_put_again_was_there,
        {},
    ),
    (".change_head", stands_still, Kit.test_the_head_differs_after_each_change, {}),
    (
        "documents.delete_orphans",
        takes_orphans_blindly,
        Kit.test_orphans_are_removed_while_they_have_no_source,
        {},
    ),
    (
        "documents.delete",
        deletes_documents_alone,
        Kit.test_deleted_document_leaves_nothing,
        {},
    ),
    (
        "documents.delete",
        deletes_any_version,
        Kit.test_a_document_is_deleted_at_the_version_that_is_named,
        {},
    ),
    (
        "documents.delete",
        deletes_in_three_steps,
        Kit.test_threads_that_put_and_delete_leave_documents_whole_or_gone,
        {"whole": False},
    ),
    (
        "documents.delete_dataset",
        deletes_datasets_in_three_steps,
        Kit.test_threads_that_put_and_delete_leave_documents_whole_or_gone,
        {"whole": True},
    ),
]
"""Method to break, how, the test that must see it, and that test's parameters."""


def broken(place: str, around: Around) -> MemoryStore:
    """A store in which ``around`` stands in front of one method."""
    store = MemoryStore()
    part, _, method = place.partition(".")
    repository = getattr(store, part) if part else store
    original = getattr(repository, method)
    setattr(repository, method, lambda *given, **named: around(original, store, *given, **named))
    return store


def run(test: Any, store: MemoryStore, parameters: dict[str, Any]) -> None:
    """One test of the kit on this store."""
    given = {
        "store": store,
        "harness": Harness(open=lambda: store),
        "repo": store.chunks,
        **parameters,
    }
    taken = inspect.signature(test).parameters
    test(Kit(), **{name: value for name, value in given.items() if name in taken})


@pytest.mark.parametrize(
    ("place", "around", "test", "parameters"), CASES, ids=[case[1].__name__ for case in CASES]
)
def test_kit_sees_a_store_that(
    place: str, around: Around, test: Any, parameters: dict[str, Any]
) -> None:
    run(test, MemoryStore(), parameters)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(test, broken(place, around), parameters)


CLAIMS = Kit.test_the_store_has_every_method_that_it_says_it_has
DOES = Kit.test_the_store_says_everything_that_it_can_do


@pytest.mark.parametrize("name", [each.name for each in attrs.fields(Capabilities)])
def test_kit_sees_what_a_store_can_do_and_does_not_say(name: str) -> None:
    class Silent(MemoryStore):
        @property
        def capabilities(self) -> Capabilities:
            return attrs.evolve(super().capabilities, **{name: None})

    with MemoryStore() as whole, Silent() as silent:
        DOES(Kit(), whole)
        with pytest.raises(AssertionError, match=name):
            DOES(Kit(), silent)


@pytest.mark.parametrize("name", [each.name for each in attrs.fields(Capabilities)])
def test_kit_sees_what_a_store_says_and_cannot_do(name: str) -> None:
    class Boasting(MemoryStore):
        @property
        def capabilities(self) -> Capabilities:
            return attrs.evolve(super().capabilities, **{name: object()})

    with MemoryStore() as whole, Boasting() as boasting:
        CLAIMS(Kit(), whole)
        with pytest.raises(AssertionError, match=name):
            CLAIMS(Kit(), boasting)


@pytest.mark.parametrize("kinds", [("dense",), ("dense", "sparse")])
def test_kit_sees_a_store_that_says_wrongly_which_vectors_it_keeps(kinds: tuple[str, ...]) -> None:
    check = Kit.test_the_store_keeps_the_kinds_of_vectors_that_it_says_it_keeps

    class Forgetful(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.chunks.kinds = kinds  # type: ignore[assignment]  # what it says
            if "sparse" in kinds:
                self.chunks.known_vectors = lambda *args: {}  # type: ignore[method-assign]  # what it does

    with MemoryStore() as whole, Forgetful() as forgetful:
        check(Kit(), whole)
        with pytest.raises(AssertionError, match="kinds"):
            check(Kit(), forgetful)


def rows_of(test: Any, argument: str) -> dict[str, Any]:
    """What the kit gives an argument of this test, by name."""
    marks = (mark for mark in test.pytestmark if mark.name == "parametrize")
    (mark,) = [mark for mark in marks if mark.args[0] == argument]
    return dict(zip(mark.kwargs["ids"], mark.args[1], strict=True))


DELETES = rows_of(Kit.test_a_put_between_the_steps_of_a_delete_is_whole_or_gone, "act")
PUTS = rows_of(Kit.test_a_delete_between_the_steps_of_a_put_leaves_it_whole_or_gone, "act")
REBUILDS = rows_of(Kit.test_what_is_put_while_orphans_are_removed_stays, "scope")


def delete_in_steps(kb: Service, dataset_id: str, name: str) -> bool:
    existed = kb.documents.delete(dataset_id, name)
    kb.chunks.delete_by_doc(dataset_id, name)
    kb.layer_repo.delete_by_doc(dataset_id, name)
    return existed


def drop_dataset_in_steps(kb: Service, dataset_id: str) -> tuple[bool, int]:
    existed = kb.documents.delete_dataset(dataset_id)
    kb.chunks.delete_by_dataset(dataset_id)
    kb.layer_repo.delete_by_dataset(dataset_id)
    return existed, 0


def remove_orphans_in_steps(runner: RebuildRunner, dataset_id: str, names: Any) -> RebuildReport:
    for name in names:
        runner._chunks.delete_by_doc(dataset_id, name)
        runner._layers.delete_by_doc(dataset_id, name)
    return RebuildReport(removed=len(names))


@pytest.mark.parametrize("name", DELETES)
def test_kit_sees_a_service_that_deletes_in_steps(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "delete_document", delete_in_steps)
    monkeypatch.setattr(Service, "_drop_dataset", drop_dataset_in_steps)
    with pytest.raises(AssertionError):
        Kit().test_a_put_between_the_steps_of_a_delete_is_whole_or_gone(
            MemoryStore(), DELETES[name]
        )


@pytest.mark.parametrize("name", REBUILDS)
def test_kit_sees_a_rebuild_that_removes_orphans_in_steps(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RebuildRunner, "_remove_orphans", remove_orphans_in_steps)
    with pytest.raises(AssertionError):
        Kit().test_what_is_put_while_orphans_are_removed_stays(MemoryStore(), REBUILDS[name])


def test_kit_sees_a_put_that_takes_a_refusal_for_anothers_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swap_in(writer: Any, dataset_id: str, made: Any) -> list[Any]:
        writer._replace(dataset_id, made)
        return []  # none was lost

    monkeypatch.setattr(Writer, "_swap_in", swap_in)
    with pytest.raises(AssertionError):
        Kit().test_a_delete_between_the_steps_of_a_put_leaves_it_whole_or_gone(
            MemoryStore(), PUTS["put_document"], "delete_dataset"
        )


class AcknowledgesEarly:
    """Layers that are written eight at a time: a crash loses what was promised."""

    def __init__(self, layers: Any) -> None:
        self._layers = layers
        self._waiting: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layers, name)

    def put(self, layer: Any) -> bool:
        self._waiting.append(layer)
        if len(self._waiting) == 8:
            for waiting in self._waiting:
                self._layers.put(waiting)
            self._waiting.clear()
        return True


def open_early(path: str) -> Any:
    """A SQLite store with such layers, for the process that is killed."""
    store = SqliteStore.open(path)
    return Repositories.over(store, layers=AcknowledgesEarly(store.layers), close=store.close)


def test_kill_shows_what_was_acknowledged_too_early(tmp_path: Path) -> None:
    def killed(opener: str, seed: int) -> None:
        path = str(tmp_path / f"{opener.partition(':')[2]} {seed}.db")
        child = Child(opener=opener, argument=path)
        harness = Harness(open=lambda: SqliteStore.open(path), persistent=True, child=child)
        Kit().test_killed_process_loses_nothing_it_acknowledged(harness, seed)

    killed("triptych_backends.sqlite:SqliteStore.open", 2)
    with pytest.raises(AssertionError):
        killed(f"{__name__}:open_early", 2)


class NothingUndone(Truth):
    """Saves a change, and keeps it if that fails."""

    @contextmanager
    def writing(self) -> Iterator[Self]:
        with self:
            yield self
            assert self._save is not None
            states = {name: dataset.state() for name, dataset in self.datasets.items()}
            self._save(states, self.settings)


class ChangesMemoryFirst(JsonStore):
    """Takes a change over before it is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._truth.__class__ = NothingUndone


def test_kit_sees_memory_that_runs_ahead_of_the_file(tmp_path: Path) -> None:
    def written(kind: type[JsonStore]) -> None:
        path = tmp_path / f"{kind.__name__}.json"
        harness = Harness(open=lambda: kind(path), persistent=True, failing=full_disk)
        Kit().test_a_write_that_fails_changes_nothing(harness)

    written(JsonStore)
    with pytest.raises(AssertionError, match="contains 17 more items"):  # each kind of write
        written(ChangesMemoryFirst)


@pytest.fixture
def without_shrinking() -> Iterator[None]:
    before = settings.get_current_profile_name()
    settings.register_profile("find only", phases=(Phase.generate,), derandomize=True)
    settings.load_profile("find only")
    yield
    settings.load_profile(before)


@pytest.mark.usefixtures("without_shrinking")
@pytest.mark.parametrize(
    ("place", "around"),
    [
        ("documents.delete", reuses_versions),
        ("chunks.replace", replaces_blindly),
        ("chunks.replace", drops_empty_sets),
        ("chunks.update_source_version", restamps_anything),
        ("layers.put", stores_any_layer),
        ("documents.put", keeps_equal_puts),
        ("chunks.check_integrity", finds_itself_wrong),
    ],
)
def test_state_machine_sees_a_store_that(place: str, around: Around) -> None:
    with pytest.raises(AssertionError):
        run_stateful(Harness(open=lambda: broken(place, around)), examples=200)
