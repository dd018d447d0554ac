"""What is left of a job that has ended: which of its objects go, and when the job's own does."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.jobs.kubernetes.parsed_job import ParsedJob

LIVE = ("Running", "Pending")
_GOES = {"None": (), "Running": LIVE, "All": (*LIVE, "Succeeded", "Failed", "Unknown")}


def goes(parsed: ParsedJob, phase: str) -> bool:
    """Whether cleanPodPolicy takes a pod of this phase away; one that pends would run yet. Its own service goes too."""
    return phase in _GOES[parsed.policy.clean]


def left_over(parsed: ParsedJob, phases: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the pods that go, of pods' phases by name."""
    return tuple(name for name, phase in phases.items() if goes(parsed, phase))
