"""A web site becomes documents, and stays so; the sites are real, and misbehave."""

from __future__ import annotations

import gzip
import socket
import ssl
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.web_site import Page, Site, Visit, sitemap, unused_port, web_site
from triptych.errors import SourceError, ValidationError
from triptych.service import Service
from triptych.sync import SourceRoot, SourceSync, SyncOptions, SyncReport
from triptych_sources import WebSource

OLD = "2020-01-01T00:00:00Z"


@pytest.fixture
def site() -> Iterator[Site]:
    with web_site() as made:
        yield made


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(str(tmp_path / "kb.db"), embedder=None) as service:
        assert isinstance(service, Service)
        yield service


Sync = Callable[..., SyncReport]


@pytest.fixture
def sync(kb: Service, site: Site, tmp_path: Path) -> Sync:
    def run(
        path: str = "", *, key: str = "k", delete_most: bool = False, **given: Any
    ) -> SyncReport:
        source = WebSource(site.url + path, **{"private": True, "delay": 0, **given})
        root = SourceRoot(source=source, dataset_id="d", key=key)
        options = SyncOptions(delete_most=delete_most)
        return SourceSync(kb, root, options, state=tmp_path / "state").sync()

    return run


def _names(kb: Service) -> set[str]:
    return {info.name for info in kb.list_documents("d")} if kb.list_datasets() else set()


def _errors(report: SyncReport) -> str:
    assert all(isinstance(each.error, SourceError) for each in report.failed), report.failed
    return "\n".join(f"{each.name}: {each.error}" for each in report.failed)


# What goes well


def test_pages_become_documents_that_say_where_they_are(
    kb: Service, site: Site, sync: Sync
) -> None:
    site.lists("/", "/docs/install", "/docs/", "/notes.txt", "/a%20b?x=1&amp;y=2", "/%C3%A9")
    site.pages |= {
        "/": "<h1>Home</h1><p>Welcome.",
        "/docs/": "<p>The manual.",
        "/docs/install": lambda visit: visit.answer(
            "<html><title>Install</title><body><script>no</script><p>Unpack it.", etag='"1"'
        ),
        "/notes.txt": lambda visit: visit.answer("plain <text>", content_type="text/plain"),
        "/a%20b": "<p>odd",
        "/%C3%A9": "<p>accent",
    }
    report = sync()
    assert (report.added, report.failed, report.skipped) == (6, (), ())
    assert _names(kb) == {
        "index.html",
        "docs/install",
        "docs/index.html",
        "notes.txt",
        "a%20b?x=1&y=2",
        "é",
    }
    page = kb.get_document("d", "docs/install")
    assert page.content.strip().endswith("Unpack it.")
    assert "no" not in page.content.split()
    assert page.metadata["source_url"] == f"{site.url}docs/install"
    assert page.metadata["source_revision"] == '"1"'
    assert kb.get_document("d", "notes.txt").content == "plain <text>"


def test_an_unchanged_site_costs_its_sitemap(kb: Service, site: Site, sync: Sync) -> None:
    site.lists("/a", "/b", modified=OLD)
    site.pages |= {"/a": "<p>one", "/b": "<p>two"}
    sync()
    assert set(site.paths()) == {"/robots.txt", "/sitemap.xml", "/a", "/b"}
    assert sync().unchanged == 2
    assert site.paths() == ["/robots.txt", "/sitemap.xml"]


def test_only_pages_that_changed_are_fetched(kb: Service, site: Site, sync: Sync) -> None:
    both = sitemap(f"{site.url}a", modified=OLD)
    site.pages |= {"/sitemap.xml": both, "/a": "<p>one", "/b": "<p>two"}
    sync()
    site.paths()
    changed = both.replace("</urlset>", f"<url><loc>{site.url}b</loc></url></urlset>")
    site.pages["/sitemap.xml"] = changed
    assert sync().added == 1
    assert site.paths() == ["/robots.txt", "/sitemap.xml", "/b"]


