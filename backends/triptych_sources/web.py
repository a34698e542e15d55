"""A web site, by its sitemap."""

from __future__ import annotations

import builtins
import codecs
import hashlib
import mimetypes
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, unquote, urljoin, urlsplit

from triptych.errors import SourceError, ValidationError
from triptych.records import check_number, check_whole
from triptych.sync import Fetched, SourceEntry
from triptych_sources.http import AGENT, Answer, SiteClient, limited, same_site
from triptych_sources.robots import Robots
from triptych_sources.sitemap import SitemapEntry, read_sitemap, revision_of

_MOST_OF_ROBOTS: Final = 512 << 10
_MOST_OF_SITEMAP: Final = 50 << 20
_MOST_SITEMAPS: Final = 1000
_MOST_PROBES: Final = 3
_NAMED = re.compile(r"\.(xml|xml\.gz|txt)$", re.IGNORECASE)
_READABLE = re.compile(r"(?:%[89A-Fa-f][0-9A-Fa-f])+")
_AS_IT_IS: Final = "%/?&=*$+,;:@!'()~-._"
_TYPES: Final = mimetypes.MimeTypes()
_HTML: Final = ("text/html", "application/xhtml+xml")


class WebSource:
    """The pages of a web site that its sitemap lists, as a source.

    The sitemaps are those of robots.txt, else ``sitemap.xml`` below the location or at the root.
    Pages are taken that are below the location; if that is a sitemap itself, all of its site.
    robots.txt is obeyed. A document's name is the page's path below the location, with
    ``index.html`` for a final slash; ``source_url`` is its address, ``source_revision`` its ETag or
    time of modification. A page is fetched if its ``lastmod`` has changed; without a ``lastmod``
    the server is asked whether it changed.
    """

    def __init__(
        self,
        location: str,
        *,
        private: bool = False,
        delay: float = 1.0,
        max_bytes: int = 16 * 1024 * 1024,
        max_pages: int = 10_000,
        max_seconds: float = 3600.0,
    ) -> None:
        """Set the site and limits; nothing is fetched yet.

        Args:
            location: the address of the site, of a part of it, or of a sitemap.
            private: whether the host may have addresses of this machine or of private networks.
            delay: the least number of seconds between two requests; the site may ask for more.
            max_bytes: the limit for a page. A sitemap may have 50 MiB.
            max_pages: the limit for listed pages. Beyond it the list counts as incomplete.
            max_seconds: the limit for one sync. The next sync continues.

        Raises:
            ValidationError: an argument is invalid.
        """
        try:
            parts = urlsplit(location)
            valid = (
                parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.fragment
            )
            valid = valid and not parts.query and (parts.port or 1) > 0
            host = _ascii(parts.netloc)
        except ValueError:
            valid = False
        if not valid or "@" in location.partition("://")[2].partition("/")[0]:
            raise ValidationError(
                f"{location.rpartition('@')[2]!r:.100} is no address of a web site: write "
                "https://host/ or https://host/sitemap.xml, without a user or password"
            )
        is_sitemap = bool(_NAMED.search(parts.path))
        path = quote(parts.path or "/", safe=_AS_IT_IS)
        if not is_sitemap and not path.endswith("/"):
            path += "/"
        self._root = f"{parts.scheme}://{host}/"
        self.location: str = urljoin(self._root, path)
        self._sitemap = self.location if is_sitemap else ""
        self._base = "/" if is_sitemap else path
        self._private = private
        self._delay = check_number(delay, "delay", of="seconds")
        self._max_bytes = check_whole(max_bytes, "max_bytes", least=1)
        self._max_pages = check_whole(max_pages, "max_pages", least=1)
        self._max_seconds = check_number(max_seconds, "max_seconds", above=True, of="seconds")
        self._robots = Robots()
        self._client = self._made()
        self._addresses: dict[str, str] = {}
        self._entries: list[SourceEntry] = []
        self._ends: dict[str, set[str]] = {}
        self._failed: SourceError | None = None
        self._listed = False

    def __enter__(self) -> Self:
        self._client, self._listed = self._made(), False
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entries, self._listed = [], False

    def revision(self) -> str:
        """Return the digest of all entries; "" if one has no ``lastmod``, or the list is
        incomplete.

        Raises:
            SourceError: the site is away, or its robots.txt is.
        """
        self._entries, self._addresses, self._ends, self._failed = [], {}, {}, None
        self._listed = True
        self._robots = self._read_robots()
        self._client.delay = max(self._delay, self._robots.delay)
        now = datetime.now(UTC)
        for each in self._read_sitemaps():
            self._add(each, now)
            if len(self._entries) > self._max_pages:
                self._entries.pop()
                self._failed = SourceError(
                    f"{self.location} lists more than {self._max_pages:,} pages: those were "
                    "synced, and none is deleted; name a part of the site, or raise max_pages"
                )
                break
        if not self._entries and self._failed is None:
            self._failed = SourceError(
                f"the sitemap of {self.location} lists no page below it: name an address of which "
                "there are pages in its sitemap"
            )
        if self._failed or not all(each.revision or each.skip for each in self._entries):
            return ""
        return hashlib.sha256(repr(self._entries).encode()).hexdigest()

    def list(self) -> Iterator[SourceEntry]:
        """Yield the pages.

        Raises:
            SourceError: the list is incomplete: a sitemap could not be read, or there are too many
                pages.
        """
        if not self._listed:
            self.revision()
        yield from self._entries
        if self._failed is not None:
            raise self._failed

    def fetch(self, name: str, known: str) -> Fetched | None:
        """Return a page, or None if the server says that it is as it was.

        Raises:
            SourceError: it cannot be read, or exceeds a limit.
        """
        url = self._addresses.get(name)
        if url is None:
            raise SourceError(f"{self.location} lists no page {name!r}")
        headers = {}
        if known:
            tag = known.startswith(('"', 'W/"'))
            headers["if-none-match" if tag else "if-modified-since"] = known
        answer = self._client.get(url, most=self._max_bytes, headers=headers)
        if answer.status == 304 and known:
            return None
        if answer.status != 200:
            gone = ", though the sitemap lists it" if answer.status in (404, 410) else ""
            raise SourceError(f"{url} is answered with HTTP {answer.status}{gone}")
        end = _end(answer.url, url)
        if end and self._is_shared(end, name):
            raise SourceError(
                f"{url} leads to {end}, as other pages do: the site may ask for a login, or the "
                "page is gone; what was stored is kept"
            )
        kind, data = _typed(answer)
        revision = answer.headers.get("etag") or answer.headers.get("last-modified", "")
        return Fetched(data=data, url=answer.url, revision=revision, hint=_hint(name, kind))

    def _is_shared(self, end: str, name: str) -> bool:
        """Whether another page leads to this address, too.

        Of the first one that does, that is not known yet. So one page beside it is asked, unless
        several addresses had nothing in common: then the site has moved its pages one by one.
        """
        pages = self._ends.setdefault(end, set())
        pages.add(name)
        if len(pages) == 1 and len(self._ends) <= _MOST_PROBES:
            names = [*self._addresses]
            at = names.index(name)
            for beside in (*names[at + 1 :], *reversed(names[:at])):
                url = self._addresses[beside]
                if url.partition("?")[0] != end and self._allows(url):
                    with suppress(SourceError):
                        answer = self._client.get(url, most=self._max_bytes)
                        if _end(answer.url, url) == end:
                            pages.add(beside)
                    break
        return len(pages) > 1

    def _made(self) -> SiteClient:
        return SiteClient(
            self._root,
            private=self._private,
            delay=self._delay,
            seconds=self._max_seconds,
            allowed=self._allows,
        )

    def _allows(self, url: str) -> bool:
        parts = urlsplit(url)
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        return path == "/robots.txt" or self._robots.allows(path)

    def _read_robots(self) -> Robots:
        self._robots = Robots()
        answer = self._client.get(urljoin(self._root, "/robots.txt"), most=_MOST_OF_ROBOTS)
        if answer.status == 200:
            return Robots.of(answer.body.decode("utf-8-sig", "replace"), AGENT)
        if 400 <= answer.status < 500:
            return Robots()
        raise SourceError(
            f"{answer.url} is answered with HTTP {answer.status}, so nothing is allowed: sync later"
        )

    def _read_sitemaps(self) -> Iterator[SitemapEntry]:
        """The pages of all sitemaps, whose failures are noted."""
        named = [self._sitemap] if self._sitemap else self._own(self._robots.sitemaps)
        guesses = [urljoin(self.location, "sitemap.xml"), urljoin(self._root, "sitemap.xml")]
        waiting = named or [guesses[0]]
        others = [] if named or guesses[1] == guesses[0] else guesses[1:]
        seen = {*waiting, *others}
        while waiting:
            url = waiting.pop(0)
            try:
                for each in read_sitemap(self._read_one(url), url):
                    if not each.is_sitemap:
                        yield each
                        continue
                    inner = [e for e in self._own([urljoin(url, each.url)]) if e not in seen]
                    seen.update(inner)
                    waiting += inner
                    if len(seen) > _MOST_SITEMAPS:
                        waiting.clear()
                        raise SourceError(
                            f"{self.location} has more than {_MOST_SITEMAPS:,} sitemaps: name one"
                        )
            except SourceError as error:
                waiting += others
                if not others:
                    self._failed = self._failed or error
            others = []

    def _read_one(self, url: str) -> bytes:
        if not self._allows(url):
            raise SourceError(f"robots.txt disallows the sitemap {url}")
        answer = self._client.get(url, most=_MOST_OF_SITEMAP)
        if answer.status != 200:
            raise SourceError(
                f"the sitemap {url} is answered with HTTP {answer.status}: if the site has "
                "another, name its address"
            )
        if answer.body[:2] == b"\x1f\x8b":
            try:
                return limited([answer.body], _MOST_OF_SITEMAP, url, packed=True)
            except Exception as error:
                raise SourceError(f"the sitemap {url} cannot be unpacked: {error}") from error
        return answer.body

    def _own(self, urls: Sequence[str]) -> builtins.list[str]:
        """Those of ``urls`` that are of this site."""
        return [own for url in urls if (own := self._address(url))]

    def _address(self, url: str) -> str:
        """An address in the one way in which it is asked for; "" if it is not of this site."""
        try:
            parts = urlsplit(urljoin(self._root, url.strip()))
            parts = parts._replace(netloc=_ascii(parts.netloc))
            inside = parts.scheme in ("http", "https") and same_site(parts, urlsplit(self._root))
        except ValueError:
            return ""
        if not inside or "@" in parts.netloc:
            return ""
        scheme = "https" if self._root.startswith("https") else parts.scheme
        path, query = (quote(each, safe=_AS_IT_IS) for each in (parts.path or "/", parts.query))
        return f"{scheme}://{parts.netloc}{path}{'?' if query else ''}{query}"

    def _add(self, found: SitemapEntry, now: datetime) -> None:
        url = self._address(found.url)
        path = url.partition("://")[2].partition("/")[2] if url else ""
        if not url or not f"/{path}".startswith(self._base):
            return
        name = self._name(path[len(self._base) - 1 :])
        if name in self._addresses:
            return  # listed twice, or another address of the same page: /a/ and /a/index.html
        self._addresses[name] = url
        if not self._allows(url):
            self._entries.append(SourceEntry(name=name, skip="robots.txt disallows it"))
            return
        kind = _TYPES.guess_type(name.partition("?")[0])[0]
        hint = f"{name}.html" if kind is None or kind in _HTML else ""
        revision = revision_of(found.modified, now)
        self._entries.append(SourceEntry(name=name, revision=revision, hint=hint))

    @staticmethod
    def _name(path: str) -> str:
        path, mark, query = path.partition("?")
        path = re.sub("/{2,}", "/", path)
        if not path or path.endswith("/"):
            path += "index.html"
        return _READABLE.sub(_decoded, path + mark + query)


