"""The sentences that a change makes untrue, in Git checkouts and in stores."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.cli_run import fresh_shell, ran
from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.wire.errors import Exit
from triptych_impact import (
    Changed,
    Finding,
    Impact,
    Source,
    changes_impact,
    git_impact,
    impact,
    version_impact,
)

CLIENT = '''"""A client."""

LIMIT = 100


class Client:
    """Sends requests."""

    def fetch_page(self, url, timeout=30, retries=3):
        """Fetch a page; it gives up after LIMIT tries."""
        raise ValueError("the address of the page is empty")

    def close(self):
        pass
'''
GUIDE = """# Guide

Call `Client.fetch_page()` for a page. It waits for a `timeout` of 30 seconds.
Other texts say nothing of it.

```python
client.fetch_page("https://example.com", retries=3)
```

The error is "the address of the page is empty". See [the limits](limits.md).
"""


def found(old: str, new: str, *others: tuple[str, str], name: str = "client.py") -> list[Finding]:
    """The findings for one changed document, and others beside it."""
    sources = [Source(name, new), *(Source(*each) for each in others)]
    return list(impact([Changed(name=name, old=old, new=new)], sources, least=0.0).findings)


def told(findings: list[Finding]) -> list[tuple[str, str, int]]:
    return [(each.change.kind, each.change.name, each.line) for each in findings]


def test_a_renamed_method_is_found_in_prose_first_and_with_both_texts() -> None:
    new = CLIENT.replace("fetch_page", "get_page")
    first, second, *_ = found(CLIENT, new, ("guide.md", GUIDE))
    assert (first.place, first.line, second.place, second.line) == ("prose", 3, "example", 7)
    assert (first.change.old, first.change.new) == ("fetch_page", "get_page")
    assert first.change.text == "def fetch_page(self, url, timeout=30, retries=3):"
    assert first.change.instead == "def get_page(self, url, timeout=30, retries=3):"
    assert first.change.line == 9
    assert first.change.owners == ("Client",)
    assert "names Client" in first.why


def test_a_default_is_found_where_its_name_stands_with_the_old_value() -> None:
    new = CLIENT.replace("timeout=30", "timeout=60")
    (only,) = found(CLIENT, new, ("guide.md", GUIDE))
    assert only.sentence == "It waits for a `timeout` of 30 seconds."
    assert (only.change.kind, only.change.old, only.change.new) == ("value", "30", "60")


def test_a_removed_parameter_is_found_at_what_had_it_and_less_elsewhere() -> None:
    new = CLIENT.replace(", retries=3", "").replace("def close(self)", "def close(self, retries)")
    other = ("other.md", "Set `retries` of something else.\n")
    sure, weak = found(CLIENT, new, ("guide.md", GUIDE), other)
    assert (sure.change.kind, sure.document, sure.line) == ("member", "guide.md", 7)
    assert weak.document == "other.md"
    assert weak.score < 0.4 < sure.score


LIKE = {
    "numbers of two names": (
        "MAX_READ = Limit(10)\nMAX_WRITE = Limit(10)\n",
        "MAX_READ = Limit(20)\nMAX_WRITE = Limit(30)\n",
        "The limit of a write is 10.\n\nThe limit of a read is 10.\n",
    ),
    "lines that share all their words": (
        "a = Limit(11)\nb = Limit(10)\n",
        "a = Limit(21)\nb = Limit(20)\n",
        "The limit is 10.\n\nThe limit is 11.\n",
    ),
    "methods of one name": (
        "class Reader:\n    size = 10\n\n\nclass Writer:\n    size = 10\n",
        "class Reader:\n    size = 20\n\n\nclass Writer:\n    size = 30\n",
        "`Writer` has a size of 10.\n\n`Reader` has a size of 10.\n",
    ),
    "parameters of methods of one name": (
        "class Reader:\n    def of(self, size=10): ...\n\n\n"
        "class Writer:\n    def of(self, size=10): ...\n",
        "class Reader:\n    def of(self, size=20): ...\n\n\n"
        "class Writer:\n    def of(self, size=30): ...\n",
        "`Writer.of` has a size of 10.\n\n`Reader.of` has a size of 10.\n",
    ),
}


@pytest.mark.parametrize("like", LIKE)
def test_of_two_lines_that_changed_alike_the_one_that_a_sentence_is_about_is_named(
    like: str,
) -> None:
    old, new, guide = LIKE[like]
    lines = {each.line: each.change for each in found(old, new, ("guide.md", guide))}
    at = [index + 1 for index, line in enumerate(old.split("\n")) if "10" in line or "11" in line]
    assert [lines[1].line, lines[3].line] == at[::-1]
    for change in lines.values():
        assert change.instead == new.split("\n")[change.line - 1].strip()


def test_a_line_that_two_became_is_in_the_place_of_both() -> None:
    old = "start = pause(10, unit)\nend = pause(11, unit)\n"
    new = "both = pause(20, unit)\n"
    changes = found(old, new, ("guide.md", "They pause 10.\n\nThey pause 11.\n"))
    assert {each.change.instead for each in changes} == {new.strip()}
    assert {each.change.line for each in changes} == {1, 2}


def test_what_is_renamed_many_times_takes_no_longer_each() -> None:
    def seconds(count: int) -> float:
        old = "".join(f"def load_thing_{n}(path): ...\n" for n in range(count))
        guide = "\n\n".join(f"It calls `load_thing_{n}` once." for n in range(count))
        began = time.process_time()
        many = found(old, old.replace("load", "read"), ("guide.md", guide))
        assert len(many) == 20
        return time.process_time() - began

    few = min(seconds(400) for _ in range(2))
    assert seconds(3_200) < 25 * few  # 8 times as many; it was more than 40 times as long


def test_what_only_moved_is_no_change() -> None:
    moved = ("other.py", 'class Other:\n    def fetch_page(self):\n        """Now here."""\n')
    new = CLIENT.replace("fetch_page", "get_page")
    names = [each[1] for each in told(found(CLIENT, new, ("guide.md", GUIDE), moved))]
    assert names.count("fetch_page") == 2
    assert found(CLIENT, new, ("guide.md", GUIDE), moved)[0].change.weight < 1
    assert found(CLIENT, "# a comment\n" + CLIENT, ("guide.md", GUIDE)) == []
    assert found(CLIENT, CLIENT[::1] + "\n\ndef more():\n    pass\n", ("guide.md", GUIDE)) == []


def test_a_message_and_a_constant_are_found_where_they_are_quoted() -> None:
    new = CLIENT.replace("the address of the page is empty", "no address").replace(
        "LIMIT = 100", ""
    )
    kinds = told(found(CLIENT, new, ("guide.md", GUIDE)))
    assert ("message", "the address of the page is empty", 10) in kinds


def test_a_deleted_file_is_found_by_links_to_it_from_any_folder() -> None:
    guide = Source("docs/guide.md", GUIDE)
    top = Source("README.md", "See docs/limits.md for the limits, or other/limits.md.\n")
    change = Changed(name="docs/limits.md", old="# Limits\n", new=None)
    result = impact([change], [guide, top])
    assert {(each.document, each.line) for each in result.findings} == {
        ("docs/guide.md", 10),
        ("README.md", 1),
    }
    renamed = Changed(name="docs/limits.md", old="# L\n", new="# L\n", renamed="docs/l.md")
    result = impact([renamed], [guide, top, Source("docs/l.md", "# L\n")])
    assert {each.change.new for each in result.findings} == {"docs/l.md"}


def test_a_version_of_a_list_is_found_beside_the_words_of_its_line() -> None:
    old = 'classifiers = [\n  "Python :: 3.8",\n  "Python :: 3.9",\n]\n'
    new = 'classifiers = [\n  "Python :: 3.9",\n]\n'
    text = "It needs Python 3.8 or newer.\n\nThe standard says 3.8 of something else.\n"
    (only,) = found(old, new, ("README.md", text), name="pyproject.toml")
    assert (only.change.kind, only.line) == ("number", 1)


def test_a_number_is_found_after_a_v_as_well() -> None:
    old, new = "uses: actions/checkout@v3\n", "uses: actions/checkout@v4\n"
    findings = found(old, new, ("a.md", "Run `actions/checkout@v3` first.\n"), name="ci.yml")
    assert [(each.change.kind, each.change.new) for each in findings] == [("number", "4")]


def test_a_thing_that_many_sentences_hold_leaves_room_for_another() -> None:
    old = "class Kettle:\n    pass\n\n\ndef boil_water():\n    pass\n"
    many = "".join(f"Number {at} of `Kettle` in kettle.\n\n" for at in range(12))
    sources = [("a.md", many), ("b.py", '"""Or boil_water."""\n')]
    findings = found(old, "", *sources, name="kettle.py")
    assert "boil_water" in [each.change.name for each in findings[:10]]


def test_sentences_that_are_left_out_for_others_of_their_document_are_counted() -> None:
    names = [f"open_{at}_valve" for at in range(60)]
    old = "".join(f"def {name}():\n    pass\n\n\n" for name in names)
    prose = "".join(f"Call `{name}()` first.\n\n" for name in names)
    found = impact([Changed(name="a.py", old=old, new="")], [Source("n.md", prose)], top_k=1000)
    assert 0 < found.more < 60
    assert len(found.findings) + found.more == 60
    more = impact([Changed(name="a.py", old=old, new="")], [Source("n.md", prose)], top_k=10)
    assert (len(more.findings), more.more) == (10, 50)


def test_an_option_and_an_address_of_prose_are_found_in_other_prose() -> None:
    old = "Run it with `--dry-run`, as https://example.com/old says.\n"
    new = "Run it with `--plan`, as https://example.com/new says.\n"
    other = "Give `--dry-run` first.\n\nSee https://example.com/old for more.\n"
    findings = found(old, new, ("other.md", other), name="guide.md")
    assert {(e.change.kind, e.change.new) for e in findings} == {
        ("option", "--plan"),
        ("url", "https://example.com/new"),
    }


def test_what_the_change_wrote_itself_tells_the_past_or_is_a_test_is_no_finding() -> None:
    new = CLIENT.replace("fetch_page", "get_page")
    line = "`Client.fetch_page()` fetches a page.\n"
    sources = [
        Source("client.py", new),
        Source("CHANGELOG.md", f"## 2.0\n\n{line}"),
        Source("tests/test_client.py", f'"""{line}"""\n'),
        Source("new.md", line),
        Source("past.md", f"Since 2.0 it was removed: {line}"),
    ]
    changed = [
        Changed(name="client.py", old=CLIENT, new=new),
        Changed(name="new.md", old=None, new=line),
    ]
    result = impact(changed, sources, least=0.0)
    assert {each.document for each in result.findings} == {"past.md"}
    assert result.findings[0].score <= 0.4
    assert result.history == ["CHANGELOG.md"]


def test_a_word_of_prose_is_found_as_code_only() -> None:
    old, new = "def shut(door):\n    pass\n", "def lock(door):\n    pass\n"
    text = "Please shut the door.\n\nCall `shut` for it, or shut() alone.\n"
    findings = found(old, new, ("a.md", text))
    assert [each.line for each in findings] == [3]


def test_sentences_of_comments_and_docstrings_are_found_but_no_code() -> None:
    old, new = "def old_name():\n    pass\n", "def new_name():\n    pass\n"
    other = (
        "def use():\n"
        '    """Calls old_name.\n\n    And returns.\n    """\n'
        "    # old_name is slow\n"
        "    return other(old_name_of=1)\n"
    )
    findings = found(old, new, ("use.py", other), name="names.py")
    assert sorted((each.line, each.place) for each in findings) == [(2, "comment"), (6, "comment")]


def test_a_document_that_is_too_large_is_named() -> None:
    large = "x = 1\n" * 100_000
    result = impact([Changed(name="a.py", old=large, new="")], [Source("b.md", "`x`")])
    assert (result.findings, result.too_large) == ([], ["a.py"])


@pytest.mark.parametrize("wrong", [{"top_k": 0}, {"least": 2.0}, {"least": -0.1}])
def test_an_argument_out_of_its_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        impact([], [], **wrong)  # type: ignore[arg-type]  # that is what is tested


NAMES = st.sampled_from(["a.py", "b.md", "c.toml", "d.rst", "e.js", "f.go", "g"])
TEXTS = st.text(
    st.sampled_from("ab_(){}[]:=\"'`#*/.-,0123 \n\t\\$|<>é漢\r\0") | st.characters(), max_size=200
)


@pytest.mark.property
@settings(deadline=None)
@given(old=TEXTS, new=TEXTS, others=st.lists(st.tuples(NAMES, TEXTS), max_size=3), name=NAMES)
def test_any_text_is_read_alike_each_time(
    old: str, new: str, others: list[tuple[str, str]], name: str
) -> None:
    def once() -> Impact:
        sources = [Source(*each) for each in others]
        return impact([Changed(name=name, old=old, new=new)], sources, least=0.0)

    result = once()
    assert result == once()
    texts = dict(others)
    for each in result.findings:
        assert 0 <= each.score <= 1
        assert 1 <= each.line <= texts[each.document].count("\n") + 1 or len(others) > len(texts)


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of three commits, of which the second renames a method, and a folder in it."""
    folder = tmp_path / "checkout"
    (folder / "docs").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "client.py").write_text(CLIENT)
    (folder / "docs" / "guide ü.md").write_text(GUIDE)
    (folder / "image.png").write_bytes(b"\0\1fetch_page")
    (folder / "link.md").symlink_to("/etc/passwd")
    for message, text in (
        ("one", CLIENT),
        ("two", CLIENT.replace("fetch_page", "get_page")),
        ("three", CLIENT.replace("fetch_page", "get_page") + "\n# more\n"),
    ):
        (folder / "client.py").write_text(text)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", message)
    return folder


