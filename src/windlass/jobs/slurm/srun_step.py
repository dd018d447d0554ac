"""The steps of a batch script: the lines that call srun, with their options and their command."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from windlass.jobs.errors import Place
from windlass.jobs.slurm.batch_script import BatchScript

SHORT_WITH_VALUE = "AaBbCcDdeFGiJLMmNnoPpqrSTtWwx"
"""Letters of srun's short options that take a value."""
_LONG = """
    account array begin chdir clusters comment compress constraint container container-image container-mounts
    container-name container-workdir cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task deadline dependency
    distribution error exclude export gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres
    het-group hint input job-name jobid kill-on-bad-exit licenses mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi
    msg-timeout network nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
    open-mode output partition priority prolog qos reservation signal sockets-per-node task-epilog task-prolog
    thread-spec threads-per-core time time-min tmp tres-per-task uid wait wckey
"""
LONG_WITH_VALUE = tuple(_LONG.split())
"""Long options of srun that take a value, which may be a word of its own."""
_CALL = re.compile(r"(?:^|[;&|(`{]|\$\(|\b(?:time|exec|if|then|do|else|!))\s*(?:\w+=\S*\s+)*srun(?=\s|$)")
_LOOKUP = re.compile(r"(?:hostname|nvidia-smi|env|date|uname|whoami|ip)\b")
_PARENTHESIS = re.compile(r"\$?\(|\)")
_ONE = re.compile(r"1(?:-1)?")


@dataclass(frozen=True, slots=True)
class SrunStep:
    """One call of srun."""

    place: Place
    options: tuple[tuple[str, str], ...]
    """Long names without dashes, or letters of short options; and values."""
    command: str
    """The text after the options, to the end of the line."""
    is_substituted: bool = False
    """Whether the script reads the output: the step stands within $(…) or backticks."""

    def value(self, *names: str) -> str:
        """The last value of an option by any of its names; "" without it."""
        return next((value for name, value in reversed(self.options) if name in names), "")

    @property
    def tasks(self) -> str:
        """The number of tasks as written, of the step or of each node; "" if it is that of the job."""
        return self.value("n", "ntasks", "ntasks-per-node")

    @property
    def is_lookup(self) -> bool:
        """Tells whether the step only prints facts about a node."""
        return _LOOKUP.match(self.command) is not None

    @property
    def is_single(self) -> bool:
        """Tells whether the step is one task."""
        return _ONE.fullmatch(self.value("n", "ntasks")) is not None

    @property
    def is_placed(self) -> bool:
        """Tells whether the step names its nodes."""
        return self.value("w", "nodelist") != ""


def read_steps(script: BatchScript) -> list[SrunStep]:
    """The steps of a script, in order. Text that is no call of srun is left out."""
    return [
        replace(_step(place, line[found.end() :]), is_substituted=_is_substituted(plain[: found.end()]))
        for place, line in script.commands
        for plain in (_plain(line),)
        for found in _CALL.finditer(plain)
    ]


def _plain(line: str) -> str:
    """The line with comments and single-quoted text blanked, of equal length."""
    return re.sub(r"'[^']*'|(?<=\s)#.*", lambda found: " " * len(found[0]), line)


def _is_substituted(before: str) -> bool:
    """Tells whether a text ends within a command substitution."""
    opened: list[str] = []
    for found in _PARENTHESIS.findall(before):
        if found != ")":
            opened.append(found)
        elif opened:
            opened.pop()
    return "$(" in opened or before.count("`") % 2 == 1


def _step(place: Place, text: str) -> SrunStep:
    options: list[tuple[str, str]] = []
    rest = text.strip()
    while found := re.match(r"(--?[A-Za-z][\w-]*)(=?)(\"[^\"]*\"|'[^']*'|[^\s\"']*)\s*", rest):
        rest = rest[found.end() :]
        word, equals, value = found[1], found[2], found[3].strip("\"'")
        if word.startswith("--"):
            name, takes_value = word[2:], word[2:] in LONG_WITH_VALUE and not equals
        else:
            name, glued = word[1], word[2:] + equals + value
            value, takes_value = glued.removeprefix("="), word[1] in SHORT_WITH_VALUE and not glued
        if takes_value and (own := re.match(r"(\"[^\"]*\"|'[^']*'|[^\s\"'-]\S*)\s*", rest)):
            value, rest = own[1].strip("\"'"), rest[own.end() :]
        options.append((name, value))
    return SrunStep(place, tuple(options), rest)
