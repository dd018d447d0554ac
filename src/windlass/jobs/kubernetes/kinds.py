"""The kinds of foreign jobs: a row for each, found by API version and kind."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from windlass.jobs.kubernetes import jaxjob, mpijob_v1, mpijob_v2, paddlejob, pytorchjob, tfjob, xgboostjob
from windlass.jobs.kubernetes.parsed import Member, Parsed
from windlass.jobs.kubernetes.reading import Fault, Manifest, Refused, Spot
from windlass.jobs.names import did_you_mean


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: how it is read, and what it becomes."""

    api_version: str
    name: str
    plural: str
    read: Callable[[Spot], Parsed]
    """Raises Refused."""
    members: Callable[[Parsed, int], list[Member]]
    companions: Callable[[Parsed, Collection[str]], list[Manifest]]


V1, V2 = "kubeflow.org/v1", "kubeflow.org/v2beta1"
_Alone = Callable[[Parsed], list[Manifest]]


def _alone(companions: _Alone) -> Callable[[Parsed, Collection[str]], list[Manifest]]:
    """Companions that do not depend on which pods run."""
    return lambda parsed, _running: companions(parsed)


KINDS = (
    Kind(V1, "PyTorchJob", "pytorchjobs", pytorchjob.read, pytorchjob.members, _alone(pytorchjob.companions)),
    Kind(V1, "TFJob", "tfjobs", tfjob.read, tfjob.members, _alone(tfjob.companions)),
    Kind(V1, "JAXJob", "jaxjobs", jaxjob.read, jaxjob.members, _alone(jaxjob.companions)),
    Kind(V1, "XGBoostJob", "xgboostjobs", xgboostjob.read, xgboostjob.members, _alone(xgboostjob.companions)),
    Kind(V1, "PaddleJob", "paddlejobs", paddlejob.read, paddlejob.members, _alone(paddlejob.companions)),
    Kind(V1, "MPIJob", "mpijobs", mpijob_v1.read, mpijob_v1.members, mpijob_v1.companions),
    Kind(V2, "MPIJob", "mpijobs", mpijob_v2.read, mpijob_v2.members, mpijob_v2.companions),
)
_BY_NAME = {(kind.api_version, kind.name): kind for kind in KINDS}


def read(manifest: Any) -> Parsed | Fault:
    """What a manifest asks for, or the first thing that is wrong with it. Raises nothing, whatever it holds."""
    try:
        spot = Spot(manifest)
        return _kind(spot["apiVersion"], spot["kind"]).read(spot)
    except Refused as refused:
        return refused.fault


def members(parsed: Parsed, generation: int) -> list[Member]:
    """Every pod that a generation of the job is, in the order of ranks. Nobody may change what pods share."""
    return _BY_NAME[parsed.api_version, parsed.kind].members(parsed, generation)


def companions(parsed: Parsed, running: Collection[str] = ()) -> list[Manifest]:
    """Every object that must stand beside the pods, in the order in which to make them.

    `running`: names of the pods that run; MPI's script that discovers hosts tells them.
    """
    return _BY_NAME[parsed.api_version, parsed.kind].companions(parsed, running)


def _kind(api_version: Spot, kind: Spot) -> Kind:
    version, name = api_version.text(), kind.text()
    versions = [each.api_version for each in KINDS if each.name == name]
    if not versions:
        kind.refuse(
            f"{name[:40]!r} is no kind of job that is known here{did_you_mean(name, sorted({k.name for k in KINDS}))}"
        )
    if version not in versions:
        api_version.refuse(f"expects {' or '.join(versions)} for a {name}")
    return _BY_NAME[version, name]
