"""Runs a cell in a rank: its variables and imports, its statements, and the value of its last line.

Standard library and `client.plain_values` only, because the ranks import it.
"""

from __future__ import annotations

import ast
import importlib
import linecache
import os
from collections.abc import Mapping
from typing import Any

from windlass.client.plain_values import PlainValueError, dumps

_FILE = "<cell>"


def run_cell(source: str, variables: Mapping[str, Any], imports: Mapping[str, str]) -> object:
    """Runs a cell and returns the value of its last line, if that is an expression with a plain value.

    `imports`: names with their modules ("numpy"), or with a module and a name in it ("math:sqrt"). Rank 0 prints a
    value that is not plain, as a notebook would show it.
    """
    # 1. The namespace of the cell: what its notebook had.
    namespace = {"__name__": "__main__", **variables, **{name: _load(path) for name, path in imports.items()}}
    linecache.cache[_FILE] = (len(source), None, source.splitlines(keepends=True), _FILE)  # for tracebacks
    # 2. All statements but the last expression.
    tree = ast.parse(source, _FILE)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, _FILE, "exec"), namespace)  # noqa: S102 - the user's own cell
    if not isinstance(last, ast.Expr):
        return None
    # 3. Its value.
    value = eval(compile(ast.Expression(last.value), _FILE, "eval"), namespace)  # noqa: S307 - as above
    return _plain(value)


def _load(path: str) -> object:
    module, _, name = path.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


def _plain(value: object) -> object:
    """Returns a plain value; prints another one on rank 0 and returns None."""
    try:
        dumps(value)
    except PlainValueError:
        if os.environ.get("RANK", "0") == "0":
            print(repr(value), flush=True)
        return None
    return value
