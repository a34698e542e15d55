"""Settings from arguments, the environment, ``triptych.toml``, the user's file, and defaults.

Only this package reads environment variables and configuration files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from triptych._internal.wording import did_you_mean
from triptych.errors import ValidationError
from triptych.resources.urls import shown_url
from triptych_factory.locations import (
    find_store,
    is_own,
    relative_to,
    shown_location,
    user_config_file,
    user_store,
)
from triptych_factory.provider_access import TRUSTED_HOSTS, Origin, url_repr
from triptych_factory.trust import in_force

FILE_NAME = "triptych.toml"
PREFIX = "TRIPTYCH_"

_FOUND = "found from here upwards"
_SECRETS = frozenset({"api_key", "llm_api_key"})
_UNQUOTED = _SECRETS | {"llm_base_url"}
_MODELS = frozenset({"reranker", "sparse_encoder"})
_FILE_ONLY = frozenset({"pipelines"})
# The last two are of the search's kernels: what compiles them, and what leaves them unused.
_NOT_A_SETTING = frozenset({"TRIPTYCH_DEBUG", TRUSTED_HOSTS, "TRIPTYCH_KERNELS", "TRIPTYCH_PURE"})


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("give a text that is not empty")
    return value


def _integer(least: int, most: int | None = None) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if isinstance(value, str):
            with suppress(ValueError):
                value = int(value)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value < least or (most is not None and value > most):
            end = "up" if most is None else f"to {most}"
            raise ValueError(f"give a whole number from {least} {end}")
        return int(value)

    return parse


def _seconds(value: Any) -> float:
    try:
        seconds = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        seconds = float("nan")
    if not 0 <= seconds < float("inf"):
        raise ValueError("give a number of seconds from 0 up")
    return seconds


_SWITCH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _SWITCH:
        return _SWITCH[value.strip().lower()]
    raise ValueError("give true or false")


def _tables(value: Any) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping) or not all(
        isinstance(table, Mapping) for table in value.values()
    ):
        raise ValueError("give tables, such as [pipelines.support]")
    return value


def _cache(value: Any) -> bool | dict[str, Any]:
    if not isinstance(value, Mapping):
        return _switch(value)
    # Here, for most stores have none.
    from triptych.search.cache_options import to_cache

    to_cache(value)
    return dict(value)


def _setting(parse: Callable[[Any], Any], default: Any = attrs.NOTHING, **more: Any) -> Any:
    """Return a field of `Settings` whose external values ``parse`` converts or refuses."""
    return attrs.field(default=default, metadata={"parse": parse}, **more)


@attrs.frozen(kw_only=True, slots=True)
class Setting:
    """The value and the source of one setting, from `Settings.explain`."""

    name: str
    value: str | int | float | bool | None
    source: str


def _shown_model(name: str) -> str:
    """Return the name of a model, without secrets in an address."""
    kind, colon, address = name.partition(":")
    return f"{kind}:{shown_url(address)}" if colon and "://" in address else name


def _model_from(name: str, directory: Path) -> str:
    """Return the name of a model, with a relative folder resolved against ``directory``."""
    kind, colon, folder = name.partition(":")
    if kind not in ("onnx", "splade", "static") or not colon or not folder.strip():
        return name
    return f"{kind}:{directory / Path(folder).expanduser()}"


def _models_from(tables: Mapping[str, Mapping[str, Any]], directory: Path) -> Mapping[str, Any]:
    """Return the tables of pipelines, with `_model_from` applied to the models of their steps."""

    def step(given: Any) -> Any:
        if isinstance(given, Mapping) and isinstance(given.get("model"), str):
            return {**given, "model": _model_from(given["model"], directory)}
        return given

    def steps(table: Mapping[str, Any]) -> Mapping[str, Any]:
        given = table.get("postprocessors")
        return (
            {**table, "postprocessors": [*map(step, given)]} if isinstance(given, list) else table
        )

    return {name: steps(table) for name, table in tables.items()}


@attrs.frozen(kw_only=True, slots=True)
class Settings:
    """The settings of a Service.

    Those of the names of `triptych.OpenOptions` are the same, as names and plain values; the name
    "none" is for no model. Keys are never shown.

    Attributes:
        url: the store, or the address of a server. By default the nearest store in the current
            directory or its parents, else the user's store.
        embedder: an embedder's name; "auto" is the embedder that made the store's vectors; for a
            store without documents it is "local" if installed, else none.
        embedder_batch: the maximum number of texts in one request to an embedder's provider; None
            for the provider's default.
        semantic_cache: whether results of searches are cached, or a table with ``threshold``,
            ``hours`` and ``entries`` (see `triptych.search.SemanticCache`).
        ca_file: a file (PEM) or folder of certificate authorities to trust besides the usual ones,
            at models' hosts and servers; None for SSL_CERT_FILE or SSL_CERT_DIR.
        ocr: whether pictures and scanned pages are read by character recognition.
        llm: the language model for layers and answers: "provider:model", or "none".
        llm_base_url: the address of its provider; None for the provider's variable, or its default
            address.
        llm_api_key: its API key; None for the provider's variable.
        llm_context: the maximum number of tokens of a prompt and its response.
        llm_concurrency: the maximum number of concurrent calls.
        pipelines: the tables ``[pipelines.NAME]`` of the file: see `triptych.search.Pipeline`.
        sources: the source of each value that is not a default.
        notice: what of the folder's file is not in force, and why; "" for nothing.
    """

    url: str = _setting(
        _text, attrs.Factory(lambda: str(user_store())), repr=lambda url: repr(shown_location(url))
    )
    api_key: str | None = _setting(_text, None, repr=False)
    embedder: str = _setting(_text, "auto")
    language: str = _setting(_text, "auto")
    chunker: str = _setting(_text, "markdown")
    chunk_size: int | None = _setting(_integer(16), None)
    chunk_overlap: int | None = _setting(_integer(0), None)
    embed_concurrency: int = _setting(_integer(1, 64), 4)
    embedder_batch: int | None = _setting(_integer(1, 10_000), None)
    ranker: str = _setting(_text, "z-score")
    reranker: str = _setting(_text, "none", repr=lambda name: repr(_shown_model(name)))
    code_ranking: bool = _setting(_switch, True)
    sparse_encoder: str = _setting(_text, "none", repr=lambda name: repr(_shown_model(name)))
    semantic_cache: bool | Mapping[str, Any] = _setting(_cache, False)
    ca_file: str | None = _setting(_text, None)
    lock_timeout: float = _setting(_seconds, 30.0)
    read_only: bool = _setting(_switch, False)
    history: int = _setting(_integer(0, 1_000_000), 10)
    background_index: bool = _setting(_switch, True)
    question_log: bool = _setting(_switch, False)
    ocr: bool = _setting(_switch, False)
    llm: str = _setting(_text, "none")
    llm_base_url: str | None = _setting(_text, None, repr=url_repr)
    llm_api_key: str | None = _setting(_text, None, repr=False)
    llm_context: int = _setting(_integer(1024), 8192)
    llm_concurrency: int = _setting(_integer(1, 64), 4)
    pipelines: Mapping[str, Mapping[str, Any]] = _setting(_tables, attrs.Factory(dict))
    sources: Mapping[str, str] = attrs.field(factory=dict, eq=False, repr=False)
    notice: str = attrs.field(default="", eq=False, repr=False)

    @classmethod
    def resolve(
        cls,
        arguments: Mapping[str, object] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> Settings:
        """Determine the settings from all sources.

        Args:
            arguments: explicit values by name; None means "not given".
            environ: the environment variables; None for those of the process.
            directory: where the upward search for ``triptych.toml`` and for a store starts; None
                for the current directory. Only the nearest ``triptych.toml`` is used; the user's
                file supplies values that it lacks.

        Raises:
            ValidationError: a key of the file is unknown, or a value is invalid. The
                message names the file, variable or argument.
        """
        environ = os.environ if environ is None else environ
        directory = Path.cwd() if directory is None else directory
        user_file = user_config_file(environ)
        said = _Given()
        for key in _PARSERS.keys() - _FILE_ONLY:
            variable = PREFIX + key.upper()
            if environ.get(variable):
                said.take(key, environ[variable], f"the variable {variable}", variable)
        for key, argument in (arguments or {}).items():
            if argument is not None:
                _check_key(key, "an argument")
                said.take(key, argument, f"the argument {key}", "argument")
        own = _Given()
        if user_file.is_file():
            own.take_file(user_file, _read_file(user_file)[0])
        came, notice = read_folder_file(directory), ""
        folder = {} if came is None else came[2]
        if not any("url" in values for values in (said.values, folder, own.values)):
            found = find_store(directory)
            own.values["url"] = found or str(user_store(environ))
            own.sources |= {"url": _FOUND} if found else {}
        if came is not None:
            file, content, _ = came
            url = said.values.get("url") or (None if "url" in folder else own.values["url"])
            kept, notice = in_force(file, content, folder, url, environ)
            own.values |= kept
            own.sources |= {key: str(file) for key in kept}
        if notice:
            from triptych.text import visible  # a name in the file may hold anything

            notice = visible(notice)
        values, sources = own.values | said.values, own.sources | said.sources
        settings = cls(**values, sources=sources, notice=notice)
        settings._check_together()
        return settings

    def without_llm(self) -> Settings:
        """Return the settings without the language model, whose key may be missing.

        It is kept if it is also the reranker.
        """
        return self if self.reranker == "llm" else attrs.evolve(self, llm="none")

    def origin(self, name: str) -> Origin:
        """Return the origin of a setting; a default is trusted like an argument."""
        source = self.sources.get(name, "argument")
        if source == "argument":
            return "argument"
        return "file" if Path(source).name == FILE_NAME else "environment"

    @property
    def store_came_along(self) -> bool:
        """Whether the store in use was found here, or named by a folder's file: nobody chose it."""
        source = self.sources.get("url", "")
        return source == _FOUND or Path(source).name == FILE_NAME

    def place(self, name: str) -> str:
        """Return the name and source of a setting for messages."""
        return f"{name} ({self.sources.get(name, 'argument')})"

    def explain(self) -> tuple[Setting, ...]:
        """Return every setting with its value and source, in the order of the fields.

        Keys are only shown as set or not, URLs without passwords and values of their query.
        """
        return tuple(
            Setting(name=name, value=self._shown(name), source=self.sources.get(name, "default"))
            for name in _PARSERS
        )

    def _shown(self, name: str) -> Any:
        value = getattr(self, name)
        if value is None:
            return None
        if name in _SECRETS:
            return "set"
        if name in _FILE_ONLY:
            return ", ".join(value) or None
        if name == "llm_base_url":
            return shown_url(value)
        if name in _MODELS:
            return _shown_model(value)
        if isinstance(value, Mapping):
            return ", ".join(f"{key} = {each}" for key, each in value.items())
        return shown_location(value) if name == "url" else value

    def _check_together(self) -> None:
        if (
            self.chunk_size is not None
            and self.chunk_overlap is not None
            and self.chunk_overlap >= self.chunk_size
        ):
            raise ValidationError(
                f"chunk_overlap {self.chunk_overlap} ({self.sources['chunk_overlap']}) does not "
                f"fit chunk_size {self.chunk_size} ({self.sources['chunk_size']}): give less"
            )


