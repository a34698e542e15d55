"""What every command shares while it runs: the opened Service, and how errors end."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs
import typer

from triptych.errors import StoreError, TriptychError
from triptych_adapters.cli.exits import Exit, exit_for, hint_for
from triptych_adapters.cli.output import Output, shell_text

if TYPE_CHECKING:
    from triptych.service import Service
    from triptych_factory import Settings


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
        given = {
            name: value
            for name, value in attrs.asdict(later).items()
            if value is not None and value is not False
        }
        return attrs.evolve(self, **given)


@attrs.frozen(kw_only=True, slots=True)
class Session:
    """One run of one command."""

    output: Output
    options: Globals

    def settings(self, **given: str | None) -> Settings:
        """The settings in force: options (and those ``given``), then environment, then file."""
        from triptych_factory import Settings

        embedder = None if self.options.embedder == "auto" else self.options.embedder
        given = {name: value for name, value in given.items() if value is not None}
        return Settings.resolve({"url": self.options.store, "embedder": embedder, **given})

    @contextmanager
    def service(
        self,
        *,
        create: bool = False,
        settings: Settings | None = None,
        dataset: str = "",
        tells: bool = False,
        preload: bool = False,
        pipeline: str | None = None,
    ) -> Iterator[Service]:
        """The Service in force, closed at the block's end.

        It is without a language model, whose key may be missing, unless ``settings`` are given.
        The embedder is that of ``dataset``, unless a setting names one; a
        command that ``tells`` says where a search by meaning is not to be had. ``preload`` loads
        a local model meanwhile, for a command that will embed. Of the settings' pipelines it has
        ``pipeline``; a server has its own.
        """
        from triptych_factory import wire
        from triptych_factory.locations import is_server

        settings = settings or self.settings().without_llm()
        named = () if pipeline is None else (pipeline,)
        # The pipelines of a server are its own: it says which there are.
        if pipeline is not None and not is_server(settings.url):
            from triptych.search.pipeline_record import find_pipeline
            from triptych_factory.tables import for_pipeline

            settings = for_pipeline(settings, find_pipeline(settings.pipelines, pipeline))
        with wire(
            settings, create=create, dataset_id=dataset, preload=preload, named=named
        ) as service:
            yield service
            if tells:
                self.tell_embedder(service, settings)

    def tell_embedder(self, service: Service, settings: Settings) -> None:
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
        if installed:
            self.output.note(
                "note: searched by keyword; no vectors yet: `triptych embed` adds them"
            )
        else:
            self.output.note(
                "note: searched by keyword; to search by meaning too, "
                f"{install_command(extra='local')}, then `triptych embed`"
            )

    def perform(self, operation: str, /, **arguments: Any) -> Any:
        """Run one operation on the Service in force: what it answers.

        The table of operations says whether the store is created.
        """
        from triptych_adapters.wire.operations import OPERATIONS

        row = OPERATIONS[operation]
        with self.service(create=row.creates) as service:
            return row.run(service, **arguments)


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
