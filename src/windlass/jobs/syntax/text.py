"""Reads the text of a file, with a limit on its size, and quotes it in errors."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from windlass.jobs.errors import InputError, Place, Problem, input_error

MAX_BYTES = 2**20
STDIN = "-"

_LINES = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@dataclass(frozen=True)
class Text:
    """A file's text, which makes the problems at its places."""

    source: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines as YAML counts them."""
        return _LINES.split(self.text)

    def place(self, offset: int) -> Place:
        """The line and column of a character."""
        before = _LINES.split(self.text[:offset])
        return Place(len(before), len(before[-1]) + 1)

    def offset(self, place: Place) -> int:
        """The index of the character at a place."""
        starts = [0, *(found.end() for found in _LINES.finditer(self.text))]
        return starts[place.line - 1] + place.column - 1

    def problem(self, message: str, place: Place) -> Problem:
        """A problem at a place, with its line."""
        line = self.lines[place.line - 1] if place.line <= len(self.lines) else ""
        return Problem(self.source, message, place, line)


def read_text(path: str) -> Text:
    """A file's text, or standard input's for "-". Raises InputError."""
    return decode(read_bytes(path, MAX_BYTES), _source(path))


def read_bytes(path: str, most: int) -> bytes:
    """A file's bytes, or standard input's for "-"; an error if they are more than `most`. Raises InputError."""
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(most + 1) if sys.stdin else b""
        else:
            with Path(path).open("rb") as file:
                data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise input_error(_source(path), _describe_read_error(error)) from None
    if len(data) > most:
        raise input_error(_source(path), f"the file is larger than {most >> 20} MiB; is it the right one?")
    return data


def _source(path: str) -> str:
    return "<stdin>" if path == STDIN else path


def _describe_read_error(error: Exception) -> str:
    match error:
        case FileNotFoundError():
            return "no such file"
        case IsADirectoryError():
            return "this is a folder; name a file in it"
        case PermissionError():
            return "no permission to read it"
    return str(getattr(error, "strerror", None) or "this cannot be the name of a file")


def decode(data: bytes, source: str) -> Text:
    """Bytes as text. Raises InputError."""
    try:
        return Text(source, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        text = Text(source, data.decode("utf-8-sig", errors="backslashreplace"))
        place = text.place(len(error.object[: error.start].decode()))  # error.object is without a byte order mark
        message = f"byte 0x{error.object[error.start]:02x} is not UTF-8 text; save the file as UTF-8"
        raise InputError([text.problem(message, replace(place, width=4))]) from None
