"""`LayerBuilder`: brings the layers of a dataset up to date, with the cost known in advance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from triptych._internal.progress import ProgressCallback
from triptych.contracts import LLM
from triptych.derivation.folder_tree import is_folder
from triptych.derivation.layer_journal import LayerJournal, MemorySettings, has_source
from triptych.errors import NotFoundError, ValidationError
from triptych.layers.builder.budget import BudgetedLLM, Ceilings
from triptych.layers.builder.execution import Run
from triptych.layers.builder.generators import ExtractiveGenerator, LayerGenerator, LLMGenerator
from triptych.layers.builder.plan import LAYERS, Scope, make_plan
from triptych.layers.builder.records import LayerPlan, LayerPrompts, LayerReport
from triptych.layers.extractive import ExtractiveSummarizer
from triptych.layers.generation import ABSTRACT_MAX_TOKENS, OVERVIEW_MAX_TOKENS
from triptych.records import ModelUsage, Prices, QuarantinedLayer, check_text, check_whole
from triptych.records.models import MOST_ATTEMPTS, Retries
from triptych.service import KnowledgeBase, service_of

RESERVED_TOKENS: Final = 2_692
"""What a prompt and the longest answer take beside the input."""

INPUT_TOKENS: Final = 8_192 - RESERVED_TOKENS
"""What is shown of an input in one prompt, unless told otherwise."""

_FORGETFUL: Final = (
    "this store keeps no settings: what was quarantined and what was used "
    "is forgotten with the LayerBuilder"
)


class LayerBuilder:
    """Plans and makes abstracts (L0) and overviews (L1) of documents, folders and a dataset.

    A document's are made from its content, a folder's from the abstracts directly in it, the
    dataset's likewise; a folder is what document names have before a "/". Thread-safe.
    """

    def __init__(
        self,
        service: KnowledgeBase,
        llm: LLM | ExtractiveSummarizer | None = None,
        *,
        prompts: LayerPrompts | None = None,
        input_tokens: int = INPUT_TOKENS,
        abstract_max_tokens: int = ABSTRACT_MAX_TOKENS,
        overview_max_tokens: int = OVERVIEW_MAX_TOKENS,
        prices: Prices | None = None,
        retries: int = 2,
        retry_base: float = 1.0,
        patience: int = 10,
    ) -> None:
        """Build layers of ``service``.

        Args:
            service: the knowledge base.
            llm: what writes. None: the model that ``service`` was wired with, and without one
                the extractive summariser, which is also given to have no model write.
            prompts: the instructions for the model; None for those that ship.
            input_tokens: how much of an input one prompt shows, in tokens as
                `estimate_tokens` counts them; what is longer is read in parts. At least 64. The
                default leaves room for prompt and answer in a context of 8,192 tokens.
            abstract_max_tokens, overview_max_tokens: the ceilings of an answer.
            prices: what tokens cost, for ``max_cost`` and the ledger.
            retries: how often a call that the provider failed is made again.
            retry_base: seconds before the first of them, at most; each may wait twice as long.
            patience: after so many artifacts in a row that the provider failed, `apply` ends.

        Raises:
            ValidationError: an argument is invalid.
            NotAvailableError: ``service`` is a client.
        """
        check_whole(patience, "patience", least=1)
        self._service = service_of(service, "making layers")
        self._prices = prices
        check_whole(retries, "retries", most=MOST_ATTEMPTS - 1)
        self._retries = Retries(attempts=1 + retries, base=retry_base)
        self._patience = patience
        maker = service.llm if llm is None else llm
        self._llm: LLM | None = None
        self._maker: LayerGenerator
        if maker is None or isinstance(maker, ExtractiveSummarizer):
            self._maker = ExtractiveGenerator(maker or ExtractiveSummarizer())
        else:
            self._llm = maker
            self._maker = LLMGenerator(
                maker,
                prompts or LayerPrompts(),
                input_tokens=input_tokens,
                abstract_max_tokens=abstract_max_tokens,
                overview_max_tokens=overview_max_tokens,
            )
        settings = service.capabilities.settings
        self._journal: LayerJournal = LayerJournal(settings or MemorySettings())
        self._warnings: tuple[str, ...] = () if settings else (_FORGETFUL,)

    @property
    def model(self) -> str:
        """The signature of what writes: a language model's, or the summariser's."""
        return self._maker.model

    def plan(
        self,
        dataset_id: str,
        *,
        names: Collection[str] | None = None,
        retry_quarantined: bool = False,
        rewrite: bool = False,
    ) -> LayerPlan:
        """What is stale, why, and what it costs to make. Nothing is written, no model asked.

        Args:
            dataset_id: the dataset.
            names: documents and folders to look at, with the folders around them; None for all.
                A folder stands for all that is in it, and may be written without its slash.
            retry_quarantined: count, and then try again, what broke the model before.
            rewrite: replace stale layers that a person wrote (those without a ``prompt_sig``).

        Raises:
            NotFoundError: the dataset does not exist, or no document or folder of a name.
            CancelledError: the deadline passed.
        """
        check_text(dataset_id, "dataset_id")
        if isinstance(names, str):
            raise ValidationError("names takes several document names: give a list")
        scope = Scope(
            service=self._service,
            dataset_id=dataset_id,
            maker=self._maker,
            journal=self._journal,
            names=None if names is None else frozenset(self._named(dataset_id, names)),
            retry_quarantined=retry_quarantined,
            rewrite=rewrite,
        )
        return make_plan(scope, self._warnings)

    def _named(self, dataset_id: str, names: Collection[str]) -> Iterator[str]:
        service = self._service
        service.list_documents(dataset_id, limit=1)  # raises if the dataset does not exist
        for name in names:
            check_text(name, "a name")
            folder = name if is_folder(name) else f"{name}/"
            documents = service.list_documents(dataset_id, prefix=name, limit=1)
            if documents and documents[0].name == name:
                yield name
            elif service.list_documents(dataset_id, prefix=folder, limit=1) or any(
                service.layer_repo.get(dataset_id, folder, layer) for layer in LAYERS
            ):
                yield folder
            else:
                raise NotFoundError(f"there is no document or folder {name!r} in {dataset_id!r}")

    def apply(
        self,
        plan: LayerPlan,
        *,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        concurrency: int = 4,
        progress: ProgressCallback | None = None,
    ) -> LayerReport:
        """Make what is stale in the plan's scope, and store each artifact at once.

        What is stale is looked up again: what was made since is not made twice, what changed
        since is. Documents come first, then folders, the innermost first, then the dataset; a
        folder is left alone when the abstracts in it come out as they were. Ceilings hold for
        this call, and the next plan goes on where it stopped. A layer that would exceed
        the remaining tokens or cost is skipped in favour of smaller ones; the folders around it
        wait, unless it would exceed the whole limit.

        Args:
            plan: one of this builder's.
            max_calls: the maximum number of calls of the model, failed attempts included.
            max_tokens: the most tokens, in and out.
            max_cost: the most that they cost, by ``prices``.
            concurrency: how many documents or folders are worked on at a time, 1 to 64; each
                asks the model once at a time.
            progress: told after each of them, in the caller's thread.

        Raises:
            ValidationError: the plan is another builder's, or an argument is invalid.
            CancelledError: the deadline passed; what was made stays.
            ConflictError, ModelMismatchError: the dataset has another configuration: rebuild it.
            StoreError: the store failed; what was made stays. Without a model, what it refuses of
                one document or folder while it answers stands in ``failed``: the others are made.
        """
        scope = plan.scope
        if not isinstance(scope, Scope) or scope.maker is not self._maker:
            raise ValidationError("apply takes a plan that this builder made")
        check_whole(concurrency, "concurrency", least=1, most=64)
        if max_cost is not None and self._prices is None:
            raise ValidationError("max_cost needs prices: give them to the LayerBuilder")
        ceilings = Ceilings(max_calls=max_calls, max_tokens=max_tokens, max_cost=max_cost)
        if plan.is_empty:
            return LayerReport(warnings=plan.warnings)
        meter = None
        if isinstance(self._maker, LLMGenerator) and self._llm is not None:
            # A store that cannot be written is found out before anything is paid for.
            self._journal.record_usage(plan.dataset_id, ModelUsage(model=self.model))
            meter = BudgetedLLM(
                self._llm,
                self._journal,
                plan.dataset_id,
                ceilings=ceilings,
                prices=self._prices,
                retries=self._retries,
                least=self._maker.least(),
            )
        run = Run(plan, scope, meter, workers=concurrency, patience=self._patience)
        return run.execute(progress)

    def ledger(self, dataset_id: str) -> Sequence[ModelUsage]:
        """What making the dataset's layers cost so far, by model."""
        return self._journal.usage(dataset_id)

    def quarantined(self, dataset_id: str) -> Sequence[QuarantinedLayer]:
        """What broke a model, by name; some of it may have changed since."""
        return [
            each
            for each in self._journal.quarantined(dataset_id)
            if has_source(self._service.documents, dataset_id, each.doc_name)
        ]
