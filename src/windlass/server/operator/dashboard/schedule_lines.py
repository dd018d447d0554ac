"""CronTrainingJobs of a cluster as lines of the table of schedules, with their last runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.core.model.status import TERMINAL
from windlass.jobs.kubernetes.labels import SCHEDULE
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.schedules.cron_training_job import is_run_of
from windlass.jobs.kubernetes.schedules.schedule_row import schedule_row

Json = dict[str, Any]
_LAST_RUNS = 3


def schedule_lines(backend: KubernetesBackend, is_shown: Callable[[str], bool]) -> Iterator[Json]:
    """Yields the schedules whose ids are shown, by namespace and name."""
    ended = _ended_runs(backend.jobs)
    for manifest in backend.schedules.manifests():
        about = manifest["metadata"]
        if is_shown(f"{about['namespace']}/{about['name']}"):
            user = backend.monitor.lookups.of(about["namespace"]).guard.user_of(about)
            yield {**_line(manifest, ended, backend.now()), "user": user}


def _ended_runs(gangs: Iterable[Gang]) -> dict[tuple[str, str], list[Gang]]:
    """Jobs that have ended, by their namespace and the name of a schedule."""
    found: dict[tuple[str, str], list[Gang]] = defaultdict(list)
    for gang in gangs:
        labels = gang.parsed.manifest["metadata"].get("labels") or {}
        if SCHEDULE in labels and gang.status.phase in TERMINAL:
            found[gang.reference.namespace, labels[SCHEDULE]].append(gang)
    return found


def _line(manifest: Manifest, ended: dict[tuple[str, str], list[Gang]], now: int) -> Json:
    about, row = manifest["metadata"], schedule_row(manifest, now)
    namespace, name = str(about["namespace"]), str(about["name"])
    runs = [gang for gang in ended.get((namespace, name), ()) if is_run_of(gang.parsed.manifest, about["uid"])]
    latest = sorted(runs, key=lambda gang: -(gang.status.finished_at or 0))[:_LAST_RUNS]
    return {
        **row,
        "id": f"{namespace}/{name}",
        "active": [f"{namespace}/{each}" for each in row["active"]],
        "runs": [_run(gang) for gang in latest],
    }


def _run(gang: Gang) -> Json:
    status = gang.status
    return {"id": gang.id, "phase": status.phase, "reason": status.reason, "finished_at": status.finished_at}
