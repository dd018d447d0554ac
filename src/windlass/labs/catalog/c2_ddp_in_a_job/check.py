"""Check of C2: the volumes of a Job's pod, and the report that rank 0 left at the end."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from windlass.core.model.resources import QuantityError, parse_quantity
from windlass.labs.evidence.findings import EvidenceError, Finding
from windlass.labs.evidence.lab import Lab
from windlass.labs.evidence.pod_records import PodRecord, read_pods

SAMPLES = 40
SHARED = "/dev/shm"  # noqa: S108 - a path of containers
SETTINGS = {"configMap", "secret", "projected", "downwardAPI"}
"""Sources of volumes that hold settings and code."""
AGAIN = "kubectl delete job train, then kubectl apply -f job.yaml"
ADVICE = "mount a volume `emptyDir: {medium: Memory, sizeLimit: 512Mi}` there"


class RunReport(msgspec.Struct):
    """The content of /dev/termination-log: the samples that each rank read."""

    parts: list[list[int]]


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the pod of a Job that ended last with success, else at the one that ended last."""
    # 1. the pod
    pods = [pod for pod in read_pods(lab) if pod.owner_kind == "Job"]
    yield Finding(
        bool(pods),
        "a Job has a pod",
        "kubectl create configmap code --from-file train.py --from-file prepare.py, then kubectl apply -f job.yaml",
    )
    if not pods:
        return
    pod = max(pods, key=lambda each: (each.succeeded, each.finished_at))
    # 2. its volumes
    yield _has_data(pod)
    yield from _shares_memory(pod)
    # 3. its end, and the ranks
    yield Finding(pod.succeeded, f"{pod.name} has succeeded", _advise(pod))
    yield from _trained(pod)


def _has_data(pod: PodRecord) -> Finding:
    """Whether the container sees a volume for data, beside those with code and settings."""
    folders = [folder for folder, volume in pod.volumes.items() if folder != SHARED and not SETTINGS & volume.keys()]
    return Finding(
        bool(folders),
        "the container sees a volume with data",
        f"{pod.name} has none: add one at /data, and an init container that runs prepare.py for it, as in A2",
    )


def _shares_memory(pod: PodRecord) -> Iterator[Finding]:
    """Yields whether /dev/shm is a volume in memory, and has a size of its own."""
    what = f"{SHARED} is a volume in memory"
    volume = pod.volumes.get(SHARED)
    if volume is None:
        given = "has the 64 MiB that a container runtime gives"
        if pod.shares_ipc:
            given = "is that of the node, which all its pods with hostIPC share; remove hostIPC"
        yield Finding(met=False, what=what, fix=f"{SHARED} {given}: {ADVICE}")
        return
    folder = volume.get("emptyDir") or {}
    yield Finding(
        folder.get("medium") == "Memory",
        what,
        f"the volume at {SHARED} is on the disk of the node, and batches are written to it: {ADVICE}",
    )
    size = folder.get("sizeLimit")
    yield Finding(
        bool(size),
        f"the size of {SHARED} is stated",
        f"{SHARED} may fill the memory of the pod or of the node: state sizeLimit in its emptyDir",
    )
    yield Finding(
        not (size and pod.memory_limit) or _amount(size) < _amount(pod.memory_limit),
        f"the memory limit has room for {SHARED}",
        f"{SHARED} has {size}, and its files count against the memory limit of {pod.memory_limit}: state less, or "
        "raise the limit",
    )


def _amount(quantity: str) -> int:
    try:
        return parse_quantity("memory", quantity)
    except QuantityError as error:
        raise EvidenceError(str(error), f"write it so in job.yaml. {AGAIN}") from None


def _advise(pod: PodRecord) -> str:
    if pod.reason == "OOMKilled":
        return f"{pod.name} was killed at its memory limit, which counts {SHARED} too: raise limits.memory. {AGAIN}"
    if pod.exit_code is None:
        return f"{pod.name} is {pod.phase}: wait for its end, and look at it with kubectl describe pod {pod.name}"
    return f"{pod.name} has failed: kubectl logs {pod.name} | windlass doctor -. After the change: {AGAIN}"


def _trained(pod: PodRecord) -> Iterator[Finding]:
    """Yields what the report says about the ranks and their samples."""
    report = _report_of(pod)
    fix = f"{pod.name} has none: let it run train.py. {AGAIN}"
    yield Finding(report is not None, "rank 0 has left its report", fix)
    if report is None:
        return
    ranks = len(report.parts)
    yield Finding(
        ranks > 3,
        "four ranks or more have trained",
        f'{pod.name} has run {ranks} of them: [torchrun, --nproc-per-node, "4", /code/train.py] starts four. {AGAIN}',
    )
    read = sorted(number for part in report.parts for number in part)
    yield Finding(
        read == list(range(SAMPLES)),
        f"each of the {SAMPLES} samples was read once",
        f"the ranks have read {len(set(read))} samples in {len(read)} reads: prepare.py has to write {SAMPLES} into "
        f"the volume. {AGAIN}",
    )


def _report_of(pod: PodRecord) -> RunReport | None:
    try:
        return msgspec.json.decode(pod.message, type=RunReport)
    except msgspec.DecodeError:
        return None