def test_a_checkout_is_compared_between_commits_and_with_the_disk(checkout: Path) -> None:
    whole = git_impact(checkout, "HEAD~2..HEAD")
    assert [(each.document, each.line) for each in whole.findings] == [
        ("docs/guide ü.md", 3),
        ("docs/guide ü.md", 7),
    ]
    assert git_impact(checkout / "docs", "HEAD~2..") == whole
    assert git_impact(checkout, "HEAD~1..HEAD").findings == []
    assert git_impact(checkout, "HEAD~2").findings == whole.findings
    assert git_impact(checkout, "HEAD").findings == []
    (checkout / "client.py").write_text(CLIENT.replace("timeout=30", "timeout=9"))
    assert {each.change.name for each in git_impact(checkout, "HEAD~2").findings} == {"timeout"}
    (checkout / "client.py").unlink()
    assert "fetch_page" in {each.change.name for each in git_impact(checkout, "HEAD~2").findings}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "cp1252"])
def test_documents_in_other_encodings_are_read(encoding: str, checkout: Path) -> None:
    text = "Überall ruft `Client.get_page()` eine Seite ab.\n"
    (checkout / "other.md").write_bytes(text.encode(encoding))
    for message, code in (("four", CLIENT.replace("fetch", "get")), ("five", CLIENT)):
        (checkout / "client.py").write_text(code)
        git(checkout, "add", ".")
        git(checkout, "commit", "-q", "-m", message)
    for revisions in ("HEAD~1..HEAD", "HEAD~1"):
        (sentence,) = (
            each.sentence
            for each in git_impact(checkout, revisions).findings
            if each.document == "other.md"
        )
        assert sentence.lstrip("\ufeff") == text.strip()


