"""Loads pickles of plain data: dictionaries, lists, tuples, strings, bytes, numbers, booleans and None.

A pickle is a program that can call any function, so each instruction is checked before the first one runs. Admitted
instructions create plain data alone, and the bounds keep memory and stack small.
"""

from __future__ import annotations

import io
import pickle
import re
from typing import Any

from windlass.diagnose.flight.records import DumpError

_FIXED = re.compile(
    rb"""(?sx:
    [N\x88\x89\]}(ueas\x94]             # None, booleans, empty containers, mark, append, set items, memoize
    | [Khq\x80].                        # 1-byte integer, get and put of the memo, protocol
    | M..                               # 2-byte integer
    | [Jj]....                          # 4-byte integer, get of the memo
    | r..[\x00-\x0f]\x00                # put of the memo: the index bounds its size
    | [G\x95].{8}                       # float, frame
    | \x8a (?: \x00 | \x01. | \x02.. | \x03... | \x04.{4} | \x05.{5} | \x06.{6} | \x07.{7} | \x08.{8} )  # integer
    )*+"""
)
"""Longest sequence of instructions without a string, bytes or a tuple."""
_LENGTH_BYTES = {b"X": 4, b"B": 4, b"\x8c": 1, b"C": 1}
"""Strings and bytes: instruction → bytes of the length that follows it."""
_LONGEST_FIXED = 9
"""Bytes of the longest instruction of fixed length."""
_ADMITTED = b"N\x88\x89]}(ueas\x94Khq\x80MJjrG\x95\x8a"
_TUPLES = frozenset({b"t", b")", b"\x85", b"\x86", b"\x87"})
MAX_TUPLES = 20_000
"""Maximum tuples of a pickle: CPython hashes a nested tuple recursively, and one of 160,000 levels ends the process."""
_MALFORMED = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError, OverflowError,
)  # fmt: skip


def load_plain(data: bytes) -> Any:
    """Returns the object of a pickle of protocol 2 to 5. Raises DumpError for other content; no code of it runs."""
    _check_instructions(data)
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except _MALFORMED as error:
        raise DumpError(f"is no valid pickle ({type(error).__name__}): copy the file again") from error


def _check_instructions(data: bytes) -> None:
    position = tuples = 0
    while True:
        run = _FIXED.match(data, position)
        position = run.end() if run else position
        instruction = data[position : position + 1]
        if instruction == b".":
            return
        if instruction in _TUPLES:
            tuples, position = tuples + 1, position + 1
            if tuples > MAX_TUPLES:
                raise DumpError(f"has over {MAX_TUPLES} entries or tuples: set a smaller TORCH_FR_BUFFER_SIZE")
        else:
            position = _end_of_string(data, position, instruction)


def _end_of_string(data: bytes, position: int, instruction: bytes) -> int:
    """Returns the position after a string or bytes."""
    width = _LENGTH_BYTES.get(instruction)
    start = position + 1 + (width or 0)
    end = start + int.from_bytes(data[position + 1 : start], "little")
    if width is None and len(data) - position > 9:
        raise DumpError(
            f"has the pickle instruction {instruction!r} at byte {position}, which is no plain data and may run code: "
            "take the dump from torch itself"
        )
    if width is None or end >= len(data):
        raise DumpError(f"is cut off after {len(data)} bytes: copy the whole file")
    return end


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise DumpError(f"names {module}.{name}, and plain data names no classes: take the dump from torch itself")
