"""The routes of the console."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from triptych.errors import AuthenticationError
from triptych_server.console import (
    ask,
    documents,
    file_pages,
    folders,
    gaps,
    golden,
    impact,
    keys,
    progress,
    replay,
    reviews,
    search,
    upkeep,
)
from triptych_server.console.site import (
    REFUSED,
    Made,
    Site,
    see_other,
    set_cookie,
    sign_in_page,
)
from triptych_server.console.tasks import task_of
from triptych_server.console.visit import KEY_COOKIE, Visit, own_path, posted, service_of
from triptych_server.console.work_lists import Waiting
from triptych_server.http.routes import Endpoint, RawRoute
from triptych_server.http.server import Server


def console_routes(server: Server) -> Iterator[RawRoute]:
    """Every page of the console, and its files."""
    site = Site(server, partial(waiting, Waiting()))
    one = "/console/documents/{dataset_id}/{name}"

    def stream(page: str, answer: Endpoint, *methods: str) -> RawRoute:
        path, name = f"/console/{page}/stream", f"console_{page}_stream"
        return RawRoute(path, answer, methods=methods or ["POST"], name=name)

    yield from site.static()
    yield from site.page("/", "search", search.bench, costs=True)
    yield from site.page("/console/ask", "ask", ask.ask, long=True, costs=True)
    yield from site.form("/console/ask", "ask_post", ask.follow, long=True)
    yield stream("ask", partial(ask.stream, server), "GET", "POST")
    yield from site.page("/console/replay", "replay", replay.form)
    yield from site.form("/console/replay", "replay_post", replay.replayed, long=True)
    yield from site.page(
        "/console/datasets", "datasets", folders.datasets, posts=folders.act, long=True
    )
    yield stream("folders", partial(progress.stream, folders.sync_of, folders.ended, server))
    yield from site.page("/console/datasets/{dataset_id}", "listing", documents.listing)
    yield from site.page(one, "document", documents.document, posts=documents.change_document)
    drawn = "/console/pages/{dataset_id}/{name}/{page}"
    yield from site.page(drawn, "page_image", file_pages.page_image, long=True, costs=True)
    yield from site.page("/console/put", "put", documents.new, posts=documents.put)
    yield from site.page("/console/sandbox", "sandbox", documents.sandbox)
    yield from site.page(
        "/console/work", "work", upkeep.work, posts=upkeep.act, long=True, costs=True
    )
    yield stream("work", partial(progress.stream, task_of, upkeep.ended, server))
    yield from site.page(
        "/console/reviews", "reviews", reviews.reviews, posts=reviews.decide, long=True, costs=True
    )
    yield from site.page("/console/gaps", "gaps", gaps.gaps)
    yield from site.page("/console/impact", "impact", impact.impact, long=True, costs=True)
    yield from site.page("/console/golden", "golden", golden.golden, posts=golden.judge, costs=True)
    yield from site.page("/console/connect", "connect", connect)
    yield from site.page("/console/keys", "keys", keys.keys, posts=keys.change_keys)
    yield from site.form("/console/see-as", "see_as", keys.see_as)
    yield from sessions(server)


def waiting(to_do: Waiting, visit: Visit) -> Mapping[str, int]:
    """How much waits on a page, by its path."""
    if visit.service.capabilities.settings is None:
        return {}
    proposals = sum(reviews.waiting_in(visit).values())
    return {
        "/console/work": to_do(visit),
        "/console/reviews": proposals,
        "/console/gaps": gaps.counted(visit),
    }


def connect(visit: Visit) -> Made:
    """How programs and agents reach this server."""
    url = visit.request.url
    return {"url": f"{url.scheme}://{url.netloc}{visit.root}"}


def sessions(server: Server) -> Iterator[RawRoute]:
    """Sign in, which puts a key into a cookie, and sign out."""

    async def form(request: Request) -> Response:
        return sign_in_page(request, "")

    async def sign_in(request: Request) -> Response:
        form = dict(await posted(request))
        key, back = form.get("key", "").strip(), form.get("back", "")
        response = see_other(request, own_path(back, "/"))
        if server.authenticate is None:
            return response
        try:
            await service_of(server, request, key=key)
        except AuthenticationError:
            return sign_in_page(request, REFUSED, 401, back=back)
        set_cookie(response, request, KEY_COOKIE, key)
        return response

    async def sign_out(request: Request) -> Response:
        await posted(request)
        response = see_other(request, path)
        set_cookie(response, request, KEY_COOKIE, None)
        return response

    path = "/console/sign-in"
    yield RawRoute(path, form, methods=["GET"], name="console_sign_in")
    yield RawRoute(path, sign_in, methods=["POST"], name="console_sign_in_post")
    yield RawRoute("/console/sign-out", sign_out, methods=["POST"], name="console_sign_out")
