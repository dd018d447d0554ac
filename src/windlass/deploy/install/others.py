"""Other operators and schedulers of a cluster: those that serve a kind of ours, and those that do not disturb.

Sources: the manifests of kubeflow/training-operator v1.9, mpi-operator v0.8, trainer v2.3, Kueue, Volcano, KAI,
scheduler-plugins, YuniKorn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass.deploy.install.findings import Finding, fine, odd, wrong

_TRAINING = ("PyTorchJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob", "MPIJob")
_ABOUT = "other operators"


@dataclass(frozen=True, slots=True)
class Other:
    """One of them, known by a part of its image's name or by its lease."""

    name: str
    image: str
    leases: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()
    """Kinds of ours that it would serve as well."""


KNOWN = (
    Other("the training operator", "/training-operator", ("1ca428e5.training-operator.kubeflow.org",), _TRAINING),
    Other("the MPI operator", "mpi-operator", ("mpi-operator",), ("MPIJob",)),
    Other("the trainer v2", "trainer-controller-manager", ("trainer.kubeflow.org",), ("TrainJob",)),
    Other("Kueue", "/kueue", ("c1f6bfd2.kueue.x-k8s.io",)),
    Other("Volcano", "vc-controller-manager", ("vc-controller-manager",)),
    Other("Volcano's scheduler", "vc-scheduler"),
    Other("KAI", "kai-scheduler"),
    Other("scheduler-plugins", "scheduler-plugins"),
    Other("YuniKorn", "yunikorn"),
)


def findings_of_others(
    deployments: Iterable[Mapping[str, Any]], leases: Iterable[Mapping[str, Any]], now: float
) -> Iterator[Finding]:
    """One for each that is there; `now` in seconds since the epoch."""
    # 1. Who is deployed with at least one replica, or holds a lease that is fresh.
    fresh = {each["metadata"]["name"]: each for each in leases if age_of(each, now) < _lasts(each)}
    running = [each for each in deployments if each.get("spec", {}).get("replicas", 1)]
    none = True
    for other in KNOWN:
        where = [*_deployed(other, running), *(_place(fresh[name]) for name in other.leases if name in fresh)]
        if where:
            none = False
            yield _finding(other, where)
    # 2. Or nobody.
    if none:
        yield fine(_ABOUT, "no other operator or batch scheduler was found")


def _finding(other: Other, where: Sequence[str]) -> Finding:
    there = f"{other.name} ({where[0]})"
    if not other.serves:
        return odd(_ABOUT, f"{there} runs beside Windlass", "nothing, if every pod names the scheduler that it means")
    kinds = ", ".join(other.serves)
    return wrong(
        _ABOUT,
        f"{there} serves {kinds} as well: both would make a job's pods",
        "scale it to 0, or have its jobs say runPolicy.managedBy",
    )


def _deployed(other: Other, deployments: Sequence[Mapping[str, Any]]) -> list[str]:
    return [_place(each) for each in deployments if any(other.image in image for image in _images(each))]


def _images(deployment: Mapping[str, Any]) -> list[str]:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return [f"/{each.get('image', '')}" for each in containers]


def _place(thing: Mapping[str, Any]) -> str:
    metadata = thing["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}"


def age_of(lease: Mapping[str, Any], now: float) -> float:
    """Seconds since a lease was renewed; infinite if it never was."""
    renewed = lease.get("spec", {}).get("renewTime")
    return now - seconds(renewed) if renewed else float("inf")


def _lasts(lease: Mapping[str, Any]) -> float:
    """Twice as long as it is held: one renewal may be late."""
    return 2.0 * float(lease.get("spec", {}).get("leaseDurationSeconds") or 0)


def seconds(moment: str) -> float:
    """Of the API's moments, since the epoch."""
    return datetime.fromisoformat(moment).timestamp()
