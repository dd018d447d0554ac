"""Description of the threads and devices that the ranks of a job have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.backends.local.launch_message import cpu_share
from windlass.backends.local.nodes import LocalCluster
from windlass.backends.local.state_reader import Task
from windlass.core.model.job import Job, Role
from windlass.core.model.resources import GPU, GPU_MILLI
from windlass.core.model.status import JobState
from windlass.launch.threads import threads_of


def describe_rank_resources(
    state: JobState, tasks: Sequence[Task], cluster: LocalCluster, cluster_since: int
) -> list[str]:
    """A line on threads (for each role if they differ) and one on devices, for the latest start. Empty before it.

    A job that ended before `cluster_since` (ms) has no line on threads: their number depends on the nodes, and those
    of the time of the job may have been others.
    """
    latest = [task for task in tasks if task.generation == tasks[-1].generation]
    if not latest:
        return []
    ended = state.status.finished_at
    threads = _describe_threads(state.job, latest, cluster) if ended is None or ended >= cluster_since else []
    return [*threads, *_devices(state.job, latest)]


def _describe_threads(job: Job, tasks: Sequence[Task], cluster: LocalCluster) -> list[str]:
    placed = _placed(tasks)
    threads = {role.name: _threads(role, placed, cluster) for role in job.roles}
    same = len(set(threads.values())) == 1
    return [next(iter(threads.values()))] if same else [f"{name}: {text}" for name, text in threads.items()]


def _placed(tasks: Sequence[Task]) -> dict[str, tuple[str, ...]]:
    """Role → nodes of its replicas, in order."""
    nodes: dict[str, dict[int, str]] = {}
    for task in tasks:
        nodes.setdefault(task.role, {})[task.replica] = task.node
    return {role: tuple(node for _, node in sorted(replicas.items())) for role, replicas in nodes.items()}


def _threads(role: Role, placed: Mapping[str, tuple[str, ...]], cluster: LocalCluster) -> str:
    node = next((node for node in cluster.nodes if node.name == placed[role.name][0]), None)
    share = 1000 if node is None else cpu_share(placed, role, node)
    return threads_of(role, cpu_share=share).why


def _devices(job: Job, tasks: Sequence[Task]) -> list[str]:
    requested = {role.name: role.resources.get(GPU, 0) + (GPU_MILLI in role.resources) for role in job.roles}
    real = {(task.role, task.replica): len(task.devices) for task in tasks}
    count = sum(requested[role] for role, _ in real)
    if not count:
        return []
    if not sum(real.values()):
        return [f"{count} CPU slot{'s' * (count > 1)} stand{'s' * (count == 1)} in for GPUs"]
    parts = " (in part)" if any(GPU_MILLI in role.resources for role in job.roles) else ""
    return [f"{sum(real.values())} GPU{'s' * (sum(real.values()) > 1)} found{parts}"]
