"""Texts that a model refused: the store remembers them, and no pass sends them again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import attrs

from triptych._internal.wording import counted
from triptych.contracts import ChunkRepo, SettingsStore
from triptych.errors import AccessDeniedError, ProviderError, StoreError
from triptych.records import VectorSpace
from triptych.records.spaces import serving

REFUSED_SETTINGS: Final = "refused/"
"""The prefix of a dataset's setting: by space and by the digest of a text, the model's words."""

RETRY: Final = "`triptych embed --retry` sends {} again"

_MOST = 1000
_LONGEST = 300
_SPACES = 4
_NAMES_READ = 10_000


def place_of(space: VectorSpace[Any]) -> str:
    """What a space is called in the store's settings."""
    return space.sig if space.kind == "dense" else f"{space.kind} {space.sig}"


@attrs.frozen
class RefusedTexts:
    """The texts of one dataset that the model of one space refused; the last 1,000.

    ``settings`` None remembers nothing.
    """

    _settings: SettingsStore | None
    _dataset_id: str
    _space: VectorSpace[Any]

    def words(self) -> Mapping[str, str]:
        """What the model said, by the digest of the text."""
        return self._read(self._text()).get(place_of(self._space), {})

    def add(self, found: Mapping[str, Exception]) -> None:
        """Remember these texts. A store that cannot be written to now remembers nothing."""
        settings = self._settings
        if settings is None or not found:
            return
        said = {digest: shortened(str(error)) for digest, error in found.items()}
        with suppress(StoreError, AccessDeniedError):
            while True:
                text = self._text()
                kept = self._read(text)
                ours = {**kept.pop(place_of(self._space), {}), **said}
                kept[place_of(self._space)] = dict([*ours.items()][-_MOST:])
                value = json.dumps(dict([*kept.items()][-_SPACES:]))
                if settings.set_setting(self._key, value, expected=text):
                    return

    @property
    def _key(self) -> str:
        return REFUSED_SETTINGS + self._dataset_id

    def _text(self) -> str | None:
        return None if self._settings is None else self._settings.get_setting(self._key)

    @staticmethod
    def _read(text: str | None) -> dict[str, dict[str, str]]:
        return json.loads(text) if text else {}


def shortened(words: str) -> str:
    """At most 300 characters of ``words``."""
    return words if len(words) <= _LONGEST else words[:_LONGEST] + "…"


def refused_before(words: str) -> ProviderError:
    """The error of a text that is not sent again."""
    return ProviderError(f"{words} (refused earlier, and not sent again: {RETRY.format('it')})")


def refusals(
    chunks: ChunkRepo, settings: SettingsStore | None, dataset_id: str
) -> Iterator[tuple[str, str]]:
    """Which chunks a model of the dataset refused, document by document, and its words."""
    config = chunks.config(dataset_id) if settings is not None else None
    for space in serving(config):
        said = RefusedTexts(settings, dataset_id, space).words()
        for name in islice(chunks.waiting(dataset_id, space), _NAMES_READ) if said else ():
            digests = (chunk.sig.input_sig for chunk in chunks.iter_chunks(dataset_id, name))
            if found := [said[digest] for digest in digests if digest in said]:
                yield f"{counted(len(found), 'chunk')} of {name!r}", found[0]
