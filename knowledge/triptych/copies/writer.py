"""Writing a copy into a store, with its checks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from triptych.contracts import Capabilities, CopyableStore, SettingsStore, Store
from triptych.contracts.rules import is_of_document
from triptych.copies.states import PROBES, DatasetHead, StoreStates, is_kept_setting
from triptych.errors import ConflictError, NotAvailableError, ValidationError
from triptych.records import NameState
from triptych.records.spaces import further, vector_of_text

REPLACE: Final = "the same command with --replace makes what is copied equal to the source"
"""What to do where the destination holds something else."""

_SHOWN: Final = 3


def check_two_stores(source: Store, destination: Store) -> None:
    """Refuse one store as source and destination, by whatever paths and addresses it was opened.

    Raises:
        ValidationError: they are one store.
    """
    if source is destination or _is_one_store(source, destination):
        raise ValidationError("source and destination are the same store: name another destination")


def _is_one_store(source: Store, destination: Store) -> bool:
    one, other = source.capabilities, destination.capabilities
    if one.settings is None or other.settings is None:
        return False
    if one.changes is None or other.changes is None:
        return False
    if one.changes.change_head() != other.changes.change_head():
        return False
    # Logs of two stores may end alike, such as of one and a copy of its file: a write shows it.
    key = f"{PROBES}{secrets.token_hex(8)}"
    other.settings.set_setting(key, key, expected=None)
    try:
        return one.settings.get_setting(key) is not None
    finally:
        other.settings.set_setting(key, None, expected=key)


def check_conflicts(source: StoreStates, there: StoreStates, dataset_id: str) -> None:
    """Refuse a dataset that cannot be copied without replacing what the destination has of it.

    A document that both have is a conflict if the source has not, and had not among the versions
    that it keeps, just that version which the destination has.

    Raises:
        ConflictError: the destination has a name that the source does not have, another
            configuration, or a document with another history.
    """
    if dataset_id not in there.datasets():
        return
    before = set(there.names(dataset_id))
    if not before:
        return
    extra = sorted(before.difference(source.names(dataset_id)))
    if extra:
        raise ConflictError(
            f"dataset {dataset_id!r} of the destination has data that the source does not have: "
            f"{listed(extra)}. Copy into a new store, or replace the data there"
        ).hinted(REPLACE)
    config = there.head(dataset_id).config
    if config is not None and config != source.head(dataset_id).config:
        raise another_configuration(dataset_id)
    other = list(source.other_histories(dataset_id, there.infos(dataset_id)))
    if other:
        raise ConflictError(
            f"dataset {dataset_id!r} of the destination has another history than the source of: "
            f"{listed(other)}. Copy into a new store, or replace the data there"
        ).hinted(REPLACE)


def another_configuration(dataset_id: str) -> ConflictError:
    """The error where the destination's dataset is of another configuration."""
    return ConflictError(
        f"dataset {dataset_id!r} of the destination has another configuration: copy into a new "
        "store, or replace the data there"
    ).hinted(REPLACE)


def another_writer(dataset_id: str, what: str) -> ConflictError:
    """The error where the destination's dataset is not as the source's when it should be."""
    return ConflictError(
        f"dataset {dataset_id!r} of the destination is not as in the source{what}. Another "
        "process wrote to it meanwhile: copy again"
    ).hinted("run the same command again: equal data is skipped")


def listed(names: Sequence[str]) -> str:
    """The first of ``names``, and how many more there are."""
    shown = ", ".join(map(repr, names[:_SHOWN]))
    more = len(names) - _SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown


# Writing

_ATTEMPTS: Final = 20


@attrs.frozen
class SettingsCopy:
    """How many settings were written and removed, and the keys of those that are other in the
    destination and stay so."""

    written: int = 0
    removed: int = 0
    different: tuple[str, ...] = ()


