"""Objects of other writers of every watched kind, with seeded random faults: what any tenant can hand in.

Each is valid at first; then values of its labels, annotations, spec or status are replaced. The API server refuses
some of them; the operator meets all others.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from . import jobs
from .mutations import JUNK

Manifest = dict[str, Any]
GANG, SIZE = "windlass.dev/gang", "windlass.dev/gang-size"
NUMBERS = (
    *("1" * 4_309, "000000001" + "0" * 4_300, "9" * 19, "9" * 40, "-1", "0", "1", "2", "1e9", "1.5", "²", "٣", "1_0"),
    *(" 1", "", "0x1", "NaN", "Infinity", "1e99", "99999999999E", "1n", "-5Gi", ".", "true", "null"),
)
TEXTS = (
    *NUMBERS,
    *("[" * 20_000, "{}", "[]", '{"first": 1}', '{"nodes": {"n1": [1]}}', '{"nodes": {"n1": ["a"]}, "name": "../.."}'),
    *('{"number": 1e999}', "\x1b[31m", "\u202e", "\ud7ff", "a/b", "../..", "x" * 5_000, "0000-12-31T23:59:59Z", "{"),
)
TIMES = ("0000-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-30T00:00:00Z", "x")
LABELS = (
    *(GANG, "windlass.dev/generation", "windlass.dev/role", "windlass.dev/queue", "windlass.dev/index"),
    *("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "scheduling.k8s.io/group-name"),
    *("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/restart-attempt"),
    *("batch.kubernetes.io/job-completion-index", "volcano.sh/task-spec", "kubernetes.io/hostname"),
    *("topology.kubernetes.io/zone", "nvidia.com/gpu.product", "training.kubeflow.org/replica-index"),
)
ANNOTATIONS = (
    *(SIZE, "windlass.dev/state", "windlass.dev/cancel", "windlass.dev/cordoned", "windlass.dev/pending"),
    *("scheduling.k8s.io/group-name", "windlass.dev/agent", "batch.kubernetes.io/job-completion-index"),
)
STATES: tuple[Any, ...] = (
    *(None, "", "garbage", 7, [], {}, {"state": "{"}, {"revision": 2**62}, {"number": -1, "revision": 1}),
    {"number": 2**63 - 1, "revision": 2**63 - 1, "phase": "Running", "generation": 2**31, "state": "{}"},
    *(
        {"number": 1, "revision": revision, "phase": "Running", "generation": 1, "state": state}
        for revision in (1, 10**9)
        for state in (
            '{"phase": "Succeeded"}',
            '{"phase": "Running", "generation": 1, "is_gone": false, "placed": 0}',
            '{"phase": "Queued", "queued_at": ' + "9" * 30 + "}",
            '{"succeeded_members": "' + "f" * 5_000 + '"}',
            '{"succeeded_members": "-1"}',
            '{"phase": "Nothing"}',
            '{"last_failure": {"kind": "user", "reason": "x", "message": "", "at": -1}}',
            "[" * 20_000,
            "1" * 5_000,
        )
    ),
    {
        "number": 1,
        "revision": 3,
        "phase": "Running",
        "generation": 1,
        "state": '{"phase": "Running", "generation": 1, "is_gone": false, "placed": 3}',
        "placements": '{"revision": 3, "placement": {"nodes": {"nobody": ["n1", "n1"], "worker": ["gone"]}}}',
    },
)


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """An object to create below `path`, and the writes that follow, each to a subresource ("" for the object)."""

    path: str
    manifest: Manifest
    writes: list[tuple[str, Manifest]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.manifest["metadata"]["name"])


def foreign_objects(count: int, seed: int) -> Iterator[ForeignObject]:
    """Objects of all kinds in turn, with unique names."""
    chance = random.Random(seed)  # noqa: S311 - faults, not secrets
    makers = tuple(MAKERS.values())
    for number in range(count):
        yield makers[number % len(makers)](f"odd-{seed}-{number}", chance)


def damaged(manifest: Manifest, chance: random.Random, part: str = "spec", most: int = 3) -> Manifest:
    """Replaces up to so many values of a part, and the values of some labels and annotations."""
    made = copy.deepcopy(manifest)
    about = made["metadata"]
    for name, keys in (("labels", LABELS), ("annotations", ANNOTATIONS)):
        if chance.random() < 0.3:
            texts = [text for text in TEXTS if len(text) < 64] if name == "labels" else TEXTS
            about[name] = {**about.get(name, {}), chance.choice(keys): chance.choice(texts)}
    for _ in range(chance.choice((0, 0, 1, 1, 2, most))):
        spots = list(_spots(made.get(part)))
        if spots:
            holder, key = chance.choice(spots)
            holder[key] = copy.deepcopy(chance.choice((*JUNK, *TEXTS)))
    return made


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in list(pairs):
        yield value, key
        yield from _spots(each)


def _pod(name: str, chance: random.Random) -> ForeignObject:
    """A pod of a scheduler or of another one; it asks for a resource that no node has, so that it takes no room."""
    group = f"group-{chance.randrange(8)}"
    labels = chance.choice(({}, {GANG: group}, {"scheduling.x-k8s.io/pod-group": group}, _of_job_set(group)))
    notes = {SIZE: chance.choice(NUMBERS)} if GANG in labels and chance.random() < 0.8 else {}
    if chance.random() < 0.2:
        notes["scheduling.k8s.io/group-name"] = group
    resources = {"requests": {"cpu": "1m"}, "limits": {"example.com/odd": "1"}}
    spec = {
        "schedulerName": chance.choice(("windlass", "windlass", "other")),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "priority": 0,
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a"}],
        "containers": [{"name": "a", "image": "a", "resources": resources, "ports": [{"containerPort": 1}]}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": f"odd-{chance.randrange(8)}"}}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_term()]}}
        },
    }
    for optional in ("priority", "nodeSelector", "tolerations", "volumes", "affinity"):
        if chance.random() < 0.6:
            del spec[optional]
    whole = _object("v1", "Pod", name, spec, labels=labels, annotations=notes)
    message = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": chance.choice(TEXTS)}
    container = {"name": "a", "ready": False, "image": "a", "imageID": "", "restartCount": 2**31 - 1, "lastState": {}}
    container["state"] = {"terminated": {"exitCode": -(2**31), "startedAt": chance.choice(TIMES)}}
    status = {"conditions": [message], "containerStatuses": [container], "startTime": chance.choice(TIMES)}
    status = damaged({"metadata": {}, "status": status}, chance, "status", 1)["status"]
    return ForeignObject("/api/v1/namespaces/default/pods", damaged(whole, chance), [("status", {"status": status})])


def _endless_number(name: str, chance: random.Random) -> ForeignObject:
    """A pod whose gang has a size that `int` refuses to read."""
    pod = _pod(name, chance).manifest
    pod["metadata"] |= {"labels": {GANG: name}, "annotations": {SIZE: chance.choice(NUMBERS[:2])}}
    pod["spec"] = {"schedulerName": "windlass", "containers": [{"name": "a", "image": "a"}]}
    return ForeignObject("/api/v1/namespaces/default/pods", pod)


def _of_job_set(group: str) -> dict[str, str]:
    names = {"jobset.sigs.k8s.io/jobset-name": group, "jobset.sigs.k8s.io/replicatedjob-name": "a"}
    return {GANG: group, **names}


def _term() -> Manifest:
    return {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}


def _groups(api_version: str, plural: str, spec: Manifest, kind: str = "PodGroup") -> Callable[..., ForeignObject]:
    def make(name: str, chance: random.Random) -> ForeignObject:
        name = f"group-{chance.randrange(8)}" if chance.random() < 0.5 else name
        whole = damaged(_object(api_version, kind, name, spec), chance)
        status = {
            "phase": chance.choice(JUNK),
            "conditions": chance.choice((*JUNK, [{"type": 1}, {"type": "Scheduled"}])),
        }
        later = damaged(_object(api_version, kind, name, spec), chance)
        writes = [("status", {"status": status}), ("", {"spec": later["spec"]})]
        return ForeignObject(f"/apis/{api_version}/namespaces/default/{plural}", whole, writes)

    return make


def _node(name: str, chance: random.Random) -> ForeignObject:
    """A node that no healthy job may use."""
    away = {"key": "example.com/odd", "value": "a", "effect": "NoSchedule"}
    whole = damaged(
        _object("v1", "Node", name, {"taints": [away], "unschedulable": True}, namespace=""), chance, "none"
    )
    amounts = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "4", "pods": "110", "example.com/a": "1"}
    amounts[chance.choice(tuple(amounts))] = chance.choice(("9" * 40, "1e99", "-1", "1n", "0.5", "1Ei", "9E", "x"))
    times = {"lastTransitionTime": chance.choice(TIMES), "lastHeartbeatTime": chance.choice(TIMES)}
    ready = {"type": "Ready", "status": chance.choice(("True", "False", "Unknown", "odd")), **times}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
    return ForeignObject("/api/v1/nodes", whole, [("status", {"status": status})])


def _namespace(name: str, chance: random.Random) -> ForeignObject:
    labels = {"windlass.dev/queue": chance.choice(("nowhere", "default", "x" * 63, "A_b"))}
    return ForeignObject("/api/v1/namespaces", damaged(_object("v1", "Namespace", name, {}, "", labels=labels), chance))


def _claim(name: str, chance: random.Random) -> ForeignObject:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": f"odd-{chance.randrange(4)}",
        "volumeName": f"odd-{chance.randrange(4)}",
    }
    name = f"odd-{chance.randrange(8)}" if chance.random() < 0.5 else name
    whole = damaged(_object("v1", "PersistentVolumeClaim", name, spec), chance)
    status = {"phase": chance.choice(("Bound", "Lost", "Pending", "odd"))}
    return ForeignObject("/api/v1/namespaces/default/persistentvolumeclaims", whole, [("status", {"status": status})])


def _volume(name: str, chance: random.Random) -> ForeignObject:
    terms = {"required": {"nodeSelectorTerms": [_term()] * chance.choice((1, 2, 300))}}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/a"},
        "claimRef": {"name": "odd-1", "namespace": "default"},
        "nodeAffinity": terms,
    }
    name = f"odd-{chance.randrange(4)}" if chance.random() < 0.5 else name
    return ForeignObject(
        "/api/v1/persistentvolumes", damaged(_object("v1", "PersistentVolume", name, spec, ""), chance)
    )


def _class(name: str, chance: random.Random) -> ForeignObject:
    name = f"odd-{chance.randrange(4)}" if chance.random() < 0.5 else name
    topologies = [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}]
    whole = _object("storage.k8s.io/v1", "StorageClass", name, {}, "")
    del whole["spec"]
    whole |= damaged({"metadata": {}, "spec": {"allowedTopologies": topologies}}, chance)["spec"]
    whole |= {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    return ForeignObject("/apis/storage.k8s.io/v1/storageclasses", whole)


def _priority(name: str, chance: random.Random) -> ForeignObject:
    whole = _object("scheduling.k8s.io/v1", "PriorityClass", name, {}, "")
    del whole["spec"]
    whole |= {"value": chance.choice((10**9, -(2**31), 0, 1, 2**31, "1")), "description": chance.choice(TEXTS)}
    return ForeignObject("/apis/scheduling.k8s.io/v1/priorityclasses", damaged(whole, chance))


def _own(kind: str, plural: str, spec: Manifest) -> Callable[..., ForeignObject]:
    def make(name: str, chance: random.Random) -> ForeignObject:
        named = "default" if kind == "SchedulingPolicy" and chance.random() < 0.5 else name
        whole = damaged(_object("windlass.dev/v1alpha1", kind, named, spec, ""), chance)
        status = {
            "pastUse": chance.choice((*TEXTS, '{"at": 1, "amounts": {"cpu": -1}}')),
            "conditions": chance.choice(JUNK),
        }
        return ForeignObject(f"/apis/windlass.dev/v1alpha1/{plural}", whole, [("status", {"status": status})])

    return make


def _job(name: str, chance: random.Random) -> ForeignObject:
    """A job of ours, suspended; what is written into its status is another writer's."""
    made = chance.choice((jobs.training_job(name, 2), jobs.pytorch_job(name, 2), jobs.pytorch_job(name, 2, gang=True)))
    policy = made["spec"].get("runPolicy", made["spec"])
    policy["suspend"] = True
    return ForeignObject(jobs.path(made), damaged(made, chance, "none"), [("status", foreign_status(chance))] * 2)


