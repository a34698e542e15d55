"""Layers without a model: what is written, what is left alone, and when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import triptych.deadlines
from support.extractive_layers import build_layers
from triptych import Progress
from triptych.errors import CancelledError, NotFoundError, StoreError
from triptych.layers import ExtractiveSummarizer, LayerBuilder
from triptych.records import DocumentContext
from triptych.service import Service
from triptych_backends.memory import MemoryStore

BROKER = "# Kettle\n\nKettle is a message broker for small devices.\n"
TEA = "# Tea\n\nTea is made of leaves and hot water in a kettle.\n"


@pytest.fixture
def service() -> Iterator[Service]:
    store = MemoryStore()
    with Service(store) as opened:
        opened.put_document("docs", "broker.md", BROKER)
        opened.put_document("docs", "tea.md", TEA)
        yield opened


def _content(service: Service, name: str, layer: str) -> str:
    stored = service.layer("docs", name, layer)
    assert stored is not None
    return stored.content


def test_all_layers_are_written_once_and_are_fresh_after(service: Service) -> None:
    report = build_layers(service, "docs")
    assert (report.made, report.failed) == (6, ())
    assert _content(service, "tea.md", "L0") == "Tea is made of leaves and hot water in a kettle."
    assert [layer.stale for layer in service.layers("docs")] == [None] * 6
    assert LayerBuilder(service, ExtractiveSummarizer()).plan("docs").is_empty
    assert build_layers(service, "docs").made == 0


def test_only_what_changed_is_written_again(service: Service) -> None:
    build_layers(service, "docs")
    service.put_document(
        "docs", "tea.md", "# Tea\n\nTea is a drink that people have had for ages.\n"
    )
    before = {(each.doc_name, each.layer): each for each in service.layers("docs")}
    assert build_layers(service, "docs").made == 4
    after = {(each.doc_name, each.layer): each for each in service.layers("docs")}
    assert {name for name, _ in after if after[name, _] != before[name, _]} == {"", "tea.md"}
    assert _content(service, "tea.md", "L0") == "Tea is a drink that people have had for ages."
    overview = service.dataset_layer("docs", "L1")
    assert overview is not None
    assert overview.stale is None
    assert "ages" in overview.content


def test_layers_of_others_stay_and_stale_ones_are_reported(service: Service) -> None:
    service.put_document_layer("docs", "tea.md", "L0", "By hand.", prompt_sig="")
    service.put_dataset_layer("docs", "L0", "By hand too.", prompt_sig="a-model")
    builder = LayerBuilder(service, ExtractiveSummarizer())
    plan = builder.plan("docs")
    assert (plan.kept, plan.kept_names) == (0, ())
    builder.apply(plan)
    service.put_document(
        "docs", "tea.md", "# Tea\n\nTea is a drink that people have had for ages.\n"
    )
    plan = builder.plan("docs")
    assert (plan.kept, plan.kept_of_models, plan.kept_names) == (2, 1, ("tea.md", ""))
    builder.apply(plan)
    assert _content(service, "tea.md", "L0") == "By hand."
    assert "ages" in _content(service, "tea.md", "L1")
    abstract = service.dataset_layer("docs", "L0")
    assert abstract is not None
    assert abstract.content == "By hand too."


def test_other_options_replace_extractive_layers(service: Service) -> None:
    build_layers(service, "docs")
    other = ExtractiveSummarizer(abstract_tokens=50)
    assert build_layers(service, "docs", summarizer=other).made == 6
    assert {layer.sig.prompt_sig for layer in service.layers("docs")} == {other.signature}


def test_only_the_named_documents_are_looked_at(service: Service) -> None:
    with pytest.raises(NotFoundError, match=r"nothing\.md"):
        build_layers(service, "docs", names=["tea.md", "nothing.md"])
    assert build_layers(service, "docs", names=["tea.md"]).made == 4
    assert service.layer("docs", "broker.md", "L0") is None


class _FailsOnTea(ExtractiveSummarizer):
    def summarize_document(self, content: str, *, title: str | None = None) -> DocumentContext:
        if "Tea" in content:
            raise StoreError("this one cannot be read")
        return ExtractiveSummarizer.summarize_document(self, content, title=title)


def test_one_document_that_fails_stops_no_other(service: Service) -> None:
    report = build_layers(service, "docs", summarizer=_FailsOnTea())
    assert [(failure.name, str(failure.error)) for failure in report.failed] == [
        ("tea.md", "this one cannot be read")
    ]
    assert (report.made, report.stopped) == (4, None)
    assert service.layer("docs", "broker.md", "L0") is not None


class _EditsMeanwhile(ExtractiveSummarizer):
    """Somebody edits each document just after it was read, the first ``edits`` times."""

    service: Service
    edits: int

    def summarize_document(self, content: str, *, title: str | None = None) -> DocumentContext:
        if type(self).edits and "Tea" in content:
            type(self).edits -= 1
            type(self).service.put_document("docs", "tea.md", content + "\nAnd more.\n")
        return ExtractiveSummarizer.summarize_document(self, content, title=title)


@pytest.mark.parametrize(("edits", "failures"), [(1, 0), (2, 1)])
def test_a_document_that_changes_meanwhile_is_tried_once_more(
    service: Service, edits: int, failures: int
) -> None:
    _EditsMeanwhile.service, _EditsMeanwhile.edits = service, edits
    report = build_layers(service, "docs", summarizer=_EditsMeanwhile())
    assert [failure.name for failure in report.failed] == ["tea.md"] * failures
    assert report.made == 6 - 2 * failures


def test_progress_is_reported_per_document(service: Service) -> None:
    seen: list[Progress] = []
    build_layers(service, "docs", progress=seen.append)
    assert len(seen) == 3  # two documents and the dataset
    assert (seen[-1].done, seen[-1].total) == (6, 6)


def test_a_deadline_ends_it_between_documents(service: Service) -> None:
    with triptych.deadlines.deadline(0), pytest.raises(CancelledError):
        build_layers(service, "docs")


def test_an_unknown_dataset_is_said_to_be_so(service: Service) -> None:
    with pytest.raises(NotFoundError):
        build_layers(service, "elsewhere")
