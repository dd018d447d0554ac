"""A body of a batch script that is one command: literal variables, then torchrun, one process, or a rendered gang."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.core.model.job import Launcher
from windlass.jobs.errors import Place
from windlass.jobs.slurm.batch_script import BatchScript
from windlass.jobs.slurm.rank_variables import PROCS_EXPORT, RANK_SHELL, TORCHRUN_LINES
from windlass.jobs.slurm.srun_step import SrunStep
from windlass.jobs.syntax.command_line import launcher_of

_EXPORT = re.compile(r"export ([A-Za-z_]\w*)=(.*)")
_SILENT = re.compile(r"set -[euxo]+( pipefail)?")
_NOT_LITERAL = re.compile(r"[|&;<>()$`*?\[\]#~{}!\n]")
_QUOTED = re.compile(r"'[^']*'|\\.|\"(?:[^\"\\$`!]|\\.)*\"", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DirectCommand:
    """The command of each rank, or of torchrun on each node."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str = ""
    starts_ranks: bool = False
    """srun starts one process for each task."""


def read_direct_command(script: BatchScript, steps: Sequence[SrunStep]) -> DirectCommand | None:
    """The command, if the body has no other effect than to start it; else None."""
    env: dict[str, str] = {}
    workdir, found = "", None
    lines = [
        (place, line.strip())
        for place, line in script.commands
        if line.strip() not in TORCHRUN_LINES and not line.startswith(PROCS_EXPORT)
    ]
    for place, line in lines:
        if found is not None:
            return None
        if export := _EXPORT.fullmatch(line):
            value = literal_words(export[2]) if export[2] else ()
            if value is None or len(value) > 1:
                return None
            env[export[1]] = value[0] if value else ""
        elif line.startswith("cd ") and not workdir:
            words = literal_words(line)
            if words is None or len(words) != 2:
                return None
            workdir = words[1]
        elif not _SILENT.fullmatch(line):
            found = _command(place, line, steps)
            if found is None:
                return None
    return None if found is None else DirectCommand(found.words, env, workdir, found.starts_ranks)


def _command(place: Place, line: str, steps: Sequence[SrunStep]) -> DirectCommand | None:
    step = next((each for each in steps if each.place == place), None)
    if step is None:
        words = literal_words(line)
        is_assignment = words is not None and words and re.match(r"\w+=", words[0])
        return DirectCommand(words, {}) if words and not is_assignment else None
    if not line.startswith("srun ") or len(steps) != 1 or any(name not in _NEUTRAL for name, _ in step.options):
        return None
    ranks = step.command.removeprefix(RANK_SHELL)
    words = literal_words(ranks)
    if words is None or not words or ":" in words:
        return None
    is_gang = ranks != step.command or launcher_of(words) is Launcher.TORCHRUN
    return DirectCommand(words, {}, starts_ranks=ranks != step.command) if is_gang else None


_NEUTRAL = frozenset({"kill-on-bad-exit", "K", "label", "l", "unbuffered", "u", "cpus-per-task", "c"})
"""Options of srun that change nothing about the ranks of a job."""


def literal_words(text: str) -> tuple[str, ...] | None:
    """The words of a command that a shell would leave as they are; None if it would expand some."""
    if _NOT_LITERAL.search(_QUOTED.sub("", text)):
        return None
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return None
