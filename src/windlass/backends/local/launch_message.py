"""Builds the message that tells the supervisor to start a gang: command, environment and folder of every rank."""

from __future__ import annotations

import importlib.util
import secrets
import socket
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windlass import wire
from windlass.backends.local.checkpoints import default_place
from windlass.backends.local.launched_gang import LaunchedGang
from windlass.backends.local.logs import agent_name
from windlass.core.model.job import Job, Launcher, Role, VerdictUse
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.resources import CPU, GPU
from windlass.core.model.status import Status
from windlass.core.nodes.node_health import grace_of
from windlass.launch.agent import agent_words, entry_of
from windlass.launch.ranks import first_rank, role_named
from windlass.launch.torchrun import StoreAddress, environment

_LOOPBACK = "127.0.0.1"
_BOOT = (
    "import sys; sys.path.append(sys.argv.pop(1)); from windlass.agent.entry import main; sys.exit(main(sys.argv[1:]))"
)
_PYTHON_OF_RANKS = "PYTHON_EXEC"
"""torchrun's variable for the interpreter of the ranks, where it differs from the agent's."""
_SHUTDOWN = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
"""Seconds that ranks have when their agent is asked to end; the supervisor gives agents a little more."""
_RENDEZVOUS_SETTINGS = "PET_RDZV_CONF"
"""torchrun's variable for the settings of the rendezvous; a value of the job or of its client takes precedence."""
_KEEP_ALIVE_S = 1
"""Seconds between two heartbeats from agent to agent."""
_MIN_SILENCES = 3
"""Missed heartbeats in the shortest grace: the agent's own default, below which a busy machine would lose agents."""
_SECRET_BYTES = 32
"""Bytes of the secret of one start of a gang; it is in the environment of its processes only, and stored nowhere."""
_FIRST_PORT, _PORTS = 20_000, 12_000
"""Ports below the range of outgoing connections on Linux (from 32768): a port found free here stays free until rank 0,
which may import for seconds first, listens on it.
"""


def spawn_message(
    gang: LaunchedGang,
    *,
    nodes: Mapping[str, Node],
    logs: Path,
    inherited: Mapping[str, str],
    state_id: str,
    owner: str = "",
    queue: Queue | None = None,
) -> dict[str, Any]:
    """Builds the message that starts a gang.

    `inherited`: the environment below the job's own; `owner`: the client; `queue`: the job's queue, if it is known.
    """
    job_id, generation = gang.key
    job = gang.job
    assert job is not None  # noqa: S101 - only gangs that are known whole are launched
    programs: list[dict[str, Any]] = []
    for rank in gang.ranks:
        role, node = role_named(job, rank.role), gang.nodes[rank.role][rank.replica]
        variables = environment(
            job,
            rank,
            job_id=job_id,
            generation=generation,
            node=node,
            store=StoreAddress(_LOOPBACK, gang.port),
            devices=gang.devices.get((rank.role, rank.replica), ()),
            cpu_share=cpu_share(gang.nodes, role, nodes[node]) if node in nodes else 1000,
            inherited=inherited,
        )
        if job.launcher is not Launcher.AGENT:
            programs.append({"argv": list(role.command), "env": variables})
            continue
        own = _agent_variables(job, role, generation, gang.admission_status)
        programs.append(
            {
                "argv": agent_argv(role.command),
                "env": {**_keep_alive(job, queue, inherited), **variables, **own},
                "agent": {"node": agent_name(rank.member), "first": first_rank(job, rank), "ranks": role.procs},
            }
        )
    return {
        "do": "spawn",
        "job": job_id,
        "generation": generation,
        "repeated": gang.may_have_started,
        "logs": str(logs),
        "cwd": job.workdir or str(Path.home()),
        # below the job's own variables
        "env": {
            wire.CHECKPOINTS: default_place(state_id, job_id),
            **inherited,
            wire.STATE_ID: state_id,
            wire.GANG_SECRET: secrets.token_hex(_SECRET_BYTES),
        },
        "owner": [int(part) for part in owner.split(":")[:2]] if owner else None,
        "ranks": programs,
    }


def agent_argv(command: Sequence[str]) -> list[str]:
    """Returns the command of this Windlass's agent, run by this Python, independent of the job's environment."""
    package = importlib.util.find_spec("windlass")
    assert package is not None  # noqa: S101 - this is a part of it
    assert package.origin is not None  # noqa: S101 - it has an __init__.py
    root = str(Path(package.origin).parent.parent)
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, root, *agent_words(command)]


def _agent_variables(job: Job, role: Role, generation: int, spent: Status) -> dict[str, str]:
    """Returns an agent's variables: interpreter of the ranks, time to end, failures it may still recover from.

    `spent`: the status at the gang's admission. Under `VerdictUse.ACT` the agent restarts nothing: the verdict decides.
    """
    policy = job.restart
    if policy.verdict is VerdictUse.ACT:
        policy = replace(policy, user_limit=0, infrastructure_limit=0)
    entry = entry_of(role.command)
    budget = wire.RestartBudget(
        infrastructure=max(0, policy.infrastructure_limit - spent.infrastructure_failures),
        retryable=tuple(policy.retryable_exit_codes),
        fatal=tuple(policy.fatal_exit_codes),
        generation=max(spent.agent_generation, generation - 1),
        backoff_base=policy.backoff_base / 1000,
        backoff_max=policy.backoff_max / 1000,
        healthy_after=policy.healthy_after / 1000,
    )
    return {
        **({_PYTHON_OF_RANKS: entry.python} if entry else {}),
        _SHUTDOWN: f"{max(1, round(job.grace / 1000))}",
        "PET_MAX_RESTARTS": str(max(0, policy.user_limit - spent.user_failures)),
        wire.RESTART_BUDGET: budget.to_json(),
    }


def _keep_alive(job: Job, queue: Queue | None, inherited: Mapping[str, str]) -> dict[str, str]:
    """Returns how long an agent may be silent before the others lose it; an agent that ends is lost at once."""
    if _RENDEZVOUS_SETTINGS in inherited:
        return {}
    silences = max(_MIN_SILENCES, round(grace_of(job, queue) / 1000 / _KEEP_ALIVE_S))
    return {_RENDEZVOUS_SETTINGS: f"keep_alive_interval={_KEEP_ALIVE_S},keep_alive_max_attempt={silences}"}


def cpu_share(placed: Mapping[str, tuple[str, ...]], role: Role, node: Node) -> int:
    """Returns the milli-cores of a node for one replica: by its share of the devices, else an equal share.

    `placed`: role → node names by replica.
    """
    cpu, gpus = node.capacity.get(CPU, 1000), node.capacity.get(GPU, 0)
    wanted = role.resources.get(GPU, 0)
    if gpus and wanted:
        return cpu * min(wanted, gpus) // gpus
    replicas = Counter(name for names in placed.values() for name in names)
    return cpu // replicas[node.name]


def choose_port(key: tuple[str, int], avoid: Collection[int], is_free: Callable[[int], bool]) -> int:
    """Returns a port for this generation alone: free, and none of `avoid`. Raises OSError if there is none."""
    first = zlib.crc32(f"{key[0]}.{key[1]}".encode())
    for step in range(_PORTS):
        port = _FIRST_PORT + (first + step) % _PORTS
        if port not in avoid and is_free(port):
            return port
    raise OSError(f"no port is free between {_FIRST_PORT} and {_FIRST_PORT + _PORTS}")


def is_free(port: int) -> bool:
    """Tells whether this port can be listened on, on any address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
