"""Write the types of the asynchronous facade: `python tools/generate_aio.py` for aio/methods.pyi.

Each public method of `Service` and of its views is a coroutine of the same signature. A test
compares what is committed with what this writes.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from triptych.aio.threads import NOT_AWAITED

ROOT = Path(__file__).parents[1]
HOME = ROOT / "knowledge/triptych/service"
TARGET = ROOT / "knowledge/triptych/aio/methods.pyi"
PARTS = ("documents", "datasets", "searches", "layers", "upkeep")
"""The modules of the classes that make up a Service, in the order of its bases."""
VIEWS = ("AsyncDatasetMethods", "AsyncPipelineMethods")
"""The facades of the classes of the module of views, in their order."""
HEAD = '"""`Service` and its views, awaited. Written by tools/generate_aio.py: do not edit."""'


def main() -> None:
    """Write the stub."""
    TARGET.write_text(generated(), encoding="utf-8")


def generated() -> str:
    """The stub's text, formatted."""
    parts_of_service = [_parsed(name) for name in PARTS]
    views = _parsed("views")
    parts = [
        HEAD,
        _imports(*parts_of_service, views),
        '__all__ = ["AsyncDatasetMethods", "AsyncPipelineMethods", "AsyncServiceMethods"]',
        _facade(
            "AsyncServiceMethods", "Service", *(_classes(each)[0] for each in parts_of_service)
        ),
        *(
            _facade(name, each.name, each)
            for name, each in zip(VIEWS, _classes(views), strict=True)
        ),
    ]
    return _formatted("\n".join(parts))


def _parsed(name: str) -> ast.Module:
    return ast.parse((HOME / f"{name}.py").read_text(encoding="utf-8"))


def _classes(module: ast.Module) -> list[ast.ClassDef]:
    return [node for node in module.body if isinstance(node, ast.ClassDef)]


def _imports(*modules: ast.Module) -> str:
    """Every import of the modules; the linter drops those that are not needed."""
    lines = ["from triptych.aio.threads import AsyncAnswerStream"]
    for module in modules:
        imports = (
            each for each in ast.walk(module) if isinstance(each, ast.Import | ast.ImportFrom)
        )
        lines += map(ast.unparse, imports)
    return "\n".join(dict.fromkeys(each for each in lines if "__future__" not in each))


def _facade(name: str, of: str, *sources: ast.ClassDef) -> str:
    """The facade of a class, whose methods are those of ``sources``."""
    lines = [f"class {name}:", f'    """Every method of `{of}`, awaited."""']
    for source in sources:
        lines += [
            _method(node)
            for node in source.body
            if isinstance(node, ast.FunctionDef) and _is_call(node)
        ]
    return "\n".join(lines)


def _is_call(node: ast.FunctionDef) -> bool:
    is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
    return not (node.name.startswith("_") or node.name in NOT_AWAITED or is_property)


def _method(node: ast.FunctionDef) -> str:
    assert node.returns is not None
    returns, taken = ast.unparse(node.returns), ast.unparse(node.args)
    if returns == "AnswerStream":  # it is not awaited, its pieces are
        return f"    def {node.name}({taken}) -> AsyncAnswerStream: ..."
    return f"    async def {node.name}({taken}) -> {returns}: ..."


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
