"""A Git repository becomes documents, and stays so; the repositories are real."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import pytest

import triptych
from triptych.errors import SourceError, TriptychError, ValidationError
from triptych.service import Service
from triptych.sync import SourceRoot, SourceSync, SyncOptions, SyncReport
from triptych_sources import GitSource

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@attrs.frozen
class Repository:
    """A work tree with its own identity, and nobody's configuration."""

    path: Path

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
        done = subprocess.run(
            ["git", *who, "-C", str(self.path), *arguments],
            check=True,
            capture_output=True,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
        )
        return done.stdout.decode().strip()

    def commit(self, files: dict[str, str | bytes | None]) -> str:
        for name, text in files.items():
            file = self.path / name
            if text is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD")

    @property
    def url(self) -> str:
        return self.path.as_uri()


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    (tmp_path / "work").mkdir()
    made = Repository(tmp_path / "work")
    made.git("init", "-q", "-b", "main")
    return made


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(str(tmp_path / "kb.db"), embedder=None) as service:
        assert isinstance(service, Service)
        yield service


Sync = Callable[..., SyncReport]


@pytest.fixture
def sync(kb: Service, tmp_path: Path) -> Sync:
    """Sync a location with a mirror and a state that stay."""

    def run(location: str, **options: object) -> SyncReport:
        source = GitSource(location, mirror=tmp_path / "mirror")
        made = SyncOptions(**options)  # type: ignore[arg-type]  # any option
        root = SourceRoot(source=source, dataset_id="d", key="k")
        return SourceSync(kb, root, made, state=tmp_path / "state").sync()

    return run


def _names(kb: Service) -> set[str]:
    return {info.name for info in kb.list_documents("d")}


def test_a_commit_becomes_documents_that_say_which(
    kb: Service, repo: Repository, sync: Sync
) -> None:
    first = repo.commit({"a.md": "one", "docs/b c.md": "two", "é.txt": "three"})
    report = sync(repo.url)
    assert (report.added, report.failed) == (3, ())
    assert _names(kb) == {"a.md", "docs/b c.md", "é.txt"}
    hit = kb.search("two", dataset_id="d").hits[0]
    assert hit.metadata["source_revision"] == first
    assert hit.metadata["source_url"] == f"{repo.url}#{first}:docs/b%20c.md"
    second = repo.commit({"a.md": "ONE", "é.txt": None})
    report = sync(repo.url)
    assert (report.updated, report.deleted, report.unchanged) == (1, ("é.txt",), 1)
    assert kb.get_document("d", "a.md").metadata["source_revision"] == second
    # What did not change keeps the commit at which it was read.
    assert kb.get_document("d", "docs/b c.md").metadata["source_revision"] == first


def test_an_unchanged_repository_is_asked_for_its_commit_alone(
    kb: Service, repo: Repository, sync: Sync, tmp_path: Path
) -> None:
    repo.commit({"a.md": "one"})
    sync(repo.url)
    shutil.rmtree(tmp_path / "mirror")
    assert sync(repo.url).unchanged == 1
    assert not (tmp_path / "mirror").exists()
    # A document that somebody deleted needs the mirror again.
    kb.delete_document("d", "a.md")
    assert sync(repo.url).added == 1


def test_only_the_commit_is_fetched(repo: Repository, sync: Sync, tmp_path: Path) -> None:
    repo.commit({"a.md": "one"})
    repo.commit({"a.md": "two"})
    sync(repo.url)
    mirror = Repository(tmp_path / "mirror")
    assert mirror.git("rev-list", "--count", "refs/triptych/synced") == "1"
    assert not (tmp_path / "mirror" / "hooks").exists()


def test_branches_tags_and_commits(kb: Service, repo: Repository, tmp_path: Path) -> None:
    first = repo.commit({"a.md": "first"})
    repo.git("tag", "-a", "v1", "-m", "v1")
    repo.commit({"a.md": "second"})
    repo.git("checkout", "-q", "-b", "topic/x")
    repo.commit({"a.md": "third"})
    repo.git("checkout", "-q", "main")
    for revision, text in (
        ("v1", "first"),
        ("topic/x", "third"),
        ("main", "second"),
        (first, "first"),
    ):
        source = GitSource(f"{repo.url}#{revision}")
        root = SourceRoot(source=source, dataset_id=revision.replace("/", "-"))
        assert SourceSync(kb, root).sync().added == 1
        assert kb.get_document(root.dataset_id, "a.md").content == text
    with pytest.raises(SourceError, match="no branch or tag 'nothing'"):
        GitSource(f"{repo.url}#nothing").revision()


