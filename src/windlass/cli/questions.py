"""What `simulate` was asked on the command line, as a question for the simulator; and the line that asks it again."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from windlass.cli.failures import UsageError
from windlass.jobs.cluster_file import Cluster
from windlass.jobs.names import did_you_mean
from windlass.jobs.policy_words import read_policies
from windlass.worlds.sim import cluster_of, read_nodes
from windlass.worlds.sim.progress import Costs
from windlass.worlds.sim.study import Question
from windlass.worlds.sim.study.costs import read_costs
from windlass.worlds.sim.study.drawn import read_drawn
from windlass.worlds.sim.study.faults import read_fault_words
from windlass.worlds.sim.study.question import read_seeds
from windlass.worlds.sim.traces.read import FORMATS
from windlass.worlds.sim.walltimes import WALLTIMES

_EQUAL_NODES = re.compile(r"^(\d{1,6})[x×](\d{1,4})$")
_MOST_NODES = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that say what is simulated, as they were typed; "", None and False where they were not."""

    traces: tuple[str, ...]
    cluster: str
    policies: tuple[str, ...]
    seeds: str
    synthetic: str | None = None
    walltimes: str = "trace"
    load: float | None = None
    limit: int | None = None
    faults: str | None = None
    costs: str = ""
    kill: bool = False
    skip_bad: bool = False
    format: str | None = None


def question_of(asked: Asked) -> Question:
    """The question, everything that it names read but the traces. Raises UsageError, SimError and JobError."""
    _check(asked)
    cluster = _cluster(asked.cluster)
    try:
        policies = read_policies(asked.policies, cluster.policy)
    except ValueError as error:
        raise UsageError(f"--policy: {error}") from None
    names = [node.name for node in cluster.nodes]
    return Question(
        cluster=cluster,
        policies=policies,
        traces=asked.traces,
        drawn=None if asked.synthetic is None else read_drawn(asked.synthetic, cluster),
        seeds=read_seeds(asked.seeds),
        format=asked.format,
        skip_bad=asked.skip_bad,
        walltimes=asked.walltimes,
        load=asked.load,
        limit=asked.limit,
        kill=asked.kill,
        costs=read_costs(asked.costs) if asked.costs else Costs(),
        faults=None if asked.faults is None else read_fault_words(asked.faults, names),
    )


def _check(asked: Asked) -> None:
    if not asked.traces and asked.synthetic is None:
        raise UsageError("no trace\nname one or more files, or draw one: --synthetic 'jobs=1000 load=0.9'")
    if asked.traces and asked.synthetic is not None:
        raise UsageError("--synthetic draws a trace, and a trace is named too; leave one of them out")
    if not asked.cluster:
        raise UsageError("--cluster is missing; name a cluster file, a trace's own list of nodes, or for example 96x8")
    choices = (("--walltimes", asked.walltimes, list(WALLTIMES)), ("--format", asked.format, list(FORMATS)))
    for option, given, known in choices:
        if given is not None and given not in known:
            raise UsageError(f"{option} has no {given!r}{did_you_mean(given, known)}")


def _cluster(given: str) -> Cluster:
    equal = _EQUAL_NODES.match(given)
    if equal is None:
        return read_nodes(given)
    nodes, gpus = int(equal[1]), int(equal[2])
    if not 1 <= nodes <= _MOST_NODES:
        raise UsageError(f"--cluster {given}: between 1 and {_MOST_NODES:,} nodes")
    return cluster_of(nodes, gpus)


def command_of(asked: Asked) -> str:
    """The command that asks the same again. Files lose their folders: a report tells nothing of the machine."""
    words = ["windlass", "simulate", *map(_name, asked.traces)]
    words += ["--cluster", asked.cluster if _EQUAL_NODES.match(asked.cluster) else _name(asked.cluster)]
    words += ["--policy", ",".join(asked.policies)]
    words += ["--seeds", asked.seeds] if asked.seeds != "1" else []
    for option in ("synthetic", "load", "limit", "faults", "costs", "format"):
        if value := getattr(asked, option):
            words += [f"--{option}", _plain(option, value)]
    if asked.walltimes != "trace":
        words += ["--walltimes", asked.walltimes]
    words += [f"--{flag.replace('_', '-')}" for flag in ("kill", "skip_bad") if getattr(asked, flag)]
    return shlex.join([*words, "--report", "report"])


def _plain(option: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return _name(str(value)) if option == "faults" and Path(str(value)).exists() else str(value)


def _name(path: str) -> str:
    return os.path.basename(path)  # noqa: PTH119 - a name, no path: Path("a/") would say "a" as well
