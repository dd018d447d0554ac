"""Joins lines that a terminal has cut at its width, as in text that was copied from a screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise

from windlass.diagnose.failures.line_prefix import read_prefixes
from windlass.diagnose.failures.log_blocks import LogBlock

_LEAST_WIDTH, _MOST_WIDTH = 60, 240
"""Columns of terminals. Shorter lines of one length are mostly rules of tables."""
_LEAST_FULL, _LEAST_FULL_OF_USUAL = 4, 2
"""Full lines that show a width; fewer show a usual one."""
_USUAL_WIDTHS = frozenset({80, 120, 132, 160})
_SEARCHED_BYTES = 1 << 18
_MOST_JOINED = 40
"""Lines of the screen that one line of a log may take."""
_RULERS = frozenset("-=*#_~+ ")
"""Characters of lines that a program draws over the full width."""
_BORDERS = tuple("|+│║╮╯╗╝")
"""Last characters of rows of tables, which are of one length as well."""
_SAME_START = 8
"""Characters that two lines of one program have in common, and the rest of a line and its start have not."""


def unwrap(blocks: Iterator[LogBlock]) -> Iterator[LogBlock]:
    """The blocks of a log, with cut lines joined where the first block shows a width."""
    first = next(blocks, None)
    if first is None:
        return
    width = wrap_width(first.text)
    for block in chain([first], blocks):
        yield replace(block, text=join_wrapped(block.text, width)) if width else block


def wrap_width(text: bytes) -> int:
    """The width at which the lines of a text are cut, in characters; 0 where none shows.

    A width shows if no line is longer, several lines have exactly this length, and most of these are text that goes
    on in the next line.
    """
    lines = _decoded(text[:_SEARCHED_BYTES])
    width = max(map(len, lines), default=0)
    if not _LEAST_WIDTH <= width <= _MOST_WIDTH:
        return 0
    full = [(line, following) for line, following in pairwise(lines) if len(line) == width]
    cut = [pair for pair in full if _is_cut(*pair, width)]
    least = _LEAST_FULL_OF_USUAL if width in _USUAL_WIDTHS else _LEAST_FULL
    return width if len(cut) >= least and len(cut) * 2 >= len(full) else 0


def join_wrapped(text: bytes, width: int) -> bytes:
    """The text with cut lines joined. Empty lines take the places of those that are joined, so numbers stay."""
    lines = _decoded(text)
    return "\n".join(_joined(lines, width)).encode("utf-8", "surrogateescape")


def _joined(lines: Sequence[str], width: int) -> Iterator[str]:
    start = 0
    while start < len(lines):
        end = start + 1
        while end < len(lines) and end - start < _MOST_JOINED and _is_cut(lines[end - 1], lines[end], width):
            end += 1
        yield "".join(lines[start:end])
        yield from [""] * (end - start - 1)
        start = end


def _is_cut(line: str, following: str, width: int) -> bool:
    """Whether a line fills the width, and the next one has no start of its own."""
    if len(line) != width:
        return False
    is_row = set(line) <= _RULERS or line.endswith(_BORDERS) or line[:_SAME_START] == following[:_SAME_START]
    return not is_row and _goes_on(following)


def _goes_on(line: str) -> bool:
    """Whether a line may be the rest of the one above: it is not empty, and has no prefix of its own."""
    origin = read_prefixes(line)
    return bool(line.strip()) and (origin.rank, origin.time) == (None, None)


def _decoded(text: bytes) -> list[str]:
    return [line.removesuffix("\r") for line in text.decode("utf-8", "surrogateescape").split("\n")]
