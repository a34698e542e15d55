"""Adding the server, a skill and instructions to the files of a coding agent, and removing them.

What an install wrote is known by its text: an uninstall removes it to the byte, and nothing that
somebody has changed since. JSON has no comments: the mark of the skill holds the digest of the
server, too.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from triptych.errors import ConflictError, ValidationError
from triptych.resources import read_regular, written_whole
from triptych_server.mcp.configuration import SKILL, configuration

INSTRUCTIONS: Final = """\
## Knowledge base

This folder has a knowledge base, which finds passages by meaning and by keyword. Ask it first: the
tool `knowledge_search` of the MCP server `triptych`, or `triptych search "WORDS"` in a shell. Each
hit names its document and line: cite them. A warning names files that were changed since they were
read: `triptych sync` reads them again.
"""


@attrs.frozen
class AgentFiles:
    """What an agent reads in the folder of a project, as its maker documents it
    (docs/how-to/mcp.md).

    Attributes:
        servers: the file of its MCP servers.
        skills: the folder of its skills.
        instructions: the file of its instructions.
    """

    servers: str
    skills: str
    instructions: str


FILES: Final[Mapping[str, AgentFiles]] = {
    "claude": AgentFiles(".mcp.json", ".claude/skills", "CLAUDE.md"),
    "codex": AgentFiles(".codex/config.toml", ".agents/skills", "AGENTS.md"),
    "cursor": AgentFiles(".cursor/mcp.json", ".cursor/skills", "AGENTS.md"),
    "gemini": AgentFiles(".gemini/settings.json", ".gemini/skills", "GEMINI.md"),
    "vscode": AgentFiles(".vscode/mcp.json", ".github/skills", "AGENTS.md"),
}
"""The files of each agent."""


@attrs.frozen
class Change:
    """A file of the project in ``folder`` before and after; None where there is none."""

    folder: Path
    path: Path
    before: str | None
    after: str | None

    def apply(self) -> None:
        """Write the file whole, or delete it, and the folders that are empty then.

        Raises:
            ConflictError: somebody has changed it since it was read; nothing is written.
            ValidationError: the file or its folder may not be written.
        """
        if _read(self.path) != self.before:
            raise ConflictError(f"{self.path} was changed meanwhile: run the command again")
        try:
            self._write()
        except OSError as error:
            raise ValidationError(
                f"{self.path} cannot be written ({error.strerror}): see to its rights, then run "
                "the command again; what it had written before stays, and uninstall removes it"
            ) from error

    def _write(self) -> None:
        if self.after is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(self.path, mode=0o666) as stream:
                stream.write(self.after.encode())
            return
        self.path.resolve().unlink()  # of a link, what it leads to: that is what was written
        for parent in self.path.relative_to(self.folder).parents[:-1]:
            with suppress(OSError):  # it holds something else
                (self.folder / parent).rmdir()


def installing(
    folder: Path, agent: str, command: Sequence[str], *, key: bool = False
) -> Sequence[Change]:
    """Return the changes that add the server that ``command`` starts to an agent, with the skill
    and the instructions. What an earlier install wrote is replaced.

    ``key`` as in `configuration`.

    Raises:
        ConflictError: somebody has changed what an earlier install wrote, or there is a server or a
            skill ``triptych`` of somebody else.
        ValidationError: a file of the agent cannot be read.
    """
    given = {"server": configuration(agent, command=command, key=key)}
    given |= {"skill": SKILL.read_text(encoding="utf-8"), "instructions": INSTRUCTIONS}
    changes = []
    for what, part in _parts(folder, agent, _digest(given["server"])).items():
        before = _read(part.path)
        if isinstance(part, _Entry):
            part.check(before)
        rest = None if before is None else part.without(before)
        after = part.having(rest, given[what])
        if part.without(after) != rest:  # a key that is there twice, a table that is closed
            raise ValidationError(
                f"{part.path} has a form to which nothing can be added and removed again: "
                f"{_by_hand(agent)}"
            )
        changes.append(Change(folder, part.path, before, after))
    return [each for each in changes if each.before != each.after]


def uninstalling(folder: Path, agent: str) -> Sequence[Change]:
    """Return the changes that remove what `installing` added.

    Instructions that another agent of the folder reads from the same file stay until that is
    uninstalled.

    Raises:
        ConflictError: somebody has changed what was added.
        ValidationError: a file of the agent cannot be read.
    """
    parts = _parts(folder, agent)
    others = (_parts(folder, other) for other in FILES if other != agent)
    if any(
        other["instructions"].path.resolve() == parts["instructions"].path.resolve()
        and other["skill"].path.exists()
        for other in others
    ):
        del parts["instructions"]
    changes = []
    for part in parts.values():
        before = _read(part.path)
        if isinstance(part, _Entry):
            part.check(before)
        if before is not None:
            changes.append(Change(folder, part.path, before, part.without(before)))
    # The skill last: its mark says what is ours.
    return [each for each in reversed(changes) if each.before != each.after]


_BOM: Final = "\ufeff"


@attrs.frozen
class _Part(ABC):
    """What is added to one file."""

    path: Path

    @abstractmethod
    def having(self, text: str | None, part: str) -> str:
        """Return the file's text with the part; ``text`` None: there is no file."""

    @abstractmethod
    def without(self, text: str) -> str | None:
        """Return the file's text as it was without the part; None where there was no file."""


