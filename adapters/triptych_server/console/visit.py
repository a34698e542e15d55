"""One request for a page: who asks, what was typed, and links that keep the rest of the page."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import attrs
from starlette.requests import Request

from triptych.errors import (
    AccessDeniedError,
    DerivationError,
    ProviderError,
    TriptychError,
    ValidationError,
)
from triptych.search import is_or_holds
from triptych.service import KnowledgeBase
from triptych_adapters.wire import strict_json
from triptych_server.http.responses import ProblemError, problem_of
from triptych_server.http.routes import query_of
from triptych_server.http.server import Server, sender_of
from triptych_server.keys import KeyStore

KEY_COOKIE: Final = "triptych_key"
AS_COOKIE: Final = "triptych_as"
TOKEN_COOKIE: Final = "triptych_form"
_BOUND: Final = "__Host-"
"""What begins the name of a cookie that browsers take from this host alone, and over TLS."""
TOKEN_FIELD: Final = "form_token"
_FORM_TYPE: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 1_000

Pairs = Sequence[tuple[str, str]]


# To a browser these are folders, however they are encoded.
_DOTS: Final = re.compile(r"~*\.{1,2}")


def path_of(*parts: str) -> str:
    """A path of the console, each part one segment, whatever it holds; `Visit.part` reads it."""
    escaped = (f"~{part}" if _DOTS.fullmatch(part) else part for part in parts)
    return "/".join(["/console", *(quote(part, safe="") for part in escaped)])


def asked_path(request: Request) -> str:
    """The path that was asked for below that of the app, as it was sent, without its query."""
    raw = request.scope.get("raw_path")
    path = quote(request.scope["path"]) if raw is None else raw.decode("latin-1")
    return path.partition("?")[0].removeprefix(quote(root_of(request)))


def own_path(path: str, default: str) -> str:
    """A path that a form leads back to, if it is a page of the console to be shown again."""
    is_own = path.startswith(("/?", "/console/")) and not path.startswith("/console/sign-in")
    return path if is_own else default


def root_of(request: Request) -> str:
    """Where the app is mounted, without a slash at the end."""
    found: str = request.scope.get("root_path", "").rstrip("/")
    return found


@attrs.frozen(kw_only=True)
class Visit:
    """One request of a person.

    Attributes:
        request: as it was sent.
        server: what it was sent to.
        own: what its sender may use.
        service: what the page shows: ``own``, or what the key sees that it is seen as.
        seen_as: the name of that key; "" where it is the sender's own.
        can_write: whether changes are offered, and accepted.
        token: what each form sends back, so that no other site can post one.
        form: the fields of a form that was posted.
    """

    request: Request
    server: Server
    own: KnowledgeBase
    service: KnowledgeBase
    seen_as: str = ""
    can_write: bool
    token: str
    form: Pairs = ()

    def check_writes(self) -> None:
        """Refuse a form where nothing may be changed.

        Raises:
            ProblemError: 403.
        """
        if not self.can_write:
            raise ProblemError(
                403,
                "READ_ONLY",
                "here nothing can be changed",
                hint="the server must run with --write, and the key must be one that writes",
            )

    @cached_property
    def _typed(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, value in (*query_of(self.request), *self.form):
            found.setdefault(name, []).append(value)
        return found

    @property
    def is_part(self) -> bool:
        """Whether what a page lists is wanted without the page, as while somebody types."""
        return self.request.headers.get("x-part") == "results"

    def part(self, name: str) -> str:
        """A part of the page's path, as `path_of` was given it."""
        found: str = self.request.path_params[name]
        return found.removeprefix("~") if _DOTS.fullmatch(found) else found

    def one(self, name: str, default: str = "") -> str:
        """What a field holds, without white space around it."""
        return self._typed.get(name, [default])[-1].strip()

    def one_of(self, name: str, offered: Collection[str], default: str = "") -> str:
        """A value that the page offers, ``default`` for none; any other is refused."""
        found = self.one(name) or default
        if found not in offered:
            raise ValidationError(f"{name} is one of {', '.join(offered)}, not {found!r:.60}")
        return found

    def several(self, name: str) -> list[str]:
        """All values of a field that hold something."""
        return [value for value in map(str.strip, self._typed.get(name, ())) if value]

    def number(self, name: str, default: int, *, least: int = 0, most: int = 10**9) -> int:
        """A whole number.

        Raises:
            ValidationError: it is none, or out of range.
        """
        text = self.one(name)
        if not text:
            return default
        found = whole_of(text)
        if found is None or not least <= found <= most:
            raise ValidationError(f"{name} must be a whole number from {least} to {most:,}")
        return found

    def kept(self, *without: str) -> Pairs:
        """The fields of this URL that a form of the page sends again."""
        return [(name, value) for name, value in query_of(self.request) if name not in without]

    def message_of(self, error: BaseException) -> str:
        """What a page says of an error: what a model's provider said, as the log has it, is for
        whoever sees the whole store."""
        of_a_model = isinstance(error, ProviderError | DerivationError)
        if of_a_model and may(self.server.check_sees_all, self.service, ""):
            return str(error)
        return problem_of(error).message

    @property
    def here(self) -> str:
        """This page, for a form that leads back to it."""
        return self.link().removeprefix(self.root)

    @property
    def root(self) -> str:
        """Where the app is mounted; before every path of a link."""
        return root_of(self.request)

    def link(self, **changes: Any) -> str:
        """This page with these fields in place of those it has; None drops one."""
        kept = query_of(self.request)
        dropped = {"done", *changes}
        pairs = [(name, value) for name, value in kept if name not in dropped and value]
        pairs += [(name, str(value)) for name, value in changes.items() if value is not None]
        return f"{self.root}{asked_path(self.request)}" + (f"?{urlencode(pairs)}" if pairs else "")


