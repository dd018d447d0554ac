"""Members that serve the others, and end only when they are told to: of gangs whose life is the core's."""

from __future__ import annotations

from windlass.jobs.kubernetes.parsed_job import ParsedJob

_LAUNCHERS = ("Launcher", "launcher")
"""Of MPIJobs, and of TrainJobs with MPI: whoever is started by one runs sshd, or sleeps."""
_SERVERS = {"TFJob": ("PS", "Evaluator")}


def serving(parsed: ParsedJob) -> frozenset[str]:
    """Their roles. When all others have succeeded the job has."""
    types = [each.type for each in parsed.replicas]
    launched = any(each in _LAUNCHERS for each in types)
    others = [each for each in types if each not in _LAUNCHERS] if launched else _SERVERS.get(parsed.kind, ())
    return frozenset(each.role for each in parsed.replicas if each.type in others)