def _parts(folder: Path, agent: str, server: str = "") -> dict[str, _Part]:
    """The parts in the order of their writing; ``server`` is the digest of the first."""
    files = FILES[agent]
    servers, skill = folder / files.servers, folder / files.skills / "triptych" / "SKILL.md"
    whole = _Whole(skill, server)
    return {
        "skill": whole,
        "server": _Block(servers, "# {}\n") if agent == "codex" else _Entry(servers, agent, whole),
        "instructions": _Block(folder / files.instructions, "<!-- {} -->\n"),
    }


def _digest(part: str) -> str:
    return hashlib.sha256(part.encode()).hexdigest()[:16]


def _changed(path: Path) -> ConflictError:
    return ConflictError(
        f"what an install wrote into {path} was changed by somebody: remove it by hand, with the "
        "marks around it, or put it back as it was"
    )


@attrs.frozen
class _Whole(_Part):
    """A file that is ours, with a mark at its end: its digest and that of the ``server``."""

    server: str

    def having(self, text: str | None, part: str) -> str:
        if text is not None:
            raise ConflictError(f"{self.path} is of somebody else: move it away, then try again")
        return f"{part}\n<!-- triptych install: {_digest(part)} {self.server} -->\n"

    def without(self, text: str) -> str | None:
        found = re.fullmatch(r"(.*)\n<!-- triptych install: (\w+) \w+ -->\n", text, re.DOTALL)
        if found is None and "<!-- triptych install" not in text:
            return text
        if found is None or _digest(found[1]) != found[2]:
            raise _changed(self.path)
        return None

    def server_there(self) -> str:
        """The digest of the server that was written with the file, "" without one."""
        found = re.search(r"\n<!-- triptych install: \w+ (\w+) -->\n\Z", _read(self.path) or "")
        return found[1] if found else ""


_AFTER: Final = " after a line break"
"""In the mark of what was added to a file, and not what a file was made of."""


@attrs.frozen
class _Block(_Part):
    """Lines at the end of a file, between two comments."""

    comment: str

    def having(self, text: str | None, part: str) -> str:
        if self.comment[0] == "#":
            self._check_table(text or "")
        after = "" if text is None else _AFTER
        first = self.comment.format(f"triptych install{after}: {_digest(part)}")
        block = f"{first}{part}{self.comment.format('triptych install: end')}"
        result = block if text is None else f"{text}\n{block}"
        if self.comment[0] == "#":
            self._loaded(result)  # a table that is written in one line takes no other
        return result

    def without(self, text: str) -> str | None:
        first, last = (
            re.escape(self.comment.format(f"triptych install{each}")) for each in ("A: D", ": end")
        )
        first = first.replace("A:", f"({_AFTER})?:").replace("D", r"(\w{16})")
        found = re.search(f"(?m:^){first}(.*?){last}", text, re.DOTALL)
        mark = re.escape(self.comment.split("{")[0] + "triptych install")
        if found is None and not re.search(f"(?m:^){mark}(?:{_AFTER})?: ", text):
            return text
        if found is None or _digest(found[3]) != found[2]:
            raise _changed(self.path)
        before, after = text[: found.start()], text[found.end() :]
        if not found[1]:
            return before + after or None
        less = before.removesuffix("\n")  # it ends the last line where something was added since
        return (before if after and not less.endswith("\n") else less) + after

    def _check_table(self, text: str) -> None:
        servers = self._loaded(text).get("mcp_servers", {})
        if not isinstance(servers, dict):
            raise ValidationError(f"mcp_servers in {self.path} is no table: repair it first")
        if "triptych" in servers:
            raise _taken(self.path)

    def _loaded(self, text: str) -> Any:
        try:
            return tomllib.loads(text.removeprefix(_BOM))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ValidationError(
                f"{self.path} is not TOML to which a table can be added ({error}): repair it, or "
                f"{_by_hand('codex')}"
            ) from error


