"""The names of `triptych_backends.sql`, each with the module that defines it."""

from triptych_backends.sql.change_log import SqlChangeLog as SqlChangeLog
from triptych_backends.sql.chunks import SqlChunks as SqlChunks
from triptych_backends.sql.database import Database as Database, Searcher as Searcher
from triptych_backends.sql.deferred import Dialect as Dialect, Upsert as Upsert
from triptych_backends.sql.documents import SqlDocuments as SqlDocuments
from triptych_backends.sql.layers import SqlLayers as SqlLayers
from triptych_backends.sql.store import SqlStore as SqlStore
from triptych_backends.sql.transaction import Session as Session, Transaction as Transaction
