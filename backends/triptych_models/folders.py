"""Embedders of a model folder of yours: a transformer as ONNX, or static vectors of tokens.

Both read the files that sentence-transformers and model2vec write. How token vectors become one,
what stands before a query and a document, and how many tokens are read is the folder's own
configuration: nothing of that is guessed.
"""

from __future__ import annotations

import json
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.errors import NotAvailableError, ProviderError, ValidationError
from triptych_models.lazy import Lazy
from triptych_models.onnx_folder import ONNX_EXTRA, ModelFiles, OnnxFolder
from triptych_models.shared import TextWorkers, checked_texts, require

if TYPE_CHECKING:
    from triptych.records import EmbedKind

_MOST_TOKENS: Final = 512
"""Tokens that are read where the folder does not say: what model2vec reads."""
_LEAST_TOKENS: Final = 4
"""Of which two may stand around a text."""
_POOLINGS: Final = ("cls", "max", "mean", "lasttoken")
"""In the order in which sentence-transformers puts them side by side, where there are several."""
_MODULES: Final = ("Transformer", "Pooling", "Dense", "Normalize", "StaticEmbedding")

Floats = NDArray[np.float32]


def _json_in(path: Path) -> Any:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValidationError(f"{path} is not JSON ({error}): give the folder whole") from error
    return found


def _object_in(path: Path) -> Mapping[str, Any]:
    found = _json_in(path)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ValidationError(f"{path} holds no JSON object: give the folder whole")
    return found


@attrs.frozen(kw_only=True)
class ModelConfig:
    """What a folder says of its model.

    Attributes:
        modules: the folder of each module of sentence-transformers, by its kind, in their order.
        poolings: how token vectors become one; several stand side by side.
        prompts: what stands before a text, by "query" and "document".
        max_tokens: how many tokens of a text are read, special ones included; None for all.
        lower_case: whether texts are read in lower case.
        dimension: the width of the vectors; None where the folder does not say.
    """

    modules: Sequence[tuple[str, Path]]
    poolings: tuple[str, ...]
    prompts: Mapping[str, str]
    max_tokens: int | None
    lower_case: bool
    dimension: int | None

    @classmethod
    def of(cls, folder: Path) -> ModelConfig:
        """Read a folder.

        Raises:
            ValidationError: a file is missing, or says what this cannot do; the message names it.
        """
        modules = _modules_of(folder)
        paths = dict(modules)
        base = paths.get("Transformer", paths.get("StaticEmbedding", folder))
        said = _object_in(base / "sentence_bert_config.json")
        tokens = said.get("max_seq_length")
        if tokens is not None and (not isinstance(tokens, int) or tokens < _LEAST_TOKENS):
            raise ValidationError(
                f"max_seq_length in {base} is {tokens!r}, and no number from {_LEAST_TOKENS} up: "
                "give the folder whole"
            )
        if tokens is None:
            tokens = _object_in(base / "tokenizer_config.json").get("model_max_length")
        if not isinstance(tokens, int) or not 0 < tokens <= 1_000_000:  # none is huge
            tokens = None if "StaticEmbedding" in paths else _MOST_TOKENS
        poolings = _poolings_in(paths["Pooling"]) if "Pooling" in paths else ()
        width = None
        if "Dense" in paths:
            width = _object_in(paths["Dense"] / "config.json").get("out_features")
        elif "Pooling" in paths:
            said_width = _object_in(paths["Pooling"] / "config.json").get(
                "word_embedding_dimension"
            )
            width = said_width and said_width * len(poolings)
        return cls(
            modules=modules,
            poolings=poolings,
            dimension=width if isinstance(width, int) else None,
            prompts=_prompts_in(folder / "config_sentence_transformers.json"),
            max_tokens=tokens,
            lower_case=said.get("do_lower_case") is True,
        )


def _modules_of(folder: Path) -> Sequence[tuple[str, Path]]:
    file = folder / "modules.json"
    if not folder.is_dir():
        raise ValidationError(f"there is no folder {folder}: give the folder of a model")
    modules = []
    listed = _json_in(file) or []
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
        raise ValidationError(f"{file} holds no list of modules: give the folder whole")
    for each in listed:
        kind = str(each.get("type", "")).rpartition(".")[2]
        if kind not in _MODULES:
            raise ValidationError(
                f"{file} names the module {kind!r}, and this runs {', '.join(_MODULES)}: use a "
                "class of your own for this model"
            )
        modules.append((kind, folder / str(each.get("path", ""))))
    return modules


