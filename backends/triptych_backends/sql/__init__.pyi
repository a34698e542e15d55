"""The names of `triptych_backends.sql`, each with the module that defines it."""

from triptych._internal.one_state import let_go as let_go
from triptych_backends.sql.change_log import SqlChangeLog as SqlChangeLog
from triptych_backends.sql.chunk_rows import headings_of as headings_of, title_in as title_in
from triptych_backends.sql.chunks import SqlChunks as SqlChunks
from triptych_backends.sql.compilation import (
    compile_statement as compile_statement,
    creating_all as creating_all,
)
from triptych_backends.sql.database import (
    Database as Database,
    HeldReader as HeldReader,
    Searcher as Searcher,
    SingleReads as SingleReads,
    WriterTurn as WriterTurn,
    reader_of_call as reader_of_call,
)
from triptych_backends.sql.deferred import (
    Dialect as Dialect,
    Statement as Statement,
    Upsert as Upsert,
    and_ as and_,
    bindparam as bindparam,
    in_list as in_list,
    insert as insert,
    resolve as resolve,
    select as select,
    tables as tables,
)
from triptych_backends.sql.document_rows import EPOCH as EPOCH
from triptych_backends.sql.documents import SqlDocuments as SqlDocuments
from triptych_backends.sql.errors import (
    DAMAGE as DAMAGE,
    closed_error as closed_error,
    corrupt as corrupt,
)
from triptych_backends.sql.filters import FilterCache as FilterCache, SqlFilters as SqlFilters
from triptych_backends.sql.layers import SqlLayers as SqlLayers
from triptych_backends.sql.store import PinnedDatabase as PinnedDatabase, SqlStore as SqlStore
from triptych_backends.sql.transaction import (
    KEPT_ROWS as KEPT_ROWS,
    LAYER_OF_FIELD as LAYER_OF_FIELD,
    Dataset as Dataset,
    Position as Position,
    Session as Session,
    Transaction as Transaction,
    find_datasets as find_datasets,
    key_of as key_of,
)
from triptych_backends.sql.vectors import (
    decode_further as decode_further,
    decode_vectors as decode_vectors,
)
