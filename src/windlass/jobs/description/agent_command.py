"""A command that starts one script, as the command of an agent that starts its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from windlass.launch.agent import agent_words, entry_of

WAYS = ("inject", "image")
"""Where pods have the agent from: brought along as one file, or the image has Windlass."""
_LAUNCHERS = ("torch.distributed.run", "windlass.agent")
"""Modules that take torchrun's options."""
_SYSTEMS = (("local", "bin"), (".local", "bin"))
"""Last folders of where pip puts programs of Pythons that are not there themselves, or are first in PATH."""
_TAKEN = "python SCRIPT, python -m MODULE, torchrun or windlass agent"


def under_agent(words: Sequence[str], agent: Sequence[str], procs: str = "") -> tuple[str, ...]:
    """The same script under an agent: what its Python is told before torchrun's options is `agent`.

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
    """The interpreter of what pip has installed: an environment has its own beside it, a system elsewhere."""
    path = PurePath(program)
    of_a_system = path.parent.parts[-2:] in _SYSTEMS
    return "python3" if of_a_system else str(path.with_name("python3"))
