"""One run of a command: its options, its Service and its exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import attrs
import typer

from triptych.errors import ConflictError, StoreError, TriptychError
from triptych_adapters.cli.output import Output, shell_text
from triptych_adapters.wire.errors import Exit as Exit, error_form

if TYPE_CHECKING:
    from triptych.records import Failure, PutReport
    from triptych.service import KnowledgeBase
    from triptych.sync import SyncReport
    from triptych_factory import Settings

MEANINGS = {
    Exit.OK: "done, including a search without hits",
    Exit.FAILED: "declined at a prompt, not allowed by the key, or an unexpected failure",
    Exit.USAGE: "the command line, a setting or a file name is invalid",
    Exit.NOT_FOUND: "no such store, dataset, document or layer",
    Exit.CONFLICT: "the document has another version (--if-version)",
    Exit.STORE: "the store is locked, damaged, or of another version",
    Exit.MODEL: "a model failed, or is not the dataset's model",
    Exit.NOT_AVAILABLE: "this installation or store does not support it",
    Exit.PARTIAL: "some documents failed and are listed; the others are done",
    Exit.INTERRUPTED: "interrupted (Ctrl-C); committed work remains",
    Exit.BROKEN_PIPE: "the output was closed (broken pipe)",
}


def describe() -> str:
    """The table of exit codes, for a help page's end."""
    lines = [f"{code:<3d} {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["Exit codes:", *lines])


def exit_for(error: BaseException) -> Exit:
    """The exit code that ``error`` ends with; FAILED for what Triptych does not raise."""
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return Exit.BROKEN_PIPE
    form = error_form(error)
    return Exit.FAILED if form is None else form.exit_code


def exit_after(failures: Sequence[Failure], *, done: int) -> Exit:
    """How a command over many documents ended: ``done`` of them went well.

    With none done, the first failure speaks for all; with some, the end is PARTIAL.
    """
    if not failures:
        return Exit.OK
    return Exit.PARTIAL if done else exit_for(failures[0].error)


def hint_for(error: BaseException) -> str:
    """What to do about it, "" where there is nothing to say."""
    if isinstance(error, KeyboardInterrupt):
        return ""
    form = error_form(error)
    if form is None:
        return "TRIPTYCH_DEBUG=1 shows where it happened"
    # Without a version it is a conflict of something else than a document, which the row is about.
    of_others = type(error) is ConflictError and error.actual is None
    return getattr(error, "hint", "") or ("" if of_others else form.hint)


@contextmanager
def until_stopped(output: Output, grace: float) -> Iterator[Callable[[Callable[[], None]], None]]:
    """SIGINT and SIGTERM close what the block names, and end the process ``grace`` seconds later
    in any case."""
    closers: list[Callable[[], None]] = []
    stopped = threading.Event()
    timers: list[threading.Timer] = []

    def stop(signum: int, frame: FrameType | None) -> None:
        if not stopped.is_set():
            stopped.set()
            timers.append(threading.Timer(grace, give_up))
            timers[0].daemon = True
            timers[0].start()
        for close in closers:
            close()

    def give_up() -> None:
        output.note("stopped during a call of the model; its texts are embedded next time")
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(Exit.OK)

    def on_stop(close: Callable[[], None]) -> None:
        closers.append(close)
        if stopped.is_set():
            close()

    here = threading.current_thread() is threading.main_thread()
    before = [(each, signal.signal(each, stop)) for each in (signal.SIGINT, signal.SIGTERM) if here]
    try:
        yield on_stop
    finally:
        for timer in timers:
            timer.cancel()
        for each, handler in before:
            signal.signal(each, handler)


@contextmanager
def until_terminated() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP where it ends the process, end the block as an exception does, so
    that half a file is removed."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = [each for each in ("SIGTERM", "SIGHUP") if hasattr(signal, each)]
    wanted = [getattr(signal, each) for each in ending]
    taken = [each for each in wanted if signal.getsignal(each) is signal.SIG_DFL]
    for each in taken:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)


@attrs.frozen(kw_only=True, slots=True)
class Globals:
    """The global options as they were given."""

    store: str | None = None
    embedder: str | None = None
    as_json: bool = False
    no_color: bool = False
    quiet: bool = False

    def overlaid(self, later: Globals) -> Globals:
        """These options, and over them those that ``later`` gives."""
        given = attrs.asdict(later).items()
        return attrs.evolve(self, **{k: value for k, value in given if value not in (None, False)})


