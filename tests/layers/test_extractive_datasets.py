"""A dataset's extractive layers, from the abstracts of its documents."""

from __future__ import annotations

from triptych.layers import ExtractiveSummarizer, estimate_tokens
from triptych.records import DocumentSummary


def _summaries(count: int, folder: str) -> list[DocumentSummary]:
    return [
        DocumentSummary(
            name=f"{folder}page{number:03}.md",
            abstract=f"Valve number {number} of the plant opens when the pressure rises.",
        )
        for number in range(count)
    ]


def test_few_documents_are_all_listed_in_order_of_name() -> None:
    made = ExtractiveSummarizer().summarize_dataset(_summaries(3, "")[::-1])
    assert made.overview == "\n".join(
        f"- page{number:03}.md: Valve number {number} of the plant opens when the pressure rises."
        for number in range(3)
    )
    assert made.abstract in made.overview


def test_every_folder_has_its_say_when_not_all_fit() -> None:
    summaries = _summaries(200, "guide/") + _summaries(2, "api/")
    summaries.append(DocumentSummary(name="README.md", abstract="The handbook of the plant."))
    made = ExtractiveSummarizer(overview_tokens=300).summarize_dataset(summaries)
    assert estimate_tokens(made.overview) <= 300
    assert "## guide/ (200)" in made.overview
    assert "## api/ (2)" in made.overview
    assert "- README.md: The handbook of the plant." in made.overview


def test_the_document_that_introduces_the_others_gives_the_abstract() -> None:
    summaries = _summaries(20, "guide/")
    summaries.append(
        DocumentSummary(name="README.md", abstract="The plant has many valves, explained here.")
    )
    made = ExtractiveSummarizer().summarize_dataset(summaries)
    assert made.abstract == "The plant has many valves, explained here."


def test_no_documents_no_layers_and_no_abstract_no_line_lost() -> None:
    summarizer = ExtractiveSummarizer()
    assert summarizer.summarize_dataset([]).overview == ""
    made = summarizer.summarize_dataset([DocumentSummary(name="a.bin", abstract=" ")])
    assert (made.abstract, made.overview) == ("", "- a.bin")
