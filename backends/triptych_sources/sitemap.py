"""Reading sitemaps: https://www.sitemaps.org/protocol.html."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from xml.parsers import expat

import attrs

from triptych.errors import SourceError

_OF_PAGE = (None, "alternate")


@attrs.define
class SitemapEntry:
    """An address in a sitemap: of a page, or of a further sitemap."""

    url: str = ""
    modified: str = ""
    is_sitemap: bool = False


def read_sitemap(data: bytes, url: str) -> Iterator[SitemapEntry]:
    """Yield the entries of a sitemap, an index of sitemaps, a feed (RSS, Atom) or a list of
    addresses.

    Raises:
        SourceError: it is none of these, or declares a document type: no entity is expanded.
    """
    # Blank lines before the XML declaration are an error of many sites, which readers forgive.
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if data[:1] in (b"h", b"H", b"/"):
        for line in data.decode("utf-8", "replace").splitlines():
            if line.strip():
                yield SitemapEntry(line.strip())
        return
    reader = _Reader(url)
    for at in range(0, len(data), 1 << 20):
        reader.feed(data[at : at + (1 << 20)], last=False)
        yield from reader.take()
    reader.feed(b"", last=True)
    yield from reader.take()


class _Reader:
    def __init__(self, url: str) -> None:
        self._url = url
        self._path: list[str] = []
        self._text: list[str] = []
        self._entry = SitemapEntry()
        self._found: list[SitemapEntry] = []
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append

    def feed(self, data: bytes, *, last: bool) -> None:
        try:
            self._parser.Parse(data, last)
        except (expat.ExpatError, ValueError) as error:
            raise SourceError(
                f"{self._url} is no sitemap ({error}): name the address of the site's sitemap"
            ) from error

    def take(self) -> list[SitemapEntry]:
        found, self._found = self._found, []
        return found

    def _refuse(self, *_: object) -> None:
        raise SourceError(
            f"{self._url} declares a document type, which a sitemap has not: name the address of "
            "the site's sitemap"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name.rpartition(" ")[2].lower())
        self._text.clear()
        if len(self._path) == 1 and self._path[0] not in ("urlset", "sitemapindex", "rss", "feed"):
            raise SourceError(
                f"{self._url} is no sitemap but <{self._path[0]:.40}>: name the address of the "
                "site's sitemap"
            )
        if self._path[-1] in ("url", "sitemap", "item", "entry"):
            self._entry = SitemapEntry(is_sitemap=self._path == ["sitemapindex", "sitemap"])
        elif self._path == ["feed", "entry", "link"] and attributes.get("rel") in _OF_PAGE:
            self._entry.url = attributes.get("href", "")

    def _end(self, name: str) -> None:
        text = "".join(self._text).strip()
        match self._path:
            # Not the addresses of images and videos, which are further inside.
            case [_, "url" | "sitemap", "loc"] | ["rss", "channel", "item", "link"]:
                self._entry.url = text
            case [_, "url", "lastmod"]:
                self._entry.modified = text
            case [_, "url" | "sitemap"] | ["rss", "channel", "item"] | ["feed", "entry"]:
                if self._entry.url:
                    self._found.append(self._entry)
        self._path.pop()
        self._text.clear()


def revision_of(modified: str, now: datetime) -> str:
    """Return a time of modification as the revision of a page, "" if it proves nothing.

    A page may change again within the time that it names, such as a day, and clocks differ.
    """
    text = modified.strip()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return ""
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    unclear = timedelta(days=2) if len(text) <= len("2024-05-01") else timedelta(minutes=10)
    return text if found < now - unclear else ""