@pytest.mark.parametrize(
    ("sent", "asked"),
    [({"etag": 'W/"x"'}, "if-none-match"), ({"last_modified": "yesterday"}, "if-modified-since")],
)
def test_a_page_without_a_time_is_asked_whether_it_changed(
    kb: Service, site: Site, sync: Sync, sent: dict[str, str], asked: str
) -> None:
    seen: list[str] = []

    def page(visit: Visit) -> None:
        seen.append(visit.headers.get(asked, ""))
        if seen[-1]:
            visit.answer(status=304, **sent)
        else:
            visit.answer("<p>one", **sent)

    site.lists("/a")
    site.pages["/a"] = page
    sync()
    assert sync().unchanged == 1
    assert seen == ["", next(iter(sent.values()))]
    # Without the document, the page is needed whole.
    kb.delete_document("d", "a")
    assert sync().added == 1
    assert seen[-1] == ""


def test_a_time_that_is_too_near_proves_nothing(site: Site, sync: Sync) -> None:
    now = datetime.now(UTC)
    for modified in (
        now.isoformat(),
        now.date().isoformat(),
        "yesterday",
        (now + timedelta(9)).isoformat(),
    ):
        site.lists("/a", modified=modified)
        site.pages["/a"] = "<p>one"
        sync()
        site.paths()
        assert sync().unchanged == 1
        assert "/a" in site.paths()


def test_a_page_that_left_the_sitemap_is_deleted(kb: Service, site: Site, sync: Sync) -> None:
    site.pages |= {f"/{name}": f"<p>{name}" for name in "abc"}
    site.lists("/a", "/b", "/c")
    sync()
    site.lists("/a", "/b")
    assert sync().deleted == ("c",)
    site.lists("/b")
    site.pages["/a"] = lambda visit: visit.answer(status=404)
    assert _names(kb) == {"a", "b"}


# Sitemaps and robots.txt in their shapes


def _index(site: Site) -> str:
    # It refers to itself, to another site, and to one that is packed.
    urls = ("sitemap.xml", "one.xml", "two.xml.gz", "three.txt", "feed.xml", "atom.xml")
    own = [site.url + each for each in urls]
    return sitemap(*own, "https://elsewhere.example/s.xml", kind="sitemap")


def test_an_index_of_sitemaps_in_every_form(kb: Service, site: Site, sync: Sync) -> None:
    url = site.url
    one = f"""\ufeff\n \n<?xml version="1.0"?><?xml-stylesheet href="x.xsl"?>
      <x:urlset xmlns:x="http://www.google.com/schemas/sitemap/0.84" xmlns:i="urn:image"
          xmlns:h="http://www.w3.org/1999/xhtml">
      <x:url><x:lastmod>{OLD}</x:lastmod><x:loc>\n  {url}a?x=1&amp;y=2 \n</x:loc>
        <i:image><i:loc>{url}picture.png</i:loc></i:image>
        <h:link rel="alternate" hreflang="de" href="{url}de"/><x:priority>0.5</x:priority></x:url>
      <x:url><x:loc><![CDATA[{url}b#part]]></x:loc></x:url>
      <x:url><x:loc>/c</x:loc></x:url><x:url><x:loc></x:loc></x:url><x:url/>
      <x:url><x:loc>https://elsewhere.example/x</x:loc></x:url>
      <x:url><x:loc>http://[</x:loc></x:url><x:url><x:loc>mailto:a@b</x:loc></x:url>
      </x:urlset>"""
    site.pages |= {
        "/sitemap.xml": _index(site),
        "/one.xml": one,
        "/two.xml.gz": gzip.compress(sitemap(f"{url}d", f"{url}a?x=1&amp;y=2").encode()),
        "/three.txt": f"{url}e\r\n\r\n{url}f\n",
        "/feed.xml": f"<rss><channel><link>{url}</link><item><link>{url}g</link></item></channel>"
        "</rss>",
        "/atom.xml": f"<feed xmlns='http://www.w3.org/2005/Atom'><link href='{url}'/><entry>"
        f"<link rel='self' href='{url}no'/><link href='{url}h'/></entry></feed>",
        **{f"/{name}": f"<p>{name}" for name in "abcdefgh"},
    }
    report = sync()
    assert report.failed == ()
    assert _names(kb) == {"a?x=1&y=2", *"bcdefgh"}


