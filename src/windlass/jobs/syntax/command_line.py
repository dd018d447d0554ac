"""Splits command lines into words, and finds the launcher that a command contains."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

from windlass.core.model.job import Launcher

_SHELL = ("sh", "-ec")
"""`-e` ends a script of several lines at the first command that fails, so that it does not train without its inputs."""
_SCRIPTS = (".py", ".sh", ".bash")
_LAUNCHER_MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "windlass.agent"}
)
_NEEDS_SHELL = re.compile(r"[|&;<>()$`\n*?\[\]#~{}!]")
_QUOTED = re.compile(r"'[^']*'|\\.|\"(?:[^\"\\$`]|\\.)*\"", re.DOTALL)


def split_line(line: str) -> tuple[str, ...]:
    """The words of a command line, or a shell that runs it if it needs one. Raises ValueError."""
    if not line.strip():
        raise ValueError("expects a command, not an empty line")
    if _NEEDS_SHELL.search(_QUOTED.sub("", line.strip())) or re.match(r"\s*\w+=", line):
        return (*_SHELL, line)
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise ValueError(f"expects balanced quotes ({str(error).lower()})") from None


def words_of(command: Sequence[str]) -> list[str]:
    """The words that a user wrote, also within a line for a shell."""
    if len(command) == 3 and PurePath(command[0]).name in ("sh", "bash") and re.fullmatch("-[a-z]*c", command[1]):
        return command[2].split()
    return list(command)


def script_of(words: Sequence[str]) -> str:
    """Program of a command: its first script or module that is no launcher, else its first word."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word == "-m" and following and following not in _LAUNCHER_MODULES:
            return following.rpartition(".")[2]
        if word.endswith(_SCRIPTS):
            return PurePath(word).stem
    return PurePath(words[0]).stem if words else ""


def launcher_of(words: Sequence[str]) -> Launcher:
    """TORCHRUN if a launcher stands before the script, else PLAIN."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name = PurePath(word).name
        if name == "torchrun" or (name, following) in {("accelerate", "launch"), ("windlass", "agent")}:
            return Launcher.TORCHRUN
        if word == "-m":
            return Launcher.TORCHRUN if following in _LAUNCHER_MODULES else Launcher.PLAIN
        if word.endswith(_SCRIPTS):
            return Launcher.PLAIN
    return Launcher.PLAIN


def procs_of(words: Sequence[str]) -> int | None:
    """The number that torchrun's --nproc-per-node gives, None if it gives none (or "gpu", "auto")."""
    match = re.search(r"(?:^|\s)--nproc[-_]per[-_]node[= ]([1-9][0-9]{0,3})(?:\s|$)", " ".join(words))
    return int(match[1]) if match else None


def node_count_of(words: Sequence[str]) -> int | None:
    """The number that torchrun's --nnodes gives, None if it gives none, or a range."""
    match = re.search(r"(?:^|\s)--nnodes[= ]([1-9][0-9]{0,5})(?:\s|$)", " ".join(words))
    return int(match[1]) if match else None


def is_standalone(words: Sequence[str]) -> bool:
    """Tells whether torchrun is started with --standalone."""
    return "--standalone" in words
