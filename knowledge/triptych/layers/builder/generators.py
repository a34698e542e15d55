"""The generators of layers, a language model or the extractive summariser, and their signatures."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import attrs

from triptych._internal.digests import digest
from triptych._internal.model_texts import BadAnswerError, checked
from triptych.chunking.blocks import sections
from triptych.chunking.boundaries import break_before
from triptych.chunking.outline import read_outline
from triptych.contracts import LLM
from triptych.contracts.models import check_llm
from triptych.derivation.folder_tree import line_size
from triptych.layers.builder.budget import LayerModel
from triptych.layers.builder.records import Cost, LayerPrompts, PlanReason
from triptych.layers.extractive import SIGNATURE_PREFIX, ExtractiveSummarizer
from triptych.layers.generation import ABSTRACT_MAX_TOKENS, OVERVIEW_MAX_TOKENS
from triptych.layers.prompts import FRAME, data_messages
from triptych.records import DocumentSummary, Layer, SourceDocument, Usage, check_whole
from triptych.records.metadata import text_of
from triptych.text.tokens import estimate_tokens

BYTES_A_TOKEN: Final = 3
"""Bytes of UTF-8 that a prompt shows for each of its tokens: no fewer are a token of prose in
any script. It is part of signatures, so a new estimate does not change it."""

_SIGNATURE: Final = re.compile(r"llm-1/([0-9a-f]{32})/([0-9a-f]{32})")
_ABSTRACT_TOKENS, _OVERVIEW_TOKENS, _NOTES_TOKENS = 80, 600, 300
_NOTES_MAX_TOKENS: Final = 1024


@attrs.frozen(slots=True)
class Source:
    """What layers are made from: a document, or the children of a folder with their abstracts."""

    document: SourceDocument | None = None
    children: Sequence[DocumentSummary] = ()

    @property
    def size(self) -> int:
        """Bytes of UTF-8 that a model has to read."""
        if self.document is not None:
            return len(self.document.content.encode())
        return sum(line_size(each.name, each.abstract) for each in self.children)

    def lines(self) -> list[str]:
        """What tells a model of the children, by name; blank abstracts are left out."""
        return [
            f"- {' '.join(each.name.split())}: {' '.join(each.abstract.split())}"
            for each in self.children
            if each.abstract.strip()
        ]


class LayerGenerator(Protocol):
    """Writes layers, and says under which signature and at what cost."""

    @property
    def model(self) -> str:
        """What writes."""
        ...

    def prompt_sig(self, layer: Layer, *, folder: bool, size: int) -> str:
        """The signature of a layer that this maker writes of a source of so many bytes."""
        ...

    def replaces(self, prompt_sig: str) -> bool:
        """Whether layers under this signature may be written over."""
        ...

    def difference(self, stored: str, wanted: str) -> PlanReason | None:
        """Why a layer under the one signature is not as one under the other."""
        ...

    def cost(self, layers: Collection[Layer], *, folder: bool, size: int) -> list[Cost]:
        """What each of the layers costs; the first bears what they share."""
        ...

    def writer(self, source: Source, model: LayerModel) -> Callable[[Layer], str]:
        """What writes the layers of a source.

        It raises `BadAnswerError` or `ProviderError` when the model breaks.
        """
        ...


class ExtractiveGenerator:
    """`LayerGenerator` without a model. It leaves alone what others wrote."""

    def __init__(self, summarizer: ExtractiveSummarizer) -> None:
        self._summarizer = summarizer
        self.model: str = summarizer.signature

    def prompt_sig(self, layer: Layer, *, folder: bool, size: int) -> str:
        """The summariser's signature."""
        return self._summarizer.signature

    def replaces(self, prompt_sig: str) -> bool:
        """Whether an extractive summariser wrote it."""
        return prompt_sig.startswith(f"{SIGNATURE_PREFIX}-")

    def difference(self, stored: str, wanted: str) -> PlanReason | None:
        """ "prompt" where its version or options are others."""
        return None if stored == wanted else "prompt"

    def cost(self, layers: Collection[Layer], *, folder: bool, size: int) -> list[Cost]:
        """Nothing."""
        return [Cost() for _ in layers]

    def writer(self, source: Source, model: LayerModel) -> Callable[[Layer], str]:
        """Passages of the source."""
        summarizer, document = self._summarizer, source.document
        if document is None:
            made = summarizer.summarize_dataset(source.children)
            texts = {Layer.ABSTRACT: made.abstract, Layer.OVERVIEW: made.overview}
        else:
            outline = read_outline(document.system.outline, document.content)
            context = summarizer.summarize_code(
                document.content, name=document.name, parts=outline.parts if outline else ()
            ) or summarizer.summarize_document(
                document.content, title=text_of(document.metadata, "title") or None
            )
            texts = {Layer.ABSTRACT: context.abstract, Layer.OVERVIEW: context.overview}
        return texts.__getitem__