@pytest.mark.parametrize(
    "lines", ["Sitemap: {}maps/1.xml", "User-agent: *\nDisallow:\n sitemap:/maps/1.xml # x"]
)
def test_the_sitemaps_that_robots_txt_names(
    kb: Service, site: Site, sync: Sync, lines: str
) -> None:
    site.pages |= {
        "/robots.txt": lines.format(site.url),
        "/maps/1.xml": sitemap(f"{site.url}a"),
        "/a": "<p>a",
        "/sitemap.xml": sitemap(f"{site.url}b"),
    }
    sync()
    assert _names(kb) == {"a"}


def test_a_part_of_a_site_and_a_sitemap_that_is_named(kb: Service, site: Site, sync: Sync) -> None:
    site.lists("/docs/a", "/docs/", "/blog/b", "/docs")
    site.pages |= {"/docs/a": "<p>a", "/docs/": "<p>docs", "/blog/b": "<p>b", "/docs": "<p>x"}
    sync("docs")
    assert _names(kb) == {"a", "index.html"}
    site.pages["/docs/sitemap.xml"] = sitemap(f"{site.url}docs/a", f"{site.url}blog/b")
    assert len(sync("docs/").deleted) == 1
    sync("docs/sitemap.xml", key="other")
    assert _names(kb) == {"a", "docs/a", "blog/b"}


def test_robots_txt_is_obeyed(kb: Service, site: Site, sync: Sync) -> None:
    site.pages |= {
        "/robots.txt": "User-agent: *\nDisallow: /\nUser-agent: Triptych\nAllow: /\n"
        "Disallow: /no/\nDisallow: /*?\nAllow: /no/but\n\nSitemap: /sitemap.xml\nDisallow: /moved$",
        "/a": "<p>a",
        "/no/but": "<p>but",
        "/b": lambda visit: visit.answer(status=302, location="/moved"),
    }
    site.lists("/a", "/no/x", "/no/but", "/a?x=1", "/b")
    report = sync()
    assert {(each.name, each.reason) for each in report.skipped} == {
        ("no/x", "robots.txt disallows it"),
        ("a?x=1", "robots.txt disallows it"),
    }
    assert "which robots.txt disallows" in _errors(report)
    assert _names(kb) == {"a", "no/but"}
    assert not {"/no/x", "/a?x=1", "/moved"} & set(site.paths())
    # What is disallowed later is no longer kept.
    site.pages["/robots.txt"] = "User-agent: *\nDisallow: /a"
    assert sync().deleted == ("a",)


def test_a_site_that_disallows_everything_loses_nothing(
    kb: Service, site: Site, sync: Sync
) -> None:
    site.lists("/a")
    site.pages["/a"] = "<p>a"
    sync()
    site.pages["/robots.txt"] = "User-agent: *\nDisallow: /"
    assert "robots.txt disallows the sitemap" in _errors(sync())
    assert _names(kb) == {"a"}


def test_a_delay_beyond_the_time_of_a_sync_is_named(kb: Service, site: Site, sync: Sync) -> None:
    site.pages |= {"/robots.txt": "User-agent: *\nCrawl-delay: 3600", "/a": "<p>a"}
    site.lists("/a")
    assert "takes longer than 60 seconds" in _errors(sync(max_seconds=60))
    assert site.paths() == ["/robots.txt", "/sitemap.xml"]


# What goes wrong


def _endless(visit: Visit) -> None:
    visit.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n")
    visit.forever(b"x" * 65536)


