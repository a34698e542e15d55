"""The pages of the PDF that a document was read from, drawn with a passage marked.

A store keeps the text and a digest of the file. The file is read where a sync on this machine found
it: below the folder of its root, without following a link out of it, and only if it is still the
one that was read. No path that stands in a document or its metadata is opened.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from typing import Final

import attrs
from starlette.responses import Response

from triptych.chunking import Locator, read_outline
from triptych.errors import NotAvailableError, NotFoundError, TriptychError
from triptych.parsing import ParseLimits
from triptych.records import SourceDocument
from triptych.search import synced_folders
from triptych.sync import SyncRoot, read_file
from triptych_parsers.pdf_pages import draw_page
from triptych_server.console.site import HEADERS, Made
from triptych_server.console.visit import Visit, path_of, whole_of
from triptych_server.http.responses import problem_of

_MOST_BYTES: Final = ParseLimits().max_bytes


@attrs.frozen(kw_only=True)
class FilePage:
    """A page beside a document's text; ``why`` says why it cannot be drawn.

    ``span`` is where its text is in the document, ``last`` the number of the last page with text.
    """

    number: int
    last: int
    span: tuple[int, int] | None
    image: str = ""
    why: str = ""


def page_beside(
    visit: Visit, document: SourceDocument, passage: tuple[int, int]
) -> FilePage | None:
    """The page ``?page=``, else that of the passage; None where the text is of no pages."""
    pages = _pages_of(document)
    if not pages:
        return None
    start, end = passage
    of_passage = [each for each in pages if each.start < end and start < each.end]
    last = pages[-1].number
    wanted = visit.number("page", (of_passage or pages)[0].number, least=1, most=last)
    spans = [(each.start, each.end) for each in pages if each.number == wanted]
    page = FilePage(number=wanted, last=last, span=spans[0] if spans else None)
    try:
        if find_spec("pypdfium2") is None:
            raise NotAvailableError("pages are drawn by PDFium: install the extra pdf")
        _file_of(visit, document)
    except TriptychError as error:
        return attrs.evolve(page, why=problem_of(error).message)
    query = f"?v={document.version}&from={start}&to={end}"
    path = path_of("pages", document.dataset_id, document.name, str(wanted))
    return attrs.evolve(page, image=f"{visit.root}{path}{query}")


def page_image(visit: Visit) -> Made:
    """A page as a PNG, the passage from ``from`` to ``to`` marked."""
    dataset_id, name, page = map(visit.part, ("dataset_id", "name", "page"))
    version = visit.number("v", 0) or None
    document = visit.service.get_document(dataset_id, name, version=version)
    number = whole_of(page) or 0
    pages = _pages_of(document)
    if not pages or not 1 <= number <= pages[-1].number:
        raise NotFoundError(f"the document {document.name!r} has no page {page!r:.20}")
    start, end = (visit.number(each, 0) for each in ("from", "to"))
    text = "\n".join(
        document.content[max(start, each.start) : min(end, each.end)]
        for each in pages
        if each.number == number
    )
    png = draw_page(document.name, _file_of(visit, document), number, text)
    return Response(png, headers=dict(HEADERS), media_type="image/png")


def _pages_of(document: SourceDocument) -> list[Locator]:
    """Where the text of each page is; nothing for what was read from no pages."""
    if not document.parser_sig.startswith("pdf/"):
        return []
    outline = read_outline(document.system.outline, document.content)
    return [each for each in outline.locators if each.unit == "page"] if outline else []


def _file_of(visit: Visit, document: SourceDocument) -> bytes:
    """The bytes of the file that a document was read from.

    Raises:
        AccessDeniedError: the key does not see all that is stored.
        NotAvailableError: the file is not on this machine, or is another by now.
    """
    visit.server.check_sees_all(visit.service, "files of this machine are")
    settings = visit.server.service.capabilities.settings
    folders = {} if settings is None else synced_folders(settings)
    folder, prefix = folders.get(document.system.sync_root, (None, ""))
    if folder is None:
        raise NotAvailableError(
            "the store keeps the text, and the file is not known here: only a folder that was "
            "synced on this machine says where its files are"
        )
    root = SyncRoot(path=folder, dataset_id=document.dataset_id, prefix=prefix)
    relative = root.relative_of(document.name)
    if relative is None:
        raise NotAvailableError("the file is not below the folder of its sync")
    try:
        data, _ = read_file(folder, relative, _MOST_BYTES)
    except OSError as error:
        raise NotAvailableError(
            f"the file cannot be read where it was synced from ({error.strerror})"
        ) from error
    if hashlib.sha256(data).hexdigest() != document.original_sha256:
        raise NotAvailableError("the file has changed since this text was read from it")
    return data
