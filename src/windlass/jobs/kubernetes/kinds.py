"""The kinds of foreign jobs: a row for each, found by API version and kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windlass.jobs.kubernetes import pytorchjob
from windlass.jobs.kubernetes.parsed import Member, Parsed
from windlass.jobs.kubernetes.reading import Fault, Manifest, Refused, Spot
from windlass.jobs.names import did_you_mean

GROUP = "kubeflow.org/"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: how it is read, and what it becomes."""

    api_version: str
    name: str
    plural: str
    read: Callable[[Spot], Parsed]
    """Raises Refused."""
    members: Callable[[Parsed, int], list[Member]]
    companions: Callable[[Parsed], list[Manifest]]


KINDS = (
    Kind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", pytorchjob.read, pytorchjob.members, pytorchjob.companions),
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


def companions(parsed: Parsed) -> list[Manifest]:
    """Every object that must stand beside the pods, in the order in which to make them."""
    return _BY_NAME[parsed.api_version, parsed.kind].companions(parsed)


def _kind(api_version: Spot, kind: Spot) -> Kind:
    version, name = api_version.text(), kind.text()
    versions = [each.api_version for each in KINDS if each.name == name]
    if not versions:
        kind.refuse(f"{name[:40]!r} is no kind of job that is known here{did_you_mean(name, {k.name for k in KINDS})}")
    if version not in versions:
        api_version.refuse(f"expects {' or '.join(versions)} for a {name}")
    return _BY_NAME[version, name]
