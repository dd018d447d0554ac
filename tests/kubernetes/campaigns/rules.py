"""Rules that must hold of the observed cluster. Each yields its findings: a subject and a sentence.

`AT_ONCE` rules must hold after every observation. `LASTING` rules may be broken for a while, because a gang is bound
pod by pod and a status follows its pods. `AT_THE_END` rules judge the whole history once every gang has had its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from .cluster_view import ENDED, Change, ClusterView, Job, Pod

UNDER_WAY_S = 3.0
"""Seconds for which a request may be under way."""
Finding = tuple[str, str]
ChangeRule = Callable[[ClusterView, Sequence[Change]], Iterator[Finding]]
ViewRule = Callable[[ClusterView], Iterator[Finding]]


def over_allocated_node(view: ClusterView, _changes: Sequence[Change]) -> Iterator[Finding]:
    """Pods on a node that have not ended hold more devices than it has."""
    held: Counter[str] = Counter()
    for pod in view.pods.values():
        if pod.holds_devices:
            held[pod.node] += pod.devices
    for node in view.nodes.values():
        if held[node.name] > node.devices:
            yield node.name, f"its pods hold {held[node.name]} devices, and it has {node.devices}"


def two_generations(view: ClusterView, _changes: Sequence[Change]) -> Iterator[Finding]:
    """Pods of two generations of one gang run at the same time."""
    names = {node.name for node in view.nodes.values()}
    running: dict[str, dict[str, Pod]] = {}
    for pod in view.pods.values():
        if pod.generation and pod.phase == "Running" and pod.node in names:
            running.setdefault(pod.owner, {})[pod.generation] = pod
    for generations in running.values():
        if len(generations) > 1:
            pod = next(iter(generations.values()))
            yield view.name_of(pod), f"pods of the generations {', '.join(sorted(generations))} run at the same time"


def too_many_pods(view: ClusterView, _changes: Sequence[Change]) -> Iterator[Finding]:
    """One generation of a gang has more live pods than its size."""
    for pods in view.gangs().values():
        live = [pod for pod in pods if pod.phase not in ENDED and not pod.deleted]
        size = view.size_of(pods[0])
        if 0 < size < len(live):
            yield view.name_of(pods[0]), f"it has {len(live)} live pods, and its size is {size}"


def changed_end(_view: ClusterView, changes: Sequence[Change]) -> Iterator[Finding]:
    """An end that was reported is withdrawn, replaced, or contradicts another condition."""
    for before, after in changes:
        if not isinstance(after, Job):
            continue
        if isinstance(before, Job) and before.end and after.ends_claimed != before.ends_claimed:
            yield after.name, f"it had {before.end}, and now its conditions are {sorted(after.conditions)}"
        if len(after.ends_claimed) > 1 or (after.end and "Running" in after.conditions):
            yield after.name, f"its conditions contradict each other: {sorted(after.conditions)}"


def wrong_end(_view: ClusterView, changes: Sequence[Change]) -> Iterator[Finding]:
    """A job, or a pod without an owner, ends otherwise than its program.

    Nothing creates a pod without an owner again whose end its node did not see.
    """
    for _, after in changes:
        if isinstance(after, Pod) and after.is_lost:
            continue
        end = after.end if isinstance(after, Job) else after.phase if isinstance(after, Pod) else ""
        if isinstance(after, Job | Pod) and end in ENDED and after.ends and end != after.ends:
            yield after.name, f"it has {end}, and its program ends as {after.ends}"


def lost_object(view: ClusterView, changes: Sequence[Change]) -> Iterator[Finding]:
    """A job, or a pod without an owner that has not ended, disappears from the API."""
    for before, after in changes:
        if after is None and isinstance(before, Job) and before.ends:
            yield before.name, "it disappeared from the API, and no user deleted it"
        if after is None and isinstance(before, Pod) and not before.is_owned and before.uid not in view.ended_pods:
            yield before.name, "it disappeared from the API before its end, and no user deleted it"


def partly_bound_gang(view: ClusterView) -> Iterator[Finding]:
    """Some pods of a gang are on nodes, and others never were since."""
    for gang, bound in view.bound_once.items():
        pods = [pod for pod in view.pods.values() if (pod.owner, pod.generation) == gang]
        size = view.size_of(pods[0]) if pods else 0
        if len(bound) < size:
            yield view.name_of(pods[0]), f"{len(bound)} of its {size} pods are on nodes"


def untrue_status(view: ClusterView) -> Iterator[Finding]:
    """The status of a job does not agree with its pods."""
    for job in view.jobs.values():
        yield from ((job.name, text) for text in _untrue(job, view.pods_of(job)))


def _untrue(job: Job, pods: Sequence[Pod]) -> Iterator[str]:
    on_nodes = [pod for pod in pods if pod.holds_devices]
    running = [pod for pod in pods if pod.phase == "Running" and not pod.deleted]
    if job.end and on_nodes:
        yield f"it has {job.end}, and {len(on_nodes)} of its pods are still on nodes"
    if job.phase and not job.end and job.phase not in ("Admitted", "Running", "Restarting") and on_nodes:
        yield f"it is {job.phase}, and {len(on_nodes)} of its pods are on nodes"
    if "Running" in job.conditions and job.ends and len(running) + _ended(pods) < job.size:
        yield f"it says that it runs, and {len(running)} of its {job.size} pods run"
    if job.active is not None and not job.end and job.active != len(running):
        yield f"it says that {job.active} pods are active, and {len(running)} run"


def _ended(pods: Sequence[Pod]) -> int:
    return sum(pod.phase in ENDED for pod in pods)


def job_without_end(view: ClusterView) -> Iterator[Finding]:
    """A job, or a pod without an owner, has not ended."""
    for job in view.jobs.values():
        if job.ends and not job.end:
            yield job.name, f"it has not ended: {job}"
    for pod in view.pods.values():
        if pod.ends and pod.phase not in ENDED:
            yield view.name_of(pod), f"it has not ended: {pod}"


def started_after_end(view: ClusterView) -> Iterator[Finding]:
    """A pod of a job was created after the job's end, by a request that cannot have been under way then."""
    for at, pod in view.created.values():
        ended_at, version = view.ends.get(pod.owner, (at, pod.version))
        if pod.version > version and at - ended_at > UNDER_WAY_S:
            yield view.name_of(pod), f"it had ended, and then pod {pod.name} was created"


