"""The reference page is whole: every name of the Go package, each counterpart, each test named."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import attrs

import triptych
from support.doc_pages import named
from triptych_testing import failures

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/flowcraft.md"
KIT = ROOT / "knowledge/triptych_testing"
_ROW = re.compile(r"\| ([A-Za-z0-9.]+) \| (?:`([A-Za-z0-9_.]+)`|–) \|")

_NAMES = """
AbstractPrompt BM25Retriever BM25Retriever.Chunks BM25Retriever.Name CJKTokenizer Candidate
ChangeEvent ChunkConfig ChunkConfig.ChunkOverlap ChunkConfig.ChunkSize ChunkConfigSig ChunkQuery
ChunkRepo ChunkRepo.DeleteByDataset ChunkRepo.DeleteByDoc ChunkRepo.Replace ChunkRepo.Search
ChunkSigReader ChunkSigReader.GetDocSig ChunkSpec ChunkText Chunker ContextLayer CorpusStats
CosineSimilarity DatasetContext DatasetContext.Abstract DatasetContext.Overview
DatasetOverviewPrompt DefaultChunkConfig DefaultPromptInputLimit DefaultRRFK DefaultThreshold
DerivedChunk DerivedChunk.Content DerivedChunk.DatasetID DerivedChunk.DocName DerivedChunk.Index
DerivedChunk.Offset DerivedChunk.Sig DerivedChunk.Vector DerivedLayer DerivedLayer.Content
DerivedLayer.DatasetID DerivedLayer.DocName DerivedLayer.Layer DerivedLayer.Sig
DerivedLayer.Vector DerivedSig DerivedSig.IsStale DetectTokenizer DocLevelSearcher
DocLevelSearcher.SearchDocs DocVectorSearcher DocVectorSearcher.SearchDocsByVector
DocumentContext DocumentRepo DocumentRepo.Delete DocumentRepo.Get DocumentRepo.List
DocumentRepo.ListDatasets DocumentRepo.Put DocumentSummary Embedder EventKind EventNotifier
EventNotifier.Close EventNotifier.Events EventReloader EventReloader.Close ExtractKeywords
GenerateDatasetContext GenerateDocumentContext Hit Hit.ChunkIndex Hit.Content Hit.DatasetID
Hit.DocName Hit.Layer Hit.Metadata Hit.Score Hit.Sig IsValidLayer IsValidMode Layer LayerQuery
LayerQuery.DatasetIDs LayerQuery.Layer LayerQuery.Mode LayerQuery.Text LayerQuery.TopK
LayerQuery.Vector LayerRepo LayerRepo.DeleteByDataset LayerRepo.DeleteByDoc LayerRepo.Get
LayerRepo.Put LayerRepo.Search LayerRetriever LayerRetriever.Name LayerRetriever.Recall Mode
NewBM25Retriever NewCorpusStats NewDefaultChunker NewEventReloader NewLayerRetriever
NewRRFRanker NewSearchEngine NewService NewVectorRetriever OverviewPrompt Query Query.DatasetID
Query.Layer Query.Mode Query.Scope Query.Text Query.Threshold Query.TopK RRFRanker RRFRanker.K
Ranker RebuildScope RebuildScope.DatasetID RebuildScope.DocName Rebuilder Rebuilder.Rebuild
ReloaderOptions ResolveMode Result Result.Hits Retriever Retriever.Name Retriever.Recall Scope
ScoreText SearchEngine SearchEngine.Chunk SearchEngine.Layer SearchEngine.Rank SearchMode
Service Service.DatasetLayer Service.DeleteDocument Service.GetDocument Service.Layer
Service.ListDatasets Service.ListDocuments Service.PutDatasetLayer Service.PutDocument
Service.PutDocumentLayer Service.Rebuild Service.Search Service.SearchDocuments ServiceOptions
ServiceOptions.Chunker ServiceOptions.EmbedSig ServiceOptions.Embedder ServiceOptions.Now
SimpleTokenizer SourceDocument SourceDocument.Content SourceDocument.DatasetID
SourceDocument.Metadata SourceDocument.Name SourceDocument.UpdatedAt SourceDocument.Version
Tokenizer VectorRetriever VectorRetriever.Name
"""
NAMES = set(_NAMES.split())
WITHOUT = {"ContextLayer", "SearchMode", "ServiceOptions.Now"}
LINES = PAGE.read_text(encoding="utf-8").splitlines()
ROWS = [_ROW.match(line) for line in LINES]
TABLE = {row[1]: row[2] for row in ROWS if row and row[1] != "Go"}
_HEAD = re.compile(r"\| (?:Go|what) \|.*\| checked by \|")
_CHECKED = re.compile(r"`(?:([\w/]+)/)?(\w+\.py)::(test_\w+)`")
CHECKED = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in LINES
    if line.startswith("| ") and not _HEAD.fullmatch(line)
]
"""The rows of all tables, cell by cell; the last one names a test."""


@cache
def defined_in(folder: str, file: str) -> frozenset[str]:
    """The tests of a module: its functions, and the methods of its classes."""
    home = KIT if folder == "kit" else ROOT / "tests" / folder
    tree = ast.parse((home / file).read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    functions = [*tree.body, *(node for each in classes for node in each.body)]
    return frozenset(each.name for each in functions if isinstance(each, ast.FunctionDef))


def test_every_name_has_its_row_and_no_row_is_of_another() -> None:
    assert set(TABLE) == NAMES
    assert {name for name, counterpart in TABLE.items() if counterpart is None} == WITHOUT


def test_every_table_says_how_it_was_checked() -> None:
    heads = [head for head, rule in pairwise(LINES) if rule.startswith("|---")]
    assert heads
    assert all(_HEAD.fullmatch(head) for head in heads)
    assert {cells[0] for cells in CHECKED} > NAMES


def _names_a_test(cells: list[str]) -> None:
    assert len(cells) == 4
    found = _CHECKED.fullmatch(cells[-1])
    assert found is not None, cells[-1]
    folder, file, name = found.groups()
    assert name in defined_in(folder or "", file)


def test_every_row_names_a_test_that_there_is() -> None:
    assert failures(CHECKED, _names_a_test) == []


def test_what_has_no_counterpart_is_not_there() -> None:
    assert named("ContextLayer") is None
    assert named("SearchMode") is None
    assert not hasattr(triptych.ServiceOptions(), "now")


def _has_its_counterpart(name: str) -> None:
    counterpart = TABLE[name]
    assert counterpart is not None
    home, _, member = counterpart.partition(".")
    found = named(home)
    assert found is not None
    if member:
        fields = {each.name for each in attrs.fields(found)} if attrs.has(found) else set()
        assert member in fields or hasattr(found, member), counterpart


def test_counterpart_exists() -> None:
    assert failures(sorted(NAMES - WITHOUT), _has_its_counterpart) == []


def test_every_counterpart_is_imported_from_where_the_page_says() -> None:
    block = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    imported: dict[str, object] = {}
    exec(block, imported)
    homes = {counterpart.partition(".")[0] for counterpart in TABLE.values() if counterpart}
    assert set(imported) - {"__builtins__"} == homes
    for name in homes:
        assert imported[name] is not None


NADIR = ROOT / "docs/reference/nadir.md"
NADIR_LINES = NADIR.read_text(encoding="utf-8").splitlines()
NADIR_ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line, after in pairwise([*NADIR_LINES, ""])
    if line.startswith("| ") and not after.startswith("|---")
]


def _row_of_nadir_names_a_test(cells: list[str]) -> None:
    assert len(cells) in (3, 4)  # an empty third cell leaves no separator of its own
    found = _CHECKED.fullmatch(cells[-1].strip("| "))
    assert found is not None, cells[-1]
    folder, file, name = found.groups()
    assert name in defined_in(folder or "", file)


def test_every_row_of_nadir_names_a_test_that_there_is() -> None:
    assert failures(NADIR_ROWS, _row_of_nadir_names_a_test) == []