def test_no_link_of_a_checkout_is_followed(checkout: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("`Client.fetch_page` is a secret.\n")
    (checkout / "more").mkdir()
    (checkout / "more" / "secret.md").write_text("Nothing.\n")
    git(checkout, "add", ".")
    (checkout / "more" / "secret.md").unlink()
    (checkout / "more").rmdir()
    (checkout / "more").symlink_to(outside)
    (checkout / "own.md").symlink_to(outside / "secret.md")
    documents = {each.document for each in git_impact(checkout, "HEAD~2").findings}
    assert documents == {"docs/guide ü.md"}


def test_three_dots_begin_where_the_branch_left(checkout: Path) -> None:
    git(checkout, "checkout", "-q", "-b", "branch", "HEAD~1")
    (checkout / "docs" / "more.md").write_text("Nothing.\n")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "four")
    assert git_impact(checkout, "main...branch").findings == []


def test_branches_without_a_common_commit_are_named(checkout: Path) -> None:
    git(checkout, "checkout", "-q", "--orphan", "other")
    git(checkout, "commit", "-q", "-m", "apart")
    with pytest.raises(NotFoundError, match="no commit in common"):
        git_impact(checkout, "main...other")


@pytest.mark.parametrize(
    "revisions", ["none..HEAD", "HEAD..none", "--output=x..HEAD", "-x", "HEAD^9"]
)
def test_what_names_no_commit_is_refused_and_runs_nothing(checkout: Path, revisions: str) -> None:
    with pytest.raises(NotFoundError, match="names no commit"):
        git_impact(checkout, revisions)
    assert not (checkout / "x").exists()


