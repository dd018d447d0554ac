"""The cluster as the witness has observed it: pods, nodes and jobs, reduced to what the rules read.

Versions are the API server's resource versions; they grow with each write, across all kinds of one etcd.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

SIZE = "campaign.example/size"
"""Annotation of an object, or of a pod without an owner: number of pods of the gang."""
ENDS = "campaign.example/ends"
"""Annotation: the end that follows from the program, Succeeded or Failed."""
GANG = "campaign.example/gang"
"""Annotation of a pod without an owner: name of its gang."""
GENERATION = "windlass.dev/generation"
GPU = "nvidia.com/gpu"
_LOST = ("Unknown", "ContainerStatusUnknown")
"""Reasons of a container that containerd (on its start) or the kubelet gives for an end that it did not see."""
ENDED = ("Succeeded", "Failed")
_END_OF_CONDITION = {"Succeeded": "Succeeded", "Complete": "Succeeded", "Failed": "Failed"}

Manifest = Mapping[str, Any]


class Verb(StrEnum):
    LISTED = "listed"
    """All objects of a kind."""
    SEEN = "seen"
    """An object was added or changed."""
    GONE = "gone"
    BLIND = "blind"
    """The watch of this kind has ended; a list follows."""
    DISTURBED = "disturbed"
    """A fault begins."""
    CALM = "calm"
    """A fault is over."""
    TIME = "time"
    """Nothing but the passage of time."""


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation of the witness at `at` seconds. `objects`: one, or all of a list."""

    at: float
    verb: Verb
    kind: str = ""
    objects: tuple[Manifest, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    uid: str
    name: str
    owner: str
    """Uid of the object that owns it, or the name of its gang."""
    generation: str
    node: str
    phase: str
    deleted: bool
    devices: int
    version: int
    size: int
    ends: str
    is_owned: bool
    is_lost: bool
    """The end of one of its containers was not seen on its node."""
    why: str
    """Reason of the pod, and exit code, reason and message of each of its containers that has ended."""

    @property
    def holds_devices(self) -> bool:
        return bool(self.node) and self.phase not in ENDED

    def __str__(self) -> str:
        generation = f" of generation {self.generation}" if self.generation else ""
        deleted = ", deleted" if self.deleted else ""
        phase = f"{self.phase}{self.why and f' ({self.why})'}{deleted}"
        return f"pod {self.name}{generation} on {self.node or 'no node'}: {phase}, version {self.version}"


@dataclass(frozen=True, slots=True)
class Job:
    uid: str
    kind: str
    name: str
    owner: str
    """Uid of the job that owns this one; empty: none."""
    size: int
    ends: str
    phase: str
    """Phase in `status.windlass`; empty for kinds without it."""
    conditions: frozenset[str]
    """Types of the conditions that are true."""
    active: int | None
    """Pods that run, by `status.replicaStatuses`; None for kinds without it."""
    version: int

    @property
    def ends_claimed(self) -> frozenset[str]:
        return frozenset(_END_OF_CONDITION[each] for each in self.conditions if each in _END_OF_CONDITION)

    @property
    def end(self) -> str:
        return min(self.ends_claimed, default="")

    def __str__(self) -> str:
        active = "" if self.active is None else f", {self.active} active"
        phase = self.phase or "no phase"
        return f"{self.kind} {self.name}: {phase}, {sorted(self.conditions)}{active}, version {self.version}"


@dataclass(frozen=True, slots=True)
class Node:
    uid: str
    name: str
    devices: int
    is_ready: bool

    def __str__(self) -> str:
        return f"node {self.name}: {self.devices} devices, {'ready' if self.is_ready else 'not ready'}"


Thing = Pod | Job | Node
Change = tuple[Thing | None, Thing | None]
"""An object before and after an observation; None: it did not exist, or does not any more."""


@dataclass
class ClusterView:
    """Current objects by uid, and of past ones what the rules need at the end."""

    pods: dict[str, Pod] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    created: dict[str, tuple[float, Pod]] = field(default_factory=dict)
    """Every pod as first seen in a watch, which is its creation, and the time of that."""
    stopped: dict[str, Pod] = field(default_factory=dict)
    """Every pod that ran when its deletion began, as first seen after that."""
    ended_pods: dict[str, Pod] = field(default_factory=dict)
    """Every pod that has ended, as first seen with that phase."""
    failed: set[tuple[str, str]] = field(default_factory=set)
    """Owner and generation of pods that failed before anyone deleted them, or may have while a watch was away."""
    unended_versions: dict[str, int] = field(default_factory=dict)
    """Version of each job up to which it had certainly not ended."""
    ends: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Time and version of each job at which it was first seen ended."""
    bound_once: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """By owner and generation: pods seen on a node since the gang last held none."""
    ran_whole: set[tuple[str, str]] = field(default_factory=set)
    """Owner and generation of gangs that ran by the status of their job."""
    unready_once: set[str] = field(default_factory=set)
    """Names of nodes that were seen not ready."""

    def apply(self, observation: Observation) -> list[Change]:
        """Applies an observation. Returns the objects that it changed."""
        things = [read_object(observation.kind, each) for each in observation.objects]
        if observation.verb is Verb.GONE:
            things = [replace(each, deleted=True) if isinstance(each, Pod) else each for each in things]
        changes: list[Change] = []
        if observation.verb is Verb.LISTED:
            listed = {each.uid for each in things}
            gone = [each for uid, each in self._held(observation.kind).items() if uid not in listed]
            changes += [self._forget(each) for each in gone]
        for each in things:
            changes.append((self._forget(each)[0], each) if observation.verb is Verb.GONE else self._put(each))
            if observation.verb is Verb.SEEN and isinstance(each, Pod) and changes[-1][0] is None:
                self.created.setdefault(each.uid, (observation.at, each))
        for before, after in changes:
            if isinstance(after, Job) and after.end:
                self.ends.setdefault(after.uid, (observation.at, after.version))
            self._remember(before, after, is_exact=observation.verb is not Verb.LISTED)
        if observation.verb is Verb.GONE:
            changes = [(before, None) for before, _ in changes]
        return changes

    def gangs(self) -> dict[tuple[str, str], list[Pod]]:
        """Current pods by owner and generation."""
        found: dict[tuple[str, str], list[Pod]] = {}
        for pod in self.pods.values():
            found.setdefault((pod.owner, pod.generation), []).append(pod)
        return found

    def pods_of(self, job: Job) -> list[Pod]:
        """Pods of the job, and of jobs that it owns: a launcher."""
        owners = {job.uid, *(each.uid for each in self.jobs.values() if each.owner == job.uid)}
        return [pod for pod in self.pods.values() if pod.owner in owners]

    def name_of(self, pod: Pod) -> str:
        """Name of the pod's gang."""
        return self.jobs[pod.owner].name if pod.owner in self.jobs else pod.owner

    def size_of(self, pod: Pod) -> int:
        """Number of pods of the pod's gang; 0: unknown."""
        return self.jobs[pod.owner].size if pod.owner in self.jobs else pod.size

    def _held(self, kind: str) -> dict[str, Any]:
        if kind in ("Pod", "Node"):
            return self.pods if kind == "Pod" else self.nodes
        return {uid: job for uid, job in self.jobs.items() if job.kind == kind}

    def _table(self, thing: Thing) -> dict[str, Any]:
        return self.pods if isinstance(thing, Pod) else self.jobs if isinstance(thing, Job) else self.nodes

    def _put(self, thing: Thing) -> Change:
        table = self._table(thing)
        before = table.get(thing.uid)
        table[thing.uid] = thing
        return before, thing

    def _forget(self, thing: Thing) -> Change:
        return self._table(thing).pop(thing.uid, None), None

    def _remember(self, before: Thing | None, after: Thing | None, *, is_exact: bool) -> None:
        """`is_exact`: each change was seen; otherwise others may have happened between."""
        if isinstance(after, Node) and not after.is_ready:
            self.unready_once.add(after.name)
        if isinstance(after, Job):
            self._remember_job(before, after, is_exact=is_exact)
        pod = after or before
        if isinstance(pod, Pod):
            self._remember_pod(before, pod, is_exact=is_exact, is_there=after is not None)
            self._count_pods(pod.owner, pod.generation)

    def _remember_job(self, before: Thing | None, job: Job, *, is_exact: bool) -> None:
        if "Running" in job.conditions:
            self.ran_whole |= {(pod.owner, pod.generation) for pod in self.pods.values() if pod.owner == job.uid}
        if not job.end:
            self.unended_versions[job.uid] = job.version
        elif is_exact and isinstance(before, Job) and not before.end:
            self.unended_versions[job.uid] = job.version - 1

    def _remember_pod(self, before: Thing | None, pod: Pod, *, is_exact: bool, is_there: bool) -> None:
        if pod.phase in ENDED:
            self.ended_pods.setdefault(pod.uid, pod)
        if (pod.phase == "Failed" and not (pod.deleted and is_exact)) or not is_there:
            self.failed.add((pod.owner, pod.generation))
        was_running = isinstance(before, Pod) and before.phase == "Running" and not before.deleted
        if was_running and pod.deleted:
            self.stopped.setdefault(pod.uid, pod)

    def _count_pods(self, owner: str, generation: str) -> None:
        pods = [pod for pod in self.pods.values() if (pod.owner, pod.generation) == (owner, generation) and pod.node]
        if any(pod.holds_devices for pod in pods):
            self.bound_once.setdefault((owner, generation), set()).update(pod.uid for pod in pods)
        else:
            self.bound_once.pop((owner, generation), None)


def read_object(kind: str, manifest: Manifest) -> Thing:
    """Reduces a manifest."""
    if kind == "Pod":
        return _pod(manifest)
    return _node(manifest) if kind == "Node" else _job(kind, manifest)


def _pod(manifest: Manifest) -> Pod:
    about, spec, status = manifest["metadata"], manifest["spec"], manifest.get("status") or {}
    annotations, owner = about.get("annotations") or {}, _owner(about)
    return Pod(
        uid=about["uid"],
        name=about["name"],
        owner=owner or annotations.get(GANG) or about["name"],
        generation=(about.get("labels") or {}).get(GENERATION, ""),
        node=spec.get("nodeName") or "",
        phase=status.get("phase", "Pending"),
        deleted="deletionTimestamp" in about,
        devices=sum(_devices(each.get("resources") or {}) for each in spec["containers"]),
        version=int(about["resourceVersion"]),
        size=int(annotations.get(SIZE, 0)),
        ends="" if owner else annotations.get(ENDS, ""),
        is_owned=bool(owner),
        is_lost=any(end.get("reason") in _LOST for _, end in _container_ends(status)),
        why="; ".join([*_reason(status), *(f"{name} {_in_words(end)}" for name, end in _container_ends(status))]),
    )


def _container_ends(status: Manifest) -> Iterator[tuple[str, Manifest]]:
    for each in status.get("containerStatuses") or ():
        end = (each.get("state") or {}).get("terminated") or (each.get("lastState") or {}).get("terminated")
        if end:
            yield each["name"], end


def _reason(status: Manifest) -> Iterator[str]:
    if status.get("reason"):
        yield f"{status['reason']}: {status.get('message', '')}"


def _in_words(end: Manifest) -> str:
    return " ".join([str(end["exitCode"]), *(end[key] for key in ("reason", "message") if end.get(key))])


def _owner(about: Manifest) -> str:
    return next((each["uid"] for each in about.get("ownerReferences") or () if each.get("controller")), "")


def _devices(resources: Manifest) -> int:
    return int((resources.get("limits") or {}).get(GPU, 0))


def _node(manifest: Manifest) -> Node:
    status = manifest.get("status") or {}
    ready = ("Ready", "True") in _conditions(status)
    amount = int((status.get("allocatable") or {}).get(GPU, 0))
    return Node(manifest["metadata"]["uid"], manifest["metadata"]["name"], amount, ready)


def _job(kind: str, manifest: Manifest) -> Job:
    about, status = manifest["metadata"], manifest.get("status") or {}
    annotations = about.get("annotations") or {}
    counts = status.get("replicaStatuses")
    return Job(
        uid=about["uid"],
        kind=kind,
        name=about["name"],
        owner=_owner(about),
        size=int(annotations.get(SIZE, 0)),
        ends=annotations.get(ENDS, ""),
        phase=(status.get("windlass") or {}).get("phase", ""),
        conditions=frozenset(name for name, value in _conditions(status) if value == "True"),
        active=None if counts is None else sum(each.get("active", 0) for each in counts.values()),
        version=int(about["resourceVersion"]),
    )


def _conditions(status: Manifest) -> Iterator[tuple[str, str]]:
    listed: Iterable[Manifest] = status.get("conditions") or ()
    return ((each["type"], each["status"]) for each in listed)
