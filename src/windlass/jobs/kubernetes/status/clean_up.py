"""What is left of a job that has ended: which of its objects go, and when the job's own does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass.jobs.kubernetes.parsed import Parsed
from windlass.jobs.kubernetes.status.status_times import milliseconds

LIVE = ("Running", "Pending")
_GOES = {"None": (), "Running": LIVE, "All": (*LIVE, "Succeeded", "Failed", "Unknown")}


def goes(parsed: Parsed, phase: str) -> bool:
    """Whether cleanPodPolicy takes a pod of this phase away; one that pends would run yet. Its own service goes too."""
    return phase in _GOES[parsed.policy.clean]


def left_over(parsed: Parsed, phases: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the pods that go, of pods' phases by name."""
    return tuple(name for name, phase in phases.items() if goes(parsed, phase))


def services_of(pods: Iterable[str], services: Iterable[str]) -> tuple[str, ...]:
    """The names of the services that go with their pods. One that is the whole job's stays: its name is no pod's."""
    gone = set(pods)
    return tuple(name for name in services if name in gone)


def expires_at(parsed: Parsed, status: Mapping[str, Any]) -> int | None:
    """When the object of a job that has ended is to go, in ms; None: never, or it has not ended."""
    ended = milliseconds(status.get("completionTime"))
    return None if ended is None or parsed.policy.ttl is None else ended + parsed.policy.ttl
