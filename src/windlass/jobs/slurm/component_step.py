"""The step of a rendered heterogeneous job: one srun that starts the ranks of each role in its component."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_START = ("srun", "--kill-on-bad-exit=1")
_SHELL = (
    "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS "
    'LOCAL_WORLD_SIZE=PROCS GROUP_RANK=$SLURM_NODEID; exec "$@"'
)
"""Slurm numbers the tasks of all components together."""
_SHELL_TEXT = re.compile(re.escape(_SHELL).replace("PROCS", "[1-9][0-9]{0,4}"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


@dataclass(frozen=True, slots=True)
class ComponentCommand:
    """The command of each rank of a role."""

    role: str
    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    procs: int = 1
    cpus: int = 0
    """CPUs of each task; 0: as Slurm chooses."""


def component_step(commands: Sequence[ComponentCommand]) -> str:
    """The line that starts all roles. Raises ValueError for a command that srun would divide."""
    for command in commands:
        if ":" in command.words:
            raise ValueError(f"the command of {command.role} has the word ':', which srun takes as the next component")
    parts = [shlex.join(_words(number, command)) for number, command in enumerate(commands)]
    return f"{' '.join(_START)} {' : '.join(parts)}"


def _words(number: int, command: ComponentCommand) -> Iterator[str]:
    yield f"--het-group={number}"
    if command.cpus:
        yield f"--cpus-per-task={command.cpus}"
    yield from ("bash", "-c", _SHELL.replace("PROCS", str(command.procs)), command.role)
    if command.env or command.words[0] == "env":
        yield "env"
        yield from (f"{name}={value}" for name, value in command.env.items())
    yield from command.words


def read_component_step(line: str) -> tuple[ComponentCommand, ...]:
    """The commands of such a line; empty if it is another one."""
    if not line.startswith(f"{' '.join(_START)} --het-group=0 "):
        return ()
    try:
        words = shlex.split(line)[len(_START) :]
    except ValueError:
        return ()
    parts: list[list[str]] = [[]]
    for word in words:
        if word == ":":
            parts.append([])
        else:
            parts[-1].append(word)
    commands = [_command(number, part) for number, part in enumerate(parts)]
    return tuple(each for each in commands if each) if all(commands) else ()


def _command(number: int, words: Sequence[str]) -> ComponentCommand | None:
    rest = [word for word in words[:2] if not word.startswith(("--het-group=", "--cpus-per-task="))] + list(words[2:])
    if words[:1] != [f"--het-group={number}"] or rest[:2] != ["bash", "-c"] or len(rest) < 5:
        return None
    if not _SHELL_TEXT.fullmatch(rest[2]):
        return None
    role, command, env = rest[3], rest[4:], dict[str, str]()
    if command[0] == "env":
        command = command[1:]
        while command and _ASSIGNMENT.match(command[0]):
            name, _, env[name] = command.pop(0).partition("=")
    return ComponentCommand(role, tuple(command), env) if command else None
