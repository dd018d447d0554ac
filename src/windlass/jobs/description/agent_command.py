"""Rewrites a command that starts one script into one whose ranks an agent starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from windlass.launch.agent import agent_words, entry_of

AGENT_SOURCES = ("inject", "image")
"""Sources of the agent in pods: injected as one file, or part of the image."""
_LAUNCHERS = ("torch.distributed.run", "windlass.agent")
"""Modules that take torchrun's options."""
_SYSTEMS = (("local", "bin"), (".local", "bin"))
"""Last folders of paths where pip installs programs, for interpreters that are elsewhere or first in PATH."""
_TAKEN = "python SCRIPT, python -m MODULE, torchrun or windlass agent"


def under_agent(words: Sequence[str], agent: Sequence[str], procs: str = "") -> tuple[str, ...]:
    """The command of the same script under an agent. `agent`: arguments of the interpreter, before torchrun's options.

    `procs`: ranks of each pod where the command starts one process. Raises ValueError with what is wrong, as a
    predicate of the command.
    """
    if not words:
        raise ValueError(f"is missing; the agent starts what the job says: write {_TAKEN}")
    program, rest = PurePath(words[0]).name, tuple(words[1:])
    if program == "torchrun":
        return (_python_of(words[0]), *agent, *rest)
    if (program, rest[:1]) == ("windlass", ("agent",)):
        return (_python_of(words[0]), *agent, *rest[1:])
    entry = entry_of(words)
    if entry is None:
        raise ValueError(f"cannot be started by the agent, which takes {_TAKEN}, not {' '.join(words)[:40]!r}")
    if entry.module and entry.words[0] in _LAUNCHERS:
        return (entry.python, *agent, *entry.words[1:])
    return (entry.python, *agent, *([f"--nproc-per-node={procs}"] if procs else []), *agent_words(words))


def _python_of(program: str) -> str:
    """The interpreter of a program that pip installed: beside it in a virtual environment, elsewhere in a system."""
    path = PurePath(program)
    of_a_system = path.parent.parts[-2:] in _SYSTEMS
    return "python3" if of_a_system else str(path.with_name("python3"))