def _poolings_in(folder: Path) -> tuple[str, ...]:
    file = folder / "config.json"
    said = _object_in(file)
    given = said.get("pooling_mode")
    if given is None:
        given = [
            key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
            for key, value in said.items()
            if key.startswith("pooling_mode_") and value is True
        ]
    names = {str(each) for each in (given if isinstance(given, list) else [given])}
    if not names or not names <= set(_POOLINGS) or said.get("include_prompt") is False:
        what = ", ".join(sorted(names - set(_POOLINGS))) or "include_prompt: false"
        raise ValidationError(
            f"{file} asks for {what if names else 'no pooling'}, and this knows "
            f"{', '.join(_POOLINGS)}: use a class of your own for this model"
        )
    return tuple(each for each in _POOLINGS if each in names)


def _prompts_in(file: Path) -> Mapping[str, str]:
    said = _object_in(file)
    prompts = said.get("prompts") or {}
    if not isinstance(prompts, Mapping) or not all(isinstance(t, str) for t in prompts.values()):
        raise ValidationError(f"prompts in {file} is no object of texts: give the folder whole")
    usual = prompts.get(said.get("default_prompt_name") or "", "")
    return {
        "query": prompts.get("query", usual),
        "document": prompts.get("document") or prompts.get("passage") or usual,
    }


