"""Plain values: what JSON can carry without loss, as arguments and results of functions in jobs. Standard library only.

A plain value is None, a bool, an int, a float, a str, a list of plain values, or a dict of them with str as keys.
Nothing is pickled: reading a plain value runs no code, whatever the text says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

_MAX_DEPTH = 100
_NUMBERS_AND_TEXT = (bool, int, float, str, type(None))


class PlainValueError(ValueError):
    """The value, or the text of one, is not plain."""


def dumps(value: object, name: str = "it") -> str:
    """The JSON of a plain value, in one line of ASCII. NaN and infinities are kept. Raises PlainValueError.

    `name`: what the error calls the value.
    """
    if fault := next(_faults(value, name, 0), ""):
        raise PlainValueError(fault)
    return json.dumps(value, separators=(",", ":"))


def loads(text: str) -> object:
    """The plain value of a JSON text. Raises PlainValueError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlainValueError(f"no JSON: {error}") from None


def _faults(value: object, path: str, depth: int) -> Iterator[str]:
    """Yields a sentence for each part that is not plain, with its path."""
    if depth > _MAX_DEPTH:
        yield f"{path} is nested deeper than {_MAX_DEPTH} levels"
    elif type(value) is list:
        for index, each in enumerate(value):
            yield from _faults(each, f"{path}[{index}]", depth + 1)
    elif type(value) is dict:
        for key, each in value.items():
            if type(key) is str:
                yield from _faults(each, f"{path}[{key!r}]", depth + 1)
            else:
                yield f"{path} has a key of type {type(key).__name__}; keys are str"
    elif type(value) not in _NUMBERS_AND_TEXT:
        yield f"{path} is a {type(value).__name__}"
