"""One pass over a dataset's roots: compare, store new documents, delete removed ones."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import attrs

from triptych import deadlines
from triptych._internal.concurrency import map_ordered
from triptych._internal.progress import Progress, ProgressCallback
from triptych.derivation.living_documents import put_again
from triptych.errors import CancelledError, ConflictError, StoreAwayError, TriptychError
from triptych.parsing.files import Skipped
from triptych.records import DocumentInfo, EmbedReport, Failure, NewDocument, PutReport
from triptych.records.documents import living_version
from triptych.records.reports import reported
from triptych.service import Service
from triptych.sync.inventory import Inventory, renames, replaced, take_inventory
from triptych.sync.reading import FileReader, ParsedCandidate, Task
from triptych.sync.report import DeletionGuard, HeldDeletions, SyncPlan, SyncReport, Wave
from triptych.sync.roots import SyncOptions, SyncRoot
from triptych.sync.scanner import Scanner
from triptych.sync.state import FileRecord
from triptych.sync.target import DELETED_AT_ONCE, SyncTarget, target_of

_ROUNDS = 3
"""How often a file or document that others touch meanwhile is looked at again."""


@attrs.define
class _Work:
    """What preparing the files of one survey came to."""

    inventory: Inventory
    names: Sequence[str] | None
    todo: list[Task]
    done: list[ParsedCandidate] = attrs.field(factory=list)

    def of(self, outcome: str) -> list[ParsedCandidate]:
        return [each for each in self.done if each.outcome == outcome]


@attrs.define(eq=False)
class SyncRun:
    """See `DirectorySync`, which makes one for each sync of a dataset.

    Documents are put before others are deleted, so that a text which has moved finds its vector.
    Without a ``guard`` all deletions are confirmed.
    """

    _service: Service
    _dataset_id: str
    _roots: Sequence[tuple[SyncRoot, Scanner]]
    _options: SyncOptions
    _preparer: FileReader
    _known: Mapping[SyncRoot, dict[str, FileRecord]]
    _guard: DeletionGuard | None
    changed: bool = attrs.field(default=False, init=False)
    links: bool = attrs.field(default=False, init=False)
    _target: SyncTarget = attrs.field(init=False)
    _keys: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._target = target_of(self._service)
        self._keys = frozenset(key for root, _ in self._roots for key in root.keys)

    def run(self, names: Sequence[str] | None, progress: ProgressCallback | None) -> SyncReport:
        """Sync all files, or those of ``names``."""
        report, again = self._round(names, progress, last=False)
        for left in reversed(range(_ROUNDS)):
            if not again:
                break
            more, again = self._round(again, progress, last=not left)
            # These files were counted in the first round.
            report = attrs.evolve(report + more, checked=report.checked, skipped=report.skipped)
        return report if names is not None else attrs.evolve(report, expired=self._expire())

    def _expire(self) -> int:
        """Delete what has expired and is of none of these roots, whose files decide; how many."""
        return self._target.expire(self._dataset_id, self._keys)

    def plan(self) -> SyncPlan:
        """What `run` would do."""
        work = self._look(None)
        infos = work.inventory.infos
        documents: list[str] = []

        def wanted() -> Iterator[NewDocument]:
            for each in self._prepared(work):
                if each.document is not None:
                    documents.append(each.document.name)
                    yield each.document

        cost = self._target.price(self._dataset_id, wanted())
        waiting = self._waiting(work)
        if cost is not None:
            cost += self._target.price_pending(self._dataset_id, waiting)
        gone = self._gone(work)
        added = [name for name in documents if name not in infos]
        moved = renames(gone, _contents(work, set(added)))
        held = self._held(work, gone, moved)
        kept = {name for each in held for name in each.names}.union(old for old, _ in moved)
        new_names = {new for _, new in moved}
        same = {each.task.file.name for each in work.of("put") if each.same}
        stale = {each.task.file.name for each in work.of("put") if not each.task.fresh}
        return SyncPlan(
            checked=len(work.inventory.files) + len(work.inventory.failed),
            added=tuple(name for name in added if name not in new_names),
            updated=tuple(name for name in documents if name in infos and name not in same),
            unchanged=len(work.of("unchanged")) + len(same),
            repaired=tuple(sorted((same & stale) | set(waiting))),
            renamed=moved,
            deleted=tuple(info.name for info in gone if info.name not in kept),
            held=held,
            skipped=_skipped(work),
            notes=tuple(note for each in work.done for note in each.notes),
            failed=(*work.inventory.failed, *_failures(self._dataset_id, work)),
            chunks=None if cost is None else cost.chunks,
            embedded=None if cost is None else cost.embedded,
            model_calls=None if cost is None else cost.model_calls,
        )

    # A round

    def _round(
        self, names: Sequence[str] | None, progress: ProgressCallback | None, *, last: bool
    ) -> tuple[SyncReport, list[str]]:
        """What was done, and the names of what others wrote, moved or deleted meanwhile."""
        work = self._look(names)
        put = self._put(work, progress)
        again = [f.name for f in put.failed if isinstance(f.error, ConflictError)]
        again += [each.task.file.name for each in work.of("vanished")]
        again = [] if last else again
        retried = set(again)
        failed = [failure for failure in put.failed if failure.name not in retried]
        undone = {failure.name for failure in put.failed}
        self._exchange(work, undone)
        gone = self._gone(work)
        added = {e.task.file.name for e in work.of("put") if e.task.info is None} - undone
        moved = renames(gone, _contents(work, added))
        held = self._held(work, gone, moved)
        kept = {name for each in held for name in each.names}
        deleted, not_deleted = self._delete(work, [info for info in gone if info.name not in kept])
        gone_names = set(deleted)
        self._count(gone, gone_names.difference(old for old, _ in moved))
        moved = tuple(pair for pair in moved if pair[0] in gone_names)
        old_names = {old for old, _ in moved}
        # After the deletions, for it may take long. An embedder that failed is not asked again.
        filled = EmbedReport() if put.pending else self._embed(work, progress)
        report = SyncReport(
            checked=len(work.inventory.files) + len(work.inventory.failed),
            added=put.added - len(moved),
            updated=put.updated,
            unchanged=len(work.of("unchanged")) + put.unchanged,
            repaired=sum(
                each.same and not each.task.fresh and each.task.file.name not in undone
                for each in work.of("put")
            )
            + filled.documents,
            renamed=moved,
            deleted=tuple(name for name in deleted if name not in old_names),
            held=held,
            skipped=_skipped(work),
            notes=tuple(note for each in work.done for note in each.notes),
            failed=(
                *work.inventory.failed,
                *_failures(self._dataset_id, work, but=again),
                *failed,
                *filled.failed,
                *not_deleted,
            ),
            chunks=put.chunks,
            embedded=put.embedded + filled.embedded,
            reused=put.reused + filled.reused,
            pending=put.pending + filled.pending,
        )
        return report, again

    def _look(self, names: Sequence[str] | None) -> _Work:
        """The files, those that need no reading already separated."""
        found = take_inventory(self._target, self._dataset_id, self._roots, names)
        self.links = self.links or any(scan.links for _, scan in found.scans)
        work = _Work(found, names, [])
        for file in found.files.values():
            info = found.infos.get(file.name)
            task = Task(
                file=file,
                own_keys=self._keys,
                info=info,
                fresh=info is not None and found.states.get(file.name) != "stale",
                known=self._known[file.root].get(file.relative),
            )
            settled = self._preparer.settled(task)
            if settled is None:
                work.todo.append(task)
            else:
                work.done.append(settled)
        # What was changed last is what people look for first.
        work.todo.sort(key=lambda task: (-task.file.stat.mtime_ns, task.file.name))
        self._forget(found, names)
        return work

    def _forget(self, found: Inventory, names: Sequence[str] | None) -> None:
        """Drop what was known of files that are no longer there."""
        for root, scan in found.scans:
            known = self._known[root]
            listed = list(known) if names is None else map(root.relative_of, names)
            for relative in listed:
                if relative in known and relative not in scan.files and not scan.hides(relative):
                    del known[relative]
                    self.changed = True

    def _prepared(self, work: _Work) -> Iterator[ParsedCandidate]:
        for each in map_ordered(self._preparer.prepare, work.todo, self._options.workers):
            deadlines.check("the sync")
            # Without its text, for there may be more of it than memory.
            work.done.append(attrs.evolve(each, document=None))
            known = self._known[each.task.file.root]
            if each.known is not None and known.get(each.task.file.relative) != each.known:
                known[each.task.file.relative] = each.known
                self.changed = True
            yield each
            kept = self._kept(each)
            if kept is not None:
                work.done.append(attrs.evolve(kept, document=None))
                yield kept

    def _kept(self, failed: ParsedCandidate) -> ParsedCandidate | None:
        """Of a file that fails, what the store has: to be put again as it is, where its chunks are
        behind, as a process leaves them that was killed before it had derived them."""
        task = failed.task
        if failed.outcome != "failed" or task.info is None or task.fresh:
            return None
        if task.info.system.sync_root not in self._keys:
            return None
        stored = self._target.document(self._dataset_id, task.info.name)
        if stored is None:
            return None
        return ParsedCandidate(
            task=task,
            outcome="put",
            document=put_again(stored, living_version(stored)),
            content_sha256=task.info.content_sha256,
            same=True,
        )

    def _put(self, work: _Work, progress: ProgressCallback | None) -> PutReport:
        if not work.todo:
            return PutReport()
        prepared = self._prepared(work)
        first = next((each for each in prepared if each.document is not None), None)
        if first is None:
            return PutReport()  # a put of nothing would still configure the dataset

        def documents() -> Iterator[NewDocument]:
            for each in chain([first], prepared):
                if each.document is not None:
                    yield each.document

        counted = _counted(progress, len(work.todo))
        put = self._service.put_documents
        return reported(lambda: put(self._dataset_id, documents(), progress=counted))

    def _embed(self, work: _Work, progress: ProgressCallback | None) -> EmbedReport:
        """Add the vectors that documents of these files still lack, the newest first."""
        return self._target.embed(
            self._dataset_id, self._waiting(work), progress, whole=work.names is None
        )

    def _waiting(self, work: _Work) -> list[str]:
        """The documents whose text was fresh, and which had not all their vectors."""
        states = work.inventory.states
        waiting = [
            each.task.file
            for each in work.of("unchanged")
            if states.get(each.task.file.name) == "pending"
        ]
        waiting.sort(key=lambda file: (-file.stat.mtime_ns, file.name))
        return [file.name for file in waiting]

    def _exchange(self, work: _Work, undone: Collection[str]) -> None:
        """Let layers follow contents that were put under the names of others."""
        put = [
            (each.task.file.name, each.task.info, each.content_sha256)
            for each in work.of("put")
            if each.task.file.name not in undone
        ]
        pairs = replaced(
            (name, "" if info is None else info.content_sha256, now) for name, info, now in put
        )
        if pairs:
            self._target.move_layers(self._dataset_id, pairs)

    # Deleting

    def _gone(self, work: _Work) -> list[DocumentInfo]:
        """The documents to delete: their file is gone, or no document is made of it any more."""
        gone = work.inventory.gone()
        for each in work.of("left out"):
            info = each.task.info
            if info is not None and info.system.sync_root in self._keys:
                gone.append(info)
        deleting = {
            key
            for root, _ in self._roots
            if (root.options or self._options).delete
            for key in root.keys
        }
        return [info for info in gone if info.system.sync_root in deleting]

    def _held(
        self, work: _Work, gone: Sequence[DocumentInfo], moved: Collection[tuple[str, str]]
    ) -> tuple[HeldDeletions, ...]:
        """The deletions that are too many of a root to be done unasked; renames are none."""
        if self._guard is None:
            return ()
        renamed = {old for old, _ in moved}
        held = []
        for root, _ in self._roots:
            going = [i for i in gone if i.system.sync_root in root.keys and i.name not in renamed]
            wave = self._too_many(work, root, going)
            if wave is not None and len(going) <= DELETED_AT_ONCE:
                # Few may be those of a moment, in which a program saves its file.
                going = [info for info in going if not self._is_back(work, info)]
                wave = self._too_many(work, root, going)
            if wave is not None:
                held.append(
                    HeldDeletions(
                        root=root.path,
                        dataset_id=self._dataset_id,
                        names=tuple(sorted(info.name for info in going)),
                        documents=wave.documents,
                        deleted=wave.deleted,
                    )
                )
        return tuple(held)

    def _too_many(self, work: _Work, root: SyncRoot, going: Sequence[DocumentInfo]) -> Wave | None:
        def documents() -> int:
            infos: Iterable[DocumentInfo] = work.inventory.infos.values()
            if work.names is not None:
                infos = self._target.infos(self._dataset_id)
            return sum(info.system.sync_root in root.keys for info in infos)

        if not going or self._guard is None or (root.options or self._options).delete_most:
            return None
        return self._guard.holds(root.key, len(going), documents)

    def _count(self, gone: Sequence[DocumentInfo], deleted: Collection[str]) -> None:
        """Tell the guard what was deleted, renames aside."""
        roots = {key: root.key for root, _ in self._roots for key in root.keys}
        counts = Counter(roots[info.system.sync_root] for info in gone if info.name in deleted)
        for key, count in counts.items():
            if self._guard is not None:
                self._guard.deleted(key, count)

    def _delete(
        self, work: _Work, gone: Sequence[DocumentInfo]
    ) -> tuple[dict[str, None], list[Failure]]:
        deleted: dict[str, None] = {}
        failed: list[Failure] = []
        if not gone:
            return deleted, failed
        heirs = self._heirs(work, gone)
        for start in range(0, len(gone), DELETED_AT_ONCE):
            deadlines.check("deleting documents")
            ready = []
            for info in gone[start : start + DELETED_AT_ONCE]:
                if self._is_back(work, info):
                    continue
                try:
                    for heir in heirs.get(info.content_sha256, ()):
                        self._target.move_layers(self._dataset_id, [(info.name, heir)])
                except (CancelledError, StoreAwayError):
                    raise
                except TriptychError as error:
                    failed.append(Failure(dataset_id=self._dataset_id, name=info.name, error=error))
                else:
                    ready.append(info)
            done, not_done = self._target.delete(self._dataset_id, ready)
            deleted |= dict.fromkeys(done)
            failed += not_done
        return deleted, failed

    def _heirs(self, work: _Work, gone: Sequence[DocumentInfo]) -> Mapping[str, list[str]]:
        """Which documents hold the contents of those that go, by digest; also those that an
        earlier sync put, which was cut off before it came to deleting."""
        names = {info.name for info in gone}
        with_layers = self._target.layered(self._dataset_id, names)
        wanted = {info.content_sha256 for info in gone if info.name in with_layers}
        heirs: dict[str, list[str]] = {}
        if wanted:
            for info in self._target.infos(self._dataset_id):
                if info.content_sha256 in wanted and info.name not in names:
                    heirs.setdefault(info.content_sha256, []).append(info.name)
        return heirs

    def _is_back(self, work: _Work, info: DocumentInfo) -> bool:
        """Whether, since the survey, its file is there, its root is gone, or others wrote it.

        What saves by writing a new file and renaming it may have no file of the name for a
        moment; and a folder that is being taken away whole loses its files one by one.
        """
        now = self._target.info(self._dataset_id, info.name)
        if now is None or now.version != info.version:
            return True
        if info.name in work.inventory.files:
            return False
        for root, scanner in self._roots:
            relative = root.relative_of(info.name)
            if info.system.sync_root in root.keys and not os.path.isdir(root.path):
                return True
            if relative is not None and scanner.look(relative).files:
                return True
        return False


def _contents(work: _Work, names: set[str]) -> list[tuple[str, str]]:
    """The prepared documents of these names, with the digests of their contents."""
    put = work.of("put")
    return [(e.task.file.name, e.content_sha256) for e in put if e.task.file.name in names]


def _counted(progress: ProgressCallback | None, total: int) -> ProgressCallback | None:
    """``progress`` that gets the number of files from the start."""
    if progress is None:
        return None
    progress(Progress(phase="documents", done=0, total=total))

    def counted(at: Progress) -> None:
        progress(attrs.evolve(at, total=total) if at.phase == "documents" else at)

    return counted


def _skipped(work: _Work) -> tuple[Skipped, ...]:
    binary = [Skipped(name=e.task.file.relative, reason="binary") for e in work.of("left out")]
    return tuple(sorted((*work.inventory.skipped, *binary), key=lambda each: each.name))


def _failures(dataset_id: str, work: _Work, *, but: Collection[str] = ()) -> tuple[Failure, ...]:
    return tuple(
        Failure(dataset_id=dataset_id, name=each.task.file.name, error=each.error)
        for each in work.done
        if each.error is not None and each.task.file.name not in but
    )