def is_foreign(request: Request) -> bool:
    """Whether a page of another site sent a request, as browsers say; a person may have followed
    a link there."""
    return request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


async def visit_of(server: Server, request: Request, *, by_link: bool = True) -> Visit:
    """Who asks, and for what; ``by_link`` says that a link of another site may lead here.

    Raises:
        AuthenticationError: the server has keys, and the request has none that is valid.
        ProblemError: a form comes from another site, or is no form.
    """
    form = await posted(request) if request.method == "POST" else ()
    is_link = by_link and request.headers.get("sec-fetch-dest") == "document"
    if is_foreign(request) and not is_link:
        raise ProblemError(
            403,
            "FORBIDDEN",
            "a page of another site sent this request, which is no link that a person followed",
            hint="open the page itself",
        )
    own = await service_of(server, request)
    access = own.access
    seen_as, service = "", own
    if key_id := cookie_of(request, AS_COOKIE):
        seen_as, service = await server.calls.apart(lambda: _as_key(server, own, key_id))
    return Visit(
        request=request,
        server=server,
        own=own,
        service=service,
        seen_as=seen_as,
        can_write=server.write and not seen_as and (access is None or access.can_write),
        token=cookie_of(request, TOKEN_COOKIE) or secrets.token_urlsafe(24),
        form=form,
    )


def _as_key(server: Server, own: KnowledgeBase, key_id: str) -> tuple[str, KnowledgeBase]:
    """A key's name and what it sees; the sender's own, where there is no such key or no right."""
    try:
        server.check_sees_all(own, "seeing as a key is")
        key = KeyStore.of(server.service).get(key_id)
    except TriptychError:
        return "", own
    if key is None:
        return "", own
    return key.name or key.id, server.service.restricted(attrs.evolve(key.access, can_write=False))


async def service_of(server: Server, request: Request, *, key: str | None = None) -> KnowledgeBase:
    """What a key may use: the one given, the one in the header, or the one in the cookie.

    Raises:
        TriptychError: the key is refused.
    """
    if server.authenticate is None or (key is None and "authorization" in request.headers):
        return await server.service_of(request)
    key = cookie_of(request, KEY_COOKIE) or None if key is None else key
    return await sender_of(request.scope).admit(
        server.authenticate,
        None if key is None else f"Bearer {key}",
        server.calls.apart,
        server.limits.seconds,
    )


def cookie_name(request: Request, name: str) -> str:
    """The name by which the cookie is set and read: bound to the host where that is possible."""
    bound = request.url.scheme == "https" and not root_of(request)
    return f"{_BOUND}{name}" if bound else name


def cookie_of(request: Request, name: str) -> str:
    """The value of a cookie of this console; "" where it was not sent."""
    return request.cookies.get(cookie_name(request, name), "")


async def posted(request: Request) -> Pairs:
    """The fields of a form of this console.

    Raises:
        ProblemError: it is none: it has another type, or not the token that our pages set.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM_TYPE:
        raise ProblemError(415, "UNSUPPORTED_MEDIA_TYPE", f"a form is sent as {_FORM_TYPE}")
    try:
        form = parse_qsl(
            (await request.body()).decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise ProblemError(400, "INVALID_REQUEST", "the form is not readable") from None
    token = cookie_of(request, TOKEN_COOKIE)
    sent = dict(form).get(TOKEN_FIELD, "")
    site = request.headers.get("sec-fetch-site", "same-origin")
    is_own = site in ("same-origin", "none") and token != ""
    if not is_own or not secrets.compare_digest(sent.encode(), token.encode()):
        raise ProblemError(
            403,
            "FORBIDDEN",
            "this form was not sent by a page of this console",
            hint="open the page again, and send the form from there; cookies must be allowed",
        )
    return [(name, value) for name, value in form if name != TOKEN_FIELD]


def whole_of(text: str) -> int | None:
    """The whole number that a text is, of at most ten digits; None if it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else None


def may(check: Callable[..., object], *arguments: Any) -> bool:
    """Whether a check of an access passes."""
    try:
        check(*arguments)
    except AccessDeniedError:
        return False
    return True


# Filters


_RESERVED: Final = frozenset({"doc_name", "doc_prefix", "heading"})


def is_filtered_by(key: str) -> bool:
    """Whether a key of metadata can be filtered by: some stand for a document's own fields."""
    return key not in _RESERVED and not key.startswith("$")


def field_of(value: Any) -> str:
    """A value of metadata as a field of a URL: text as it is, anything else as ``#`` and JSON."""
    plain = isinstance(value, str) and not value.startswith("#")
    return str(value) if plain else f"#{json.dumps(value, ensure_ascii=False)}"


def where_of(visit: Visit) -> dict[str, Any]:
    """The filter of a page: fields ``f.KEY=VALUE``, those of one key mean any of its values.

    A list that holds the value passes too.

    Raises:
        ValidationError: a key or a value cannot be filtered by.
    """
    found: dict[str, list[Any]] = {}
    for name, text in query_of(visit.request):
        key = name.removeprefix("f.")
        if key == name or not text:
            continue
        if not is_filtered_by(key):
            raise ValidationError(f"the metadata key {key!r:.60} cannot be filtered by")
        try:
            value = strict_json(text[1:]) if text.startswith("#") else text
        except (ValueError, RecursionError):
            raise ValidationError(f"{text!r:.60} is no value of a filter") from None
        found.setdefault(key, []).append(value)
    asked = [is_or_holds(key, values) for key, values in found.items()]
    return asked[0] if len(asked) == 1 else {"$and": asked} if asked else {}
