"""Writes `windlass.client.async_client`: the classes of `client.py` with methods that are awaited.

    tools/write_async_client.py

Run it after each change of `client.py`. A test compares the file with what this program writes.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/windlass/client/client.py"
TARGET = ROOT / "src/windlass/client/async_client.py"
CLASSES = {"Client": "AsyncClient", "Job": "AsyncJob", "BlockingCalls": "AwaitedCalls", "Iterator": "AsyncIterator"}
METHODS = {"__enter__": "__aenter__", "__exit__": "__aexit__"}
DOCSTRING = """The client of Windlass for programs with an event loop: `Client` and `Job` with methods that are awaited.

Generated from `client.py` by `tools/write_async_client.py`.
"""
_WAITING = {"_call", "_pause"}
"""Methods of the base class that wait."""
_AT_ONCE = {"job"}
"""Public methods that do not wait."""


class Awaited(ast.NodeTransformer):
    """Turns classes that block into classes whose methods that wait are coroutines or asynchronous generators."""

    def __init__(self, tree: ast.Module) -> None:
        methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        public = {node.name for node in methods if not node.name.startswith("_")} - _AT_ONCE
        private = {node.name for node in methods if any(self._calls(each, _WAITING) for each in ast.walk(node))}
        self.generators = {node.name for node in methods if any(isinstance(each, ast.Yield) for each in ast.walk(node))}
        self.coroutines = ((public | private) - self.generators) | _WAITING
        self.waiting = public | private | self.generators | METHODS.keys()

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Renames the classes."""
        node.id = CLASSES.get(node.id, node.id)
        return node

    def visit_alias(self, node: ast.alias) -> ast.alias:
        """Renames imported classes."""
        node.name = CLASSES.get(node.name, node.name)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Renames a class."""
        node.name = CLASSES[node.name]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Turns a method that waits into a coroutine or an asynchronous generator."""
        self.generic_visit(node)
        if node.name not in self.waiting:
            return node
        node.name = METHODS.get(node.name, node.name)
        return ast.AsyncFunctionDef(**{name: getattr(node, name) for name in node._fields}, lineno=0)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Awaits a call that waits."""
        self.generic_visit(node)
        return ast.Await(node) if self._calls(node, self.coroutines) else node

    def visit_For(self, node: ast.For) -> ast.AST:
        """Iterates asynchronously over an asynchronous generator."""
        self.generic_visit(node)
        if not self._calls(node.iter, self.generators):
            return node
        return ast.AsyncFor(**{name: getattr(node, name) for name in node._fields}, lineno=0)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Does the same in a comprehension."""
        self.generic_visit(node)
        node.is_async = int(self._calls(node.iter, self.generators))
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Renames the client in docstrings."""
        if isinstance(node.value, str):
            node.value = node.value.replace("`Client.", "`AsyncClient.")
        return node

    @staticmethod
    def _calls(node: ast.AST, names: set[str]) -> bool:
        """Whether a node calls one of these methods of the client."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in names:
            return False
        return ast.unparse(node.func.value) in ("self", "self.client")


def render(source: str) -> str:
    """The text of the generated file."""
    tree = ast.parse(source)
    tree.body[0] = ast.Expr(ast.Constant(DOCSTRING))
    text = ast.unparse(ast.fix_missing_locations(Awaited(tree).visit(tree)))
    text = text.replace("self._connection.close()", "await asyncio.to_thread(self._connection.close)")
    text = text.replace("from collections.abc", "import asyncio\nfrom collections.abc", 1)
    for command in (["check", "--quiet", "--fix", "--select", "I"], ["format", "--quiet"]):
        ruff = [Path(sys.executable).with_name("ruff"), *command, "--stdin-filename", TARGET, "-"]
        text = subprocess.run(ruff, cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    TARGET.write_text(render(SOURCE.read_text()))
