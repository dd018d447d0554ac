"""Finds the code of a function: a module, a script, or only the text of the function, as in a notebook."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.client.errors import InvalidRequestError

_INSTALLED = ("site-packages", "dist-packages")
_MAIN = "__main__"


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """The code of a function. One of `module`, `file` and `text` is set, as in `FunctionCall`.

    `folder`: the folder on the import path that holds the code, "" if `text` is all of it. `is_shipped`: whether a
    cluster needs a copy of the folder; installed packages are in the image.
    """

    module: str = ""
    file: str = ""
    text: str = ""
    folder: str = ""
    is_shipped: bool = False

    @property
    def script(self) -> str:
        """Path of the Python file below the folder, "" if there is none."""
        if not self.module:
            return self.file
        path = Path(self.folder, *self.module.split("."))
        return str(next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), ""))


def source_of(function: Callable[..., Any]) -> FunctionSource:
    """Returns where the code of a function is. Raises InvalidRequestError for one that a rank could not import."""
    name = getattr(function, "__qualname__", "")
    function = inspect.unwrap(function)
    if not inspect.isfunction(function) or "<" in name:
        raise InvalidRequestError(
            f"{name or function!r} is not a function of a module", "define it with def, at the top"
        )
    module, file = _module_name(function), inspect.getsourcefile(function)
    if file is None or not Path(file).is_file():
        return FunctionSource(text=_text_of(function))
    path = Path(file).absolute()
    root = None if module == _MAIN else _root_of(module, path)
    if root is None:
        return FunctionSource(file=path.name, folder=str(path.parent), is_shipped=True)
    return FunctionSource(module=module, folder=str(root), is_shipped=not set(root.parts) & set(_INSTALLED))


def _root_of(module: str, path: Path) -> Path | None:
    """Returns the folder from which a file is imported under the module's name; None if its path has another name."""
    found = path.parent if path.name == "__init__.py" else path.with_suffix("")
    names = module.split(".")
    return found.parents[len(names) - 1] if list(found.parts[1:][-len(names) :]) == names else None


def _module_name(function: Callable[..., Any]) -> str:
    """Returns the name under which a rank imports the module; that of `python -m NAME` for the main module."""
    name = function.__module__
    spec = getattr(sys.modules.get(_MAIN), "__spec__", None)
    return str(spec.name) if name == _MAIN and spec is not None else name


def _text_of(function: Callable[..., Any]) -> str:
    """Returns the text of a function without decorators. Raises InvalidRequestError if it is unknown."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        tree = ast.Module([], [])
    found = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if found is None:
        fix = "define it in a file, or in a cell of a notebook"
        raise InvalidRequestError(f"the text of {function.__qualname__} is not known", fix)
    found.decorator_list = []
    return ast.unparse(found)