@attrs.frozen
class _Dense:
    """A linear layer over the pooled vector, as sentence-transformers has one.

    ``weight`` has the shape (out, in), ``bias`` (out,).
    """

    weight: Floats
    bias: Floats | None
    is_tanh: bool

    @classmethod
    def of(cls, folder: Path, user: str) -> _Dense:
        activation = str(_object_in(folder / "config.json").get("activation_function", "nothing"))
        name = activation.rpartition(".")[2]
        if name not in ("Identity", "Tanh"):
            raise ValidationError(
                f"{folder / 'config.json'} asks for {name}, and this knows Identity and Tanh: use "
                "a class of your own for this model"
            )
        arrays = tensors_in(folder / "model.safetensors", user)
        if "linear.weight" not in arrays:
            raise NotAvailableError(f"{folder / 'model.safetensors'} has no linear.weight")
        return cls(arrays["linear.weight"], arrays.get("linear.bias"), name == "Tanh")

    def __call__(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        made = self.weight.astype(np.float64) @ vector
        made = made if self.bias is None else made + self.bias
        return np.tanh(made) if self.is_tanh else made


def tensors_in(path: Path, user: str) -> Mapping[str, Floats]:
    """The arrays of a safetensors file, those of floats as float32.

    Raises:
        ValidationError: the file is missing.
        NotAvailableError: the extra ``local`` is not installed, or the file is damaged or holds
            numbers that NumPy does not know.
    """
    numpy = require("safetensors.numpy", extra=ONNX_EXTRA, user=user)
    if not path.is_file():
        raise ValidationError(f"there is no {path.name} in {path.parent}: give the folder whole")
    try:
        found = numpy.load_file(path)
    except Exception as error:  # the package's errors share no base class with others
        raise NotAvailableError(
            f"{user} cannot read {path} ({error}): give it whole, with numbers of float32 or "
            "float16"
        ) from error
    return {
        name: array.astype(np.float32) if array.dtype.kind == "f" else array
        for name, array in found.items()
    }


class _FolderEmbedder(ABC):
    """What both kinds of embedders share."""

    # As for the local embedder: vectors of texts that a model hardly reads find less than none.
    coverage_floor = 0.7
    _user: str

    def __init__(self, folder: Path | str, *, threads: int | None = None) -> None:
        self.folder: Path = Path(folder).expanduser().absolute()
        self._config = ModelConfig.of(self.folder)
        self._workers = TextWorkers(threads)
        self._tokenizer: Lazy[_Tokens] = Lazy(self._read_tokenizer)
        self._digest: Lazy[str] = Lazy(self._read_digest)
        require("tokenizers", extra=ONNX_EXTRA, user=self._user)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), self.folder, threads=self._workers.asked), ()

    def coverage(self, text: str) -> float:
        """Return the share of the text's tokens of letters that the vocabulary has words of, 0
        to 1.

        A single letter of another script than Latin counts where the vocabulary has many longer
        pieces of that script.

        Raises:
            NotAvailableError: the extra ``local`` is not installed, or the tokenizer is damaged.
        """
        return self._tokenizer.get().coverage(text)

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> Floats:
        """Return float32 vectors of shape (len(texts), dimension), rows of unit length, in order.

        Raises:
            ValidationError: an argument is invalid for `Embedder.embed`.
            NotAvailableError: the extra ``local`` is not installed, or a file is none of a model.
            ProviderError: the model failed to run, its vectors have another width than it says, or
                a file was changed after the first of them was read.
            CancelledError: the deadline around the call passed; it is checked between texts.
        """
        checked = checked_texts(texts, kind)
        if not checked:
            return np.empty((0, self.dimension), dtype=np.float32)
        before, one = self._config.prompts[kind], self._embedder()
        width = self.dimension

        def unit(text: str) -> Floats:
            text = before + text
            vector = one(text.lower() if self._config.lower_case else text)
            if vector.shape != (width,):
                raise ProviderError(
                    f"{self._user} {self.folder.name} made a vector of the shape {vector.shape}, "
                    f"and its folder says {width}"
                )
            size = float(np.linalg.norm(vector))
            if not np.isfinite(size):
                raise ProviderError(
                    f"{self._user} {self.folder.name} made no number of a text that begins "
                    f"{text[:60]!r}"
                )
            # A text without a token of the vocabulary has a vector, too, which `coverage` excludes.
            made = vector / size if size else np.eye(1, width)[0]
            return made.astype(np.float32)

        return self._workers.rows(unit, checked, width)

    @property
    def signature(self) -> str:
        """The embedding space: weights, tokenizer and configuration, by their digest."""
        return f"{self._kind}-folder@{self._digest.get()}"

    def close(self) -> None:
        """Release the model, its tokenizer and the threads. Idempotent."""
        self._workers.close()
        self._tokenizer.close()

    # Of each kind

    _kind: str
    _watched: ModelFiles

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The width of the vectors."""

    @property
    @abstractmethod
    def _tokenizer_file(self) -> Path:
        """The file that cuts texts into tokens."""

    @abstractmethod
    def _files(self) -> Sequence[Path]:
        """The files whose content decides on the vectors."""

    @abstractmethod
    def _embedder(self) -> Callable[[str], NDArray[np.float64]]:
        """What makes a text's vector, of any length."""

    def _read_tokenizer(self) -> _Tokens:
        with self._watched.unchanged():
            return _Tokens(self._tokenizer_file, self._config.max_tokens, user=self._user)

    def _read_digest(self) -> str:
        said = attrs.asdict(self._config) | {"modules": [kind for kind, _ in self._config.modules]}
        also = json.dumps(said, sort_keys=True).encode()
        return self._watched.digest(self._files(), also)


