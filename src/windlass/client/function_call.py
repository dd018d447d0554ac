"""A call of a function in a job: its description for the ranks, and the lines in which rank 0 returns the result.

Standard library only: the ranks import this module too. The description travels in the environment variable
`WINDLASS_CALL`, the result in lines of the output of rank 0 with a checksum, so that both work on every backend.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from windlass.client.plain_values import PlainValueError, dumps, loads

CALL = "WINDLASS_CALL"
"""Environment variable of a rank: a `FunctionCall` as JSON."""
MAX_CALL_BYTES = 96 << 10
"""Limit of a description; Linux limits one environment variable to 128 KiB."""
MAX_RESULT_BYTES = 1 << 20
_MARK = "windlass-result"
_CHUNK = 4000
"""Characters of one line: a container runtime splits lines of 16 KiB."""
_LINE = re.compile(rf"{_MARK} ([0-9]{{1,4}})/([0-9]{{1,4}}) ([0-9a-f]{{16}}) (.*)")


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function and its arguments. Either `module` is imported, or `file` is executed, or `source` is.

    `module`: a dotted name. `file`: a path relative to the working folder. `source`: the text of the function alone.
    """

    function: str
    module: str = ""
    file: str = ""
    source: str = ""
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)


def encode_call(call: FunctionCall) -> str:
    """The description as JSON. Raises PlainValueError for arguments that are not plain, or too large."""
    dumps(call.args, "args")
    dumps(call.kwargs, "kwargs")
    text = dumps(asdict(call))
    if len(text) > MAX_CALL_BYTES:
        raise PlainValueError(f"the arguments are {len(text)} bytes of JSON, more than {MAX_CALL_BYTES}")
    return text


def decode_call(text: str) -> FunctionCall:
    """The call of a description. Raises PlainValueError if it is none."""
    match loads(text):
        case {
            "function": str(function),
            "module": str(module),
            "file": str(file),
            "source": str(source),
            "args": list(args),
            "kwargs": dict(kwargs),
        }:
            return FunctionCall(function, module, file, source, args, kwargs)
    raise PlainValueError("no call of a function")


def result_lines(value: object) -> list[str]:
    """The lines that carry a result. Raises PlainValueError if it is not plain, or too large."""
    text = dumps(value)
    if len(text) > MAX_RESULT_BYTES:
        raise PlainValueError(f"it is {len(text)} bytes of JSON, more than {MAX_RESULT_BYTES}")
    chunks = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    digest = _digest(text)
    return [f"{_MARK} {number}/{len(chunks)} {digest} {chunk}" for number, chunk in enumerate(chunks, 1)]


def read_result(lines: Iterable[str]) -> object:
    """The last whole result in the output of rank 0. Raises PlainValueError if there is none."""
    whole: str | None = None
    chunks: list[str] = []
    for number, count, digest, chunk in filter(None, map(_result_part, lines)):
        chunks = [chunk] if number == 1 else [*chunks, chunk]
        if number == count == len(chunks) and _digest("".join(chunks)) == digest:
            whole = "".join(chunks)
    if whole is None:
        raise PlainValueError("the output of rank 0 holds no whole result")
    return loads(whole)


def holds_result(line: str) -> bool:
    """Whether a line of output carries a part of a result."""
    return _LINE.search(line) is not None


def without_result(line: str) -> str | None:
    """The output in a line before a part of a result; None if the line holds nothing else."""
    found = _LINE.search(line)
    return line if found is None else line[: found.start()] or None


def _result_part(line: str) -> tuple[int, int, str, str] | None:
    """Number, count, digest and text of one line of a result; None for any other line."""
    found = _LINE.search(line)
    return (int(found[1]), int(found[2]), found[3], found[4]) if found else None


def call_in(environment: Mapping[str, str]) -> FunctionCall | None:
    """The call that a rank carries out; None outside of the ranks of a function. Raises PlainValueError."""
    text = environment.get(CALL)
    return decode_call(text) if text else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