def foreign_status(chance: random.Random) -> Manifest:
    """A patch of a job's status, as a foreign writer sends it."""
    whole: Manifest = {"windlass": chance.choice(STATES)}
    for name in ("conditions", "replicaStatuses", "startTime", "training", "lastReadable", "state"):
        if chance.random() < 0.2:
            whole[name] = copy.deepcopy(chance.choice((*JUNK, *TIMES)))
    return {"status": whole}


def _batch_job(name: str, chance: random.Random) -> ForeignObject:
    pod = {"restartPolicy": "Never", "schedulerName": "windlass", "containers": [{"name": "a", "image": "a"}]}
    template = {"metadata": {"labels": {GANG: name}}, "spec": pod}
    spec = {"parallelism": 2, "completions": 2, "suspend": True, "template": template}
    return ForeignObject(
        "/apis/batch/v1/namespaces/default/jobs", damaged(_object("batch/v1", "Job", name, spec), chance)
    )


def _deep(name: str, chance: random.Random) -> ForeignObject:
    """An object that is nested deeper than a JSON decoder reads."""
    depth = chance.choice((200, 1_200, 5_000))
    deep = orjson.Fragment(b'{"a":[' * depth + b"1" + b"]}" * depth)
    made = _object("jobset.x-k8s.io/v1alpha2", "JobSet", name, {"replicatedJobs": deep})
    return ForeignObject("/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", made)


