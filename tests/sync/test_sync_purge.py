"""A purge takes along what syncs into the store remember of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from triptych.access import Access
from triptych.errors import StoreError
from triptych.service import Service
from triptych.sync import SyncRoot
from triptych_factory import Settings, directory_sync, wire


def synced(kb: Service, settings: Settings, root: SyncRoot) -> None:
    directory_sync(kb, settings, [root]).sync()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for folder, name in (("notes", "anna"), ("notes", "bert"), ("other", "carl")):
        file = tmp_path / folder / "staff" / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"About {name}.", encoding="utf-8")
    return Settings(url=str(tmp_path / "kb.db"), embedder="none")


@pytest.fixture
def roots(tmp_path: Path) -> tuple[SyncRoot, SyncRoot]:
    return (
        SyncRoot(path=tmp_path / "notes", dataset_id="d", prefix="n/"),
        SyncRoot(path=tmp_path / "other", dataset_id="e"),
    )


def remembered(tmp_path: Path) -> str:
    return "".join(path.read_text(encoding="ascii") for path in (tmp_path / "kb.db.sync").iterdir())


@pytest.mark.parametrize("scheme", ["", "files://"])
@pytest.mark.parametrize("gone", [False, True])
def test_what_syncs_remember_of_a_document_goes_with_it(
    scheme: str, gone: bool, settings: Settings, roots: tuple[SyncRoot, SyncRoot], tmp_path: Path
) -> None:
    settings = Settings(url=f"{scheme}{settings.url}", embedder="none")
    with wire(settings) as kb:
        for root in roots:
            synced(kb, settings, root)
        assert all(each in remembered(tmp_path) for each in ("anna", "bert", "carl"))
        (tmp_path / "kb.db.sync" / ".new-killed").write_text("anna", encoding="ascii")
        if gone:  # by hand, before
            kb.delete_document("d", "n/staff/anna.md")
        receipt = kb.purge("d", "n/staff/anna.md")
        assert bool(receipt) is not gone
        assert any("synced from" in each for each in receipt.beyond)
        assert any("other machines remember" in each for each in receipt.beyond)
        left = remembered(tmp_path)
        assert "anna" not in left
        assert all(each in left for each in ("bert", "carl"))
        # The file is beyond it: the next sync says that it adds the document.
        report = directory_sync(kb, settings, [roots[0]]).sync()
        assert (report.added, report.unchanged) == (1, 1)


def test_what_syncs_remember_of_a_dataset_goes_with_it(
    settings: Settings, roots: tuple[SyncRoot, SyncRoot], tmp_path: Path
) -> None:
    with wire(settings) as kb:
        for root in roots:
            synced(kb, settings, root)
        kb.purge("d")
        left = remembered(tmp_path)
        assert not any(each in left for each in ("anna", "bert"))
        assert "carl" in left


def test_a_caller_with_a_filter_drops_what_is_remembered_of_its_own_only(
    settings: Settings, roots: tuple[SyncRoot, SyncRoot], tmp_path: Path
) -> None:
    with wire(settings) as kb:
        synced(kb, settings, roots[0])
        mine = kb.restricted(Access(dataset_ids=["d"], can_write=True, where={"mine": True}))
        assert not mine.purge("d", "n/staff/anna.md")
        assert "anna" in remembered(tmp_path)
        kb.update_metadata("d", {"mine": True}, names=["n/staff/anna.md"])
        assert mine.purge("d", "n/staff/anna.md")
        assert "anna" not in remembered(tmp_path)


def test_what_cannot_be_removed_is_an_error(
    settings: Settings, roots: tuple[SyncRoot, SyncRoot], tmp_path: Path
) -> None:
    with wire(settings) as kb:
        synced(kb, settings, roots[0])
        stuck = tmp_path / "kb.db.sync" / f"{0:032x}.json"
        stuck.mkdir()
        with pytest.raises(StoreError, match=r"kb\.db\.sync.*purge again"):
            kb.purge("d", "n/staff/anna.md")
        stuck.rmdir()
        assert not kb.purge("d", "n/staff/anna.md")