def _endless_headers(visit: Visit) -> None:
    visit.raw(b"HTTP/1.1 200 OK\r\n")
    visit.forever(b"x: y\r\n")


def _endless_chunks(visit: Visit) -> None:
    visit.raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    visit.forever(b"5\r\nhello\r\n")


def _endless_continues(visit: Visit) -> None:
    visit.forever(b"HTTP/1.1 100 Continue\r\n\r\n")


def _slow_body(visit: Visit) -> None:
    visit.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    visit.forever(b"x", between=0.02)


def _slow_body_without_length(visit: Visit) -> None:
    visit.raw(b"HTTP/1.1 200 OK\r\n\r\n<p>")
    visit.forever(b"x", between=0.02)


def _slow_headers(visit: Visit) -> None:
    visit.raw(b"HTTP/1.1 200 OK\r\nx: ")
    visit.forever(b"x", between=0.02)


def _silent(visit: Visit) -> None:
    visit.server.over.wait()


def _short(visit: Visit) -> None:
    visit.answer(b"<p>cut", content_length="100")


def _cut_chunks(visit: Visit) -> None:
    visit.raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")


def _cut_gzip(visit: Visit) -> None:
    visit.answer(gzip.compress(b"<p>hello" * 99)[:-9], content_encoding="gzip")


def _no_gzip(visit: Visit) -> None:
    visit.answer(b"<p>hello", content_encoding="gzip")


def _packed_otherwise(visit: Visit) -> None:
    visit.answer(b"\x0b\x02\x80hello\x03", content_encoding="br")


def _more_than_gzip(visit: Visit) -> None:
    visit.answer(gzip.compress(b"<p>hello") + b"more", content_encoding="gzip")


def _bomb(visit: Visit) -> None:
    visit.answer(gzip.compress(b"x" * (1 << 24)), content_encoding="gzip")


def _nonsense(visit: Visit) -> None:
    visit.raw(b"\x16\x03\x01 nonsense\r\n\r\n")


def _loop(visit: Visit) -> None:
    visit.answer(status=301, location=visit.path + "x")
    visit.server.pages[visit.path + "x"] = _loop


def _itself(visit: Visit) -> None:
    visit.answer(status=302, location=visit.path)


def _to_other(visit: Visit) -> None:
    visit.answer(status=302, location="http://10.0.0.1/secret")


def _to_name(visit: Visit) -> None:
    visit.answer(status=307, location=f"http://localhost:{visit.server.server_port}/x")


def _to_port(visit: Visit) -> None:
    visit.answer(status=302, location="http://127.0.0.1:1/")


def _to_file(visit: Visit) -> None:
    visit.answer(status=302, location="file:///etc/passwd")


def _to_nothing(visit: Visit) -> None:
    visit.answer(status=302, location="http://[")


def _status(status: int, **headers: str) -> Page:
    return lambda visit: visit.answer(b"no", status=status, **headers)


