"""The routes of the console."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from triptych.errors import AuthenticationError, TriptychError
from triptych_adapters.console import (
    asking,
    documents,
    gaps,
    golden,
    keys,
    reviews,
    searching,
    upkeep,
)
from triptych_adapters.console.site import (
    HEADERS,
    REFUSED,
    Made,
    Site,
    html,
    render,
    set_cookie,
    sign_in_page,
)
from triptych_adapters.console.visit import (
    KEY_COOKIE,
    Visit,
    posted,
    service_of,
)
from triptych_adapters.http.responses import ProblemError, problem_of
from triptych_adapters.http.routes import RawRoute
from triptych_adapters.http.server import Server


def console_routes(server: Server) -> Iterator[RawRoute]:
    """Every page of the console, and its files."""
    site = Site(server)
    one = "/console/documents/{dataset_id}/{name}"
    yield from site.static()
    yield from site.page("/", "search", searching.bench)
    yield from site.page("/console/ask", "ask", asking.ask, long=True)
    yield RawRoute(
        "/console/ask/stream",
        partial(asking.stream, server),
        methods=["GET"],
        name="console_ask_stream",
    )
    yield from site.page("/console/datasets", "datasets", documents.datasets)
    yield from site.page("/console/datasets/{dataset_id}", "listing", documents.listing)
    yield from site.page(one, "document", documents.document, posts=documents.change_document)
    yield from site.page("/console/put", "put", documents.new, posts=documents.put)
    yield from site.page("/console/sandbox", "sandbox", documents.sandbox)
    yield from site.page("/console/work", "work", upkeep.work, posts=upkeep.mend, long=True)
    yield from site.page(
        "/console/reviews", "reviews", reviews.reviews, posts=reviews.decide, long=True
    )
    yield from site.page("/console/gaps", "gaps", gaps.gaps)
    yield from site.page("/console/golden", "golden", golden.golden, posts=golden.judge)
    yield from site.page("/console/connect", "connect", connect)
    yield from site.page("/console/keys", "keys", keys.keys, posts=keys.change_keys)
    yield from site.form("/console/see-as", "see_as", keys.see_as)
    yield from sessions(server)


def connect(visit: Visit) -> Made:
    """How programs and agents reach this server."""
    url = visit.request.url
    return {"url": f"{url.scheme}://{url.netloc}{visit.root}"}


def sessions(server: Server) -> Iterator[RawRoute]:
    """Sign in, which puts a key into a cookie, and sign out."""

    async def form(request: Request) -> Response:
        return sign_in_page(request, "")

    async def sign_in(request: Request) -> Response:
        try:
            key = dict(await posted(request)).get("key", "").strip()
            await service_of(server, request, key=key)
        except AuthenticationError:
            return sign_in_page(request, REFUSED, 401)
        except (ProblemError, TriptychError) as error:
            problem = problem_of(error)
            return html(render("error", None, problem=problem), problem.status)
        response = RedirectResponse(_root(request) + "/", 303, dict(HEADERS))
        set_cookie(response, request, KEY_COOKIE, key)
        return response

    async def sign_out(request: Request) -> Response:
        try:
            await posted(request)
        except ProblemError as error:
            return html(render("error", None, problem=error.problem), error.problem.status)
        response = RedirectResponse(_root(request) + "/console/sign-in", 303, dict(HEADERS))
        set_cookie(response, request, KEY_COOKIE, None)
        return response

    path = "/console/sign-in"
    yield RawRoute(path, form, methods=["GET"], name="console_sign_in")
    yield RawRoute(path, sign_in, methods=["POST"], name="console_sign_in_post")
    yield RawRoute("/console/sign-out", sign_out, methods=["POST"], name="console_sign_out")


def _root(request: Request) -> str:
    root: str = request.scope.get("root_path", "").rstrip("/")
    return root
