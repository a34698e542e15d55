"""The methods of `Service` and its views as coroutines, with the same arguments and results.

Each is `Final`, so that type checkers take its type from the method itself.
"""

from typing import Final

from triptych.aio.threads import Awaited, awaited, streamed
from triptych.service import Service
from triptych.service.views import Dataset


class AsyncServiceMethods(Awaited):
    """Every method of `Service`, awaited."""

    put_document: Final = awaited(Service.put_document)
    put_documents: Final = awaited(Service.put_documents)
    embed_pending: Final = awaited(Service.embed_pending)
    get_document: Final = awaited(Service.get_document)
    list_documents: Final = awaited(Service.list_documents)
    count_documents: Final = awaited(Service.count_documents)
    update_metadata: Final = awaited(Service.update_metadata)
    history: Final = awaited(Service.history)
    diff: Final = awaited(Service.diff)
    restore: Final = awaited(Service.restore)
    changes: Final = awaited(Service.changes)
    list_datasets: Final = awaited(Service.list_datasets)
    create_dataset: Final = awaited(Service.create_dataset)
    configure_dataset: Final = awaited(Service.configure_dataset)
    delete_document: Final = awaited(Service.delete_document)
    delete_documents: Final = awaited(Service.delete_documents)
    remove_expired: Final = awaited(Service.remove_expired)
    delete_dataset: Final = awaited(Service.delete_dataset)
    recreate: Final = awaited(Service.recreate)
    purge: Final = awaited(Service.purge)
    search: Final = awaited(Service.search)
    search_documents: Final = awaited(Service.search_documents)
    search_many: Final = awaited(Service.search_many)
    explain: Final = awaited(Service.explain)
    similar: Final = awaited(Service.similar)
    context: Final = awaited(Service.context)
    context_prefix: Final = awaited(Service.context_prefix)
    verify: Final = awaited(Service.verify)
    ask: Final = awaited(Service.ask)
    ask_stream: Final = streamed(Service.ask_stream)
    replay: Final = awaited(Service.replay)
    layer: Final = awaited(Service.layer)
    dataset_layer: Final = awaited(Service.dataset_layer)
    layers: Final = awaited(Service.layers)
    put_document_layer: Final = awaited(Service.put_document_layer)
    put_dataset_layer: Final = awaited(Service.put_dataset_layer)
    put_folder_layer: Final = awaited(Service.put_folder_layer)
    rebuild: Final = awaited(Service.rebuild)
    stats: Final = awaited(Service.stats)
    cache_stats: Final = awaited(Service.cache_stats)
    health: Final = awaited(Service.health)
    doctor: Final = awaited(Service.doctor)


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