class LLMGenerator:
    """Generate layers with a language model, in parts where the input exceeds one prompt.

    It writes over all layers but those without a ``prompt_sig``, which people wrote.
    """

    def __init__(
        self,
        llm: LLM,
        prompts: LayerPrompts,
        *,
        input_tokens: int,
        abstract_max_tokens: int = ABSTRACT_MAX_TOKENS,
        overview_max_tokens: int = OVERVIEW_MAX_TOKENS,
    ) -> None:
        check_llm(llm)
        check_whole(input_tokens, "input_tokens", least=64)
        self.model: str = llm.signature
        self._prompts = prompts
        self._limit = BYTES_A_TOKEN * input_tokens
        self._ceilings = {
            Layer.ABSTRACT: check_whole(abstract_max_tokens, "abstract_max_tokens", least=1),
            Layer.OVERVIEW: check_whole(overview_max_tokens, "overview_max_tokens", least=1),
        }

    def prompt_sig(self, layer: Layer, *, folder: bool, size: int) -> str:
        """Digests of the prompt and of the model, apart, so that a plan can tell which changed.

        Where the source is read in parts, how they are read belongs to the prompt.
        """
        parts = [FRAME, self._prompts.of(layer, folder=folder)]
        if size > self._limit:
            parts += [self._prompts.part, str(self._limit)]
        return f"llm-1/{digest('prompt', *parts)}/{digest('model', self.model)}"

    def replaces(self, prompt_sig: str) -> bool:
        """Whether anything but a person wrote it."""
        return prompt_sig != ""

    def difference(self, stored: str, wanted: str) -> PlanReason | None:
        """ "prompt" where the prompts differ, "model" where only the model does, or is unknown."""
        if stored == wanted:
            return None
        old, new = _SIGNATURE.fullmatch(stored), _SIGNATURE.fullmatch(wanted)
        return "prompt" if old and new and old[1] != new[1] else "model"

    def cost(self, layers: Collection[Layer], *, folder: bool, size: int) -> list[Cost]:
        """A token for four bytes, and answers of the length that the prompts ask for."""
        shared, shown = Cost(), size
        while shown > self._limit:
            # Parts end at breaks, so they are a little shorter than they might be.
            calls = -(-shown * 5 // (self._limit * 4))
            overhead = calls * self._overhead(self._prompts.part)
            shared += Cost(
                calls=calls,
                input_tokens=shown // 4 + overhead,
                output_tokens=calls * _NOTES_TOKENS,
                part_calls=calls,
            )
            shorter = calls * 4 * _NOTES_TOKENS
            if shorter >= shown:
                break
            shown = shorter
        costs = []
        for layer in layers:
            prompt = self._prompts.of(layer, folder=folder)
            written = _ABSTRACT_TOKENS if layer is Layer.ABSTRACT else _OVERVIEW_TOKENS
            own = Cost(
                calls=1 if size else 0,
                input_tokens=self._overhead(prompt) + -(-shown // 4) if size else 0,
                output_tokens=written if size else 0,
            )
            costs.append(shared + own)
            shared = Cost()
        return costs

    def least(self) -> Usage:
        """What no call that writes a layer or a note takes less than."""
        prompts = [
            *(
                self._prompts.of(layer, folder=folder)
                for layer in Layer
                if layer in self._ceilings
                for folder in (False, True)
            ),
            self._prompts.part,
        ]
        return Usage(
            input_tokens=min(estimate_tokens(prompt) for prompt in prompts),
            output_tokens=min(*self._ceilings.values(), _NOTES_MAX_TOKENS),
        )

    @staticmethod
    def _overhead(prompt: str) -> int:
        return estimate_tokens(prompt) + estimate_tokens(FRAME) + 40

    def writer(self, source: Source, model: LayerModel) -> Callable[[Layer], str]:
        """Asks for each layer; the notes on parts are shared by both, and kept by the journal."""
        return _Writer(source, model, self._prompts, self._limit, self._ceilings, self.model).write


@attrs.define(eq=False)
class _Writer:
    """The layers of one source."""

    _source: Source
    _model: LayerModel
    _prompts: LayerPrompts
    _limit: int
    _ceilings: Mapping[Layer, int]
    _signature: str
    _shown: tuple[str, str] | None = attrs.field(default=None, init=False)
    _broken: BadAnswerError | None = attrs.field(default=None, init=False)

    def write(self, layer: Layer) -> str:
        if self._broken is not None:
            raise self._broken  # a part that broke the model breaks the other layer, too
        if self._shown is None:
            try:
                self._shown = self._gathered()
            except BadAnswerError as error:
                self._broken = error
                raise
        shown, note = self._shown
        if not shown.strip():
            return ""
        prompt = self._prompts.of(layer, folder=self._source.document is None)
        said = self._ask(prompt, shown, note, self._ceilings[layer])
        return " ".join(said.split()) if layer is Layer.ABSTRACT else said

    def _gathered(self) -> tuple[str, str]:
        """The text to show and what to say of it: all of the source, or notes on its parts."""
        document, lines = self._source.document, self._source.lines()
        if self._source.size <= self._limit:
            self._model.prune_notes(())  # it may have been longer once
            return ("\n".join(lines) if document is None else document.content), ""
        if document is None:
            parts = lines_in_parts(lines, self._limit)
        else:
            parts = text_in_parts(document.content, self._limit)
        used: set[str] = set()
        while True:
            noted = self._noted(parts, used)
            shown = "\n\n".join(noted)
            if len(shown.encode()) <= self._limit:
                break
            shorter = lines_in_parts(noted, self._limit)
            if len(shorter) >= len(parts):
                raise BadAnswerError(
                    "endless", "the notes on the parts are as long as the parts themselves"
                )
            parts = shorter
        self._model.prune_notes(used)
        return shown, f"These are notes on the {len(noted):,} parts of one text, in their order."

    def _noted(self, parts: Sequence[str], used: set[str]) -> list[str]:
        known = self._model.notes
        noted = []
        for number, part in enumerate(parts, 1):
            if not part.strip():
                continue
            key = digest("note", FRAME, self._prompts.part, self._signature, part)
            said = known.get(key)
            if said is None:
                place = f"This is part {number:,} of {len(parts):,}."
                try:
                    said = self._ask(self._prompts.part, part, place, _NOTES_MAX_TOKENS)
                except BadAnswerError as error:
                    raise BadAnswerError(
                        error.reason, f"part {number:,} of {len(parts):,}: {error}"
                    ) from error
                self._model.put_note(key, said)
            used.add(key)
            noted.append(f"Part {number:,}:\n{said}")
        return noted

    def _ask(self, prompt: str, text: str, note: str, ceiling: int) -> str:
        answer = self._model.ask(data_messages(prompt, text, note), max_tokens=ceiling)
        return checked(answer, text=text, prompt=prompt, ceiling=ceiling)


def text_in_parts(text: str, limit: int) -> list[str]:
    """``text``, its line ends unified, in parts of at most ``limit`` bytes of UTF-8.

    Joined, the parts are the whole. They begin at headings where those are not too far apart,
    else at the best break there is; none but the last is shorter than an eighth of the limit.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text.encode()) <= limit:
        return [text]
    return list(_parts(text, max(limit, 8)))


def _parts(text: str, limit: int) -> Iterator[str]:
    starts = [section.start for section in sections(text)]
    start = 0
    while start < len(text):
        end = start + _fitting(text, start, limit)
        if end < len(text):
            heading = starts[bisect_right(starts, end) - 1] if starts else 0
            quarter = (end - start) // 4
            if heading > start + quarter:
                end = heading
            elif quarter:
                end = min(max(break_before(text, start + 2 * quarter, end), start + 1), end)
        yield text[start:end]
        start = end


def _fitting(text: str, start: int, limit: int) -> int:
    """How many code points from ``start`` on take at most ``limit`` bytes."""
    data = text[start : start + limit].encode()
    return len(data[:limit].decode(errors="ignore"))


def lines_in_parts(lines: Iterable[str], limit: int) -> list[str]:
    """The lines in parts of at most ``limit`` bytes; a line that is longer is cut as text is."""
    parts: list[str] = []
    gathered: list[str] = []
    size = 0
    for line in lines:
        for piece in text_in_parts(line, limit):
            more = len(piece.encode()) + 1
            if gathered and size + more > limit + 1:
                parts.append("\n".join(gathered))
                gathered, size = [], 0
            gathered.append(piece)
            size += more
    if gathered:
        parts.append("\n".join(gathered))
    return parts