@attrs.frozen(kw_only=True, slots=True)
class Session:
    """One run of one command."""

    output: Output
    options: Globals
    said: list[str] = attrs.field(factory=list, init=False)
    """What was remarked of the settings: a command may ask for them twice."""

    def settings(self, **given: str | None) -> Settings:
        """The settings in force: options (and those ``given``), then environment, then file."""
        from triptych_factory import Settings

        embedder = None if self.options.embedder == "auto" else self.options.embedder
        given = {name: value for name, value in given.items() if value is not None}
        found = Settings.resolve({"url": self.options.store, "embedder": embedder, **given})
        if found.notice and not self.said:
            self.said.append(found.notice)
            self.output.note(f"note: {found.notice}")
        return found

    @contextmanager
    def service(
        self,
        *,
        create: bool = False,
        settings: Settings | None = None,
        dataset: str = "",
        tells: bool = False,
        preload: bool = False,
        pipeline: str | Sequence[str] | None = None,
    ) -> Iterator[KnowledgeBase]:
        """The Service in force, closed at the block's end.

        It is without a language model, whose key may be missing, unless ``settings`` are given.
        The embedder is that of ``dataset``, unless a setting names one; a command that ``tells``
        says where a search by meaning is not to be had. ``preload`` loads a local model meanwhile,
        for a command that will embed. Of the settings' pipelines it has ``pipeline``, one or
        several; a server has its own.
        """
        from triptych_factory import wire
        from triptych_factory.locations import is_server

        settings = settings or self.settings().without_llm()
        named = (pipeline,) if isinstance(pipeline, str) else tuple(pipeline or ())
        # The pipelines of a server are its own: it says which there are.
        if named and not is_server(settings.url):
            from triptych.search.pipeline_record import find_pipeline
            from triptych_factory.tables import for_pipeline

            for each in named:
                settings = for_pipeline(settings, find_pipeline(settings.pipelines, each))
        with wire(
            settings, create=create, dataset_id=dataset, preload=preload, named=named
        ) as service:
            yield service
            if tells:
                self.tell_embedder(service, settings)

    def tell_embedder(self, service: KnowledgeBase, settings: Settings) -> None:
        """Say how to search by meaning, where the store cannot be searched so.

        An embedder that is not semantic is named by every command. That there is none, where
        nobody chose it, is said once for each store: a setting of the store says that it was. A
        store without settings hears it each time.
        """
        embedder = service.options.embedder
        if embedder is not None and "/not-semantic/" in embedder.signature:
            if not self.output.as_json:
                self.output.note(_not_semantic(settings))
            return
        if settings.embedder != "auto" or embedder is not None:
            return
        from triptych.installation import install_command
        from triptych_factory.embedders import local_is_installed

        installed = local_is_installed()
        said = f"told.keyword-only.{'installed' if installed else 'base'}"
        kept = service.capabilities.settings
        if self.output.quiet or settings.read_only:
            return
        if kept is not None:
            if kept.get_setting(said) is not None:
                return
            with suppress(StoreError):  # a remark is not worth failing for
                kept.set_setting(said, "yes", expected=None)
        how = "no vectors yet: `triptych embed` adds them"
        if not installed:
            install = install_command(extra="local")
            how = f"to search by meaning too, {install}, then `triptych embed`"
        self.output.note(f"note: searched by keyword; {how}")

    def finish(
        self, failed: Sequence[Failure], *values: Any, done: int, placed: bool = False, **shown: Any
    ) -> Exit:
        """Warn of what failed, show the result as `Output.show` does, and say how this ended."""
        self.output.warn_of(failed, placed=placed)
        self.output.show(*values, **shown, unless_quiet=True)
        return exit_after(failed, done=done)


def uncovered(
    service: KnowledgeBase, dataset: str | None = None, of: PutReport | SyncReport | None = None
) -> list[str]:
    """How many chunks of a dataset, or of each, the embedder does not cover, and what does.

    With ``of``, nothing where each chunk that it wrote has a vector, or is to get one.
    """
    if of is not None and (of.pending or of.chunks <= of.embedded + of.reused):
        return []
    place = "dataset " if dataset is None else f"dataset {dataset!r} "
    checks = service.health(probe=False).problems
    return [str(c) for c in checks if c.name == "coverage" and c.detail.startswith(place)]


def _not_semantic(settings: Settings) -> str:
    """The remark that the embedder is not semantic, and what to do about it."""
    from triptych_factory.locations import is_server

    remark = "note: the embedder 'hash' compares words, not meanings"
    if is_server(settings.url):
        return remark
    source = settings.sources.get("embedder", "argument")
    first = "" if source == "argument" else f"take it out of {source}, then "
    return f"{remark}: {first}`triptych rebuild --all --embedder local` replaces its vectors"


def run(
    function: Callable[..., Exit | None], name: str, options: Globals, arguments: dict[str, Any]
) -> Exit:
    output = Output(
        command=name, as_json=options.as_json, quiet=options.quiet, color=not options.no_color
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_: output.warn(str(message))
            ended = function(Session(output=output, options=options), **arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BROKEN_PIPE
    except typer.Abort:
        return _report(KeyboardInterrupt(), output)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - nobody else would tell
        return _report(error, output)
    return Exit.OK if ended is None else ended


def _report(error: BaseException, output: Output) -> Exit:
    """Tell of ``error``: a line on stderr, a JSON object, a traceback where one is asked for."""
    from triptych_adapters.wire.errors import error_json
    from triptych_factory.settings import debug_requested

    code = exit_for(error)
    if isinstance(error, KeyboardInterrupt):
        message = "interrupted; what was committed stays"
    elif isinstance(error, TriptychError):
        message = str(error)
    else:
        message = f"{type(error).__name__}: {error}"
    if debug_requested():
        traceback.print_exception(error)
    if output.as_json:
        told = error_json(error) | {"message": shell_text(message), "exit_code": int(code)}
        output.emit({"error": told})
    output.error(message, hint=hint_for(error))
    return code
