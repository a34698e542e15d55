"""A store over several PostgreSQL servers; it needs the extra ``postgres``."""

from triptych_backends.shards.store import ShardedStore

__all__ = ["ShardedStore"]
