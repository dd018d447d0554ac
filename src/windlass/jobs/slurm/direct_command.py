"""A body of a batch script that is one command: literal variables, then torchrun, one process, or a rendered gang."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from windlass.core.model.job import Launcher
from windlass.jobs.errors import Place
from windlass.jobs.slurm.batch_script import BatchScript
from windlass.jobs.slurm.component_step import ComponentCommand, read_component_step, with_variables
from windlass.jobs.slurm.rank_variables import (
    CODE_LINE,
    EXIT_LINE,
    IDENTITY_LINES,
    MEMBER_LINES,
    PROCS_EXPORT,
    RANK_LINES,
    RANK_SHELL,
    TORCHRUN_LINES,
    requeue_limit,
)
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
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    starts_ranks: bool = False
    """srun starts one process for each task."""
    procs: int | None = None
    """Ranks of each node that torchrun starts, where a rendered script states them."""
    restarts: int = 0
    """Failures of the program after which a rendered script requeues the job."""
    components: tuple[ComponentCommand, ...] = ()
    """Commands of the roles, where a rendered script starts several."""


def read_direct_command(script: BatchScript, steps: Sequence[SrunStep]) -> DirectCommand | None:
    """The command, if the body has no other effect than to start it; else None."""
    found: DirectCommand | None = None
    settings: dict[str, Any] = {"env": {}}
    for place, line in ((place, line.strip()) for place, line in script.commands):
        if line in _RENDERED or _SILENT.fullmatch(line):
            continue
        if (limit := requeue_limit(line)) is not None:
            settings["restarts"] = limit
        elif line.startswith(PROCS_EXPORT) and line.removeprefix(PROCS_EXPORT).isdecimal():
            settings["procs"] = int(line.removeprefix(PROCS_EXPORT))
        elif found is None and _read_setting(line, settings):
            continue
        elif found is None and (command := _command(place, line, steps)):
            found = command
        else:
            return None
    if found is None:
        return None
    components, settings["env"] = with_variables(found.components, settings["env"])
    return replace(found, components=components, **settings)


_RENDERED = frozenset({*IDENTITY_LINES, *MEMBER_LINES, *RANK_LINES, *TORCHRUN_LINES, CODE_LINE, EXIT_LINE})


def _read_setting(line: str, settings: dict[str, Any]) -> bool:
    """Adds a literal variable or folder to the settings. Tells whether the line is one."""
    if export := _EXPORT.fullmatch(line):
        value = literal_words(export[2]) if export[2] else ("",)
        if value is None or len(value) != 1:
            return False
        settings["env"][export[1]] = value[0]
        return True
    words = literal_words(line) if line.startswith("cd ") and "workdir" not in settings else None
    if words is None or len(words) != 2:
        return False
    settings["workdir"] = words[1]
    return True


def _command(place: Place, line: str, steps: Sequence[SrunStep]) -> DirectCommand | None:
    if components := read_component_step(line):
        return DirectCommand((), starts_ranks=True, components=components)
    step = next((each for each in steps if each.place == place), None)
    if step is None:
        words = literal_words(line)
        is_builtin = words is not None and words and re.match(r"\w+=|(?:export|cd|exit)$", words[0])
        return DirectCommand(words) if words and not is_builtin else None
    if not line.startswith("srun ") or len(steps) != 1 or any(name not in _NEUTRAL for name, _ in step.options):
        return None
    ranks = step.command.removeprefix(RANK_SHELL)
    words = literal_words(ranks)
    if words is None or not words or ":" in words:
        return None
    is_gang = ranks != step.command or launcher_of(words) is Launcher.TORCHRUN
    return DirectCommand(words, starts_ranks=ranks != step.command) if is_gang else None


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