def test_a_rewritten_branch_is_followed(kb: Service, repo: Repository, sync: Sync) -> None:
    repo.commit({"a.md": "one"})
    repo.commit({"a.md": "two"})
    sync(repo.url)
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.commit({"a.md": "other"})
    assert sync(repo.url).updated == 1
    assert kb.get_document("d", "a.md").content == "other"


def test_what_is_no_file_is_said(kb: Service, repo: Repository, sync: Sync, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    inner = Repository(tmp_path / "inner")
    inner.git("init", "-q")
    inner.commit({"x.md": "inner"})
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 9\n"
    repo.git("submodule", "--quiet", "add", inner.url, "lib")
    os.symlink("/etc/passwd", repo.path / "link.md")
    repo.commit(
        {"a.md": "one", "big.md": pointer, ".github/c.md": "x", "p.bin": b"\0\1", "e.md": ""}
    )
    report = sync(repo.url)
    assert {(each.name, each.reason) for each in report.skipped} == {
        ("lib", "a submodule"),
        ("link.md", "a link"),
        ("big.md", "a Git LFS pointer"),
        (".github/", "hidden"),
        (".gitmodules", "hidden"),
        ("p.bin", "ends in .bin"),
    }
    assert _names(kb) == {"a.md", "e.md"}


def test_a_repository_that_vanished_loses_nothing(
    kb: Service, repo: Repository, sync: Sync
) -> None:
    repo.commit({"a.md": "one", "b.md": "two"})
    sync(repo.url)
    repo.path.rename(repo.path.with_name("elsewhere"))
    report = sync(repo.url)
    assert [type(each.error) for each in report.failed] == [SourceError]
    assert report.deleted == ()
    assert _names(kb) == {"a.md", "b.md"}
    repo.path.with_name("elsewhere").rename(repo.path)
    assert sync(repo.url).unchanged == 2


def test_an_emptied_repository_waits_for_a_confirmation(
    kb: Service, repo: Repository, sync: Sync
) -> None:
    repo.commit({"a.md": "one", "b.md": "two"})
    sync(repo.url)
    repo.commit({"a.md": None, "b.md": None})
    assert len(sync(repo.url).held[0].names) == 2
    assert len(sync(repo.url, delete_most=True).deleted) == 2


def test_an_empty_repository_is_named(repo: Repository) -> None:
    with pytest.raises(SourceError, match="no commit yet"):
        GitSource(repo.url).revision()


@pytest.mark.parametrize("name", ["HEAD", "objects/pack", "shallow.lock"])
def test_a_damaged_mirror_is_made_again(
    kb: Service, repo: Repository, sync: Sync, tmp_path: Path, name: str
) -> None:
    repo.commit({"a.md": "one"})
    sync(repo.url)
    repo.commit({"a.md": "two"})
    place = tmp_path / "mirror" / name
    if place.is_dir():
        for file in place.iterdir():
            file.chmod(0o600)
            file.write_bytes(b"nonsense")
    else:
        place.write_bytes(b"nonsense")
    report = sync(repo.url)
    assert (report.updated, report.failed) == (1, ())
    assert kb.get_document("d", "a.md").content == "two"


def test_hooks_and_settings_of_a_repository_do_not_run(
    repo: Repository, sync: Sync, tmp_path: Path
) -> None:
    repo.commit({"a.md": "one"})
    ran = tmp_path / "ran"
    for hook in ("post-checkout", "pre-receive", "reference-transaction", "post-merge"):
        file = repo.path / ".git" / "hooks" / hook
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\ntouch {ran}\n")
        file.chmod(0o755)
    repo.git("config", "core.fsmonitor", f"touch {ran}")
    repo.git("config", "uploadpack.packObjectsHook", f"touch {ran}")
    repo.git("config", "core.sshCommand", f"touch {ran}")
    assert sync(repo.url).added == 1
    assert not ran.exists()


def test_variables_of_git_are_not_inherited(
    repo: Repository, sync: Sync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit({"a.md": "one"})
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "url.file:///nowhere.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "file://")
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext")
    assert sync(repo.url).added == 1


@pytest.mark.parametrize(
    "location",
    [
        *("ext::sh -c touch% x", "--upload-pack=touch x", "-u", "file://", "https://", ""),
        *("http+unix://x/y.git", "ftp://h/r.git", "https://h/r.git#../x", "https://h/r.git#-x"),
        *("https://h/r.git#", "https://h/r.git#a..b", "https://h/r.git#a b", "h:path"),
        *("https://h/r\n.git", "ssh://a:secret@h/r.git", "https://token@h/r.git", "git+ext::x"),
        *("a@-oProxyCommand=x:y", "ssh://-oProxyCommand=x/y", "a@-b:c"),
    ],
)
def test_what_names_no_repository_is_refused(location: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError) as caught:
        GitSource(location)
    assert "secret" not in str(caught.value)
    assert "token" not in str(caught.value)


@pytest.mark.parametrize(
    "location",
    [
        "https://h/r.git",
        "git+https://h/r#v1.0",
        "ssh://git@h/r",
        "git@h.org:o/r.git#main",
        "git://h/r",
    ],
)
def test_what_names_a_repository(location: str) -> None:
    assert GitSource(location).location == location.removeprefix("git+")


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://github.com/o/r.git", "https://github.com/o/r/blob/{}/a%20b.md"),
        ("https://gitlab.example.org/o/r", "https://gitlab.example.org/o/r/blob/{}/a%20b.md"),
        ("git@h.org:o/r.git", "git@h.org:o/r.git#{}:a%20b.md"),
        ("https://notgithub.com/r.git", "https://notgithub.com/r.git#{}:a%20b.md"),
    ],
)
def test_a_link_leads_to_the_page_of_the_file_where_that_is_known(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, link: str
) -> None:
    commit = repo.commit({"a b.md": "one"})
    # The user's own configuration counts: here it leads to this repository.
    (tmp_path / "config").write_text(f'[url "{repo.url}"]\n  insteadOf = {url}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    with GitSource(url) as source:
        assert source.fetch("a b.md", "").url == link.format(commit)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def plain_files(tmp_path: Path) -> Iterator[str]:
    """A server that gives files of a folder, as a host without Git's own server does."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_server_of_plain_files_will_do(
    kb: Service, repo: Repository, sync: Sync, tmp_path: Path, plain_files: str
) -> None:
    repo.commit({"a.md": "one"})
    repo.git("clone", "-q", "--bare", repo.url, str(tmp_path / "served.git"))
    Repository(tmp_path / "served.git").git("update-server-info")
    assert sync(f"{plain_files}/served.git").added == 1
    report = sync(f"{plain_files}/gone.git")
    assert "not found" in str(report.failed[0].error)
    assert _names(kb) == {"a.md"}


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"git://127.0.0.1:{silent.getsockname()[1]}/r.git"
        with pytest.raises(SourceError, match=r"did not end in 0\.5 seconds"):
            GitSource(url, timeout=0.5).revision()


def test_a_private_key_or_password_is_never_asked_for(tmp_path: Path) -> None:
    class Locked(_Quiet):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Locked)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with pytest.raises(SourceError, match="could not read Username"):
            GitSource(f"http://127.0.0.1:{server.server_port}/r.git").revision()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_names_that_are_no_text_fail_by_themselves(
    kb: Service, repo: Repository, sync: Sync
) -> None:
    blob = (
        subprocess.run(
            ["git", "-C", str(repo.path), "hash-object", "-w", "--stdin"],
            input=b"x",
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
    )
    repo.commit({"a.md": "one"})
    tree = (
        subprocess.run(
            ["git", "-C", str(repo.path), "mktree", "-z"],
            input=f"100644 blob {blob}\t".encode()
            + b"\xff.md\0"
            + f"100644 blob {blob}\tb.md\0".encode(),
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
    )
    commit = repo.git("commit-tree", "-m", "x", tree)
    repo.git("update-ref", "refs/heads/main", commit)
    report = sync(repo.url)
    assert [type(each.error) for each in report.failed] == [ValidationError]
    assert isinstance(report.failed[0].error, TriptychError)
    assert _names(kb) == {"b.md"}
