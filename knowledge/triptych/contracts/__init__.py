"""Every contract of Triptych: repositories, capabilities, models, search, events.

A backend is a `Store`: three repositories over one place, as three objects, for some of their
methods share a name. A write of one may take part of what another keeps
(`DocumentRepo.delete`), or depend on it (`ChunkRepo.replace`), atomically. Methods that only
make an answer faster have a working default in the base classes of `triptych.contracts.defaults`.
The capabilities are optional: `Store.capabilities` is the record of those that a store has, read
once, when a Service is wired. `triptych.contracts.rules` holds the decisions these contracts ask
for, as pure functions, and `triptych.testing` the conformance kit that holds a backend to all of
this.

Throughout:

- Absence is not an error for a repository: readers return None or nothing, deletes are
  idempotent. The Service turns absence into `NotFoundError` where a caller named a thing.
- Names are compared by code point; lists of names are in that order.
- A method that writes is atomic: when it raises, nothing has changed; when it returns, the
  change survives the process (memory excepted) and every later read, in any process on the
  same store, sees it. A method for many (``…_many``) is atomic for each of them. A store that
  cannot tell whether a write will last raises `StoreError` and closes itself.
- Drivers' errors are mapped to `StoreError` and its children, ``raise … from``.
- All methods may be called from any thread.
- Arguments have been validated by the Service; a repository does not judge them again. A
  query's ``dataset_ids`` may name a dataset twice: it is asked once.
- Once a store is closed every call raises `StoreError`, at once: also one that
  returns an iterator.
"""

from triptych._internal.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
