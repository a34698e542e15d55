"""One pass over a dataset's roots: compare, store new documents, delete removed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import attrs

from triptych import deadlines
from triptych._internal.concurrency import map_ordered
from triptych._internal.progress import Progress, ProgressCallback
from triptych.derivation.versions import put_again
from triptych.errors import CancelledError, ConflictError, StoreAwayError, TriptychError
from triptych.parsing.files import Skipped
from triptych.records import DocumentInfo, EmbedReport, Failure, NewDocument, PutReport
from triptych.records.documents import living_version
from triptych.records.reports import reported
from triptych.service import KnowledgeBase
from triptych.sync.inventory import Inventory, exchanges, renames, take_inventory
from triptych.sync.reading import FileReader, ParsedCandidate, Task
from triptych.sync.report import DeletionGuard, HeldDeletions, SyncPlan, SyncReport, Wave
from triptych.sync.roots import Root, SyncOptions, SyncRoot
from triptych.sync.scanner import Scanner
from triptych.sync.source import UNKNOWN
from triptych.sync.state import HELD, SyncRecord
from triptych.sync.target import DELETED_AT_ONCE, SyncTarget, target_of

_ROUNDS = 3
"""How often a file or document that others touch meanwhile is looked at again."""


@attrs.define
class _Work:
    """The prepared files of one survey."""

    inventory: Inventory
    names: Sequence[str] | None
    todo: list[Task]
    done: list[ParsedCandidate] = attrs.field(factory=list)

    def of(self, outcome: str) -> list[ParsedCandidate]:
        return [each for each in self.done if each.outcome == outcome]

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        binary = [Skipped(name=e.task.file.relative, reason="binary") for e in self.of("left out")]
        return tuple(sorted((*self.inventory.skipped, *binary), key=lambda each: each.name))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(note for each in self.done for note in each.notes)

    def failures(self, *, but: Collection[str] = ()) -> tuple[Failure, ...]:
        return tuple(
            Failure(dataset_id=self.inventory.dataset_id, name=each.name, error=each.error)
            for each in self.done
            if each.error is not None and each.name not in but
        )

    def retries(self, put: PutReport) -> list[str]:
        """The names of what others changed while it was put, or moved before it was read."""
        conflicts = [f.name for f in put.failed if isinstance(f.error, ConflictError)]
        return conflicts + [each.name for each in self.of("vanished")]


@attrs.frozen
class _Deletions:
    """The documents to delete, those of them that were renamed (old, new), and those that wait
    for confirmation."""

    documents: Sequence[DocumentInfo]
    renamed: tuple[tuple[str, str], ...]
    held: tuple[HeldDeletions, ...]

    @property
    def old_names(self) -> set[str]:
        return {old for old, _ in self.renamed}

    def unheld(self, *, but: Collection[str] = ()) -> list[DocumentInfo]:
        """Those that need no confirmation."""
        held = {name for each in self.held for name in each.names}
        return [each for each in self.documents if each.name not in held and each.name not in but]


@attrs.define(eq=False)
class SyncRun:
    """See `DirectorySync`, which makes one for each sync of a dataset.

    Documents are put before others are deleted, so that a text which has moved finds its vector.
    Without a ``guard`` all deletions are confirmed.
    """

    _service: KnowledgeBase
    _dataset_id: str
    _roots: Sequence[tuple[Root, Scanner]]
    _options: SyncOptions
    _preparer: FileReader
    _known: Mapping[Root, dict[str, SyncRecord]]
    _guard: DeletionGuard | None
    changed: bool = attrs.field(default=False, init=False)
    links: bool = attrs.field(default=False, init=False)
    _target: SyncTarget = attrs.field(init=False)
    keys: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._target = target_of(self._service)
        self.keys = frozenset(key for root, _ in self._roots for key in root.keys)

    def run(self, names: Sequence[str] | None, progress: ProgressCallback | None) -> SyncReport:
        """Sync all files, or those of ``names``."""
        report, again = self._round(names, progress, last=False)
        for left in reversed(range(_ROUNDS)):
            if not again:
                break
            more, again = self._round(again, progress, last=not left)
            # These files were counted in the first round.
            report = attrs.evolve(report + more, checked=report.checked, skipped=report.skipped)
        return report

    def plan(self) -> SyncPlan:
        """What `run` would do."""
        work = self._look(None)
        infos = work.inventory.infos
        documents: list[str] = []

        def prepare() -> Iterator[NewDocument]:
            for each in self._prepare(work):
                if each.document is not None:
                    documents.append(each.document.name)
                    yield each.document

        cost = self._target.price(self._dataset_id, prepare())
        pending = self._find_pending(work)
        if cost is not None:
            cost += self._target.price_pending(self._dataset_id, pending)
        deletions = self._plan_deletions(work, set(documents).difference(infos))
        new_names = {new for _, new in deletions.renamed}
        same = {each.name for each in work.of("put") if each.same}
        stale = {each.name for each in work.of("put") if not each.task.fresh}
        return SyncPlan(
            checked=len(work.inventory.files) + len(work.inventory.failed),
            added=tuple(n for n in documents if n not in infos and n not in new_names),
            updated=tuple(name for name in documents if name in infos and name not in same),
            unchanged=len(work.of("unchanged")) + len(same),
            repaired=tuple(sorted((same & stale) | set(pending))),
            renamed=deletions.renamed,
            deleted=tuple(info.name for info in deletions.unheld(but=deletions.old_names)),
            held=deletions.held,
            skipped=work.skipped,
            notes=work.notes,
            failed=(*work.inventory.failed, *work.failures()),
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
        undone = {failure.name for failure in put.failed}
        stored = [each for each in work.of("put") if each.name not in undone]
        self._move_layers(stored)
        added = {each.name for each in stored if each.task.info is None}
        deletions = self._plan_deletions(work, added)
        self._remember_held(deletions.held, whole=names is None)
        deleted, not_deleted = self._delete(work, deletions)
        renamed = tuple(pair for pair in deletions.renamed if pair[0] in deleted)
        old_names = {old for old, _ in renamed}
        # After the deletions, for it may take long. An embedder that failed is not asked again.
        filled = EmbedReport() if put.pending else self._embed(work, progress)
        again = [] if last else work.retries(put)
        retried = set(again)
        report = SyncReport(
            checked=len(work.inventory.files) + len(work.inventory.failed),
            added=put.added - len(renamed),
            updated=put.updated,
            unchanged=len(work.of("unchanged")) + put.unchanged,
            repaired=sum(e.same and not e.task.fresh for e in stored) + filled.documents,
            renamed=renamed,
            deleted=tuple(name for name in deleted if name not in old_names),
            held=deletions.held,
            skipped=work.skipped,
            notes=work.notes,
            failed=(
                *work.inventory.failed,
                *work.failures(but=retried),
                *(failure for failure in put.failed if failure.name not in retried),
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
                own_keys=self.keys,
                info=info,
                fresh=info is not None and found.states.get(file.name) != "stale",
                known=self._known[file.root].get(file.relative),
            )
            settled = self._preparer.settled(task)
            if settled is None:
                work.todo.append(task)
            else:
                work.done.append(settled)
        # What was changed last is what people look for first. What may be unchanged comes last.
        work.todo.sort(key=_urgency)
        self._forget(found, names)
        return work

    def _forget(self, found: Inventory, names: Sequence[str] | None) -> None:
        """Drop what was known of files that are no longer there."""
        for root, scan in found.scans:
            known = self._known[root]
            listed = list(known) if names is None else map(root.relative_of, names)
            for relative in listed:
                if relative == HELD or relative not in known or relative in scan.files:
                    continue
                if not scan.hides(relative):
                    del known[relative]
                    self.changed = True

    def _prepare(self, work: _Work) -> Iterator[ParsedCandidate]:
        for each in map_ordered(self._preparer.prepare, work.todo, self._options.workers):
            deadlines.check("the sync")
            # Without its text, for there may be more of it than memory.
            work.done.append(attrs.evolve(each, document=None))
            known = self._known[each.task.file.root]
            if each.known is not None and known.get(each.task.file.relative) != each.known:
                known[each.task.file.relative] = each.known
                self.changed = True
            yield each
            before = self._put_again(each)
            if before is not None:
                work.done.append(attrs.evolve(before, document=None))
                yield before

    def _put_again(self, failed: ParsedCandidate) -> ParsedCandidate | None:
        """Of a file that fails, what the store has: to be put again as it is, where its chunks are
        behind, as a process leaves them that was killed before it had derived them."""
        task = failed.task
        if failed.outcome != "failed" or task.info is None or task.fresh:
            return None
        if task.info.system.sync_root not in self.keys:
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
        prepared = self._prepare(work)
        first = next((each for each in prepared if each.document is not None), None)
        if first is None:
            return PutReport()  # a put of nothing would still configure the dataset

        def documents() -> Iterator[NewDocument]:
            for each in chain([first], prepared):
                if each.document is not None:
                    yield each.document

        progress = _with_total(progress, len(work.todo))
        put = self._service.put_documents
        return reported(lambda: put(self._dataset_id, documents(), progress=progress))

    def _embed(self, work: _Work, progress: ProgressCallback | None) -> EmbedReport:
        """Add the vectors that documents of these files still lack, the newest first."""
        return self._target.embed(
            self._dataset_id, self._find_pending(work), progress, whole=work.names is None
        )

    def _find_pending(self, work: _Work) -> list[str]:
        """The documents whose text was fresh, and which had not all their vectors."""
        states = work.inventory.states
        pending = [e.task.file for e in work.of("unchanged") if states.get(e.name) == "pending"]
        pending.sort(key=lambda file: (-file.stat.mtime_ns, file.name))
        return [file.name for file in pending]

    def _move_layers(self, stored: Iterable[ParsedCandidate]) -> None:
        """Let layers follow contents that were put under the names of others."""
        pairs = exchanges(
            (e.name, "" if e.task.info is None else e.task.info.content_sha256, e.content_sha256)
            for e in stored
        )
        if pairs:
            self._target.move_layers(self._dataset_id, pairs)

    # Deleting

    def _plan_deletions(self, work: _Work, added: Collection[str]) -> _Deletions:
        """The documents whose file is gone, or of which no document is made any more; ``added``
        are the names that are new."""
        gone = work.inventory.gone()
        gone += [
            each.task.info
            for each in work.of("left out")
            if each.task.info is not None and each.task.info.system.sync_root in self.keys
        ]
        deleting = {
            key
            for root, _ in self._roots
            if (root.options or self._options).delete
            for key in root.keys
        }
        gone = [info for info in gone if info.system.sync_root in deleting]
        contents = [(e.name, e.content_sha256) for e in work.of("put") if e.name in added]
        renamed = renames(gone, contents)
        old_names = {old for old, _ in renamed}
        removals = [info for info in gone if info.name not in old_names]
        return _Deletions(gone, renamed, self._hold(work, removals))

    def _hold(self, work: _Work, removals: Sequence[DocumentInfo]) -> tuple[HeldDeletions, ...]:
        """The removals that are too many of a root to be done unasked."""
        held = []
        for root, _ in self._roots:
            going = [info for info in removals if info.system.sync_root in root.keys]
            wave = self._check_guard(work, root, going)
            if wave is not None and len(going) <= DELETED_AT_ONCE:
                # Few may be those of a moment, in which a program saves its file.
                going = [info for info in going if self._can_delete(work, info)]
                wave = self._check_guard(work, root, going)
            if wave is not None:
                held.append(
                    HeldDeletions(
                        root=root.path if isinstance(root, SyncRoot) else root.place,
                        dataset_id=self._dataset_id,
                        names=tuple(sorted(info.name for info in going)),
                        documents=wave.documents,
                        deleted=wave.deleted,
                    )
                )
        return tuple(held)

    def _remember_held(self, held: Sequence[HeldDeletions], *, whole: bool) -> None:
        """Note of each root how many documents it had when deletions were first held, and forget it
        when a ``whole`` pass holds none."""
        for root, _ in self._roots:
            known = self._known[root]
            place = root.path if isinstance(root, SyncRoot) else root.place
            documents = next((each.documents for each in held if each.root == place), None)
            if documents is not None and HELD not in known:
                known[HELD] = SyncRecord(None, "", "", str(documents))
                self.changed = True
            elif documents is None and whole and known.pop(HELD, None) is not None:
                self.changed = True

    def _check_guard(self, work: _Work, root: Root, going: Sequence[DocumentInfo]) -> Wave | None:
        """The wave of deletions in which these would be too many."""

        def documents() -> int:
            infos: Iterable[DocumentInfo] = work.inventory.infos.values()
            if work.names is not None:
                infos = self._target.infos(self._dataset_id)
            count = sum(info.system.sync_root in root.keys for info in infos)
            before = self._known[root].get(HELD)
            # What came since they were first held makes them no smaller a part.
            return count if before is None else min(count, max(int(before.outcome), len(going)))

        if not going or self._guard is None or (root.options or self._options).delete_most:
            return None
        return self._guard.holds(root.key, len(going), documents)

    def _delete(self, work: _Work, deletions: _Deletions) -> tuple[dict[str, None], list[Failure]]:
        """Delete what is not held: the names of those deleted, and failures."""
        deleted: dict[str, None] = {}
        failed: list[Failure] = []
        documents = deletions.unheld()
        copies = self._find_copies(documents)
        for start in range(0, len(documents), DELETED_AT_ONCE):
            deadlines.check("deleting documents")
            ready = []
            for info in documents[start : start + DELETED_AT_ONCE]:
                if not self._can_delete(work, info):
                    continue
                try:
                    for name in copies.get(info.content_sha256, ()):
                        self._target.move_layers(self._dataset_id, [(info.name, name)])
                except (CancelledError, StoreAwayError):
                    raise
                except TriptychError as error:
                    failed.append(Failure(dataset_id=self._dataset_id, name=info.name, error=error))
                else:
                    ready.append(info)
            done, not_done = self._target.delete(self._dataset_id, ready)
            deleted |= dict.fromkeys(done)
            failed += not_done
        self._count(documents, deleted.keys() - deletions.old_names)
        return deleted, failed

    def _count(self, documents: Sequence[DocumentInfo], deleted: Collection[str]) -> None:
        """Tell the guard what was deleted, renames aside."""
        roots = {key: root.key for root, _ in self._roots for key in root.keys}
        counts = Counter(roots[e.system.sync_root] for e in documents if e.name in deleted)
        for key, count in counts.items():
            if self._guard is not None:
                self._guard.deleted(key, count)

    def _find_copies(self, gone: Sequence[DocumentInfo]) -> Mapping[str, list[str]]:
        """Which documents hold the contents of those that go, by digest; also those that an
        earlier sync put, which was cut off before it came to deleting."""
        names = {info.name for info in gone}
        with_layers = self._target.layered(self._dataset_id, names) if names else set()
        wanted = {info.content_sha256 for info in gone if info.name in with_layers}
        copies: dict[str, list[str]] = {}
        if wanted:
            for info in self._target.infos(self._dataset_id):
                if info.content_sha256 in wanted and info.name not in names:
                    copies.setdefault(info.content_sha256, []).append(info.name)
        return copies

    def _can_delete(self, work: _Work, info: DocumentInfo) -> bool:
        """Whether, since the survey, its file has not come, its root not gone, and nobody wrote it.

        What saves by writing a new file and renaming it may have no file of the name for a
        moment; and a folder that is being taken away whole loses its files one by one.
        """
        now = self._target.info(self._dataset_id, info.name)
        if now is None or now.version != info.version:
            return False
        if info.name in work.inventory.files:
            return True
        for root, scanner in self._roots:
            relative = root.relative_of(info.name)
            if info.system.sync_root in root.keys and not root.exists():
                return False
            if relative is not None and scanner.look(relative).files:
                return False
        return True


def _urgency(task: Task) -> tuple[bool, int, str]:
    stat = task.file.stat
    return stat == UNKNOWN and task.info is not None, -stat.mtime_ns, task.file.name


def _with_total(progress: ProgressCallback | None, total: int) -> ProgressCallback | None:
    """``progress`` that gets the number of files from the start."""
    if progress is None:
        return None
    progress(Progress(phase="documents", done=0, total=total))

    def report(at: Progress) -> None:
        progress(attrs.evolve(at, total=total) if at.phase == "documents" else at)

    return report
