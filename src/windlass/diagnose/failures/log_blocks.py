"""Reads a log of any encoding as blocks of whole lines, with bounded memory."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

_READ_BYTES = 1 << 18
_LONGEST_LINE = 1 << 16
"""Bytes of a line that are read; the rest of a longer line is skipped."""
_GZIP_START = b"\x1f\x8b"
_LINE_BYTES = bytes({*range(0x20, 0x100), *b"\t\n\v\f\r\x1b\b"} - {0x7F})
_MOST_GROWTH, _FREE_BYTES = 300, 1 << 25
"""Largest ratio of the decompressed to the compressed size, beyond the first 32 MiB of output."""
_MOST_CONTROLS = 0.05
"""Share of control characters above which a file is not text."""


@dataclass(slots=True)
class LogGaps:
    """Parts of a log that could not be read."""

    long_lines: int = 0
    is_binary: bool = False
    is_truncated: bool = False
    """Whether a compressed log ends before its end, or has damaged data."""
    is_oversized: bool = False
    """Whether a compressed log grows so much that only its start was read."""
    error: str = ""
    """Message of the system where reading failed."""

    def sentences(self, name: str) -> list[str]:
        """One sentence for each gap."""
        texts = {
            f"{name}: reading failed ({self.error}); what precedes it was read": bool(self.error),
            f"{name}: the compressed file is truncated or damaged; what precedes it was read": self.is_truncated,
            f"{name}: the compressed file grows to more than {_MOST_GROWTH} times its size; its rest was not read": (
                self.is_oversized
            ),
            f"{name}: not a text file, not read": self.is_binary,
            f"{name}: {self.long_lines} lines are longer than {_LONGEST_LINE} bytes; their rest was not read": bool(
                self.long_lines
            ),
        }
        return [text for text, applies in texts.items() if applies]


@dataclass(frozen=True, slots=True)
class LogBlock:
    """Consecutive whole lines."""

    first_line: int
    text: bytes


@dataclass(slots=True)
class _LineCutter:
    """Cuts pieces into blocks that end with a line."""

    gaps: LogGaps
    line: int = 1
    rest: bytes = b""
    is_skipping: bool = False
    """Whether the end of a long line is awaited."""
    done: list[LogBlock] = field(default_factory=list)

    def add(self, piece: bytes) -> None:
        """Adds bytes of the log, and puts whole lines into `done`."""
        if self.is_skipping:
            end = piece.find(b"\n")
            if end < 0:
                return
            piece, self.is_skipping = piece[end:], False
        text = self.rest + piece
        end = text.rfind(b"\n") + 1
        self.rest = text[end:]
        self._emit(text[:end])
        if len(self.rest) > _LONGEST_LINE:
            self._shorten_rest()

    def finish(self) -> None:
        """Puts the last line, which may lack its end, into `done`."""
        self._emit(self.rest)

    def _shorten_rest(self) -> None:
        """Cuts a line that is too long: at its last carriage return, where progress bars have many."""
        end = self.rest.rfind(b"\r") + 1
        if end:
            self._emit(self.rest[:end])
            self.rest = self.rest[end:]
        if len(self.rest) > _LONGEST_LINE:
            self._emit(self.rest[:_LONGEST_LINE])
            self.rest, self.is_skipping = b"", True
            self.gaps.long_lines += 1

    def _emit(self, text: bytes) -> None:
        if text:
            self.done.append(LogBlock(self.line, text))
            self.line += text.count(b"\n")


def read_blocks(stream: BinaryIO, gaps: LogGaps) -> Iterator[LogBlock]:
    """Yields the lines of a log in blocks, and notes in `gaps` what it could not read."""
    cutter = _LineCutter(gaps)
    for piece in _text(_bytes(stream, gaps), gaps):
        cutter.add(piece)
        yield from cutter.done
        cutter.done.clear()
    cutter.finish()
    yield from cutter.done


def _bytes(stream: BinaryIO, gaps: LogGaps) -> Iterator[bytes]:
    """The bytes of a file, decompressed where they are gzip."""
    pieces = _pieces(stream, gaps)
    first = next(pieces, b"")
    if not first.startswith(_GZIP_START):
        yield first
        yield from pieces
        return
    yield from _decompressed(_joined(first, pieces), gaps)


def _pieces(stream: BinaryIO, gaps: LogGaps) -> Iterator[bytes]:
    try:
        while piece := stream.read(_READ_BYTES):
            yield piece
    except OSError as error:
        gaps.error = error.strerror or type(error).__name__


def _joined(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _decompressed(pieces: Iterable[bytes], gaps: LogGaps) -> Iterator[bytes]:
    """Every member of a gzip file, up to the place where it is damaged."""
    member, has_started = zlib.decompressobj(wbits=31), False
    read = written = 0
    try:
        for piece in pieces:
            data = piece
            read += len(piece)
            while data:
                has_started = True
                text = member.decompress(data, _READ_BYTES)
                yield text
                written += len(text)
                if written > _FREE_BYTES + _MOST_GROWTH * read:
                    gaps.is_oversized = True
                    return
                data = member.unconsumed_tail
                if member.eof:
                    data, member, has_started = member.unused_data.lstrip(b"\0"), zlib.decompressobj(wbits=31), False
        yield member.flush()
        gaps.is_truncated = has_started
    except zlib.error:
        gaps.is_truncated = True


def _text(pieces: Iterator[bytes], gaps: LogGaps) -> Iterator[bytes]:
    """The pieces as UTF-8 or another superset of ASCII, without NUL bytes; nothing of a binary file."""
    first = next(pieces, b"")
    if wide := _wide_encoding(first):
        decoder = codecs.getincrementaldecoder(wide)("replace")
        for piece in _joined(first, pieces):
            yield decoder.decode(piece).encode("utf-8", "replace")
        return
    if _is_binary(first):
        gaps.is_binary = True
        return
    for piece in _joined(first, pieces):
        yield piece.replace(b"\0", b"") if b"\0" in piece else piece


def _wide_encoding(first: bytes) -> str:
    return "utf-16" if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else ""


def _is_binary(first: bytes) -> bool:
    text = first.replace(b"\0", b"")
    controls = len(text.translate(None, _LINE_BYTES))
    return controls > _MOST_CONTROLS * len(text)
