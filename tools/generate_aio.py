"""Write the asynchronous facade: `python tools/generate_aio.py` renews triptych/aio/generated.py.

Each public method of `Service` and of its views becomes a coroutine of the same signature. A test
compares what is committed with what this writes.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / "knowledge/triptych/service"
TARGET = ROOT / "knowledge/triptych/aio/generated.py"
PARTS = ("documents", "datasets", "searches", "answers", "layers", "upkeep")
"""The modules of the classes that make up a Service, in the order of its bases."""
NOT_ASYNC = frozenset({"close", "dataset", "follow", "pipeline", "restricted"})
HEAD = '''"""`Service` and its views, awaited. Written by tools/generate_aio.py: do not edit."""

'''


def main() -> None:
    """Write the module."""
    TARGET.write_text(generated(), encoding="utf-8")


def generated() -> str:
    """The module's text, formatted."""
    parts_of_service = [_parsed(name) for name in PARTS]
    dataset, pipelines = _parsed("dataset"), _parsed("pipeline")
    parts = [
        HEAD,
        _imports(*parts_of_service, dataset, pipelines),
        '\n__all__ = ["AsyncDatasetMethods", "AsyncPipelineMethods", "AsyncServiceMethods"]\n\n',
        _facade("AsyncServiceMethods", "Service", "service", *parts_of_service),
        _facade("AsyncDatasetMethods", "Dataset", "view", dataset),
        _facade("AsyncPipelineMethods", "PipelineView", "view", pipelines),
    ]
    return _formatted("\n".join(parts))


def _parsed(name: str) -> ast.Module:
    return ast.parse((HOME / f"{name}.py").read_text(encoding="utf-8"))


def _imports(*modules: ast.Module) -> str:
    """Every import of the modules; the linter drops those that are not needed."""
    lines = ["from __future__ import annotations", "from abc import abstractmethod"]
    lines += ["from collections.abc import Awaitable", "from typing import ParamSpec, TypeVar"]
    for module in modules:
        for node in ast.walk(module):
            if isinstance(node, ast.Import | ast.ImportFrom):
                text = ast.unparse(node)
                if "__future__" not in text and text not in lines:
                    lines.append(text)
    lines += ["from triptych.service import Service"]
    lines += ["from triptych.service.dataset import Dataset"]
    lines += ["from triptych.service.pipeline import PipelineView"]
    lines += ["from triptych.aio.answers import AsyncAnswerStream"]
    return "\n".join(dict.fromkeys(lines)) + '\n\nP = ParamSpec("P")\nR = TypeVar("R")\n'


def _facade(name: str, of: str, inner: str, *modules: ast.Module) -> str:
    """The facade of a class, whose methods are those of the one class of each module."""
    lines = [
        f"class {name}:",
        f'    """Every method of `{of}`, awaited."""',
        "    @property",
        "    @abstractmethod",
        f"    def {inner}(self) -> {of}:",
        f'        """The {of} inside."""',
        "    @abstractmethod",
        "    def _call(",
        "        self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs",
        "    ) -> Awaitable[R]:",
        '        """Run a method in a worker thread."""',
    ]
    for module in modules:
        (source,) = (node for node in module.body if isinstance(node, ast.ClassDef))
        for node in source.body:
            if isinstance(node, ast.FunctionDef) and _is_call(node):
                lines += _method(node, of, inner)
    return "\n".join(lines) + "\n"


def _is_call(node: ast.FunctionDef) -> bool:
    is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
    return not (node.name.startswith("_") or node.name in NOT_ASYNC or is_property)


def _method(node: ast.FunctionDef, of: str, inner: str) -> list[str]:
    taken = node.args
    given = [each.arg for each in taken.args[1:]]
    given += [f"{each.arg}={each.arg}" for each in taken.kwonlyargs]
    given += [f"**{taken.kwarg.arg}"] if taken.kwarg else []
    assert node.returns is not None
    assert taken.vararg is None
    call = ", ".join([f"self.{inner}.{node.name}", *given])
    if ast.unparse(node.returns) == "AnswerStream":
        return _stream(node, of, f"self.{inner}.{node.name}({', '.join(given)})")
    return [
        f"    async def {node.name}({ast.unparse(taken)}) -> {ast.unparse(node.returns)}:",
        f'        """`{of}.{node.name}`, awaited."""',
        f"        return await self._call({call})",
    ]


def _stream(node: ast.FunctionDef, of: str, call: str) -> list[str]:
    """A method whose answer is read piece by piece: it is not awaited, its pieces are."""
    return [
        f"    def {node.name}({ast.unparse(node.args)}) -> AsyncAnswerStream:",
        f'        """`{of}.{node.name}`, followed with ``async for``."""',
        f"        return AsyncAnswerStream(lambda: {call})",
    ]


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(TARGET), "-"]
    for command in (
        [*ruff, "check", "--fix-only", "--quiet", "--select", "F401,I,RUF022,F811,UP", *name],
        [*ruff, "format", *name],
    ):
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        text = done.stdout
    return text


if __name__ == "__main__":
    main()
