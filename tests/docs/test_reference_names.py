"""The reference table is whole: every exported name of the Go package, and each counterpart."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

import triptych

PAGE = Path(__file__).parents[2] / "docs/reference/flowcraft.md"
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
ROWS = [_ROW.match(line) for line in PAGE.read_text(encoding="utf-8").splitlines()]
TABLE = {row[1]: row[2] for row in ROWS if row and row[1] != "Go"}


def test_every_name_has_its_row_and_no_row_is_of_another() -> None:
    assert set(TABLE) == NAMES
    assert {name for name, counterpart in TABLE.items() if counterpart is None} == WITHOUT


@pytest.mark.parametrize("name", sorted(NAMES - WITHOUT))
def test_counterpart_exists(name: str) -> None:
    counterpart = TABLE[name]
    assert counterpart is not None
    home, _, member = counterpart.partition(".")
    assert home in triptych.__all__
    found = getattr(triptych, home)
    if member:
        fields = {each.name for each in attrs.fields(found)} if attrs.has(found) else set()
        assert member in fields or hasattr(found, member), counterpart
