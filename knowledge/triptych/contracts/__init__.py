"""The contracts of Triptych: repositories, capabilities, models, search, events.

A backend is a `Store` of three repositories. They are separate objects because some of their
methods share a name. One write may affect the data of several repositories (`DocumentRepo.delete`)
or depend on them (`ChunkRepo.replace`), atomically. Methods that only improve speed have a default
in the base classes of `triptych.contracts.defaults`. Capabilities are optional:
`Store.capabilities` is the record of those that a store has, read once, when a Service is created.
`triptych.contracts.rules` has the decisions that these contracts require, as pure functions;
`triptych_testing` has the conformance tests for backends.

These rules hold for all methods:

- Absence is not an error for a repository: readers return None or an empty result, deletes are
  idempotent. The Service raises `NotFoundError` if a caller named the missing thing.
- Names are compared by code point; lists of names are in that order.
- A write is atomic: if it raises, nothing has changed; when it returns, the change is durable
  (except in memory) and visible to every later read in any process with the same store. A bulk
  method (``…_many``) is atomic for each item. A store that cannot tell whether a write is durable
  raises `StoreError` and closes itself.
- Drivers' errors are mapped to `StoreError` and its subclasses, with ``raise … from``.
- All methods may be called from any thread.
- The Service validates arguments; a repository does not validate them again. A query's
  ``dataset_ids`` may name a dataset twice: it is searched once.
- After a store is closed every call raises `StoreError` at once, even if it returns an iterator.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
