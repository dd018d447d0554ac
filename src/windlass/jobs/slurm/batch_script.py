"""Slurm batch scripts: options of the `#SBATCH` lines and the commands after them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from windlass.jobs.errors import Place
from windlass.jobs.slurm.sbatch_options import FLAGS, SHORT
from windlass.jobs.syntax.text import Text


@dataclass(frozen=True, slots=True)
class SbatchOption:
    """One option. `name` is the long form."""

    name: str
    value: str
    place: Place
    ignored: bool = False
    """It stands after the first command, where sbatch does not read it."""


@dataclass(frozen=True, slots=True)
class BatchScript:
    """A batch script."""

    text: Text
    options: tuple[SbatchOption, ...]
    commands: tuple[tuple[Place, str], ...]
    """Lines after the options that are no comments, continued lines joined."""

    def option(self, name: str) -> SbatchOption | None:
        """The last option of a name that sbatch reads."""
        return next((each for each in reversed(self.options) if each.name == name and not each.ignored), None)

    def number(self, name: str) -> int | None:
        """The value of an option that is a whole number."""
        option = self.option(name)
        return int(option.value) if option and option.value.isdecimal() else None

    def calls(self, program: str) -> list[tuple[Place, str]]:
        """The commands that contain a program."""
        word = re.compile(rf"(?:^|[\s;&|(/]){re.escape(program)}(?:\s|$)")
        return [(place, line) for place, line in self.commands if word.search(line)]


def is_batch_script(text: Text) -> bool:
    """Tells whether a text is a script with options of sbatch."""
    return re.search(r"^#+\s*SBATCH\b", text.text, re.MULTILINE | re.IGNORECASE) is not None and (
        text.text.startswith("#") and re.search(r"^(apiVersion|kind):", text.text, re.MULTILINE) is None
    )


def read_script(text: Text) -> BatchScript:
    """Reads a script; lines that are no options of sbatch are left as they are."""
    options, commands = list[SbatchOption](), list[tuple[Place, str]]()
    joined, start = "", 0
    for number, line in enumerate(text.lines, 1):
        if line.startswith("#SBATCH"):
            options += _options(line, number, ignored=bool(commands))
        elif joined or (line.strip() and not line.lstrip().startswith("#")):
            start = start if joined else number
            joined += line.rstrip("\\")
            if not line.endswith("\\"):
                commands.append((Place(start, 1, max(1, len(joined))), joined))
                joined = ""
    return BatchScript(text, tuple(options), tuple(commands))


def _options(line: str, number: int, *, ignored: bool) -> list[SbatchOption]:
    try:
        words = shlex.split(line[len("#SBATCH") :], comments=True)
    except ValueError:
        words = line[len("#SBATCH") :].split()
    found, position = list[SbatchOption](), 0
    while position < len(words):
        word = words[position]
        name, value, position = option_at(words, position)
        column = max(0, line.find(word)) + 1
        found.append(SbatchOption(name, value, Place(number, column, len(word)), ignored))
    return found


def option_at(words: Sequence[str], position: int) -> tuple[str, str, int]:
    """The long name and the value of the option at a position, and the position of the next one."""
    word = words[position]
    name, equals, value = word.partition("=")
    if not word.startswith("--") and word[:2] in SHORT:
        name, value, equals = SHORT[word[:2]], word[2:].removeprefix("="), word[2:]
    position += 1
    if not equals and name not in FLAGS and position < len(words) and not words[position].startswith("--"):
        return name, words[position], position + 1
    return name, value, position