_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    each.name: each.metadata["parse"] for each in attrs.fields(Settings) if each.metadata
}


@attrs.define
class _Given:
    """Values of settings, each with its source."""

    values: dict[str, Any] = attrs.field(factory=dict)
    sources: dict[str, str] = attrs.field(factory=dict)

    def take(self, key: str, value: Any, where: str, source: str) -> None:
        self.values[key] = _parse(key, value, where)
        self.sources[key] = source

    def take_file(self, file: Path, table: Mapping[str, Any]) -> None:
        """Take what a settings file says; its relative paths are resolved against its folder."""
        for key, value in table.items():
            self.take(key, value, f"{key!r} in {file}", str(file))
        values = self.values
        if "url" in values:
            values["url"] = relative_to(values["url"], file.parent)
        if "ca_file" in values:
            values["ca_file"] = str(file.parent / Path(values["ca_file"]).expanduser())
        for key in _MODELS & values.keys():
            values[key] = _model_from(values[key], file.parent)
        if "embedder" in values:
            found = _model_from(values["embedder"], file.parent)
            # A folder that is not there may be a name of the hub, which is no path.
            if Path(found.partition(":")[2]).is_dir():
                values["embedder"] = found
        if "pipelines" in values:
            values["pipelines"] = _models_from(values["pipelines"], file.parent)


