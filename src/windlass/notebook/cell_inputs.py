"""Inputs of a cell from its notebook: variables with plain values, and imported names."""

from __future__ import annotations

import builtins
import symtable
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.client.errors import InvalidRequestError
from windlass.client.plain_values import PlainValueError, dumps


@dataclass(frozen=True, slots=True)
class CellInputs:
    """`variables`: by name, plain. `imports`: names with their modules, as `rank_cell.run_cell` takes them."""

    variables: dict[str, Any] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)


def read_inputs(source: str, namespace: Mapping[str, Any]) -> CellInputs:
    """Returns what a cell reads of the variables of its notebook.

    Raises InvalidRequestError for a cell that is no Python, and for a value that is not plain and that the cell does
    not define itself.
    """
    try:
        table = symtable.symtable(source, "<cell>", "exec")
    except SyntaxError as error:
        fix = "a cell for ranks is Python alone: it takes no other magics and no ! commands"
        raise InvalidRequestError(f"line {error.lineno} of the cell: {error.msg}", fix) from None
    inputs = CellInputs()
    assigned = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    for name in sorted(set(_global_names(table))):
        if name in namespace and not hasattr(builtins, name):
            _add(inputs, name, namespace[name], is_optional=name in assigned)
    return inputs


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    """Yields the names that a cell reads from its module, in functions and classes too."""
    is_top = table.get_type() == "module"
    for each in table.get_symbols():
        if each.is_referenced() and (is_top or each.is_global()):
            yield each.get_name()
    for inner in table.get_children():
        yield from _global_names(inner)


def _add(inputs: CellInputs, name: str, value: object, *, is_optional: bool) -> None:
    """Adds one name. `is_optional`: the cell assigns it, so it is left out if its value cannot be sent."""
    if path := _import_path(value):
        inputs.imports[name] = path
        return
    try:
        dumps(value, name)
    except PlainValueError as error:
        if is_optional:
            return
        fix = "define it in the cell, or save it to a file and read it there"
        raise InvalidRequestError(f"the cell uses {name}, and {error}, which no rank can get", fix) from None
    inputs.variables[name] = value


def _import_path(value: object) -> str:
    """Returns the path by which a rank imports a module, or a function or class of one; "" for anything else."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    is_named = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and name.isidentifier()
    return f"{module}:{name}" if is_named and module and module != "__main__" else ""
