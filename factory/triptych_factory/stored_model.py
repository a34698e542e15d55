"""The embedder a store was filled with: found by the signature that its datasets keep.

"auto" is this one. A signature names the model well enough to build its embedder: the local ones
are known by theirs, and that of a provider begins with the provider and the model. No key and no
address is ever stored.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triptych._internal.close_on_exit import close_model
from triptych.contracts import Embedder, Store
from triptych.errors import NotAvailableError, ProviderSetupError, ValidationError
from triptych.records import EmbedKind
from triptych_factory.embedders import BUILDERS, PROVIDERS, build_embedder
from triptych_factory.loading import load

_HASH = re.compile(r"hash-bag-of-words/not-semantic/v1/(\d+)")


class RecalledEmbedder:
    """An embedder of a known signature, made when a text is embedded.

    What keeps it from being made, a missing key for one, is raised then: until then a store can
    be listed, read and searched by keyword.
    """

    def __init__(self, signature: str, make: Callable[[], Embedder]) -> None:
        self._signature = signature
        self._make = make
        self._made: Embedder | None = None
        self._making = threading.Lock()

    @property
    def signature(self) -> str:
        """The embedding space of the store."""
        return self._signature

    @property
    def dimension(self) -> int | None:
        """The vectors' width; None before the first text was embedded."""
        return None if self._made is None else self._made.dimension

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """As the embedder that the signature names.

        Raises:
            NotAvailableError: it cannot be made here.
            ProviderSetupError: a key or an address is missing or wrong; or what the settings make
                of its name is another embedding space.
            ProviderError: as it raises.
        """
        if not texts:
            return np.empty((0, self.dimension or 0), dtype=np.float32)
        return self._embedder().embed(texts, kind=kind)

    def close(self) -> None:
        """Close the embedder, if it was made."""
        with self._making:
            made: object = self._made
            self._made = None
        close_model(made)

    def _embedder(self) -> Embedder:
        with self._making:
            if self._made is None:
                try:
                    made = self._make()
                except ValidationError as error:  # a missing key, for one
                    raise ProviderSetupError(str(error)) from error
                if made.signature != self._signature:
                    raise ProviderSetupError(
                        f"the store was filled with {self._signature!r}, and its name means "
                        f"{made.signature!r} here: set the address and the options it was filled "
                        "with, or rebuild it with another embedder"
                    )
                self._made = made
            return self._made


def stored_signature(store: Store, dataset_id: str = "") -> str | None:
    """The signature of the model that a store, or one of its datasets, was filled with.

    "" stands for documents without a model, None for no documents at all. Of several models the
    one of most datasets counts, and of as many the first by name.
    """
    datasets = [dataset_id] if dataset_id else list(store.documents.list_datasets())
    configs = store.chunks.configs(datasets) if datasets else {}
    models = Counter(config.embed_sig for config in configs.values() if config.embed_sig)
    if models:
        return min(models, key=lambda signature: (-models[signature], signature))
    if any(store.documents.list(each, limit=1) for each in configs):
        return ""
    return stored_signature(store) if dataset_id else None


_LIKELY = """
SELECT embed_sig FROM dataset WHERE live AND embed_sig != '' AND (? = '' OR name = ?)
GROUP BY embed_sig ORDER BY count(*) DESC, embed_sig LIMIT 1
"""


def likely_signature(path: Path, dataset_id: str = "") -> str | None:
    """What `stored_signature` will probably say of the SQLite store at ``path``, before it is open.

    The model can then load while the store opens. None where the file does not say. The file is
    read as if nobody wrote it, without its log: no lock, and no other file is made. So it can be
    behind, and the answer is checked against `stored_signature`.
    """
    try:
        uri = f"{path.as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as driver:
            row = driver.execute(_LIKELY, (dataset_id, dataset_id)).fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        return None
    return row[0] if row and isinstance(row[0], str) else None


def recall_embedder(signature: str, *, concurrency: int | None = None) -> Embedder:
    """The embedder of this signature. Nothing is loaded, and nobody asked."""
    for place in BUILDERS.values():
        known: Embedder = load(place)()
        if known.signature == signature:
            return known
    hashed = _HASH.fullmatch(signature)
    if hashed is not None:
        from triptych_backends.embedders.hashing import HashEmbedder

        return HashEmbedder(dimension=int(hashed[1]))
    name = _name_of(signature)
    if name is None:
        return RecalledEmbedder(signature, lambda: _refuse(signature))
    return RecalledEmbedder(
        signature, lambda: _built(build_embedder(name, concurrency=concurrency))
    )


def _name_of(signature: str) -> str | None:
    """The setting that a provider's signature stands for: provider, model, width, rules."""
    provider, *parts = signature.split("/")
    widths = [at for at, part in enumerate(parts) if at and part.isdecimal()]
    if provider not in PROVIDERS or not widths:
        return None
    # A model's own name may hold slashes.
    return f"{provider}:{'/'.join(parts[: widths[0]])}"


def _refuse(signature: str) -> Embedder:
    raise NotAvailableError(
        f"the store was filled with the embedder {signature!r}, which is not one that can be made "
        "by its name: give it, or rebuild the dataset with another one"
    )


def _built(embedder: Embedder | None) -> Embedder:
    assert embedder is not None  # a name of a provider is never none
    return embedder
