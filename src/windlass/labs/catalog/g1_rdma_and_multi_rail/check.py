"""Check of G1: the pods that the learner's manifests become, and the findings that lint still has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab

EFA, ADAPTERS = "vpc.amazonaws.com/efa", 32
NETWORKS = "k8s.v1.cni.cncf.io/networks"
RAILS = {"rdma/rail0": "nvidia.com/rail0", "rdma/rail1": "nvidia.com/rail1"}
"""Network → the resource of its devices."""
Pod = Mapping[str, Any]


def check(lab: Lab) -> Iterator[Finding]:
    """Renders both files as the operator does, and looks at their pods."""
    # 1. the pasted job is still the job that was pasted
    pasted = lab.pods_of("pasted.yaml")
    yield _is_whole(pasted, "pasted.yaml")
    if not pasted:
        return
    # 2. nothing obsolete, invented or harmful is left
    found = lab.lint("pasted.yaml")
    first = f"{found[0].message}: {found[0].fix}" if found else ""
    silenced = "windlass: ignore" in (lab.file("pasted.yaml") or "")
    comment = " Remove the comment too: a comment that ignores a rule repairs nothing." if silenced else ""
    yield Finding(
        not found, "pasted.yaml: lint finds no fault", f"line {found[0].place.line}: {first}{comment}" if found else ""
    )
    # 3. it has the whole network of its machines
    yield from _whole_network(pasted[0])
    # 4. the rails
    rails = lab.pods_of("rails.yaml")
    yield _is_whole(rails, "rails.yaml")
    if rails:
        yield from _two_rails(rails[0])


def _is_whole(pods: Sequence[Pod], name: str) -> Finding:
    gpus = [_limits(pod).get("nvidia.com/gpu") for pod in pods]
    return Finding(
        [str(each) for each in gpus] == ["8", "8"],
        f"{name}: 2 pods with 8 GPUs each",
        f"{name} has to stay a job of 2 pods with 8 GPUs each; windlass lab start g1 --fresh restores it",
    )


def _whole_network(pod: Pod) -> Iterator[Finding]:
    adapters = str(_limits(pod).get(EFA, 0))
    yield Finding(
        adapters == str(ADAPTERS),
        f"pasted.yaml: a pod requests all {ADAPTERS} EFA adapters of its machine",
        f"a pod requests {adapters} EFA adapters, and p5.48xlarge has {ADAPTERS}: write the amount, or name the "
        "network in the annotation windlass.dev/network",
    )
    without = {"name": "FI_EFA_USE_HUGE_PAGE", "value": "0"} in _container(pod).get("env", [])
    yield Finding(
        without or str(_limits(pod).get("hugepages-2Mi")) == "5120Mi",
        "pasted.yaml: huge pages for libfabric, or libfabric does not ask for them",
        "request hugepages-2Mi: 5120Mi, or set FI_EFA_USE_HUGE_PAGE to 0 (efa,hugepages=0)",
    )


def _two_rails(pod: Pod) -> Iterator[Finding]:
    text = str(pod["metadata"].get("annotations", {}).get(NETWORKS, ""))
    attached = [name.strip().partition("@")[0] for name in text.split(",") if name.strip()]
    yield Finding(
        sorted(attached) == sorted(RAILS),
        "rails.yaml: Multus attaches both networks to a pod",
        f"a pod attaches {', '.join(attached) or 'no network'}, and the machines have {' and '.join(RAILS)}: "
        "try the profile roce-sriov with networks=",
    )
    missing = [resource for resource in RAILS.values() if str(_limits(pod).get(resource)) != "1"]
    yield Finding(
        not missing,
        "rails.yaml: a pod requests one device of each rail",
        f"a pod requests other than one device of {' and one of '.join(missing)}: "
        "name the administrator's pools with resource=",
    )
    added = _container(pod).get("securityContext", {}).get("capabilities", {}).get("add", [])
    yield Finding(
        "IPC_LOCK" in added,
        "rails.yaml: the container may pin memory (IPC_LOCK)",
        "RDMA pins memory: a profile adds the capability, or write it under securityContext",
    )


def _container(pod: Pod) -> Mapping[str, Any]:
    found: Mapping[str, Any] = pod["spec"]["containers"][0]
    return found


def _limits(pod: Pod) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _container(pod).get("resources", {}).get("limits", {})
    return found
