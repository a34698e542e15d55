"""The methods of `KnowledgeBase` and its views as coroutines, with the same arguments and results.

Each is `Final`, so that type checkers take its type from the method itself.
"""

from typing import Final

from triptych.aio.threads import Awaited, awaited, streamed
from triptych.service import KnowledgeBase
from triptych.service.knowledge_base import Dataset


class AsyncServiceMethods(Awaited):
    """Every method of `KnowledgeBase`, awaited."""

    put_document: Final = awaited(KnowledgeBase.put_document)
    put_documents: Final = awaited(KnowledgeBase.put_documents)
    embed_pending: Final = awaited(KnowledgeBase.embed_pending)
    get_document: Final = awaited(KnowledgeBase.get_document)
    list_documents: Final = awaited(KnowledgeBase.list_documents)
    count_documents: Final = awaited(KnowledgeBase.count_documents)
    update_metadata: Final = awaited(KnowledgeBase.update_metadata)
    history: Final = awaited(KnowledgeBase.history)
    diff: Final = awaited(KnowledgeBase.diff)
    restore: Final = awaited(KnowledgeBase.restore)
    changes: Final = awaited(KnowledgeBase.changes)
    list_datasets: Final = awaited(KnowledgeBase.list_datasets)
    create_dataset: Final = awaited(KnowledgeBase.create_dataset)
    configure_dataset: Final = awaited(KnowledgeBase.configure_dataset)
    delete_document: Final = awaited(KnowledgeBase.delete_document)
    delete_documents: Final = awaited(KnowledgeBase.delete_documents)
    remove_expired: Final = awaited(KnowledgeBase.remove_expired)
    delete_dataset: Final = awaited(KnowledgeBase.delete_dataset)
    recreate: Final = awaited(KnowledgeBase.recreate)
    purge: Final = awaited(KnowledgeBase.purge)
    search: Final = awaited(KnowledgeBase.search)
    search_documents: Final = awaited(KnowledgeBase.search_documents)
    search_many: Final = awaited(KnowledgeBase.search_many)
    explain: Final = awaited(KnowledgeBase.explain)
    similar: Final = awaited(KnowledgeBase.similar)
    context: Final = awaited(KnowledgeBase.context)
    context_prefix: Final = awaited(KnowledgeBase.context_prefix)
    verify: Final = awaited(KnowledgeBase.verify)
    ask: Final = awaited(KnowledgeBase.ask)
    ask_stream: Final = streamed(KnowledgeBase.ask_stream)
    replay: Final = awaited(KnowledgeBase.replay)
    layer: Final = awaited(KnowledgeBase.layer)
    dataset_layer: Final = awaited(KnowledgeBase.dataset_layer)
    layers: Final = awaited(KnowledgeBase.layers)
    put_document_layer: Final = awaited(KnowledgeBase.put_document_layer)
    put_dataset_layer: Final = awaited(KnowledgeBase.put_dataset_layer)
    put_folder_layer: Final = awaited(KnowledgeBase.put_folder_layer)
    rebuild: Final = awaited(KnowledgeBase.rebuild)
    stats: Final = awaited(KnowledgeBase.stats)
    cache_stats: Final = awaited(KnowledgeBase.cache_stats)
    health: Final = awaited(KnowledgeBase.health)
    doctor: Final = awaited(KnowledgeBase.doctor)


class AsyncDatasetMethods(Awaited):
    """Every method of `Dataset`, awaited."""

    create: Final = awaited(Dataset.create)
    put: Final = awaited(Dataset.put)
    put_many: Final = awaited(Dataset.put_many)
    embed_pending: Final = awaited(Dataset.embed_pending)
    get: Final = awaited(Dataset.get)
    history: Final = awaited(Dataset.history)
    diff: Final = awaited(Dataset.diff)
    restore: Final = awaited(Dataset.restore)
    changes: Final = awaited(Dataset.changes)
    list: Final = awaited(Dataset.list)
    count: Final = awaited(Dataset.count)
    update_metadata: Final = awaited(Dataset.update_metadata)
    delete_many: Final = awaited(Dataset.delete_many)
    remove_expired: Final = awaited(Dataset.remove_expired)
    delete: Final = awaited(Dataset.delete)
    recreate: Final = awaited(Dataset.recreate)
    purge: Final = awaited(Dataset.purge)
    search: Final = awaited(Dataset.search)
    search_documents: Final = awaited(Dataset.search_documents)
    search_many: Final = awaited(Dataset.search_many)
    explain: Final = awaited(Dataset.explain)
    similar: Final = awaited(Dataset.similar)
    context: Final = awaited(Dataset.context)
    context_prefix: Final = awaited(Dataset.context_prefix)
    ask: Final = awaited(Dataset.ask)
    ask_stream: Final = streamed(Dataset.ask_stream)
    layer: Final = awaited(Dataset.layer)
    dataset_layer: Final = awaited(Dataset.dataset_layer)
    layers: Final = awaited(Dataset.layers)
    put_layer: Final = awaited(Dataset.put_layer)
    put_dataset_layer: Final = awaited(Dataset.put_dataset_layer)
    put_folder_layer: Final = awaited(Dataset.put_folder_layer)
    rebuild: Final = awaited(Dataset.rebuild)
    stats: Final = awaited(Dataset.stats)
