"""Check of E3: what each rank of three jobs wrote at its end, and the role of the pod that was rank 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab
from windlass.labs.evidence.pod_records import PodRecord, read_pods

KINDS = {"PyTorchJob": "pytorchjob.yaml", "TFJob": "tfjob.yaml", "TrainJob": "trainjob.yaml"}
VARIABLES = {
    "PyTorchJob": "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
    "TFJob": "TF_CONFIG: `cluster` lists the hosts of each role, `task` is the own role and index",
    "TrainJob": "PET_NODE_RANK, PET_NNODES, PET_MASTER_ADDR and PET_MASTER_PORT",
}
ROLE = "training.kubeflow.org/replica-type"
LEADS = {"PyTorchJob": "master", "TFJob": "chief"}


class MeetingReport(msgspec.Struct):
    """The content that a rank leaves in /dev/termination-log."""

    rank: int
    world: int
    sum: int
    host: str


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the newest job of each kind that has ended with success, else at any job of the kind."""
    pods = read_pods(lab)
    for kind in KINDS:
        jobs: dict[str, list[PodRecord]] = {}
        for pod in pods:
            if pod.owner_kind == kind:
                jobs.setdefault(pod.owner_uid, []).append(pod)
        ended = [job for job in jobs.values() if all(pod.succeeded for pod in job)]
        yield Finding(bool(ended), f"a {kind} has succeeded", advise(kind, [*jobs.values()]))
        if not ended:
            return
        yield from compare(kind, max(ended, key=lambda job: max(pod.finished_at for pod in job)))


def compare(kind: str, pods: Sequence[PodRecord]) -> Iterator[Finding]:
    """Yields whether every pod was one rank of all, and the right one rank 0."""
    reports = [_report_of(pod) for pod in pods]
    found = [report for report in reports if report is not None]
    yield Finding(
        len(found) == len(pods),
        f"{kind}: each rank has left its report",
        f"a pod of {pods[0].owner} left no report: let each pod run whoami.py, whose main() writes it",
    )
    world = len(pods)
    yield Finding(
        world > 2,
        f"{kind}: there are three ranks or more",
        f"{pods[0].owner} has {world} pods: with three the order of the ranks shows; take the numbers of {KINDS[kind]}",
    )
    yield Finding(
        sorted(report.rank for report in found) == list(range(world)) and {each.world for each in found} == {world},
        f"{kind}: the {world} pods have the ranks 0 to {world - 1}",
        f"the pods of {pods[0].owner} took themselves for ranks {', '.join(f'{e.rank} of {e.world}' for e in found)}. "
        f"Each pod counts, the one that leads too. The place is in {VARIABLES[kind]}",
    )
    yield Finding(
        {report.sum for report in found} == {sum(range(world))},
        f"{kind}: all ranks have met and added up their ranks",
        f"the sums are {', '.join(str(report.sum) for report in found)}, and {sum(range(world))} is right for {world}",
    )
    lead = next((pod for pod, report in zip(pods, reports, strict=True) if report and report.rank == 0), pods[0])
    yield _leads(kind, lead)


def _leads(kind: str, lead: PodRecord) -> Finding:
    """Whether rank 0 is the pod whose address the others got."""
    if kind not in LEADS:
        index = lead.labels.get("batch.kubernetes.io/job-completion-index", "")
        return Finding(index == "0", f"{kind}: rank 0 is the pod of index 0", f"{lead.name} is rank 0 and not that pod")
    return Finding(
        lead.labels.get(ROLE) == LEADS[kind],
        f"{kind}: rank 0 is the {LEADS[kind]}",
        f"rank 0 is {lead.name}: the {LEADS[kind]} comes before the workers",
    )


def _has_lead(kind: str, pods: Sequence[PodRecord]) -> bool:
    return any(pod.labels.get(ROLE) == LEADS[kind] for pod in pods)


def advise(kind: str, jobs: Sequence[Sequence[PodRecord]]) -> str:
    """Returns the next thing to try for a kind without a job that has succeeded."""
    if not jobs:
        return f"no pods of a {kind}: kubectl apply -f {KINDS[kind]}"
    pods = jobs[-1]
    if kind in LEADS and not _has_lead(kind, pods):
        return f"{pods[0].owner} has workers alone: give the job one pod of the role {LEADS[kind].capitalize()}, rank 0"
    states = ", ".join(f"{pod.name} is {pod.phase}" for pod in pods)
    return (
        f"{states}. `kubectl logs {pods[0].name}` shows its environment, and how far it came. identity() has to read "
        f"{VARIABLES[kind]}. Ranks that run on wait for one that never comes: two have the same number, or the number "
        f"of all is wrong. Then `kubectl delete -f {KINDS[kind]}`, renew the ConfigMap, and apply the file again"
    )


def _report_of(pod: PodRecord) -> MeetingReport | None:
    try:
        return msgspec.json.decode(pod.message, type=MeetingReport)
    except msgspec.DecodeError:
        return None