def test_an_object_that_the_checkout_lacks_is_named(checkout: Path) -> None:
    blob = git(checkout, "rev-parse", "HEAD:client.py").strip()
    lost = checkout / ".git" / "objects" / blob[:2] / blob[2:]
    lost.chmod(0o600)
    lost.unlink()
    with pytest.raises(ValidationError, match=r"client\.py.*lacks the object.*refetch"):
        git_impact(checkout, "HEAD~1..HEAD")


def test_a_checkout_s_own_configuration_runs_nothing(checkout: Path) -> None:
    ran_it = checkout / "ran"
    git(checkout, "config", "diff.evil.textconv", f"touch {ran_it}; cat")
    git(checkout, "config", "diff.external", f"touch {ran_it}")
    git(checkout, "config", "core.fsmonitor", f"touch {ran_it}")
    (checkout / ".gitattributes").write_text("*.py diff=evil\n")
    (checkout / "client.py").write_text(CLIENT)
    git_impact(checkout, "HEAD")
    git_impact(checkout, "HEAD~2..HEAD")
    assert not ran_it.exists()


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="not a git repository"):
        git_impact(tmp_path, "HEAD~1..HEAD")
    with pytest.raises(NotFoundError, match="no folder"):
        git_impact(tmp_path / "none", "HEAD~1..HEAD")


