"""Where a document has neither title nor headings, the words of its name are embedded."""

import pytest

import triptych
from support.rows import each_row
from triptych.chunking import embedded_title
from triptych.errors import ProviderError
from triptych_testing import FakeEmbedder


@each_row(
    ("name", "words"),
    [
        ("reports/3M_2018_10K.pdf", "3M 2018 10K"),
        ("meeting-notes_2024.txt", "meeting notes 2024"),
        ("doc 20", "doc 20"),
        ("report.v2.final.txt", "report v2 final"),
        ("annualreport2023.docx", "annualreport2023"),
        ("src/app/base.py", "base"),
        ("notes/笔记.txt", "笔记"),
        ("a489", ""),
        ("a.txt", ""),
        ("2024-05-01T10_22.md", ""),
        ("4983", ""),
        ("550e8400-e29b-41d4-a716-446655440000.txt", ""),
        ("D41D8CD98F00B204E9800998ECF8427E", ""),
        ("01HX5Z3N8Q9W7V6T5R4S3P2M1K", ""),
        ("folder/", ""),
        ("", ""),
    ],
)
def test_a_name_says_something_if_it_has_words(name: str, words: str) -> None:
    assert embedded_title(name, {}, [()]) == words


def test_a_title_or_any_heading_takes_the_place_of_the_name() -> None:
    assert embedded_title("acme.txt", {}, [(), ()]) == "acme"
    assert embedded_title("acme.txt", {}, [(), ("| Year | Sales |",)]) == "acme"
    assert embedded_title("acme.txt", {"title": "Acme Ltd"}, [()]) == "Acme Ltd"
    assert embedded_title("acme.txt", {}, [(), ("Sales",)]) == ""


def test_a_rename_embeds_only_documents_without_title_and_headings() -> None:
    embedder = FakeEmbedder()
    texts = {"txt": "Sales rose.", "md": "# Sales\n\nThey rose."}
    with triptych.open("memory://", embedder=embedder) as kb:
        for name in ("acme_2018", "moved/acme_2018", "zeta_2018"):
            for ending, text in texts.items():
                kb.put_document("d", f"{name}.{ending}", text)
        assert embedder.texts == [
            "acme 2018\nSales rose.",
            "Sales\n# Sales\n\nThey rose.",
            "zeta 2018\nSales rose.",
        ]
        assert kb.stats("d")[0].stale == 0
        assert kb.doctor().clean


def test_vectors_that_come_later_are_of_the_same_text() -> None:
    embedder = FakeEmbedder(failures={call: ProviderError("away") for call in range(1, 9)})
    with triptych.open("memory://", embedder=embedder) as kb:
        texts = {"acme_2018.txt": "Sales rose.", "acme_2019.md": "# Sales\n\nThey rose."}
        with pytest.raises(triptych.DerivationError):
            kb.put_documents("d", texts)
        assert kb.stats("d")[0].pending
        embedder.failures.clear()
        embedder.texts.clear()
        kb.rebuild(dataset_id="d")
        assert sorted(embedder.texts) == [
            "Sales\n# Sales\n\nThey rose.",
            "acme 2018\nSales rose.",
        ]