class StateWriter:
    """Writes states of names into a store.

    ``replaces`` says that a document which has another history there is replaced.

    Raises:
        NotAvailableError: the store cannot take over what another holds.
    """

    def __init__(self, store: Store, *, replaces: bool) -> None:
        self.store: Store = store
        self._has: Capabilities = store.capabilities
        if self._has.copying is None:
            raise NotAvailableError(
                f"{type(store).__name__} does not support copies: copy into a memory, SQLite, "
                "files or PostgreSQL store"
            )
        self._loader: CopyableStore = self._has.copying
        self._replaces = replaces
        self._kept = 0
        self.surplus: set[str] = set()
        """Names of the current dataset that were written, and took vectors which the dataset has
        of their texts, and their states lack."""

    def begin(self, head: DatasetHead, *, check: Callable[[], None]) -> None:
        """Make the dataset with its configuration.

        ``check`` is called before another configuration is replaced.

        Raises:
            ConflictError: somebody else configures it at the same time.
        """
        if head.config is not None:
            chunks = self.store.chunks
            before = chunks.config(head.dataset_id)
            if before != head.config:
                if before is not None:
                    check()
                if not chunks.configure(head.dataset_id, head.config, expected=before):
                    raise ConflictError(
                        f"dataset {head.dataset_id!r} of the destination is being configured by "
                        "another process: copy again when it is done"
                    )
        self.store.documents.create_dataset(head.dataset_id)
        self.surplus.clear()

    def write(self, dataset_id: str, states: Sequence[NameState]) -> None:
        """Store ``states`` as they are.

        Raises:
            ConflictError: a name has a document with another history, and is not replaced; or the
                store keeps fewer old versions.
        """
        try:
            self._loader.load_states(dataset_id, states, replace=self._replaces)
        except ConflictError as error:
            raise error.hinted(REPLACE) from None
        self._check_history(dataset_id, states)
        repo = self.store.chunks
        digests = {each.name: {chunk.sig.input_sig for chunk in each.chunks} for each in states}
        for space in further(repo.config(dataset_id)):
            given = {
                digest: vector_of_text(space.kind, text)
                for state in states
                for digest, text in state.further.get(space.kind, {}).items()
            }
            if names := [state.name for state in states if state.further.get(space.kind)]:
                repo.put_vectors(dataset_id, space, names, given)
            lacking = sorted(set().union(*digests.values()) - given.keys() - {""})
            known = repo.known_vectors(dataset_id, space, lacking)
            self.surplus |= {name for name, of in digests.items() if of & known.keys()}

    def _check_history(self, dataset_id: str, states: Sequence[NameState]) -> None:
        """Refuse to go on where the store has not kept all versions of the longest history."""
        longest = max(states, key=lambda each: len(each.versions), default=None)
        if longest is None or len(longest.versions) <= max(1, self._kept):
            return
        wanted = len(longest.versions)
        versions = self._has.versions
        kept = len(versions.versions(dataset_id, longest.name)) if versions is not None else 1
        if 0 < kept < wanted:
            raise ConflictError(
                f"document {longest.name!r} of dataset {dataset_id!r} has {wanted - 1:,} old "
                f"versions in the source, and the destination has kept {kept - 1:,}: it keeps "
                "fewer old versions, so that it can never equal the source"
            ).hinted("open the destination with a greater history (TRIPTYCH_HISTORY)")
        self._kept = max(self._kept, kept)

    def remove(self, dataset_id: str, name: str) -> None:
        """Remove all that is under a name."""
        if is_of_document(name):
            self.store.documents.delete(dataset_id, name)
        else:
            self.store.layers.delete_by_doc(dataset_id, name)

    def end(self, head: DatasetHead) -> None:
        """Take over what concerns the dataset once all its names are there."""
        self._loader.use_up_versions(head.dataset_id, head.deleted_version)

    def write_settings(self, settings: Mapping[str, str] | None) -> SettingsCopy:
        """Take over settings (None: leave those that are there).

        Without ``replaces`` only those that the store lacks; with it the store then has these and
        no other, but for those of work under way.

        Raises:
            ConflictError: somebody else changes them at the same time.
        """
        kept = self._has.settings
        if kept is None or settings is None:
            return SettingsCopy()
        written = removed = 0
        before = {key: text for key, text in kept.list_settings().items() if is_kept_setting(key)}
        for key, value in settings.items():
            if self._replaces or key not in before:
                written += _set(kept, key, value, before.get(key), over=self._replaces)
        extra = before.keys() - settings.keys() if self._replaces else set()
        for key in extra:
            removed += _set(kept, key, None, before[key], over=True)
        now = kept.list_settings()
        different = [key for key, value in settings.items() if now.get(key) != value]
        wrong = [key for key in different if self._replaces or key not in now]
        wrong += sorted(extra & now.keys())
        if wrong:
            raise ConflictError(
                f"settings of the destination are not as in the source: {listed(wrong)}. Another "
                "process wrote to them meanwhile: copy again"
            )
        return SettingsCopy(written, removed, tuple(different))


def _set(
    kept: SettingsStore, key: str, value: str | None, expected: str | None, *, over: bool
) -> bool:
    """Set a setting, ``over`` what others set meanwhile or not; whether that changed anything."""
    for _ in range(_ATTEMPTS if over else 1):
        if expected == value:
            break
        if kept.set_setting(key, value, expected=expected):
            return True
        expected = kept.get_setting(key)
    return False