def stopped_without_cause(view: ClusterView) -> Iterator[Finding]:
    """A pod of a gang that ran by its status was deleted: the job had not ended, no pod failed, the node was ready.

    A gang may be withdrawn before that: the API server may have refused one of its objects.
    """
    for pod in view.stopped.values():
        gang = (pod.owner, pod.generation)
        has_cause = gang in view.failed or pod.node in view.unready_once or gang not in view.ran_whole
        if pod.owner in view.jobs and pod.version <= view.unended_versions.get(pod.owner, 0) and not has_cause:
            yield view.name_of(pod), f"pod {pod.name} was stopped while it ran, without a failure in its generation"


def success_without_pods(view: ClusterView) -> Iterator[Finding]:
    """A job says that it has succeeded, and none of its pods ever did."""
    seen = {pod.owner for pod in view.ended_pods.values() if pod.phase == "Succeeded"}
    seen |= {owner for owner, _ in view.failed}  # an end that no watch has seen
    seen |= {job.owner for job in view.jobs.values() if job.uid in seen}
    for job in view.jobs.values():
        if job.end == "Succeeded" and job.ends and job.uid not in seen:
            yield job.name, "it says that it has succeeded, and no pod of it was seen to succeed"


AT_ONCE: tuple[ChangeRule, ...] = (
    over_allocated_node,
    two_generations,
    too_many_pods,
    changed_end,
    wrong_end,
    lost_object,
)
LASTING: tuple[ViewRule, ...] = (partly_bound_gang, untrue_status)
AT_THE_END: tuple[ViewRule, ...] = (
    job_without_end,
    started_after_end,
    stopped_without_cause,
    success_without_pods,
)
