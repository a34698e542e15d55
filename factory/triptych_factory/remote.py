"""A knowledge base that a server serves, from settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from triptych._internal.urls import shown_url
from triptych.errors import NotAvailableError, ValidationError
from triptych.installation import lacking
from triptych.service import Service
from triptych_factory.locations import is_server
from triptych_factory.provider_access import TRUSTED_HOSTS, is_trusted
from triptych_factory.settings import Settings

_OWN = frozenset({"url", "api_key"})


def check_local(settings: Settings, doing: str) -> None:
    """Refuse a server where ``doing`` needs the store itself.

    Raises:
        NotAvailableError: the settings name a server.
    """
    if is_server(settings.url):
        raise NotAvailableError(
            f"{doing} works on the store itself, and {shown_url(settings.url)} is a knowledge base "
            "on a server: run it where the server runs; `triptych put PATH` sends files there"
        )


def connect(
    settings: Settings, given: Iterable[str] = (), environ: Mapping[str, str] | None = None
) -> Service:
    """The Service at the address that ``settings`` name; nothing is asked of it yet.

    ``given`` are names of arguments that are the server's business. A key goes to an address that
    the user gave, or that stands in the file of the key, or whose host the user trusts.

    Raises:
        ValidationError: the address or the key is invalid, the key may not go there, or an
            argument is the server's business.
        NotAvailableError: the extra ``http`` is not installed.
    """
    named = {name for name, source in settings.sources.items() if source == "argument"} - _OWN
    if wrong := sorted({*named, *given}):
        raise ValidationError(
            f"{', '.join(wrong)}: a knowledge base on a server is set up where the server runs; "
            "leave that out, or give the path of a store"
        )
    key = settings.api_key
    if key and settings.origin("url") == "file" and settings.origin("api_key") != "file":
        environ = os.environ if environ is None else environ
        if not is_trusted(settings.url, environ):
            raise ValidationError(
                f"the key in TRIPTYCH_API_KEY is not sent to {shown_url(settings.url)!r:.200}, "
                f"which {settings.sources['url']} names: if you trust that address with it, name "
                f"its host in {TRUSTED_HOSTS}, or set TRIPTYCH_URL"
            )
    try:
        # The one import that points upwards here: to the records of a server belongs its wire.
        from triptych_adapters.client import connect as connected
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("triptych_adapters", "triptych"):
            raise
        raise lacking(
            "a knowledge base on a server needs the package httpx, which is not installed", "http"
        ) from error
    return connected(settings.url, key=key)
