"""A command that starts one script, as the command of an agent that starts its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from windlass.launch.agent import agent_words, entry_of

WAYS = ("inject", "image")
"""Where pods have the agent from: brought along as one file, or the image has Windlass."""
_LAUNCHERS = ("torch.distributed.run", "windlass.agent")
"""Modules that take torchrun's options."""
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
        return ("python3", *agent, *rest)
    if (program, rest[:1]) == ("windlass", ("agent",)):
        return ("python3", *agent, *rest[1:])
    entry = entry_of(words)
    if entry is None:
        raise ValueError(f"cannot be started by the agent, which takes {_TAKEN}, not {' '.join(words)[:40]!r}")
    if entry.module and entry.words[0] in _LAUNCHERS:
        return (entry.python, *agent, *entry.words[1:])
    return (entry.python, *agent, *([f"--nproc-per-node={procs}"] if procs else []), *agent_words(words))
