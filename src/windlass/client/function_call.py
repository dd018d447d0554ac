"""A call of a function in a job: its description for the ranks, and the lines in which rank 0 returns the result.

Standard library only: the ranks import this module too. The description travels in the environment variable
`WINDLASS_CALL`, the result in lines of the output of rank 0, so that both work on every backend. Each line has a digest
under the random key in `WINDLASS_RESULT_KEY`, so that other output is no result, whatever it looks like.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from windlass import wire
from windlass.client.plain_values import PlainValueError, dumps, loads

CALL = wire.CALL
"""Environment variable of a rank: a `FunctionCall` as JSON."""
RESULT_KEY = wire.RESULT_KEY
"""Environment variable of a rank: random text, under which the lines of the result have their digests."""
MAX_CALL_BYTES = 96 << 10
"""Limit of a description; Linux limits one environment variable to 128 KiB."""
MAX_RESULT_BYTES = 1 << 20
_MARK = "windlass-result"
_CHUNK = 4000
"""Characters of one line: a container runtime splits lines of 16 KiB."""
_DIGEST = "([0-9a-f]{32})"
_LINE = re.compile(rf"{_MARK} ([0-9]{{1,4}})/([0-9]{{1,4}}) {_DIGEST} {_DIGEST} ")
_LONGEST_LINE = _CHUNK + 100
"""Limit of the characters of a line of a result."""


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
    """The description as JSON without `$`. Raises PlainValueError for arguments that are not plain, or too large.

    Kubernetes replaces `$$` and `$(NAME)` in variables.
    """
    dumps(call.args, "args")
    dumps(call.kwargs, "kwargs")
    text = dumps(asdict(call)).replace("$", r"\u0024")
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


def result_lines(value: object, key: str) -> list[str]:
    """The lines that carry a result under the key of its call. Raises PlainValueError: not plain, or too large."""
    text = dumps(value)
    if len(text) > MAX_RESULT_BYTES:
        raise PlainValueError(f"it is {len(text)} bytes of JSON, more than {MAX_RESULT_BYTES}")
    chunks = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    whole = _digest(key, text)
    parts = [_Part(number, len(chunks), whole, chunk) for number, chunk in enumerate(chunks, 1)]
    return [f"{_MARK} {part.number}/{part.total} {whole} {_digest(key, *part)} {part.chunk}" for part in parts]


def read_result(lines: Iterable[str], key: str) -> object:
    """The last whole result in output, under the key of its call. Raises PlainValueError if there is none."""
    found: str | None = None
    begun: dict[str, dict[int, str]] = {}
    most, total = 0, 0
    for part in (part for _, part in _parts(lines, key)):
        chunks = begun.setdefault(part.whole, {})
        chunks[part.number] = part.chunk
        most, total = max((most, total), (len(chunks), part.total))
        if len(chunks) == part.total:
            found = "".join(chunks[number] for number in sorted(begun.pop(part.whole)))
    if found is not None:
        return loads(found)
    some = f": only {most} of its {total} lines still exist" if most else ""
    raise PlainValueError(f"the output of rank 0 holds no whole result{some}")


def without_result(line: str, key: str) -> str | None:
    """The output in a line before a part of the result of this call; None if the line holds nothing else."""
    return next((line[:start] or None for start, _ in _parts([line], key)), line)


class _Part(NamedTuple):
    """A line of a result. `number` counts from 1, `whole` is the digest of the whole result."""

    number: int
    total: int
    whole: str
    chunk: str


def _parts(lines: Iterable[str], key: str) -> Iterator[tuple[int, _Part]]:
    """Yields the parts of results with the right digest, and where in its line each begins; none without a key."""
    for line in lines if key else ():
        for found in _LINE.finditer(line, max(0, len(line) - _LONGEST_LINE)):
            part = _Part(int(found[1]), int(found[2]), found[3], line[found.end() :])
            if hmac.compare_digest(_digest(key, *part), found[4]):
                yield found.start(), part
                break


def call_in(environment: Mapping[str, str]) -> FunctionCall | None:
    """The call that a rank carries out; None outside of the ranks of a function. Raises PlainValueError."""
    text = environment.get(CALL)
    return decode_call(text) if text else None


def _digest(key: str, *content: object) -> str:
    return hmac.new(key.encode(), " ".join(map(str, content)).encode(), "sha256").hexdigest()[:32]
