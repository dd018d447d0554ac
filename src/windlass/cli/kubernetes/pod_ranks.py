"""Maps the pods of a job to ranks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.backends.local.state_reader import Task
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.labels import DEFAULT_CONTAINER, GENERATION
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.parsed_job import Member

Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PodRank:
    """One pod. `rank` is its index among the job's pods, in the order of their ranks."""

    name: str
    namespace: str
    uid: str
    generation: int
    rank: int
    role: str
    replica: int
    node: str
    container: str
    """Name of the main container."""
    phase: str
    code: int | None
    detail: str

    @property
    def has_started(self) -> bool:
        """Whether its log can be read."""
        return self.phase in ("Running", "Succeeded", "Failed")


def ranks_of_pods(found: JobObject, pods: Sequence[Pod]) -> list[PodRank]:
    """Returns every pod of a job, by generation and rank; pods of no member come last."""
    members = _members(found)
    made = [_rank(pod, members) for pod in pods]
    return sorted(made, key=lambda each: (each.generation, each.rank, each.name))


def pod_tasks(found: JobObject, pods: Sequence[Pod]) -> list[Task]:
    """Returns the pods in the form in which the API describes ranks."""
    return [
        Task(
            found.id, each.generation, each.rank, each.role, each.replica, each.node, code=each.code, detail=each.detail
        )
        for each in ranks_of_pods(found, pods)
    ]


def pod_nodes(pods: Sequence[Pod]) -> list[str]:
    """Returns the nodes of pods that have not ended."""
    living = [pod for pod in pods if (pod.get("status") or {}).get("phase") in ("Pending", "Running")]
    return list(dict.fromkeys(node for pod in living if (node := (pod.get("spec") or {}).get("nodeName"))))


def _members(found: JobObject) -> dict[str, tuple[int, Member]]:
    """Returns the members of a job with their indices, by the names of their pods."""
    parsed = found.parsed()
    if isinstance(parsed, Fault):
        return {}
    placement = found.state().status.placement
    sizes = Counter({role: len(nodes) for role, nodes in placement.nodes.items()}) if placement else Counter[str]()
    made = registry.members(parsed, 1, sizes) if sizes else registry.members(parsed, 1)
    return {member.name: (number, member) for number, member in enumerate(made)}


def _rank(pod: Pod, members: Mapping[str, tuple[int, Member]]) -> PodRank:
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    number, member = members.get(metadata["name"], (len(members), None))
    container = _main(pod)
    code, detail = _end(status, container, metadata["name"])
    return PodRank(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=int((metadata.get("labels") or {}).get(GENERATION) or 1),
        rank=number,
        role=member.role if member else "",
        replica=member.index if member else 0,
        node=spec.get("nodeName") or "",
        container=container,
        phase=status.get("phase") or "",
        code=code,
        detail=detail,
    )


def _main(pod: Pod) -> str:
    named = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
    return str(named or pod["spec"]["containers"][0]["name"])


def _end(status: Mapping[str, Any], container: str, name: str) -> tuple[int | None, str]:
    """Returns the exit code and a description of the end; (None, "") while the pod runs."""
    containers = status.get("containerStatuses") or []
    own: Mapping[str, Any] = next((each for each in containers if each.get("name") == container), {})
    ended = (own.get("state") or {}).get("terminated")
    if not ended:
        return None, ""
    code = int(ended.get("exitCode") or 0)
    reason = ended.get("reason") or ""
    return code, f"{name} exited with code {code}{f' ({reason})' if reason not in ('', 'Error', 'Completed') else ''}"
