"""What all pages share: templates, static files, headers, and how a failure is shown."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

import triptych
from triptych.errors import AuthenticationError, TriptychError
from triptych.records import counted
from triptych.runtime import SEARCHES
from triptych.text import visible
from triptych_adapters import shown_kind
from triptych_server.console.markdown import excerpt, marked, quoted, title
from triptych_server.console.visit import (
    KEY_COOKIE,
    TOKEN_COOKIE,
    TOKEN_FIELD,
    Visit,
    asked_path,
    cookie_name,
    cookie_of,
    field_of,
    is_filtered_by,
    is_foreign,
    own_path,
    path_of,
    root_of,
    visit_of,
)
from triptych_server.http.preconditions import etag, is_unchanged
from triptych_server.http.responses import Problem, ProblemError, note_failure, problem_of
from triptych_server.http.routes import RawRoute, media_types
from triptych_server.http.server import Server

_HERE: Final = Path(__file__).parent
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_PARTS: Final = {"search": "results", "ask": "results", "listing": "rows"}
"""What of a page is sent alone, while somebody types."""
REFUSED: Final = "This key is not valid: it may be mistyped, revoked or expired."
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}

Made = Mapping[str, Any] | Response
"""What a page's template is given, or another answer in its place."""


def moment(value: datetime | None, *, day: bool = False) -> Markup:
    """A moment, or its day, as a person reads it, and as a machine does."""
    if value is None:
        return Markup("–")
    iso = value.isoformat(timespec="seconds")
    return Markup('<time datetime="%s">%s</time>') % (
        iso,
        f"{value:%Y-%m-%d}{'' if day else f'{value: %H:%M}'}",
    )


def plain(value: Any) -> str:
    """A value of metadata in plain words."""
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def score(value: float | None) -> str:
    """A score with as many digits as tell two apart."""
    return "–" if value is None else f"{value:.4g}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {
        each.__name__: each
        for each in (counted, excerpt, marked, moment, plain, quoted, score, title, visible)
    }
    made.globals |= {
        "field_of": field_of,
        "is_filtered_by": is_filtered_by,
        "path_of": path_of,
        "shown_kind": shown_kind,
        "static": _static_path,
        "token_field": TOKEN_FIELD,
    }
    return made


@cache
def _static() -> dict[str, tuple[bytes, str]]:
    """The bytes of each static file, and a digest of them."""
    files = {path.name: path.read_bytes() for path in sorted((_HERE / "static").iterdir())}
    return {name: (body, hashlib.sha256(body).hexdigest()[:12]) for name, body in files.items()}


def _static_path(name: str) -> str:
    return f"/console/static/{name}?v={_static()[name][1]}"


def render(template: str, visit: Visit | None, **values: Any) -> bytes:
    """The bytes of a page."""
    made = _environment().get_template(f"{template}.html")
    common: dict[str, Any] = {
        "visit": visit,
        "root": "" if visit is None else visit.root,
        "signed_in": visit is not None
        and visit.server.authenticate is not None
        and cookie_of(visit.request, KEY_COOKIE) != "",
        "version": triptych.__version__,
        "counts": {},
    }
    return made.render(common | values).encode(errors="replace")  # names of files may be no text


