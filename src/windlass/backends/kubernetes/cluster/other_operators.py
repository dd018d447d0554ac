"""Finds other operators and schedulers in a cluster: those that serve one of our kinds, and compatible ones.

Sources: the manifests of kubeflow/training-operator v1.9, mpi-operator v0.8, trainer v2.3, Kueue, Volcano, KAI,
scheduler-plugins, YuniKorn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import DEPLOYMENTS, LEASES
from windlass.jobs.kubernetes.bounded_integers import parse_integer
from windlass.jobs.kubernetes.status.status_times import milliseconds

_NOT_OF_NODES = "metadata.namespace!=kube-node-lease"
_TRAINING = ("PyTorchJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob", "MPIJob")


@dataclass(frozen=True, slots=True)
class _Known:
    """A known operator, identified by a part of its image's name or by its lease."""

    name: str
    image: str
    leases: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()


_KNOWN = (
    _Known("the training operator", "/training-operator", ("1ca428e5.training-operator.kubeflow.org",), _TRAINING),
    _Known("the MPI operator", "mpi-operator", ("mpi-operator",), ("MPIJob",)),
    _Known("the trainer v2", "trainer-controller-manager", ("trainer.kubeflow.org",), ("TrainJob",)),
    _Known("Kueue", "/kueue", ("c1f6bfd2.kueue.x-k8s.io",)),
    _Known("Volcano", "vc-controller-manager", ("vc-controller-manager",)),
    _Known("Volcano's scheduler", "vc-scheduler"),
    _Known("KAI", "kai-scheduler"),
    _Known("scheduler-plugins", "scheduler-plugins"),
    _Known("YuniKorn", "yunikorn"),
)


@dataclass(frozen=True, slots=True)
class OtherOperator:
    """An operator that is present."""

    name: str
    place: str
    """Namespace and name of its deployment or its lease."""
    serves: tuple[str, ...]
    """Kinds of ours for which it would create pods, too."""

    def __str__(self) -> str:
        """Describes it for people: "the MPI operator (kubeflow/mpi-operator)"."""
        return f"{self.name} ({self.place})"


async def find_rivals(connection: Connection, now: float) -> list[OtherOperator]:
    """Returns the operators of a cluster; `now` in seconds since the epoch. Raises ApiError, Unreachable."""
    deployments, leases = await asyncio.gather(
        connection.list(DEPLOYMENTS), connection.list(LEASES, fields=_NOT_OF_NODES)
    )
    return rivals_among(deployments, leases, now)


def rivals_among(
    deployments: Iterable[Mapping[str, Any]], leases: Iterable[Mapping[str, Any]], now: float
) -> list[OtherOperator]:
    """Returns operators with at least one replica, or with a fresh lease."""
    fresh = {each["metadata"]["name"]: each for each in leases if age_of(each, now) < _lasts(each)}
    running = [each for each in deployments if each.get("spec", {}).get("replicas", 1)]
    found = []
    for known in _KNOWN:
        where = [*_deployed(known, running), *(_place(fresh[name]) for name in known.leases if name in fresh)]
        if where:
            found.append(OtherOperator(known.name, where[0], known.serves))
    return found


def age_of(lease: Mapping[str, Any], now: float) -> float:
    """Returns the seconds since a lease was renewed; infinite if it never was."""
    renewed = lease.get("spec", {}).get("renewTime")
    at = milliseconds(renewed)
    return float("inf") if at is None else now - at / 1000


def parse_time(moment: str) -> float:
    """Parses a time of the API. Returns seconds since the epoch."""
    return datetime.fromisoformat(moment).timestamp()


def _deployed(known: _Known, deployments: Sequence[Mapping[str, Any]]) -> list[str]:
    return [_place(each) for each in deployments if any(known.image in image for image in _images(each))]


def _images(deployment: Mapping[str, Any]) -> list[str]:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return [f"/{each.get('image', '')}" for each in containers]


def _place(thing: Mapping[str, Any]) -> str:
    metadata = thing["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}"


def _lasts(lease: Mapping[str, Any]) -> float:
    """Returns twice the lease's duration: one renewal may be late."""
    return 2.0 * (parse_integer(lease.get("spec", {}).get("leaseDurationSeconds")) or 0)
