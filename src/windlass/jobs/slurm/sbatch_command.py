"""Command lines of sbatch, srun and salloc: options, those of the environment, and the script or command with words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType

from windlass.jobs.errors import Place
from windlass.jobs.slurm.batch_script import SbatchOption, option_at
from windlass.jobs.slurm.sbatch_options import FLAGS, SHORT, full_name, is_known
from windlass.jobs.syntax.names import did_you_mean
from windlass.jobs.syntax.text import STDIN, Text

_COMMAND_LINE = Place(0, 0)
_ENVIRONMENT = """
    ACCOUNT account ARRAY_INX array CONSTRAINT constraint CPUS_PER_GPU cpus-per-gpu DISTRIBUTION distribution
    EXCLUSIVE exclusive EXPORT export GPUS gpus GPUS_PER_NODE gpus-per-node GPUS_PER_TASK gpus-per-task GRES gres
    HINT hint JOB_NAME job-name MEM_PER_CPU mem-per-cpu MEM_PER_GPU mem-per-gpu MEM_PER_NODE mem NETWORK network
    NO_REQUEUE no-requeue OPEN_MODE open-mode PARTITION partition QOS qos REQUEUE requeue RESERVATION reservation
    SIGNAL signal THREADS_PER_CORE threads-per-core TIMELIMIT time WAIT wait WCKEY wckey
"""
_PAIRS = _ENVIRONMENT.split()
OF_ENVIRONMENT = MappingProxyType({name: f"--{option}" for name, option in zip(_PAIRS[::2], _PAIRS[1::2], strict=True)})
"""Variable that sbatch reads, without SBATCH_ → option; salloc reads them with SALLOC_."""
OF_CALL = frozenset({"--parsable", "--quiet", "--verbose", "--wait", "--test-only", "--wrap", "--help", "--usage"})
"""Options about the call itself, which no script has."""
OF_WINDLASS = MappingProxyType({"--on": True, "--namespace": True, "--state": True, "-h": False})
"""Options that sbatch of Slurm has not → whether they take a value."""
OF_SRUN = MappingProxyType(
    {
        **dict.fromkeys(("-l", "--label", "-u", "--unbuffered", "-K", "--kill-on-bad-exit"), False),
        **dict.fromkeys(("--exact", "--overlap", "-E", "--preserve-env", "-X", "--pty", "--multi-prog"), False),
        **dict.fromkeys(("--mpi", "--cpu-bind", "--jobid", "--msg-timeout", "-T", "--threads"), True),
    }
)
"""Options that srun alone has → whether they take a value."""


class SbatchCommandError(ValueError):
    """A command line that the program refuses."""


@dataclass(frozen=True, slots=True)
class SbatchCommand:
    """A call of sbatch, srun or salloc."""

    options: tuple[SbatchOption, ...]
    """Of the environment, then of the command line: the last of a name holds."""
    call: Mapping[str, str]
    """Options about the call itself, and those of Windlass."""
    words: tuple[str, ...]
    """The script and its arguments, or the command of srun and salloc."""

    @property
    def script(self) -> str:
        """The script; standard input if none is named."""
        return self.words[0] if self.words else STDIN


def read_command(words: Sequence[str], environment: Mapping[str, str], program: str = "sbatch") -> SbatchCommand:
    """The call of a command line of sbatch, srun or salloc. Raises SbatchCommandError."""
    own = {**OF_WINDLASS, **(OF_SRUN if program == "srun" else {})}
    given = {} if program == "srun" else _environment_options(environment, f"{program.upper()}_")
    found = [SbatchOption(name, value, _COMMAND_LINE) for name, value in given.items()]
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] not in ("-", "--"):
        name, value, position = _command_option(words, position, own, program)
        found.append(SbatchOption(name, value, _COMMAND_LINE))
    rest = words[position + 1 :] if words[position : position + 1] == ["--"] else words[position:]
    call = {each.name: each.value for each in found if each.name in OF_CALL or each.name in own}
    if "--wrap" in call and rest:
        raise SbatchCommandError("a script is not permitted with --wrap\nremove the script, or remove --wrap")
    options = tuple(each for each in found if each.name not in call)
    return SbatchCommand(options, call, tuple(rest))


def wrapped_script(command: str) -> Text:
    """The script that --wrap makes of a command."""
    return Text("wrap", f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n")


def step_script(words: Sequence[str]) -> Text:
    """The script that runs a command of srun as each task."""
    name = PurePath(words[0]).stem or "step"
    return Text(name, f"#!/bin/bash\nsrun {shlex.join(words)}\n")


def _environment_options(environment: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Options that variables state; a flag holds if its variable is set, to whatever value."""
    named = {prefix + name: option for name, option in OF_ENVIRONMENT.items()}
    given = {option: environment[name] for name, option in named.items() if name in environment}
    return {name: "" if name in FLAGS and name != "--exclusive" else value for name, value in given.items()}


def _command_option(words: Sequence[str], position: int, own: Mapping[str, bool], program: str) -> tuple[str, str, int]:
    """The full name and the value of the option at a position, and the position of the next one."""
    word = words[position]
    name = word.partition("=")[0]
    if name in own:
        if "=" in word or not own[name]:
            return name, word.partition("=")[2], position + 1
        if position + 1 == len(words):
            raise SbatchCommandError(f"{name} expects a value\nsee: windlass {program} --help")
        return name, words[position + 1], position + 2
    plain = f"{full_name(name)}{word[len(name) :]}" if name.startswith("--") and full_name(name) else word
    name, value, after = option_at([*words[:position], plain, *words[position + 1 :]], position)
    if not is_known(name) and name not in OF_CALL:
        hint = did_you_mean(name, [*OF_CALL, *own, *SHORT.values(), *FLAGS, *OF_ENVIRONMENT.values()])
        raise SbatchCommandError(f"unrecognized option {name[:40]!r}{hint}\nsee: windlass {program} --help")
    if not value and after == position + 1 == len(words) and name not in FLAGS and name not in OF_CALL:
        raise SbatchCommandError(f"{name} expects a value\nsee: windlass {program} --help")
    return full_name(name) or name, value, after