class Site:
    """The pages of one server; ``counts`` says how much waits on some of them, by their paths."""

    def __init__(self, server: Server, counts: Callable[[Visit], Mapping[str, int]]) -> None:
        self.server = server
        self.counts = counts

    def page(
        self,
        path: str,
        template: str,
        make: Callable[[Visit], Made],
        *,
        posts: Callable[[Visit], Made] | None = None,
        long: bool = False,
        costs: bool = False,
    ) -> Iterator[RawRoute]:
        """The route of a page, which ``make`` gives its values; and the one of its form.

        One that ``costs`` calls of a model or long work is not made for a link of another site: a
        person goes on from there.
        """
        name = f"console_{template}"
        show = partial(self._answer, template, make, long, costs=costs)
        yield RawRoute(path, show, methods=["GET"], name=name)
        if posts is not None:
            post = partial(self._answer, template, posts, long, writes=True)
            yield RawRoute(path, post, methods=["POST"], name=f"{name}_post")

    def form(
        self, path: str, name: str, take: Callable[[Visit], Response], *, long: bool = False
    ) -> Iterator[RawRoute]:
        """The route of a form that changes nothing that is stored."""
        post = partial(self._answer, "", take, long)
        yield RawRoute(path, post, methods=["POST"], name=f"console_{name}")

    async def _answer(
        self,
        template: str,
        make: Callable[[Visit], Made],
        long: bool,
        request: Request,
        *,
        writes: bool = False,
        costs: bool = False,
    ) -> Response:
        visit: Visit | None = None
        try:
            visit = asked = await visit_of(self.server, request)
            if writes:
                asked.check_writes()
            if costs and is_foreign(request) and asked.here != "/":
                return html(render("linked", asked))

            def answer() -> Response:
                made = make(asked)
                if isinstance(made, Response):
                    return made
                part = _PARTS.get(template) if asked.is_part else None
                with SEARCHES.taken():
                    counts = {} if part else self.counts(asked)
                    return html(render(part or template, asked, counts=counts, **made))

            async with self.server.calls.caller(request, long=long) as caller:
                response = await caller.run(answer)
        except AuthenticationError:
            sent = cookie_of(request, KEY_COOKIE)
            return sign_in_page(request, REFUSED if sent else "", 401)
        except (ProblemError, TriptychError) as error:
            note_failure(request.scope, error)
            problem = problem_of(error)
            page = render("error", visit, problem=problem, root=root_of(request))
            response = html(page, problem.status)
            response.headers.update(problem.headers)
        if visit is not None and not cookie_of(request, TOKEN_COOKIE):
            set_cookie(response, request, TOKEN_COOKIE, visit.token)
        return response

    def static(self) -> Iterator[RawRoute]:
        """The route of the style sheet and the scripts."""

        async def answer(request: Request) -> Response:
            name = request.path_params["file"]
            if name not in _static():
                raise ProblemError(404, "NOT_FOUND", "this file does not exist")
            body, digest = _static()[name]
            headers = {"ETag": etag(digest.encode()), "Content-Type": _TYPES[Path(name).suffix]}
            headers["Cache-Control"] = "public, max-age=31536000, immutable"
            if is_unchanged(request, headers["ETag"]):
                return Response(status_code=304, headers=headers)
            return Response(body, headers=headers)

        yield RawRoute("/console/static/{file}", answer, methods=["GET"], name="console_static")


def sign_in_page(request: Request, refused: str, status: int = 200, *, back: str = "") -> Response:
    """The form that takes a key, and then leads ``back``, or to the page that was asked for."""
    token = cookie_of(request, TOKEN_COOKIE) or secrets.token_urlsafe(24)
    query = f"?{request.url.query}" if request.url.query else ""
    asked = back or (asked_path(request) + query if request.method == "GET" else "")
    values = {"form_token": token, "root": root_of(request), "back": own_path(asked, "")}
    page = render("sign_in", None, refused=refused, **values)
    response = html(page, status)
    set_cookie(response, request, TOKEN_COOKIE, token)
    return response


def problem_page(request: Request, problem: Problem) -> Response | None:
    """A failure as a page for a browser; None for programs and for paths of the API."""
    root = root_of(request)
    is_api = request.scope["path"].removeprefix(root).startswith("/v1/")
    if is_api or "text/html" not in media_types(request):
        return None
    page = html(render("error", None, problem=problem, root=root), problem.status)
    page.headers.update(problem.headers)
    return page


def html(body: bytes, status: int = 200) -> Response:
    """A page."""
    return Response(body, status, dict(HEADERS), "text/html")


def see_other(request: Request, path: str) -> Response:
    """Redirect to a page after a form was accepted, so that a reload sends nothing again."""
    return RedirectResponse(root_of(request) + path, 303, dict(HEADERS))


def set_cookie(response: Response, request: Request, name: str, value: str | None) -> None:
    """Set a cookie that no script reads and no other site sends; None takes it away."""
    root, name = root_of(request) or "/", cookie_name(request, name)
    secure = request.url.scheme == "https"
    if value is None:
        response.delete_cookie(name, path=root, secure=secure, httponly=True, samesite="strict")
    else:
        response.set_cookie(name, value, path=root, secure=secure, httponly=True, samesite="strict")
