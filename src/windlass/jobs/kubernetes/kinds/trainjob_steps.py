"""The steps of a TrainJob: the order in which the jobs of its runtime start, by their `dependsOn`.

A job that waits for the end of another one (`Complete`) belongs to a later step of the core's job (`core.model.steps`).
`Ready` makes no step: all pods of a step start together. A job is in the last step that its dependents allow, so that
jobs for which none waits run beside the trainer.
Source: sigs.k8s.io/jobset v0.10, api/jobset/v1alpha2 (DependsOn names jobs before it in the list).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.jobs.kubernetes.manifest_reader import ManifestField

_COMPLETE, _READY = "Complete", "Ready"


def steps_of(jobs: Sequence[ManifestField]) -> Mapping[str, int]:
    """Returns the step of each job of a runtime, by its name. Raises ManifestError."""
    names = [job["name"].text() for job in jobs]
    before_last = dict.fromkeys(names, 0)
    awaited = set()
    for index in reversed(range(len(jobs))):
        for other in jobs[index]["dependsOn"].items():
            name, ends = other["name"].text(), other["status"].choice((_COMPLETE, _READY), _READY) == _COMPLETE
            if name not in names[:index]:
                other["name"].refuse(f"{name[:60]!r} is no job of the runtime before {names[index]}")
            before_last[name] = max(before_last[name], before_last[names[index]] + ends)
            awaited |= {name} if ends else set()
    for job in jobs:
        if before_last[job["name"].text()] and job["name"].text() not in awaited:
            job["name"].refuse("has to go on after a step that waits for it: no job waits for its end (Complete)")
    last = max(before_last.values(), default=0)
    return {name: last - number for name, number in before_last.items()}