def _lease(name: str, chance: random.Random) -> ForeignObject:
    name = chance.choice(("mpi-operator", "1ca428e5.training-operator.kubeflow.org", name))
    seconds, at = (
        chance.choice((2**31 - 1, 1)),
        chance.choice(("0000-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z")),
    )
    spec = {"holderIdentity": "odd", "leaseDurationSeconds": seconds, "renewTime": at, "acquireTime": at}
    whole = _object("coordination.k8s.io/v1", "Lease", name, spec)
    return ForeignObject("/apis/coordination.k8s.io/v1/namespaces/default/leases", damaged(whole, chance))


def _object(api_version: str, kind: str, name: str, spec: Any, namespace: str = "default", **about: Any) -> Manifest:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **where, **about}, "spec": spec}


_REPLICATED = [{"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2}}}]
_ACCESS = {
    "max_priority": 5,
    "namespaceSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]},
}
_MINIMUM = {"minMember": 2, "queue": "default", "priorityClassName": "odd"}
_NATIVE = {"schedulingPolicy": {"gang": {"minCount": 2}}}
_WHEN = {"start": "2026-11-22T08:00Z", "end": "2099-11-22T18:00Z"}
MAKERS: dict[str, Callable[[str, random.Random], ForeignObject]] = {
    "Pod": _pod,
    "Pod with an endless gang size": _endless_number,
    "PodGroup (coscheduling)": _groups("scheduling.x-k8s.io/v1alpha1", "podgroups", _MINIMUM),
    "PodGroup (Volcano)": _groups("scheduling.volcano.sh/v1beta1", "podgroups", _MINIMUM),
    "PodGroup (native)": _groups("scheduling.k8s.io/v1alpha2", "podgroups", _NATIVE),
    "JobSet": _groups("jobset.x-k8s.io/v1alpha2", "jobsets", {"replicatedJobs": _REPLICATED}, "JobSet"),
    "Node": _node,
    "Namespace": _namespace,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "StorageClass": _class,
    "PriorityClass": _priority,
    "Queue": _own("Queue", "queues", {"weight": 2, "quota": {"gpu": 4}, "parent": "odd", "half_life": "7d", **_ACCESS}),
    "SchedulingPolicy": _own("SchedulingPolicy", "schedulingpolicies", {"reservations": 4, "min_runtime": "10m"}),
    "Reservation": _own("Reservation", "reservations", {"nodes": ["nowhere"], "reason": "odd", **_WHEN}),
    "status of a job": _job,
    "Job": _batch_job,
    "Lease": _lease,
    "deep object": _deep,
}
"""By what each shows: the function that makes one from its name."""