def _by_hand(agent: str) -> str:
    return f"add by hand what `triptych mcp --agent {agent} --print-config` prints"


def _taken(path: Path) -> ConflictError:
    return ConflictError(
        f"{path} has a server named triptych that no install wrote, or that was changed since: "
        "remove it by hand, then try again"
    )


@attrs.frozen
class _Entry(_Part):
    """A server in a JSON file, before the others of its object; ``skill`` has its digest."""

    agent: str
    skill: _Whole

    @property
    def root(self) -> str:
        return "servers" if self.agent == "vscode" else "mcpServers"

    def check(self, text: str | None) -> None:
        """Raise `ConflictError` if the server in the file is not the one that was written."""
        servers = self._loaded(text).get(self.root) if text and text.strip() else None
        if isinstance(servers, dict) and "triptych" in servers:
            ours = {self.root: {"triptych": servers["triptych"]}}
            if _digest(_dumped(ours) + "\n") != self.skill.server_there():
                raise _taken(self.path)

    def having(self, text: str | None, part: str) -> str:
        if text is None:
            return part
        if not text.strip():
            # The space tells a file that was empty from one that was not there.
            return f"{part.rstrip()} {text}"
        known, servers = self._loaded(text), json.loads(part)[self.root]
        there = known.get(self.root, {})
        if not isinstance(there, dict):
            raise ValidationError(f"{self.root} in {self.path} is not an object: repair it first")
        if servers.keys() & there.keys():
            raise _taken(self.path)
        has_root = self.root in known
        at = _opening(text, self.root if has_root else "")
        others = there if has_root else known
        piece = self._pieces(servers)[not has_root]
        # The space tells an object that was empty from a file that was not there.
        return f"{text[:at]}{piece}{',' if others else ' '}{text[at:]}"

    def without(self, text: str) -> str | None:
        if not text.strip():
            return text
        known = self._loaded(text)
        servers = known.get(self.root)
        if not isinstance(servers, dict) or "triptych" not in servers:
            return text
        ours = {"triptych": servers["triptych"]}
        rest = text.removeprefix(_dumped({self.root: ours}))
        if not rest.strip():
            return None if rest == "\n" else rest[1:]
        for piece in reversed(self._pieces(ours)):
            for end in (",", " ", ""):
                rest = text.replace(piece + end, "", 1)
                if rest != text and self._is_rest(known, rest):
                    return rest
        raise _taken(self.path)

    def _pieces(self, servers: Any) -> tuple[str, str]:
        """What is inserted into the object of servers, and where that is not there either."""
        inner = _dumped(servers)[1:-2].replace("\n", "\n  ")
        return inner, f'\n  "{self.root}": {{{inner}\n  }}'

    def _is_rest(self, known: Any, text: str) -> bool:
        """Whether ``text`` lacks nothing but our server."""
        others = {name: each for name, each in known[self.root].items() if name != "triptych"}
        try:
            rest = json.loads(text.removeprefix(_BOM))
        except ValueError:
            return False
        less = {name: each for name, each in known.items() if name != self.root}
        return bool(rest == {**known, self.root: others} or (not others and rest == less))

    def _loaded(self, text: str) -> Any:
        try:
            found = json.loads(text.removeprefix(_BOM))
        except (ValueError, RecursionError) as error:
            raise ValidationError(
                f"{self.path} is not JSON without comments ({error}): repair it, or "
                f"{_by_hand(self.agent)}"
            ) from error
        if not isinstance(found, dict):
            raise ValidationError(f"{self.path} holds no JSON object: repair it first")
        return found


def _dumped(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]')


def _opening(text: str, key: str) -> int:
    """The place after the brace that opens the object of a key at the top, or of "" the whole."""
    depth, last = 0, ""
    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            if (not key and depth == 0) or (key and depth == 1 and last == key):
                return token.end()
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        elif token[0] != ":":
            last = json.loads(token[0])
    raise AssertionError("the text was read before")


def _read(path: Path) -> str | None:
    try:
        return read_regular(path).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ValidationError(f"{path} is not UTF-8 text: repair it first") from error
    except OSError as error:  # a folder stands there, a file where a folder is needed, a loop
        raise ValidationError(f"{path} cannot be read: {error.strerror}") from error
