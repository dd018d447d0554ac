"""The step of a rendered heterogeneous job: one srun that starts the ranks of each role in its component."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

_START = ("srun", "--kill-on-bad-exit=1")
_PREFIX = "WINDLASS_ENV_"
"""Begins the names of variables of all components in the script; the number of the component and "_" follow."""
_SHELL = (
    "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS "
    "LOCAL_WORLD_SIZE=PROCS GROUP_RANK=$SLURM_NODEID; "
    f'for windlass_name in "${{!{_PREFIX}NUMBER_@}}"; do '
    f'export "${{windlass_name#{_PREFIX}NUMBER_}}=${{!windlass_name}}"; done; '
    f'unset "${{!{_PREFIX}@}}"; exec "$@"'
)
"""Gives a rank its variables. Slurm numbers the tasks of all components together."""
_SHELL_TEXT = re.compile(re.escape(_SHELL).replace("PROCS", "[1-9][0-9]{0,4}").replace("NUMBER", "[0-9]{1,3}"))
_EXPORTED = re.compile(rf"{_PREFIX}([0-9]{{1,3}})_(\w+)", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ComponentCommand:
    """The command of each rank of a role."""

    role: str
    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    procs: int = 1
    cpus: int = 0
    """CPUs of each task; 0: as Slurm chooses."""


def is_exported(name: str) -> bool:
    """Whether a shell can export a variable of this name."""
    return _IDENTIFIER.fullmatch(name) is not None


def export_lines(env: Mapping[str, str], prefix: str = "") -> Iterator[str]:
    """Lines that export variables. Names that no shell exports are left out."""
    for name, value in env.items():
        if is_exported(name):
            yield f"export {prefix}{name}={shlex.quote(value)}"


def component_step(commands: Sequence[ComponentCommand]) -> list[str]:
    """Lines that start all roles. Raises ValueError for a command that srun would divide.

    Variables of roles are exported under names of their own: every user of a node sees the words of srun.
    """
    for command in commands:
        if ":" in command.words:
            raise ValueError(f"the command of {command.role} has the word ':', which srun takes as the next component")
    exports = [line for number, each in enumerate(commands) for line in export_lines(each.env, f"{_PREFIX}{number}_")]
    parts = [shlex.join(_words(number, command)) for number, command in enumerate(commands)]
    return [*exports, f"{' '.join(_START)} {' : '.join(parts)}"]


def _words(number: int, command: ComponentCommand) -> Iterator[str]:
    yield f"--het-group={number}"
    if command.cpus:
        yield f"--cpus-per-task={command.cpus}"
    shell = _SHELL.replace("PROCS", str(command.procs)).replace("NUMBER", str(number))
    yield from ("bash", "-c", shell, command.role, *command.words)


def read_component_step(line: str) -> tuple[ComponentCommand, ...]:
    """The commands of the line with srun, without their variables; empty if it is another one."""
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
    return ComponentCommand(rest[3], tuple(rest[4:])) if _SHELL_TEXT.fullmatch(rest[2]) else None


def with_variables(
    commands: Sequence[ComponentCommand], exported: Mapping[str, str]
) -> tuple[tuple[ComponentCommand, ...], dict[str, str]]:
    """The commands with their variables, and the exported variables that are of no component."""
    own: list[dict[str, str]] = [{} for _ in commands]
    others: dict[str, str] = {}
    for name, value in exported.items():
        found = _EXPORTED.fullmatch(name)
        if found and int(found[1]) < len(own):
            own[int(found[1])][found[2]] = value
        else:
            others[name] = value
    return tuple(replace(each, env=env) for each, env in zip(commands, own, strict=True)), others