@pytest.fixture
def kb(tmp_path: Path) -> triptych.Service:
    kb = triptych.open(tmp_path / "kb.db", embedder=None)
    kb.put_document("docs", "client.py", CLIENT)
    kb.put_document("docs", "guide.md", GUIDE)
    return kb


def test_versions_of_a_document_and_the_pages_of_the_log_have_an_impact(
    kb: triptych.Service,
) -> None:
    with kb:
        assert version_impact(kb, "docs", "client.py").findings == []
        with pytest.raises(NotFoundError):
            version_impact(kb, "docs", "client.py", 7)
        cursor = kb.changes().cursor
        assert changes_impact(kb, "docs", kb.changes().changes).findings == []
        kb.put_document("docs", "client.py", CLIENT.replace("fetch_page", "get_page"))
        kb.put_document("docs", "client.py", CLIENT.replace("fetch_page", "get_page") + "#\n")
        whole = version_impact(kb, "docs", "client.py", 1)
        assert [each.line for each in whole.findings] == [3, 7]
        assert version_impact(kb, "docs", "client.py", 1, 2).findings == whole.findings
        assert version_impact(kb, "docs", "client.py").findings == []
        kb.put_document("docs", "client.py", CLIENT)
        kb.put_document("docs", "client.py", CLIENT.replace("timeout=30", "timeout=9"))
        page = kb.changes(cursor)
        event = changes_impact(kb, "docs", page.changes)
        assert [(each.change.name, each.line) for each in event.findings] == [("timeout", 3)]
        assert changes_impact(kb, "other", page.changes).findings == []


