"""Chunk sets: all in the derived database, but for the dataset's configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from triptych.records import DatasetConfig, Finding, HealthCheck
from triptych_backends.filesystem.checks import check_files, repair_files
from triptych_backends.filesystem.diagnostics import list_problems
from triptych_backends.filesystem.mirror import mirrored
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sqlite.store import SqliteChunks


class FilesChunks:
    """`ChunkRepo` over a `FilesStore`, with the capabilities of `SqliteChunks`."""

    in_process = True

    def __init__(self, writer: Writer, mirror: SqliteChunks) -> None:
        self.writer = writer
        self.mirror = mirror

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`: also the files that were not adopted."""
        unadopted = [
            HealthCheck(
                name="store",
                status="warning",
                detail=f"{problem.path}: {problem.reason}",
                remedy=problem.remedy,
            )
            for problem in list_problems(self.writer.workspace)
        ]
        return [*self.mirror.check_health(), *unadopted]

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`: the files, then the derived database."""
        yield from check_files(self.writer, dataset_ids)
        yield from self.mirror.check_integrity(dataset_ids)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """See `Diagnostics.repair`."""
        # What is taken over from the files needs a database whose rows fit each other.
        done = self.mirror.repair(checks, dataset_ids)
        return [*done, *repair_files(self.writer, checks, dataset_ids)]

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        """See `ChunkRepo.configure`."""
        writer = self.writer
        with writer.locked():
            change = writer.change(dataset_id)
            # What a checkout brought is the dataset's, whatever becomes of this.
            change.commit()
            if change.home.config != expected:
                return False
            change = writer.change(dataset_id)
            change.set_home(config=config)
            change.commit()
            return True

    def delete_by_dataset(self, dataset_id: str) -> None:
        """See `ChunkRepo.delete_by_dataset`."""
        writer = self.writer
        with writer.locked():
            if writer.workspace.folder(dataset_id) is None:
                return
            change = writer.change(dataset_id)
            change.set_home(config=None)
            change.commit()
        self.mirror.delete_by_dataset(dataset_id)

    config = mirrored(SqliteChunks.config)
    configs = mirrored(SqliteChunks.configs)
    get_doc_sig = mirrored(SqliteChunks.get_doc_sig)
    get_doc_sigs = mirrored(SqliteChunks.get_doc_sigs)
    doc_names = mirrored(SqliteChunks.doc_names)
    replace = mirrored(SqliteChunks.replace)
    replace_many = mirrored(SqliteChunks.replace_many)
    put_vectors = mirrored(SqliteChunks.put_vectors)
    waiting = mirrored(SqliteChunks.waiting)
    count_waiting = mirrored(SqliteChunks.count_waiting)
    vector_spaces = mirrored(SqliteChunks.vector_spaces)
    drop_space = mirrored(SqliteChunks.drop_space)
    count_sets = mirrored(SqliteChunks.count_sets)
    update_source_version = mirrored(SqliteChunks.update_source_version)
    delete_by_doc = mirrored(SqliteChunks.delete_by_doc)
    known_vectors = mirrored(SqliteChunks.known_vectors)
    corpus_stats = mirrored(SqliteChunks.corpus_stats)
    search = mirrored(SqliteChunks.search)
    search_docs = mirrored(SqliteChunks.search_docs)
    search_docs_by_vector = mirrored(SqliteChunks.search_docs_by_vector)
    fetch = mirrored(SqliteChunks.fetch)
    fetch_docs = mirrored(SqliteChunks.fetch_docs)
    iter_chunks = mirrored(SqliteChunks.iter_chunks)
