"""`triptych install` adds a server, a skill and instructions; `uninstall` removes just these."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.cli_run import fresh_shell
from support.rows import each_row
from triptych import ConflictError, ValidationError
from triptych_server.mcp.agents import FILES, AgentFiles, installing, uninstalling

COMMAND = ["/usr/bin/triptych", "mcp", "--store", '/home/"me"/kb.db']
OTHER = ["/usr/bin/triptych", "mcp", "--store", "/other.db", "--write"]


def install(folder: Path, agent: str, command: list[str] = COMMAND) -> None:
    for change in installing(folder, agent, command):
        change.apply()


def uninstall(folder: Path, agent: str) -> None:
    for change in uninstalling(folder, agent):
        change.apply()


def everything(folder: Path) -> dict[str, bytes | None]:
    """All files and folders beneath one."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def server_of(files: AgentFiles, folder: Path) -> Any:
    path = folder / files.servers
    load = tomllib.loads if path.suffix == ".toml" else json.loads
    known: Any = load(path.read_text(encoding="utf-8"))
    root = {".codex": "mcp_servers", ".vscode": "servers"}.get(files.servers.split("/")[0])
    return known[root or "mcpServers"]["triptych"]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_names = st.sampled_from(["mcpServers", "servers", "other", '"{', "triptych", "a"])
_servers = st.dictionaries(st.sampled_from(["mine", "{", "triptych2"]), _values, max_size=2)
_roots = st.fixed_dictionaries({}, optional={"mcpServers": _servers, "servers": _servers})
_objects = st.builds(
    lambda first, roots, last: {**first, **roots, **last},
    st.dictionaries(_names.filter(lambda name: "ervers" not in name), _values, max_size=2),
    _roots,
    st.dictionaries(st.text(min_size=9), _values, max_size=2),
)
_jsons = st.builds(
    lambda known, indent, tight, end: (
        json.dumps(
            known, indent=indent, separators=(",", ":") if tight else None, ensure_ascii=tight
        )
        + end
    ),
    _objects,
    st.sampled_from([None, 0, 2, 4]),
    st.booleans(),
    st.sampled_from(["", "\n", "\r\n\n"]),
)
_texts = st.text(st.characters(codec="utf-8") | st.sampled_from("\n#<!-> "))
_tomls = st.lists(
    st.sampled_from(["", "# note", 'model = "x"', "[mcp_servers.mine]", 'command = "y"']),
    unique=True,
).map("\n".join)


@pytest.mark.parametrize("agent", ["claude", "codex", "vscode"])
@given(data=st.data())
def test_what_was_there_is_there_again_after_an_uninstall(agent: str, data: st.DataObject) -> None:
    files = FILES[agent]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        servers = _tomls if agent == "codex" else _jsons
        for path, texts in ((files.servers, servers), (files.instructions, _texts)):
            text = data.draw(st.none() | texts)
            if text is not None:
                (folder / path).parent.mkdir(exist_ok=True)
                (folder / path).write_bytes(text.encode())
        before = everything(folder)
        install(folder, agent, OTHER)
        install(folder, agent)
        server = server_of(files, folder)
        assert [server["command"], *server["args"]] == COMMAND
        after = everything(folder)
        install(folder, agent)
        assert everything(folder) == after
        uninstall(folder, agent)
        assert everything(folder) == before
        uninstall(folder, agent)
        assert everything(folder) == before


@pytest.mark.parametrize("agent", FILES)
def test_what_stands_around_it_stays_when_it_is_edited_meanwhile(
    agent: str, tmp_path: Path
) -> None:
    install(tmp_path, agent)
    files = FILES[agent]
    instructions, servers = tmp_path / files.instructions, tmp_path / files.servers
    instructions.write_text(f"# Mine\n{instructions.read_text()}More.\n")
    if agent == "codex":
        servers.write_text(f'model = "x"\n{servers.read_text()}[mcp_servers.mine]\n')
    else:
        known = json.loads(servers.read_text())
        (root,) = known
        servers.write_text(servers.read_text().replace("{\n", '{\n  "mine": 1,\n', 1))
    uninstall(tmp_path, agent)
    assert instructions.read_text() == "# Mine\nMore.\n"
    if agent == "codex":
        assert servers.read_text() == 'model = "x"\n[mcp_servers.mine]\n'
    else:
        assert json.loads(servers.read_text()) == {"mine": 1, root: {}}