def _end(url: str, asked: str) -> str:
    """Where a redirect of a page ended, without a query that says where it came from; "" if it is
    an address of the page itself, such as that with a final slash."""
    end, own = urlsplit(url), urlsplit(asked)
    if end.path.rstrip("/") == own.path.rstrip("/") and end.query == own.query:
        return ""
    named = own.path in unquote(end.query)
    return end._replace(query="" if named else end.query, fragment="").geturl()


def _ascii(netloc: str) -> str:
    """A host and port in lower case, and in Punycode if need be.

    Raises:
        ValueError: it cannot be a host.
    """
    return netloc.lower() if netloc.isascii() else netloc.encode("idna").decode("ascii").lower()


def _decoded(found: re.Match[str]) -> str:
    try:
        text = unquote(found[0], errors="strict")
    except UnicodeDecodeError:
        return found[0]
    return text if text.isprintable() else found[0]


def _typed(answer: Answer) -> tuple[str, bytes]:
    """The media type, and the body; text in another encoding that the server names is made UTF-8,
    since that name counts more than what the page says."""
    kind, _, parameters = answer.headers.get("content-type", "").partition(";")
    kind, data = kind.strip().lower(), answer.body
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", parameters, re.IGNORECASE)
    if charset and (kind.startswith("text/") or kind in _HTML):
        with suppress(LookupError, UnicodeDecodeError):
            if codecs.lookup(charset[1]).name not in ("utf-8", "ascii", "iso8859-1"):
                data = data.decode(charset[1]).encode()
    return kind, data.removeprefix(codecs.BOM_UTF8)


def _hint(name: str, kind: str) -> str:
    """The name of a file whose extension says what the media type does."""
    path = name.partition("?")[0]
    if kind in _HTML:
        return f"{name}.html"
    if kind == "text/plain":
        return path if _TYPES.guess_type(path)[0] else f"{path}.txt"
    if kind in ("", "application/octet-stream", "binary/octet-stream"):
        return path
    ending = {"text/markdown": ".md"}.get(kind) or _TYPES.guess_extension(kind)
    return path if ending is None or path.endswith(ending) else f"{path}{ending}"
