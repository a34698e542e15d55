"""A dataset moves to another server while it is used.

1. The destination is marked ``arriving``: what is copied there shows nowhere.
2. What the destination lacks is copied, name by name, until little is left. No model is called.
3. The source is marked ``leaving``: for some seconds writes wait.
4. The last changes are copied; every name's digest and the head of the dataset are compared.
5. The source is marked ``left``. That one write is the move: from its commit on, everybody reads
   and writes at the destination, whatever map they have.
6. The destination is marked ``here``, the map is changed, and the source's copy is deleted.

A move that is killed before 5 has changed nothing but the copy, and one killed after it has done
all but tidy up. The same move again goes on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import attrs

from triptych import deadlines
from triptych._internal.progress import ProgressCallback
from triptych.errors import ConflictError, NotFoundError
from triptych_backends.shards.dataset_sync import DatasetSync
from triptych_backends.shards.ownership import Mark, read_marks, server_time, write_mark
from triptych_backends.shards.routing import Router
from triptych_backends.shards.server import OpenOptions, Server, ServerAwayError
from triptych_backends.sql.transaction import find_dataset

__all__ = ["MoveReport", "MoveStep", "move_dataset"]

_HISTORY: Final = 1_000_000
"""Old versions that a copy keeps: all. Who opens the store cuts them as it is told."""
_FEW: Final = 64
_ROUNDS: Final = 10
_FENCE, _LONGEST_FENCE = 5.0, 20.0

MoveStep = Callable[[str], None]
"""Called after each step, with its name."""


@attrs.frozen(kw_only=True)
class MoveReport:
    """What a move did.

    Attributes:
        dataset_id: the dataset.
        source: the server that it was on, "" if it was on the destination already.
        destination: the server that it is on.
        names: under how many names it holds anything.
        written: how many states of names were copied.
    """

    dataset_id: str
    source: str
    destination: str
    names: int = 0
    written: int = 0


def move_dataset(
    router: Router,
    dataset_id: str,
    destination: str,
    *,
    progress: ProgressCallback | None = None,
    step: MoveStep | None = None,
) -> MoveReport:
    """Move a dataset to the server named ``destination``, or finish a move that was killed.

    Readers and writers go on meanwhile; writes wait while the last changes are copied.

    Raises:
        NotFoundError: there is no such dataset, or no such server.
        StoreLockedError: somebody else is moving it.
        ConflictError: the source is written to faster than it can be copied.
        StoreError: a server failed; move again to go on.
    """
    target = router.server(destination)
    with router.first.named(), router.first.database.turn(f"move {dataset_id}"):
        router.forget(dataset_id)
        if router.map.place_of(dataset_id) is None:
            if dataset_id not in router.first.store.documents.list_datasets():
                raise NotFoundError(f"there is no dataset {dataset_id!r} to move")
            router.map.place(dataset_id)
        owner = router.place(dataset_id).server
        report = MoveReport(dataset_id=dataset_id, source="", destination=destination)
        if owner.name != destination:
            report = _Move(
                dataset_id, owner, target, router.options, progress, step or _nothing
            ).run()
        _finish(router, dataset_id, target, step or _nothing)
        return report


def _nothing(_: str) -> None:
    """No step is reported."""


@attrs.define
class _Move:
    """One run of a move."""

    dataset_id: str
    source: Server
    target: Server
    options: OpenOptions
    progress: ProgressCallback | None
    step: MoveStep

    def run(self) -> MoveReport:
        """Steps 1 to 5."""
        options = attrs.evolve(self.options, history=_HISTORY)
        here, there = (Server(each.name, each.url, options) for each in (self.source, self.target))
        try:
            move = self._arrive()
            self.step("arriving")
            copy = DatasetSync(self.dataset_id, here.store, there.store, self.progress)
            self._catch_up(copy)
            self.step("copied")
            seconds = _FENCE
            while True:
                deadlines.check("moving a dataset")
                if self._leave(copy, move, seconds):
                    break
                seconds = min(seconds * 2, _LONGEST_FENCE)
                self._catch_up(copy)
        finally:
            here.close()
            there.close()
        self.step("left")
        return MoveReport(
            dataset_id=self.dataset_id,
            source=self.source.name,
            destination=self.target.name,
            names=copy.names,
            written=copy.written,
        )

    def _arrive(self) -> str:
        with _marking(self.target, self.dataset_id) as marked:
            mark = marked.mark
            if mark.state != "arriving" or mark.peer != self.source.name:
                mark = Mark(state="arriving", move=secrets.token_hex(8), peer=self.source.name)
                marked.mark = mark
        return mark.move

    def _catch_up(self, copy: DatasetSync, few: int = _FEW) -> None:
        for _ in range(_ROUNDS):
            if copy.round() <= few:
                return
        raise ConflictError(
            f"dataset {self.dataset_id!r} is written to faster than it is copied: move it again "
            "when less is written"
        )

    def _leave(self, copy: DatasetSync, move: str, seconds: float) -> bool:
        """Stop the writers, copy what is left, and let go; False where that took too long."""
        with _marking(self.source, self.dataset_id) as marked:
            # It may be that of a move that was killed: who has the turn replaces it.
            fence = Mark(
                state="leaving",
                move=move,
                peer=self.target.name,
                before=marked.mark.brought_by,
                until=marked.now + seconds,
            )
            marked.mark = fence
        try:
            self.step("leaving")
            self._catch_up(copy, few=0)
        except BaseException:
            self._give_up(fence)
            raise
        self.step("compared")
        with _marking(self.source, self.dataset_id) as marked:
            if marked.mark != fence:
                return False  # it took longer than the writers wait
            marked.mark = Mark(state="left", move=move, peer=self.target.name)
        return True

    def _give_up(self, fence: Mark) -> None:
        with _marking(self.source, self.dataset_id) as marked:
            if marked.mark == fence:
                marked.mark = Mark(move=fence.before)


@attrs.define
class _Marked:
    """A mark within a transaction of its server, which writes it if it is replaced."""

    mark: Mark
    now: float


@contextmanager
def _marking(server: Server, dataset_id: str) -> Iterator[_Marked]:
    """The dataset's mark on the server; no write of the dataset comes in between."""
    with server.named(), server.database.writing() as tx:
        before = read_marks(tx.session, [dataset_id]).get(dataset_id, Mark())
        marked = _Marked(before, server_time(tx.session))
        yield marked
        if marked.mark != before:
            write_mark(tx.session, dataset_id, marked.mark)


def _finish(router: Router, dataset_id: str, target: Server, step: MoveStep) -> None:
    """Step 6, and what is left of moves that were given up: there is no other one now."""
    with _marking(target, dataset_id) as marked:
        if marked.mark.state != "here":
            marked.mark = Mark(move=marked.mark.brought_by)
    step("here")
    router.map.note(dataset_id, target.name)
    router.forget(dataset_id)
    step("placed")
    for server in router.servers().values():
        # What is left on a server that is away is hidden there, and deleted the next time.
        with suppress(ServerAwayError):
            if server.name != target.name:
                _delete_rest(server, dataset_id, router.mark(server, dataset_id), target.name)
    step("deleted")


def _delete_rest(server: Server, dataset_id: str, mark: Mark, target: str) -> None:
    if mark.state not in ("left", "arriving"):
        return
    with server.named():
        with server.database.reading() as session:
            found = find_dataset(session, dataset_id)
        if found is not None and (found.live or found.config is not None):
            server.store.documents.delete_dataset(dataset_id)
    if mark.state == "arriving":
        with _marking(server, dataset_id) as marked:
            marked.mark = Mark(state="left", move=mark.move, peer=target)