@pytest.mark.parametrize("agent", FILES)
def test_what_somebody_changed_is_refused_and_nothing_is_written(
    agent: str, tmp_path: Path
) -> None:
    install(tmp_path, agent)
    files = FILES[agent]
    for name, old, new in (
        (files.instructions, "Ask it first", "Ask it last"),
        (f"{files.skills}/triptych/SKILL.md", "# Triptych", "# Mine"),
        (files.servers, "kb.db", "mine.db"),
        (files.servers, "/usr/bin/triptych", "/opt/other/triptych"),
        (files.servers, '"mcp"', '"serve"'),
        (files.servers, '"--store"', '"-s"'),
    ):
        path = tmp_path / name
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole.replace(old, new, 1), encoding="utf-8")
        before = everything(tmp_path)
        for change in (lambda: install(tmp_path, agent), lambda: uninstall(tmp_path, agent)):
            with pytest.raises(ConflictError, match=path.name):
                change()
        assert everything(tmp_path) == before
        path.write_text(whole, encoding="utf-8")
    uninstall(tmp_path, agent)
    assert everything(tmp_path) == {}


@each_row(
    ("agent", "name", "text"),
    [
        ("claude", ".mcp.json", '{"mcpServers": {"triptych": {"command": "mine"}}}'),
        ("cursor", ".cursor/mcp.json", "[]"),
        ("gemini", ".gemini/settings.json", '{"mcpServers": 3}'),
        ("codex", ".codex/config.toml", '[mcp_servers.triptych]\ncommand = "mine"\n'),
        ("codex", ".codex/config.toml", "[mcp_servers"),
        ("codex", ".codex/config.toml", "mcp_servers = 3"),
        ("codex", ".codex/config.toml", 'mcp_servers = {mine = {command = "x"}}'),
        ("claude", ".mcp.json", '{"mcpServers": {"a": {}}, "mcpServers": {"b": {}}}'),
        ("claude", ".mcp.json", '{"a": ' + "[" * 200_000 + "]" * 200_000 + "}"),
        ("claude", ".mcp.json/a", "a folder"),
        ("claude", "CLAUDE.md", "<!-- triptych install: 0123456789abcdef -->\n"),
        ("claude", ".claude/skills/triptych/SKILL.md", "mine"),
        ("claude", "CLAUDE.md", "\udcff"),
    ],
)
def test_a_file_that_cannot_be_edited_is_named_and_kept(agent: str, name: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))
        before = everything(Path(folder))
        with pytest.raises((ConflictError, ValidationError), match=Path(name).parts[0]):
            install(Path(folder), agent)
        assert everything(Path(folder)) == before


@each_row(
    ("name", "old", "new"),
    [
        ("CLAUDE.md", b"\n", b"\r\n"),
        ("CLAUDE.md", b"<!-- triptych install: end -->\n", b""),
        (".claude/skills/triptych/SKILL.md", b"\n", b"\r\n"),
    ],
)
def test_marks_that_somebody_changed_are_refused_too(name: str, old: bytes, new: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder), "claude")
        path = Path(folder, name)
        path.write_bytes(path.read_bytes().replace(old, new))
        before = everything(Path(folder))
        for change in (install, uninstall):
            with pytest.raises(ConflictError, match=path.name):
                change(Path(folder), "claude")
        assert everything(Path(folder)) == before