def test_a_deleted_document_is_found_by_the_links_to_it(kb: triptych.Service) -> None:
    with kb:
        kb.put_document("docs", "limits.md", "# Limits\n")
        cursor = kb.changes().cursor
        kb.delete_document("docs", "limits.md")
        event = changes_impact(kb, "docs", kb.changes(cursor).changes)
        assert [(each.change.kind, each.line) for each in event.findings] == [("path", 10)]


def test_the_command_ends_with_1_only_where_that_is_asked_for(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fresh_shell(tmp_path, monkeypatch)
    monkeypatch.chdir(checkout)
    shown = ran(["impact", "HEAD~2..HEAD"])
    assert shown.code == 0
    assert "docs/guide ü.md:3" in shown.text
    assert "  - def fetch_page(self, url, timeout=30, retries=3):" in shown.text
    assert "  + def get_page(self, url, timeout=30, retries=3):" in shown.text
    assert ran(["impact", "HEAD~2..HEAD", "--fail"]).code == Exit.FAILED
    assert ran(["impact", "HEAD~2..HEAD", "--fail", "--least", "1"]).code == 0
    assert ran(["impact", "HEAD..HEAD", "--fail"]).code == 0
    made = ran(["impact", "HEAD~2..HEAD", "--json", "-n", "1"]).json
    assert (len(made["findings"]), made["more"], made["command"]) == (1, 1, "impact")
    assert made["findings"][0]["change"]["new"] == "get_page"


def test_the_command_reads_versions_and_changes_of_a_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fresh_shell(tmp_path, monkeypatch)
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "guide.md").write_text(GUIDE)
    store = ["--store", str(tmp_path / "kb.db"), "--embedder", "none"]
    ran(["put", "client.py", "guide.md", *store])
    cursor = ran(["changes", "--json", *store]).json["cursor"]
    (tmp_path / "client.py").write_text(CLIENT.replace("fetch_page", "get_page"))
    ran(["put", "client.py", *store])
    by_version = ran(["impact", "client.py", "--versions", "1..2", "--json", *store]).json
    assert [each["line"] for each in by_version["findings"]] == [3, 7]
    by_log = ran(["impact", "--since", cursor, "--json", *store]).json
    assert by_log["findings"] == by_version["findings"]
    last = ran(["impact", "client.py", "--versions", "..", "--json", *store]).json
    assert last["findings"] == by_version["findings"]
    outside = ran(["impact", "client.py", *store])  # of Git
    assert "not a git repository" in outside.err
    (command,) = re.findall(r"`triptych (impact client.py --versions [^`]*)`", outside.err)
    assert ran([*command.split(), "--json", *store]).json["findings"] == last["findings"]
    assert "--versions" not in ran(["impact", "a..b", *store]).err
    for wrong in (["client.py", "--versions", "x"], [], ["a..b", "--since", cursor]):
        assert ran(["impact", *wrong, *store]).code == Exit.USAGE