HANGS = [_endless_headers, _endless_chunks, _endless_continues, _slow_body, _slow_headers, _silent]
FAULTS = [
    *(_endless, _short, _cut_chunks, _cut_gzip, _no_gzip, _bomb, _nonsense, _loop, _itself),
    *(_packed_otherwise, _more_than_gzip),
    *(_to_other, _to_name, _to_port, _to_file, _to_nothing),
    *(_status(500), _status(401), _status(404), _status(503, retry_after="9999"), _status(304)),
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("where", ["/robots.txt", "/sitemap.xml", "/b"])
def test_what_was_stored_stays(
    kb: Service, site: Site, sync: Sync, fault: Page, where: str
) -> None:
    site.lists("/a", "/b", "/c", modified=OLD)
    site.pages |= {"/a": "<p>one", "/b": "<p>two", "/c": "<p>three"}
    sync()
    site.lists("/a", "/b", "/c", modified="2021-01-01T00:00:00Z")
    site.pages |= {"/a": "<p>ONE", where: fault}
    report = sync(max_bytes=1 << 20)
    if where == "/robots.txt" and fault in FAULTS[-4:-2]:
        assert report.failed == ()  # there are no rules, so all is allowed
        return
    assert report.failed
    assert _errors(report)
    assert report.deleted == ()
    assert _names(kb) == {"a", "b", "c"}
    assert kb.get_document("d", "b").content.strip() == "two"
    if where == "/b" and fault is not FAULTS[-2]:
        assert kb.get_document("d", "a").content.strip() == "ONE"
    del site.pages[where]
    site.lists("/a", "/b", "/c", modified="2022-01-01T00:00:00Z")
    site.pages["/b"] = "<p>TWO"
    assert sync().failed == ()
    assert kb.get_document("d", "b").content.strip() == "TWO"


@pytest.mark.parametrize("fault", [*HANGS, _slow_body_without_length])
@pytest.mark.parametrize("where", ["/robots.txt", "/sitemap.xml", "/b"])
def test_a_site_that_never_ends_does_so_at_the_limit(
    kb: Service, site: Site, sync: Sync, fault: Page, where: str
) -> None:
    site.lists("/a", "/b", "/c")
    site.pages |= {"/a": "<p>one", "/b": "<p>two", "/c": "<p>three"}
    sync()
    site.pages[where] = fault
    report = sync(max_seconds=2)
    assert _errors(report)
    assert _names(kb) == {"a", "b", "c"}
    assert kb.get_document("d", "b").content.strip() == "two"


def _leads_to(to: str) -> Page:
    return lambda visit: visit.answer(status=302, location=f"{to}{visit.path}")


@pytest.mark.parametrize("to", ["/login?next=", "/login#"])
def test_pages_that_all_lead_to_one_page_keep_what_was_stored(
    to: str, kb: Service, site: Site, sync: Sync
) -> None:
    names = ("a", "b", "c", "d")
    site.lists(*(f"/{name}" for name in names))
    site.pages |= {f"/{name}": f"<p>Page {name}." for name in names}
    assert sync().added == 4
    site.pages |= {f"/{name}": _leads_to(to) for name in names[:3]}
    site.pages |= {"/login": "<p>Who are you?", "/d": "<p>Another text."}
    report = sync()
    assert [each.name for each in report.failed] == ["a", "b", "c"]
    assert "leads to" in _errors(report)
    assert "may ask for a login" in _errors(report)
    assert report.updated == 1
    assert [kb.get_document("d", name).content for name in names[:3]] == [
        f"Page {name}.\n" for name in names[:3]
    ]
    site.pages |= {f"/{name}": f"<p>Again {name}." for name in names}
    assert sync().updated == 4


def test_pages_that_moved_one_by_one_are_read_where_they_are(
    kb: Service, site: Site, sync: Sync
) -> None:
    names = [f"p{number}" for number in range(6)]
    site.lists(*(f"/{name}" for name in names), "/start", "/index.php")
    site.pages |= {f"/{name}": _leads_to("/new") for name in names}
    site.pages |= {f"/new/{name}": f"<p>Page {name}." for name in names}
    site.pages |= {"/start": lambda visit: visit.answer(status=301, location="/start/")}
    site.pages |= {"/start/": "<p>Start.", "/index.php": _leads_to("/other.php?of=x&at=")}
    site.pages["/other.php"] = "<p>Other."
    report = sync()
    assert not report.failed
    assert report.added == 8
    asked = site.paths()
    assert sum(path.startswith("/new/") for path in asked) <= len(names) + 3


def test_a_site_that_vanished_loses_nothing(kb: Service, site: Site, tmp_path: Path) -> None:
    with unused_port() as gone:
        source = WebSource(f"http://127.0.0.1:{gone.port}/", private=True, delay=0)
        report = SourceSync(kb, SourceRoot(source=source, dataset_id="d")).sync()
    assert "cannot be read" in _errors(report)


def test_a_site_that_vanishes_meanwhile_is_not_asked_for_each_page(
    kb: Service, site: Site, sync: Sync
) -> None:
    pages = [f"/{number}" for number in range(30)]
    site.lists(*pages)
    site.pages |= dict.fromkeys(pages, _nonsense)
    report = sync()
    assert len(report.failed) == 30
    assert "does not answer any more" in _errors(report)
    assert len(site.paths()) == 2 + 3


def test_a_site_that_asks_to_come_back_is_waited_for(kb: Service, site: Site, sync: Sync) -> None:
    def page(visit: Visit) -> None:
        first = [path for path, _ in site.asked].count("/a") == 1
        visit.answer("<p>one", status=503 if first else 200, retry_after="0" if first else "")

    site.lists("/a")
    site.pages["/a"] = page
    assert sync().added == 1


def test_a_site_that_asks_for_a_long_pause_is_left_alone(
    kb: Service, site: Site, sync: Sync
) -> None:
    site.lists("/a", "/b", "/c")
    site.pages |= dict.fromkeys(("/a", "/b", "/c"), _status(429, retry_after="86400"))
    assert "come back in 86400 seconds" in _errors(sync())
    assert len(site.paths()) == 3


def test_a_million_pages_end_at_the_limit(kb: Service, site: Site, sync: Sync) -> None:
    site.lists("/0", "/1", "/2")
    site.pages |= {f"/{number}": f"<p>{number}" for number in range(5)}
    sync()
    many = sitemap(*(f"{site.url}{number}" for number in range(1, 1_000_000)))
    packed = zlib.compressobj(1, wbits=31)
    site.pages["/sitemap.xml"] = packed.compress(many.encode()) + packed.flush()
    report = sync(max_pages=4)
    assert "lists more than 4 pages" in _errors(report)
    assert report.deleted == ()
    assert _names(kb) == {"0", "1", "2", "3", "4"}


@pytest.mark.parametrize(
    "body",
    [
        "<html><body>soft 404",
        "",
        "{}",
        "<urlset><url><loc>/a</loc></url>",
        '<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><urlset><url><loc>&b;</loc></url>',
        '<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd"><urlset/>',
        "<urlset/>",
        b"\x1f\x8b nonsense",
        b"\xff\xfe\x00",
        "https://elsewhere.example/a",
    ],
)
def test_what_is_no_sitemap_is_named_and_deletes_nothing(
    kb: Service, site: Site, sync: Sync, body: str | bytes
) -> None:
    site.lists("/a", "/b")
    site.pages |= {"/a": "<p>one", "/b": "<p>two"}
    sync()
    site.pages["/sitemap.xml"] = body
    assert "sitemap" in _errors(sync(delete_most=True))
    assert _names(kb) == {"a", "b"}


def test_an_index_with_a_part_that_fails_deletes_nothing(
    kb: Service, site: Site, sync: Sync
) -> None:
    parts = [f"{site.url}one.xml", f"{site.url}two.xml"]
    site.pages |= {
        "/sitemap.xml": sitemap(*parts, kind="sitemap"),
        "/one.xml": sitemap(f"{site.url}a"),
        "/two.xml": sitemap(f"{site.url}b", f"{site.url}c"),
        **{f"/{name}": f"<p>{name}" for name in "abcd"},
    }
    sync()
    site.pages |= {"/one.xml": sitemap(f"{site.url}d"), "/two.xml": _status(500)}
    report = sync()
    assert "two.xml is answered with HTTP 500" in _errors(report)
    assert _names(kb) == {"a", "b", "c", "d"}


def test_an_index_without_an_end_stops(kb: Service, site: Site, sync: Sync) -> None:
    class Endless(dict[str, Any]):
        def get(self, path: str, default: Any = None) -> Any:
            if path.endswith(".xml"):
                return sitemap(
                    *(f"{site.url}{path[1:-4]}{n}.xml" for n in range(40)), kind="sitemap"
                )
            return None

    site.pages = Endless()
    assert "more than 1,000 sitemaps" in _errors(sync())


def test_private_addresses_are_refused_unless_trusted(kb: Service, site: Site, sync: Sync) -> None:
    site.lists("/a")
    site.pages["/a"] = "<p>a"
    assert "which is refused" in _errors(sync(private=False))
    assert site.paths() == []
    assert sync().added == 1


def test_a_name_that_leads_to_a_private_address_is_refused(site: Site) -> None:
    url = site.url.replace("127.0.0.1", "localhost")
    with WebSource(url) as source, pytest.raises(SourceError, match="which is refused"):
        source.revision()
    assert site.paths() == []


PEM = Path(__file__).parents[2] / "support" / "loopback.pem"


def test_pages_come_over_tls(kb: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(PEM)
    with web_site(tls) as site:
        site.lists("/a", "/b")
        # As servers behind others do, it says http.
        away = site.url.replace("https", "http")
        site.pages |= {
            "/a": lambda visit: visit.answer(status=301, location=f"{away}c"),
            "/b": "<p>two",
            "/c": "<p>three",
        }
        root = SourceRoot(source=WebSource(site.url, private=True, delay=0), dataset_id="d")
        refused = SourceSync(kb, root).sync()
        assert "CERTIFICATE_VERIFY_FAILED" in _errors(refused)
        monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
        assert SourceSync(kb, root).sync().added == 2
        assert kb.get_document("d", "a").metadata["source_url"] == f"{site.url}c"


def test_a_handshake_that_never_ends_is_cut_off(kb: Service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        source = WebSource(url, private=True, delay=0, max_seconds=0.5)
        report = SourceSync(kb, SourceRoot(source=source, dataset_id="d")).sync()
    assert "took too long" in _errors(report)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "0.0.0.0"),
        *("100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1"),
        "2001:db8::1",
    ],
)
def test_an_address_that_is_not_public_is_not_connected_to(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    with WebSource(f"http://{host}/") as source, pytest.raises(SourceError, match="is refused"):
        source.revision()


@pytest.mark.parametrize(
    "location",
    [
        *(
            "ftp://h/",
            "http://",
            "https://u:secret@h/",
            "h",
            "",
            "http://h:0x/",
            "http://[",
            "//h/",
        ),
        *("https://h/#x", "https://h/?q=1", "http://h:99999/"),
    ],
)
def test_what_is_no_address_of_a_site_is_refused(location: str) -> None:
    with pytest.raises(ValidationError) as caught:
        WebSource(location)
    assert "secret" not in str(caught.value)


def test_a_name_of_a_host_in_its_own_letters_is_the_same_host() -> None:
    from triptych_sources import open_source

    assert open_source("https://Bücher.example/é").location == (
        "https://xn--bcher-kva.example/%C3%A9/"
    )


def test_the_encoding_that_the_server_names_counts(kb: Service, site: Site, sync: Sync) -> None:
    site.lists("/a", "/b")
    text = "<meta charset=utf-8><p>Привет, мир"
    site.pages |= {
        "/a": lambda v: v.answer(
            text.encode("cp1251"), content_type="text/html; charset=Windows-1251"
        ),
        "/b": lambda v: v.answer(text.encode(), content_type='text/html;charset="no-such"'),
    }
    assert sync().failed == ()
    assert kb.get_document("d", "a").content.strip() == "Привет, мир"
    assert kb.get_document("d", "b").content.strip() == "Привет, мир"


def test_a_large_page_fails_by_itself(kb: Service, site: Site, sync: Sync) -> None:
    site.lists("/a", "/b")
    site.pages |= {"/a": "<p>" + "x" * 1000, "/b": "<p>b"}
    assert "more than 500 bytes" in _errors(sync(max_bytes=500))
    assert _names(kb) == {"b"}