@each_row(
    ("name", "text"),
    [
        ("CLAUDE.md", ""),
        *(
            (".mcp.json", text)
            for text in (
                "{\n}\n",
                '{\n  "mcpServers": {\n  }\n}\n',
                "{}",
                "",
                "\n",
                " \n",
                '\ufeff{"a": 1}',
                '\ufeff{"mcpServers": {}}',
            )
        ),
    ],
)
def test_a_file_that_was_nearly_empty_is_there_again(name: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(text.encode())
        install(Path(folder), "claude", OTHER)
        install(Path(folder), "claude")
        uninstall(Path(folder), "claude")
        assert everything(Path(folder)) == {path.name: text.encode()}


@pytest.mark.parametrize("agent", FILES)
def test_what_is_to_be_added_by_hand_is_said_in_the_form_of_the_agent(
    agent: str, tmp_path: Path
) -> None:
    path = tmp_path / FILES[agent].servers
    path.parent.mkdir(exist_ok=True)
    path.write_text('{\n // a comment\n "servers": {}\n}')
    with pytest.raises(ValidationError, match=f"`triptych mcp --agent {agent} --print-config`"):
        install(tmp_path, agent)


def test_a_last_line_without_its_end_is_not_joined_with_what_was_added_since(
    tmp_path: Path,
) -> None:
    path = tmp_path / "CLAUDE.md"
    path.write_text("last")
    install(tmp_path, "claude")
    path.write_text(path.read_text() + "since")
    uninstall(tmp_path, "claude")
    assert path.read_text() == "last\nsince"


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_links_stay_and_instructions_of_two_names_are_one(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    install(tmp_path, "claude")
    uninstall(tmp_path, "claude")
    assert [path.name for path in tmp_path.iterdir()] == ["CLAUDE.md"]
    (tmp_path / "AGENTS.md").write_text("Mine.\n")
    install(tmp_path, "codex")
    alone = everything(tmp_path)
    install(tmp_path, "claude")
    uninstall(tmp_path, "claude")
    assert everything(tmp_path) == alone


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".codex").symlink_to("no-folder")
    with pytest.raises(ValidationError, match=r"config\.toml cannot be written"):
        install(tmp_path, "codex")


def test_any_path_is_a_string_of_toml(tmp_path: Path) -> None:
    words = ["triptych", "mcp", "--store", "/\U0001f600/é\x7f\t\"'\\\n.db"]
    install(tmp_path, "codex", words)
    assert server_of(FILES["codex"], tmp_path)["args"] == words[1:]


def test_a_file_that_changed_since_it_was_read_is_not_written(tmp_path: Path) -> None:
    changes = installing(tmp_path, "claude", COMMAND)
    (tmp_path / ".mcp.json").write_text("{}")
    with pytest.raises(ConflictError, match="again"):
        next(each for each in changes if each.path.name == ".mcp.json").apply()
    assert (tmp_path / ".mcp.json").read_text() == "{}"


def test_instructions_that_two_agents_read_stay_for_the_other(tmp_path: Path) -> None:
    install(tmp_path, "codex")
    alone = everything(tmp_path)
    install(tmp_path, "cursor")
    uninstall(tmp_path, "cursor")
    assert everything(tmp_path) == alone
    uninstall(tmp_path, "codex")
    assert everything(tmp_path) == {}


def test_the_command_shows_what_it_would_do_and_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    assert '+  "mcpServers": {' in shell("install", "claude", "--dry-run").text
    assert not Path(".mcp.json").exists()
    done = shell("install", "claude", "--dataset", "d", "--json")
    assert [each["change"] for each in done.json["files"]] == ["written"] * 3
    assert "d" in server_of(FILES["claude"], Path())["args"]
    said = shell("install", "claude", "--write").err
    assert "triptych init" in said
    assert "by keyword" not in said  # a server that writes begins an empty store
    assert "also had --dataset; this" in said
    said = shell("install", "claude").err
    assert "also had --write; this" in said
    assert "by keyword" in said
    assert str(tmp_path / ".triptych" / "kb.db") in said
    assert "triptych init" in said
    shell.write("a.md", "Tea.")
    assert shell("put", "a.md").code == 0
    for command in ("install claude --dry-run", "mcp"):
        said = shell(*command.split(), "-s", str(shell.store), "-d", "nope").err
        assert "there is no dataset 'nope'" in said
    # A person's own store is given to an agent only where it is named.
    assert str(shell.store) not in shell("install", "claude").err
    assert str(shell.store) in shell("install", "claude", "-s", str(shell.store)).err
    with monkeypatch.context() as home:
        home.setenv("HOME", str(tmp_path))
        home.setenv("USERPROFILE", str(tmp_path))
        refused = shell("install", "claude")
        assert refused.code == 2
        assert f"--store, such as your own, {shell.store}" in " ".join(refused.err.split())
    assert "deleted  .mcp.json" in shell("uninstall", "claude").text
    assert "nothing to change" in shell("uninstall", "claude").err
    assert "in memory" in shell("-s", "memory://", "install", "claude").err