def find_file(directory: Path) -> Path | None:
    """The nearest ``triptych.toml`` in ``directory`` or above it.

    Above ``directory`` only folders count that belong to the user.
    """
    directory = directory.absolute()
    for folder in (directory, *directory.parents):
        file = folder / FILE_NAME
        if file.is_file() and (folder == directory or is_own(folder, file)):
            return file
    return None


def read_folder_file(directory: Path) -> tuple[Path, bytes, dict[str, Any]] | None:
    """The nearest ``triptych.toml``, its content, and its values.

    Raises:
        ValidationError: it cannot be read, or a value is invalid.
    """
    file = find_file(directory)
    if file is None:
        return None
    table, content = _read_file(file)
    given = _Given()
    given.take_file(file, table)
    return file, content, given.values


def unknown_variables(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The ``TRIPTYCH_*`` variables that name no setting, ordered: likely misspelt."""
    known = {PREFIX + key.upper() for key in _PARSERS.keys() - _FILE_ONLY} | _NOT_A_SETTING
    environ = os.environ if environ is None else environ
    return tuple(sorted(name for name in environ if name.startswith(PREFIX) and name not in known))


def debug_requested() -> bool:
    """Whether ``TRIPTYCH_DEBUG`` asks for tracebacks."""
    return os.environ.get("TRIPTYCH_DEBUG", "") not in ("", "0")


def _read_file(file: Path) -> tuple[dict[str, Any], bytes]:
    from triptych._internal.toml import parse_toml  # most commands find no file

    try:
        content = file.read_bytes()
        table = parse_toml(content.decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ValidationError(f"{file} cannot be read as TOML: {error}") from error
    for key in table:
        _check_key(key, str(file))
    return table, content


def _check_key(key: str, where: str) -> None:
    if key in _PARSERS:
        return
    meant = did_you_mean(key, _PARSERS, f"known are {', '.join(_PARSERS)}")
    raise ValidationError(f"{where} has the unknown setting {key!r}: {meant}")


def _parse(key: str, value: Any, where: str) -> Any:
    try:
        return _PARSERS[key](value)
    except ValueError as error:
        said = "" if key in _UNQUOTED else f" is {value!r}"
        raise ValidationError(f"{where}{said}: {error}") from None
