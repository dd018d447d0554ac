"""Converts a command into one of `windlass agent`: the agent's arguments, and the Python interpreter of its ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

_PYTHON = re.compile(r"python(3(\.\d+)?)?")


class Entry(NamedTuple):
    """A Python command: `python train.py …` or `python -m pkg.train …`."""

    python: str
    """The interpreter as it is written: a path, or a name to be found in PATH."""
    module: bool
    words: tuple[str, ...]
    """The script or module, and its arguments."""


def entry_of(command: Sequence[str]) -> Entry | None:
    """The entry of a command; None for other programs and for interpreter options that a forked process cannot have.

    Such options are -O, -X and -c; `-u` is in effect in any case.
    """
    if not command or not _PYTHON.fullmatch(PurePath(command[0]).name):
        return None
    words = list(command[1:])
    while words[:1] == ["-u"]:
        del words[0]
    module = words[:1] == ["-m"]
    if module:
        del words[0]
    if not words or words[0].startswith("-"):
        return None
    return Entry(command[0], module, tuple(words))


def agent_words(command: Sequence[str]) -> tuple[str, ...]:
    """Arguments of `windlass agent` for a command, besides its options. Other programs than Python run as they are.

    `--` precedes the command: else the agent would take the first `--` among the command's arguments for its own.
    """
    entry = entry_of(command)
    if entry is None:
        return ("--no-python", "--", *command)
    return ("--module", "--", *entry.words) if entry.module else ("--", *entry.words)
