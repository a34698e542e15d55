"""A chunk that begins inside a table carries the table's head in its heading path."""

import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from support.rows import each_row
from triptych.chunking import ChunkSpec, MarkdownChunker, embedding_text
from triptych.text import headings_in, titles_of

HEAD = "| Id | Article |  Count |\n|----|:--------|------:|"


def rows(end: int, first: int = 1) -> str:
    return "\n".join(f"| {at} | item{at:03} of the depot | {3 * at} |" for at in range(first, end))


def texts(content: str, chunker: MarkdownChunker) -> list[str]:
    return [
        embedding_text(None, spec.heading_path, content[spec.start : spec.end])
        for spec in chunker.chunk(content)
    ]


def chunks(content: str, size: int = 300, overlap: int = 0) -> list[ChunkSpec]:
    return MarkdownChunker(size=size, overlap=overlap).chunk(content)


@pytest.mark.parametrize("overlap", [0, 60])
def test_each_further_chunk_of_a_table_has_its_head(overlap: int) -> None:
    content = f"# Stock\n\nWhat is there.\n\n{HEAD}\n{rows(60)}\n\n{'Said after it. ' * 30}\n"
    found = chunks(content, overlap=overlap)
    assert len(found) > 5
    for spec in found:
        headed = spec.start > content.index(HEAD) and spec.start < content.index("Said")
        assert spec.heading_path == ("Stock", "| Id | Article | Count |")[: 1 + headed]


@each_row(
    ("table", "head"),
    [
        ("a | b\n--- | ---\n" + "some words | other words\n" * 40, "| a | b |"),
        ("These are they:\n| a |\n| - |\n" + "| some words |\n" * 60, "| a |"),
        ("- of a list\n\n  | a | b |\n  |---|---|\n" + "  | some | words |\n" * 60, "| a | b |"),
        ("> | a | b |\n> |---|---|\n" + "> | some | words |\n" * 60, "| a | b |"),
        ("| a \\| b | c |\n|---|---|\n" + "| some | words |\n" * 60, "| a \\| b | c |"),
        ("| | b |\n|---|---|\n" + "| some | words |\n" * 60, "|  | b |"),
        ("| | |\n|---|---|\n" + "| some | words |\n" * 60, ""),
        ("a | b\n" + "some | words\n" * 60, ""),
        (
            "<table>\n<thead>\n<tr>\n<th>a</th>\n<th><b>b</b> c</th>\n</tr>\n</thead>\n"
            + "<tr><td>some</td><td>words</td></tr>\n" * 40
            + "</table>",
            "| a | b c |",
        ),
    ],
)
def test_what_is_the_head_of_a_table(table: str, head: str) -> None:
    for spec in chunks(f"# Stock\n\n{table}\n")[1:]:
        assert spec.heading_path == (("Stock", head) if head else ("Stock",))


def test_a_wide_head_is_cut_between_its_cells() -> None:
    names = [f"column number {at}" for at in range(40)]
    rule = "|---" * 40
    path = chunks(f"| {' | '.join(names)} |\n{rule}|\n{rows(60)}\n")[-1].heading_path
    assert len(path) == 1
    assert len(path[0]) <= 200
    cells = path[0].strip("| ").split(" | ")
    assert cells[-1] == "…"
    assert cells[:-1] == names[: len(cells) - 1]


def test_an_edited_row_embeds_only_its_chunk_and_an_edited_head_all_of_its_table() -> None:
    before = f"# Stock\n\n{HEAD}\n{rows(80)}\n\n## Other\n\n{HEAD}\n{rows(160, 100)}\n"
    chunker = MarkdownChunker(size=300)
    known = set(texts(before, chunker))
    row = before.replace("item040 of the depot", "item040 of the depots")
    assert len(set(texts(row, chunker)) - known) <= 2
    head = before.replace("Article", "Wares", 1)
    assert len(set(texts(head, chunker)) - known) == sum("Other" not in each for each in known)


LINES = ["| a | b |", "|---|---|", "| some | words |", "text", "", "a | b", "--|--"]


@settings(max_examples=examples(300), deadline=None)
@given(lines=st.lists(st.sampled_from(LINES), max_size=30))
def test_the_head_of_a_chunk_stands_before_it(lines: list[str]) -> None:
    content = "\n".join(lines)
    for spec in chunks(content, size=24):
        for head in spec.heading_path[len(titles_of(spec.heading_path)) :]:
            above = [f"| {line.strip('| ')} |" for line in content[: spec.start + 1].split("\n")]
            assert head in above[:-1]


def test_a_head_is_found_and_shown_and_is_no_section() -> None:
    content = f"# Stock\n\n{HEAD}\n{rows(200)}\n\n## Rest\n\nMore.\n"
    with triptych.open("memory://", embedder="hash") as kb:
        kb.put_document("d", "stock.md", content)
        (hit,) = kb.search("article item150", dataset_id="d", top_k=1).hits
        assert hit.content in content
        assert "Article" not in hit.content
        assert hit.heading_path == ("Stock", "| Id | Article | Count |")
        shown = kb.context("item150", dataset_id="d", token_budget=800)
        assert all("Article" in shown.render(each) for each in ("text", "markdown", "xml", "json"))
        for piece in shown.pieces:
            assert content[piece.citation.start : piece.citation.end] == piece.text
        where = {"heading": "| id | article | count |"}
        assert not kb.search("item150", dataset_id="d", where=where).hits
        assert kb.search("item150", dataset_id="d", where={"heading": "stock"}).hits
        assert not kb.doctor().findings
    assert headings_in(("Stock", "| Id |")) == {"stock"}
