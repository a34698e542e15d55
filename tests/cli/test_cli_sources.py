"""`triptych add`, `sync`, `list --folders` and `remove` of Git repositories and web sites."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from support.web_site import Site, Visit, web_site

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


@pytest.fixture
def repo(shell: Shell) -> str:
    """The URL of a repository with one file."""
    shell.write("work/a.md", "# Retries\n\nAt most four.\n")
    _git(shell, "init", "-q", "-b", "main")
    _commit(shell)
    return f"{(shell.directory / 'work').as_uri()}#main"


@pytest.fixture
def site() -> Iterator[Site]:
    with web_site() as made:
        made.lists("/", "/install")
        made.pages |= {"/": "<h1>Home</h1>", "/install": "<p>Run the installer."}
        yield made


def _git(shell: Shell, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, "-C", shell.directory / "work", *arguments], check=True)


def _commit(shell: Shell) -> None:
    _git(shell, "add", "-A")
    _git(shell, "commit", "-q", "-m", "x")


def _names(shell: Shell, *at: str) -> set[str]:
    return {row[0] for row in shell("list", *at).rows}


def test_sources_are_remembered_and_kept_by_each_sync(shell: Shell, repo: str, site: Site) -> None:
    shell.write("notes/todo.md", "Buy milk.")
    shell("add", "notes")
    added = shell("add", repo)
    assert f"remembered {repo} for the dataset 'default', its documents named work/…" in added.both
    shell("add", site.url, "--private", "--delay", "0", "--prefix", "site/")
    assert _names(shell) == {"todo.md", "work/a.md", "site/index.html", "site/install"}
    shell.write("work/b.md", "Another file.")
    _commit(shell)
    site.pages["/install"] = "<p>Run it twice."
    assert shell("sync").both.startswith("1 added, 1 updated, 3 unchanged")
    assert "twice" in shell("search", "twice").both
    listed = shell("list", "--folders", "--json").json["roots"]
    assert [(row["path"], row["prefix"], row["documents"]) for row in listed] == [
        (str(shell.directory / "notes"), "", 1),
        (repo, "work/", 2),
        (site.url, "site/", 2),
    ]
    assert all(row["synced_at"] for row in listed)


def test_a_source_that_is_away_fails_and_keeps_its_documents(
    shell: Shell, repo: str, site: Site
) -> None:
    shell("add", repo)
    (shell.directory / "work").rename(shell.directory / "gone")
    ran = shell("sync")
    assert ran.code != 0
    assert "does not appear to be a git repository" in ran.both
    assert _names(shell) == {"work/a.md"}
    refused = shell("add", site.url)
    assert "--private" in refused.both
    assert f"not remembered, since nothing was read of it: {site.url}" in refused.both
    listed = shell("list", "--folders", "--json").json["roots"]
    assert [row["path"] for row in listed] == [repo]
    # One that was read before stays remembered.
    assert shell("add", repo).code != 0
    assert len(shell("list", "--folders", "--json").json["roots"]) == 1


@pytest.mark.parametrize("fault", ["busy", "login"])
def test_pages_that_fail_alike_are_told_in_one_line(shell: Shell, site: Site, fault: str) -> None:
    def fails(visit: Visit) -> None:
        if fault == "busy":
            visit.answer(status=429, retry_after="900")
        else:
            visit.answer(status=302, location="/login")

    paths = [f"/p{number}" for number in range(6)]
    site.lists("/", *paths)
    site.pages |= {**dict.fromkeys(paths, fails), "/login": "<p>Who are you?"}
    add = ("add", site.url, "--private", "--delay", "0", "--prefix", "site/")
    ran = shell(*add)
    warnings = [line for line in ran.err.splitlines() if line.startswith("warning: ")]
    assert [line for line in warnings if "6 documents fail alike" in line], ran.err
    assert len(warnings) == 1, ran.err
    assert "such as site/p" in warnings[0]
    assert len(shell("sync", "--json").json["failed"]) >= 6


def test_a_source_whose_names_are_taken_is_not_remembered(shell: Shell, repo: str) -> None:
    shell.write("notes/a.md", "Buy milk.")
    shell("add", "notes", "--prefix", "x/")
    ran = shell("add", repo, "--prefix", "x/")
    assert ran.code != 0
    assert "has a document 'x/a.md' already" in ran.both
    assert len(shell("list", "--folders", "--json").json["roots"]) == 1


def test_most_documents_go_only_with_a_confirmation(shell: Shell, repo: str) -> None:
    shell("add", repo)
    (shell.directory / "work" / "a.md").unlink()
    _commit(shell)
    ran = shell("sync", "--json")
    assert ran.code == 8
    held = ran.json["held"][0]
    assert (held["root"], held["names"]) == (repo, ["work/a.md"])
    assert "are not listed any more" in shell("sync").both
    assert shell("sync", "--yes").both.startswith("1 deleted")


def test_a_source_can_be_synced_without_being_remembered(
    shell: Shell, repo: str, site: Site
) -> None:
    planned = shell("sync", repo, "--dry-run")
    assert "add work/a.md" in planned.both
    assert not shell.store.exists()
    shell("sync", repo, site.url, "--private", "--delay", "0", "--max-pages", "9")
    assert len(_names(shell)) == 3
    assert shell("list", "--folders", "--json").json["roots"] == []


def test_a_source_is_forgotten_with_or_without_its_documents(shell: Shell, repo: str) -> None:
    shell("add", repo)
    assert "Give --keep or --delete" in shell("remove", repo).both
    mirrors = shell.store.with_name("kb.db.sync") / "mirrors"
    assert list(mirrors.iterdir())
    assert "1 kept" in shell("remove", repo, "--keep").both
    assert not list(mirrors.iterdir())
    assert _names(shell) == {"work/a.md"}
    shell("add", repo)
    shell("remove", repo, "--delete")
    assert _names(shell) == set()
    assert "is not remembered" in shell("remove", repo, "--keep").both


def test_a_folder_that_brought_nothing_is_forgotten(shell: Shell) -> None:
    (shell.directory / "empty").mkdir()
    shell("add", "empty")
    said = shell("remove", "empty").err
    assert "forgotten: " in said
    assert "it had no documents" in said


def test_options_are_remembered_and_changed_by_adding_again(shell: Shell, site: Site) -> None:
    shell("add", site.url, "--private", "--delay", "0", "--exclude", "install")
    assert _names(shell) == {f"{site.url[7:-1].replace(':', '-')}/index.html"}
    shell("add", site.url, "--max-pages", "1")
    row = shell("list", "--folders", "--json").json["roots"][0]
    assert row["limits"] == {"private": True, "delay": 0, "max_pages": 1}
    assert row["exclude"] == ["install"]
    assert "remembered with the prefix" in shell("add", site.url, "--prefix", "x/").both


def test_a_store_that_came_from_elsewhere_is_not_obeyed(shell: Shell, repo: str) -> None:
    shell("add", repo)
    shutil.copytree(shell.store.parent, shell.directory / "other")
    at = ("-s", str(shell.directory / "other" / "kb.db"))
    assert "that nobody added on this machine" in shell("sync", *at).both
    told = shell("trust", *at)
    assert f"trusted: the store reads {repo} {{}}" in told.both
    assert "1 unchanged" in shell("sync", *at).both


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sync", "ftp://h/x"), "is no address of a web site"),
        (("add", "https://u:secret@h/"), "without a user or password"),
        (("add", "notes", "--private"), "these options are for web sites"),
        (("sync", "https://h/r.git", "--delay", "2"), "none is named"),
        (("watch", "https://h/r.git"), "by `triptych sync`, from cron"),
        (("sync", "https://h/r.git", "--key", "k"), "--key is for one named folder"),
    ],
)
def test_what_cannot_be_is_refused(shell: Shell, arguments: tuple[str, ...], said: str) -> None:
    shell.write("notes/a.md", "x")
    ran = shell(*arguments)
    assert ran.code == 2
    assert said in ran.both
    assert "secret" not in ran.both


def test_a_purge_removes_the_mirrors(shell: Shell, repo: str) -> None:
    shell("add", repo)
    mirrors = shell.store.with_name("kb.db.sync") / "mirrors"
    assert list(mirrors.iterdir())
    ran = shell("delete", "work/a.md", "--purge", "--yes")
    assert ran.code == 0, ran.both
    assert not mirrors.exists()


def test_a_report_names_sources_as_json(shell: Shell, repo: str) -> None:
    report = json.loads(shell("sync", repo, "--json").out)
    assert report["roots"] == [{"path": repo, "dataset_id": "default", "prefix": "work/"}]
    assert report["added"] == 1
