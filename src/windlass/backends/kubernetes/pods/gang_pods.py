"""What the pods of a gang tell of its run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import GONE, Run, Seen, Slot, Stage, alive
from windlass.backends.kubernetes.pods import pod_ends
from windlass.backends.kubernetes.pods.launcher_jobs import LauncherJobs, has_failed
from windlass.backends.kubernetes.pods.pod_binding import generation_of
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.core.lifecycle.events import Exit
from windlass.jobs.kubernetes.pods.pod_assembly import JOB_ROLE


def pods_of(gang: Gang, run: Run, book: PodStore, launchers: LauncherJobs) -> dict[int, Pod]:
    """The pods of a run by member; those that belong to no member have numbers beyond."""
    names = gang.pod_names(run)
    found: dict[int, Pod] = {}
    over = any(has_failed(job) for job in launchers.of(gang.home.uid))
    for pod in (*book.owned(gang.home.uid), *launchers.pods(gang.home.uid)):
        if generation_of(pod) == run.generation:
            number = names.get(pod.metadata.name, _launcher(pod, run, over=over))
            found[len(run.slots) + len(found) if number is None or number in found else number] = pod
    return found


def _launcher(pod: Pod, run: Run, *, over: bool) -> int | None:
    """Which member it is, if a launcher's Job has made it: that names its pods as it likes. `over`: the Job gave up."""
    role = pod.metadata.labels.get(JOB_ROLE, "")
    ended = pod.status.phase == "Failed" and not over  # the Job makes another one in its place
    return next((slot.number for slot in run.slots if slot.role == role != "worker" and not ended), None)


def left_behind(gang: Gang, run: Run, book: PodStore) -> Iterator[Pod]:
    """Living pods of earlier generations: a node that was thought gone may come back, and bring them."""
    for pod in book.owned(gang.home.uid):
        is_over = pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp
        if 0 < generation_of(pod) < run.generation and not is_over:
            yield pod


def to_be_bound(gang: Gang, run: Run, pods: Mapping[int, Pod]) -> Iterator[tuple[Pod, Slot]]:
    """Members that somebody else makes, and where they belong."""
    for number, pod in pods.items():
        if number < len(run.slots) and not pod.spec.node_name and not gang.is_member(pod.metadata.name):
            yield pod, run.slots[number]


def seen(pods: Mapping[int, Pod], is_dead: Callable[[str], bool], now: int, patience: int) -> dict[int, Seen]:
    """The same as far as the run must know. `is_dead`: whether nothing can run on a node of this name."""
    return {number: _seen(pod, is_dead, now, patience) for number, pod in pods.items()}


def _seen(pod: Pod, is_dead: Callable[[str], bool], now: int, patience: int) -> Seen:
    told = pod_ends.seen(pod, now, patience)
    if alive(told) and pod.spec.node_name and is_dead(pod.spec.node_name):
        detail = f"{pod.metadata.name} was on {pod.spec.node_name}, which is gone"
        return Seen(Stage.ENDED, Exit(lost=True, detail=detail))
    return told


def is_over(looks: Mapping[int, Seen], number: int) -> bool:
    """Whether a member has ended, or is gone."""
    return not alive(looks.get(number, GONE))


def to_be_deleted(pods: Mapping[int, Pod], looks: Mapping[int, Seen]) -> Iterator[Pod]:
    """Of a run that is being stopped: who lives, and was not told to go."""
    return (pod for number, pod in pods.items() if alive(looks[number]) and not pod.metadata.deletion_timestamp)
