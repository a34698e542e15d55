"""Reading YAML as nodes, which have line numbers. Needs PyYAML."""

from __future__ import annotations

import attrs
import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from triptych_evaluation.collections import MalformedFileError, whole_grade


class _Loader(yaml.SafeLoader):
    """Knows no aliases: a few bytes of them would be a list of thousands each."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # of PyYAML
            raise yaml.composer.ComposerError(None, None, "aliases are not read", mark)
        return super().compose_node(parent, index)


@attrs.frozen
class NodeReader:
    """Reads YAML's nodes, which unlike its values know their lines."""

    name: str

    def parse(self, text: str) -> Node:
        """The document's root.

        Raises:
            MalformedFileError: the text is not YAML, or empty.
        """
        try:
            node = yaml.compose(text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = 0 if mark is None else mark.line + 1
            raise MalformedFileError(
                f"not YAML ({error.problem})", file=self.name, line=line
            ) from error
        except (yaml.YAMLError, RecursionError) as error:
            said = " ".join(str(error).split())
            raise MalformedFileError(f"not YAML ({said})", file=self.name) from error
        if node is None:
            raise MalformedFileError("the file is empty", file=self.name)
        return node

    def wrong(self, message: str, node: Node) -> MalformedFileError:
        """The error that says so of the node's line."""
        mark = node.start_mark
        return MalformedFileError(
            message, file=self.name, line=0 if mark is None else mark.line + 1
        )

    def is_list(self, node: Node) -> bool:
        """Whether the node is a list."""
        return isinstance(node, SequenceNode)

    def items(self, node: Node, what: str) -> list[Node]:
        """The members of a list."""
        if not isinstance(node, SequenceNode):
            raise self.wrong(f"{what} must be a list", node)
        return list(node.value)

    def pairs(self, node: Node, what: str) -> list[tuple[Node, Node]]:
        """The keys and values of a mapping, in order."""
        if not isinstance(node, MappingNode):
            raise self.wrong(f"{what} must be a mapping", node)
        return list(node.value)

    def mapping(self, node: Node, known: tuple[str, ...], what: str) -> dict[str, Node]:
        """The values of a mapping that has no other keys than ``known``, and each once."""
        fields: dict[str, Node] = {}
        for key, value in self.pairs(node, what):
            name = key.value if isinstance(key, ScalarNode) else None
            if name not in known:
                raise self.wrong(
                    f"{what} has no field {name!r}; its fields are: {', '.join(known)}", key
                )
            if name in fields:
                raise self.wrong(f"the field {name!r} comes twice", key)
            fields[name] = value
        return fields

    def text(self, node: Node, what: str) -> str:
        """A scalar's text."""
        # As written: YAML would read the unquoted 2024 as a number and `no` as a truth value.
        if not isinstance(node, ScalarNode) or node.tag == "tag:yaml.org,2002:null":
            raise self.wrong(f"{what} must be text", node)
        text = str(node.value)
        if not text.strip():
            raise self.wrong(f"{what} is empty", node)
        return text

    def truth(self, node: Node, what: str) -> bool:
        """True or false."""
        if isinstance(node, ScalarNode) and node.value in ("true", "false"):
            return bool(node.value == "true")
        raise self.wrong(f"{what} is true or false", node)

    def file(self, node: Node) -> str:
        """The end of a file's path."""
        name = self.text(node, "a file").removeprefix("./").strip("/")
        if not name:
            raise self.wrong("a file's name is empty", node)
        return name

    def grade(self, node: Node) -> int:
        """A whole number, written in decimal digits."""
        if not isinstance(node, ScalarNode):
            raise self.wrong("a grade must be a whole number", node)
        try:
            return whole_grade(node.value)
        except ValueError as error:
            raise self.wrong(str(error), node) from None
