"""Writes docs/reference/python.md: every public name of the package `windlass` with its signature and docstring.

    tools/write_python_api.py

Run it after each change of the Python API. A test compares the page with what this program writes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import windlass

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/python.md"
HEAD = """# The Python API

For programs in Python: every public name of the package `windlass`. [From Python](../guides/from-python.md) shows their
use.

<!-- `tools/write_python_api.py` writes this page from the docstrings. -->

## What stays stable

Versions follow [semantic versioning](https://semver.org). Public are the names on this page, their parameters, the
fields of records, the classes of errors and the values of `JobInfo.phase`, which are those of [states](states.md).

- A minor version may add names, optional parameters, fields, and subclasses of errors.
- From version 1.0 on, only a major version removes or changes one. Before 1.0 a minor version may; the changelog says
  so.
- A name that is to be removed gives a `DeprecationWarning` for at least one minor version.
- Modules below `windlass` and names with an underscore are not public.

The keys of `details` are those of [the API](api.md). The keyword arguments `**fields` (`JobFields`) have the names and
values of [job files](job-file.md). A `JobSource` is a command (a line, or a list of words), the path of a job file, a
mapping of its fields, or a `BoundCall`.
"""
FIRST = ("Client", "Job", "job", "JobFunction", "BoundCall")
_LISTS = re.compile(r"\b(Job|Node|Queue)List\b")
_PATHS = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")
"""Modules before the name of a class in an annotation."""


def render() -> str:
    """The text of the page."""
    names = sorted((name for name in windlass.__all__ if not name.startswith("_")), key=order)
    return "\n\n".join([HEAD.rstrip(), *(section(name, getattr(windlass, name)) for name in names)]) + "\n"


def order(name: str) -> tuple[bool, bool, int, str]:
    """The key of a name in the page: the client and the decorator, records, errors, and last the asynchronous twin."""
    is_error = name.endswith(("Error", "Warning"))
    return name.startswith("Async"), is_error, FIRST.index(name) if name in FIRST else len(FIRST), name


def section(name: str, value: Any) -> str:
    """The section of one public name."""
    parts = [f"## {name}", *signature_block(name, value), docstring(value)]
    if inspect.isclass(value):
        parts += [part for member in members(value) for part in member]
    return "\n\n".join(parts)


def members(kind: type) -> Iterator[list[str]]:
    """The sections of the public methods and properties of a class, in the order of its text."""
    for name, value in vars(kind).items():
        if isinstance(value, property):
            yield [f"### {kind.__name__}.{name}", "Property.", docstring(value)]
        elif inspect.isfunction(value) and (not name.startswith("_") or name == "__call__"):
            yield [f"### {kind.__name__}.{name}", *signature_block(name, value), docstring(value)]


def signature_block(name: str, value: Any) -> list[str]:
    """The signature as a block of code; of an error the class above it, of a record its fields."""
    if inspect.isclass(value) and issubclass(value, (Exception, Warning)):
        return [f"```python\nclass {name}({', '.join(base.__name__ for base in value.__bases__)})\n```"]
    if is_dataclass(value):
        listed = "\n".join(f"    {field.name}: {field.type}" for field in fields(value))
        return [f"```python\nclass {name}:\n{listed}\n```"]
    shown = inspect.signature(value)
    given = [
        each.replace(annotation=_plain(each.annotation)) for each in shown.parameters.values() if each.name != "self"
    ]
    text = str(shown.replace(parameters=given, return_annotation=_plain(shown.return_annotation)))
    text = text.replace("''", '""').replace("'", "")
    prefix = "async " if inspect.iscoroutinefunction(value) else ""
    kind = "class" if inspect.isclass(value) else "def"
    return [f"```python\n{prefix}{kind} {name}{text}\n```"]


def docstring(value: Any) -> str:
    """The docstring of a name."""
    return inspect.getdoc(value) or ""


def _plain(annotation: Any) -> Any:
    """An annotation without the modules of its names, and without aliases of lists."""
    if not isinstance(annotation, str):
        return annotation
    return _LISTS.sub(r"list[\1Info]", _PATHS.sub("", annotation))


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