class _Tokens:
    """The tokenizer of a folder, which cuts at ``most`` tokens (None: never) and pads nothing."""

    def __init__(self, path: Path, most: int | None, *, user: str) -> None:
        tokenizers = require("tokenizers", extra=ONNX_EXTRA, user=user)
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises plain exceptions
            raise NotAvailableError(
                f"{user} cannot read {path} ({error}): give the tokenizer.json of the model"
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        if most is not None:
            self._tokenizer.enable_truncation(most)

    def ids(self, text: str, *, framed: bool) -> NDArray[np.int64]:
        """The ids of a text's tokens, shape (n,); ``framed`` with what stands around a text."""
        found = self._tokenizer.encode(text, add_special_tokens=framed)
        return np.array(found.ids, dtype=np.int64)

    @cached_property
    def unknown(self) -> int | None:
        """The id of what is not in the vocabulary; None where there is none."""
        name = getattr(self._tokenizer.model, "unk_token", None)
        return None if name is None else self._tokenizer.token_to_id(name)

    @cached_property
    def _scripts(self) -> Counter[str]:
        """How many pieces of several letters the vocabulary has of each script."""
        found: Counter[str] = Counter()
        for piece in self._tokenizer.get_vocab(with_added_tokens=False):
            letters = [letter for letter in piece if letter.isalpha()]
            if len(letters) > 1:
                found[_script(letters[0])] += 1
        return found

    def coverage(self, text: str) -> float:
        """See `_FolderEmbedder.coverage`."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        known = foreign = 0
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            letters = [letter for letter in text[start:end] if letter.isalpha()]
            if not letters:
                continue
            script = _script(letters[0])
            is_word = len(letters) > 1 or script == "LATIN" or self._scripts[script] >= _OF_A_SCRIPT
            is_known = token != self.unknown and is_word
            known, foreign = known + is_known, foreign + (not is_known)
        if known + foreign:
            return known / (known + foreign)
        return float(not encoding.ids or any(token != self.unknown for token in encoding.ids))


_OF_A_SCRIPT: Final = 200
"""A vocabulary with so many longer pieces of a script was trained on its texts."""


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


class OnnxEmbedder(_FolderEmbedder):
    """A transformer of your own, as ONNX, in the folder that sentence-transformers writes.

    ``model.onnx`` (or ``onnx/model.onnx``) and ``tokenizer.json`` are the model; ``modules.json``,
    ``1_Pooling/config.json`` and ``config_sentence_transformers.json`` say what makes a vector of
    its token vectors, and what stands before queries and documents. A model that gives one vector a
    text needs no pooling.

    Args:
        folder: the folder.
        threads: the number of texts embedded concurrently; None is the number of cores.

    Raises:
        ValidationError: a file is missing, or asks for what this cannot do; or ``threads`` is
            below 1.
        NotAvailableError: the extra ``local`` is not installed.
    """

    _kind = "onnx"
    _user = "the ONNX embedder"

    def __init__(self, folder: Path | str, *, threads: int | None = None) -> None:
        super().__init__(folder, threads=threads)
        base = dict(self._config.modules).get("Transformer", self.folder)
        self._model = OnnxFolder(
            base,
            user=self._user,
            kind="sentence-transformers model",
            also=[path / "model.safetensors" for path in self._dense_folders()],
        )
        self._watched = self._model.watched
        self._dense: Lazy[Sequence[_Dense]] = Lazy(self._read_dense)
        self._width: Lazy[int] = Lazy(self._measure)

    @property
    def dimension(self) -> int:
        """The width of the vectors; where the folder does not say, the first use loads the
        model."""
        return self._config.dimension or self._width.get()

    def close(self) -> None:
        """See `_FolderEmbedder.close`."""
        super().close()
        self._model.session.close()

    @property
    def _tokenizer_file(self) -> Path:
        return self._model.folder / "tokenizer.json"

    def _files(self) -> Sequence[Path]:
        dense = self._dense_folders()
        return [*self._model.files, *(path / "model.safetensors" for path in dense)]

    def _dense_folders(self) -> Sequence[Path]:
        return [path for kind, path in self._config.modules if kind == "Dense"]

    def _read_dense(self) -> Sequence[_Dense]:
        with self._watched.unchanged():
            return [_Dense.of(path, self._user) for path in self._dense_folders()]

    def _measure(self) -> int:
        return len(self._embedder()("a"))

    def _embedder(self) -> Callable[[str], NDArray[np.float64]]:
        session, tokens = self._model.session.get(), self._tokenizer.get()
        dense = self._dense.get()

        def one(text: str) -> NDArray[np.float64]:
            ids = tokens.ids(text, framed=True)[np.newaxis]
            inputs = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            }
            made = self._model.run(session, inputs, f"a text of {ids.size} tokens", np.float64)
            vector = self._pooled(made[0])
            for layer in dense:
                vector = layer(vector)
            if not vector.any():  # the marks around a text have vectors, be it empty
                raise ProviderError(
                    f"{self._user} {self.folder.name} made a zero vector of a text that begins "
                    f"{text[:60]!r}"
                )
            return vector

        return one

    def _pooled(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """The vector of a text, from its token vectors of shape (n, width)."""
        if states.ndim == 1:
            return states  # the model has done it
        if states.ndim != 2 or not self._config.poolings:
            named = (self.folder / "modules.json").is_file()
            lack = "its modules.json names no Pooling" if named else "it has no modules.json"
            raise NotAvailableError(
                f"{self._user} {self.folder.name} gives vectors of tokens, and {lack}: give the "
                "folder whole, as sentence-transformers has it"
            )
        made: Mapping[str, Callable[[], NDArray[np.float64]]] = {
            "cls": lambda: states[0],
            "max": lambda: states.max(axis=0),
            "mean": lambda: states.mean(axis=0),
            "lasttoken": lambda: states[-1],
        }
        return np.concatenate([made[each]() for each in self._config.poolings])


class StaticEmbedder(_FolderEmbedder):
    """Static vectors of tokens, in the folder that model2vec or sentence-transformers writes.

    A text's vector is the mean of the vectors of its tokens in ``model.safetensors``, weighted
    where the file has weights; what ``tokenizer.json`` does not know counts for nothing. It takes
    microseconds a text, and no ONNX runtime.

    Args:
        folder: the folder.
        threads: the number of texts embedded concurrently; None is the number of cores.

    Raises:
        ValidationError: a file is missing, or asks for what this cannot do; or ``threads`` is
            below 1.
        NotAvailableError: the extra ``local`` is not installed.
    """

    _kind = "static"
    _user = "the static embedder"

    def __init__(self, folder: Path | str, *, threads: int | None = None) -> None:
        super().__init__(folder, threads=threads)
        self._base = dict(self._config.modules).get("StaticEmbedding", self.folder)
        for path in (self._base / "model.safetensors", self._tokenizer_file):
            if not path.is_file():
                raise ValidationError(
                    f"there is no {path.name} in {path.parent}: give a folder that model2vec or "
                    "sentence-transformers wrote"
                )
        self._watched = ModelFiles(self._files, user=self._user)
        self._table: Lazy[_Table] = Lazy(self._read_table)

    @property
    def dimension(self) -> int:
        """The width of the vectors; the first use loads them."""
        return int(self._table.get().vectors.shape[1])

    def close(self) -> None:
        """See `_FolderEmbedder.close`."""
        super().close()
        self._table.close()

    @property
    def _tokenizer_file(self) -> Path:
        return self._base / "tokenizer.json"

    def _files(self) -> Sequence[Path]:
        return [self._base / "model.safetensors", self._tokenizer_file]

    def _read_table(self) -> _Table:
        with self._watched.unchanged():
            return _Table.of(self._base / "model.safetensors", self._user)

    def _embedder(self) -> Callable[[str], NDArray[np.float64]]:
        table, tokens = self._table.get(), self._tokenizer.get()

        def one(text: str) -> NDArray[np.float64]:
            ids = tokens.ids(text, framed=False)
            return table.mean(ids[ids != tokens.unknown])

        return one


@attrs.frozen
class _Table:
    """The vectors of tokens, shape (rows, dimension); of each token its row and its weight, shape
    (tokens,), None for itself and for 1."""

    vectors: Floats
    rows: NDArray[np.int64] | None
    weights: Floats | None

    @classmethod
    def of(cls, path: Path, user: str) -> _Table:
        arrays = tensors_in(path, user)
        vectors = arrays.get("embeddings", arrays.get("embedding.weight"))
        if vectors is None or vectors.ndim != 2:
            raise NotAvailableError(
                f"{user} finds no vectors of tokens in {path}: it has {', '.join(sorted(arrays))}, "
                "and not embeddings or embedding.weight"
            )
        rows, weights = arrays.get("mapping"), arrays.get("weights")
        if not vectors.any() or (weights is not None and not weights.any()):
            raise NotAvailableError(
                f"{user} cannot use {path}: all its vectors are zero; give the file whole"
            )
        if rows is not None and (
            rows.dtype.kind not in "iu" or not ((rows >= 0) & (rows < len(vectors))).all()
        ):
            raise NotAvailableError(
                f"{user} cannot use {path}: its mapping names rows that its {len(vectors)} vectors "
                "do not have"
            )
        return cls(
            vectors.astype(np.float32, copy=False),
            None if rows is None else rows.astype(np.int64),
            None if weights is None else weights.astype(np.float32),
        )

    def mean(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        if not tokens.size:
            return np.zeros(self.vectors.shape[1])
        try:
            rows = tokens if self.rows is None else self.rows[tokens]
            vectors = self.vectors[rows].astype(np.float64)
            if self.weights is not None:
                vectors *= self.weights[tokens][:, np.newaxis]
        except IndexError as error:
            raise ProviderError(
                f"the model has {len(self.vectors)} vectors, and its tokenizer the token "
                f"{int(tokens.max())}: give both from one model"
            ) from error
        mean: NDArray[np.float64] = vectors.mean(axis=0)
        return mean
