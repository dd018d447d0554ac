"""`windlass agent` in front of a command: the words after it, and by which Python its ranks run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

_PYTHON = re.compile(r"python(3(\.\d+)?)?")


class Entry(NamedTuple):
    """What a command of Python begins with: `python train.py …` or `python -m pkg.train …`."""

    python: str
    """The interpreter as it was written: a path, or a name to be looked up."""
    module: bool
    words: tuple[str, ...]
    """The script or module, and its arguments."""


def entry_of(command: Sequence[str]) -> Entry | None:
    """None: no Python, no script, or an interpreter with options that a forked process could not have (-O, -X, -c).

    `-u` it has anyway.
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
    """What comes after `windlass agent`, besides its options. What is no Python entry point is executed as it is.

    `--` comes before it: else the first `--` among its own arguments would be taken for the agent's.
    """
    entry = entry_of(command)
    if entry is None:
        return ("--no-python", "--", *command)
    return ("--module", "--", *entry.words) if entry.module else ("--", *entry.words)
