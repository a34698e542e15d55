"""Any names at all: kept apart, found again, and legal on every disk."""

from __future__ import annotations

import tempfile
import unicodedata

import pytest
from hypothesis import example, given, settings, strategies as st

from triptych.errors import ValidationError
from triptych.records import NewDocument, check_document_name
from triptych_backends.filesystem import FilesStore
from triptych_backends.filesystem.layout import (
    decode,
    encode,
    fallback,
    fold,
    folder_of,
    id_of,
    is_ignored,
    name_of,
    path_of,
)

pytestmark = pytest.mark.property

DEVICES = {"con", "prn", "aux", "nul"} | {
    f"{p}{n}" for p in ("com", "lpt") for n in "0123456789¹²³"
}
PIECES = ["a", "A", "con",
          "e\u0301", "é", "ß", "SS", "ſ", "K", "%", "%25", ".", "..", " ", "~", "#",
          "CON.md", "x" * 210, "\\", ":", "\ufffe", "İ", "i\u0307", ".json", ".L0.md"]  # fmt: skip


def _is_name(text: str) -> bool:
    try:
        check_document_name(text)
    except (ValidationError, UnicodeEncodeError):
        return False
    return True


COMPONENTS = st.lists(
    st.sampled_from(PIECES) | st.characters(exclude_categories=["Cs"]), max_size=4
)
NAMES = st.lists(COMPONENTS.map("".join), min_size=1, max_size=3).map("/".join).filter(_is_name)


def assert_legal(component: str) -> None:
    """On Linux, macOS and Windows."""
    assert 1 <= len(component.encode()) <= 255
    assert len(component) <= 255
    assert component not in (".", "..")
    assert not set(component) & set('<>:"\\|?*/')
    assert not any(unicodedata.category(character) == "Cc" for character in component)
    assert not any(ord(character) & 0xFFFE == 0xFFFE for character in component)
    assert component[-1] not in " ."
    assert component.split(".")[0].rstrip(" ").casefold() not in DEVICES
    assert unicodedata.is_normalized("NFC", component)
    assert not is_ignored(component)


@given(NAMES)
@settings(deadline=None)
def test_every_path_is_legal_and_leads_back(name: str) -> None:
    path = path_of(name)
    if path is not None:
        assert decode(path) == name
        assert name_of(path) == name
    for place in (path, fallback(name)):
        for component in (place or "a").split("/"):
            assert_legal(component)
    folder = folder_of(name)
    if folder is not None:
        assert_legal(folder)
        assert id_of(folder) == name


@given(st.text())
def test_encoding_a_component_can_be_undone(text: str) -> None:
    component = text.replace("/", "").encode(errors="ignore").decode()
    assert decode(encode(component)) == component


@given(st.lists(NAMES, min_size=1, max_size=8, unique=True))
@example(["a", "a/b", "A", "A/b", "a/B", "a/b/c"])
@example(["x.json/a", "x", "X.JSON"])
@settings(max_examples=10, deadline=None)
def test_no_two_documents_are_in_each_others_way(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with FilesStore.open(folder) as store:
            half = len(names) // 2
            new = [NewDocument(name=name, content=f"of {name}") for name in names]
            for document in new[:half]:
                store.documents.put("d", document)
            store.documents.put_many("d", new[half:])
            paths = [found for found, _ in store.workspace.disk.walk("d")]
            assert len({fold(path) for path in paths}) == len(names)
            ways = {path[:end] for path in paths for end, c in enumerate(path) if c == "/"}
            assert len({fold(way) for way in ways}) == len(ways)
            assert not {fold(way) for way in ways} & {fold(path) for path in paths}
            assert store.problems() == ()
        # All is in the files.
        for path in (store.path / ".triptych" / "derived").iterdir():
            if path.is_file():
                path.unlink()
        with FilesStore.open(folder) as store:
            assert [info.name for info in store.documents.list("d")] == sorted(names)
            for name in names:
                found = store.documents.get("d", name)
                assert found is not None
                assert (found.content, found.version) == (f"of {name}", 1)
